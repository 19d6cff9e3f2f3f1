"""How a worker ends: on a signal, or because it cannot work."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from celery import Celery

from contract import RedisLedger, keys, load_settings
from contract.errors import EXIT_RETRY
from contract.mode import Mode
from contract.spec import Sampling
from tests.integration.launching import begun
from tests.integration.runs import send, sent, verdicts, wait_finished
from tests.support import (
    PATIENCE_S,
    ROOT,
    SIMULATED_MODEL,
    end,
    make_questions,
    open_run,
    process,
    processes_of_session,
    wait_until,
    worker,
)
from workers.host.launcher import worker_command


def test_sigterm_while_the_engine_boots_ends_the_worker_and_frees_its_name(redis_url: str, tmp_path: Path) -> None:
    given = {"MCQUEUE_ENGINE": "simulated", "MCQUEUE_REDIS_URL": redis_url, "MCQUEUE_SIMULATED__BOOT_S": "600"}
    log = tmp_path / "log"
    with process(*worker_command("w0@test")[1:], environment=given, log=log) as child:
        wait_until(lambda: "booting simulated" in log.read_text(), "the boot to begin")
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=PATIENCE_S) == 0
    client = RedisLedger.connect(load_settings()).client
    assert client.get(keys.worker("w0@test")) is None
    client.close()


@pytest.mark.parametrize("from_afar", [False, True], ids=["SIGTERM", "celery control shutdown"])
def test_a_worker_told_to_stop_ends_running_batches_and_gives_the_rest_back(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path, *, from_afar: bool
) -> None:
    run = sent(app, redis_ledger, 100)
    with worker(
        tmp_path / "log", batch_size=8, batches_in_flight=1, max_batches_in_flight=1, simulated={"call_ms": 2000}
    ) as leaving:
        wait_until(lambda: redis_ledger.counts(run.run_id).settled > 0, "the first batch")
        wait_until(lambda: begun(redis_ledger, run), "the second batch to begin")
        if from_afar:
            app.control.shutdown()
        else:
            leaving.send_signal(signal.SIGTERM)
        assert leaving.wait(timeout=PATIENCE_S) == 0
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log
    waits = (
        r"stopping after its running batches \(\d\), within 600 s \(drain_timeout_s\); other messages are requeued\n"
    )
    assert re.search(waits, log)
    assert log.rstrip().endswith(" stopped")
    settled = redis_ledger.counts(run.run_id).settled
    assert 0 < settled < 100
    assert redis_ledger.client.hlen(keys.unacked("w0@test")) == 0
    with worker(tmp_path / "next", name="w1"):
        wait_finished(redis_ledger, run)
    assert len(verdicts(redis_ledger, run)) == 100


@pytest.fixture(params=[signal.SIG_DFL, signal.SIG_IGN], ids=["by default", "under nohup"])
def hang_up(request: pytest.FixtureRequest) -> Iterator[signal.Handlers]:
    """What SIGHUP does to a process that a test starts."""
    before = signal.signal(signal.SIGHUP, request.param)
    yield request.param
    signal.signal(signal.SIGHUP, before)


def test_the_end_of_its_terminal_drains_a_worker_but_not_one_under_nohup(
    hang_up: signal.Handlers, app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = sent(app, redis_ledger, 24)
    with worker(tmp_path / "log", batch_size=8, simulated={"call_ms": 600}) as hearing:
        wait_until(lambda: redis_ledger.counts(run.run_id).settled > 0, "the first batch")
        hearing.send_signal(signal.SIGHUP)
        if hang_up is signal.SIG_IGN:
            wait_finished(redis_ledger, run)
            assert hearing.poll() is None
        else:
            assert hearing.wait(timeout=PATIENCE_S) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()
    assert redis_ledger.client.hlen(keys.unacked("w0@test")) == 0


def test_sigterm_drains_a_worker_whose_log_is_on_a_full_disk(app: Celery, redis_ledger: RedisLedger) -> None:
    run = sent(app, redis_ledger, 100)
    given = {
        "MCQUEUE_ENGINE": "simulated",
        "MCQUEUE_MODEL": SIMULATED_MODEL,
        "MCQUEUE_BATCH_SIZE": "8",
        "MCQUEUE_SIMULATED__CALL_MS": "600",
        "MCQUEUE_DRAIN_TIMEOUT_S": "600",
        "PYTHONUNBUFFERED": "",  # so that something is left to be written at the end
    }
    with process(*worker_command("w0@test")[1:], environment=given, log=Path("/dev/full")) as leaving:
        wait_until(lambda: redis_ledger.counts(run.run_id).settled > 0, "the first batch")
        leaving.send_signal(signal.SIGTERM)
        assert leaving.wait(timeout=PATIENCE_S) == 0
    assert 0 < redis_ledger.counts(run.run_id).settled < 100
    assert redis_ledger.client.hlen(keys.unacked("w0@test")) == 0


#: Handing a batch to the pool, which the main thread does under a lock, takes a second.
SLOW_POOL = """
import sys, time
from concurrent.futures.thread import ThreadPoolExecutor
adjust = ThreadPoolExecutor._adjust_thread_count
def slowly(self):
    print("handing over to a pool of", self._max_workers, file=sys.stderr, flush=True)
    time.sleep(1)
    adjust(self)
