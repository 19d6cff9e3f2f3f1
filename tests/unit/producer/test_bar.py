"""The bar of what reads all of a large run."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

from contract.ledger import MemoryLedger, RunState
from contract.verdict import Outcome
from producer import bar
from producer.bar import with_bar
from producer.corpus.progress import Steps
from tests.support import make_questions, open_run
from tests.unit.producer.conftest import Producer, WriteRows, settle_whole


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal is sent when every moment counts as long."""
    sent = io.StringIO()
    monkeypatch.setattr(bar, "progress_console", lambda: Console(file=sent, force_terminal=True, width=80))
    monkeypatch.setattr(bar, "MOMENT_S", 0.0)
    return sent


def test_all_items_pass_beside_the_bar(screen: io.StringIO) -> None:
    assert list(with_bar(range(5), "work", 5)) == [0, 1, 2, 3, 4]
    assert "work" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K"), "it is cleared at its end"


def test_a_bar_that_is_left_early_leaves_the_terminal_as_it_was(screen: io.StringIO) -> None:
    with closing(with_bar(range(5), "work", 5)) as items:
        assert [next(items) for _ in range(3)] == [0, 1, 2]
    shown, hidden = screen.getvalue().rindex("\x1b[?25h"), screen.getvalue().rindex("\x1b[?25l")
    assert hidden < shown, "the cursor"


def test_what_is_over_in_a_moment_shows_no_bar(screen: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bar, "MOMENT_S", float("inf"))
    assert list(with_bar(range(5), "work", 5)) == [0, 1, 2, 3, 4]
    assert screen.getvalue() == ""


def test_the_bar_begins_after_what_makes_the_items(screen: io.StringIO) -> None:
    def made() -> Iterator[int]:
        assert screen.getvalue() == "", "a process is not forked beside the bar's thread"
        yield from range(3)

    assert list(with_bar(made(), "work", 3)) == [0, 1, 2]


@pytest.mark.parametrize(("command", "doing"), [("export", "export"), ("report", "report"), ("watch", "results")])
def test_commands_that_read_a_whole_run_show_how_far_they_are_on_a_terminal(
    command: str, doing: str, producer: Producer, ledger: MemoryLedger, screen: io.StringIO
) -> None:
    run = open_run(ledger, make_questions(1_200))
    ledger.halt(run.run_id, RunState.CANCELLED)
    producer(command, run.run_id, exit_code=4 if command == "watch" else 0)
    assert doing in screen.getvalue()


@pytest.mark.parametrize(("of_b", "exit_code"), [(20, 0), (19, 1)], ids=["the same questions", "different ones"])
def test_compare_shows_how_far_it_is_also_where_it_refuses(
    of_b: int, exit_code: int, producer: Producer, ledger: MemoryLedger, screen: io.StringIO
) -> None:
    runs = [open_run(ledger, make_questions(count), name).run_id for name, count in (("a", 20), ("b", of_b))]
    for run_id in runs:
        settle_whole(ledger, run_id, but=Outcome.FAILED)
    producer("compare", *runs, exit_code=exit_code)
    assert "compare" in screen.getvalue()


def test_a_suite_shows_how_far_it_is_with_each_run_that_it_reads(
    producer: Producer, write_rows: WriteRows, ledger: MemoryLedger, screen: io.StringIO
) -> None:
    rows = [{"question": f"q{n}", "choices": ["no", "yes"], "answer": "B", "context": "One."} for n in range(20)]
    write_rows(*rows)
    suite = Path("suite.yaml")
    suite.write_text("{name: mine, models: [small, large], entries: [{name: a, file: questions.jsonl}]}")
    producer("suite", suite)
    assert screen.getvalue() == ""
    for run in ledger.runs():
        settle_whole(ledger, run.run_id, but=Outcome.FAILED)

    producer("suite", suite, exit_code=3)

    assert all(doing in screen.getvalue() for doing in ("results", "compare"))


def test_without_a_terminal_there_is_no_bar(
    producer: Producer, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bar, "MOMENT_S", 0.0)
    assert producer("export", open_run(ledger, make_questions(1_200)).run_id).stderr == ""


def test_the_steps_of_a_build_are_told_in_lines_where_bars_cannot_be_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    out = io.StringIO()
    with Steps(Console(file=out, force_terminal=True)) as steps:
        for _ in steps.counted("documents", range(3)):
            pass
        assert out.getvalue().endswith(" documents 3/3\n")
