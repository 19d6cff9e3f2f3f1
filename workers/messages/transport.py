"""kombu's Redis transport at a third of its cost per message, on the same books.

kombu makes a new client object for every command, takes every message with two round trips, and acknowledges every
message in a transaction of its own. Here a channel keeps one client (the pool behind it is the same); once a message
has woken the event loop, as many more as the consumer has room for are taken in one atomic step; and the
acknowledgements of one turn of the event loop leave in one transaction: before the loop sleeps, before the channel
closes, and before kombu reads its books.

There may be room for urgent messages where there is none for others; then only those are waited for.

What is no message at all, kombu would end the worker for; here it is dropped with an error in the log.

A Redis that answers, but takes no writes for now, would end the worker as well; here it counts as away.

Overrides what kombu 5.7.0 calls between its own classes, so kombu is pinned to that version.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis, virtual
from redis.connection import Connection, SSLConnection
from redis.exceptions import ResponseError

from contract.connection import lua, refusal, try_writing
from contract.queue import UNREADABLE

__all__ = ["FOR_WRITING", "Channel", "QoS", "Transport", "use"]

log = logging.getLogger(__name__)

#: How long a BRPOP that leaves out some priorities waits.
WAIT_FOR_URGENT_S = 0.2
#: A transport option: only a Redis that takes writes is there.
FOR_WRITING = "for_writing"


class Refused(ResponseError):
    """Redis takes no writes for now. To kombu and Celery a connection error; to redis-py the connection is sound."""


class _Connection(Connection):
    def read_response(self, *arguments: Any, **options: Any) -> Any:
        """What Redis answers. Raises Refused."""
        try:
            return super().read_response(*arguments, **options)
        except ResponseError as trouble:
            if not (word := refusal(trouble)):
                raise
            raise Refused(str(trouble), status_code=word) from None


class _TlsConnection(_Connection, SSLConnection):
    """The same over TLS."""


class QoS(redis.QoS):  # type: ignore[misc]  # kombu ships no types
    """Kombu's books of held messages, with acknowledgements written together."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._acknowledged: list[str] = []
        #: Delivery tags that came onto the books together with being taken.
        self.on_the_books: set[str] = set()
        #: How many messages of a priority the consumer has room for, where it knows better than a prefetch count.
        self.room_for: Callable[[int], int | None] = lambda _: self.can_consume_max_estimate()
        #: Told how many messages are left in the queue, whenever some were taken.
        self.left_waiting: Callable[[int], object] = lambda _: None

    def append(self, message: Any, delivery_tag: str) -> None:
        """Put a message on the books, unless it is there already."""
        if delivery_tag in self.on_the_books:
            self.on_the_books.discard(delivery_tag)
            virtual.QoS.append(self, message, delivery_tag)
        else:
            super().append(message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge with the others of this turn of the event loop; on a closed channel, which has no turns, now."""
        self.strike(delivery_tag)
        virtual.QoS.ack(self, delivery_tag)

    def strike(self, delivery_tag: str) -> None:
        """Have a message struck off the books in Redis."""
        self._acknowledged.append(delivery_tag)
        if self.channel.closed:
            self.write_acknowledgements()

    def write_acknowledgements(self) -> None:
        """Strike the acknowledged messages off the books. What cannot be written now is tried again next time.

        A message that stays on the books for good comes again, and meets settled questions.
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

    def renew(self, delivery_tags: Iterable[str]) -> None:
        """Hold these messages, as far as they are on the books, for another visibility timeout from now."""
        try:
            with self.channel.conn_or_acquire() as client:
                client.zadd(self.unacked_index_key, dict.fromkeys(delivery_tags, time.time()), xx=True)
        except self.channel.connection_errors as trouble:
            log.warning("messages are not held for longer: %s", trouble)

    def _flush(self) -> None:
        self.write_acknowledgements()
        super()._flush()


class Channel(redis.Channel):  # type: ignore[misc]
    """Kombu's channel with one client for all its commands but BRPOP, which has its own already.

    The client outlives the channel: what it brought can still be acknowledged.
    """

    QoS = QoS
    connection_class = _Connection
    connection_class_ssl = _TlsConnection
    _commands: Any = None
    _take: Any = None
    priority_steps: Sequence[int]
    #: The priorities that the BRPOP under way waits for.
    _awaited: Sequence[int] = ()

    @contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        """The given client, or the channel's."""
        if client is None and self._commands is None:
            self._commands = self._create_client()
        yield client or self._commands

    def _brpop_start(self, timeout: float | None = None) -> None:
        """Wait for messages of those priorities that there is room for: the more urgent ones."""
        every_step = self.priority_steps
        self._awaited = self.priority_steps = self._steps_with_room()
        try:
            # Soon again where some are left out: there may be room for them by then.
            super()._brpop_start(timeout if len(self._awaited) == len(every_step) else WAIT_FOR_URGENT_S)
        finally:
            self.priority_steps = every_step

    def take_where_room_came(self) -> None:
        """Take waiting messages that the BRPOP under way does not wait for, as there was no room for them."""
        if self._in_poll and not self._closing and len(self._steps_with_room()) > len(self._awaited):
            self._take_more()

    def maybe_refresh_binding_expiry(self) -> None:
        """Kombu's, every second; which logs a traceback each time where Redis takes no writes."""
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
        except UNREADABLE as trouble:  # it is off the queue already, and on no books
            _tell_dropped(trouble)
            delivered = True
        if delivered and not self._closing:
            self._take_more()
        return delivered

    def _take_more(self) -> None:
        """Deliver as many messages that wait already as there is room for, the most urgent ones first."""
        queues = self._queue_cycle.consume(len(self.active_queues))
        room = [self.qos.room_for(step) for step in self.priority_steps for _ in queues]
        if not room or None in room:  # a consumer without a limit is one of Celery's own, which acknowledges nothing
            return
        with self.conn_or_acquire() as client:
            self._take = self._take or lua(client, "take")
        lists = [(self._q_for_pri(queue, step), queue) for step in self.priority_steps for queue in queues]
        books = [self.unacked_key, self.unacked_index_key, *(name for name, _ in lists)]
        left, *found = self._take(books, [time.time(), *room])
        self.qos.left_waiting(left)
        taken = iter(found)
        for place, tag, message in zip(taken, taken, taken, strict=True):
            if not int(place):
                _tell_dropped(ValueError("not JSON, or without the properties of a message"))
            else:
                self._deliver_booked(tag.decode(), message, lists[int(place) - 1][1])

    def _deliver_booked(self, tag: str, message: bytes, queue: str) -> None:
        self.qos.on_the_books.add(tag)
        try:
            self.connection._deliver(json.loads(message), queue)
        except UNREADABLE as trouble:
            self.qos.on_the_books.discard(tag)
            self.qos.strike(tag)
            _tell_dropped(trouble)


class _Poller(redis.MultiChannelPoller):  # type: ignore[misc]
    def on_poll_start(self) -> None:
        """Called once a turn, before the event loop sleeps."""
        for channel in self._channels:
            channel.qos.write_acknowledgements()
            channel.take_where_room_came()
        super().on_poll_start()


class Transport(redis.Transport):  # type: ignore[misc]
    """Kombu's transport on these channels."""

    Channel = Channel
    connection_errors = (*redis.Transport.connection_errors, Refused)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.cycle = _Poller()

    def establish_connection(self) -> Any:
        """A connection that was answered once."""
        made = super().establish_connection()
        if self.client.transport_options.get(FOR_WRITING):
            with self._avail_channels[-1].conn_or_acquire() as client:
                try_writing(client)
        return made

    def _deliver(self, message: Any, queue: str) -> None:
        """Hand a message to its consumer. Raises one of UNREADABLE for what kombu could not put on its books."""
        properties = message["properties"]
        where = properties["delivery_info"]
        for each in (properties["delivery_tag"], where["exchange"], where["routing_key"]):
            if not isinstance(each, str):
                raise TypeError(f"a message without a text for tag, exchange or routing key: {each!r:.80}")
        super()._deliver(message, queue)


def _tell_dropped(trouble: Exception) -> None:
    log.error("something that is no message is dropped: %s: %s", type(trouble).__name__, trouble)


def use() -> None:
    """Have this process's redis:// and rediss:// connections made by `Transport`."""
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = f"{__name__}:{Transport.__name__}"
