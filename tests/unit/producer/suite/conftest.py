"""What the tests of suites share: question sets, suite files, and runs with verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.ledger import Counts, MemoryLedger, Run, RunState
from contract.names import slug
from contract.verdict import Outcome
from producer.session import Session
from producer.suite.cell import Cell
from producer.suite.render import echo_figures
from producer.suite.table import Table
from tests.support import make_spec
from tests.unit.producer.conftest import Producer, WriteRows, settle_next


@pytest.fixture
def producer(session: Session) -> Producer:
    """Calls `python -m producer suite`."""
    return Producer(session, "suite")


@pytest.fixture
def sets(write_rows: WriteRows) -> tuple[Path, Path]:
    """Two question sets of four questions, which have none in common; B is always right."""

    def rows(what: str) -> list[dict[str, Any]]:
        return [{"id": f"q{n}", "question": f"{what} {n}?", "choices": ["no", "yes"], "answer": "B"} for n in range(4)]

    return write_rows(*rows("Red"), name="red.jsonl"), write_rows(*rows("Blue"), name="blue.jsonl")


def write_suite(entries: Sequence[Mapping[str, Any]], **more: Any) -> Path:
    path = Path("suite.yaml")
    path.write_text(yaml.safe_dump({"name": "mine", **more, "entries": list(entries)}))
    return path


@pytest.fixture
def two_by_two(sets: tuple[Path, Path]) -> Path:
    """Both sets asked of two models."""
    entries = [{"name": path.stem, "file": path.name} for path in sets]
    return write_suite(entries, models=["small", "large"])


def settle_all(ledger: MemoryLedger, right: int = 3) -> None:
    """Settle every run, with so many of its questions right."""
    for run in ledger.runs():
        settle_next(ledger, run.run_id, *[Outcome.CORRECT] * right, *[Outcome.WRONG] * (run.questions - right))


def cell(entry: str, model: str, right: int, of: int, **more: Any) -> Cell:
    """A run with so many of `of` questions right, none `unsettled` or `failed` unless `more` says so."""
    unsettled, failed = more.pop("unsettled", 0), more.pop("failed", 0)
    digest = more.pop("digest", entry[0].encode().hex()[:2] * 32)
    spec = make_spec(model=model, questions_digest=digest, **more.pop("spec", {}))
    run = Run(run_id=slug(f"{entry}-{model}"), spec=spec, source="made up", questions=of, chance=0.25, created_at=0.0)
    outcomes = {Outcome.CORRECT: right, Outcome.FAILED: failed, Outcome.WRONG: of - unsettled - failed - right}
    counts = Counts(total=of, todo=unsettled, outcomes=outcomes, state=more.pop("state", RunState.RUNNING))
    return Cell(entry, run, counts, **more)


def table(*cells: Cell, shared: bool = False) -> Table:
    return Table("mine", cells, shared)


def shown(found: Table, capsys: pytest.CaptureFixture[str]) -> str:
    echo_figures(found)
    return capsys.readouterr().out
