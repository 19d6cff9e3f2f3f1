"""Engines that die, hang, run out of memory or choke on a question; and questions that they must refuse."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Mapping

import psutil

from benchmarks.faults.stage import MESSAGE_QUESTIONS, Case, Fault, Found, Stage, wait_until
from contract import keys
from contract.queue import publish
from contract.verdict import Outcome
from workers.engines.simulated import CORE

__all__ = ["FAULTS"]

QUESTIONS = 24
POISON = "What is poison?"


def core_killed(stage: Stage, rng: random.Random) -> Found:
    """Kill -9 of the engine's own process under a live worker, which ends and comes back with a fresh one."""
    with stage.special_worker("core", simulated={"core": True, "call_ms": 300}) as worker:
        case = stage.enqueue(QUESTIONS, model="core")
        wait_until(case.begun, 15.0)
        time.sleep(rng.uniform(0.0, 0.2))
        since = time.monotonic()
        for child in psutil.Process(worker.process.pid).children(recursive=True):
            if CORE in child.cmdline():
                os.kill(child.pid, signal.SIGKILL)
        worker.process.wait(timeout=20)
        stage.all_running()
        return case.found(case.wait_progress(since))


def poisoned(**settings: object) -> Fault:
    """One question that brings the engine down; it alone must be failed, and the rest of its batch scored."""

    def fault(stage: Stage, rng: random.Random) -> Found:
        place = rng.randrange(QUESTIONS)
        with stage.special_worker("poison", **settings):
            since = time.monotonic()
            case = stage.enqueue(QUESTIONS, model="poison", texts={place: POISON})
            case.wait_settled([f"q{place}"], since)  # the last thing to be settled
            found = case.found(time.monotonic() - since)
        _only_failed(case, {f"q{place}"})
        return found

    return fault


def out_of_memory(stage: Stage, rng: random.Random) -> Found:
    """Calls of more than a few requests do not fit: they are halved, and none of their questions fails."""
    with stage.special_worker("small", simulated={"room": rng.randint(1, 7)}) as worker:
        since = time.monotonic()
        case = stage.enqueue(QUESTIONS, model="small")
        found = case.found(case.wait_progress(since))
        if "requests in a call are too many" not in worker.said():
            raise AssertionError("the engine was not out of memory")
    _only_failed(case, set())
    return found


def of_another_model(stage: Stage, rng: random.Random) -> Found:
    """Questions for another model on this model's queue: refused with the reason, and nobody else's trouble."""
    stage.victim(rng)
    strays, case = stage.write(8, model="another"), stage.write(QUESTIONS)
    since = time.monotonic()
    publish(stage.app, keys.score_queue("chaos"), strays.run.run_id, strays.ids, MESSAGE_QUESTIONS)
    stage.send(case)
    found = case.found(case.wait_progress(since))
    strays.wait_finished()
    _only_failed(strays, set(strays.ids))
    return found


def _only_failed(case: Case, expected: set[str]) -> None:
    failed = {each for each in case.settled() if case.verdict(each).outcome is Outcome.FAILED}
    if failed != expected:
        raise AssertionError(f"expected {sorted(expected)} to be failed, found {sorted(failed)}")


FAULTS: Mapping[str, tuple[int, Fault]] = {
    "engine's process killed": (8, core_killed),
    "question that kills the engine": (3, poisoned(simulated={"kill_text": "poison"})),
    "question that hangs the engine": (3, poisoned(simulated={"hang_text": "poison"}, batch_deadline_s=1)),
    "question that makes calls fail": (5, poisoned(simulated={"crash_text": "poison"})),
    "engine out of memory": (5, out_of_memory),
    "question for another model": (5, of_another_model),
}
