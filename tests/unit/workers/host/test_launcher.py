"""What the launcher decides; that it does it is shown in tests/acceptance."""

from __future__ import annotations

import errno
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import pytest

from contract.errors import (
    EXIT_ENGINE,
    EXIT_RESTART,
    EXIT_RETRY,
    EXIT_UNBOOTABLE,
    EngineError,
    EngineUnbootable,
    HubUnreachable,
    LedgerError,
    McqueueError,
    ModelNotFound,
    NameTaken,
    RedisUnreachable,
    SettingsError,
)
from tests.support import PATIENCE_S
from workers.host import boot_pipe
from workers.host.child import Child
from workers.host.launcher import Supervisor, worker_command
from workers.host.placement import WorkerPlan
from workers.host.restarts import Exit, Failures, after_exit


@pytest.mark.parametrize(
    ("exit_code", "was_ready", "steady", "failures", "action", "pause_s"),
    [
        (0, True, True, 0, "stop", 0.0),  # shut down on request
        (1, False, False, 0, "give up", 0.0),  # a setting or model that a person must mend
        (1, True, False, 0, "restart", 1.0),  # a crash in mid-run
        (EXIT_UNBOOTABLE, False, False, 0, "give up", 0.0),  # no boot can succeed
        (-9, True, True, 9, "restart", 1.0),  # killed after steady work
        (-9, True, False, 1, "restart", 2.0),  # killed again
        (-9, True, False, 9, "restart", 4.0),  # and again: questions wait for it
        (-11, True, False, 9, "restart", 4.0),  # by a fault of its own: a question may be the cause, but no boot
        (-9, False, False, 3, "restart", 8.0),
        (-9, False, False, 9, "restart", 30.0),  # killed in every boot: that says nothing of the boots
        (-15, False, False, 9, "restart", 30.0),
        (-11, False, False, 4, "give up", 0.0),  # five boots that ended in a fault of their own
        (EXIT_ENGINE, False, False, 0, "restart", 1.0),  # memory not free yet, say
        (EXIT_ENGINE, False, False, 4, "give up", 0.0),
        (EXIT_RETRY, False, False, 40, "restart", 30.0),  # Redis is away: however long it takes
        (EXIT_RETRY, False, False, 1024, "restart", 30.0),
        (EXIT_RESTART, True, False, 3, "restart", 0.0),  # restarted on request
        (EXIT_RESTART, False, False, 9, "restart", 0.0),
    ],
)
def test_what_follows_an_exit(
    exit_code: int, was_ready: bool, steady: bool, failures: int, action: str, pause_s: float
) -> None:
    decision = after_exit(Exit(exit_code, was_ready, steady), Failures(failures, failures))
    assert (decision.action, decision.pause_s) == (action, pause_s)


def test_boots_that_were_killed_do_not_count_as_boots_that_failed() -> None:
    assert after_exit(Exit(-9, was_ready=False), Failures(exits=9, boots=4)).failures == (10, 0)
    ended = Exit(EXIT_ENGINE, was_ready=False)
    assert after_exit(ended, Failures(exits=9, boots=3)).action == "restart"
    assert after_exit(ended, Failures(exits=9, boots=4)).action == "give up"


@pytest.mark.parametrize("exit_code", [1, EXIT_UNBOOTABLE])
def test_a_worker_that_was_ready_once_is_not_given_up_for_one_boot_that_says_that_none_can_succeed(
    exit_code: int,
) -> None:
    ended = Exit(exit_code, was_ready=False, proven=True)
    found = [after_exit(ended, Failures())]
    while found[-1].action == "restart":
        found.append(after_exit(ended, found[-1].failures))
    assert [each.action for each in found] == ["restart"] * 4 + ["give up"]


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        (SettingsError("batch_size: 0"), 1),
        (ModelNotFound("there is no such model"), 1),
        (HubUnreachable("the encoder is not here, and the hub does not answer"), EXIT_ENGINE),
        (EngineError("no memory"), EXIT_ENGINE),
        (EngineUnbootable("no such attention"), EXIT_UNBOOTABLE),
        (NameTaken("gpu0"), EXIT_RETRY),
        (RedisUnreachable("no answer"), EXIT_RETRY),
        (LedgerError("Redis refuses the password"), 1),
    ],
)
def test_a_worker_whose_hub_is_away_is_started_again_and_one_with_a_wrong_setting_is_not(
    trouble: McqueueError, code: int
) -> None:
    assert boot_pipe.exit_code(trouble) == code


