"""`python -m workers up`: draining and restarting by name, engines that hang or die, and what must not stay behind."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import socket
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest
import redis
from celery import Celery
from click.testing import CliRunner

from contract import Outcome, RedisLedger, Run, keys
from contract.fleet import LEASE_S, Fleet, Wish, WorkerRecord, WorkerState
from contract.settings import load_settings
from tests.integration.runs import send, sent, verdicts, wait_finished
from tests.support import (
    NOT_BY_ITSELF,
    PATIENCE_S,
    ROOT,
    SIMULATED_MODEL,
    booted_pids,
    end,
    make_question,
    make_questions,
    open_run,
    process,
    processes_of_session,
    url_of,
    valkey,
    wait_until,
    worker,
)
from workers.cli import main as workers_main
from workers.engines.simulated import CORE
from workers.host.launcher import Supervisor
from workers.host.placement import WorkerPlan
from workers.host.redis_watch import RedisWatch


class Launched:
    """A running `workers up` with the simulated engine."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self._log = folder / "up.log"

    def said(self) -> str:
        return self._log.read_text()

    def pids(self) -> list[int]:
        """Of all workers booted so far; each leads a session of its own."""
        return booted_pids(self.said())

    def wait_ready(self, times: int) -> None:
        wait_until(lambda: self.said().count("ready after") >= times, f"{times} boots")


@contextmanager
def launched(folder: Path, *settings: str) -> Iterator[Launched]:
    given = ("engine=simulated", f"model={SIMULATED_MODEL}", NOT_BY_ITSELF, *settings)
    chosen = [word for each in given for word in ("--set", each)]
    with process("-m", "workers", "up", *chosen, "--logs", str(folder), log=folder / "up.log") as launcher:
        yield Launched(launcher, folder)


