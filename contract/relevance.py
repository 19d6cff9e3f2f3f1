"""The passages that answer a question according to its file, used to evaluate retrieval.

A file names them by `gold_passages` (ids of passages, or of documents whose every passage answers), or by the metadata
`source_chunk_id` (a passage's id), `source_id` (the document's id, or a passage's), `source_path` (the document's path)
or `question_hash` (the hash of the question a passage was written for). Each of the last four may also be a list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from contract.question import Question
from contract.verdict import Passage

__all__ = ["Sources", "sources_of"]


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of the answer that a question names. Falsy if it names none."""

    #: Ids of passages, or of documents they were cut from.
    passages: frozenset[str]
    documents: frozenset[str]
    paths: frozenset[str]
    question_hashes: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.passages or self.documents or self.paths or self.question_hashes)

    def answered_by(self, passage: Passage) -> bool:
        """Whether `passage` is one of the sources."""
        return (
            not self.passages.isdisjoint((passage.id, passage.document))
            or not self.documents.isdisjoint((passage.id, passage.document))
            or passage.path in self.paths
            or passage.question_hash in self.question_hashes
        )

    def named_among(self, passages: Iterable[Passage]) -> frozenset[str]:
        """Return the ids in `self.passages` that match one of `passages` or its document."""
        return self.passages.intersection(name for each in passages for name in (each.id, each.document))

    def hit(self, passages: Iterable[Passage]) -> bool | None:
        """Whether one of `passages` is a source; None if the question names none."""
        return any(self.answered_by(each) for each in passages) if self else None


def sources_of(question: Question, *, by_hash: bool = True) -> Sources:
    """Return the sources named by `question`. `by_hash`: whether the passages have question hashes.

    If they have none, the question's hash is ignored: the reader adds one to every question with choices in its text.
    """

    def named(field: str) -> frozenset[str]:
        value = question.metadata.get(field)
        if value is None or value == "":
            return frozenset()
        listed = _listed(value)
        return frozenset([_name(value)] if listed is None else listed)

    def named_so(field: str) -> frozenset[str]:
        """Also by the text itself, as "[1]" may be a name or a list. Not for passages, whose number is counted with."""
        return named(field) | {str(question.metadata[field])} if named(field) else frozenset()

    return Sources(
        passages=frozenset(question.gold_passages) | named("source_chunk_id"),
        documents=named_so("source_id"),
        paths=named_so("source_path"),
        question_hashes=named("question_hash") if by_hash else frozenset(),
    )


def _listed(value: object) -> list[str] | None:
    """Return the names in a list, which metadata stores as JSON; None if `value` is not a list."""
    if not isinstance(value, str) or not value.startswith("["):
        return None
    try:
        names = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return [_name(each) for each in names if isinstance(each, str | int | float) and each != ""]


def _name(value: object) -> str:
    """Return an id as text; a number that became 1.0, as in a column with empty cells, is 1."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
