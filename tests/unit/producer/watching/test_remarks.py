"""What a watch says of a run that does not go on, and how often: absent workers, runs before it, a full Redis."""

from __future__ import annotations

import re
import time

import pytest

from contract.fleet import BootFailure, WorkerRecord, WorkerState
from contract.ledger import Counts, MemoryLedger, Run, RunState
from producer.broker import MemoryBroker
from producer.watching.pace import Rates
from producer.watching.progress import Snapshot
from producer.watching.status import status_json, status_lines
from producer.watching.unserved import start_command
from tests.unit.producer.watching.looking import FULL, WAITING, Screen, settle_open, worker


def test_absent_workers_are_mentioned_after_ten_seconds_and_then_once_a_minute(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    broker.live.append(worker("another"))

    screen.watch((80, lambda: settle_open(ledger, run)))

    assert len(screen.said) == 2
    assert screen.said[0] == (
        "No worker has served score.smollm2-135m-instruct for 10 s. Start one: python -m workers up"
        " with a deploy file that serves smollm2-135m-instruct"
        " (live workers serve another; to ask theirs, enqueue with --model NAME; in a suite, name it under models)"
    )
    assert "for 70 s" in screen.said[1]


def test_a_pause_is_no_time_in_which_workers_are_missed(ledger: MemoryLedger, run: Run, screen: Screen) -> None:
    """Nobody looked then whether one was there."""
    screen.watch(
        (5, lambda: ledger.halt(run.run_id, RunState.PAUSED)),
        (200, lambda: ledger.resume(run.run_id)),
        (220, lambda: settle_open(ledger, run)),
    )
    missed = [each for each in screen.said if each.startswith("No worker has served")]
    assert len(missed) == 1
    assert "for 10 s" in missed[0]


def test_a_worker_that_is_starting_is_named_where_none_has_come_yet(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    broker.announced = ["cpu0@here"]

    screen.watch((15, lambda: settle_open(ledger, run)))

    queue = "score.smollm2-135m-instruct"
    assert screen.said == [f"No worker has served {queue} for 10 s. 1 worker is starting: cpu0@here"]


def test_a_run_whose_last_worker_goes_shows_no_time_left(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    broker.live.append(worker(run.spec.model))

    screen.watch(
        (2, lambda: settle_open(ledger, run, 2)), (4, broker.live.clear), (9, lambda: settle_open(ledger, run))
    )

    left = dict.fromkeys(each.left() for each in screen.snapshots)
    assert next(iter(left)) == "time left unknown"
    assert any(each.endswith(" left") for each in left)
    assert list(left)[-2:] == ["no worker", "settled"]


def test_why_workers_put_the_run_off_is_said_once(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    putting_off = worker(run.spec.model).model_copy(update={"puts_off": {run.run_id: "here is another build"}})
    broker.live.append(putting_off)
    begun = status_lines(run, ledger.counts(run.run_id), broker, ())

    screen.watch((9, lambda: settle_open(ledger, run)))

    assert screen.said == ["Questions are waiting. w: here is another build"]
    assert {each.left() for each in screen.snapshots} == {"put off", "settled"}
    assert ("put off", "w: here is another build") in begun
    assert "put off" not in dict(status_lines(run, ledger.counts(run.run_id), broker, ()))


def test_a_run_that_only_some_workers_put_off_goes_on(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    putting_off = worker(run.spec.model).model_copy(update={"name": "other", "puts_off": {run.run_id: "another build"}})
    broker.live += [worker(run.spec.model), putting_off]

    screen.watch((2, lambda: settle_open(ledger, run, 2)), (4, lambda: settle_open(ledger, run)))

    assert "put off" not in {each.left() for each in screen.snapshots}


def test_a_run_says_how_many_messages_are_taken_before_it_while_nothing_of_it_is_settled(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    broker.live.append(worker(run.spec.model))
    broker.urgent = 7
    begun = status_lines(run, ledger.counts(run.run_id), broker, [])

    screen.watch((2, lambda: settle_open(ledger, run, 2)), (20, lambda: settle_open(ledger, run)))

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
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    waiting = {"state": WorkerState.BOOTING, "waits_for": "the server at http://away/v1"}
    broker.live.append(worker(run.spec.model).model_copy(update=waiting))
    begun = dict(status_lines(run, ledger.counts(run.run_id), broker, ()))

    screen.watch((9, lambda: settle_open(ledger, run)))

    assert screen.said == ["Questions are waiting. w waits for the server at http://away/v1"]
    assert begun["not ready"] == "w waits for the server at http://away/v1"


def test_why_workers_did_not_boot_is_said_once_for_all_who_share_it(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    def failed(worker: str) -> BootFailure:
        return BootFailure(worker=worker, queue="score.m", reason="10 GiB KV cache is needed.", at=time.time() - 3700)

    broker.unbooted += [failed("gpu0@a"), failed("gpu1@a")]
    begun = dict(status_lines(run, ledger.counts(run.run_id), broker, ()))

    screen.watch((9, lambda: settle_open(ledger, run)))

    (said,) = screen.said
    assert re.fullmatch(r"gpu0@a, gpu1@a failed to boot 1:01:4\d ago: 10 GiB KV cache is needed\.", said)
    assert re.fullmatch(r"gpu0@a, gpu1@a, 1:01:4\d ago: 10 GiB KV cache is needed\.", begun["not booted"])
    assert "not booted" not in dict(status_lines(run, ledger.counts(run.run_id), broker, ()))


def vanished(name: str, run: Run, after_s: float = 1.0) -> WorkerRecord:
    seen = {"name": name, "seen_at": run.created_at + after_s}
    return worker(run.spec.model).model_copy(update=seen)


def test_workers_that_vanish_while_others_go_on_are_told_after_a_minute_and_again_if_they_were_back(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    """A host with eight GPUs was lost, and only the pace told."""
    broker.live.append(worker(run.spec.model))
    both, one = [vanished("gpu0@b", run), vanished("gpu1@b", run)], [vanished("gpu1@b", run)]
    said: list[int] = []

    screen.watch(
        (10, lambda: broker.gone.extend(both)),
        (69, lambda: said.append(len(screen.said))),
        (80, lambda: broker.gone.clear()),
        (100, lambda: broker.gone.extend(one)),
        (159, lambda: said.append(len(screen.said))),
        (290, lambda: settle_open(ledger, run)),
    )

    what = "not drained: see whether the host is up; if so, the worker's log, and there: python -m workers up"
    assert screen.said == [f"Others go on without gpu0@b, gpu1@b, {what}", f"Others go on without gpu1@b, {what}"]
    assert said == [0, 1]


def test_the_status_names_workers_that_vanished_since_the_run_was_created(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    broker.gone += [vanished("gpu0@b", run), vanished("gpu0@before", run, after_s=-1.0)]
    counts = ledger.counts(run.run_id)
    assert dict(status_lines(run, counts, broker, ()))["vanished"].startswith("gpu0@b, not drained: ")
    assert status_json(run, counts, broker, ())["vanished"] == ["gpu0@b"]


def test_what_keeps_workers_from_a_cancelled_run_is_not_told(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    broker.gone.append(vanished("gpu0@b", run))
    for state, told in ((RunState.PAUSED, True), (RunState.CANCELLED, False)):
        ledger.halt(run.run_id, state)
        status = dict(status_lines(run, ledger.counts(run.run_id), broker, ()))
        assert ("vanished" in status) is told, "a paused run needs them once it goes on"


def test_workers_that_cannot_beat_are_not_said_to_be_missing(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    broker.refused = FULL
    broker.gone.append(vanished("gpu0@b", run))
    begun = status_lines(run, ledger.counts(run.run_id), broker, ())

    screen.watch((15, lambda: settle_open(ledger, run)))

    assert screen.said == [WAITING]
    assert [each for each in begun if str(FULL) in each[1]] == [("workers", f"none live; {FULL}")]
    assert "vanished" not in dict(begun)


def test_a_redis_that_fills_up_while_no_worker_is_there_is_named_within_seconds_and_workers_no_longer(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    """Workers were to be started until the next minute was over."""
    said: list[int] = []
    screen.watch(
        (25, lambda: setattr(broker, "refused", FULL)),
        (28, lambda: said.append(len(screen.said))),
        (80, lambda: settle_open(ledger, run)),
    )

    missing, *rest = screen.said
    assert missing.startswith("No worker has served")
    assert (rest, said) == ([WAITING], [2])


def test_why_nothing_is_settled_though_heartbeats_get_through_is_said_after_ten_seconds_and_then_once_a_minute(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    """A watch showed 0.0/s and no cause, and the status nothing but live workers."""
    waiting = worker(run.spec.model).model_copy(update={"refused": str(FULL)})
    broker.live += [waiting, waiting.model_copy(update={"name": "v"})]
    begun = dict(status_lines(run, ledger.counts(run.run_id), broker, ()))
    said: list[int] = []

    def count() -> None:
        said.append(len(screen.said))

    screen.watch(
        (5, lambda: settle_open(ledger, run, 2)),
        (14, count),
        (16, count),
        (74, count),
        (78, count),
        (80, lambda: settle_open(ledger, run)),
    )

    assert screen.said == [WAITING] * 2
    assert said == [0, 1, 1, 2]
    assert begun["refused"] == str(FULL)
    assert "refused" not in dict(status_lines(run, ledger.counts(run.run_id), broker, ()))


def test_a_slow_run_whose_redis_takes_writes_is_no_reason_for_a_message(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    broker.live.append(worker(run.spec.model))

    screen.watch((200, lambda: settle_open(ledger, run)))

    assert screen.said == []


def test_what_starts_a_worker_fits_the_queue_that_nobody_takes_from() -> None:
    another = [worker("another")]
    assert start_command(["score.m"], []) == "python -m workers up"
    alone = "python -m workers up --only retrieve-facts --set 'indexes=[FOLDER OF facts]'"
    assert start_command(["retrieve.facts"], another) == alone, "the others of that host may be up"
    assert start_command(["retrieve.facts", "score.m"], []) == "python -m workers up --set 'indexes=[FOLDER OF facts]'"
    assert "live workers serve another;" in start_command(["retrieve.facts", "score.m"], another)


def test_a_run_for_a_model_that_nobody_serves_names_it_and_the_models_that_are_served() -> None:
    served = [worker("small"), worker("large"), worker("small").model_copy(update={"name": "v"})]
    assert start_command(["score.smal"], served) == (
        "python -m workers up with a deploy file that serves smal"
        " (live workers serve large, small; to ask theirs, enqueue with --model NAME; in a suite, name it under models)"
    )
