"""A janitor's rounds: what it looks for, when it looks again, and what it leaves alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import redis
from celery import Celery

from contract import RedisLedger, Settings, keys
from contract.audit import missing
from contract.errors import RedisUnreachable, WritesRefused
from contract.fleet import LEASE_S, Fleet
from contract.queue import queued_batches
from tests.integration.runs import QUEUE, send, sent, wait_finished
from tests.support import SIMULATED_MODEL, make_questions, open_run, settle, worker
from workers.janitor import Janitor


def test_a_run_that_cannot_be_audited_is_not_the_others_trouble(
    janitor: Janitor, redis_ledger: RedisLedger, caplog: pytest.LogCaptureFixture
) -> None:
    broken, lost = (open_run(redis_ledger, make_questions(4), name=name) for name in ("broken", "lost"))
    redis_ledger.client.set(keys.RunKeys(broken.run_id).counts, "no hash")
    janitor.audit_soon()
    janitor.round()
    assert f"run {broken.run_id}: audit skipped: " in caplog.text
    assert missing(redis_ledger, lost) == []


@pytest.mark.parametrize("noticed", ["contract.fleet.Fleet.alive", "workers.janitor.looks_stalled"])
def test_after_redis_was_away_nobody_is_taken_for_dead_before_all_could_beat_again(
    janitor: Janitor, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch, noticed: str
) -> None:
    open_run(redis_ledger, make_questions(1))
    fleet = Fleet(redis_ledger.client)
    with monkeypatch.context() as away:
        away.setattr(noticed, _raise_unreachable)
        with pytest.raises(RedisUnreachable):
            janitor.round()
    redis_ledger.client.sadd(keys.workers(), "late@test", "w0@test")  # whose leases ran out meanwhile
    janitor.round()
    assert fleet.names() == ["late@test", "w0@test"]
    later = time.monotonic() + LEASE_S
    monkeypatch.setattr("workers.janitor.time.monotonic", lambda: later)
    janitor.round()
    assert fleet.names() == ["w0@test"], "its own worker is no dead one"


def _raise_unreachable(*_: object) -> None:
    raise RedisUnreachable("away")


def test_a_janitor_reads_what_an_open_run_asks_once_and_not_in_every_round(
    janitor: Janitor, app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(app, redis_ledger, 4)
    janitor.round()
    monkeypatch.setattr(RedisLedger, "run", lambda *_: pytest.fail("read again"))
    janitor.round()


def test_a_run_that_is_purged_while_a_janitor_looks_around_is_no_warning(
    janitor: Janitor,
    app: Celery,
    redis_ledger: RedisLedger,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = sent(app, redis_ledger, 4)
    monkeypatch.setattr(RedisLedger, "open_runs", lambda _: ["asked-by-http", run.run_id])
    janitor.round()
    assert not caplog.messages
    redis_ledger.purge(run.run_id)  # which it knows from the round before
    janitor.round()
    assert not caplog.messages


def test_a_message_that_was_lost_with_the_connection_is_found_at_once_although_others_wait(
    janitor: Janitor, app: Celery, redis_ledger: RedisLedger
) -> None:
    lost, waiting = (open_run(redis_ledger, make_questions(4), name=name) for name in ("lost", "waiting"))
    send(app, redis_ledger, waiting)
    janitor.audit_soon()
    janitor.round()
    assert missing(redis_ledger, lost) == []


def test_all_runs_are_audited_by_one_look_at_their_queue(
    janitor: Janitor, app: Celery, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read anew for each of them: of 100 runs with 313 messages each, that took 12 s."""
    for name in ("one", "two", "three"):
        send(app, redis_ledger, open_run(redis_ledger, make_questions(4), name=name))
    looks: list[str] = []
    monkeypatch.setattr("contract.audit.queued_batches", _counted(looks))
    janitor.audit_soon()
    janitor.round()
    assert looks == [QUEUE], "none of them lacks a question, for which it would be looked at again"


