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
    #: Passages whose text is that of one before, word for word.
    repeated: int
    #: Whether a passage has the hash of the question that it was written for.
    question_hashes: bool
    #: The one with the most characters: its id, and how many.
    longest: tuple[str, int]


def store_passages(documents: Iterable[Document], chunking: Chunking, path: Path, corpus: Path) -> Stored:
    """Cut `documents` into passages and write them to `path`, a few thousand at a time.

    Of each, a hash of its text stays in memory. Every document has an id of its own (`producer/corpus/validation.py`).
    Raises QuestionFileError for no passage at all.
    """
    import pyarrow as pa

    schema = pa.schema([(name, pa.large_string()) for name in StoredPassage._fields])
    digest, count, passages, hashed = hashlib.sha256(), 0, 0, False
    texts: set[int] = set()
    longest = ("", 0)
    pending: list[StoredPassage] = []
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:

        def flush() -> None:
            writer.write_batch(pa.record_batch(list(zip(*pending, strict=True)), schema=schema))
            pending.clear()

        for document in documents:
            count += 1
            for passage in cut(document, chunking):
                digest.update(json.dumps(passage, ensure_ascii=False).encode() + b"\n")
                passages += 1
                hashed = hashed or bool(passage.question_hash)
                texts.add(hash(passage.text))
                if len(passage.text) > longest[1]:
                    longest = passage.id, len(passage.text)
                pending.append(passage)
            if len(pending) >= BATCH:
                flush()
        if pending:
            flush()
    if not passages:
        raise QuestionFileError("there is no passage in it.", path=corpus, hint="Name a corpus that holds some.")
    counts = Counts(documents=count, passages=passages)
    return Stored(counts, digest.hexdigest(), passages - len(texts), question_hashes=hashed, longest=longest)
