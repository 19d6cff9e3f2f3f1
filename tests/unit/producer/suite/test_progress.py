"""A suite's bars, its pace and the time that it has left."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from contract.ledger import Counts, Run, RunState
from contract.verdict import Outcome
from producer.suite.cell import Cell
from producer.suite.progress import Board
from producer.watching.pace import Rates
from producer.watching.progress import Snapshot
from producer.watching.screens import BarScreen, LineScreen
from producer.watching.worker_status import Member
from tests.unit.producer.suite.conftest import cell


def worker(state: str = "ready", queue: str = "score.m") -> Member:
    return Member(f"of {queue}", state, queue, None, None, None, on_gpu=False)


def board_of(*cells: Cell) -> Board:
    """A board that shows one line for the cells' runs."""
    return Board(LineScreen(Console(file=io.StringIO())), "mine", [(each.entry, each.run) for each in cells])


def put(
    board: Board,
    run: Run,
    settled: int,
    state: RunState = RunState.RUNNING,
    crew: Sequence[Member] = (worker(),),
    *,
    served: bool = True,
    put_off: bool = False,
) -> None:
    """Tell the board that so many of a run's questions are settled."""
    counts = Counts(total=run.questions, todo=run.questions - settled, outcomes={Outcome.CORRECT: settled}, state=state)
    rates = Rates(0.0, 0.0, 0.0, 1.0)
    board.put(Snapshot(run.run_id, counts, rates, crew, served=served, put_off=put_off))


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


@pytest.mark.parametrize("others", [[], [worker(queue="retrieve.wiki")]], ids=["alone", "beside a retriever"])
def test_the_boot_of_the_first_worker_of_the_model_does_not_slow_the_mean_pace(others: list[Member]) -> None:
    found = cell("a", "m", 0, 60, unsettled=60)
    board = board_of(found)

    for second, settled, state in ((0, 0, "booting"), (30, 0, "booting"), (40, 20, "ready")):
        put(board, found.run, settled, crew=[*others, worker(state)])
        board.draw(second)

    assert "mine: 20/60" in board.line()
    assert "2.0/s over 0:10" in board.line(), "as of the run alone"


def test_the_time_left_of_a_suite_is_as_short_after_a_pause_as_before() -> None:
    found = cell("a", "m", 0, 60, unsettled=60)
    board = board_of(found)

    for second, settled in {0: 0, 10: 20, 11: 20, 1000: 20, 1001: 20, 1010: 40}.items():
        state = RunState.PAUSED if 10 < second <= 1000 else RunState.RUNNING
        put(board, found.run, settled, state)
        board.draw(second)
        assert board.line().endswith("paused") == (state is RunState.PAUSED)

    assert "2.0/s over 0:20" in board.line()
    assert "0:10 left" in board.line()


@pytest.mark.parametrize(
    ("state", "left"), [(RunState.CANCELLED, "0:10 left"), (RunState.PAUSED, "0:10 left, 1 run paused")]
)
def test_questions_that_nobody_begins_are_not_in_the_time_left_of_a_suite(state: RunState, left: str) -> None:
    going, halted = (cell(entry, "m", 0, 60, unsettled=60) for entry in ("a", "b"))
    board = board_of(going, halted)

    for second, settled in ((0, 0), (20, 40)):
        put(board, going.run, settled)
        put(board, halted.run, 0, state)
        board.draw(second)

    assert board.line().endswith(f" · {left}")


@pytest.mark.parametrize(
    ("put_off", "left"),
    [([True, True], "2 runs put off"), ([False, True], "0:10 left, 1 run put off"), ([False, False], "0:40 left")],
)
def test_runs_that_workers_put_off_are_not_in_the_time_left_of_a_suite(put_off: list[bool], left: str) -> None:
    cells = [cell(entry, "m", 0, 60, unsettled=60) for entry in ("a", "b")]
    board = board_of(*cells)

    for second, settled in ((0, 0), (20, 40)):
        for each, off, of_run in zip(cells, put_off, (settled, 0), strict=True):
            put(board, each.run, of_run, put_off=off)
        board.draw(second)

    assert board.line().endswith(f" · {left}")


def test_the_mean_of_a_suite_leaves_out_its_pause_but_not_the_work_before_it() -> None:
    found = cell("a", "m", 0, 60, unsettled=60)
    board = board_of(found)

    running, paused = RunState.RUNNING, RunState.PAUSED
    for second, settled, state in ((0, 0, running), (10, 0, running), (70, 0, paused), (80, 20, running)):
        put(board, found.run, settled, state)
        board.draw(second)

    assert "1.0/s over 0:20" in board.line()


def test_a_cancelled_suite_is_not_done_while_workers_finish_what_they_have_begun() -> None:
    found = cell("a", "m", 0, 60, unsettled=60, state=RunState.CANCELLED)
    board = board_of(found)

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
    cells = [cell(entry, "m", 0, 4, unsettled=4) for entry in ("a", "b")]
    board = board_of(*cells)

    for second, settled in ((0, 0), (4, 2)):
        for each, there in zip(cells, served, strict=True):
            put(board, each.run, settled, served=there)
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
