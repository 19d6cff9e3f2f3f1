"""How fast a run goes, and when it will be done, by what is settled from look to look; and each of its workers."""

from __future__ import annotations

import pytest

from contract.fleet import WorkerRecord, WorkerState
from contract.ledger import Counts
from contract.verdict import Outcome
from producer.watching.pace import Pace
from producer.watching.progress import Snapshot
from producer.watching.worker_status import RunWorkers


def test_the_pace_is_over_the_window_and_over_all() -> None:
    pace = Pace()
    assert (pace.rates.lately, pace.rates.mean) == (None, 0.0)

    for second in range(101):
        pace.observe(second, 0 if second < 50 else (second - 50) * 4)

    assert pace.rates.lately == pytest.approx(4.0)
    assert pace.rates.mean == pytest.approx(2.0)


def test_the_boot_of_the_first_worker_is_in_no_pace() -> None:
    pace = Pace()

    for second in range(201):
        pace.observe(second, max(0, second - 150) * 4, working=second > 150)

    assert pace.rates.mean == pytest.approx(4.0)
    pace.observe(250, 200, working=False)
    assert pace.rates.mean == pytest.approx(2.0), "what stops later counts"


@pytest.mark.parametrize("every_s", [1, 30, 90])
def test_the_time_left_does_not_jump_between_the_bursts_of_long_batches(every_s: int) -> None:
    pace = Pace()
    counts = Counts(total=1000, todo=400, outcomes={Outcome.CORRECT: 600})
    left = []

    for second in range(20 * every_s + 200):
        pace.observe(second, 2 * every_s * (second // every_s))
        if second > 8 * every_s:
            left.append(Snapshot("r", counts, pace.rates).left_s)

    assert [each for each in left if each is None or not 160 < each < 250] == []


def test_where_nothing_is_settled_for_longer_than_ever_before_the_time_left_is_unknown() -> None:
    """The last question hung, and some seconds were left for minutes."""
    pace, counts = Pace(), {0: 0, 10: 64, 20: 128, 30: 192, 40: 256}
    left: dict[int, float | None] = {}
    settled = 0
    for now in range(160):
        settled = counts.get(now, settled)
        pace.observe(float(now), settled)
        left[now] = pace.rates.left_s(64)

    assert left[40] == 10.0
    assert left[100] is not None, "a minute may be a batch"
    assert [left[now] for now in (101, 130, 159)] == [None] * 3

    pace.observe(160.0, 320)
    assert pace.rates.left_s(0) == 0.0


def test_a_faster_pace_is_in_the_time_left_after_a_minute() -> None:
    pace = Pace()

    for second in range(1000):
        pace.observe(second, second + 9 * max(0, second - 900))

    assert pace.rates.steady == pytest.approx(10.0)
    assert pace.rates.mean < 2.0


@pytest.mark.parametrize("pause", [{"halted": True}, {"working": False}])
def test_a_pause_does_not_lengthen_the_time_left_once_the_run_goes_on(pause: dict[str, bool]) -> None:
    pace = Pace()
    left = []

    for second in range(4000):
        stopped = 100 <= second < 3700
        settled = 10 * (second if second < 100 else 99 if stopped else second - 3600)
        pace.observe(second, settled, **(pause if stopped else {}))
        if second > 3701:
            left.append(pace.rates.left_s(1000))

    assert left == pytest.approx([100.0] * len(left), rel=0.01)


def test_the_mean_pace_leaves_out_the_time_in_which_the_run_was_paused() -> None:
    pace = Pace()

    for second in range(1200):
        pace.observe(second, 4 * (min(second, 100) + max(0, second - 1100)), halted=100 <= second < 1100)

    assert pace.rates.mean == pytest.approx(4.0, rel=0.01)


def test_what_workers_finish_after_a_pause_began_took_the_time_since_it_began() -> None:
    """Of a cancelled run, 1.5 questions/s were shown, and 6 of late: time counted only when there was a verdict."""
    pace = Pace()

    for quarter in range(400):
        pace.observe(quarter / 4, min(quarter // 20, 15), halted=quarter >= 40)
        if quarter >= 40:
            assert pace.rates.lately is None
            assert pace.rates.mean == pytest.approx(0.2, rel=0.5)

    assert pace.rates.mean_of_s == pytest.approx(75.0), "what follows the last verdict is the pause"


def test_what_workers_finish_in_a_second_pause_did_not_take_the_time_of_the_first() -> None:
    pace = Pace()

    for second in range(10):
        pace.observe(second, second)
    for second in range(10, 60):
        pace.observe(second, 9, halted=True)
    pace.observe(60, 9)
    pace.observe(61, 10)
    pace.observe(62, 11, halted=True)

    assert pace.rates.mean_of_s == pytest.approx(62.0 - 50.0)


def test_what_a_worker_finishes_that_came_in_a_pause_did_not_take_the_time_before_it_came() -> None:
    pace = Pace()

    for second in range(50):
        pace.observe(second, 0, halted=True)
    pace.observe(50, 0, working=False, halted=True)
    pace.observe(52, 1, halted=True)

    assert pace.rates.mean_of_s == pytest.approx(2.0)


@pytest.mark.parametrize("away_s", [3, 60, 600])
def test_what_was_settled_while_nobody_could_look_is_not_of_the_last_ten_seconds(away_s: int) -> None:
    pace = Pace()

    for second in (*range(100), *range(100 + away_s, 130 + away_s)):
        pace.observe(second, 150 * second)
        assert pace.rates.lately in (None, pytest.approx(150.0))
        assert pace.rates.mean == pytest.approx(150.0 if second else 0.0)


def test_an_outage_in_which_all_waited_does_not_lengthen_the_time_left() -> None:
    pace = Pace()

    for second in (*range(100), *range(400, 410)):
        pace.observe(second, 10 * (second if second < 100 else second - 300))

    assert pace.rates.left_s(1000) == pytest.approx(100.0)


def test_failed_questions_that_are_asked_again_do_not_make_the_pace_negative() -> None:
    pace = Pace()

    for second in range(200):
        pace.observe(second, 10 * second - (600 if second >= 100 else 0))
        if second > 1:
            assert pace.rates.lately == pytest.approx(10.0, rel=0.11)  # of the second in which 600 were taken back, all
            assert pace.rates.mean == pytest.approx(10.0, rel=0.02) or second < 100
            assert pace.rates.left_s(1000) == pytest.approx(100.0, rel=0.02)


def record(at: float, batches: int, begun: int, pid: int = 1, done: int | None = None) -> WorkerRecord:
    return WorkerRecord(
        name="w", model="m", queue="score.m", state=WorkerState.READY, pid=pid, process_started=1, batch_size=16,
        batches=batches, begun=begun, done=begun if done is None else done, busy=0.5, seen_at=at,
    )  # fmt: skip


def test_a_workers_pace_and_fill_are_those_of_the_last_seconds() -> None:
    crew = RunWorkers()
    (first,) = crew.look([record(0, 10, 40)])
    assert (first.questions_per_s, first.fill, first.busy) == (None, 40 / 160, 0.5)
    for second in range(2, 22, 2):
        (last,) = crew.look([record(second, 10 + second, 40 + 16 * second)])
    assert (last.questions_per_s, last.fill) == (16.0, 1.0)


def test_a_worker_that_rests_keeps_the_fill_of_its_batches_and_has_no_pace() -> None:
    crew = RunWorkers()
    for second in range(0, 40, 2):
        (last,) = crew.look([record(second, 4, 48)])
    assert (last.questions_per_s, last.fill) == (0.0, 0.75)


def test_questions_that_are_dropped_because_their_run_is_paused_are_no_pace() -> None:
    crew = RunWorkers()
    crew.look([record(0, 10, 160, done=160)])
    (last,) = crew.look([record(2, 900, 14400, done=160)])
    assert last.questions_per_s == 0.0


def test_a_worker_whose_clock_was_set_back_is_not_shown_with_its_old_pace_until_it_has_caught_up() -> None:
    crew = RunWorkers()
    for second in (5000, 5004, 5004, 1404, 1408):
        (last,) = crew.look([record(second, 10, 160, done=20 * (second % 100))])
    assert last.questions_per_s == pytest.approx(20.0)
    (last,) = crew.look([record(1412, 10, 160, done=160)])
    assert last.questions_per_s == pytest.approx(10.0)


def test_a_worker_that_came_back_under_its_name_is_another_one() -> None:
    crew = RunWorkers()
    crew.look([record(0, 10, 40)])
    (fresh,) = crew.look([record(4, 0, 0, pid=2)])
    assert (fresh.questions_per_s, fresh.fill) == (None, None)
