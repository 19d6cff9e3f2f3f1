"""What chaos makes of its schedule and of a round, without injecting anything."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

from benchmarks.chaos import Books, books_name, record_name
from benchmarks.faults.case import Case
from contract.verdict import Outcome, Verdict
from tests.support import PATIENCE_S, ROOT


def test_faults_are_imported_without_touching_the_machine(tmp_path: Path) -> None:
    for name in ("ip", "unshare"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\nexit 1\n")
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run([sys.executable, "-c", "import benchmarks.chaos"], cwd=ROOT, env=environment, check=True)
    assert not (tmp_path / "was-run").exists()
    left_out = "from benchmarks.faults.network import left_out; print(*left_out())"
    subprocess.run([sys.executable, "-c", left_out], cwd=ROOT, env=environment, check=True)
    assert (tmp_path / "was-run").exists() == (os.geteuid() == 0), "the probe of this test is one"


def test_rounds_of_another_schedule_are_not_taken_for_those_of_this_one(tmp_path: Path) -> None:
    """With --rounds 52, those of --rounds 520 counted; with --only, those of all other faults."""
    asked = {"engine": "vllm", "seed": 1, "rounds": 52, "least": 0, "only": None}
    schedules = [asked, asked | {"rounds": 520}, asked | {"least": 2}, asked | {"only": ["SIGTERM"]}]
    books = [Books(tmp_path, books_name(Namespace(**each))) for each in schedules]
    for number, each in enumerate(books):
        each.add({"round": number})
    assert [each.played() for each in books] == [{number: {"round": number}} for number in range(4)]


def test_some_faults_alone_are_a_record_of_their_own() -> None:
    assert (record_name("simulated", None), record_name("vllm", None)) == ("chaos", "chaos_vllm")
    assert record_name("vllm", ["engine's process killed"]) == "chaos_vllm_engines-process-killed"


class Ended(Case):
    """A run at its end: of its questions, `a` has a verdict and a row in results.csv, `b` a verdict alone."""

    def settled(self) -> set[str]:
        found = {each: Verdict(question_id=each, outcome=Outcome.CORRECT) for each in ("a", "b")}
        self._first = {each: verdict.model_dump_json() for each, verdict in found.items()}
        return set(found)

    def _messages(self) -> int:
        return 0

    def _exported(self) -> list[str]:
        return ["a"]


def test_a_lost_question_counts_once_whether_it_lacks_its_verdict_or_its_row_or_both() -> None:
    """Without a verdict, it has no row either, and counted twice."""
    counts = SimpleNamespace(settled=2)
    stage: Any = SimpleNamespace(ledger=SimpleNamespace(counts=lambda _: counts), wait=lambda *_: None)
    run: Any = SimpleNamespace(run_id="r")
    found = Ended(stage, run, ["a", "b", "c"]).found()
    assert (found.questions, found.lost, found.doubled) == (3, 2, 0)


def test_its_workers_end_with_chaos_however_it_ends(tmp_path: Path) -> None:
    script = "import time; from pathlib import Path; from benchmarks.faults.worker import WorkerProcess\n"
    script += f"worker = WorkerProcess('w0', ('127.0.0.1', 1), Path({str(tmp_path)!r}))\n"
    script += "print(worker.process.pid, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT) as chaos:
        assert chaos.stdout is not None
        worker = psutil.Process(int(chaos.stdout.readline()))
        chaos.kill()
    worker.wait(PATIENCE_S)
