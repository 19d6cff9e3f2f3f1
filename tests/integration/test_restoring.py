"""A worker died with messages in its hands: they go back to the queue, once."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import pytest
import redis
from celery import Celery
from kombu.exceptions import OperationalError
from pydantic import SecretStr

from contract import RedisLedger, Settings, keys, load_settings
from contract.errors import RedisUnreachable
from contract.fleet import Fleet
from contract.queue import MESSAGE_VERSION, held_question_ids, queue_length, restore_held
from tests.integration.holding import die_holding, queued
from tests.integration.runs import QUEUE, messages_in, queued_question_ids, sent
from tests.tls import relay


def test_what_a_dead_worker_held_is_seen_under_its_name_and_run(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis
) -> None:
    run = sent(app, redis_ledger, 6, batch_size=2)
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
    run = sent(app, redis_ledger, 6, batch_size=2)
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
    sent(app, redis_ledger, 40, batch_size=1)
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
    sent(app, redis_ledger, 2, batch_size=1)
    die_holding(Fleet(client), "gpu0", messages=2)
    client.set(keys.unacked_options("gpu0")["unacked_mutex_key"], "held by the dead", ex=300)
    assert restore_held(settings, "gpu0") == 2
    assert queued(client) == {"q0": 1, "q1": 1}


def test_restoring_one_worker_leaves_the_others_hands_alone(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, settings: Settings
) -> None:
    run = sent(app, redis_ledger, 4, batch_size=1)
    for worker in ("gpu0", "gpu1"):
        die_holding(Fleet(client), worker, messages=2)
    assert restore_held(settings, "gpu1") == 2
    assert held_question_ids(client, ["gpu0"], run.run_id) == {"q0", "q1"}
    assert queued(client) == {"q2": 1, "q3": 1}


def test_what_a_dead_worker_held_goes_back_although_its_clock_was_ahead(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, settings: Settings
) -> None:
    sent(app, redis_ledger, 2, batch_size=1)
    die_holding(Fleet(client), "gpu0", messages=2)
    taken_at = keys.unacked_options("gpu0")["unacked_index_key"]
    tags = cast("list[str]", client.zrange(taken_at, 0, -1))
    client.zadd(taken_at, dict.fromkeys(tags, time.time() + 86_400))
    assert restore_held(settings, "gpu0") == 2
    assert queued(client) == {"q0": 1, "q1": 1}


def test_what_cannot_be_put_back_is_not_said_to_be(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, settings: Settings
) -> None:
    sent(app, redis_ledger, 2, batch_size=1)
    die_holding(Fleet(client), "gpu0", messages=2)
    client.hset(keys.unacked("gpu0"), "rubbish", "no message, and taken at no time")
    assert restore_held(settings, "gpu0") == 2


def test_a_worker_that_held_nothing_has_nothing_to_put_back(settings: Settings) -> None:
    assert restore_held(settings, "never seen") == 0


def test_what_a_dead_worker_held_goes_back_over_tls_too(
    redis_ledger: RedisLedger, app: Celery, client: redis.Redis, settings: Settings, tmp_path: Path
) -> None:
    sent(app, redis_ledger, 2, batch_size=1)
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
