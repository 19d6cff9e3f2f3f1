"""Messages that are put off: what this worker cannot read, and what comes while the ledger is away."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import NoReturn

import pytest

from contract import MemoryLedger, RunState
from contract.errors import RedisUnreachable, UnreadableRun
from contract.queue import MESSAGE_VERSION
from tests.support import PATIENCE_S, make_questions, open_run
from tests.unit.workers.messages.batches import batch_of, message
from tests.unit.workers.stages.support import SETTINGS, CountingEngine, at_once, score, scorer
from workers.messages.batch import Settlement
from workers.stages.pauses import RETRY_PAUSE_S, Pauses
from workers.stages.put_offs import PutOffs


def test_a_run_that_only_a_newer_worker_can_read_waits_for_one_however_often_it_comes(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(books, make_questions(2))
    stage = scorer(books, engine, stopping=at_once)
    with monkeypatch.context() as older:
        older.setattr(books, "run", lambda run_id: (_ for _ in ()).throw(UnreadableRun(f"{run_id}: spec.new")))
        for _ in range(SETTINGS.max_attempts + 2):
            held = message(run, "q0", "q1")
            stage.run(batch_of(held))
            assert held.settlement is Settlement.REQUEUE
        assert stage.puts_off == {run.run_id: f"{run.run_id}: spec.new"}
    assert (engine.calls, books.counts(run.run_id).settled) == ([], 0)

    stage.run(batch_of(message(run, "q0", "q1")))

    assert books.counts(run.run_id).finished
    assert stage.puts_off == {}


def test_messages_of_a_run_wait_together_for_the_worker_that_can_read_the_newest(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    run = open_run(books, make_questions(2))
    stage = scorer(books, engine, stopping=at_once)
    batch = batch_of(message(run, "q0"), message(run, "q1", version=MESSAGE_VERSION + 1))
    stage.run(batch)
    assert (engine.calls, books.counts(run.run_id).settled) == ([], 0)
    assert [held.settlement for held in batch.held] == [Settlement.REQUEUE] * 2


def of_newer_version(what: str, books: MemoryLedger, monkeypatch: pytest.MonkeyPatch) -> int:
    """Have a newer version write the runs, if that is `what`, and return the version of messages."""
    if what == "message":
        return MESSAGE_VERSION + 1

    def unreadable(run_id: str) -> NoReturn:
        raise UnreadableRun(f"{run_id}: spec.new")

    monkeypatch.setattr(books, "run", unreadable)
    return MESSAGE_VERSION


@pytest.mark.parametrize("newer", ["message", "run"])
def test_messages_whose_questions_are_all_settled_are_done_with_although_their_run_is_put_off(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch, newer: str
) -> None:
    run = open_run(books, make_questions(1))
    score(books, engine, message(run, "q0"))
    stage = scorer(books, engine, stopping=at_once)
    held = message(run, "q0", version=of_newer_version(newer, books, monkeypatch))
    stage.run(batch_of(held))
    assert (held.settlement, stage.puts_off) == (Settlement.ACKNOWLEDGE, {})


@pytest.mark.parametrize("ended", ["halted", "purged"])
@pytest.mark.parametrize("newer", ["message", "run"])
def test_a_run_that_is_halted_or_purged_is_no_longer_put_off(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch, newer: str, ended: str
) -> None:
    run = open_run(books, make_questions(1))
    stage = scorer(books, engine, stopping=at_once)
    version = of_newer_version(newer, books, monkeypatch)
    stage.run(batch_of(message(run, "q0", version=version)))
    assert list(stage.puts_off) == [run.run_id]
    if ended == "halted":
        books.halt(run.run_id, RunState.PAUSED)
    else:
        books.purge(run.run_id)
    held = message(run, "q0", version=version)
    stage.run(batch_of(held))
    assert (held.settlement, stage.puts_off) == (Settlement.ACKNOWLEDGE, {})


def test_a_batch_of_which_all_was_put_off_rests_before_it_comes_again_and_one_that_did_something_does_not(
    books: MemoryLedger, engine: CountingEngine, no_pauses: list[float]
) -> None:
    run, other = (open_run(books, make_questions(1), name) for name in ("put-off", "other"))
    stage = scorer(books, engine, stopping=at_once)
    put_off = message(run, "q0", version=MESSAGE_VERSION + 1)
    for held in ([put_off, message(other, "q0")], [put_off]):
        stage.run(batch_of(*held))
    assert no_pauses == [0, RETRY_PAUSE_S]


def test_a_batch_rests_before_it_comes_again_because_the_ledger_was_away(
    engine: CountingEngine, monkeypatch: pytest.MonkeyPatch, no_pauses: list[float]
) -> None:
    def away(*_: object, **__: object) -> NoReturn:
        raise RedisUnreachable("away")

    books = MemoryLedger()
    run = open_run(books, make_questions(2))
    monkeypatch.setattr(books, "begin", away)
    stage = scorer(books, engine, stopping=at_once)
    batch = batch_of(message(run, "q0", "q1"))
    stage.run(batch)
    assert (no_pauses, batch.held[0].settlement) == ([RETRY_PAUSE_S], Settlement.REQUEUE)
    assert books.troubles(run.run_id, "q0") == [], "no question is to blame"


def test_a_run_stays_put_off_while_a_long_batch_keeps_it_from_being_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take its turns again, in every other place of the next batch."""
    clock = SimpleNamespace(now_s=100.0)
    monkeypatch.setattr("workers.stages.put_offs.time", SimpleNamespace(monotonic=lambda: clock.now_s))
    put_offs = PutOffs()
    with put_offs.during_batch():
        put_offs.add("judged", ["q0"], "its judge is away")
        clock.now_s += 300
        assert put_offs.current == {"judged": "its judge is away"}
    assert put_offs.current == {}, "the next batch may try it"
    put_offs.add("judged", ["q0"], "its judge is away")
    clock.now_s += 59
    with put_offs.during_batch():
        clock.now_s += 300
        assert put_offs.current == {"judged": "its judge is away"}
    clock.now_s += 1
    with put_offs.during_batch():
        assert put_offs.current == {}, "that batch had none of it"