ThreadPoolExecutor._adjust_thread_count = slowly
"""


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGINT])
def test_a_signal_while_a_batch_is_handed_to_the_pool_ends_the_worker(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW_POOL)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    run = open_run(redis_ledger, make_questions(40))
    with worker(tmp_path / "log", batch_size=4) as leaving:
        send(app, redis_ledger, run)
        wait_until(lambda: "handing over to a pool of 64" in (tmp_path / "log").read_text(), "the first batch")
        for _ in range(2):
            leaving.send_signal(number)
            time.sleep(0.1)
        assert leaving.wait(timeout=PATIENCE_S) == 1
    assert redis_ledger.client.hlen(keys.unacked("w0@test")) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_an_engines_process_dies_with_its_worker_where_nobody_is_left_to_end_it(redis_url: str, tmp_path: Path) -> None:
    with worker(tmp_path / "log", simulated={"core": True}) as alone:
        assert len(processes_of_session(alone.pid)) == 2
        alone.kill()
        wait_until(lambda: not processes_of_session(alone.pid), "the engine's process to end")


def reading_processes(worker_pid: int) -> list[psutil.Process]:
    """The processes beside the worker that read texts."""
    found = []
    for each in processes_of_session(worker_pid):
        with suppress(psutil.Error):  # it has just ended
            if "spawn_main" in " ".join(each.cmdline()):
                found.append(each)
    return found


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_processes_that_read_texts_lose_nothing_and_end_with_their_worker(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path, how: signal.Signals
) -> None:
    asked = {"mode": Mode.GENERATE, "sampling": Sampling(max_tokens=9)}
    run = open_run(redis_ledger, make_questions(100), name="apart", **asked)
    with worker(tmp_path / "log", batch_size=32, reading_processes=2) as reading:
        send(app, redis_ledger, run)
        wait_finished(redis_ledger, run)
        killed, other = reading_processes(reading.pid)
        killed.kill()
        # Until it is noticed, the other one may read everything.
        wait_until(lambda: not reading_processes(reading.pid), f"{other} to be ended, too")
        # Not before: the worker sends what is in no message.
        again = open_run(redis_ledger, make_questions(100), name="here", **asked)
        send(app, redis_ledger, again)
        wait_finished(redis_ledger, again)
        reading.send_signal(how)
        reading.wait(timeout=PATIENCE_S)
        wait_until(lambda: not processes_of_session(reading.pid), "the processes to end")
    told = {"question_id", "outcome", "choice", "rule", "raw_text", "attempts"}
    said, said_again = ([each.model_dump(include=told) for each in verdicts(redis_ledger, of)] for of in (run, again))
    assert said == said_again
    assert "the worker reads them itself from now on" in (tmp_path / "log").read_text()


def run_to_its_end(*command: str, environment: dict[str, str], log: Path) -> tuple[int, str]:
    with process(*command, environment=environment, log=log) as child:
        try:
            exit_code = child.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            end(child)
            raise
    return exit_code, log.read_text()


@pytest.mark.parametrize(
    ("environment", "pool", "exit_code", "says"),
    [
        (
            {"MCQUEUE_REDIS_URL": "redis://127.0.0.1:1/0"},
            "threads",
            EXIT_RETRY,
            "No Redis answers at redis://127.0.0.1:1",
        ),
        ({}, "solo", 1, "Start the worker with --pool threads"),
        ({"MCQUEUE_LOG_LEVEL": "verbose"}, "threads", 1, "expected one of"),
        ({"MCQUEUE_BATCHSIZE": "8"}, "threads", 1, "Did you mean 'MCQUEUE_BATCH_SIZE'"),
        ({"MCQUEUE_ENGINE": "vllm", "MCQUEUE_HF_MODEL_ID": "/no/such"}, "threads", 1, "no folder /no/such"),
    ],
)
def test_a_worker_that_cannot_work_says_why_in_one_line(
    redis_url: str, tmp_path: Path, environment: dict[str, str], pool: str, exit_code: int, says: str
) -> None:
    command = [pool if word == "threads" else word for word in worker_command("w0@test")[1:]]
    given = {"MCQUEUE_ENGINE": "simulated", "MCQUEUE_REDIS_URL": redis_url, **environment}
    code, output = run_to_its_end(*command, environment=given, log=tmp_path / "log")
    assert code == exit_code, output
    assert says in output
    assert "Traceback" not in output


def test_two_living_workers_never_share_a_name(redis_url: str, tmp_path: Path) -> None:
    given = {"MCQUEUE_ENGINE": "simulated", "MCQUEUE_MODEL": SIMULATED_MODEL, "MCQUEUE_REDIS_URL": redis_url}
    with worker(tmp_path / "first"):
        code, output = run_to_its_end(*worker_command("w0@test")[1:], environment=given, log=tmp_path / "second")
    assert code == EXIT_RETRY  # it may just have died: a launcher tries again
    assert "A worker named 'w0@test' is alive" in output
