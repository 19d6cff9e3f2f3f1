"""The registry of workers: one record per worker, which expires when its heartbeat stops.

The record is also the lease on the worker's name. Unacknowledged messages are recorded under that name, so two live
workers must never share one.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Any, Self, cast

import redis
from pydantic import BaseModel, ConfigDict, Field, ValidationError, computed_field

from contract import keys
from contract.connection import connect, connect_hurried, lua, translating
from contract.errors import NameTaken
from contract.process import died_here, process_name, process_place, process_start
from contract.settings import Settings

__all__ = [
    "LEASE_S",
    "MISSING_S",
    "STARTING_S",
    "UNBOOTED_S",
    "WISH_S",
    "BootFailure",
    "Fleet",
    "Wish",
    "WorkerRecord",
    "WorkerState",
]

#: A worker without a heartbeat for this long is considered dead.
LEASE_S = 10
#: The boot count of a name restarts after this long without a boot.
BOOTS_S = 7 * 24 * 3600
#: The reason of a failed boot is forgotten after this long.
UNBOOTED_S = 24 * 3600
#: A worker that vanished is missing for this long; after that, nobody expects it to come back.
MISSING_S = 3600
#: A worker that has not joined this long after it was started is not about to: importing takes some seconds.
STARTING_S = 30
#: A wish that its worker has not read for this long, e.g. because its host is gone, expires.
WISH_S = 600
#: The state of a worker whose record this version cannot read.
OF_ANOTHER_VERSION = "of another version of mcqueue"


class WorkerState(StrEnum):
    """Lifecycle state of a worker."""

    BOOTING = "booting"
    READY = "ready"
    DRAINING = "draining"


class Wish(StrEnum):
    """A command to a worker by name."""

    #: Stop after the running batches, and stay stopped.
    DRAIN = "drain"
    #: Stop after the running batches, and start again as a new process.
    RESTART = "restart"


class WorkerRecord(BaseModel):
    """A worker's record: what it reports about itself."""

    model_config = ConfigDict(frozen=True, extra="ignore")  # a newer worker may send more

    name: str
    #: The model it serves, or the index it searches.
    model: str
    #: A text, if a newer worker is in a state that this version does not know.
    state: Annotated[WorkerState | str, Field(union_mode="left_to_right")]
    #: The queue it takes messages from.
    queue: str = ""
    gpus: str = ""
    host: str = Field(default_factory=socket.gethostname)
    #: Scope in which `pid` is valid: host, boot and process namespace, as containers may share a host name.
    place: str = Field(default_factory=process_place)
    pid: int = Field(default_factory=os.getpid)
    #: Start of the process in clock ticks since boot, to detect a reused process id.
    process_started: int = Field(default_factory=lambda: process_start(os.getpid()) or 0)
    #: What the engine reports about itself, e.g. version, dtype, cache size.
    engine: dict[str, Any] = Field(default_factory=dict)
    #: Names of the adapters that runs may ask it for; None: it does not say.
    adapters: list[str] | None = None
    batch_size: int = 0
    #: Questions settled or sent on since its start.
    done: int = 0
    #: Batches ended since its start, the questions begun in them, and batches running now.
    batches: int = 0
    begun: int = 0
    running: int = 0
    #: Recent utilization of its GPUs, or of its cores if it has none, 0 to 1; None if unknown.
    busy: float | None = None
    #: Run → why this worker currently requeues its questions.
    puts_off: dict[str, str] = Field(default_factory=dict)
    #: What it needs and does not get for now, e.g. a server that is away or overloaded; empty: nothing.
    waits_for: str = ""
    #: Why Redis refuses the verdicts that it has; empty: it does not. Heartbeats are smaller, and may get through.
    refused: str = ""
    #: `host:port` of its Prometheus metrics, reachable by others unless it is a loopback address; empty: none.
    metrics_at: str = ""
    #: Whether a launcher supervises it and restarts it.
    launched: bool = False
    #: How long it may take to boot, and to end once it drains; None: it does not say (an older worker).
    startup_timeout_s: float | None = None
    drain_timeout_s: float | None = None
    seen_at: float = 0.0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def owner(self) -> str:
        """Unique name of the process this record is about."""
        return process_name(self.place, self.pid, self.process_started)

    def died_here(self) -> bool:
        """Whether the process ran in this process namespace and has ended."""
        return died_here(self.owner)

    def has_ended(self, there: Self | None) -> bool:
        """Whether the process has ended, as far as visible from here; `there` is what the name's record says now."""
        return there is None or there.owner != self.owner or there.died_here()

    @classmethod
    def read(cls, name: str, found: str) -> Self:
        """Parse the stored record of worker `name`.

        One that this version cannot read belongs to a live worker all the same, whose messages must be left to it. It
        serves no queue that is known here, and its state says why.
        """
        try:
            return cls.model_validate_json(found)
        except ValidationError:
            return cls(name=name, model="?", state=OF_ANOTHER_VERSION, host="?", place=name, pid=0, process_started=0)