def test_a_run_stays_put_off_while_a_long_batch_runs_although_a_later_one_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now_s=100.0)
    monkeypatch.setattr("workers.stages.put_offs.time", SimpleNamespace(monotonic=lambda: clock.now_s))
    put_offs = PutOffs()
    with put_offs.during_batch():
        with put_offs.during_batch():
            put_offs.add("judged", ["q0"], "its judge is away")
        clock.now_s += 300
        assert put_offs.current == {"judged": "its judge is away"}


def test_a_run_stays_put_off_when_another_one_is_and_is_named_again_in_the_log_only_if_the_reason_is_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    put_offs = PutOffs()
    for run_id, why in (("a", "away"), ("b", "newer"), ("a", "away"), ("a", "newer")):
        put_offs.add(run_id, ["q0"], why)
    assert put_offs.current == {"a": "newer", "b": "newer"}
    assert [each.message for each in caplog.records] == [
        f"run {named}" for named in ("a is put off: away", "b is put off: newer", "a is put off: newer")
    ]


def test_a_run_that_another_batch_puts_off_at_the_same_moment_stays_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    put_offs = PutOffs()

    def meanwhile(_: str, run_id: str, why: str) -> None:
        if run_id == "a":
            put_offs.add("b", ["q0"], why)

    monkeypatch.setattr("workers.stages.put_offs.log", SimpleNamespace(warning=meanwhile))
    put_offs.add("a", ["q0"], "away")
    assert put_offs.current == {"a": "away", "b": "away"}


def test_a_pause_lasts_its_time_but_not_longer_than_the_worker() -> None:
    began = time.monotonic()
    Pauses(1, stopping=lambda: False).take(0.15)
    assert time.monotonic() - began >= 0.15
    Pauses(1, stopping=at_once).take(PATIENCE_S)
    assert time.monotonic() - began < PATIENCE_S
