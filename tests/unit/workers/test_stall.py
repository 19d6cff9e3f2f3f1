"""When a run is looked through for lost messages although others still wait."""

from __future__ import annotations

from workers.stall import StallWatch


def due_at(quiet: StallWatch, settled: int, seconds: range) -> list[int]:
    return [now for now in seconds if quiet.is_due("run", settled, now)]


def test_a_run_that_has_gone_quiet_is_looked_through_ever_more_rarely() -> None:
    assert due_at(StallWatch(), 5, range(0, 3000, 10)) == [30, 90, 210, 450, 930, 1530, 2130, 2730]


def test_a_run_of_which_nothing_is_settled_is_looked_through_as_well() -> None:
    assert due_at(StallWatch(), 0, range(0, 1000, 10)) == [30, 90, 210, 450, 930]


def test_a_run_that_goes_on_begins_to_count_anew() -> None:
    quiet = StallWatch()
    assert due_at(quiet, 5, range(100)) == [30, 90]
    assert due_at(quiet, 6, range(100, 140)) == [130]


def test_a_run_that_is_over_is_forgotten() -> None:
    quiet = StallWatch()
    quiet.is_due("run", 5, 0)
    quiet.keep_only(["another"])
    assert not quiet.is_due("run", 5, 100)
