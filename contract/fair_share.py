"""Fair sharing among the runs of one queue and priority: they take turns, in questions, in proportion to their weights.

A broker list is first in, first out: a short run sent after a long one would wait for all of it. So the workers'
janitors regularly reorder the list in place (`lua/level.lua`): it stays the one list that Celery knows, and every step
is atomic, so that nothing is lost if it is interrupted.

No step looks at more than `AT_ONCE` messages, as the server is blocked meanwhile. A longer list is rotated past its
head, step by step, and the head keeps the messages whose turn is first. Only the messages taken next need a fair order,
and the head is refilled before it is used up.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import cast

import redis
from redis.commands.core import Script

from contract import keys
from contract.connection import lua, place_of, translating
from contract.ledger import RedisLedger
from contract.ledger.base import unknown
from contract.locks import Lock, claim, holding

__all__ = ["MOST_WEIGHT", "at_rest", "level", "level_if_due", "weigh", "weight_of"]

#: With this weight, a run of weight 1 in the same queue still has a message in the front.
MOST_WEIGHT = 100
#: Limits of a step, in messages and in bytes: about 15 ms of the server's time.
AT_ONCE, BYTES_AT_ONCE = 3000, 5_000_000
#: Parts of a long list, as divisors of a step: its head is half a step, and its front the first tenth of a step. The
#: list is rotated past its head as soon as a run has messages behind the first step and none in the front.
HEAD, FRONT = 2, 10
#: Minimum interval between two passes over a queue, and the maximum share of the server's time that they may take.
EVERY_S = 1.5
SERVER_SHARE = 0.1
#: A wait for a queue to be at rest is told after this many seconds; most end at once.
UNTOLD_S = 1.5


def weigh(ledger: RedisLedger, run_id: str, weight: int) -> None:
    """Give the run `weight` turns where others get one. Takes effect at the janitors' next pass. Raises LedgerError."""
    script_keys = [keys.RunKeys(run_id).meta, keys.weights()]
    with translating(ledger.client):
        known = lua(ledger.client, "weigh")(script_keys, [run_id, weight])
    if not known:
        raise unknown(run_id, ledger.run_ids(), f"the ledger at {place_of(ledger.client)}")


def weight_of(ledger: RedisLedger, run_id: str) -> int:
    """Return the run's weight: 1, unless it has another. Anything but a number that somebody wrote there is none."""
    with translating(ledger.client):
        found = cast("str | None", ledger.client.hget(keys.weights(), run_id))
    return int(found) if found and found.isdecimal() else 1


def level_if_due(ledger: RedisLedger, queue: str, put_off: Collection[str] = ()) -> None:
    """`level`, unless that was done recently. Raises LedgerError."""
    with translating(ledger.client):
        if not claim(ledger.client, keys.levelled(queue)):
            return
    started = time.monotonic()
    level(ledger, queue, put_off)
    took_s = time.monotonic() - started
    with translating(ledger.client):
        ledger.client.pexpire(keys.levelled(queue), round(1000 * max(EVERY_S, took_s / SERVER_SHARE)))


def level(ledger: RedisLedger, queue: str, put_off: Collection[str] = ()) -> None:
    """Reorder the lists of `queue` fairly, long ones only at their head; does nothing while they are `at_rest`.

    Runs that are `put_off`, as no worker can go on with them now, wait behind the others: if they had turns, they would
    only take up the others' batches. One message of each keeps its turn, to find out whether workers can go on.
    Raises LedgerError.
    """
    lock = Lock(ledger.client, keys.moving(queue))
    with translating(ledger.client):
        if lock.taken():
            with holding(lock):
                for name in keys.broker_lists(queue):
                    _Leveller(ledger.client, name, put_off).level()


@contextmanager
def at_rest(ledger: RedisLedger, queue: str) -> Iterator[None]:
    """Prevent reordering of `queue` in the block: reading it in pieces misses no message. Raises LedgerError."""
    lock = Lock(ledger.client, keys.moving(queue))
    with translating(ledger.client):
        lock.wait(f"another process is reading or reordering the queue {queue}", untold_s=UNTOLD_S)
        with holding(lock):
            yield


class _Leveller:
    def __init__(self, client: redis.Redis, name: str, put_off: Collection[str]) -> None:
        self._client = client
        self._name = name
        self._put_off = put_off
        self._script: Script = lua(client, "level")

    def level(self) -> None:
        length = self._client.llen(self._name)
        if length < 2:
            return
        step = self._step()
        self._deal(step, step)
        if length > step and self._head_lacks_a_run(step, length):
            head = step // HEAD
            for _ in range(head, length, step - head):
                self._deal(step, head)

    def _step(self) -> int:
        """Return the number of messages per step, judging by the size of the first and the last one."""
        ends = [cast("str | None", self._client.lindex(self._name, place)) for place in (-1, 0)]
        largest = max((len(each) for each in ends if each), default=1)
        return max(10, min(AT_ONCE, BYTES_AT_ONCE // largest))

    def _head_lacks_a_run(self, step: int, length: int) -> bool:
        in_front = self._runs(0, step // FRONT)
        return any(self._runs(first, step) - in_front for first in range(step, length, step))

    def _runs(self, skipped: int, count: int) -> set[str]:
        """Return the open runs with messages among the `count` after the first `skipped`, without those put off."""
        return self._call(skipped, count, 0)

    def _deal(self, count: int, in_front: int) -> None:
        """Reorder the first `count` messages, keep `in_front` of them in front and move the others to the end."""
        self._call(0, count, in_front)

    def _call(self, skipped: int, count: int, in_front: int) -> set[str]:
        script_keys = [self._name, keys.open_runs(), keys.weights()]
        return set(cast("list[str]", self._script(script_keys, [skipped, count, in_front, *self._put_off])))
