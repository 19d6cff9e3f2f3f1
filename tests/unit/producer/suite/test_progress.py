"""A suite's bars, its pace and the time that it has left."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from contract.ledger import Counts, RunState
from contract.verdict import Outcome
from producer.suite.progress import Board
from producer.watching.pace import Rates
from producer.watching.progress import Snapshot
from producer.watching.screens import BarScreen, LineScreen
from producer.watching.worker_status import Member
from tests.unit.producer.suite.conftest import cell


def test_a_terminal_gets_a_bar_for_each_run_under_way() -> None:
    text = io.StringIO()
    console = Console(file=text, width=120, height=40, force_terminal=True)
    cells = [cell("a", "m", 1, 4, unsettled=2), cell("b", "m", 4, 4)]
    board = Board(BarScreen(console), "mine", [(f"m {each.entry}", each.run) for each in cells])

    with board.screen:
        for each in cells:
            board.put(Snapshot(each.run.run_id, each.counts, Rates(1.0, 1.0, 1.0, 1.0)))
        board.tell("a-m", "Something.")
        board.draw(1.0)

    said = text.getvalue()
    assert "a-m: Something." in said
    assert "mine: 6/8 · 1 of 2 runs done" in said
    assert "m a" in said
    assert "2/4" in said
    assert "4/4" not in said


def test_the_boot_of_the_first_worker_does_not_slow_the_mean_pace() -> None:
    text = io.StringIO()
    waiting, done = cell("a", "m", 0, 60, unsettled=60), cell("a", "m", 20, 60, unsettled=40)
    board = Board(LineScreen(Console(file=text, width=200)), "mine", [("a", waiting.run)])

    for second, state in ((0, "booting"), (30, "booting"), (40, "ready")):
        member = Member("w", state, "score.m", None, None, None, on_gpu=False)
        counts = done.counts if second == 40 else waiting.counts
        board.put(Snapshot(waiting.run.run_id, counts, Rates(1.0, 1.0, 1.0, 1.0), [member]))
        board.draw(second)

    assert "mine: 20/60" in board.line()
    assert "2.0/s over 0:10" in board.line()


def test_a_retriever_that_is_ready_before_the_model_has_booted_does_not_slow_the_mean_pace() -> None:
    waiting, done = cell("a", "m", 0, 60, unsettled=60), cell("a", "m", 20, 60, unsettled=40)
    board = Board(LineScreen(Console(file=io.StringIO())), "mine", [("a", waiting.run)])
    retriever = Member("r", "ready", "retrieve.wiki", None, None, None, on_gpu=False)

    for second, state in ((0, "booting"), (30, "booting"), (40, "ready")):
        crew = [retriever, Member("w", state, "score.m", None, None, None, on_gpu=True)]
        counts = done.counts if second == 40 else waiting.counts
        board.put(Snapshot(waiting.run.run_id, counts, Rates(1.0, 1.0, 1.0, 1.0), crew))
        board.draw(second)

    assert "2.0/s over 0:10" in board.line(), "as of the run alone"


def test_the_time_left_of_a_suite_is_as_short_after_a_pause_as_before() -> None:
    run = cell("a", "m", 0, 60, unsettled=60).run
    board = Board(LineScreen(Console(file=io.StringIO())), "mine", [("a", run)])
    member = Member("w", "ready", "score.m", None, None, None, on_gpu=False)
    settled = {0: 0, 10: 20, 11: 20, 1000: 20, 1001: 20, 1010: 40}

    for second, count in settled.items():
        state = RunState.PAUSED if 10 < second <= 1000 else RunState.RUNNING
        counts = Counts(total=60, todo=60 - count, outcomes={Outcome.CORRECT: count}, state=state)
        board.put(Snapshot(run.run_id, counts, Rates(0.0, 0.0, 0.0, 1.0), [member]))
        board.draw(second)
        assert board.line().endswith("paused") == (state is RunState.PAUSED)

    assert "2.0/s over 0:20" in board.line()
    assert "0:10 left" in board.line()


@pytest.mark.parametrize(
    ("state", "left"), [(RunState.CANCELLED, "0:10 left"), (RunState.PAUSED, "0:10 left, 1 run paused")]
)
def test_questions_that_nobody_begins_are_not_in_the_time_left_of_a_suite(state: RunState, left: str) -> None:
    cells = [cell(entry, "m", 0, 60, unsettled=60) for entry in ("a", "b")]
    board = Board(LineScreen(Console(file=io.StringIO())), "mine", [(each.entry, each.run) for each in cells])
    member = Member("w", "ready", "score.m", None, None, None, on_gpu=False)

    for second, settled in ((0, 0), (20, 40)):
        for each, how in zip(cells, (RunState.RUNNING, state), strict=True):
            of_run = settled if how is RunState.RUNNING else 0
            counts = Counts(total=60, todo=60 - of_run, outcomes={Outcome.CORRECT: of_run}, state=how)
            board.put(Snapshot(each.run.run_id, counts, Rates(0.0, 0.0, 0.0, 1.0), [member]))
        board.draw(second)

    assert board.line().endswith(f" · {left}")


@pytest.mark.parametrize(
    ("put_off", "left"),
    [([True, True], "2 runs put off"), ([False, True], "0:10 left, 1 run put off"), ([False, False], "0:40 left")],
)
def test_runs_that_workers_put_off_are_not_in_the_time_left_of_a_suite(put_off: list[bool], left: str) -> None:
    cells = [cell(entry, "m", 0, 60, unsettled=60) for entry in ("a", "b")]
    board = Board(LineScreen(Console(file=io.StringIO())), "mine", [(each.entry, each.run) for each in cells])
    member = Member("w", "ready", "score.m", None, None, None, on_gpu=False)

    for second, settled in ((0, 0), (20, 40)):
        for each, off, of_run in zip(cells, put_off, (settled, 0), strict=True):
            counts = Counts(total=60, todo=60 - of_run, outcomes={Outcome.CORRECT: of_run})
            board.put(Snapshot(each.run.run_id, counts, Rates(0.0, 0.0, 0.0, 1.0), [member], put_off=off))
        board.draw(second)

    assert board.line().endswith(f" · {left}")


def test_the_mean_of_a_suite_leaves_out_its_pause_but_not_the_work_before_it() -> None:
    found = cell("a", "m", 0, 60, unsettled=60)
    board = Board(LineScreen(Console(file=io.StringIO(), width=200)), "mine", [("a", found.run)])
    member = Member("w", "ready", "score.m", None, None, None, on_gpu=False)

    running, paused = RunState.RUNNING, RunState.PAUSED
    for second, settled, state in ((0, 0, running), (10, 0, running), (70, 0, paused), (80, 20, running)):
        counts = Counts(total=60, todo=60 - settled, outcomes={Outcome.CORRECT: settled}, state=state)
        board.put(Snapshot(found.run.run_id, counts, Rates(0.0, 0.0, 0.0, 1.0), [member]))
        board.draw(second)

    assert "1.0/s over 0:20" in board.line()


def test_a_cancelled_suite_is_not_done_while_workers_finish_what_they_have_begun() -> None:
    found = cell("a", "m", 0, 60, unsettled=60, state=RunState.CANCELLED)
    board = Board(LineScreen(Console(file=io.StringIO(), width=200)), "mine", [("a", found.run)])

    for in_flight, told in ((True, "0 of 1 run done"), (False, "1 of 1 run done")):
        rates = Rates(0.0, 0.0, 0.0, 1.0)
        board.put(Snapshot(found.run.run_id, found.counts, rates, in_flight=in_flight))
        board.draw(1.0)
        assert told in board.line()
        assert board.over is not in_flight
        assert board.line().endswith("cancelled") is in_flight


@pytest.mark.parametrize(
    ("served", "left"),
    [([False, False], "no worker for 2 runs"), ([True, False], "no worker for 1 run"), ([True, True], "0:04 left")],
)
def test_a_suite_with_a_run_that_no_worker_serves_shows_no_time_left(served: list[bool], left: str) -> None:
    cells = [cell(entry, "m", 2, 4, unsettled=2) for entry in ("a", "b")]
    board = Board(LineScreen(Console(file=io.StringIO())), "mine", [(each.entry, each.run) for each in cells])
    member = Member("w", "ready", "score.m", None, None, None, on_gpu=False)

    for second, settled in ((0, 0), (4, 2)):
        for each, there in zip(cells, served, strict=True):
            counts = Counts(total=4, todo=4 - settled, outcomes={Outcome.CORRECT: settled})
            board.put(Snapshot(each.run.run_id, counts, Rates(0.0, 0.0, 0.0, 1.0), [member], served=there))
        board.draw(second)

    assert board.line().endswith(f" · {left}")


def test_more_bars_than_a_screen_holds_are_counted() -> None:
    text = io.StringIO()
    cells = [cell(f"a{n}", "m", 1, 4, unsettled=2) for n in range(17)]
    console = Console(file=text, width=120, height=40, force_terminal=True)
    board = Board(BarScreen(console), "mine", [(each.entry, each.run) for each in cells])

    with board.screen:
        for each in cells:
            board.put(Snapshot(each.run.run_id, each.counts, Rates(1.0, 1.0, 1.0, 1.0)))
        board.draw(1.0)

    assert "and 2 more runs" in text.getvalue()
    assert "a14" in text.getvalue()
    assert "a15" not in text.getvalue()
