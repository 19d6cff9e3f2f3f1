"""What a watch shows of a run: on a terminal, in a file, and in one line."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from contract.ledger import Counts, RunState
from contract.verdict import Outcome
from producer.bar import progress_console
from producer.watching.pace import Rates
from producer.watching.progress import Snapshot, describe_workers
from producer.watching.screens import BarScreen, LineScreen, screen_for
from producer.watching.worker_status import Member

CREW = (
    Member("cpu0@here", "ready", "score.small", 12.5, 0.5, 0.9, on_gpu=False),
    Member("gpu0@there", "ready", "score.small", 80.0, 1.0, 0.7, on_gpu=True),
    Member("gpu1@there", "booting", "score.small", None, None, None, on_gpu=True),
)


def snapshot(settled: int = 0, lately: float = 0.0, state: RunState = RunState.RUNNING) -> Snapshot:
    outcomes = {Outcome.CORRECT: settled - 1, Outcome.FAILED: 1} if settled else {}
    counts = Counts(total=1000, todo=1000 - settled, outcomes=outcomes, state=state)
    return Snapshot("run-1", counts, Rates(lately, lately, 2.5, 90.0), CREW, 12)


def test_a_worker_that_searches_does_not_make_those_that_score_look_idle() -> None:
    engine = Member("gpu0@there", "ready", "score.small", 80.0, 0.9, 0.9, on_gpu=True)
    index = Member("retrieve-facts@there", "ready", "retrieve.facts", 80.0, 0.1, 0.01, on_gpu=False)
    assert describe_workers([engine, index]) == "2 workers, fill 90 %, busy 90 %"
    assert describe_workers([index]) == "1 worker, fill 10 %, busy 1 %"


def test_a_run_of_which_all_has_failed_so_far_is_shown_without_an_accuracy() -> None:
    counts = Counts(total=1000, todo=998, outcomes={Outcome.FAILED: 2})
    assert Snapshot("run-1", counts, Rates(1.0, 1.0, 1.0, 1.0), CREW).accuracy() == "no accuracy, as all failed so far"


def test_if_some_failed_the_accuracy_without_them_stands_beside_that_over_all() -> None:
    counts = Counts(total=1000, todo=900, outcomes={Outcome.CORRECT: 40, Outcome.WRONG: 40, Outcome.FAILED: 20})
    shown = Snapshot("run-1", counts, Rates(1.0, 1.0, 1.0, 1.0), CREW)
    assert shown.accuracy() == "accuracy 0.400 (0.309 to 0.498), 0.500 without failed"


def test_where_unanswered_questions_may_have_no_key_the_accuracy_over_answered_ones_is_shown() -> None:
    outcomes = {Outcome.CORRECT: 150, Outcome.WRONG: 50, Outcome.UNANSWERED: 100, Outcome.ANSWERED: 200}
    counts = Counts(total=1000, todo=500, outcomes=outcomes)
    shown = Snapshot("run-1", counts, Rates(1.0, 1.0, 1.0, 1.0), CREW, without_key=500).accuracy()
    assert shown == "accuracy 0.750 (0.686 to 0.805) over answered questions"


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (snapshot(), "run-1: 0/1,000 · 0.0/s now, 2.5/s over 1:30"),
        (snapshot(), "no accuracy yet · 3 workers, 1 booting, fill 75 %, busy 80 % · 12 messages queued · 6:40 left"),
        (snapshot(500, 10.0), "correct 499 · wrong 0 · unanswered 0 · failed 1 · accuracy 0.998 (0.989 to 1.000)"),
        (snapshot(500, 10.0), "0:50 left"),
        (snapshot(500, 0.01), "13:53:20 left"),
        (snapshot(500, 10.0, RunState.PAUSED), "12 messages queued · paused"),
        (snapshot(1000), "12 messages queued · settled"),
    ],
)
def test_a_line_says_how_the_run_stands(shown: Snapshot, wanted: str) -> None:
    assert wanted in shown.line()


def test_lines_come_seconds_apart_and_the_last_one_always() -> None:
    out = io.StringIO()
    with LineScreen(Console(file=out, width=40)) as screen:
        for settled in (10, 20, 1000):
            screen.show(snapshot(settled))

    lines = out.getvalue().splitlines()
    assert [line.split()[2] for line in lines] == ["10/1,000", "1,000/1,000"]


def test_a_terminal_gets_a_bar_and_anything_else_lines() -> None:
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, width=100)

    assert isinstance(screen_for(Console(file=io.StringIO())), LineScreen)
    with screen_for(terminal) as screen:
        assert isinstance(screen, BarScreen)
        screen.say("a remark")
        screen.show(snapshot(500, 10.0))

    assert "a remark" in out.getvalue()
    assert "500/1,000" in out.getvalue()
    shown = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert "cpu0@here ready 12.5 50 % 90 % cores score.small" in shown
    assert "gpu0@there ready 80.0 100 % 70 % GPU score.small" in shown
    assert "gpu1@there booting – – – GPU score.small" in shown


@pytest.mark.parametrize("terminal", [True, False])
def test_a_message_is_in_one_piece_and_cannot_control_the_terminal(terminal: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=40)
    command = "Start one: python -m workers up --set 'indexes=[FOLDER OF elements]'"

    screen = screen_for(console)
    screen.say(command)
    screen.say("gpu0 failed to boot: \x1b[2Jout of memory at [0]:100:")

    assert command in out.getvalue()
    assert r"gpu0 failed to boot: \x1b[2Jout of memory at [0]:100:" in out.getvalue()


@pytest.mark.parametrize(
    ("variables", "terminal"),
    [({}, True), ({"TERM": "dumb"}, True), ({}, False), ({"FORCE_COLOR": "1"}, False), ({"NO_COLOR": "1"}, True)],
)
def test_the_picture_is_drawn_where_it_can_be_redrawn_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], terminal: bool
) -> None:
    for name, value in {"TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", stream)

    drawn = isinstance(screen_for(progress_console()), BarScreen)

    assert drawn == (terminal and variables != {"TERM": "dumb"})


def test_the_picture_of_a_run_fits_a_terminal_of_eighty_columns_without_a_broken_line() -> None:
    console = Console(file=io.StringIO(), width=80)

    counts = Counts(total=100_000, todo=50_000, outcomes={Outcome.CORRECT: 24_999, Outcome.WRONG: 25_001})
    rates = Rates(1000.0, 1000.0, 1000.0, 90.0)
    large = Snapshot("questions-qwen2.5-1.5b-instruct-1a2b3c4d", counts, rates, CREW, 6250)

    with console.capture() as captured:
        console.print(large.drawn())

    first, *others = captured.get().splitlines()
    assert first.startswith("questions-qwen2.5-1.5b-instruct-1a2b3c4d ━")
    assert first.endswith(" 50,000/100,000 0:50 left")
    assert [each.strip() for each in others[:3]] == [
        "correct 24,999 · wrong 25,001 · unanswered 0 · failed 0",
        "accuracy 0.500 (0.496 to 0.504) · 1,000.0/s now, 1,000.0/s over 1:30",
        "3 workers, 1 booting, fill 75 %, busy 80 % · 6,250 messages queued",
    ]


@pytest.mark.parametrize("width", [120, 80, 60, 40])
def test_a_long_name_and_a_narrow_terminal_cut_no_figure(width: int) -> None:
    name = "test-00000-of-00001-meta-llama-llama-3.1-8b-instruct-likelihood-a031542a"
    counts = Counts(total=100_000, todo=50_000, outcomes={Outcome.CORRECT: 24_999, Outcome.WRONG: 25_001})
    crew = [Member("gpu0@node-a100-01", "ready", f"score.{'m' * 40}", 1234.5, 1.0, 1.0, on_gpu=True)]
    console = Console(file=io.StringIO(), width=width)

    with console.capture() as captured:
        console.print(Snapshot(name, counts, Rates(1000.0, 1000.0, 1000.0, 90.0), crew, 6250).drawn())

    lines = captured.get().splitlines()
    assert name in "".join(lines[:2])
    assert " 50,000/100,000 0:50 left" in captured.get()
    row = lines[-1].split()
    assert row[:3] == ["gpu0@node-a100-01", "ready", "1,234.5"]
    whole = " ".join(row).partition(" score.")[0]
    assert "gpu0@node-a100-01 ready 1,234.5 100 % 100 % GPU".startswith(whole), "what has no room is left out"