def test_why_a_boot_failed_is_told_though_a_folder_in_it_has_a_name_that_is_not_utf_8(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, writer = os.pipe()
    monkeypatch.setenv("MCQUEUE_READY_FD", str(writer))
    boot_pipe.report(os.fsdecode(b"/home/andr\xe9 cannot be read"))
    os.close(writer)
    assert boot_pipe.read_report(reader) == "/home/andr\\udce9 cannot be read"
    os.close(reader)


def test_the_worker_is_an_ordinary_celery_worker() -> None:
    words = " ".join(worker_command("gpu0@host"))
    assert "celery -q -A workers.app worker --pool threads -n gpu0@host" in words
    assert "-n bm25@host -Q retrieve.bm25" in " ".join(worker_command("bm25@host", "retrieve.bm25"))


def test_the_last_lines_of_a_worker_are_its_own_and_not_those_of_an_earlier_boot(tmp_path: Path) -> None:
    log = tmp_path / "gpu0.log"
    log.write_text("cannot reach the hub for another model\n")
    child = Child(WorkerPlan("gpu0", "m"), log, log_begins=log.stat().st_size)
    with log.open("a") as output:
        output.write("unknown argument\n")
    assert child.last_words() == "its last lines:\n    unknown argument"


def test_the_last_lines_of_a_worker_are_told_though_its_log_was_emptied_since_it_booted(tmp_path: Path) -> None:
    log = tmp_path / "gpu0.log"
    log.write_text("out of memory\n")
    assert Child(WorkerPlan("gpu0", "m"), log, log_begins=5_000).last_words() == "its last lines:\n    out of memory"


CORE = "(EngineCore pid=7) ERROR 11-23 06:44:44 [core.py:1100] "


def test_above_the_last_lines_of_a_worker_stand_the_last_errors_that_those_do_not_show(tmp_path: Path) -> None:
    log = tmp_path / "gpu0.log"
    cause = f"{CORE}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."
    earlier = [f"KeyError: {number}" for number in range(9)]
    traceback = [f"{CORE}  File worker.py, line {number}, in raise ValueError()" for number in range(30)]
    told = "RuntimeError: Engine core initialization failed."
    log.write_text("\n".join([*earlier, cause, cause, *traceback, told]))
    _, *lines = Child(WorkerPlan("gpu0", "m"), log).last_words().splitlines()
    assert lines[:5] == [
        *(f"    … KeyError: {number}" for number in (5, 6, 7, 8)),
        "    … torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
    ]
    assert lines[5:] == [f"    {line}" for line in [*traceback[-19:], told]]


@pytest.mark.usefixtures("own_signals")
def test_under_nohup_a_terminal_that_is_gone_is_nothing_to_a_launcher(tmp_path: Path) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    Supervisor([], tmp_path, print).run()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.usefixtures("own_signals")
def test_of_the_last_worker_that_is_given_up_it_is_said_that_the_launcher_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "workers.host.launcher.worker_command", lambda *_: [sys.executable, "-c", "raise SystemExit(1)"]
    )
    told: list[str] = []
    assert Supervisor([WorkerPlan("gpu4-5", "m")], tmp_path, told.append).run() == 1
    assert f"gpu4-5@{socket.gethostname()}: given up" in told[-1]
    assert told[-1].endswith("fix the error, then: run this command again")


