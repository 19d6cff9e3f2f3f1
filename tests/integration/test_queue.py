"""How messages are sent, counted and read back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from celery import Celery
from kombu import pools

from contract import keys, load_settings
from contract.errors import RedisUnreachable, WritesRefused
from contract.priority import Priority
from contract.queue import (
    MESSAGE_VERSION,
    QuestionBatch,
    make_celery,
    oldest_published_at,
    publish,
    queue_length,
    queued_runs,
    send,
    task_name,
)
from tests.integration.runs import QUEUE, messages_in, queued_question_ids
from tests.support import url_of, valkey


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
    assert queued_runs(client, QUEUE, ["run"]) == {"run": 3}
    assert queued_runs(client, QUEUE, ["run", "other", "third"]) == {"run": 3, "other": 1}
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
    with valkey(tmp_path) as server:
        app = make_celery(load_settings(None, [f"redis_url={url_of(server)}"]))
        with pytest.raises(RedisUnreachable, match="Repeat the command to resume") as caught:
            publish(app, QUEUE, "run", ids_until(server.stop), batch_size=1)
        assert caught.value.retryable
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
