"""`make demo` is `python -m demo.run`: it leaves results and no process behind. Simulated engine: the job itself is
shown with vLLM in test_main_job.py."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import psutil
import pytest

from tests.support import process, processes_of_session, wait_until

SIMULATED = {"MCQUEUE_ENGINE": "simulated", "MCQUEUE_MODEL": "simulated-model"}


def test_it_ends_every_process_that_it_started(redis_url: str, tmp_path: Path) -> None:
    log = tmp_path / "demo.log"
    with process("-m", "demo.run", environment={**SIMULATED, "MCQUEUE_REDIS_URL": redis_url}, log=log) as demo:
        offspring = watch_offspring(demo.pid)
        assert demo.wait(timeout=90) == 0, log.read_text()
    text = log.read_text()
    assert "accuracy" in text
    assert "95 % interval" in text
    assert "results.csv" in text
    assert "report.html" in text
    assert re.search(r"recall +@1 0\.\d+", text), "retrieval is measured"
    assert re.search(r"repaired +\d+ of \d+", text), "and compared with the run without it"
    assert len(offspring) >= 3
    assert not [each for each in offspring if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


def test_the_second_time_it_says_that_the_run_is_settled(redis_url: str, tmp_path: Path) -> None:
    environment = {**SIMULATED, "MCQUEUE_REDIS_URL": redis_url}
    for name in ("first", "second"):
        with process("-m", "demo.run", environment=environment, log=tmp_path / name) as demo:
            assert demo.wait(timeout=90) == 0, (tmp_path / name).read_text()
    assert "settled already" not in (tmp_path / "first").read_text()
    assert "Both runs are settled already" in (tmp_path / "second").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_ends_every_process_and_goes_on_next_time(
    redis_url: str, tmp_path: Path, number: signal.Signals
) -> None:
    log = tmp_path / "demo.log"
    slow = {
        **SIMULATED,
        "MCQUEUE_REDIS_URL": redis_url,
        "MCQUEUE_SIMULATED__CALL_MS": "4000",
        "MCQUEUE_BATCH_SIZE": "16",
    }
    with process("-m", "demo.run", environment=slow, log=log) as demo:
        wait_until(lambda: re.search(r" [1-9]\d*/160", log.read_text()) is not None, "the run to begin", timeout_s=60)
        offspring = watch_offspring(demo.pid)
        demo.send_signal(number)
        assert demo.wait(timeout=60) == 130
        assert not processes_of_session(demo.pid)
    assert not [each for each in offspring if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    fast = {**SIMULATED, "MCQUEUE_REDIS_URL": redis_url}
    with process("-m", "demo.run", environment=fast, log=log) as demo:
        assert demo.wait(timeout=90) == 0, log.read_text()


def words_of(child: psutil.Process) -> str:
    try:
        return " ".join(child.cmdline())
    except psutil.Error:  # it has ended, as the commands that the demo runs in between do
        return ""


def watch_offspring(pid: int) -> list[psutil.Process]:
    """The demo's children and theirs, once both workers and Flower are up."""
    found: dict[int, psutil.Process] = {}

    def look() -> bool:
        found.update({each.pid: each for each in psutil.Process(pid).children(recursive=True)})
        words = " ".join(words_of(each) for each in found.values())
        return "flower" in words and "cpu0@" in words and "retrieve-demo@" in words

    wait_until(look, "workers and Flower to be started")
    return list(found.values())