@pytest.mark.parametrize("why", [errno.EACCES, errno.EROFS])
def test_logs_that_another_user_of_the_checkout_wrote_are_refused_at_once(
    why: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every worker "cannot be started; retrying in 30 s", for ever: .mcqueue/logs was there, with the other's logs."""

    def opened(_: Child) -> NoReturn:
        raise OSError(why, os.strerror(why))

    monkeypatch.setattr(Child, "log", opened)
    refused = f"{tmp_path / 'gpu0.log'}: {os.strerror(why)}. Name a folder that you may write to: --logs FOLDER."
    with pytest.raises(SettingsError, match=re.escape(refused)):
        Supervisor([WorkerPlan("gpu0", "m")], tmp_path, print).run()


def test_of_a_worker_whose_mapped_file_was_cut_short_it_is_said_what_that_means(tmp_path: Path) -> None:
    """It dies without a word in its log."""
    told: list[str] = []
    supervisor = Supervisor([WorkerPlan("gpu0", "m")], tmp_path, told.append)
    (child,) = supervisor.children
    child.process = subprocess.Popen([sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGBUS)"])
    child.process.wait(timeout=PATIENCE_S)
    supervisor._watch()
    assert "ended with signal SIGBUS: a file that it had mapped was cut short" in told[0]


def test_a_hung_boot_that_a_kill_does_not_end_is_announced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may wait for a driver for ever."""
    told: list[str] = []
    supervisor = Supervisor([WorkerPlan("gpu0", "m", startup_timeout_s=0.1)], tmp_path, told.append)
    monkeypatch.setattr(Child, "kill", lambda _: None)
    (child,) = supervisor.children
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        child.process, child.state, child.started_at = process, "booting", time.monotonic() - 40
        for _ in range(3):
            supervisor._watch()
        process.kill()
    assert len(told) == 1
    assert told[0].startswith(f"gpu0@{socket.gethostname()}: not ready after 40 s")


def test_a_worker_whose_engine_has_booted_may_wait_for_redis_however_long_it_is_away(tmp_path: Path) -> None:
    """It was killed, and after five times given up, though its engine had taken minutes to boot."""
    told: list[str] = []
    supervisor = Supervisor([WorkerPlan("gpu0", "m", startup_timeout_s=0.1)], tmp_path, told.append)
    (child,) = supervisor.children
    child.boot_reader, writer = os.pipe()
    supervisor._selector.register(child.boot_reader, selectors.EVENT_READ, child)
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(sleeper) as process, ExitStack() as in_any_case:
        in_any_case.callback(process.kill)
        child.process, child.state, child.started_at = process, "booting", time.monotonic() - 4000
        os.write(writer, boot_pipe.BOOTED.encode())
        supervisor._watch()
        assert (told, process.poll()) == ([], None)
        os.write(writer, boot_pipe.READY.encode())
        supervisor._watch()
    os.close(writer)
    assert told[0].startswith(f"gpu0@{socket.gethostname()}: ready after 40")


def test_that_an_engine_has_booted_says_nothing_of_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A boot that hung would have been waited for without end."""
    monkeypatch.setattr("workers.host.launcher.worker_command", lambda *_: [sys.executable, "-c", ""])
    supervisor = Supervisor([WorkerPlan("gpu0", "m")], tmp_path, lambda _: None)
    (child,) = supervisor.children
    child.booted = True
    supervisor._start(child)
    supervisor._close_boot_reader(child)
    assert child.process is not None
    child.process.wait()
    assert child.is_overdue(time.monotonic() + 4000)


def test_a_worker_that_ends_once_its_engine_has_booted_leaves_no_pipe_behind(tmp_path: Path) -> None:
    supervisor = Supervisor([WorkerPlan("gpu0", "m")], tmp_path, lambda _: None)
    (child,) = supervisor.children
    child.boot_reader, writer = os.pipe()
    supervisor._selector.register(child.boot_reader, selectors.EVENT_READ, child)
    child.process = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    os.write(writer, boot_pipe.BOOTED.encode())
    os.close(writer)
    supervisor._on_exit(child, child.process.wait())
    assert (child.boot_reader, len(supervisor._selector.get_map())) == (-1, 0)


def test_a_worker_that_a_kill_does_not_end_does_not_keep_the_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither Ctrl-C nor SIGTERM would end a launcher that waits for it."""
    monkeypatch.setattr("workers.host.launcher.KILLED_WITHIN_S", 0.1)
    told: list[str] = []
    supervisor = Supervisor([WorkerPlan("gpu0", "m"), WorkerPlan("gpu1", "m")], tmp_path, told.append)
    monkeypatch.setattr(Child, "kill", lambda _: None)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        supervisor.children[0].process = process
        supervisor._kill_all()
        process.kill()
    assert told == [f"gpu0@{socket.gethostname()}: process {process.pid} has not died yet: a driver may hold it"]


#: A worker as the launcher sees it: gpu0 says that it cannot boot, gpu1 that it is ready.
TELL = """
import os, sys, time
node = sys.argv[1]
said = b"ready" if node.startswith("gpu1") else b"booted\\nThere is no such attention."
os.write(int(os.environ["MCQUEUE_READY_FD"]), said)
sys.exit(78) if node.startswith("gpu0") else time.sleep(60)
"""


@pytest.mark.usefixtures("own_signals")
def test_a_worker_that_cannot_boot_is_started_once_and_the_others_go_on_and_at_the_end_it_is_named_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.host.launcher.worker_command", lambda node, *_: [sys.executable, "-c", TELL, node])
    told: list[str] = []

    def end_when_settled(children: Sequence[Child]) -> None:
        if [child.state for child in children] == ["given up", "ready"]:
            os.kill(os.getpid(), signal.SIGTERM)

    plans = [WorkerPlan("gpu0", "m"), WorkerPlan("gpu1", "m")]
    up = Supervisor(plans, tmp_path, told.append, end_when_settled)
    assert up.run() == 1
    assert f"gpu0@{socket.gethostname()}: ended with exit code 78; There is no such attention." in told
    assert [child.boots for child in up.children] == [1, 1]
    assert told[-1] == f"gpu0@{socket.gethostname()}: was given up; There is no such attention."


#: A worker that ends at once; a process of its group puts things in order after it, as Python's resource tracker does.
LEAVE = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1); open('in-order', 'w')"], cwd=sys.argv[1])
os._exit(0)
"""


@pytest.mark.usefixtures("own_signals")
def test_processes_of_a_dead_worker_have_a_moment_to_put_things_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.host.child.TIDY_S", PATIENCE_S)
    monkeypatch.setattr("workers.host.launcher.worker_command", lambda *_: [sys.executable, "-c", LEAVE, str(tmp_path)])
    assert Supervisor([WorkerPlan("gpu0", "m")], tmp_path, print).run() == 0
    assert (tmp_path / "in-order").exists()


@pytest.mark.usefixtures("own_signals")
def test_a_worker_that_cannot_be_started_and_a_full_disk_cost_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.host.launcher.worker_command", lambda node, *_: [sys.executable, "-c", TELL, node])

    def announce(_: str) -> None:
        raise OSError(28, "No space left on device")

    def end_when_settled(children: Sequence[Child]) -> None:
        if children[0].state == "ready" and (children[1].start_at or 0) > time.monotonic() + 10:
            os.kill(os.getpid(), signal.SIGTERM)

    up = Supervisor([WorkerPlan("gpu1", "m"), WorkerPlan("gpu1/x", "m")], tmp_path, announce, end_when_settled)
    assert up.run() == 0
    assert [child.boots for child in up.children] == [1, 0]
