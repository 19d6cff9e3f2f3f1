"""Engines that die, hang, run out of memory or choke on a question; and questions that they must refuse."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from itertools import pairwise

import psutil

from benchmarks.faults.case import LOST_AFTER_S, Case, Found
from benchmarks.faults.stage import MESSAGE_QUESTIONS, Fault, Stage
from benchmarks.faults.worker import WorkerProcess
from benchmarks.waiting import wait_until
from contract import keys
from contract.mode import Mode
from contract.queue import publish
from contract.spec import Sampling
from contract.verdict import Outcome
from workers.engines.simulated import CORE

__all__ = ["FAULTS"]

QUESTIONS = 24
POISON = "What is poison?"


def core_killed(stage: Stage, rng: random.Random) -> Found:
    """Kill -9 of the engine's own process under a live worker, which ends and comes back with a fresh one."""
    if stage.has_vllm:
        return _core_killed(stage, rng, stage.victim(rng), stage.enqueue(QUESTIONS * 5))
    with stage.special_worker("core", simulated={"core": True, "call_ms": 300}) as worker:
        return _core_killed(stage, rng, worker, stage.enqueue(QUESTIONS, model="core"))


def _core_killed(stage: Stage, rng: random.Random, worker: WorkerProcess, case: Case) -> Found:
    wait_until(lambda: case.begun() and bool(case.held_by(worker)), 15.0)
    time.sleep(rng.uniform(0.0, 0.2))
    (core,) = (each for each in worker.offspring() if _is_core(each))
    concerned = case.held_by(worker)
    since = time.monotonic()
    core.kill()
    worker.process.wait(timeout=20)
    stage.all_running()
    return case.found(case.wait_settled(concerned, since))


def _is_core(process: psutil.Process) -> bool:
    return any(word == CORE or word.startswith("VLLM::EngineCore") for word in process.cmdline())


def reading_process_killed(stage: Stage, rng: random.Random) -> Found:
    """Kill -9 of a process that reads a worker's texts: the worker reads on by itself, and asks nothing again."""
    with stage.special_worker("readers", reading_processes=2) as worker:
        case = stage.enqueue(QUESTIONS * 5, model="readers", mode=Mode.GENERATE, sampling=Sampling(max_tokens=9))
        wait_until(case.begun, 15.0)
        time.sleep(rng.uniform(0.0, 0.3))
        readers = [each for each in worker.offspring() if "spawn_main" in " ".join(each.cmdline())]
        since = time.monotonic()
        rng.choice(readers).kill()
        found = case.found(case.wait_progress(since))
        if worker.process.poll() is not None or "reads them itself from now on" not in worker.said():
            raise AssertionError("the worker did not go on by itself")
    _only_failed(case, set())
    if found.asked_again:
        raise AssertionError(f"{found.asked_again} questions were asked again")
    return found


def poisoned(deadline_s: float = 0.0, **settings: object) -> Fault:
    """One question that brings the engine down; it alone must be failed, and the rest of its batch scored.

    Its time is the longest from one beginning of the question to the next, or to its conviction, less the `deadline_s`
    that its calls have: how long a dead worker's questions waited.
    """

    def fault(stage: Stage, rng: random.Random) -> Found:
        poison = f"q{rng.randrange(QUESTIONS)}"
        with stage.special_worker("poison", **settings):
            case = stage.enqueue(QUESTIONS, model="poison", texts={int(poison[1:]): POISON})
            marks = [time.monotonic()]

            def convicted() -> bool:
                if case.attempts(poison) >= len(marks):
                    marks.append(time.monotonic())
                return poison in case.settled()

            stage.wait(convicted, LOST_AFTER_S)
            marks.append(time.monotonic())
            waits_s = (later - earlier - deadline_s for earlier, later in pairwise(marks[1:]))
            found = case.found(max(waits_s, default=None))
        _only_failed(case, {poison})
        return found

    return fault


def out_of_memory(stage: Stage, rng: random.Random) -> Found:
    """Calls of more than a few requests do not fit: they are halved, and none of their questions fails."""
    with stage.special_worker("small", simulated={"room": rng.randint(1, 7), "call_ms": 100}) as worker:
        since = time.monotonic()
        case = stage.enqueue(QUESTIONS, model="small")
        found = case.found(case.wait_progress(since))
        if "requests per call are too many" not in worker.said():
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
    for each in failed:
        error = case.verdict(each).error
        if error is None or not error.message:
            raise AssertionError(f"{each} is failed without a reason")


FAULTS: Mapping[str, tuple[int, Fault]] = {
    "engine's process killed": (8, core_killed),
    "process that reads texts killed": (3, reading_process_killed),
    "question that kills the engine": (3, poisoned(simulated={"kill_text": "poison"})),
    "question that hangs the engine": (3, poisoned(1.0, simulated={"hang_text": "poison"}, batch_deadline_s=1)),
    "question that makes calls fail": (5, poisoned(simulated={"crash_text": "poison"})),
    "error that nobody foresaw": (5, poisoned(simulated={"bug_text": "poison"})),
    "engine out of memory": (5, out_of_memory),
    "question for another model": (5, of_another_model),
}
