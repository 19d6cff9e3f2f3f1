"""What a worker takes from the queue stands on its books, and what it acknowledged does not come again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import redis
from kombu import Connection, Consumer, Producer, Queue
from kombu.asynchronous import Hub

from contract.keys import broker_lists, unacked_options
from contract.priority import Priority
from tests.support import PATIENCE_S
from workers.messages.transport import Transport, use

QUEUE = Queue("score.test", routing_key="score.test")
BOOKS = unacked_options("w0@test")


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url, decode_responses=True) as found:
        yield found


@contextmanager
def consuming(redis_url: str, at_most: int) -> Iterator[tuple[Connection, Any, list[Any]]]:
    """A connection whose consumer holds `at_most` messages; its channel, and the messages as they come."""
    options = {**BOOKS, "queue_order_strategy": "priority"}
    taken: list[Any] = []
    with Connection(redis_url, transport=Transport, transport_options=options) as connection:
        channel = connection.default_channel
        channel.basic_qos(0, at_most, False)
        with Consumer(channel, [QUEUE], on_message=taken.append):
            yield connection, channel, taken


@contextmanager
def holding(redis_url: str, at_most: int) -> Iterator[tuple[Connection, Any, list[Any]]]:
    """The same, once it has taken as much of what waits as it has room for."""
    with consuming(redis_url, at_most) as found:
        found[0].drain_events(timeout=PATIENCE_S)
        yield found


def send(redis_url: str, *bodies: object, priority: Priority = Priority.NORMAL) -> None:
    with Connection(redis_url) as connection:
        for body in bodies:
            Producer(connection).publish(
                body, routing_key=QUEUE.name, exchange=QUEUE.exchange, declare=[QUEUE], priority=int(priority)
            )


def waiting(client: redis.Redis) -> int:
    return sum(client.llen(name) for name in broker_lists(QUEUE.name))


def held(client: redis.Redis) -> int:
    number = client.hlen(BOOKS["unacked_key"])
    assert client.zcard(BOOKS["unacked_index_key"]) == number
    return number


def bodies(messages: list[Any]) -> list[Any]:
    return [message.payload for message in messages]


def test_one_look_takes_as_many_waiting_messages_as_there_is_room_for(redis_url: str, client: redis.Redis) -> None:
    send(redis_url, "1", "2", "3", "4", "5", "6")
    with holding(redis_url, at_most=4) as (_, _, taken):
        assert bodies(taken) == ["1", "2", "3", "4"]
        assert (held(client), waiting(client)) == (4, 2)


def test_what_is_acknowledged_makes_room_for_more(redis_url: str, client: redis.Redis) -> None:
    send(redis_url, "1", "2", "3", "4", "5")
    with holding(redis_url, at_most=2) as (connection, _, taken):
        taken[0].ack()
        connection.drain_events(timeout=PATIENCE_S)
        assert bodies(taken) == ["1", "2", "3"]
        for each in taken[1:]:
            each.ack()
        connection.drain_events(timeout=PATIENCE_S)
        assert bodies(taken) == ["1", "2", "3", "4", "5"]
    assert (held(client), waiting(client)) == (0, 2)


def test_who_takes_is_told_what_is_left(redis_url: str) -> None:
    send(redis_url, "1", "2", "3", "4")
    send(redis_url, "high", priority=Priority.HIGH)
    told: list[int] = []
    with consuming(redis_url, at_most=2) as (connection, channel, taken):
        channel.qos.left_waiting = told.append
        connection.drain_events(timeout=PATIENCE_S)
        assert bodies(taken) == ["high", "1"]
        assert told == [3]


def test_a_consumer_without_a_limit_gets_its_messages_one_by_one(redis_url: str, client: redis.Redis) -> None:
    send(redis_url, "1", "2")
    with holding(redis_url, at_most=0) as (_, _, taken):
        assert (bodies(taken), held(client), waiting(client)) == (["1"], 1, 1)


def test_the_most_urgent_messages_are_taken_first(redis_url: str) -> None:
    send(redis_url, "low 1", "low 2", priority=Priority.LOW)
    send(redis_url, "normal 1", "normal 2")
    send(redis_url, "high", priority=Priority.HIGH)
    with holding(redis_url, at_most=4) as (_, _, taken):
        assert bodies(taken) == ["high", "normal 1", "normal 2", "low 1"]


def test_where_there_is_room_for_urgent_messages_only_no_other_is_taken(redis_url: str, client: redis.Redis) -> None:
    send(redis_url, "normal 1", "normal 2")
    send(redis_url, "high 1", "high 2", "high 3", priority=Priority.HIGH)
    with consuming(redis_url, at_most=10) as (connection, channel, taken):
        channel.qos.room_for = lambda step: 2 - len(taken) if step == Priority.HIGH else 0
        connection.drain_events(timeout=PATIENCE_S)
        assert bodies(taken) == ["high 1", "high 2"]
        assert (held(client), waiting(client)) == (2, 3)


def test_what_room_comes_for_is_taken_while_urgent_messages_are_waited_for(redis_url: str, client: redis.Redis) -> None:
    send(redis_url, "normal 1", "normal 2", "normal 3")
    room = {Priority.HIGH: 2, Priority.NORMAL: 0}
    with consuming(redis_url, at_most=10) as (connection, channel, taken):
        channel.qos.room_for = lambda step: room.get(step, 0)
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=0.1)
        room[Priority.NORMAL] = 2
        channel.take_where_room_came()
        assert bodies(taken) == ["normal 1", "normal 2"]
        assert (held(client), waiting(client)) == (2, 1)


def test_what_is_no_message_is_never_on_the_books_where_it_would_stop_a_restore(
    redis_url: str, client: redis.Redis
) -> None:
    name = broker_lists(QUEUE.name)[2]
    send(redis_url, "1", "2")
    good = str(client.lindex(name, 0))
    tag, where = json.loads(good)["properties"]["delivery_tag"], '{"exchange": "", "routing_key": "score.test"}'
    odd = [good.replace(where, each) for each in ('{"exchange": "a"}', '{"routing_key": "a"}', "3")]
    rubbish = ["not json", "3", "[]", *odd, good.replace("utf-8", "\xff")]
    for number, each in enumerate(rubbish):
        client.lpush(name, each.replace(tag, f"odd {number}").encode("latin-1"))
    send(redis_url, "3")
    with holding(redis_url, at_most=20) as (_, _, taken):
        assert bodies(taken) == ["1", "2", "3"]
        assert (held(client), waiting(client)) == (3, 0)


def test_what_was_just_taken_is_not_restored_as_what_has_been_held_for_too_long(
    redis_url: str, client: redis.Redis
) -> None:
    send(redis_url, "1", "2", "3")
    with holding(redis_url, at_most=3) as (_, channel, taken):
        channel.qos.restore_visible(num=None, interval=1)
        assert (held(client), waiting(client)) == (3, 0)
        client.zadd(BOOKS["unacked_index_key"], {taken[1].delivery_tag: 0.0})
        channel.qos.restore_visible(num=None, interval=1)
        assert (held(client), waiting(client)) == (2, 1)


def test_what_a_consumer_has_is_not_restored_because_the_clock_was_set_or_the_machine_suspended(
    redis_url: str, client: redis.Redis
) -> None:
    """Another worker began its questions, too, while they were being answered."""
    send(redis_url, "1", "2", "3")
    with holding(redis_url, at_most=3) as (_, channel, taken):
        channel.qos.kept = lambda: [each.delivery_tag for each in taken[1:]]
        client.zadd(BOOKS["unacked_index_key"], {each.delivery_tag: 0.0 for each in taken})
        channel.qos.restore_visible(num=10, interval=1)
        assert (held(client), waiting(client)) == (2, 1), "only what was never delivered"
        channel.qos.restore_visible(num=10, interval=1)
        assert (held(client), waiting(client)) == (2, 1)


def test_what_was_taken_together_can_be_restored_by_kombu_in_its_order(redis_url: str, client: redis.Redis) -> None:
    send(redis_url, "1", "2", "3")
    with holding(redis_url, at_most=3) as (_, channel, _):
        channel.visibility_timeout = -(10**9)  # as for a worker known to be dead
        channel.qos.restore_visible(num=None, interval=1)
        assert (held(client), waiting(client)) == (0, 3)


def test_a_message_that_went_back_is_on_the_books_again_when_it_comes_again(
    redis_url: str, client: redis.Redis
) -> None:
    """By whichever command it is taken: if its worker was killed then, it was lost."""
    send(redis_url, "1", "2", "3")
    with holding(redis_url, at_most=3) as (connection, _, taken):
        for at in (1, 2):
            taken[at].reject(requeue=True)
            assert (held(client), waiting(client)) == (2, 1)
            connection.drain_events(timeout=PATIENCE_S)
            assert (held(client), waiting(client)) == (3, 0)
        assert bodies(taken) == ["1", "2", "3", "2", "3"]


def test_messages_that_were_not_acknowledged_go_back_when_the_channel_closes(
    redis_url: str, client: redis.Redis
) -> None:
    send(redis_url, "1", "2", "3")
    with holding(redis_url, at_most=3) as (_, _, taken):
        taken[1].ack()
    assert (held(client), waiting(client)) == (0, 2)


def test_a_message_acknowledged_after_its_channel_closed_does_not_come_again(
    redis_url: str, client: redis.Redis
) -> None:
    send(redis_url, "1")
    with holding(redis_url, at_most=1) as (_, channel, taken):
        channel.do_restore = False  # the connection broke: kombu restores nothing
        channel.close()
        assert held(client) == 1
        taken[0].ack()
        assert (held(client), waiting(client)) == (0, 0)


def test_a_message_that_is_kept_when_its_channel_closes_is_settled_over_the_next_one(
    redis_url: str, client: redis.Redis
) -> None:
    send(redis_url, "1", "2", "3", "4")
    with holding(redis_url, at_most=3) as (_, channel, taken):
        kept = taken[:2]
        channel.qos.kept = lambda: [message.delivery_tag for message in kept]
    assert (held(client), waiting(client)) == (2, 2)
    with consuming(redis_url, at_most=1) as (_, channel, _):
        channel.qos.take_over(kept)
        assert (held(client), waiting(client)) == (2, 2)
        kept[0].ack()
        channel.qos.write_acknowledgements()
        assert (held(client), waiting(client)) == (1, 2)
        kept[1].reject(requeue=True)
        assert (held(client), waiting(client)) == (0, 3)


def test_a_message_that_was_taken_over_goes_back_with_its_new_channel(redis_url: str, client: redis.Redis) -> None:
    send(redis_url, "1")
    with holding(redis_url, at_most=1) as (_, channel, taken):
        channel.qos.kept = lambda: [taken[0].delivery_tag]
    with consuming(redis_url, at_most=1) as (_, channel, _):
        channel.qos.take_over(taken)
        assert (held(client), waiting(client)) == (1, 0)
    assert (held(client), waiting(client)) == (0, 1)


def test_who_takes_over_gives_back_what_was_recorded_and_could_not_be_delivered_or_requeued(
    redis_url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(redis_url, "1", "2", "3")
    with holding(redis_url, at_most=3) as (_, channel, taken):
        taken[0].ack()
        with monkeypatch.context() as away:
            away.setattr(redis.client.Pipeline, "execute", _no_connection)
            with pytest.raises(redis.ConnectionError):
                taken[1].reject(requeue=True)
        channel.qos.take_over(taken[2:])
        assert (held(client), waiting(client)) == (1, 1)


def test_connecting_requeues_nothing_that_could_not_be_renewed_while_the_connection_was_away(
    redis_url: str, client: redis.Redis
) -> None:
    send(redis_url, "1")
    with holding(redis_url, at_most=1) as (_, channel, taken):
        channel.qos.kept = lambda: [taken[0].delivery_tag]
    client.zadd(BOOKS["unacked_index_key"], {taken[0].delivery_tag: 0.0})
    with consuming(redis_url, at_most=1) as (connection, _, _):
        connection.transport.register_with_event_loop(connection.connection, Hub())
        assert (held(client), waiting(client)) == (1, 0)


def test_messages_that_cannot_be_acknowledged_now_are_acknowledged_the_next_time_and_never_again(
    redis_url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    send(redis_url, "1", "2")
    with holding(redis_url, at_most=2) as (_, channel, taken):
        with monkeypatch.context() as away:
            away.setattr(redis.client.Pipeline, "execute", _no_connection)
            taken[0].ack()
            channel.qos.write_acknowledgements()
        assert held(client) == 2
        assert len(caplog.messages) == 1
        taken[1].ack()
        channel.qos.write_acknowledgements()
        assert held(client) == 0
        channel.qos.kept = lambda: [each.delivery_tag for each in taken]
        channel.qos.restore_visible(num=10, interval=1)
        assert held(client) == client.zcard(BOOKS["unacked_index_key"]) == 0, "nor are they recorded anew"
        with monkeypatch.context() as away:
            away.setattr(redis.client.Pipeline, "execute", _no_connection)
            channel.qos.write_acknowledgements()
        assert len(caplog.messages) == 1, "there was nothing left to write"


def _no_connection(*_: object, **__: object) -> None:
    raise redis.ConnectionError("gone")


def test_what_json_lacks_arrives_as_it_was_sent(redis_url: str) -> None:
    use()
    sent = {"at": datetime(2026, 11, 25, tzinfo=UTC), "ids": ["é", "b"]}
    send(redis_url, sent, "as it is")
    with holding(redis_url, at_most=2) as (_, _, taken):
        assert bodies(taken) == [sent, "as it is"]
