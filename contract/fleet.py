"""Who is at work: one record per worker that expires when the worker stops beating.

The record doubles as the lease on the worker's name. The name decides whose books of held messages are whose, so two
live workers must never share one.
"""

from __future__ import annotations

import os
import socket
import time
from enum import StrEnum
from typing import Any, cast

import psutil
import redis
from pydantic import BaseModel, ConfigDict, Field

from contract import keys
from contract.errors import InputError

__all__ = ["LEASE_S", "Fleet", "WorkerRecord", "WorkerState"]

#: A worker that has not beaten for this long is taken for dead.
LEASE_S = 10


class WorkerState(StrEnum):
    """Where a worker is in its life."""

    BOOTING = "booting"
    READY = "ready"
    DRAINING = "draining"


class WorkerRecord(BaseModel):
    """What a worker says about itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    model: str
    state: WorkerState
    gpus: str = ""
    host: str = Field(default_factory=socket.gethostname)
    pid: int = Field(default_factory=os.getpid)
    #: Start of the process by its own host's clock: a reused process id is not the same worker.
    process_started: float = Field(default_factory=lambda: round(psutil.Process().create_time(), 2))
    #: What the engine says it is, e.g. version, dtype, cache size.
    engine: dict[str, Any] = Field(default_factory=dict)
    batch_size: int = 0
    settled: int = 0
    seen_at: float = 0.0

    def died_here(self) -> bool:
        """Whether the process ran on this host and is gone."""
        if self.host != socket.gethostname():
            return False
        try:
            process = psutil.Process(self.pid)
            started = round(process.create_time(), 2)
            return bool(started != self.process_started or process.status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True


class Fleet:
    """The workers' records in Redis."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client

    def join(self, record: WorkerRecord) -> None:
        """Take the name. Raises InputError while another live worker has it."""
        if self._redis.set(keys.worker(record.name), record.model_dump_json(), nx=True, ex=LEASE_S):
            self.beat(record)
            return
        there = self.get(record.name)
        if there and (there.host, there.pid) != (record.host, record.pid) and not there.died_here():
            raise InputError(
                f"A worker named {record.name!r} is alive (pid {there.pid} on {there.host}).",
                hint=f"Choose another -n NAME; if it just died elsewhere, wait {LEASE_S} s.",
            )
        self.beat(record)

    def beat(self, record: WorkerRecord) -> None:
        """Renew the lease and the record."""
        fresh = record.model_copy(update={"seen_at": time.time()})
        pipeline = self._redis.pipeline(transaction=True)
        pipeline.sadd(keys.workers(), record.name)
        pipeline.set(keys.worker(record.name), fresh.model_dump_json(), ex=LEASE_S)
        pipeline.execute()

    def leave(self, name: str) -> None:
        """Give the name back after a clean end. The name stays on the list while kombu may hold messages for it."""
        self._redis.delete(keys.worker(name))

    def forget(self, name: str) -> None:
        """Take the name off the list: nothing is held under it any more."""
        self._redis.srem(keys.workers(), name)

    def get(self, name: str) -> WorkerRecord | None:
        """The record of `name`, if it beat lately."""
        found = cast("str | None", self._redis.get(keys.worker(name)))
        return WorkerRecord.model_validate_json(found) if found else None

    def names(self) -> list[str]:
        """Every worker that may hold messages, alive or not."""
        return sorted(cast("set[str]", self._redis.smembers(keys.workers())))

    def alive(self) -> list[WorkerRecord]:
        """Records of the workers that beat lately and whose process, where it can be seen, is there."""
        records = (self.get(name) for name in self.names())
        return [record for record in records if record and not record.died_here()]

    def dead(self) -> list[str]:
        """Names on the list without a live worker."""
        living = {record.name for record in self.alive()}
        return [name for name in self.names() if name not in living]

    def claim(self, lock: str) -> bool:
        """Whether this caller, and no other for the next seconds, may do the chore that `lock` names."""
        return bool(self._redis.set(lock, "1", nx=True, ex=LEASE_S))
