"""Producers and launchers killed or doubled, disks that are full, and clocks that jump: real commands throughout."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil

from benchmarks.faults.case import Case, Found, Missed
from benchmarks.faults.proxy import Proxy
from benchmarks.faults.stage import Fault, Stage
from benchmarks.faults.worker import OVERRIDES, ROOT
from benchmarks.jsonl import write_rows
from benchmarks.stand import started
from benchmarks.waiting import wait_gone, wait_until
from contract import variables

__all__ = ["FAULTS", "left_out"]

QUESTIONS = 600


def two_at_once(stage: Stage, rng: random.Random) -> Found:
    """Two producers enqueue the same file at the same time.

    The second may find a message on its way into a worker's hands, where nobody sees it, and send it again; what counts
    is that no question is settled twice.
    """
    stage.victim(rng)
    file = _questions(stage, rng)
    since = time.monotonic()
    both = [stage.command("-m", "producer", "enqueue", str(file), "--json") for _ in range(2)]
    said = [json.loads(each.communicate(timeout=60)[0]) for each in both]
    if said[0]["run_id"] != said[1]["run_id"]:
        raise AssertionError("two runs came of one file")
    case = _case(stage, said[0]["run_id"])
    return case.found(_progress(case, since))


def killed_half_way(stage: Stage, rng: random.Random) -> Found:
    """A producer is killed while it writes or sends, and the same command is given again."""
    stage.victim(rng)
    file = _questions(stage, rng)
    struck = threading.Event()
    proxy = Proxy(stage.upstream)
    try:
        producer = stage.command("-m", "producer", "enqueue", str(file), MCQUEUE_REDIS_URL=proxy.url)

        def strike() -> None:
            producer.kill()
            struck.set()

        pattern = rng.choice([rb"EVALSHA.{60,}q10\b", rb"LPUSH"])
        proxy.at(pattern, "before" if rng.random() < 0.5 else "after", strike)
        if not struck.wait(30):
            raise Missed("the producer was not where it was to be killed")
        producer.communicate()
    finally:
        proxy.close()
    since = time.monotonic()
    again = stage.command("-m", "producer", "enqueue", str(file), "--json")
    case = _case(stage, json.loads(again.communicate(timeout=60)[0])["run_id"])
    return case.found(_progress(case, since))


def launcher_killed(*, with_workers: bool = False) -> Fault:
    """Kill -9 of `workers up`, or of it and its workers at once: nothing is left of them, another takes over."""

    def fault(stage: Stage, rng: random.Random) -> Found:
        workers = 1 if stage.has_vllm else 2
        given = _launched(stage, workers, simulated={"call_ms": 400, "core": True})
        with _launcher(stage, given, workers) as first:
            case = stage.enqueue(120 if stage.has_vllm else 600, model="launched")
            wait_until(case.begun, 30.0)
            time.sleep(rng.uniform(0.0, 0.3))
            offspring = psutil.Process(first.pid).children(recursive=True)
            since = time.monotonic()
            for each in [first, *(psutil.Process(first.pid).children() if with_workers else [])]:
                each.kill()
            wait_gone(offspring, 30.0)
            first.wait()
        with _launcher(stage, given, workers):
            return case.found(case.wait_progress(since))

    return fault


def workers_restarted(stage: Stage, rng: random.Random) -> Found:  # noqa: ARG001
    """`python -m workers restart` in mid-run: one after the other, and no question is asked again for it.

    Its time is the longest that a worker settled nothing, less the boot that it had to wait for.
    """
    with _launcher(stage, _launched(stage, 2, simulated={"call_ms": 300}), 2):
        names = [each.name for each in stage.fleet.alive() if each.model == "launched"]
        case = stage.enqueue(2400, model="launched")
        wait_until(case.begun, 30.0)
        asking = stage.command("-m", "workers", "restart", *names)
        said, errors = asking.communicate(timeout=90)
        found = case.found()
    boots_s = {
        name: float(seconds) for name, seconds in re.findall(r"^(\S+): ready again ([\d.]+) s", said, re.MULTILINE)
    }
    if boots_s.keys() != set(names) or found.asked_again:
        raise AssertionError(f"asked again {found.asked_again}, restarted {boots_s}: {errors}")
    return replace(found, went_on_s=max(0.0, *(_longest_pause_s(case, name) - boots_s[name] for name in names)))


def _longest_pause_s(case: Case, worker: str) -> float:
    """The longest time between two verdicts of `worker`."""
    verdicts = (case.verdict(each) for each in case.ids)
    times = sorted({each.settled_at for each in verdicts if each.worker == worker})
    return max(later - earlier for earlier, later in pairwise(times))


def disk_full(stage: Stage, rng: random.Random) -> Found:
    """An export to a full disk says so and leaves no half file; with room, it is whole."""
    stage.victim(rng)
    case = stage.enqueue(160)
    found = case.found()
    folder = stage.folder / "small-disk"
    folder.mkdir(exist_ok=True)
    room_kib = rng.choice([4, 8, 16])
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={room_kib}k", "tmpfs", str(folder)], check=True)
    try:
        words = ("-m", "producer", "export", case.run.run_id, "--out", str(folder))
        refused = stage.command(*words)
        _, errors = refused.communicate(timeout=60)
        left = [path for path in folder.rglob("*") if path.is_file()]
        if refused.returncode != 1 or "cannot be written" not in errors or "Traceback" in errors or left:
            raise AssertionError(f"exit code {refused.returncode}, left {left}: {errors}")
        since = time.monotonic()
        subprocess.run(["mount", "-o", "remount,size=8m", str(folder)], check=True)
        stage.command(*words).communicate(timeout=60)
        went_on_s = time.monotonic() - since
        with (folder / case.run.run_id / "results.csv").open(encoding="utf-8", newline="") as file:
            rows = [row["question_id"] for row in csv.DictReader(file)]
        if rows != case.ids:
            raise AssertionError("the export is not whole")
    finally:
        subprocess.run(["umount", str(folder)], check=True)
    return replace(found, went_on_s=went_on_s)


#: Read by Python at its start, before anything of ours: the wall clock as this process alone sees it. (libfaketime,
#: which would do it from outside, makes Python's sleeps fail: they wait on the monotonic clock until an absolute time.)
OTHER_CLOCK = """
import os, time
true_time = time.time
def time_with_offset():
    with open(os.environ["CHAOS_CLOCK"]) as file:
        return true_time() + float(file.read() or 0)
