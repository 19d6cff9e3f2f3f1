"""Who is at work: one record per worker that expires when the worker stops beating.

The record doubles as the lease on the worker's name. The name decides whose books of held messages are whose, so two
live workers must never share one.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Self, cast

import redis
from pydantic import BaseModel, ConfigDict, Field, computed_field

from contract import keys
from contract.connection import connect, lua, translating
from contract.errors import NameTaken
from contract.process import died_here, process_place, process_start
from contract.settings import Settings

__all__ = ["LEASE_S", "BootFailure", "Fleet", "Wish", "WorkerRecord", "WorkerState", "fill", "pace", "remembered"]

#: A worker that has not beaten for this long is taken for dead.
LEASE_S = 10
#: A worker's pace is over this time. Batches may take long: over less, a busy worker would seem to rest between two.
PACE_OVER_S = 20.0
#: Boots under a name are counted anew after so long without one.
BOOTS_S = 7 * 24 * 3600
#: Why boots failed is forgotten, once none has for so long.
UNBOOTED_S = 24 * 3600
#: A wish that its worker has not read for this long, say because its host is gone, is forgotten.
WISH_S = 600


class WorkerState(StrEnum):
    """Where a worker is in its life."""

    BOOTING = "booting"
    READY = "ready"
    DRAINING = "draining"


class Wish(StrEnum):
    """What a person may ask of a worker by name."""

    #: End after the running batches, and stay away.
    DRAIN = "drain"
    #: The same, and come back as a fresh process.
    RESTART = "restart"


class WorkerRecord(BaseModel):
    """What a worker says about itself."""

    model_config = ConfigDict(frozen=True, extra="ignore")  # a newer worker may say more

    name: str
    #: The model it serves, or the index it searches.
    model: str
    state: WorkerState
    #: The queue that it takes messages from.
    queue: str = ""
    gpus: str = ""
    host: str = Field(default_factory=socket.gethostname)
    #: Where `pid` means something: host, boot, and process namespace, as containers may share a host name.
    place: str = Field(default_factory=process_place)
    pid: int = Field(default_factory=os.getpid)
    #: Start of the process in clock ticks since boot: a reused process id is not the same worker.
    process_started: int = Field(default_factory=lambda: process_start(os.getpid()) or 0)
    #: What the engine says it is, e.g. version, dtype, cache size.
    engine: dict[str, Any] = Field(default_factory=dict)
    batch_size: int = 0
    #: Questions that it settled or sent on since its start.
    done: int = 0
    #: Batches begun since its start, the questions in them, and batches under way now.
    batches: int = 0
    gathered: int = 0
    running: int = 0
    #: Share of its GPUs, or of its cores where it has none, that was busy lately, 0 to 1; None where nobody can tell.
    busy: float | None = None
    #: Run → why this worker puts its questions back into the queue at the moment.
    puts_off: dict[str, str] = Field(default_factory=dict)
    #: `host:port` of its Prometheus metrics, as others reach them unless it is on loopback; empty: none.
    metrics_at: str = ""
    #: A launcher looks after it and starts it again.
    launched: bool = False
    seen_at: float = 0.0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def owner(self) -> str:
        """The one process that this record is about."""
        return f"{self.place}/{self.pid}/{self.process_started}"

    def died_here(self) -> bool:
        """Whether the process ran where we can see it, and is gone."""
        return died_here(self.owner)


class BootFailure(BaseModel):
    """Why a worker did not boot when it last tried."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    worker: str
    reason: str
    #: Unix time, in seconds.
    at: float


def remembered(seen: Sequence[WorkerRecord], record: WorkerRecord) -> Sequence[WorkerRecord]:
    """`record` behind those `seen` of its worker, oldest first; older ones than its pace needs are left out."""
    if seen and seen[-1].owner != record.owner:
        return (record,)  # another process under the name
    if seen and seen[-1].seen_at >= record.seen_at:
        return seen
    begin = max((at for at, each in enumerate(seen) if record.seen_at - each.seen_at >= PACE_OVER_S), default=0)
    return (*seen[begin:], record)


def pace(seen: Sequence[WorkerRecord]) -> float | None:
    """Questions per second of the worker whose last records were `seen`; None: nothing can be told yet."""
    elapsed_s = seen[-1].seen_at - seen[0].seen_at
    return (seen[-1].done - seen[0].done) / elapsed_s if elapsed_s > 0 else None


def fill(seen: Sequence[WorkerRecord]) -> float | None:
    """Questions of its batches as a share of `batch_size`; where it began none lately, of all its batches."""
    first, last = seen[0], seen[-1]
    gathered = last.gathered - first.gathered
    batches, questions = (last.batches - first.batches, gathered) if gathered else (last.batches, last.gathered)
    return questions / (batches * last.batch_size) if batches and last.batch_size else None


