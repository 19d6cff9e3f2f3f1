"""Staying with a run: remarks, healing, an absent Redis."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contract import keys
from contract.errors import LedgerError, RedisUnreachable, UnknownRun, WritesRefused
from contract.fleet import BootFailure, WorkerRecord, WorkerState
from contract.ledger import REQUEST_ENDED, Counts, MemoryLedger, Run, RunState
from contract.names import request_id
from contract.settings import Settings
from contract.verdict import Outcome, Verdict
from producer.broker import MemoryBroker
from producer.intake.selection import Selection
from producer.readers import Source
from producer.runs.planning import plan
from producer.runs.runconfig import RunConfig
from producer.runs.submit import submit
from producer.watching.outage import Clock
from producer.watching.pace import Rates
from producer.watching.progress import Snapshot
from producer.watching.screens import NothingToEnd
from producer.watching.status import status_lines
from producer.watching.unserved import start_workers
from producer.watching.watch import Watcher, watch
from tests.support import settle
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


def settle_open(ledger: MemoryLedger, run: Run, count: int = 5) -> None:
    ids = list(ledger.unsettled(run.run_id))[:count]
    settle(ledger, run.run_id, *ids)


def worker(model: str) -> WorkerRecord:
    return WorkerRecord(name="w", model=model, state=WorkerState.READY, queue=keys.score_queue(model))


def test_a_watch_ends_when_the_run_is_settled(ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> None:
    broker.live.append(worker(run.spec.model))
    screen = Screen()

    script = Script({3: lambda: settle_open(ledger, run, 2), 6: lambda: settle_open(ledger, run)})
    counts = watch(Watcher(ledger, broker, run, screen), clock=script.clock())

    assert counts.finished
    assert [each.counts.settled for each in screen.snapshots][-2:] == [2, 5]
    assert screen.said == []


def test_a_settled_run_is_shown_once(ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> None:
    settle_open(ledger, run)
    screen = Screen()

    watch(Watcher(ledger, broker, run, screen), clock=Script({}).clock())

    assert len(screen.snapshots) == 1


def test_absent_workers_are_mentioned_after_ten_seconds_and_then_once_a_minute(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    broker.live.append(worker("another"))
    screen = Screen()

    watch(Watcher(ledger, broker, run, screen), clock=Script({80: lambda: settle_open(ledger, run)}).clock())

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

    watch(Watcher(ledger, broker, run, screen), clock=Script({15: lambda: settle_open(ledger, run)}).clock())

    queue = "score.smollm2-135m-instruct"
    assert screen.said == [f"No worker has served {queue} for 10 s. 1 worker is starting: cpu0@here"]


def test_a_run_whose_last_worker_goes_shows_no_time_left(ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> None:
    broker.live.append(worker(run.spec.model))
    screen = Screen()

    script = Script({2: lambda: settle_open(ledger, run, 2), 4: broker.live.clear, 9: lambda: settle_open(ledger, run)})
    watch(Watcher(ledger, broker, run, screen), clock=script.clock())

    left = dict.fromkeys(each.left() for each in screen.snapshots)
    assert next(iter(left)) == "time left unknown"
    assert any(each.endswith(" left") for each in left)
    assert list(left)[-2:] == ["no worker", "settled"]


def test_why_workers_put_the_run_off_is_said_once(ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> None:
    putting_off = worker(run.spec.model).model_copy(update={"puts_off": {run.run_id: "here is another build"}})
    broker.live.append(putting_off)
    screen, begun = Screen(), status_lines(run, ledger.counts(run.run_id), broker, ())

    watch(Watcher(ledger, broker, run, screen), clock=Script({9: lambda: settle_open(ledger, run)}).clock())

    assert screen.said == ["Questions are waiting. w: here is another build"]
    assert {each.left() for each in screen.snapshots} == {"put off", "settled"}
    assert ("put off", "w: here is another build") in begun
    assert "put off" not in dict(status_lines(run, ledger.counts(run.run_id), broker, ()))


def test_a_run_that_only_some_workers_put_off_goes_on(ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> None:
    putting_off = worker(run.spec.model).model_copy(update={"name": "other", "puts_off": {run.run_id: "another build"}})
    broker.live += [worker(run.spec.model), putting_off]
    screen = Screen()

    script = Script({2: lambda: settle_open(ledger, run, 2), 4: lambda: settle_open(ledger, run)})
    watch(Watcher(ledger, broker, run, screen), clock=script.clock())

    assert "put off" not in {each.left() for each in screen.snapshots}


def test_a_run_says_how_many_messages_are_taken_before_it_while_nothing_of_it_is_settled(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    broker.live.append(worker(run.spec.model))
    broker.urgent = 7
    screen, begun = Screen(), status_lines(run, ledger.counts(run.run_id), broker, [])

    script = Script({2: lambda: settle_open(ledger, run, 2), 20: lambda: settle_open(ledger, run)})
    watch(Watcher(ledger, broker, run, screen), clock=script.clock())

    left = [each.left() for each in screen.snapshots]
    assert ("queue", "score.smollm2-135m-instruct: 10 messages waiting, 7 of higher priority") in begun
    assert left[0] == left[-2] == "behind 7 messages of higher priority"
    assert any(each.endswith(" left") for each in left), "some of it are answered all the same"


@pytest.mark.parametrize(
    ("queued", "left"), [(9, "behind 7 messages of higher priority"), (7, "time left unknown")], ids=["waits", "begun"]
)
def test_a_run_of_which_no_message_is_queued_any_more_is_behind_nothing(queued: int, left: str) -> None:
    nothing_yet = Rates(lately=0.0, steady=0.0, mean=0.0, mean_of_s=10.0)
    assert Snapshot("r", Counts(total=32, todo=32), nothing_yet, queued=queued, ahead=7).left() == left


def test_what_a_worker_that_is_not_ready_waits_for_is_said_once(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    waiting = {"state": WorkerState.BOOTING, "waits_for": "the server at http://away/v1"}
    broker.live.append(worker(run.spec.model).model_copy(update=waiting))
    screen, begun = Screen(), dict(status_lines(run, ledger.counts(run.run_id), broker, ()))

    watch(Watcher(ledger, broker, run, screen), clock=Script({9: lambda: settle_open(ledger, run)}).clock())

    assert screen.said == ["Questions are waiting. w waits for the server at http://away/v1"]
    assert begun["not ready"] == "w waits for the server at http://away/v1"


def test_why_workers_did_not_boot_is_said_once_for_all_who_share_it(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    def failed(worker: str) -> BootFailure:
        return BootFailure(worker=worker, queue="score.m", reason="10 GiB KV cache is needed.", at=time.time() - 3700)

    broker.unbooted += [failed("gpu0@a"), failed("gpu1@a")]
    screen, begun = Screen(), dict(status_lines(run, ledger.counts(run.run_id), broker, ()))

    watch(Watcher(ledger, broker, run, screen), clock=Script({9: lambda: settle_open(ledger, run)}).clock())

    (said,) = screen.said
    assert re.fullmatch(r"gpu0@a, gpu1@a failed to boot 1:01:4\d ago: 10 GiB KV cache is needed\.", said)
    assert re.fullmatch(r"gpu0@a, gpu1@a, 1:01:4\d ago: 10 GiB KV cache is needed\.", begun["not booted"])
    assert "not booted" not in dict(status_lines(run, ledger.counts(run.run_id), broker, ()))


FULL = WritesRefused("Redis at redis://here refuses writes: it is at its memory limit (OOM).", hint="Raise maxmemory.")


#: How a watch tells it.
WAITING = f"Questions are waiting. {FULL}"


def test_workers_that_cannot_beat_are_not_said_to_be_missing(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    broker.refused = FULL
    screen, begun = Screen(), status_lines(run, ledger.counts(run.run_id), broker, ())

    watch(Watcher(ledger, broker, run, screen), clock=Script({15: lambda: settle_open(ledger, run)}).clock())

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
        80: lambda: settle_open(ledger, run),
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
    screen, begun = Screen(), dict(status_lines(run, ledger.counts(run.run_id), broker, ()))
    said: list[int] = []

    def count() -> None:
        said.append(len(screen.said))

    events: dict[float, Callable[[], object]] = {
        5: lambda: settle_open(ledger, run, 2),
        14: count,
        16: count,
        74: count,
        78: count,
        80: lambda: settle_open(ledger, run),
    }
    watch(Watcher(ledger, broker, run, screen), clock=Script(events).clock())

    assert screen.said == [WAITING] * 2
    assert said == [0, 1, 1, 2]
    assert begun["refused"] == str(FULL)
    assert "refused" not in dict(status_lines(run, ledger.counts(run.run_id), broker, ()))


def test_a_slow_run_whose_redis_takes_writes_is_no_reason_for_a_message(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    broker.live.append(worker(run.spec.model))
    screen = Screen()

    watch(Watcher(ledger, broker, run, screen), clock=Script({200: lambda: settle_open(ledger, run)}).clock())

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
        20: lambda: settle_open(ledger, run),
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

    script = Script({2: look, 4: look, 9: lambda: settle_open(ledger, run)})
    watch(Watcher(ledger, broker, run, screen), clock=script.clock())

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
        9: lambda: settle_open(ledger, run),
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
        9: lambda: settle_open(ledger, run),
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
        settle_open(ledger, run)
        return counts(run_id)

    watch(Watcher(ledger, broker, run, screen), clock=script.clock())

    assert screen.said[-1] == "Redis is back after 30 s."
    assert screen.snapshots[-1].rates.mean == pytest.approx(5 / 31.5), "the answer is of when it came"


def test_a_run_that_was_over_when_it_was_first_looked_at_has_no_pace(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    settle_open(ledger, run)
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
        121: lambda: settle_open(ledger, run),
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
        settle(ledger, run.run_id, *ids, choice="B")
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
    with pytest.raises(UnknownRun, match=r"no longer in the ledger; last seen with 0 of 5 questions settled.*Repeat"):
        watch(Watcher(ledger, broker, run, Screen()), clock=Script({2: lambda: ledger.purge(run.run_id)}).clock())


def test_a_request_that_ends_while_it_is_watched_is_not_called_lost(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    """It was said that Redis may have lost its data, and that a file should be enqueued again."""
    request = ledger.open_run(run.model_copy(update={"run_id": request_id()}))
    events: dict[float, Callable[[], object]] = {2: lambda: ledger.purge(request.run_id)}
    with pytest.raises(UnknownRun) as caught:
        watch(Watcher(ledger, broker, request, Screen()), clock=Script(events).clock())
    assert caught.value.hint == REQUEST_ENDED


def test_questions_that_nobody_writes_end_the_watch(ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> None:
    short = run.model_copy(update={"run_id": "short"})
    ledger.open_run(short)
    ledger.add_questions(short.run_id, [question for question, _ in ledger.results(run.run_id)][:2])
    settle_open(ledger, short)
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
    assert ("settled", "99,999 of 100,000 (99.9 %)") in status_lines(run, counts, broker, ())


def test_a_rescoring_that_was_interrupted_is_continued_by_its_own_command(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    spec = run.spec.model_copy(update={"rescored_from": "old"})
    rescored = run.model_copy(update={"run_id": "rescored", "spec": spec})
    ledger.open_run(rescored)
    broker.live.append(worker(run.spec.model))

    status = dict(status_lines(rescored, ledger.counts("rescored"), broker, ()))

    assert "unless `python -m workers rescore old` is still writing them" in status["unwritten"]
    with pytest.raises(LedgerError, match="`python -m workers rescore old` was interrupted"):
        watch(Watcher(ledger, broker, ledger.run("rescored"), Screen()), clock=Script({}).clock())


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
