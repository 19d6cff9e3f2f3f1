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

#: So many that the run lasts beyond the fault.
QUESTIONS = 640


def restarted(away_s: float = 0.0) -> Fault:
    """Kill -9 of the server in mid-run; later it is back with its append-only file, which may lack the last second."""

    def fault(stage: Stage, rng: random.Random) -> Found:
        case = _under_way(stage, rng)
        time.sleep(1.1)  # what was enqueued is on the disk: `appendfsync everysec`
        stage.server.terminate()
        time.sleep(away_s)
        stage.use(stage.start_server(stage.server.data_dir))
        return case.found(case.went_on_s(case.ids, time.monotonic()))

    return fault


def replaced(*, let_live: bool = False) -> Fault:
    """Everybody is led to an empty server: the run is gone, is said to be, and is enqueued again.

    The old server is killed before, or (`let_live`) still lives then, as in a failover.
    """

    def fault(stage: Stage, rng: random.Random) -> Found:
        case = _under_way(stage, rng)
        old = stage.server
        if not let_live:
            old.terminate()
        stage.use(stage.start_server())
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

    return fault


def full(stage: Stage, rng: random.Random) -> Found:
    """The server takes no more writes for a few seconds (`maxmemory`, `noeviction`)."""
    case = _under_way(stage, rng)
    stage.client.config_set("maxmemory", 1)
    time.sleep(rng.uniform(1.0, 4.0))
    stage.client.config_set("maxmemory", 0)
    return case.found(case.went_on_s(case.ids, time.monotonic()))


def _under_way(stage: Stage, rng: random.Random) -> Case:
    stage.victim(rng)
    stage.all_ready()
    case = stage.enqueue(QUESTIONS)
    wait_until(lambda: len(case.settled()) > 0, 30.0)
    return case


FAULTS: Mapping[str, tuple[int, Fault]] = {
    "Redis killed, back with its file": (10, restarted()),
    "Redis away for 60 s": (1, restarted(away_s=60.0)),
    "Redis killed, back without its file": (4, replaced()),
    "failover to an empty Redis": (4, replaced(let_live=True)),
    "Redis full": (4, full),
}