class BootFailure(BaseModel):
    """Why a worker's last boot failed."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    worker: str
    #: The queue that it should have served.
    queue: str
    reason: str
    #: Unix time, in seconds.
    at: float


class Fleet:
    """The workers' records in Redis. Redis errors are raised as LedgerError."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client
        self._hold = lua(client, "hold")
        self._leave = lua(client, "leave")

    @classmethod
    def connect(cls, settings: Settings) -> Self:
        """Open a separate connection to the Redis named in `settings`. Raises LedgerError."""
        return cls(connect(settings))

    @classmethod
    def connect_hurried(cls, settings: Settings) -> Self:
        """`connect`, for whoever must not wait long for an answer."""
        return cls(connect_hurried(settings))

    # Starts

    def announce(self, queues: Mapping[str, str]) -> None:
        """Record that these workers (name → queue) are being started: it takes them some seconds to join."""
        with translating(self._redis):
            pipeline = self._redis.pipeline(transaction=True)
            for name, queue in queues.items():
                pipeline.hset(keys.starting(queue), name, str(time.time()))
                pipeline.expire(keys.starting(queue), STARTING_S)
            pipeline.execute()

    def starting(self, queue: str) -> list[str]:
        """Return the workers of `queue` that were started in the last `STARTING_S` seconds and have not joined yet."""
        with translating(self._redis):
            found = cast("dict[str, str]", self._redis.hgetall(keys.starting(queue)))
        return sorted(name for name, at in found.items() if _number(at) > time.time() - STARTING_S)

    # The lease on a name

    def join(self, record: WorkerRecord) -> None:
        """Acquire the lease on the name. Raises NameTaken while another live worker has it."""
        there = self.get(record.name)
        dead = there.owner if there and there.died_here() else ""
        if not self._take_or_renew(record, dead):
            there = self.get(record.name)
            who = f"{there.state}, pid {there.pid} on {there.host}" if there else "it has just stopped"
            raise NameTaken(
                f"A worker named {record.name!r} is alive ({who}).",
                hint="Is `workers up` already running there? To start one beside it: python -m workers run -n NAME."
                f" If it just died elsewhere, wait {LEASE_S} s.",
            )
        with translating(self._redis):
            self._redis.hdel(keys.starting(record.queue), record.name)
        # Most names of containers never come back, and must not pile up.
        self._forget_seen({each.name for each in self._seen() if each.seen_at < time.time() - MISSING_S})

    def beat(self, record: WorkerRecord) -> None:
        """Renew the lease and the record. Raises NameTaken if another worker took the name meanwhile."""
        if not self._take_or_renew(record, ""):
            raise NameTaken(f"Another worker took the name {record.name!r} while this one sent no heartbeat.")

    def leave(self, record: WorkerRecord, *, for_good: bool = True) -> None:
        """Release the name after a clean stop. It stays on the list of names while kombu may hold messages for it.

        If the worker stops `for_good`, that fulfils a pending wish, which is deleted. Otherwise it is left to the next
        process of this name: its start fulfils a wish to restart, and it grants one to drain, which may have come too
        late for this process.
        """
        with translating(self._redis):
            wish = [keys.wish(record.name)] if for_good else []
            left = self._leave([keys.worker(record.name), *wish], [record.owner])
        if left:
            self._forget_seen({record.name})

    def _take_or_renew(self, record: WorkerRecord, dead_owner: str) -> bool:
        """Write the record, and with it the lease; return False if a process other than `dead_owner` has the name."""
        fresh = record.model_copy(update={"seen_at": time.time()}).model_dump_json()
        with translating(self._redis):
            script_keys = [keys.worker(record.name), keys.workers(), keys.seen()]
            return bool(self._hold(script_keys, [record.name, record.owner, fresh, str(LEASE_S), dead_owner]))

    # Who is there, and who is missing

    def get(self, name: str) -> WorkerRecord | None:
        """Return the record of `name`, if its lease is valid."""
        with translating(self._redis):
            found = cast("str | None", self._redis.get(keys.worker(name)))
        return WorkerRecord.read(name, found) if found else None

    def names(self) -> list[str]:
        """Return every worker that may hold messages, alive or not."""
        with translating(self._redis):
            return sorted(cast("set[str]", self._redis.smembers(keys.workers())))

    def alive(self) -> list[WorkerRecord]:
        """Return the records of workers with a valid lease whose process, as far as visible from here, is running."""
        if not (names := self.names()):
            return []
        with translating(self._redis):
            found = cast("list[str | None]", self._redis.mget([keys.worker(name) for name in names]))
        records = [WorkerRecord.read(name, each) for name, each in zip(names, found, strict=True) if each]
        return [record for record in records if not record.died_here()]

    def dead(self) -> list[str]:
        """Return the names on the list without a live worker."""
        names = self.names()  # read first: a worker that joins in between must not seem dead
        living = {record.name for record in self.alive()}
        return [name for name in names if name not in living]

    def forget(self, name: str) -> None:
        """Remove the name from the list: no messages are held under it any more."""
        with translating(self._redis):
            self._redis.srem(keys.workers(), name)

    def missing(self) -> list[WorkerRecord]:
        """Return the last records of workers that sent no heartbeat since, though nothing had asked them to end.

        They were killed, lost their host, or cannot reach Redis. Those of the last `MISSING_S` seconds are returned.
        """
        seen = self._seen()
        living = {record.name for record in self.alive()}
        since = time.time() - MISSING_S
        return [
            record
            for record in seen
            if record.name not in living and record.state is not WorkerState.DRAINING and record.seen_at > since
        ]

    def _seen(self) -> list[WorkerRecord]:
        with translating(self._redis):
            found = cast("dict[str, str]", self._redis.hgetall(keys.seen()))
        return [WorkerRecord.read(name, found[name]) for name in sorted(found)]

    def _forget_seen(self, names: Collection[str]) -> None:
        """Delete the last records of these workers, so that none of them counts as missing."""
        if names:
            with translating(self._redis):
                self._redis.hdel(keys.seen(), *names)

    # Commands

    def ask(self, name: str, wish: Wish, boot_s: float = 0.0) -> Wish:
        """Leave a wish for worker `name`, which reads it at its next heartbeat, even if disconnected for a while.

        A worker that boots, for at most `boot_s` from now, grants a wish to restart only afterwards. A wish to restart
        does not replace one to drain, for which somebody else is waiting. Returns the wish that stands.
        """
        expires_s = WISH_S + math.ceil(boot_s)
        with translating(self._redis):
            is_left = self._redis.set(keys.wish(name), wish.value, ex=expires_s, nx=wish is Wish.RESTART)
        return wish if is_left else self.wish(name) or wish

    def wish(self, name: str) -> Wish | None:
        """Return the pending wish for worker `name`; None also for a newer version's, which it could not grant."""
        with translating(self._redis):
            found = cast("str | None", self._redis.get(keys.wish(name)))
        return Wish(found) if found in set(Wish) else None

    def fulfilled(self, name: str) -> None:
        """Delete the wish for worker `name`, which is fulfilled."""
        with translating(self._redis):
            self._redis.delete(keys.wish(name))

    # Boots

    def boots(self, name: str) -> int:
        """Return the number of boots under `name` without a gap of `BOOTS_S` seconds."""
        with translating(self._redis):
            return int(_number(cast("str | None", self._redis.get(keys.boots(name)))))

    def booted(self, name: str, boots: int) -> None:
        """Record that `name` has booted `boots` times now, and delete why its earlier boot failed.

        Only the holder of the name's lease calls this. It counts, because Redis may execute a call twice.
        """
        with translating(self._redis):
            pipeline = self._redis.pipeline(transaction=True)
            pipeline.set(keys.boots(name), boots, ex=BOOTS_S)
            pipeline.hdel(keys.unbooted(), name)
            pipeline.execute()

    def boot_failed(self, name: str, queue: str, reason: str) -> None:
        """Record why worker `name` could not boot to serve `queue`, for those waiting for it."""
        failure = BootFailure(worker=name, queue=queue, reason=reason, at=time.time())
        forgotten = [each.worker for each in self._all_boot_failures() if each.at <= failure.at - UNBOOTED_S]
        with translating(self._redis):
            pipeline = self._redis.pipeline(transaction=True)
            if forgotten:  # as of containers, most of whose names never come back
                pipeline.hdel(keys.unbooted(), *forgotten)
            pipeline.hset(keys.unbooted(), name, failure.model_dump_json())
            pipeline.expire(keys.unbooted(), UNBOOTED_S)
            pipeline.execute()

    def boot_failures(self) -> list[BootFailure]:
        """Return the workers whose last boot failed, in the last `UNBOOTED_S` seconds, by name."""
        since = time.time() - UNBOOTED_S
        return [each for each in self._all_boot_failures() if each.at > since]

    def _all_boot_failures(self) -> list[BootFailure]:
        with translating(self._redis):
            found = cast("dict[str, str]", self._redis.hgetall(keys.unbooted()))
        failures: list[BootFailure] = []
        for name in sorted(found):
            with suppress(ValidationError):  # another version's, whose own commands tell it
                failures.append(BootFailure.model_validate_json(found[name]))
        return failures


def _number(found: str | None) -> float:
    """Return the number that was found; 0 for nothing, and for anything else that somebody wrote there."""
    try:
        number = float(found or 0)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0
