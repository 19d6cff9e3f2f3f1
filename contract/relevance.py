"""Which passages answer a question, by what its file says: what retrieval is measured against.

A file names them by `gold_passages` (ids of passages), or by the metadata `source_chunk_id` (a passage's id),
`source_id` (the document's id, or a passage's), `source_path` (the document's path) or `question_hash` (the hash of
the question that a passage was written for).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from contract.question import Question
from contract.verdict import Passage

__all__ = ["Sources", "sources_of"]


@dataclass(frozen=True, slots=True)
class Sources:
    """What a question says of where its answer stands. Empty: it says nothing."""

    passages: frozenset[str] = frozenset()
    documents: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    question_hashes: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.passages or self.documents or self.paths or self.question_hashes)

    def answered_by(self, passage: Passage) -> bool:
        """Whether `passage` is one of them."""
        return (
            passage.id in self.passages
            or passage.id in self.documents
            or passage.document in self.documents
            or passage.path in self.paths
            or passage.question_hash in self.question_hashes
        )

    def hit(self, passages: Iterable[Passage]) -> bool | None:
        """Whether one of `passages` is among them; None if the question names none."""
        return any(self.answered_by(each) for each in passages) if self else None


def sources_of(question: Question) -> Sources:
    """What `question` says."""

    def named(field: str) -> frozenset[str]:
        value = question.metadata.get(field)
        return frozenset() if value is None or value == "" else frozenset({str(value)})

    return Sources(
        passages=frozenset(question.gold_passages) | named("source_chunk_id"),
        documents=named("source_id"),
        paths=named("source_path"),
        question_hashes=named("question_hash"),
    )
