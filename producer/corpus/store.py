"""Passages into the Arrow file of an index, as they come; and what can be said of them then."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from contract.errors import QuestionFileError
from contract.index import Chunking, Counts, StoredPassage
from producer.corpus.chunks import cut
from producer.corpus.document import Document

__all__ = ["Stored", "store_passages"]

#: Passages written at once.
BATCH = 8192


class Stored(NamedTuple):
    """What was written."""

    counts: Counts
    #: SHA-256 over the passages, in order.
    digest: str


def store_passages(documents: Iterable[Document], chunking: Chunking, path: Path, corpus: Path) -> Stored:
    """Cut `documents` into passages and write them to `path`, holding no more than a few thousand of them.

    Raises QuestionFileError where two documents have the same id, and where there is none at all.
    """
    import pyarrow as pa

    schema = pa.schema([(name, pa.large_string()) for name in StoredPassage._fields])
    digest, passages = hashlib.sha256(), 0
    seen: dict[str, int | None] = {}
    pending: list[StoredPassage] = []
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:

        def flush() -> None:
            writer.write_batch(pa.record_batch(list(zip(*pending, strict=True)), schema=schema))
            pending.clear()

        for document in documents:
            _refuse_twice(document, seen)
            seen[document.id] = document.line
            for passage in cut(document, chunking):
                digest.update(json.dumps(passage, ensure_ascii=False).encode() + b"\n")
                passages += 1
                pending.append(passage)
            if len(pending) >= BATCH:
                flush()
        if pending:
            flush()
    if not passages:
        raise QuestionFileError("there is no passage in it.", path=corpus, hint="Name a corpus that holds some.")
    return Stored(Counts(documents=len(seen), passages=passages), digest.hexdigest())


def _refuse_twice(document: Document, seen: dict[str, int | None]) -> None:
    if document.id not in seen:
        return
    first = seen[document.id]
    where = f"on line {first} too" if first is not None else "before"
    raise QuestionFileError(
        f"{document.id!r} stands {where}.",
        path=document.shown,
        line=document.line,
        field="id",
        hint="Give every document an id of its own; without ids, take out the one that repeats the other's text.",
    )