class Fleet:
    """The workers' records in Redis. Redis errors come as LedgerError."""

    def __init__(self, client: redis.Redis, place: str = "redis") -> None:
        self._redis = client
        self._place = place
        self._hold = lua(client, "hold")

    @classmethod
    def connect(cls, settings: Settings) -> Self:
        """The records in the Redis that `settings` name, on a connection of their own. Raises RedisUnreachable."""
        return cls(connect(settings), settings.redis_place)

    def join(self, record: WorkerRecord) -> None:
        """Take the name. Raises NameTaken while another live worker has it."""
        there = self.get(record.name)
        dead = there.owner if there and there.died_here() else ""
        if not self._held(record, dead):
            there = self.get(record.name)
            who = f"pid {there.pid} on {there.host}" if there else "it has just ended"
            raise NameTaken(
                f"A worker named {record.name!r} is alive ({who}).",
                hint=f"Does `workers up` run there already? Choose another -n NAME; if it just died elsewhere, wait"
                f" {LEASE_S} s.",
            )

    def beat(self, record: WorkerRecord) -> None:
        """Renew the lease and the record. Raises NameTaken if the name went to another worker meanwhile."""
        if not self._held(record, ""):
            raise NameTaken(f"The name {record.name!r} went to another worker while this one did not beat.")

    def leave(self, record: WorkerRecord) -> None:
        """Give the name back after a clean end, and whatever was asked of it: that is done.

        It stays on the list while kombu may hold messages for it.
        """
        there = self.get(record.name)
        if there and there.owner == record.owner:
            with translating(self._place):
                self._redis.delete(keys.worker(record.name), keys.wish(record.name))

    def ask(self, name: str, wish: Wish) -> None:
        """Leave a wish for worker `name`, which reads it at its next beat, even if it is away for a while."""
        with translating(self._place):
            self._redis.set(keys.wish(name), wish.value, ex=WISH_S)

    def wish(self, name: str) -> Wish | None:
        """What was asked of worker `name` and is not fulfilled yet."""
        with translating(self._place):
            found = cast("str | None", self._redis.get(keys.wish(name)))
        return Wish(found) if found else None

    def fulfilled(self, name: str) -> None:
        """Note that whatever was asked of worker `name` is done."""
        with translating(self._place):
            self._redis.delete(keys.wish(name))

    def boots(self, name: str) -> int:
        """Boots under `name` without a pause of `BOOTS_S` seconds."""
        with translating(self._place):
            return int(cast("str | None", self._redis.get(keys.boots(name))) or 0)

    def booted(self, name: str, queue: str) -> None:
        """Count a boot under `name`; why earlier ones for `queue` failed is of no interest any more."""
        with translating(self._place):
            pipeline = self._redis.pipeline(transaction=True)
            pipeline.incr(keys.boots(name))
            pipeline.expire(keys.boots(name), BOOTS_S)
            pipeline.hdel(keys.unbooted(queue), name)
            pipeline.execute()

    def boot_failed(self, name: str, queue: str, reason: str) -> None:
        """Note why worker `name` could not begin to take from `queue`, for those who wait for it."""
        failure = BootFailure(worker=name, reason=reason, at=time.time())
        with translating(self._place):
            pipeline = self._redis.pipeline(transaction=True)
            pipeline.hset(keys.unbooted(queue), name, failure.model_dump_json())
            pipeline.expire(keys.unbooted(queue), UNBOOTED_S)
            pipeline.execute()

    def boot_failures(self, queue: str) -> list[BootFailure]:
        """Workers of `queue` whose last boot failed, by name."""
        with translating(self._place):
            found = cast("dict[str, str]", self._redis.hgetall(keys.unbooted(queue)))
        return [BootFailure.model_validate_json(found[name]) for name in sorted(found)]

    def forget(self, name: str) -> None:
        """Take the name off the list: nothing is held under it any more."""
        with translating(self._place):
            self._redis.srem(keys.workers(), name)

    def _held(self, record: WorkerRecord, dead_owner: str) -> bool:
        fresh = record.model_copy(update={"seen_at": time.time()}).model_dump_json()
        with translating(self._place):
            books = [keys.worker(record.name), keys.workers()]
            return bool(self._hold(books, [record.name, record.owner, fresh, str(LEASE_S), dead_owner]))

    def get(self, name: str) -> WorkerRecord | None:
        """The record of `name`, if it beat lately."""
        with translating(self._place):
            found = cast("str | None", self._redis.get(keys.worker(name)))
        return WorkerRecord.model_validate_json(found) if found else None

    def names(self) -> list[str]:
        """Every worker that may hold messages, alive or not."""
        with translating(self._place):
            return sorted(cast("set[str]", self._redis.smembers(keys.workers())))

    def alive(self) -> list[WorkerRecord]:
        """Records of the workers that beat lately and whose process, where it can be seen, is there."""
        if not (names := self.names()):
            return []
        with translating(self._place):
            found = cast("list[str | None]", self._redis.mget([keys.worker(name) for name in names]))
        records = [WorkerRecord.model_validate_json(each) for each in found if each]
        return [record for record in records if not record.died_here()]

    def dead(self) -> list[str]:
        """Names on the list without a live worker."""
        living = {record.name for record in self.alive()}
        return [name for name in self.names() if name not in living]

    def claim(self, lock: str) -> bool:
        """Whether this caller, and no other for the next seconds, may do the chore that `lock` names."""
        with translating(self._place):
            return bool(self._redis.set(lock, "1", nx=True, ex=LEASE_S))
