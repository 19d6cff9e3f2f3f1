"""Workers killed at chosen moments, and ended by every signal that a person may send."""

from __future__ import annotations

import random
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping
from hashlib import sha1
from importlib import resources
from typing import Literal

from benchmarks.faults.case import MOMENT_S, Case, Found, Missed
from benchmarks.faults.stage import Fault, Stage
from benchmarks.faults.worker import WorkerProcess
from benchmarks.waiting import wait_gone

__all__ = ["FAULTS"]

QUESTIONS = 120
#: What a killed worker had started must be gone in this time, though nobody ends it. It is killed at once, but a busy
#: machine takes some seconds to take a process of vLLM down.
ORPHANS_S = 15.0


def _script(name: str) -> bytes:
    """What names the ledger's atomic step on the wire."""
    text = resources.files("contract").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
    return sha1(text.encode()).hexdigest().encode()


def _takes(worker: WorkerProcess) -> bytes:
    return rb"HSET\r\n\$\d+\r\nunacked:" + re.escape(worker.name.encode())


def _takes_more(_: WorkerProcess) -> bytes:
    return _script("take")


def _acknowledges(worker: WorkerProcess) -> bytes:
    return rb"HDEL\r\n\$\d+\r\nunacked:" + re.escape(worker.name.encode())


def _begins(_: WorkerProcess) -> bytes:
    return _script("begin")


def _writes(_: WorkerProcess) -> bytes:
    return _script("commit")


def kill_while_waiting(stage: Stage, rng: random.Random) -> Found:
    """Nothing to do, and killed: what is enqueued next must not wait for it."""
    victim = stage.victim(rng)
    offspring = victim.offspring()
    since = time.monotonic()
    victim.kill()
    case = stage.enqueue(40)
    went_on_s = case.wait_progress(since)
    wait_gone(offspring, ORPHANS_S)
    stage.all_running()
    return case.found(went_on_s)


def kill_at(moment: Callable[[WorkerProcess], bytes], when: Literal["before", "after"], delay_s: float = 0.0) -> Fault:
    """Kill a worker just before or after its next command of that kind reaches Redis, or `delay_s` later."""

    def fault(stage: Stage, rng: random.Random) -> Found:
        victim = stage.victim(rng)
        case = stage.write(QUESTIONS)
        offspring = victim.offspring()
        struck = threading.Event()
        at: list[float] = []

        def strike() -> None:
            time.sleep(delay_s)
            victim.kill()
            at.append(time.monotonic())
            struck.set()

        victim.proxy.at(moment(victim), when, strike)
        stage.send(case)
        if not struck.wait(MOMENT_S):
            victim.proxy.disarm()
            case.found()
            raise Missed("the worker got no message")
        victim.process.wait()
        wait_gone(offspring, ORPHANS_S)
        return _after_kill(stage, case, victim, at[0])

    return fault


def _after_kill(stage: Stage, case: Case, victim: WorkerProcess, since: float) -> Found:
    concerned = case.held_by(victim) - case.settled()
    stage.all_running()
    # A message that went with the worker is in nobody's books: then the run's end tells when it was found again.
    went_on_s = case.wait_settled(concerned, since) if concerned else None
    case.wait_finished()
    return case.found(went_on_s if went_on_s is not None else time.monotonic() - since)


def signals(*numbers: signal.Signals) -> Fault:
    """Send `numbers` to a busy worker; it must end by itself, and what it held must be done."""

    def fault(stage: Stage, rng: random.Random) -> Found:
        victim = stage.victim(rng)
        case = stage.enqueue(QUESTIONS)
        concerned = case.taken_by(victim)
        since = time.monotonic()
        for number in numbers:
            victim.process.send_signal(number)
            time.sleep(0.05)
        victim.process.wait(timeout=30)
        stage.all_running()
        try:
            went_on_s = case.wait_settled(concerned, since)
        except Missed:  # it ended all that it held
            went_on_s = time.monotonic() - since
        return case.found(went_on_s)

    return fault


#: Name → how many rounds of 520 it gets, and what happens.
FAULTS: Mapping[str, tuple[int, Fault]] = {
    "kill -9 while it waits": (25, kill_while_waiting),
    "kill -9 while it takes a message": (40, kill_at(_takes, "before")),
    "kill -9 while it takes more": (30, kill_at(_takes_more, "after")),
    "kill -9 while it gathers": (35, kill_at(_takes, "after", 0.05)),
    "kill -9 while it begins": (30, kill_at(_begins, "after")),
    "kill -9 while it generates": (35, kill_at(_begins, "after", 0.05)),
    "kill -9 before it writes": (35, kill_at(_writes, "before")),
    "kill -9 while it writes": (35, kill_at(_writes, "after")),
    "kill -9 before it acknowledges": (35, kill_at(_acknowledges, "before")),
    "kill -9 while it acknowledges": (35, kill_at(_acknowledges, "after")),
    "SIGTERM": (20, signals(signal.SIGTERM)),
    "SIGINT twice": (20, signals(signal.SIGINT, signal.SIGINT)),
    "SIGQUIT": (20, signals(signal.SIGQUIT)),
}
