"""Staying with a run to its end: lost questions are sent again, an absent Redis is waited for."""

from __future__ import annotations

import pytest

from contract.errors import LedgerError, RedisUnreachable, UnknownRun
from contract.fleet import BootFailure
from contract.ledger import REQUEST_ENDED, Counts, MemoryLedger, Run, RunState
from contract.names import request_id
from contract.verdict import Outcome
from producer.broker import MemoryBroker
from producer.runs.submit import submit
from producer.watching.status import status_lines
from producer.watching.watch import Watcher, watch
from tests.support import open_run, settle
from tests.unit.producer.conftest import WriteRows
from tests.unit.producer.planning import planned
from tests.unit.producer.watching.looking import FULL, WAITING, Screen, Script, settle_open, worker


def test_a_watch_ends_when_the_run_is_settled(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    broker.live.append(worker(run.spec.model))

    counts = screen.watch((3, lambda: settle_open(ledger, run, 2)), (6, lambda: settle_open(ledger, run)))

    assert counts.finished
    assert [each.counts.settled for each in screen.snapshots][-2:] == [2, 5]
    assert screen.said == []


def test_a_settled_run_is_shown_once(ledger: MemoryLedger, run: Run, screen: Screen) -> None:
    settle_open(ledger, run)

    screen.watch()

    assert len(screen.snapshots) == 1


def test_a_stall_that_cannot_be_healed_as_redis_takes_no_writes_is_told_and_ends_no_watch(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, monkeypatch: pytest.MonkeyPatch, screen: Screen
) -> None:
    broker.live.append(worker(run.spec.model))
    broker.messages.clear()
    heal = broker.heal

    def refuse(_: Run) -> tuple[int, int]:
        raise FULL

    monkeypatch.setattr(broker, "heal", refuse)
    screen.watch((7, lambda: monkeypatch.setattr(broker, "heal", heal)), (20, lambda: settle_open(ledger, run)))

    assert screen.said == [WAITING, f"{run.run_id} was stalled: 5 lost questions re-sent in 3 messages."]


def test_lost_questions_are_sent_again_after_two_looks(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    broker.live.append(worker(run.spec.model))
    broker.messages.clear()
    sent = list[int]()

    def look() -> None:
        sent.append(len(broker.messages))

    screen.watch((2, look), (4, look), (9, lambda: settle_open(ledger, run)))

    assert screen.said == [f"{run.run_id} was stalled: 5 lost questions re-sent in 3 messages."]
    assert sent == [0, 3]
    assert len(broker.messages) == 3


def test_one_look_at_nothing_queued_is_no_stall(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    broker.live.append(worker(run.spec.model))
    under_way = broker.messages[:]
    broker.messages.clear()

    screen.watch((1, lambda: broker.messages.extend(under_way)), (9, lambda: settle_open(ledger, run)))

    assert screen.said == []


def test_a_redis_that_goes_away_is_waited_for(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, monkeypatch: pytest.MonkeyPatch, screen: Screen
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
    screen.watch((2, lambda: set_away(True)), (7, lambda: set_away(False)), (9, lambda: settle_open(ledger, run)))

    assert screen.said == [
        "No Redis answers at redis://here (refused). Retrying until it responds.",
        "Redis is back after 5 s.",
    ]


def test_an_outage_is_as_long_as_it_was_however_long_an_answer_was_waited_for(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, monkeypatch: pytest.MonkeyPatch, screen: Screen
) -> None:
    broker.live.append(worker(run.spec.model))
    counts, script = ledger.counts, Script({2: lambda: monkeypatch.setattr(ledger, "counts", slow)})

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
    ledger: MemoryLedger, run: Run, screen: Screen
) -> None:
    settle_open(ledger, run)
    screen.watch()
    (shown,) = screen.snapshots
    assert "/s" not in shown.line()


def test_a_paused_run_is_waited_for_without_complaint_and_without_healing(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    broker.messages.clear()

    ledger.halt(run.run_id, RunState.PAUSED)
    counts = screen.watch((120, lambda: ledger.resume(run.run_id)), (121, lambda: settle_open(ledger, run)))

    assert counts.finished
    assert broker.messages == []
    assert screen.said == [
        f"The run is paused. Resume it with: python -m producer resume {run.run_id}",
        f"{run.run_id} has been resumed.",
    ]


def test_a_cancelled_run_ends_the_watch(ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen) -> None:
    broker.live.append(worker(run.spec.model))

    counts = screen.watch((3, lambda: ledger.halt(run.run_id, RunState.CANCELLED)))

    assert (counts.over, counts.finished, counts.standing) == (True, False, "cancelled")


def test_what_is_in_flight_of_a_cancelled_run_is_waited_for(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, screen: Screen
) -> None:
    """Otherwise, what is exported then would lack what was asked for."""
    broker.live.append(worker(run.spec.model))
    broker.held.add(run.run_id)

    def finish() -> None:
        settle_open(ledger, run, 2)
        broker.held.clear()

    counts = screen.watch((3, lambda: ledger.halt(run.run_id, RunState.CANCELLED)), (9, finish))

    assert (counts.settled, counts.standing) == (2, "cancelled")
    assert [each.over for each in screen.snapshots].count(True) == 1, "a line, and not one twice a second"
    assert screen.said == [
        f"The run is cancelled. Resume it with: python -m producer resume {run.run_id}",
        f"{run.run_id}: waiting for the questions that workers have begun.",
    ]


def test_a_run_that_is_gone_ends_the_watch_with_what_is_gone_and_what_to_do(
    ledger: MemoryLedger, run: Run, screen: Screen
) -> None:
    with pytest.raises(UnknownRun, match=r"no longer in the ledger; last seen with 0 of 5 questions settled.*Repeat"):
        screen.watch((2, lambda: ledger.purge(run.run_id)))


def test_a_request_that_ends_while_it_is_watched_is_not_called_lost(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    """It was said that Redis may have lost its data, and that a file should be enqueued again."""
    request = ledger.open_run(run.model_copy(update={"run_id": request_id()}))
    with pytest.raises(UnknownRun) as caught:
        Screen(ledger, broker, request).watch((2, lambda: ledger.purge(request.run_id)))
    assert caught.value.hint == REQUEST_ENDED


@pytest.mark.parametrize("settled", [True, False], ids=["the others are settled", "the others were never sent"])
def test_questions_that_nobody_writes_end_the_watch(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run, settled: bool
) -> None:
    short = run.model_copy(update={"run_id": "short"})
    ledger.open_run(short)
    ledger.add_questions(short.run_id, [question for question, _ in ledger.results(run.run_id)][:2])
    if settled:
        settle_open(ledger, short)
    broker.live.append(worker(run.spec.model))

    with pytest.raises(LedgerError, match="short: 3 of 5 questions never written"):
        Screen(ledger, broker, ledger.run("short")).watch()


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
    with pytest.raises(LedgerError, match="repeat `python -m workers rescore old`: it was interrupted"):
        Screen(ledger, broker, ledger.run("rescored")).watch()


def test_a_rescoring_that_was_interrupted_between_questions_and_verdicts_is_not_waited_for_forever(
    ledger: MemoryLedger, broker: MemoryBroker, run: Run
) -> None:
    """`status` said nothing of it, either: its questions were all written, and wait for no worker."""
    questions = [question for question, _ in ledger.results(run.run_id)]
    rescored = open_run(ledger, questions, "rescored", rescored_from="old")
    settle(ledger, rescored.run_id, questions[0].id)

    status = dict(status_lines(rescored, ledger.counts(rescored.run_id), broker, ()))

    assert status["unwritten"] == (
        "4 of 5 questions not read again: unless `python -m workers rescore old` is still writing them, it was "
        "interrupted; run it again to continue (if old was purged, purge this, too)"
    )
    with pytest.raises(LedgerError, match="4 of 5 questions never written"):
        Screen(ledger, broker, rescored).watch()


def test_nobody_is_told_to_start_workers_for_a_rescoring(ledger: MemoryLedger, broker: MemoryBroker, run: Run) -> None:
    questions = [question for question, _ in ledger.results(run.run_id)]
    rescored = open_run(ledger, questions, "rescored", rescored_from="old")
    broker.gone.append(worker(rescored.spec.model).model_copy(update={"seen_at": rescored.created_at + 1}))
    broker.unbooted.append(BootFailure(worker="gpu0@b", queue="score.m", reason="No GPU.", at=rescored.created_at))
    screen = Screen(ledger, broker, rescored)

    status = dict(status_lines(rescored, ledger.counts(rescored.run_id), broker, ()))
    screen.watch((15, lambda: settle(ledger, rescored.run_id, *(each.id for each in questions))))

    assert status["workers"] == "none live"
    assert status.keys().isdisjoint({"not booted", "vanished"})
    assert screen.said == []
    assert "no worker" not in {each.left() for each in screen.snapshots}


def test_a_run_without_any_key_is_watched_without_an_accuracy(
    ledger: MemoryLedger, broker: MemoryBroker, write_rows: WriteRows
) -> None:
    file = write_rows(*({"question": f"{n}?", "choices": ["a", "b"], "answer": None} for n in range(4)))
    run = submit(planned(file), ledger, broker).run
    first, *others = ledger.unsettled(run.run_id)
    screen = Screen(ledger, broker, run)

    screen.watch(
        (2, lambda: settle(ledger, run.run_id, first, outcome=Outcome.FAILED)),
        (4, lambda: settle(ledger, run.run_id, *others, outcome=Outcome.ANSWERED)),
    )

    assert {each.accuracy() for each in screen.snapshots} == {"no accuracy, as no question has a key"}
    assert screen.snapshots[-1].outcomes() == "correct 0 · wrong 0 · unanswered 0 · failed 1 · answered 3"
