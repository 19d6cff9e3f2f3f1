"""Messages on the queue, and in the hands of a worker that was killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter

import redis

from contract import RedisLedger, keys
from contract.fleet import Fleet, WorkerRecord, WorkerState
from tests.integration.runs import QUEUE, messages_in
from tests.support import ROOT, SIMULATED_MODEL

__all__ = ["book", "die_holding", "queued"]

#: A worker as far as the broker can tell: it takes messages into its own books, and is killed.
DIES_HOLDING = """
import os, signal, sys
from kombu import Connection
from contract.keys import unacked_options

worker, queue, messages = sys.argv[1:]
connection = Connection(os.environ["MCQUEUE_REDIS_URL"], transport_options=unacked_options(worker))
for _ in range(int(messages)):
    assert connection.default_channel.basic_get(queue, no_ack=False) is not None
os.kill(os.getpid(), signal.SIGKILL)
"""


def queued(client: redis.Redis) -> Counter[str]:
    """Question id → how many waiting messages carry it."""
    lists = keys.broker_lists(QUEUE)
    return Counter(each for name in lists for message in messages_in(client, name) for each in message.ids)


def die_holding(fleet: Fleet, worker: str, messages: int) -> None:
    """`worker` joins, takes `messages`, and is killed."""
    fleet.join(WorkerRecord(name=worker, model=SIMULATED_MODEL, state=WorkerState.READY))
    command = [sys.executable, "-c", DIES_HOLDING, worker, QUEUE, str(messages)]
    dead = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert dead.returncode == -signal.SIGKILL, dead.stderr


def book(ledger: RedisLedger, worker: str, message: str) -> None:
    """Record that `worker` holds this message."""
    ledger.client.zadd(keys.unacked_options(worker)["unacked_index_key"], {"tag": time.time()})
    ledger.client.hset(keys.unacked(worker), "tag", json.dumps([json.loads(message), "", QUEUE]))