time.time = time_with_offset
"""


def clock_jumps(stage: Stage, rng: random.Random) -> Found:
    """A worker's clock jumps by up to a day, ahead or back, in mid-run; then the worker is killed."""
    folder = stage.folder / "clock"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(OTHER_CLOCK)
    (folder / "offset").write_text("0")
    path = os.pathsep.join([str(folder), str(ROOT)])
    environment = {"PYTHONPATH": path, "CHAOS_CLOCK": str(folder / "offset")}
    with stage.special_worker("clock", environment=environment) as worker:
        case = stage.enqueue(80, model="clock")
        wait_until(case.begun, 15.0)
        since = time.monotonic()
        (folder / "offset").write_text(str(rng.choice([-1, 1]) * rng.choice([700, 3600, 86400])))
        went_on_s = case.wait_progress(since)
        worker.kill()
        worker.process.wait()
        return case.found(went_on_s)


def _questions(stage: Stage, rng: random.Random) -> Path:
    salt = rng.randrange(10**9)
    rows = (
        {"id": f"q{n}", "question": f"What is {n} plus {salt}?", "choices": ["0", "1"], "answer": "B"}
        for n in range(QUESTIONS)
    )
    return write_rows(stage.folder / "questions.jsonl", rows)


def _case(stage: Stage, run_id: str) -> Case:
    return Case(stage, stage.ledger.run(run_id), [f"q{n}" for n in range(QUESTIONS)])


def _progress(case: Case, since: float) -> float:
    try:
        return case.wait_progress(since)
    except Missed:  # settled while the command was still printing
        return time.monotonic() - since


def _launched(stage: Stage, workers: int, **settings: object) -> Mapping[str, str]:
    """The environment of a launcher of `workers` workers."""
    overrides = {**OVERRIDES, **stage.engine_settings, **settings, "model": "launched", "cpu_workers": workers}
    return {
        **stage.engine_environment,
        "MCQUEUE_REDIS_URL": stage.url,
        variables.OVERRIDES: json.dumps(overrides),
        "MCQUEUE_MODEL": "launched",
    }


@contextmanager
def _launcher(stage: Stage, given: Mapping[str, str], workers: int) -> Iterator[subprocess.Popen[bytes]]:
    """`python -m workers up`, every worker ready."""
    log = stage.folder / "up.log"
    command = [sys.executable, "-m", "workers", "up", "--logs", str(stage.folder)]
    environment = {**os.environ, **given}
    with started(command, environment, log, lambda: log.read_text().count("ready after") >= workers) as launcher:
        yield launcher


#: What needs root.
_DISK_FULL = "disk full while exporting"
FAULTS: Mapping[str, tuple[int, Fault]] = {
    "two producers of one run": (4, two_at_once),
    "producer killed half-way": (4, killed_half_way),
    "launcher killed": (2, launcher_killed()),
    "launcher and workers killed": (2, launcher_killed(with_workers=True)),
    "workers restarted by name": (1, workers_restarted),
    "clock that jumps": (4, clock_jumps),
    _DISK_FULL: (3, disk_full),
}


def left_out() -> dict[str, str]:
    """Fault → why it cannot be played here."""
    return {} if os.geteuid() == 0 else {_DISK_FULL: "needs root, to mount a small disk"}
