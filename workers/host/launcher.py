"""The launcher: starts one child process per planned worker, watches, restarts with backoff, drains and cleans up.

Decisions are pure (`restarts`, `placement`); the Supervisor only carries them out. If the launcher itself is killed,
`workers.parent` takes care of its children.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contract import variables
from contract.errors import EXIT_ENGINE, EXIT_RESTART, SettingsError
from contract.keys import score_queue
from contract.wording import number
from workers.host import boot_pipe
from workers.host.child import Child
from workers.host.placement import WorkerPlan
from workers.host.restarts import LONGEST_PAUSE_S, STEADY_S, Exit, Failures, after_exit, needs_a_fix
from workers.parent import follower

__all__ = ["Supervisor", "bind", "node_name", "queues_of", "worker_command"]

POLL_S = 0.2
#: Added to `drain_timeout_s`: when that is over, workers tell the ledger what they break off, and end by themselves.
BREAK_OFF_S = 3.0
#: How long to wait for killed workers. One that waits for a driver or a file system dies only when that answers.
KILLED_WITHIN_S = 30.0


def bind(cores: Sequence[int]) -> None:
    """Bind this process and its children to `cores`, if there are any."""
    if cores:
        os.sched_setaffinity(0, cores)


def node_name(plan: WorkerPlan) -> str:
    """Return the worker's Celery node name: the plan's name at this host."""
    return f"{plan.name}@{socket.gethostname()}"


def queues_of(plans: Iterable[WorkerPlan]) -> dict[str, str]:
    """Return node name → queue of the planned workers."""
    return {node_name(plan): plan.queue or score_queue(plan.serves) for plan in plans}


def worker_command(node_name: str, index_queue: str = "") -> list[str]:
    """Return the command that starts a worker for the model in its settings, or for the index with this queue."""
    celery = [sys.executable, "-m", "celery", "-q", "-A", "workers.app", "worker", "--pool", "threads"]
    served = ["-Q", index_queue] if index_queue else []
    return [*celery, "-n", node_name, *served, "--without-gossip", "--without-mingle"]


@dataclass
class Supervisor:
    """Runs one child per plan until stopped. `run` is the complete lifecycle."""

    plans: Sequence[WorkerPlan]
    #: Folder of the workers' logs; None: they go where this process's own lines go.
    log_folder: Path | None
    announce: Callable[[str], None]
    #: Called in every iteration with the children, to update the display.
    show: Callable[[Sequence[Child]], object] = lambda _: None
    #: Called in every iteration with the names of given-up workers; returns those that somebody wants started again.
    wished: Callable[[Collection[str]], Collection[str]] = lambda _: ()
    #: Descriptors that the workers inherit.
    inherited: Sequence[int] = ()
    children: list[Child] = field(init=False)
    _stop_signals: int = 0
    _hung_up: bool = False
    _on_terminal: bool = False
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def __post_init__(self) -> None:
        folder = self.log_folder
        self.children = [Child(plan, folder / f"{plan.name}.log" if folder else None) for plan in self.plans]

    def run(self) -> int:
        """Start, watch, drain. Return the exit code: 0 after a drain, 1 if a worker was given up."""
        try:
            self._make_log_folder()
        except OSError as trouble:
            raise SettingsError(f"--logs {self.log_folder}: {trouble.strerror}.", hint="Name a folder.") from None
        self._require_logs()
        self._on_terminal = os.isatty(2)
        for stop in (signal.SIGTERM, signal.SIGINT):
            signal.signal(stop, self._on_signal)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
            signal.signal(signal.SIGHUP, self._on_hang_up)
        try:
            for child in self.children:
                child.start_at = time.monotonic()
            while not self._stop_signals and not self._is_over:
                self._watch()
            self._drain()
        finally:
            self._kill_all()
        given_up = [child for child in self.children if child.state == "given up"]
        if len(given_up) < len(self.children):  # else, that was the last thing said
            for child in given_up:
                why = child.trouble or f"see {child.log_path or 'above'}"
                self._tell(child, f"was given up; {why}")
        return 1 if given_up else 0

    @property
    def _is_over(self) -> bool:
        return all(child.state in {"stopped", "given up"} for child in self.children)

    def _on_signal(self, *_: Any) -> None:
        self._stop_signals += 1

    def _on_hang_up(self, *_: Any) -> None:
        """Drain. Both the shell and the kernel send it: the second one must not count as a second request."""
        self._hung_up, self._stop_signals = True, max(self._stop_signals, 1)

    def _leave_terminal(self) -> None:
        """Once the terminal is gone, have the output go to a file.

        Not in the signal's handler: that may run in the middle of a table.
        """
        if self._hung_up and self._on_terminal and self.log_folder:
            self._on_terminal = False
            with contextlib.suppress(OSError), (self.log_folder / "up.log").open("ab") as output:
                os.dup2(output.fileno(), 2)

    def _say(self, line: str) -> None:
        """Announce `line`. Where that fails, on a full disk for instance, the workers matter more than the words."""
        self._leave_terminal()
        with contextlib.suppress(OSError):
            self.announce(line)

    def _tell(self, child: Child, what: str) -> None:
        """Announce what became of `child`, named with its host: several hosts with a `gpu0` each may share a log."""
        self._say(f"{node_name(child.plan)}: {what}")

    def _show(self) -> None:
        self._leave_terminal()
        with contextlib.suppress(OSError):
            self.show(self.children)

    def _try_to_start(self, child: Child) -> None:
        """Start `child`. If the system lacks disk space, memory or file handles, try again after a pause."""
        try:
            self._start(child)
        except (OSError, subprocess.SubprocessError) as trouble:
            self._close_boot_reader(child)
            child.start_at = time.monotonic() + LONGEST_PAUSE_S
            self._tell(child, f"cannot be started: {trouble}; retrying in {LONGEST_PAUSE_S:g} s")

    def _make_log_folder(self) -> None:
        if self.log_folder:
            self.log_folder.mkdir(parents=True, exist_ok=True)

    def _require_logs(self) -> None:
        """Raise SettingsError for a log that will not become writable, such as that of another user of the checkout."""
        for child in self.children:
            try:
                with child.log():
                    pass
            except OSError as trouble:
                if trouble.errno in {errno.EACCES, errno.EROFS}:
                    hint = "Name a folder that you may write to: --logs FOLDER."
                    raise SettingsError(f"{child.log_path}: {trouble.strerror}.", hint=hint) from None

    def _start(self, child: Child) -> None:
        self._make_log_folder()  # somebody may have tidied up since the launcher began
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        node = node_name(child.plan)
        # GPUs are pinned here, before the child's Python imports anything.
        environment = {**os.environ, **child.plan.environment, variables.READY_FD: str(writer)}
        child.boot_reader = reader
        self._selector.register(reader, selectors.EVENT_READ, child)
        try:
            with child.log() as output:
                child.process = subprocess.Popen(
                    worker_command(node, child.plan.queue),
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=(writer, *self.inherited),
                    start_new_session=True,
                    preexec_fn=_prepare(child.plan),
                )
        finally:
            os.close(writer)
        child.state, child.started_at, child.ready_at, child.start_at = "booting", time.monotonic(), None, None
        child.booted, child.overdue, child.trouble = False, False, ""
        child.boots += 1
        log = f", log {child.log_path}" if child.log_path else ""
        self._tell(child, f"booting (pid {child.process.pid}, {child.plan.place}{log})")

    def _watch(self) -> None:
        """One iteration: handle children that are ready, exited, due to start, or taking too long to boot."""
        for key, _ in self._selector.select(timeout=POLL_S):
            self._on_report(key.data)
        now = time.monotonic()
        for child in self.children:
            if child.process is not None and child.process.poll() is not None:
                self._on_exit(child, child.process.returncode)
            elif child.start_at is not None and now >= child.start_at and not self._boots_beside(child):
                self._try_to_start(child)
            elif child.is_overdue(now):
                self._tell(child, f"not ready after {now - child.started_at:.0f} s, killed")
                child.overdue = True
                child.kill()
        self._start_again_where_wished()
        self._show()

    def _start_again_where_wished(self) -> None:
        given_up = {node_name(child.plan): child for child in self.children if child.state == "given up"}
        for name in self.wished(given_up.keys()):
            child = given_up[name]
            child.state, child.start_at, child.failures = "waiting", time.monotonic(), Failures()
            self._tell(child, "starting again as requested")

    def _boots_beside(self, child: Child) -> bool:
        """Whether an engine boots on one of its GPUs: vLLM would count memory that another one allocates as its own."""
        booting = {gpu for each in self.children if each.state == "booting" for gpu in each.plan.gpus}
        return not booting.isdisjoint(child.plan.gpus)

    def _on_report(self, child: Child) -> None:
        report = boot_pipe.read_report(child.boot_reader)
        if report.startswith(boot_pipe.BOOTED):
            child.booted = True
            report = report.removeprefix(boot_pipe.BOOTED)
            if not report:
                return  # the other one follows
        self._close_boot_reader(child)
        if report == boot_pipe.READY:
            child.state, child.ready_at, child.proven = "ready", time.monotonic(), True
            self._tell(child, f"ready after {child.ready_at - child.started_at:.1f} s")
        else:
            child.trouble = report.strip()

    def _on_exit(self, child: Child, exit_code: int) -> None:
        child.kill_rest()
        while child.boot_reader >= 0:
            self._on_report(child)  # it may have just been written
        child.process = None
        steady = child.ready_at is not None and time.monotonic() - child.ready_at > STEADY_S
        counted_as = EXIT_ENGINE if child.overdue else exit_code  # our own SIGKILL must not look like one from outside
        ended = Exit(counted_as, child.ready_at is not None, steady, child.proven)
        decision = after_exit(ended, child.failures)
        child.failures = decision.failures
        if decision.action == "stop":
            child.state = "stopped"
            self._tell(child, "stopped as requested")
            return
        if exit_code == EXIT_RESTART:
            child.state, child.start_at = "waiting", time.monotonic()
            self._tell(child, "stopped as requested, to be started again")
            return
        explained = child.trouble and needs_a_fix(ended)
        why = child.trouble if explained else child.last_words()
        self._tell(child, f"ended with {_meaning(exit_code)}; {why}")
        if decision.action == "give up":
            child.state = "given up"
            again = "run this command again" if self._is_over else f"python -m workers restart {node_name(child.plan)}"
            self._tell(child, f"given up; fix the error, then: {again}")
        else:
            child.state, child.start_at = "waiting", time.monotonic() + decision.pause_s
            self._tell(child, f"restarting in {decision.pause_s:g} s")

    def _drain(self) -> None:
        """Wait for running batches until a second signal, or until `drain_timeout_s` has certainly passed."""
        if self._hung_up:
            self._say("the terminal was closed (SIGHUP); in tmux, with nohup or as a systemd unit, workers would go on")
        living = [child for child in self.children if child.process is not None]
        if not living:
            return
        whose = f"{number(len(living), 'worker')} of {socket.gethostname()}"
        self._say(f"draining {whose}; a second Ctrl-C or SIGTERM kills them")
        for child in living:
            child.state = "draining"
            if child.process is not None:
                child.process.terminate()
        longest_s = max(child.plan.drain_timeout_s for child in living) + BREAK_OFF_S
        asked, until = self._stop_signals, time.monotonic() + longest_s
        while living := [child for child in living if not self._has_ended(child)]:
            if self._stop_signals > asked or time.monotonic() > until:
                self._say("not waiting any longer")
                return
            self._show()
            time.sleep(POLL_S)

    def _has_ended(self, child: Child) -> bool:
        """Whether it has ended; if so, kill the rest of its process group before the group id can be reused."""
        if child.process is None:
            return True
        if (code := child.process.poll()) is None:
            return False
        child.kill_rest()
        self._tell(child, f"ended with {_meaning(code)}" if code else "stopped")
        child.process, child.state = None, "stopped"
        return True

    def _kill_all(self) -> None:
        for child in self.children:
            child.kill()
        until = time.monotonic() + KILLED_WITHIN_S
        for child in self.children:
            if child.process is not None:
                try:
                    child.process.wait(until - time.monotonic())
                except subprocess.TimeoutExpired:
                    self._tell(child, f"process {child.process.pid} has not died yet: a driver may hold it")
                child.process, child.state = None, "killed"
            self._close_boot_reader(child)

    def _close_boot_reader(self, child: Child) -> None:
        if child.boot_reader >= 0:
            self._selector.unregister(child.boot_reader)
            os.close(child.boot_reader)
            child.boot_reader = -1


def _prepare(plan: WorkerPlan) -> Callable[[], None]:
    """Return the `preexec_fn` of a child: make it die with the launcher, and bind it to its cores."""
    follow = follower()

    def prepare() -> None:
        follow()
        bind(plan.cores)

    return prepare


def _meaning(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code}"
    if exit_code == -signal.SIGBUS:
        return (
            "signal SIGBUS: a file that it had mapped was cut short, as by copying an index or a model over the one in "
            "use (copy it next to that, and rename it), or /dev/shm is full"
        )
    known = {each.value: each.name for each in signal.Signals}
    return f"signal {known.get(-exit_code, -exit_code)}"