def test_no_queue_is_read_for_a_rescoring_that_was_cut_short(
    janitor: Janitor, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of its questions is ever in a message: each look cost the whole queue, and sent nothing."""
    open_run(redis_ledger, make_questions(4), rescored_from="another")
    looks: list[str] = []
    monkeypatch.setattr("contract.audit.queued_batches", _counted(looks))
    janitor.audit_soon()
    janitor.round()
    assert looks == []


def _counted(looks: list[str]) -> Callable[..., Any]:
    def look(client: redis.Redis, queue: str, *of: Any) -> Any:
        looks.append(queue)
        return queued_batches(client, queue, *of)

    return look


def test_a_reconnect_while_the_last_ones_losses_are_looked_for_is_not_forgotten(
    janitor: Janitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bool] = []

    def look(*, thoroughly: bool) -> None:
        looked.append(thoroughly)
        if len(looked) == 1:
            janitor.audit_soon()
        if len(looked) == 2:
            raise RedisUnreachable("away again")

    monkeypatch.setattr(janitor, "look", look)
    janitor.audit_soon()
    janitor.round()
    with pytest.raises(RedisUnreachable):
        janitor.round()
    janitor.round()
    janitor.round()
    assert looked == [True, True, True, False]


def test_the_losses_of_a_dead_worker_are_looked_for_again_if_redis_went_away_meanwhile(
    janitor: Janitor, redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis_ledger.client.sadd(keys.workers(), "dead@test")
    looked: list[bool] = []

    def look(*, thoroughly: bool) -> None:
        looked.append(thoroughly)
        if len(looked) == 1:
            raise RedisUnreachable("away")

    monkeypatch.setattr(janitor, "look", look)
    with pytest.raises(RedisUnreachable):
        janitor.round()
    janitor.round()
    janitor.round()
    assert looked == [True, True, False]


@pytest.mark.parametrize("trouble", [RedisUnreachable("away"), WritesRefused("full")], ids=["away", "full"])
def test_losses_that_redis_did_not_take_again_are_looked_for_in_the_next_round(
    janitor: Janitor,
    app: Celery,
    redis_ledger: RedisLedger,
    monkeypatch: pytest.MonkeyPatch,
    trouble: RedisUnreachable | WritesRefused,
) -> None:
    lost, waiting = (open_run(redis_ledger, make_questions(4), name=name) for name in ("lost", "waiting"))
    send(app, redis_ledger, waiting)
    janitor.audit_soon()

    def refuse(*_: object) -> NoReturn:
        raise trouble

    with monkeypatch.context() as away:
        away.setattr("workers.janitor.heal", refuse)
        with pytest.raises(type(trouble)):
            janitor.round()
    janitor.round()
    assert missing(redis_ledger, lost) == []


def test_a_janitor_says_nothing_of_runs_of_which_nothing_is_lost_and_remembers_none_that_is_over(
    janitor: Janitor, app: Celery, redis_ledger: RedisLedger, caplog: pytest.LogCaptureFixture
) -> None:
    """The HTTP server makes a run of each request."""
    run = sent(app, redis_ledger, 1)
    janitor.audit_soon()
    janitor.round()
    janitor.round()
    assert list(janitor._quiet._runs) == [run.run_id]
    settle(redis_ledger, run.run_id, "q0")
    janitor.round()
    assert (list(janitor._quiet._runs), caplog.messages) == ([], [])


def test_a_janitor_looks_after_the_runs_of_its_own_queue_and_leaves_others_to_theirs(
    settings: Settings, app: Celery, redis_ledger: RedisLedger
) -> None:
    run = open_run(redis_ledger, make_questions(1))
    for queue, found in (("score.another", ["q0"]), (QUEUE, [])):
        janitor = Janitor(settings, app, "w0@test", queue)
        janitor.audit_soon()
        janitor.round()
        assert missing(redis_ledger, run) == found


def open_unreadable_run(ledger: RedisLedger) -> None:
    ledger.client.set(keys.RunKeys("from-the-future").meta, '{"spec": {"mode": "telepathy"}}')
    ledger.client.sadd(keys.open_runs(), "from-the-future")


def test_a_janitor_says_of_a_run_that_this_version_cannot_read_so_once_and_not_in_every_round(
    janitor: Janitor, redis_ledger: RedisLedger, caplog: pytest.LogCaptureFixture
) -> None:
    open_unreadable_run(redis_ledger)
    for _ in range(3):
        janitor.round()
    (told,) = caplog.messages
    assert told.startswith("run from-the-future: audit skipped")


def test_a_run_that_this_version_cannot_read_is_not_the_others_trouble(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    open_unreadable_run(redis_ledger)
    run = sent(app, redis_ledger, 20)
    assert redis_ledger.client.lpop(keys.broker_lists(keys.score_queue(SIMULATED_MODEL))[2]) is not None
    with worker(tmp_path / "log"):
        wait_finished(redis_ledger, run)
        assert [each.name for each in Fleet(redis_ledger.client).alive()] == ["w0@test"]
    assert "run from-the-future: audit skipped" in (tmp_path / "log").read_text()
