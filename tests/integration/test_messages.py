"""What is no message, or not one of ours, in front of a real worker: it is refused where everybody can see it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from benchmarks.fuzz_messages import fuzz_messages
from contract import RedisLedger, Settings, keys
from contract.audit import missing, send_missing
from contract.queue import ReceivedBatch, publish, queue_length, restore_held
from tests.integration.runs import QUEUE
from tests.support import make_questions, open_run, wait_until, worker


@pytest.fixture
def good(app: Celery, redis_ledger: RedisLedger) -> dict[str, Any]:
    """A message as it lies in the queue, which is empty again."""
    publish(app, QUEUE, "a-run", ["q0"], batch_size=1)
    found: dict[str, Any] = json.loads(str(redis_ledger.client.lpop(keys.broker_lists(QUEUE)[2])))
    return found


def with_body(good: dict[str, Any], arguments: Any, named: Any) -> dict[str, Any]:
    body = base64.b64encode(json.dumps([arguments, named, {}]).encode()).decode()
    return {**good, "body": body}


NAMED = {"version": 1, "published_at": 1.0}


def test_a_worker_outlives_rubbish_refuses_it_and_loses_nothing_else() -> None:
    result = fuzz_messages(200, seed=7)
    assert result.broken == []
    assert result.refused > 100


def test_every_kind_of_bad_message_is_refused_with_a_reason(
    redis_ledger: RedisLedger, good: dict[str, Any], tmp_path: Path
) -> None:
    pickled = {**good, "content-type": "application/x-python-serialize", "content-encoding": "binary"}
    no_tag = {**good, "properties": {key: each for key, each in good["properties"].items() if key != "delivery_tag"}}
    no_text = {
        **good,
        "body": 7,
        "headers": {**good["headers"], "compression": "zlib"},
        "properties": {**good["properties"], "body_encoding": None},
    }
    odd_tag = {**good, "properties": {**good["properties"], "delivery_tag": {"a": 1}}}
    bad = {
        "b'not json'": b"not json",
        "no delivery tag": json.dumps(no_tag).encode(),
        "a tag that is no text": json.dumps(odd_tag).encode(),
        "Refusing to deserialize": json.dumps(pickled).encode(),
        "a bytes-like object is required, not 'int'": json.dumps(no_text).encode(),
        "unregistered task": json.dumps({**good, "headers": {**good["headers"], "task": "os.system"}}).encode(),
        "unhashable": json.dumps({**good, "headers": {**good["headers"], "task": ["x"]}}).encode(),
        "question_ids: ": json.dumps(with_body(good, ["a-run", "q0"], NAMED)).encode(),
        "published_at: ": json.dumps(with_body(good, ["a-run", ["q0"]], {**NAMED, "published_at": "now"})).encode(),
        "at most 1024 items": json.dumps(with_body(good, ["a-run", ["q0"] * 2000], NAMED)).encode(),
    }
    for number, message in enumerate(bad.values()):
        # Each with a tag and id of its own, as messages have.
        own = message.replace(good["properties"]["delivery_tag"].encode(), f"tag-{number}".encode())
        redis_ledger.client.lpush(QUEUE, own.replace(good["headers"]["id"].encode(), f"id-{number}".encode()))
    log = tmp_path / "log"
    with worker(log) as process:
        wait_until(lambda: queue_length(redis_ledger.client, QUEUE) == 0, "the queue to be empty")
        wait_until(lambda: not redis_ledger.client.hlen(keys.unacked("w0@test")), "nothing to be held")
        assert process.poll() is None
    said = log.read_text()
    for reason in list(bad)[3:]:
        assert reason in said, reason
    assert said.count("something that is not a message was dropped") == 3


def test_rubbish_in_the_queue_is_not_the_audits_trouble(
    redis_ledger: RedisLedger, app: Celery, settings: Settings
) -> None:
    run = open_run(redis_ledger, make_questions(6))
    publish(app, QUEUE, run.run_id, ["q0", "q1", "q2", "q3"], batch_size=2)
    for rubbish in (b"\xff\xfe\x00", b"not json", b"[]", b'{"body": 7}', b"[" * 100_000):
        redis_ledger.client.lpush(QUEUE, rubbish)
        redis_ledger.client.hset(keys.unacked("w0@test"), rubbish[:9], rubbish)
    redis_ledger.client.sadd(keys.workers(), "w0@test")
    assert missing(redis_ledger, run) == ["q4", "q5"]
    assert send_missing(redis_ledger, app, run, batch_size=2) == (2, 1)
    redis_ledger.client.delete(keys.unacked("w0@test"))
    assert restore_held(settings, "w0@test") == 0


@pytest.mark.parametrize(
    ("arguments", "named", "priority", "said"),
    [
        (["run", ["q0"]], NAMED, 7, "priority: "),
        (["run", ["q0"]], NAMED, None, "priority: "),
        (["run", []], NAMED, 6, "question_ids: "),
        (["run", [7]], NAMED, 6, "question_ids.0: "),
        ([7, ["q0"]], NAMED, 6, "run_id: "),
        (["run", ["q0"]], {"version": 1}, 6, "published_at: Field required"),
        (["run", ["q0"]], {**NAMED, "published_at": float("nan")}, 6, "published_at: "),
        (["run", ["q0"]], {**NAMED, "version": "1"}, 6, "version: "),
        (["run"], NAMED, 6, "not enough values"),
        (None, NAMED, 6, "NoneType"),
        (["run", ["q0"]], None, 6, "NoneType"),
    ],
)
def test_a_batch_is_read_as_it_is_written_and_not_otherwise(
    arguments: Any, named: Any, priority: Any, said: str
) -> None:
    assert ReceivedBatch.read(["run", ["q0"]], {**NAMED, "more": 1}, 6).question_ids == ["q0"]
    with pytest.raises(ValueError, match=said):
        ReceivedBatch.read(arguments, named, priority)
