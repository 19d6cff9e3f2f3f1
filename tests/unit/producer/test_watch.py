"""Staying with a run: pace, remarks, healing, an absent Redis."""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from contract import keys
from contract.errors import LedgerError, RedisUnreachable, UnknownRun, WritesRefused
from contract.fleet import BootFailure, WorkerRecord, WorkerState
from contract.ledger import Counts, MemoryLedger, Run, RunState
from contract.settings import Settings
from contract.verdict import Outcome, Verdict
from producer.broker import MemoryBroker
from producer.intake.selection import Selection
from producer.options import progress_console
from producer.readers import Source
from producer.runs.planning import plan
from producer.runs.runconfig import RunConfig
from producer.runs.submit import submit
from producer.watching.outage import Clock
from producer.watching.pace import Pace, Rates
from producer.watching.progress import Snapshot
from producer.watching.screens import BarScreen, LineScreen, NothingToEnd, screen_for
from producer.watching.status import status_lines
from producer.watching.unserved import start_workers
from producer.watching.watch import Watcher, watch
from producer.watching.worker_status import Member, RunWorkers
from tests.unit.producer.conftest import WriteRows


class Screen(NothingToEnd):
    """Remembers what was shown and said."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []
        self.said: list[str] = []

    def show(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)

    def say(self, message: str) -> None:
        self.said.append(message)


class Script:
    """A clock that runs through its sleeps, and does what is due at each time."""

    def __init__(self, events: dict[float, Callable[[], object]], end: float = 300) -> None:
        self.time = 0.0
        self._events = dict(events)
        self._end = end

    def clock(self) -> Clock:
        return Clock(now=lambda: self.time, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        assert self.time < self._end, "the watch does not end"
        for due in [each for each in self._events if each <= self.time]:
            self._events.pop(due)()


@pytest.fixture
def run(five: Path, ledger: MemoryLedger, broker: MemoryBroker) -> Run:
    ready = plan(Source(five, five.name), RunConfig(), Settings(), Selection())
    return submit(ready, ledger, broker).run


def settle(ledger: MemoryLedger, run: Run, count: int = 5) -> None:
    ids = list(ledger.unsettled(run.run_id))[:count]
    ledger.commit(run.run_id, [Verdict(question_id=each, outcome=Outcome.CORRECT) for each in ids])


def worker(model: str) -> WorkerRecord:
    return WorkerRecord(name="w", model=model, state=WorkerState.READY, queue=keys.score_queue(model))


def test_a_watch_ends_when_the_run_is_settled(ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> None:
    broker.live.append(worker(run.spec.model))
    screen = Screen()

    script = Script({3: lambda: settle(ledger, run, 2), 6: lambda: settle(ledger, run)})
    counts = watch(Watcher(ledger, broker, run, screen), clock=script.clock())

    assert counts.finished
    assert [each.counts.settled for each in screen.snapshots][-2:] == [2, 5]
    assert screen.said == []


def test_a_settled_run_is_shown_once(ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> None:
    settle(ledger, run)
    screen = Screen()

    watch(Watcher(ledger, broker, run, screen), clock=Script({}).clock())

    assert len(screen.snapshots) == 1


def test_absent_workers_are_mentioned_after_ten_seconds_and_then_once_a_minute(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    broker.live.append(worker("another"))
    screen = Screen()

    watch(Watcher(ledger, broker, run, screen), clock=Script({80: lambda: settle(ledger, run)}).clock())

    assert len(screen.said) == 2
    assert screen.said[0] == (
        "No worker has served score.smollm2-135m-instruct for 10 s. Start one: python -m workers up"
        " with a deploy file that serves smollm2-135m-instruct"
        " (live workers serve another; to ask theirs, enqueue with --model NAME; in a suite, name it under models)"
    )
    assert "for 70 s" in screen.said[1]


def test_a_worker_that_is_starting_is_named_where_none_has_come_yet(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    broker.announced = ["cpu0@here"]
    screen = Screen()

    watch(Watcher(ledger, broker, run, screen), clock=Script({15: lambda: settle(ledger, run)}).clock())

    queue = "score.smollm2-135m-instruct"
    assert screen.said == [f"No worker has served {queue} for 10 s. 1 worker is starting: cpu0@here"]


def test_a_run_whose_last_worker_goes_shows_no_time_left(ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> None:
    broker.live.append(worker(run.spec.model))
    screen = Screen()

    script = Script({2: lambda: settle(ledger, run, 2), 4: broker.live.clear, 9: lambda: settle(ledger, run)})
    watch(Watcher(ledger, broker, run, screen), clock=script.clock())

    left = dict.fromkeys(each.left() for each in screen.snapshots)
    assert next(iter(left)) == "time left unknown"
    assert any(each.endswith(" left") for each in left)
    assert list(left)[-2:] == ["no worker", "settled"]


def test_why_workers_put_the_run_off_is_said_once(ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> None:
    putting_off = worker(run.spec.model).model_copy(update={"puts_off": {run.run_id: "here is another build"}})
    broker.live.append(putting_off)
    screen, begun = Screen(), status_lines(run, ledger.counts(run.run_id), broker)

    watch(Watcher(ledger, broker, run, screen), clock=Script({9: lambda: settle(ledger, run)}).clock())

    assert screen.said == ["Questions are waiting. w: here is another build"]
    assert ("put off", "w: here is another build") in begun
    assert "put off" not in dict(status_lines(run, ledger.counts(run.run_id), broker))


def test_what_a_worker_that_is_not_ready_waits_for_is_said_once(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    waiting = {"state": WorkerState.BOOTING, "waits_for": "the server at http://away/v1"}
    broker.live.append(worker(run.spec.model).model_copy(update=waiting))
    screen, begun = Screen(), dict(status_lines(run, ledger.counts(run.run_id), broker))

    watch(Watcher(ledger, broker, run, screen), clock=Script({9: lambda: settle(ledger, run)}).clock())

    assert screen.said == ["Questions are waiting. w waits for the server at http://away/v1"]
    assert begun["not ready"] == "w waits for the server at http://away/v1"


def test_why_workers_did_not_boot_is_said_once_for_all_who_share_it(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    def failed(worker: str) -> BootFailure:
        return BootFailure(worker=worker, queue="score.m", reason="10 GiB KV cache is needed.", at=time.time() - 3700)

    broker.unbooted += [failed("gpu0@a"), failed("gpu1@a")]
    screen, begun = Screen(), dict(status_lines(run, ledger.counts(run.run_id), broker))

    watch(Watcher(ledger, broker, run, screen), clock=Script({9: lambda: settle(ledger, run)}).clock())

    (said,) = screen.said
    assert re.fullmatch(r"gpu0@a, gpu1@a failed to boot 1:01:4\d ago: 10 GiB KV cache is needed\.", said)
    assert re.fullmatch(r"gpu0@a, gpu1@a, 1:01:4\d ago: 10 GiB KV cache is needed\.", begun["not booted"])
    assert "not booted" not in dict(status_lines(run, ledger.counts(run.run_id), broker))


FULL = WritesRefused("Redis at redis://here refuses writes: it is at its memory limit (OOM).", hint="Raise maxmemory.")


#: How a watch tells it.
WAITING = f"Questions are waiting. {FULL}"


def test_workers_that_cannot_beat_are_not_said_to_be_missing(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    broker.refused = FULL
    screen, begun = Screen(), status_lines(run, ledger.counts(run.run_id), broker)

    watch(Watcher(ledger, broker, run, screen), clock=Script({15: lambda: settle(ledger, run)}).clock())

    assert screen.said == [WAITING]
    assert [each for each in begun if str(FULL) in each[1]] == [("workers", f"none live; {FULL}")]


def test_a_redis_that_fills_up_while_no_worker_is_there_is_named_within_seconds_and_workers_no_longer(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    """Workers were to be started until the next minute was over."""
    screen = Screen()
    said: list[int] = []
    events: dict[float, Callable[[], object]] = {
        25: lambda: setattr(broker, "refused", FULL),
        28: lambda: said.append(len(screen.said)),
        80: lambda: settle(ledger, run),
    }
    watch(Watcher(ledger, broker, run, screen), clock=Script(events).clock())

    missing, *rest = screen.said
    assert missing.startswith("No worker has served")
    assert (rest, said) == ([WAITING], [2])


def test_why_nothing_is_settled_though_heartbeats_get_through_is_said_after_ten_seconds_and_then_once_a_minute(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    """A watch showed 0.0/s and no cause, and the status nothing but live workers."""
    waiting = worker(run.spec.model).model_copy(update={"refused": str(FULL)})
    broker.live += [waiting, waiting.model_copy(update={"name": "v"})]
    screen, begun = Screen(), dict(status_lines(run, ledger.counts(run.run_id), broker))
    said: list[int] = []

    def count() -> None:
        said.append(len(screen.said))

    events: dict[float, Callable[[], object]] = {
        5: lambda: settle(ledger, run, 2),
        14: count,
        16: count,
        74: count,
        78: count,
        80: lambda: settle(ledger, run),
    }
    watch(Watcher(ledger, broker, run, screen), clock=Script(events).clock())

    assert screen.said == [WAITING] * 2
    assert said == [0, 1, 1, 2]
    assert begun["refused"] == str(FULL)
    assert "refused" not in dict(status_lines(run, ledger.counts(run.run_id), broker))


def test_a_slow_run_whose_redis_takes_writes_is_no_reason_for_a_message(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    broker.live.append(worker(run.spec.model))
    screen = Screen()

    watch(Watcher(ledger, broker, run, screen), clock=Script({200: lambda: settle(ledger, run)}).clock())

    assert screen.said == []


def test_a_stall_that_cannot_be_healed_as_redis_takes_no_writes_is_told_and_ends_no_watch(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.live.append(worker(run.spec.model))
    broker.messages.clear()
    heal = broker.heal

    def refuse(_: Run) -> tuple[int, int]:
        raise FULL

    monkeypatch.setattr(broker, "heal", refuse)
    screen = Screen()
    events: dict[float, Callable[[], object]] = {
        7: lambda: monkeypatch.setattr(broker, "heal", heal),
        20: lambda: settle(ledger, run),
    }
    watch(Watcher(ledger, broker, run, screen), clock=Script(events).clock())

    assert screen.said == [WAITING, f"{run.run_id} was stalled: 5 lost questions re-sent in 3 messages."]


def test_what_starts_a_worker_fits_the_queue_that_nobody_takes_from() -> None:
    another = [worker("another")]
    assert start_workers(["score.m"], []) == "python -m workers up"
    alone = "python -m workers up --only retrieve-facts --set 'indexes=[FOLDER OF facts]'"
    assert start_workers(["retrieve.facts"], another) == alone, "the others of that host may be up"
    assert start_workers(["retrieve.facts", "score.m"], []) == "python -m workers up --set 'indexes=[FOLDER OF facts]'"
    assert "live workers serve another;" in start_workers(["retrieve.facts", "score.m"], another)


def test_a_run_for_a_model_that_nobody_serves_names_it_and_the_models_that_are_served() -> None:
    served = [worker("small"), worker("large"), worker("small").model_copy(update={"name": "v"})]
    assert start_workers(["score.smal"], served) == (
        "python -m workers up with a deploy file that serves smal"
        " (live workers serve large, small; to ask theirs, enqueue with --model NAME; in a suite, name it under models)"
    )


def test_lost_questions_are_sent_again_after_two_looks(ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> None:
    broker.live.append(worker(run.spec.model))
    broker.messages.clear()
    screen, sent = Screen(), list[int]()

    def look() -> None:
        sent.append(len(broker.messages))

    watch(
        Watcher(ledger, broker, run, screen), clock=Script({2: look, 4: look, 9: lambda: settle(ledger, run)}).clock()
    )

    assert screen.said == [f"{run.run_id} was stalled: 5 lost questions re-sent in 3 messages."]
    assert sent == [0, 3]
    assert len(broker.messages) == 3


def test_one_look_at_nothing_queued_is_no_stall(ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> None:
    broker.live.append(worker(run.spec.model))
    under_way = broker.messages[:]
    broker.messages.clear()
    screen = Screen()

    events: dict[float, Callable[[], object]] = {
        1: lambda: broker.messages.extend(under_way),
        9: lambda: settle(ledger, run),
    }
    watch(Watcher(ledger, broker, run, screen), clock=Script(events).clock())

    assert screen.said == []


def test_a_redis_that_goes_away_is_waited_for(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.live.append(worker(run.spec.model))
    away = False
    counts = ledger.counts

    def sometimes(run_id: str) -> Counts:
        if away:
            raise RedisUnreachable("No Redis answers at redis://here (refused).", hint="Start one.")
        return counts(run_id)

    def set_away(value: bool) -> None:
        nonlocal away
        away = value

    monkeypatch.setattr(ledger, "counts", sometimes)
    screen = Screen()
    events: dict[float, Callable[[], object]] = {
        2: lambda: set_away(True),
        7: lambda: set_away(False),
        9: lambda: settle(ledger, run),
    }
    watch(Watcher(ledger, broker, run, screen), clock=Script(events).clock())

    assert screen.said == [
        "No Redis answers at redis://here (refused). Retrying until it responds.",
        "Redis is back after 5 s.",
    ]


def test_an_outage_is_as_long_as_it_was_however_long_an_answer_was_waited_for(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.live.append(worker(run.spec.model))
    counts, script, screen = ledger.counts, Script({2: lambda: monkeypatch.setattr(ledger, "counts", slow)}), Screen()

    def slow(run_id: str) -> Counts:
        monkeypatch.setattr(ledger, "counts", late)
        script.time += 20
        raise RedisUnreachable("No Redis answers at redis://here (timeout).")

    def late(run_id: str) -> Counts:
        monkeypatch.setattr(ledger, "counts", counts)
        script.time += 9
        settle(ledger, run)
        return counts(run_id)

    watch(Watcher(ledger, broker, run, screen), clock=script.clock())

    assert screen.said[-1] == "Redis is back after 30 s."
    assert screen.snapshots[-1].rates.mean == pytest.approx(5 / 31.5), "the answer is of when it came"


def test_a_run_that_was_over_when_it_was_first_looked_at_has_no_pace(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    settle(ledger, run)
    screen = Screen()
    watch(Watcher(ledger, broker, run, screen), clock=Script({}).clock())
    (shown,) = screen.snapshots
    assert "/s" not in shown.line()


def test_a_paused_run_is_waited_for_without_complaint_and_without_healing(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    broker.messages.clear()
    screen = Screen()
    events: dict[float, Callable[[], object]] = {
        120: lambda: ledger.resume(run.run_id),
        121: lambda: settle(ledger, run),
    }

    ledger.halt(run.run_id, RunState.PAUSED)
    counts = watch(Watcher(ledger, broker, run, screen), clock=Script(events).clock())

    assert counts.finished
    assert broker.messages == []
    assert screen.said == [
        f"The run is paused. Resume it with: python -m producer resume {run.run_id}",
        f"{run.run_id} has been resumed.",
    ]


def test_a_cancelled_run_ends_the_watch(ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> None:
    broker.live.append(worker(run.spec.model))
    events: dict[float, Callable[[], object]] = {3: lambda: ledger.halt(run.run_id, RunState.CANCELLED)}

    counts = watch(Watcher(ledger, broker, run, Screen()), clock=Script(events).clock())

    assert (counts.over, counts.finished, counts.standing) == (True, False, "cancelled")


def test_what_is_in_flight_of_a_cancelled_run_is_waited_for(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    """Otherwise, what is exported then would lack what was asked for."""
    broker.live.append(worker(run.spec.model))
    broker.held.add(run.run_id)
    screen = Screen()

    def finish() -> None:
        ids = list(ledger.unsettled(run.run_id))[:2]
        ledger.commit(run.run_id, [Verdict(question_id=each, outcome=Outcome.CORRECT, choice="B") for each in ids])
        broker.held.clear()

    events: dict[float, Callable[[], object]] = {3: lambda: ledger.halt(run.run_id, RunState.CANCELLED), 9: finish}
    counts = watch(Watcher(ledger, broker, run, screen), clock=Script(events).clock())

    assert (counts.settled, counts.standing) == (2, "cancelled")
    assert [each.over for each in screen.snapshots].count(True) == 1, "a line, and not one twice a second"
    assert screen.said == [
        f"The run is cancelled. Resume it with: python -m producer resume {run.run_id}",
        f"{run.run_id}: waiting for the questions that workers have begun.",
    ]


def test_a_run_that_is_gone_ends_the_watch_with_what_is_gone_and_what_to_do(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    with pytest.raises(UnknownRun, match=r"no longer in the ledger; last seen with 0 of 5 questions settled.*again"):
        watch(Watcher(ledger, broker, run, Screen()), clock=Script({2: lambda: ledger.purge(run.run_id)}).clock())


def test_questions_that_nobody_writes_end_the_watch(ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> None:
    short = run.model_copy(update={"run_id": "short"})
    ledger.open_run(short)
    ledger.add_questions(short.run_id, [question for question, _ in ledger.results(run.run_id)][:2])
    settle(ledger, short)
    broker.live.append(worker(run.spec.model))

    with pytest.raises(LedgerError, match="short: 3 of 5 questions never written"):
        watch(Watcher(ledger, broker, ledger.run("short"), Screen()), clock=Script({}).clock())


def test_questions_that_were_written_and_never_sent_end_the_watch_too(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    cut_off = run.model_copy(update={"run_id": "cut-off"})
    ledger.open_run(cut_off)
    ledger.add_questions(cut_off.run_id, [question for question, _ in ledger.results(run.run_id)][:2])
    broker.live.append(worker(run.spec.model))

    with pytest.raises(LedgerError, match="cut-off: 3 of 5 questions never written"):
        watch(Watcher(ledger, broker, ledger.run("cut-off"), Screen()), clock=Script({}).clock())


def test_a_run_is_not_settled_by_100_percent_before_its_last_question(broker: MemoryBroker, run: Run) -> None:
    counts = Counts(total=100_000, todo=1, outcomes={Outcome.CORRECT: 99_999})
    assert ("settled", "99,999 of 100,000 (99.9 %)") in status_lines(run, counts, broker)


def test_a_rescoring_that_was_interrupted_is_continued_by_its_own_command(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    spec = run.spec.model_copy(update={"rescored_from": "old"})
    rescored = run.model_copy(update={"run_id": "rescored", "spec": spec})
    ledger.open_run(rescored)
    broker.live.append(worker(run.spec.model))

    status = dict(status_lines(rescored, ledger.counts("rescored"), broker))

    assert "unless `python -m workers rescore old` is still writing them" in status["unwritten"]
    with pytest.raises(LedgerError, match="`python -m workers rescore old` was interrupted"):
        watch(Watcher(ledger, broker, ledger.run("rescored"), Screen()), clock=Script({}).clock())


def test_the_pace_is_over_the_window_and_over_all() -> None:
    pace = Pace()
    assert (pace.lately, pace.mean) == (None, 0.0)

    for second in range(101):
        pace.observe(second, 0 if second < 50 else (second - 50) * 4)

    assert pace.lately == pytest.approx(4.0)
    assert pace.mean == pytest.approx(2.0)


def test_the_boot_of_the_first_worker_is_in_no_pace() -> None:
    pace = Pace()

    for second in range(201):
        pace.observe(second, max(0, second - 150) * 4, working=second > 150)

    assert pace.mean == pytest.approx(4.0)
    pace.observe(250, 200, working=False)
    assert pace.mean == pytest.approx(2.0), "what stops later counts"


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

    assert pace.steady == pytest.approx(10.0)
    assert pace.mean < 2.0


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

    assert pace.mean == pytest.approx(4.0, rel=0.01)


@pytest.mark.parametrize("away_s", [3, 60, 600])
def test_what_was_settled_while_nobody_could_look_is_not_of_the_last_ten_seconds(away_s: int) -> None:
    pace = Pace()

    for second in (*range(100), *range(100 + away_s, 130 + away_s)):
        pace.observe(second, 150 * second)
        assert pace.lately in (None, pytest.approx(150.0))
        assert pace.mean == pytest.approx(150.0 if second else 0.0)


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
            assert pace.lately == pytest.approx(10.0, rel=0.11)  # of the second in which 600 were taken back, all
            assert pace.mean == pytest.approx(10.0, rel=0.02) or second < 100
            assert pace.rates.left_s(1000) == pytest.approx(100.0, rel=0.02)


CREW = (
    Member("cpu0@here", "ready", "score.small", 12.5, 0.5, 0.9, on_gpu=False),
    Member("gpu0@there", "ready", "score.small", 80.0, 1.0, 0.7, on_gpu=True),
    Member("gpu1@there", "booting", "score.small", None, None, None, on_gpu=True),
)


def snapshot(settled: int = 0, lately: float = 0.0, state: RunState = RunState.RUNNING) -> Snapshot:
    outcomes = {Outcome.CORRECT: settled - 1, Outcome.FAILED: 1} if settled else {}
    counts = Counts(total=1000, todo=1000 - settled, outcomes=outcomes, state=state)
    return Snapshot("run-1", counts, Rates(lately, lately, 2.5, 90.0), CREW, 12)


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


def test_a_run_without_any_key_is_watched_without_an_accuracy(
    ledger: MemoryLedger, broker: MemoryBroker, write_rows: WriteRows
) -> None:
    file = write_rows(*({"question": f"{n}?", "choices": ["a", "b"], "answer": None} for n in range(4)))
    run = submit(plan(Source(file, file.name), RunConfig(), Settings(), Selection()), ledger, broker).run
    first, *others = ledger.unsettled(run.run_id)
    failed = [Verdict(question_id=first, outcome=Outcome.FAILED)]
    rest = [Verdict(question_id=each, outcome=Outcome.ANSWERED) for each in others]
    script = Script({2: lambda: ledger.commit(run.run_id, failed), 4: lambda: ledger.commit(run.run_id, rest)})
    screen = Screen()

    watch(Watcher(ledger, broker, run, screen), clock=script.clock())

    assert {each.accuracy() for each in screen.snapshots} == {"no accuracy, as no question has a key"}
    assert screen.snapshots[-1].outcomes() == "correct 0 · wrong 0 · unanswered 0 · failed 1 · answered 3"


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
