"""Checks the gold sources that a run's questions name against the index; recall is defined only for such questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.index import PASSAGES
from contract.question import Question
from contract.relevance import Sources, sources_of
from contract.wording import number
from producer.output import Lines

__all__ = ["Named", "named_sources"]

#: Column of an index → the kinds of names in a question that refer to it.
_COLUMNS = {
    "id": ("passages", "documents"),
    "document": ("passages", "documents"),
    "path": ("paths",),
    "question_hash": ("question_hashes",),
}


@dataclass(frozen=True, slots=True)
class Named:
    """How many questions name a source, and how many of those name one that is not in the index."""

    questions: int
    sourced: int
    #: Questions whose source is not in the index; None if its passages are on another machine and cannot be checked.
    lost: int | None
    #: The first of those questions, and what it names.
    example: str = ""
    #: Number of questions for which the index has some, but not all, of the passages that they name.
    partly: int = 0

    def lines(self) -> Lines:
        """Return the output lines."""
        if not self.sourced:
            return [("sources", "no question names its source, so there will be no recall")]
        text = f"{self.sourced:,} of {number(self.questions, 'question')} name their source"
        if self.lost is None:
            return [("sources", f"{text}; the index can be checked for it only where its passages are stored")]
        if self.lost:
            text += f"; for {self.lost:,} it is not in the index, so they count as not found: {self.example}"
        if self.partly:
            text += f"; for {self.partly:,} only some passages are, so the share of them that is found stays below 1"
        return [("sources", text)]

    def to_json(self) -> dict[str, Any]:
        """Return the content for `--json`."""
        partly = None if self.lost is None else self.partly
        return {"named_by": self.sourced, "not_in_index": self.lost, "partly_in_index": partly}


def named_sources(questions: Iterable[Question], index: Path, *, by_hash: bool) -> Named:
    """Look up the sources that `questions` name in the index in folder `index`.

    `by_hash`: whether its passages have question hashes.
    """
    table = _table(index / PASSAGES)
    count, sourced = 0, []
    for question in questions:
        count += 1
        if sources := sources_of(question, by_hash=by_hash):
            sourced.append((question.id, sources))
    if table is None:
        return Named(count, len(sourced), None)
    held = _held(table, _wanted(sources for _, sources in sourced))
    lost = [(question_id, sources) for question_id, sources in sourced if not _has(held, sources)]
    partly = sum(_has(held, sources) and not _has_all(held, sources.passages) for _, sources in sourced)
    return Named(count, len(sourced), len(lost), _example(*lost[0]) if lost else "", partly)


def _wanted(sources: Iterable[Sources]) -> dict[str, set[str]]:
    wanted: dict[str, set[str]] = {column: set() for column in _COLUMNS}
    for each in sources:
        for column, kinds in _COLUMNS.items():
            wanted[column].update(*(getattr(each, kind) for kind in kinds))
    return wanted


def _table(passages: Path) -> Any:
    """Return the passages of an index, memory-mapped; None if they cannot be read on this machine."""
    import pyarrow as pa

    try:
        return pa.ipc.open_file(pa.memory_map(str(passages))).read_all()
    except (OSError, pa.ArrowException):
        return None


def _held(table: Any, wanted: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the wanted names that occur in each column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    held: dict[str, set[str]] = {}
    for column, names in wanted.items():
        among = pa.array(sorted(names), pa.large_string())
        found = table.column(column)
        held[column] = set(found.filter(pc.is_in(found, value_set=among)).to_pylist()) if names else set()
    return held


def _has(held: Mapping[str, set[str]], sources: Sources) -> bool:
    return any(
        not held[column].isdisjoint(getattr(sources, kind)) for column, kinds in _COLUMNS.items() for kind in kinds
    )


def _has_all(held: Mapping[str, set[str]], passages: frozenset[str]) -> bool:
    return all(name in held["id"] or name in held["document"] for name in passages)


def _example(question_id: str, sources: Sources) -> str:
    names = sorted(sources.passages | sources.documents | sources.paths | sources.question_hashes)
    return f"{question_id} names {names[0]!r}"
