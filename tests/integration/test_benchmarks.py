"""What the benchmarks stand on, with a real server and a real worker."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from benchmarks.asking import Asking, whole_path
from benchmarks.concurrency import clients
from benchmarks.door import door, measure
from benchmarks.stand import stand, wait_until_settled, worker
from contract.errors import EngineError
from producer.readers import Source
from tests.support import make_questions, open_run, process, wait_until


def test_a_stand_never_meets_the_redis_of_the_one_who_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCQUEUE_REDIS_URL", "redis://127.0.0.1:1/0")
    with stand(engine="simulated", model="simulated") as at:
        assert at.ledger.client.ping()


STANDING = """
import time
from benchmarks.stand import stand

with stand(engine="simulated", model="simulated") as at:
    print(at.folder, at.ledger.client.info()["process_id"], flush=True)
    time.sleep(600)
"""


def test_a_benchmark_that_is_killed_leaves_neither_server_nor_folder(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with process("-c", STANDING, log=log) as benchmark:
        wait_until(lambda: log.read_text().endswith("\n"), "the server")
        folder, server = log.read_text().split()
        benchmark.kill()
        benchmark.wait()
        wait_until(lambda: not psutil.pid_exists(int(server)), "the server's end")
        wait_until(lambda: not Path(folder).exists(), "the folder's end")


def test_a_boot_may_take_as_long_as_the_deployment_says_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.stand.PYTHON_S", 0.0)
    with (
        stand(engine="simulated", model="simulated", server_startup_timeout=0.2) as at,
        pytest.raises(EngineError, match=r"Not ready after 0\.2 s"),
        worker(at),
    ):
        pass


def test_a_worker_that_ends_or_is_not_there_ends_the_wait_for_its_verdicts() -> None:
    with stand(engine="simulated", model="simulated") as at:
        run = open_run(at.ledger, make_questions(1))
        with pytest.raises(EngineError, match="No worker is running"):
            wait_until_settled(at, run.run_id, 1)
        with worker(at) as ours:
            ours.process.kill()
            with pytest.raises(EngineError, match="A worker ended"):
                wait_until_settled(at, run.run_id, 1)


def test_failed_questions_end_a_measurement_with_the_reason_and_are_not_taken_for_fast_ones() -> None:
    """A worker that rejected every prompt was the fastest of all."""
    asking = Asking(Source(Path("demo/questions.jsonl"), "demo"), ["mode=letter"], 8)
    with stand(engine="simulated", model="simulated", simulated={"reject_text": " "}) as at, worker(at):
        with pytest.raises(EngineError, match=r"\d of 8 questions failed: .+"):
            whole_path(at, asking, at.settings, "first")
        assert whole_path(at, asking, at.settings, "second", may_fail=True) > 0
        with pytest.raises(EngineError, match="2 of 2 questions failed"):
            clients(at, asking, 2, 2)
        with door(at) as url, pytest.raises(EngineError, match="A question failed"):
            measure(url, 1, 1)
    with pytest.raises(EngineError, match="did not answer"):
        measure("http://127.0.0.1:1", 1, 1)
