"""What the questions of a run name as their source, held against the index: recall can be told of no others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.index import PASSAGES
from contract.question import Body, Question
from contract.relevance import Sources, sources_of
from producer.output import Lines, number

__all__ = ["Named", "named_sources"]

#: Column of an index → the names that a question may give for what stands there.
_COLUMNS = {
    "id": ("passages", "documents"),
    "document": ("passages", "documents"),
    "path": ("paths",),
    "question_hash": ("question_hashes",),
}


@dataclass(frozen=True, slots=True)
class Named:
    """How many questions name their source, and how many of those name one that cannot be found."""

    questions: int
    sourced: int
    #: None where the passages are elsewhere, so that nobody could look.
    lost: int | None
    #: The first of the lost, and what it names.
    example: str = ""

    def lines(self) -> Lines:
        """What a person is told."""
        if not self.sourced:
            return [("sources", "no question names its source: there will be no recall")]
        text = f"{self.sourced:,} of {number(self.questions, 'question')} name theirs"
        if self.lost is None:
            return [("sources", f"{text}; whether the index has it can only be seen where its passages are")]
        if self.lost:
            text += f"; of {self.lost:,} the index has none, and each counts as never found: {self.example}"
        return [("sources", text)]

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {"named_by": self.sourced, "not_in_index": self.lost}


def named_sources(bodies: Iterable[Body], index: Path) -> Named:
    """What the questions of `bodies` name, looked up in the index in folder `index`."""
    table = _table(index / PASSAGES)
    by_hash = table is None or _has_hashes(table)
    questions, sourced = 0, []
    for body in bodies:
        questions += 1
        if sources := sources_of(Question.model_validate_json(body.canonical), by_hash=by_hash):
            sourced.append((body.question_id, sources))
    if table is None:
        return Named(questions, len(sourced), None)
    held = _held(table, _wanted(sources for _, sources in sourced))
    lost = [(question_id, sources) for question_id, sources in sourced if not _has(held, sources)]
    return Named(questions, len(sourced), len(lost), _example(*lost[0]) if lost else "")


def _wanted(sources: Iterable[Sources]) -> dict[str, set[str]]:
    wanted: dict[str, set[str]] = {column: set() for column in _COLUMNS}
    for each in sources:
        for column, kinds in _COLUMNS.items():
            wanted[column].update(*(getattr(each, kind) for kind in kinds))
    return wanted


def _table(passages: Path) -> Any:
    """The passages of an index, mapped into memory; None where they cannot be read here."""
    import pyarrow as pa

    try:
        return pa.ipc.open_file(pa.memory_map(str(passages))).read_all()
    except (OSError, pa.ArrowException):
        return None


def _has_hashes(table: Any) -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(pc.not_equal(table.column("question_hash"), "")).as_py())


def _held(table: Any, wanted: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Those of the wanted names that stand in each column."""
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


def _example(question_id: str, sources: Sources) -> str:
    names = sorted(sources.passages | sources.documents | sources.paths | sources.question_hashes)
    return f"{question_id} names {names[0]!r}"
