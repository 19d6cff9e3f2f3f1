"""kombu's Redis transport at a third of its cost per message, with the same data in Redis.

kombu makes a new client object for every command, takes every message with two round trips, and acknowledges every
message in its own transaction. Here a channel keeps one client (with the same connection pool); once a message has
woken the event loop, as many more as the consumer has room for are taken in one atomic step; and all acknowledgements
of one event loop iteration are written in one transaction: before the loop sleeps, before the channel closes, and
before kombu reads its unacked keys.

Four more things differ from kombu:

- If there is room for urgent messages but not for others, only the urgent ones are waited for.
- When a connection breaks, kombu requeues what it delivered, and another worker begins it again. Here the consumer
  keeps what it has.
- A malformed message crashes kombu's worker. Here it is dropped, with an error in the log.
- So does a Redis that answers but temporarily refuses writes. Here it counts as unavailable.

This overrides internal methods of kombu 5.7.0, so kombu is pinned to that version.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from kombu import serialization
from kombu.transport import TRANSPORT_ALIASES, redis, virtual
from kombu.utils import json as kombu_json
from kombu.utils.encoding import bytes_to_str
from redis.connection import Connection, SSLConnection
from redis.exceptions import ResponseError

from contract.connection import lua, refusal, try_writing
from contract.queue import UNREADABLE

__all__ = ["FOR_WRITING", "Channel", "QoS", "Transport", "use"]

log = logging.getLogger(__name__)

#: Timeout of a BRPOP that leaves out some priorities.
WAIT_FOR_URGENT_S = 0.2
#: Transport option: connecting requires that Redis accepts writes.
FOR_WRITING = "for_writing"


class Refused(ResponseError):
    """Redis temporarily refuses writes. A connection error for kombu and Celery, but not for redis-py."""


class _Connection(Connection):
    def read_response(self, *arguments: Any, **options: Any) -> Any:
        """Read a response. Raises Refused."""
        try:
            return super().read_response(*arguments, **options)
        except ResponseError as trouble:
            if not (word := refusal(trouble)):
                raise
            raise Refused(str(trouble), status_code=word) from None


class _TlsConnection(_Connection, SSLConnection):
    """`_Connection` over TLS."""


class QoS(redis.QoS):  # type: ignore[misc]  # kombu ships no types
    """kombu's record of unacknowledged messages, with batched acknowledgements."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._acknowledged: list[str] = []
        #: Delivery tags recorded as unacked in the same step in which their messages were taken.
        self.already_recorded: set[str] = set()
        #: Returns how many messages of a priority the consumer has room for; by default the prefetch count's estimate.
        self.room_for: Callable[[int], int | None] = lambda _: self.can_consume_max_estimate()
        #: Called with the number of messages left in the queue, whenever some were taken.
        self.left_waiting: Callable[[int], object] = lambda _: None
        #: Returns the delivery tags of messages that stay the consumer's however long it has them, and when the channel
        #: closes.
        self.kept: Callable[[], Collection[str]] = tuple

    def append(self, message: Any, delivery_tag: str) -> None:
        """Record a message as unacknowledged, unless it is recorded already."""
        if delivery_tag in self.already_recorded:
            self.already_recorded.discard(delivery_tag)
            virtual.QoS.append(self, message, delivery_tag)
        else:
            super().append(message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge with the others of this event loop iteration; immediately if the channel is closed."""
        self.strike(delivery_tag)
        virtual.QoS.ack(self, delivery_tag)

    def strike(self, delivery_tag: str) -> None:
        """Remove a message from the unacked keys, with the next acknowledgements."""
        self._acknowledged.append(delivery_tag)
        if self.channel.closed:
            self.write_acknowledgements()

    def write_acknowledgements(self) -> None:
        """Remove the acknowledged messages from the unacked keys. Failed writes are retried next time.

        A message that is never removed is redelivered, and its questions are found settled.
        """
        if not self._acknowledged:
            return
        try:
            with self.pipe_or_acquire() as pipe:
                pipe.zrem(self.unacked_index_key, *self._acknowledged)
                pipe.hdel(self.unacked_key, *self._acknowledged)
                pipe.execute()
        except self.channel.connection_errors as trouble:
            log.warning("%d acknowledgements not written: %s", len(self._acknowledged), trouble)
        else:
            self._acknowledged.clear()

    def restore_unacked(self, client: Any = None) -> None:
        """Requeue the unacknowledged messages of the closing channel, except those that are kept."""
        for tag in self.kept():
            self._delivered.pop(tag, None)
        super().restore_unacked(client)

    def take_over(self, messages: Iterable[Any]) -> None:
        """Take over `messages` from an earlier channel, to be settled over this one; requeue all others on record.

        A broken connection has kept the others from being delivered, or settled. Not to be called during a delivery:
        its messages are on record before they are in `messages`.
        """
        kept = {message.delivery_tag: message for message in messages}
        for tag, message in kept.items():
            message.channel = self.channel
            virtual.QoS.append(self, message, tag)
        self.write_acknowledgements()
        with self.channel.conn_or_acquire() as client:
            for tag in map(bytes_to_str, client.hkeys(self.unacked_key)):
                if tag not in kept:
                    self.restore_by_tag(tag, client)

    def restore_visible(self, *arguments: Any, **options: Any) -> None:
        """Requeue what has been on record for too long, but for what the consumer has: that is recorded anew.

        Its batch may take that long, or only seem to: the system's clock was set forward, or the machine suspended.
        """
        if kept := self.kept():
            with self.channel.conn_or_acquire() as client:
                client.zadd(self.unacked_index_key, dict.fromkeys(kept, time.time()), xx=True)
        super().restore_visible(*arguments, **options)

    def _flush(self) -> None:
        self.write_acknowledgements()
        super()._flush()


class Channel(redis.Channel):  # type: ignore[misc]
    """kombu's channel with one client for all commands except BRPOP, which has its own already.

    The client outlives the channel, so that messages it delivered can still be acknowledged.
    """

    QoS = QoS
    connection_class = _Connection
    connection_class_ssl = _TlsConnection
    _commands: Any = None
    _take: Any = None
    priority_steps: Sequence[int]
    #: The priorities that the current BRPOP waits for.
    _awaited: Sequence[int] = ()

    @contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        """Yield the given client, or the channel's."""
        if client is None and self._commands is None:
            self._commands = self._create_client()
        yield client or self._commands

    def _brpop_start(self, timeout: float | None = None) -> None:
        """Wait for messages of the priorities with room: the more urgent ones."""
        every_step = self.priority_steps
        self._awaited = self.priority_steps = self._steps_with_room()
        try:
            # A short timeout if some are left out: there may be room for them by then.
            super()._brpop_start(timeout if len(self._awaited) == len(every_step) else WAIT_FOR_URGENT_S)
        finally:
            self.priority_steps = every_step

    def take_where_room_came(self) -> None:
        """Take waiting messages of priorities that the current BRPOP left out for lack of room."""
        if self._in_poll and not self._closing and len(self._steps_with_room()) > len(self._awaited):
            self._take_more()

    def maybe_refresh_binding_expiry(self) -> None:
        """Called by kombu every second, which would log a traceback each time while Redis refuses writes."""
        try:
            super().maybe_refresh_binding_expiry()
        except ResponseError as trouble:
            if not refusal(trouble):
                raise

    def _steps_with_room(self) -> list[int]:
        return [step for step in self.priority_steps if self.qos.room_for(step) != 0]

    def _brpop_read(self, **options: Any) -> Any:
        try:
            delivered = super()._brpop_read(**options)
        except UNREADABLE as trouble:  # it has already left the queue, and is not in the unacked keys
            _log_dropped(trouble)
            delivered = True
        if delivered and not self._closing:
            self._take_more()
        return delivered

    def _take_more(self) -> None:
        """Deliver as many waiting messages as there is room for, most urgent first."""
        queues = self._queue_cycle.consume(len(self.active_queues))
        room = [self.qos.room_for(step) for step in self.priority_steps for _ in queues]
        if not room or None in room:  # no limit: one of Celery's own consumers, which do not acknowledge
            return
        with self.conn_or_acquire() as client:
            self._take = self._take or lua(client, "take")
        lists = [(self._q_for_pri(queue, step), queue) for step in self.priority_steps for queue in queues]
        script_keys = [self.unacked_key, self.unacked_index_key, *(name for name, _ in lists)]
        left, *found = self._take(script_keys, [time.time(), *room])
        self.qos.left_waiting(left)
        taken = iter(found)
        for place, tag, message in zip(taken, taken, taken, strict=True):
            if not int(place):
                _log_dropped(ValueError("not JSON, or without the properties of a message"))
            else:
                self._deliver_booked(tag.decode(), message, lists[int(place) - 1][1])

    def _deliver_booked(self, tag: str, message: bytes, queue: str) -> None:
        self.qos.already_recorded.add(tag)
        try:
            self.connection._deliver(orjson.loads(message), queue)
        except UNREADABLE as trouble:
            self.qos.already_recorded.discard(tag)
            self.qos.strike(tag)
            _log_dropped(trouble)


class _Poller(redis.MultiChannelPoller):  # type: ignore[misc]
    def on_poll_init(self, poller: Any) -> None:
        """Set the poller. Unlike kombu's, restores no messages: after a long outage, all held ones seem abandoned."""
        self.poller = poller

    def on_poll_start(self) -> None:
        """Called once per iteration, before the event loop sleeps."""
        for channel in self._channels:
            channel.qos.write_acknowledgements()
            channel.take_where_room_came()
        super().on_poll_start()


class Transport(redis.Transport):  # type: ignore[misc]
    """kombu's transport with these channels."""

    Channel = Channel
    connection_errors = (*redis.Transport.connection_errors, Refused)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.cycle = _Poller()

    def establish_connection(self) -> Any:
        """Connect; with FOR_WRITING, test that Redis accepts writes."""
        made = super().establish_connection()
        if self.client.transport_options.get(FOR_WRITING):
            with self._avail_channels[-1].conn_or_acquire() as client:
                try_writing(client)
        return made

    def _deliver(self, message: Any, queue: str) -> None:
        """Pass a message to its consumer. Raises one of UNREADABLE if kombu could not record it as unacknowledged."""
        properties = message["properties"]
        where = properties["delivery_info"]
        for each in (properties["delivery_tag"], where["exchange"], where["routing_key"]):
            if not isinstance(each, str):
                raise TypeError(f"a message whose tag, exchange or routing key is not text: {each!r:.80}")
        super()._deliver(message, queue)


def _log_dropped(trouble: Exception) -> None:
    log.error("something that is not a message was dropped: %s: %s", type(trouble).__name__, trouble)


def _decoded(body: str | bytes) -> Any:
    """Parse a message's body. Raises ValueError.

    kombu creates a decoder with a hook per message, for types that JSON lacks. Question batches have none of them.
    """
    text = bytes_to_str(body)
    return kombu_json.loads(text) if "__type__" in text else orjson.loads(text)


def use() -> None:
    """Use `Transport` for this process's redis:// and rediss:// connections, and orjson for its messages' bodies."""
    serialization.register("json", kombu_json.dumps, _decoded, "application/json", "utf-8")
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = f"{__name__}:{Transport.__name__}"
