"""`make demo` is `python -m demo.run`: it leaves results and no process behind. Simulated engine: the job itself is
shown with vLLM in test_main_job.py."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path

import psutil

from benchmarks.waiting import lives
from tests.support import PATIENCE_S, process, processes_of_session, wait_until

SIMULATED = {"MCQUEUE_ENGINE": "simulated", "MCQUEUE_MODEL": "simulated-model"}
#: Four questions each second: it has work for longer than anything here waits.
SLOW = {"MCQUEUE_SIMULATED__CALL_MS": "1000", "MCQUEUE_BATCH_SIZE": "4", "MCQUEUE_BATCHES_IN_FLIGHT": "1"}


def test_interrupted_it_ends_every_process_and_goes_on_next_time_until_it_says_that_all_is_settled(
    redis_url: str, tmp_path: Path
) -> None:
    after_ctrl_c = interrupted(redis_url, tmp_path / "ctrl-c", signal.SIGINT)
    after_sigterm = interrupted(redis_url, tmp_path / "sigterm", signal.SIGTERM)
    finished = finished_demo(redis_url, tmp_path / "finished")
    assert 0 < after_ctrl_c <= counted(tmp_path / "sigterm")[0] < after_sigterm <= counted(tmp_path / "finished")[0]
    assert "Both runs are already settled" not in finished
    assert "accuracy" in finished
    assert "95 % interval" in finished
    assert "results.csv" in finished
    assert "report.html" in finished
    assert re.search(r"recall +@1 0\.\d+", finished), "retrieval is measured"
    assert re.search(r"repaired +\d+ of \d+", finished), "and compared with the run without it"

    log = tmp_path / "again"
    with process("-m", "demo.run", environment=environment(redis_url), log=log) as demo:
        assert demo.wait(timeout=3 * PATIENCE_S) == 0, log.read_text()
    assert "Both runs are already settled" in log.read_text()


def test_a_demo_that_is_killed_leaves_no_worker_and_no_flower_behind(redis_url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with process("-m", "demo.run", environment=environment(redis_url, SLOW), log=log) as demo:
        offspring = watch_offspring(demo.pid, log)
        demo.kill()
        wait_until(lambda: not any(map(lives, offspring)), "their end")


def test_a_worker_that_already_serves_its_model_is_asked_and_left_running(redis_url: str, tmp_path: Path) -> None:
    ours = environment(redis_url)
    with process("-m", "workers", "up", "--logs", str(tmp_path), environment=ours, log=tmp_path / "up.log") as up:
        wait_until(lambda: "ready after" in (tmp_path / "up.log").read_text(), "the worker")
        log = tmp_path / "demo.log"
        with process("-m", "demo.run", environment=ours, log=log) as demo:
            assert demo.wait(timeout=3 * PATIENCE_S) == 0, log.read_text()
        assert "one searches the index, others run already" in log.read_text()
        assert up.poll() is None


def interrupted(redis_url: str, log: Path, number: signal.Signals) -> int:
    """A demo ends all its processes at the signal in mid-run; how many questions it had seen settled."""
    with process("-m", "demo.run", environment=environment(redis_url, SLOW), log=log) as demo:
        offspring = watch_offspring(demo.pid, log)
        wait_until(lambda: len(set(counted(log))) > 1, "the run to go on")
        seen = counted(log)[-1]
        demo.send_signal(number)
        assert demo.wait(timeout=PATIENCE_S) == 130
        assert not processes_of_session(demo.pid)
    assert not any(map(lives, offspring))
    return seen


def finished_demo(redis_url: str, log: Path) -> str:
    """A demo ends all its processes after its work; what it said."""
    with process("-m", "demo.run", environment=environment(redis_url), log=log) as demo:
        offspring = watch_offspring(demo.pid, log)
        assert demo.wait(timeout=3 * PATIENCE_S) == 0, log.read_text()
    assert len(offspring) >= 3
    assert not any(map(lives, offspring))
    return log.read_text()


def environment(redis_url: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**SIMULATED, "MCQUEUE_REDIS_URL": redis_url, **(more or {})}


def counted(log: Path) -> list[int]:
    """Settled questions of the first run, as the demo told them one after the other."""
    return [int(each) for each in re.findall(r" (\d+)/160", log.read_text())]


def words_of(child: psutil.Process) -> str:
    try:
        return " ".join(child.cmdline())
    except psutil.Error:  # it has ended, as the commands that the demo runs in between do
        return ""


def watch_offspring(pid: int, log: Path) -> list[psutil.Process]:
    """The demo's children and theirs, once both workers and Flower are up."""
    wait_until(lambda: "Workers " in log.read_text(), "it to say that it starts them", 3 * PATIENCE_S)
    found: dict[int, psutil.Process] = {}

    def look() -> bool:
        found.update({each.pid: each for each in psutil.Process(pid).children(recursive=True)})
        words = " ".join(words_of(each) for each in found.values())
        return "flower" in words and "cpu0@" in words and "retrieve-demo@" in words

    wait_until(look, "workers and Flower to be started")
    return list(found.values())
