"""Writing passages to the Arrow file of an index in a stream, and computing their digest and counts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from contract.errors import QuestionFileError
from contract.index import Chunking, IndexSize, StoredPassage
from producer.corpus.chunks import cut
from producer.corpus.document import Document

__all__ = ["Stored", "store_passages"]

#: Number of passages per write.
BATCH = 8192


class Stored(NamedTuple):
    """Facts about the passages that were written."""

    counts: IndexSize
    #: SHA-256 of the passages, in order.
    digest: str
    #: Number of passages with the same text as an earlier one.
    repeated: int
    #: Whether any passage has the hash of the question for which it was written.
    question_hashes: bool
    #: The id of the longest passage, and its length in characters.
    longest: tuple[str, int]


def store_passages(documents: Iterable[Document], chunking: Chunking, path: Path, corpus: Path) -> Stored:
    """Cut `documents` into passages and write them to `path`, a few thousand at a time.

    Only a hash of each passage's text stays in memory. The ids of the documents must be unique, which
    `producer/corpus/validation.py` ensures. Raises QuestionFileError if there are no passages.
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
                if len(pending) == BATCH:
                    flush()
        if pending:
            flush()
    if not passages:
        raise QuestionFileError("contains no passages.", path=corpus, hint="Use a corpus that has some.")
    counts = IndexSize(documents=count, passages=passages)
    return Stored(counts, digest.hexdigest(), passages - len(texts), question_hashes=hashed, longest=longest)