def workers_command(*words: str, exit_code: int = 0) -> str:
    """`python -m workers …`, which must end so, and without a traceback; what it said."""
    command = [sys.executable, "-m", "workers", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def names(ledger: RedisLedger) -> list[str]:
    return [each.name.partition("@")[0] for each in Fleet(ledger.client).alive()]


def begun(ledger: RedisLedger, run: Run) -> bool:
    """Whether a worker has begun a question and not settled it."""
    return bool(ledger.client.hlen(keys.RunKeys(run.run_id).attempts))


def attempts(ledger: RedisLedger, run: Run) -> list[int]:
    return [verdict.attempts for verdict in verdicts(ledger, run)]


def test_a_worker_drained_by_name_ends_its_batches_and_is_left_ended(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with launched(tmp_path, "cpu_workers=2", "batch_size=8", "simulated.call_ms=300") as up:
        up.wait_ready(2)
        run = sent(app, redis_ledger, 160)
        wait_until(lambda: redis_ledger.counts(run.run_id).settled > 0, "the first batch")
        said = workers_command("drain", "cpu0")
        assert "cpu0@" in said
        assert "drained" in said
        assert names(redis_ledger) == ["cpu1"]
        wait_until(lambda: "cpu0: stopped as requested" in up.said(), "the launcher to notice")
        wait_finished(redis_ledger, run)
        assert up.said().count("booting (pid") == 2
        assert not redis_ledger.client.keys(keys.wish("*"))
        workers_command("drain", "cpu1")
        assert up.process.wait(timeout=PATIENCE_S) == 0
    assert attempts(redis_ledger, run) == [1] * 160, "batches in flight were ended, not asked again"


def test_a_worker_is_known_to_be_starting_before_it_has_joined(redis_ledger: RedisLedger, tmp_path: Path) -> None:
    fleet, queue = Fleet(redis_ledger.client), keys.score_queue(SIMULATED_MODEL)
    with launched(tmp_path) as up:
        wait_until(lambda: bool(fleet.starting(queue)), "the launcher")
        assert [each.partition("@")[0] for each in fleet.starting(queue)] == ["cpu0"]
        assert fleet.alive() == []
        up.wait_ready(1)
        assert fleet.starting(queue) == []


def test_a_worker_that_dies_before_it_reads_the_wish_to_drain_does_not_stay(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with launched(tmp_path) as up:
        up.wait_ready(1)
        (pid,) = up.pids()
        os.kill(pid, signal.SIGSTOP)
        with ThreadPoolExecutor(1) as pool:  # a process of its own might come when the stopped one's lease is over
            asking = pool.submit(CliRunner().invoke, workers_main, ["drain", "cpu0"])
            wait_until(lambda: asking.done() or bool(redis_ledger.client.keys(keys.wish("*"))), "the wish")
            os.kill(pid, signal.SIGKILL)
            assert up.process.wait(timeout=PATIENCE_S) == 0
            assert asking.result(timeout=PATIENCE_S).exit_code == 0, asking.result().output
    assert "cpu0: stopped as requested" in up.said()


def test_workers_restart_one_after_the_other_while_the_run_goes_on(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    fleet = Fleet(redis_ledger.client)
    with launched(tmp_path, "cpu_workers=2", "batch_size=8", "simulated.call_ms=200") as up:
        up.wait_ready(2)
        wait_until(lambda: all(each.state is WorkerState.READY for each in fleet.alive()), "their records")
        before = {each.name: each.pid for each in fleet.alive()}
        run = sent(app, redis_ledger, 400)
        fewest = 2
        with subprocess.Popen([sys.executable, "-m", "workers", "restart"], cwd=ROOT, stdout=subprocess.PIPE) as asking:
            while asking.poll() is None:
                fewest = min(fewest, [each.state for each in fleet.alive()].count(WorkerState.READY))
            said = asking.communicate()[0].decode()
        assert (asking.returncode, said.count("ready again")) == (0, 2)
        assert fewest == 1, "never both at once"
        after = {each.name: each.pid for each in fleet.alive()}
        assert before.keys() == after.keys()
        assert not set(before.values()) & set(after.values())
        wait_finished(redis_ledger, run)
    assert attempts(redis_ledger, run) == [1] * 400


def test_names_that_mean_no_worker_or_one_that_would_not_come_back_are_refused(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    assert "No worker is alive" in workers_command("drain", "gpu0", exit_code=1)
    with worker(tmp_path / "log", name="gpu0"):
        assert "Live workers: gpu0@test" in workers_command("drain", "gpu0@tset", exit_code=1)
        assert "gpu0@test cannot be restarted" in workers_command("restart", exit_code=1)
        assert names(redis_ledger) == ["gpu0"]
        drained = workers_command("drain", "gpu1", exit_code=1)
        assert "Did you mean" not in drained, "its neighbour is another worker, and no correction"


def test_a_question_that_hangs_the_engine_is_convicted_and_its_company_scored(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    questions = make_questions(8)
    questions[5] = make_question(5, question="poison?")
    run = open_run(redis_ledger, questions)
    send(app, redis_ledger, run, 8)
    chosen = ("batch_size=8", "max_attempts=3", "simulated.hang_text=poison", "batch_deadline_s=1")
    with launched(tmp_path, *chosen):
        wait_finished(redis_ledger, run)
    settled = {each.question_id: each for each in verdicts(redis_ledger, run)}
    assert [each.question_id for each in settled.values() if each.outcome is Outcome.FAILED] == ["q5"]
    assert settled["q5"].error is not None
    assert settled["q5"].error.type == "TooManyAttempts"
    assert "the engine has not answered for 1 s" in (tmp_path / "cpu0.log").read_text()


def test_a_drain_does_not_wait_longer_than_it_may_for_a_batch(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with worker(tmp_path / "log", drain_timeout_s=1, simulated={"hang_text": "plus"}) as slow:
        run = sent(app, redis_ledger, 4)
        wait_until(lambda: begun(redis_ledger, run), "the call to begin")
        fleet = Fleet(redis_ledger.client)
        (name,) = fleet.names()
        fleet.ask(name, Wish.DRAIN)
        assert slow.wait(timeout=PATIENCE_S) == 0
        assert fleet.wish(name) is None, "the next worker of this name stays"
    with worker(tmp_path / "next", name="w1"):
        wait_finished(redis_ledger, run)
    assert "did not end within 1 s" in (tmp_path / "log").read_text()
    assert attempts(redis_ledger, run) == [1] * 4, "what a stop breaks off is no fault of its questions"


def test_a_launcher_that_is_stopped_lets_its_workers_take_back_what_they_break_off(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with launched(tmp_path, "drain_timeout_s=1", "simulated.hang_text=plus") as up:
        up.wait_ready(1)
        run = sent(app, redis_ledger, 4)
        wait_until(lambda: begun(redis_ledger, run), "the call to begin")
        up.process.terminate()
        assert up.process.wait(timeout=PATIENCE_S) == 0
    left = redis_ledger.client.hvals(keys.RunKeys(run.run_id).attempts)
    assert [each.split()[0] for each in left] == ["0"] * 4


def cores(worker_pid: int) -> list[int]:
    """Process ids of the simulated engine cores in the session of a worker, alive or not."""
    return [each.pid for each in processes_of_session(worker_pid) if CORE in each.cmdline()]


def test_an_engine_core_that_is_killed_ends_its_worker_and_the_batch_is_asked_again(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with launched(tmp_path, "simulated.core=true", "simulated.call_ms=2000", "batch_size=8") as up:
        up.wait_ready(1)
        (core,) = cores(up.pids()[0])
        run = sent(app, redis_ledger, 8)
        wait_until(lambda: begun(redis_ledger, run), "the call to begin")
        os.kill(core, signal.SIGKILL)
        wait_finished(redis_ledger, run)
        assert len(up.pids()) == 2
    assert attempts(redis_ledger, run) == [2] * 8


def test_a_worker_whose_engine_core_is_killed_while_it_has_nothing_to_do_is_replaced_before_it_is_asked(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with launched(tmp_path, "simulated.core=true") as up:
        up.wait_ready(1)
        (core,) = cores(up.pids()[0])
        os.kill(core, signal.SIGKILL)
        up.wait_ready(2)
        assert "core is gone. This worker stops" in up.said()
        assert names(redis_ledger) == ["cpu0"]


def test_an_engine_core_that_outlives_its_killed_worker_is_ended_by_the_launcher(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with launched(tmp_path, "simulated.core=true") as up:
        up.wait_ready(1)
        (first,) = up.pids()
        assert len(cores(first)) == 1
        os.kill(first, signal.SIGKILL)
        up.wait_ready(2)
        assert processes_of_session(first) == []
        assert names(redis_ledger) == ["cpu0"]


#: Two models of one host; one of them has no engine.
ONE_CANNOT = f"""
engine: simulated
models:
  - {{model: {SIMULATED_MODEL}, simulated: {{call_ms: 1}}}}
  - {{model: broken, simulated: {{unbootable: There is no such attention.}}}}
"""


def test_a_model_named_as_on_the_hub_has_a_worker_that_boots_answers_and_can_be_named(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("engine: simulated\nbatch_timeout: 0.1\nmodels: [{model: Org/Big}, {model: small}]\n")
    only = ("--config", str(file), "--logs", str(tmp_path), "--only", "org-big-cpu0")
    with process("-m", "workers", "up", *only, log=tmp_path / "up.log") as child:
        up = Launched(child, tmp_path)
        up.wait_ready(1)
        assert (tmp_path / "org-big-cpu0.log").is_file()
        run = open_run(redis_ledger, make_questions(20), model="Org/Big")
        send(app, redis_ledger, run)
        wait_finished(redis_ledger, run)
        assert {each.worker.partition("@")[0] for each in verdicts(redis_ledger, run)} == {"org-big-cpu0"}
        workers_command("restart", "org-big-cpu0")
        workers_command("drain", "org-big-cpu0")
        assert child.wait(timeout=PATIENCE_S) == 0
    assert names(redis_ledger) == []


def test_a_worker_that_cannot_boot_is_given_up_at_once_and_who_waits_for_it_is_told_why(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    deploy, log = tmp_path / "fleet.yaml", tmp_path / "up.log"
    deploy.write_text(ONE_CANNOT)
    up = ("-m", "workers", "up", "--config", str(deploy), "--logs", str(tmp_path))
    with process(*up, log=log) as launcher:
        wait_until(lambda: "given up" in log.read_text() and "ready after" in log.read_text(), f"both; see {log}")
        assert "broken-cpu1: ended with exit code 78; There is no such attention." in log.read_text()
        assert log.read_text().count("booting (pid") == 2, "each once"
        (failure,) = Fleet(redis_ledger.client).boot_failures(keys.score_queue("broken"))
        assert (failure.worker, failure.reason) == (
            f"broken-cpu1@{socket.gethostname()}",
            "There is no such attention.",
        )
        assert names(redis_ledger) == [f"{SIMULATED_MODEL}-cpu0"], "the other one goes on"
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(timeout=PATIENCE_S) == 1
    assert log.read_text().rstrip().endswith("broken-cpu1: was given up; There is no such attention.")
    mended = ("-m", "workers", "up", "--config", str(deploy), "--logs", str(tmp_path), "--only", "broken-cpu1")
    deploy.write_text(ONE_CANNOT.replace("unbootable: There is no such attention.", "call_ms: 1"))
    with process(*mended, log=tmp_path / "mended.log"):
        wait_until(lambda: names(redis_ledger) == ["broken-cpu1"], "it")
        wait_until(lambda: not Fleet(redis_ledger.client).boot_failures(keys.score_queue("broken")), "the end of that")


def in_terminal(terminal: int) -> None:
    """Make it this process' own, which hears when it is gone: not if the tests run under nohup, which is inherited."""
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@contextmanager
def on_terminal(*words: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A Python with a terminal of its own, and the descriptor at which that is read, or closed."""
    ours, its = pty.openpty()
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm"},  # where a table is drawn
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        preexec_fn=partial(in_terminal, its),
    ) as launcher:
        try:
            os.close(its)
            yield launcher, ours
        finally:
            end(launcher)


def test_a_terminal_that_is_gone_has_the_workers_drained_and_the_reason_told_in_a_file(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    chosen = ["engine=simulated", f"model={SIMULATED_MODEL}", "batch_size=8", "simulated.call_ms=3000"]
    command = ["-m", "workers", "up", *(word for each in chosen for word in ("--set", each)), "--logs", str(tmp_path)]
    with on_terminal(*command) as (launcher, terminal):
        log = tmp_path / "cpu0.log"
        wait_until(lambda: log.exists() and "ready: takes" in log.read_text(), "the worker to be ready")
        run = sent(app, redis_ledger, 8)
        wait_until(lambda: begun(redis_ledger, run), "the call to begin")
        os.close(terminal)
        said = tmp_path / "up.log"
        wait_until(lambda: said.exists() and "draining 1 worker;" in said.read_text(), "the launcher to notice")
        launcher.send_signal(signal.SIGHUP)  # shells tell their jobs, and the kernel tells them again
        assert launcher.wait(timeout=PATIENCE_S) == 0
    assert (
        "the terminal was closed (SIGHUP); in tmux, with nohup or as a systemd unit, workers would go on"
        in said.read_text()
    )
    assert "\x1b" not in said.read_text(), "nor is a table drawn into the file"
    assert attempts(redis_ledger, run) == [1] * 8, "the batch in flight was ended, not asked again"


CTRL_S, CTRL_Q = b"\x13", b"\x11"


def shown_until(words: str, terminal: int) -> str:
    """What is shown at that terminal until `words` are."""
    shown = ""
    while words not in shown:
        shown += os.read(terminal, 4096).decode()
    return shown


def test_a_terminal_that_nobody_reads_keeps_no_worker_from_being_restarted_and_is_told_later(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    command = ["-m", "workers", "up", "--set", "engine=simulated", "--set", f"model={SIMULATED_MODEL}"]
    with on_terminal(*command, "--logs", str(tmp_path)) as (launcher, terminal):
        (pid,) = booted_pids(shown_until("cpu0: ready after", terminal))
        os.write(terminal, CTRL_S)
        os.kill(pid, signal.SIGKILL)
        log = tmp_path / "cpu0.log"
        wait_until(lambda: log.read_text().count("ready: takes") == 2, "the next one to be ready")
        os.write(terminal, CTRL_Q)
        assert "ended with signal SIGKILL" in shown_until("restarting in 1 s", terminal)
        os.write(terminal, CTRL_S)
        launcher.terminate()
        assert launcher.wait(timeout=PATIENCE_S) == 0, "nor does it wait for its last words to be read"


def test_one_worker_of_the_plan_is_started_alone_beside_those_that_go_on(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with launched(tmp_path, "cpu_workers=2") as up:
        up.wait_ready(2)
        workers_command("drain", "cpu1")
        missing = workers_command("restart", "cpu1", exit_code=1)
        assert "python -m workers up --only NAME" in missing
        command = ("-m", "workers", "up", "--only", "cpu1", "--logs", str(tmp_path))
        chosen = ("--set", "engine=simulated", "--set", f"model={SIMULATED_MODEL}", "--set", "cpu_workers=2")
        with process(*command, *chosen, log=tmp_path / "second.log"):
            wait_until(lambda: names(redis_ledger) == ["cpu0", "cpu1"], "it to be back")
            assert up.process.poll() is None


def up_again(folder: Path, *settings: str) -> str:
    """A second `workers up` of the simulated engine, which must be refused; what it said."""
    chosen = [word for each in ("engine=simulated", f"model={SIMULATED_MODEL}", *settings) for word in ("--set", each)]
    return workers_command("up", *chosen, "--logs", str(folder / "second"), exit_code=1)


def test_workers_that_run_already_are_not_started_a_second_time(redis_ledger: RedisLedger, tmp_path: Path) -> None:
    with launched(tmp_path) as up:
        up.wait_ready(1)
        (running,) = (each.name for each in Fleet(redis_ledger.client).alive())
        said = up_again(tmp_path, "cpu_workers=2")
        assert f"Already running: {running} (ready, {SIMULATED_MODEL}, pid {up.pids()[0]})" in said
        assert f"To restart: python -m workers restart {running}. To stop: python -m workers drain {running}." in said
        assert "add --only cpu1 to this command" in said
        assert not (tmp_path / "second").exists(), "nothing boots"
        assert up.process.poll() is None, "the first one goes on"


def test_workers_of_other_names_are_started_beside_those_that_run(redis_ledger: RedisLedger, tmp_path: Path) -> None:
    several = tmp_path / "several.yaml"
    models = "\n".join(f"  - model: {name}\n    engine: simulated" for name in ("one", "two"))
    several.write_text(f"models:\n{models}\n")
    with launched(tmp_path) as up:
        up.wait_ready(1)
        command = ("-m", "workers", "up", "--config", str(several), "--logs", str(tmp_path / "second"))
        with process(*command, log=tmp_path / "second.log"):
            wait_until(lambda: names(redis_ledger) == ["cpu0", "one-cpu0", "two-cpu1"], "all three")
        assert "Redis already lists" not in (tmp_path / "second.log").read_text()


def test_the_lease_of_a_worker_that_was_killed_elsewhere_keeps_its_successor_waiting_and_no_longer(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    killed = WorkerRecord(name=f"cpu0@{socket.gethostname()}", model="m", state=WorkerState.READY, place="a killed pod")
    Fleet(redis_ledger.client).join(killed)
    with launched(tmp_path) as up:

        def waits() -> bool:
            """Until then the lease goes on: how long a launcher takes to look is not the matter."""
            if f"Redis already lists {killed.name}: waiting" in up.said():
                return True
            redis_ledger.client.expire(keys.worker(killed.name), LEASE_S // 2)
            return False

        wait_until(waits, "the launcher to wait")
        up.wait_ready(1)
        assert up.said().count("booting (pid") == 1, "not once before the name was free"


def test_a_worker_that_drains_is_waited_for_and_followed(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with launched(tmp_path, "simulated.call_ms=4000", "batch_size=8") as first:
        first.wait_ready(1)
        run = sent(app, redis_ledger, 8)
        wait_until(lambda: begun(redis_ledger, run), "the call to begin")
        first.process.kill()  # as by systemd, which starts the next one at once
        (tmp_path / "next").mkdir()
        with launched(tmp_path / "next") as following:
            following.wait_ready(1)
            wait_finished(redis_ledger, run)
    assert attempts(redis_ledger, run) == [1] * 8


def test_a_killed_launcher_leaves_no_process_behind(redis_ledger: RedisLedger, tmp_path: Path) -> None:
    with launched(tmp_path, "cpu_workers=2", "simulated.core=true") as up:
        up.wait_ready(2)
        pids = up.pids()
        up.process.kill()
        up.process.wait()
        wait_until(lambda: not any(processes_of_session(pid) for pid in pids), "the workers to end")
    assert names(redis_ledger) == []


#: A launcher that can be killed before its child asks the kernel to die with it.
KILLED_IN_BETWEEN = """
import os, signal, subprocess, time
from workers.parent import follower

signal.signal(signal.SIGTERM, lambda *_: None)  # as a launcher does; its child has this until it becomes the worker
us = os.getpid()
follow = follower()

def between_fork_and_exec():
    print(os.getpid(), flush=True)
    while os.getppid() == us:
        time.sleep(0.01)
    print("alone", flush=True)
    follow()
    print("went on", flush=True)

subprocess.Popen(["sleep", "600"], preexec_fn=between_fork_and_exec)
"""


def test_a_child_whose_launcher_died_before_it_could_follow_never_becomes_a_worker() -> None:
    command = [sys.executable, "-c", KILLED_IN_BETWEEN]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        child = psutil.Process(int(launcher.stdout.readline()))
        launcher.kill()
        launcher.wait()
        try:
            child.wait(timeout=PATIENCE_S)
        except psutil.TimeoutExpired:
            child.kill()
            pytest.fail("it went on without its launcher")
        assert launcher.stdout.read() == b"alone\n"


#: Python runs this at its start, before it imports anything that it was asked to.
AT_START = """
import os, pathlib
pathlib.Path(__file__).with_name(f"pin-{os.getpid()}").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "unset"))
"""


def test_each_worker_sees_its_own_gpus_from_the_start_of_its_python(
    redis_ledger: RedisLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(AT_START)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,GPU-5f3a0000")
    with launched(tmp_path, "gpu_groups=[[1], [GPU-5f3a]]") as up:
        up.wait_ready(2)
        pins = [(tmp_path / f"pin-{pid}").read_text() for pid in up.pids()]
        assert pins == ["1", "GPU-5f3a0000"]
        assert names(redis_ledger) == ["gpu1", "gpu5f3a0000"]
        assert [each.gpus for each in Fleet(redis_ledger.client).alive()] == pins


READY_AT_ONCE = "import os, time; os.write(int(os.environ['MCQUEUE_READY_FD']), b'ready'); time.sleep(60)"


def test_workers_that_share_a_gpu_boot_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [WorkerPlan(name, "m", gpus=gpus) for name, gpus in {"a": ("0", "1"), "b": ("1",), "c": ("2",)}.items()]
    monkeypatch.setattr("workers.host.launcher.worker_command", lambda *_: [sys.executable, "-c", READY_AT_ONCE])
    told: list[str] = []

    def stop_when_all_are_ready() -> None:
        if all(child.state == "ready" for child in supervisor.children):
            os.kill(os.getpid(), signal.SIGTERM)

    supervisor = Supervisor(plans, tmp_path, told.append, stop_when_all_are_ready)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        supervisor.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

    def when(name: str, what: str) -> int:
        return next(i for i, line in enumerate(told) if line.startswith((f"{name}:", f"{name}@")) and what in line)

    assert when("a", "ready after") < when("b", "booting")
    assert when("c", "booting") < when("a", "ready after")


def test_two_workers_of_one_model_share_a_gpu_under_names_and_logs_of_their_own(
    redis_ledger: RedisLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    sharing = ("gpu_groups=[[0], [0]]", "share_gpus=true", "vllm_args.gpu_memory_utilization=0.4")
    with launched(tmp_path, *sharing) as up:
        up.wait_ready(2)
        assert sorted(names(redis_ledger)) == ["gpu0", "gpu0.2"]
        assert {path.name for path in tmp_path.glob("gpu*")} == {"gpu0.log", "gpu0.2.log"}
        workers_command("drain", "gpu0.2")
        assert names(redis_ledger) == ["gpu0"]


def test_a_redis_that_goes_away_is_told_once_and_once_that_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with valkey(tmp_path / "data") as server:
        monkeypatch.setenv("MCQUEUE_REDIS_URL", url_of(server))
        with launched(tmp_path) as up:
            up.wait_ready(1)
            server.stop()
            wait_until(lambda: "No Redis answers at" in up.said(), "that it is away")
            assert "Workers wait until it responds." in up.said()
            server.start()
            wait_until(lambda: "Redis is back after" in up.said(), "that it is back")
            up.process.terminate()
            assert up.process.wait(timeout=PATIENCE_S) == 0
    assert (up.said().count("No Redis answers"), up.said().count("is back")) == (1, 1)


def test_a_redis_that_refuses_writes_is_told_like_one_that_is_away(tmp_path: Path) -> None:
    told: list[str] = []
    with (
        valkey(tmp_path) as server,
        redis.Redis.from_url(url_of(server)) as client,
        RedisWatch(load_settings(None, [f"redis_url={url_of(server)}"]), told.append),
    ):
        client.config_set("maxmemory", 1)
        wait_until(lambda: len(told) == 1, "that it is full")
        client.config_set("maxmemory", 0)
        wait_until(lambda: len(told) == 2, "that it is not")
    assert told[0].endswith("it is at its memory limit (OOM). Workers wait until it responds.")
    assert told[1].startswith("Redis is back after")


def test_a_plan_that_cannot_be_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    said = workers_command(
        "up",
        "--set",
        "gpu_groups=[[0, 1], [1, 2]]",
        "--set",
        "vllm_args.tensor_parallel_size=2",
        "--logs",
        str(tmp_path),
        exit_code=1,
    )
    assert "GPU 1 into 2 groups" in said
    assert "share_gpus: true" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("hf_model_id=/nope/model", "hf_model_id: no folder /nope/model. Check the path."),
        ("vllm_args.max_modellen=3", "vLLM has no engine argument 'max_modellen'. Did you mean 'max_model_len'?"),
        ('adapters={"mine": "/nope/adapter"}', "/nope/adapter"),
    ],
)
def test_a_worker_that_could_not_boot_is_refused_before_anything_boots(
    redis_ledger: RedisLedger, tmp_path: Path, wrong: str, says: str
) -> None:
    said = workers_command("up", "--set", wrong, "--logs", str(tmp_path / "logs"), exit_code=1)
    assert says in said
    assert not (tmp_path / "logs").exists()


def test_a_model_without_a_worker_here_need_not_be_here(redis_ledger: RedisLedger, tmp_path: Path) -> None:
    words = ("--set", "hf_model_id=/nope/model", "--set", "gpu_groups=[]")
    assert "error" not in workers_command("up", *words, "--logs", str(tmp_path / "logs"))


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_launcher_removes_the_sockets_that_killed_and_drained_workers_leave(
    redis_ledger: RedisLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: signal.Signals
) -> None:
    monkeypatch.delenv("VLLM_RPC_BASE_PATH", raising=False)
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:  # sockets' paths must be short
        monkeypatch.setenv("TMPDIR", temporary)
        with launched(tmp_path, "cpu_workers=2", "simulated.core=true") as up:
            up.wait_ready(2)
            (folder,) = Path(temporary).iterdir()
            cores = [core for pid in up.pids() for core in psutil.Process(pid).children()]
            assert [core.environ()["VLLM_RPC_BASE_PATH"] for core in cores] == [str(folder)] * 2
            (folder / "left").touch()
            os.kill(up.pids()[0], signal.SIGKILL)
            up.wait_ready(3)
            up.process.send_signal(ending)
            assert up.process.wait(timeout=PATIENCE_S) == 0
        assert not list(Path(temporary).iterdir())


def test_a_launcher_removes_what_a_killed_one_left_once_its_workers_have_ended(
    redis_ledger: RedisLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VLLM_RPC_BASE_PATH", raising=False)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    next_one = ("up", "--set", "hf_model_id=/nope/model", "--set", "gpu_groups=[]", "--logs", str(tmp_path / "next"))
    with launched(tmp_path) as up:
        up.wait_ready(1)
        (left,) = temporary.iterdir()
        (pid,) = up.pids()
        os.kill(pid, signal.SIGSTOP)
        up.process.kill()
        up.process.wait()
        workers_command(*next_one)
        assert left.exists()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not processes_of_session(pid), "the worker to end")
        workers_command(*next_one)
        assert not list(temporary.iterdir())


def test_workers_without_a_gpu_keep_to_their_own_cores(redis_ledger: RedisLedger, tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    assert len(cores) >= 2, "needs two cores"
    with launched(tmp_path, "cpu_workers=2") as up:
        up.wait_ready(2)
        bound = [set(psutil.Process(pid).cpu_affinity()) for pid in up.pids()]
    share = len(cores) // 2
    assert bound == [set(cores[:share]), set(cores[share : 2 * share])]


def test_one_file_starts_the_workers_of_several_models_each_with_its_queue(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("engine: simulated\nbatch_timeout: 0.1\nmodels: [{model: large}, {model: small, cpu_workers: 2}]\n")
    with process(
        "-m", "workers", "up", "--config", str(file), "--logs", str(tmp_path), log=tmp_path / "up.log"
    ) as child:
        up = Launched(child, tmp_path)
        up.wait_ready(3)
        assert names(redis_ledger) == ["large-cpu0", "small-cpu1", "small-cpu2"]
        runs = {
            model: open_run(redis_ledger, make_questions(40), name=model, model=model) for model in ("large", "small")
        }
        for run in runs.values():
            send(app, redis_ledger, run)
        for model, run in runs.items():
            wait_finished(redis_ledger, run)
            settled = verdicts(redis_ledger, run)
            assert {verdict.worker.partition("-")[0] for verdict in settled} == {model}
            assert {verdict.outcome for verdict in settled} <= {Outcome.CORRECT, Outcome.WRONG}
        assert {path.name for path in tmp_path.glob("*cpu*.log")} == {
            "large-cpu0.log",
            "small-cpu1.log",
            "small-cpu2.log",
        }
