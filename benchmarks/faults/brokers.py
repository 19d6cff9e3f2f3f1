"""The server dies, comes back, comes back empty, or is full."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

from benchmarks.faults.case import Case, Found
from benchmarks.faults.stage import Fault, Stage
from benchmarks.waiting import wait_until
from contract.errors import UnknownRun

__all__ = ["FAULTS"]

QUESTIONS = 160


def restarted(stage: Stage, rng: random.Random) -> Found:
    """Kill -9 of the server in mid-run; it comes back with its append-only file, which may lack the last second."""
    case = _under_way(stage, rng)
    time.sleep(1.1)  # what was enqueued is on the disk: `appendfsync everysec`
    return _restart(stage, case, away_s=0.0)


def away_for_a_while(seconds: float) -> Fault:
    """The server is gone for `seconds`."""

    def fault(stage: Stage, rng: random.Random) -> Found:
        case = _under_way(stage, rng)
        time.sleep(1.1)
        return _restart(stage, case, away_s=seconds)

    return fault


def _restart(stage: Stage, case: Case, away_s: float) -> Found:
    stage.server.terminate()
    time.sleep(away_s)
    stage.use(stage.start_server(aof=True, folder=stage.server.data_dir))
    since = time.monotonic()
    return case.found(case.wait_progress(since) if len(case.settled()) < len(case.ids) else None)


def restarted_without_file(stage: Stage, rng: random.Random) -> Found:
    """Kill -9 of a server that keeps nothing: the run is gone, is said to be, and is enqueued again."""
    return _replace(stage, rng)


def failed_over_to_an_empty_one(stage: Stage, rng: random.Random) -> Found:
    """Everybody is led to another server, which knows nothing, while the old one still lives."""
    return _replace(stage, rng, let_live=True)


def _replace(stage: Stage, rng: random.Random, *, let_live: bool = False) -> Found:
    case = _under_way(stage, rng)
    old = stage.server
    if not let_live:
        old.terminate()
    stage.use(stage.start_server(aof=True))
    since = time.monotonic()
    if let_live:
        old.stop()
    try:
        stage.ledger.run(case.run.run_id)
    except UnknownRun:
        pass
    else:
        raise AssertionError("an empty server knows the run")
    fresh = Case(stage, case.run, case.ids)
    stage.put(fresh)
    stage.send(fresh)
    return fresh.found(fresh.wait_progress(since), gone=len(case.ids))


def full(stage: Stage, rng: random.Random) -> Found:
    """The server takes no more writes for a few seconds (`maxmemory`, `noeviction`)."""
    case = _under_way(stage, rng)
    stage.client.config_set("maxmemory", 1)
    time.sleep(rng.uniform(1.0, 4.0))
    stage.client.config_set("maxmemory", 0)
    since = time.monotonic()
    return case.found(case.wait_progress(since) if len(case.settled()) < len(case.ids) else None)


def _under_way(stage: Stage, rng: random.Random) -> Case:
    stage.victim(rng)
    stage.all_ready()
    # Half a batch per call, so that the run lasts beyond the fault.
    case = stage.enqueue(QUESTIONS * 4)
    wait_until(lambda: len(case.settled()) > 0, 30.0)
    return case


FAULTS: Mapping[str, tuple[int, Fault]] = {
    "Redis killed, back with its file": (10, restarted),
    "Redis away for 60 s": (1, away_for_a_while(60.0)),
    "Redis killed, back without its file": (4, restarted_without_file),
    "failover to an empty Redis": (4, failed_over_to_an_empty_one),
    "Redis full": (4, full),
}
