"""One child process per planned worker: started, watched, restarted with growing pauses, drained, never left behind.

Decisions are pure (`after_exit`, `placing.plan_host`); the Supervisor only carries them out. Each child leads a process
group of its own, so that what it left can be ended with it. Where nobody is left to do that, `workers.parent` sees
to it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from contract.errors import EXIT_ENGINE, EXIT_RETRY, EXIT_UNBOOTABLE, SettingsError
from workers.host import boot_pipe
from workers.host.placement import WorkerPlan
from workers.parent import follower

__all__ = ["Child", "Supervisor", "after_exit", "bind", "node_name", "worker_command"]

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
#: Of a child that was ready: questions wait for it, and one that it dies of is only convicted after some deaths.
LONGEST_PAUSE_AFTER_READY_S = 4.0
#: A child that was ready for so long starts from the first pause again.
STEADY_S = 60.0
#: Boots in a row that failed by themselves before the launcher gives the group up.
GIVE_UP_AFTER = 5
#: A boot that ends by one of these was ended from outside; the kernel's out-of-memory killer is taken for such.
FROM_OUTSIDE = frozenset({-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGQUIT})
POLL_S = 0.2
TAIL_LINES = 20
#: A line that may name the cause: vLLM's core process writes it above its tracebacks and the state of its scheduler.
ERROR = re.compile(r"[\w.]*(?:Error|Exception): .+")
ERRORS = 5
LOOK_BACK_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class After:
    """What follows a child's exit."""

    action: Literal["restart", "stop", "give up"]
    pause_s: float = 0.0


def boot_failed(exit_code: int, was_ready: bool) -> bool:
    """Whether the child could not boot, and nobody killed it or told it to come again later."""
    return not was_ready and exit_code != EXIT_RETRY and exit_code not in FROM_OUTSIDE


def is_a_persons(exit_code: int, was_ready: bool, proven: bool) -> bool:
    """Whether a boot failed of what a person must mend. One that was `proven` to succeed may do so again: other
    programs on its GPU decide what of its memory is free."""
    return not was_ready and (exit_code == 1 or (exit_code == EXIT_UNBOOTABLE and not proven))


def after_exit(
    exit_code: int, was_ready: bool, steady: bool, failures: int, failed_boots: int = 0, proven: bool = False
) -> After:
    """What to do about a child that ended; `failures` and `failed_boots` are the earlier ones in a row.

    Exit 0 was asked for (a drain by name): leave it. A boot that is a person's to mend: give up. Everything else is
    tried again after 1, 2, 4 … 30 s, at most 4 s where it was ready: a child that was killed or says "not now" for
    ever, a boot that fails by itself five times.
    """
    if exit_code == 0:
        return After("stop")
    if is_a_persons(exit_code, was_ready, proven):
        return After("give up")
    if boot_failed(exit_code, was_ready) and failed_boots + 1 >= GIVE_UP_AFTER:
        return After("give up")
    longest_s = LONGEST_PAUSE_AFTER_READY_S if was_ready else LONGEST_PAUSE_S
    growing_s = FIRST_PAUSE_S * 2.0 ** min(failures, 10)  # 2**1024 would be no float any more
    return After("restart", FIRST_PAUSE_S if steady else min(growing_s, longest_s))


def bind(cores: Sequence[int]) -> None:
    """Keep this process and what it starts on `cores`, if there are any and the system can."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def node_name(plan: WorkerPlan) -> str:
    """Celery's name of the worker: the plan's, on this host."""
    return f"{plan.name}@{socket.gethostname()}"


def worker_command(node_name: str, concurrency: int, queue: str = "") -> list[str]:
    """The worker as one would start it by hand."""
    celery = [sys.executable, "-m", "celery", "-q", "-A", "workers.app", "worker", "--pool", "threads"]
    served = ["-Q", queue] if queue else []
    return [*celery, "-c", str(concurrency), "-n", node_name, *served, "--without-gossip", "--without-mingle"]


@dataclass
class Child:
    """A worker process and what the launcher knows of it."""

    plan: WorkerPlan
    log_path: Path
    #: Where this boot's part of the log begins, after what earlier ones and other launchers left.
    log_begins: int = 0
    process: subprocess.Popen[bytes] | None = None
    ready_channel: int = -1
    ready_at: float | None = None
    started_at: float = 0.0
    failures: int = 0
    failed_boots: int = 0
    overdue: bool = False
    #: It was ready once.
    proven: bool = False
    #: What it told of its last boot, if that failed.
    trouble: str = ""
    #: When it is to be started; None: not at all, or it is.
    start_at: float | None = None
    boots: int = 0
    state: Literal["waiting", "booting", "ready", "draining", "stopped", "killed", "given up"] = "waiting"

    def last_lines(self) -> str:
        """The end of its log, to show what it died of, below the last errors that stand further up."""
        try:
            with self.log_path.open("rb") as log_file:
                log_file.seek(max(self.log_begins, log_file.seek(0, os.SEEK_END) - LOOK_BACK_BYTES))
                lines = log_file.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        tail = "\n".join(f"    {line}" for line in lines[-TAIL_LINES:])
        errors = dict.fromkeys(found[0] for line in reversed(lines[:-TAIL_LINES]) if (found := ERROR.search(line)))
        above = [f"    … {error}\n" for error in errors if error not in tail][:ERRORS]
        return "".join(reversed(above)) + tail


@dataclass
class Supervisor:
    """Runs one child per plan until told to stop. `run` is the whole life."""

    plans: Sequence[WorkerPlan]
    log_folder: Path
    announce: Callable[[str], None]
    #: Called at every look.
    show: Callable[[], None] = lambda: None
    children: list[Child] = field(init=False)
    _stop_signals: int = 0
    _hung_up: bool = False
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def __post_init__(self) -> None:
        self.children = [Child(plan, self.log_folder / f"{plan.name}.log") for plan in self.plans]

    def run(self) -> int:
        """Start, watch, drain. Returns the exit code: 0 after a drain, 1 if a group was given up."""
        try:
            self.log_folder.mkdir(parents=True, exist_ok=True)
        except OSError as trouble:
            raise SettingsError(f"--logs {self.log_folder}: {trouble.strerror}.", hint="Name a folder.") from None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
            signal.signal(signal.SIGHUP, partial(self._on_hang_up, os.isatty(2)))
        try:
            for child in self.children:
                child.start_at = time.monotonic()
            while not self._stop_signals and any(child.state not in {"stopped", "given up"} for child in self.children):
                self._watch()
            self._drain()
        finally:
            self._kill_all()
        given_up = [child for child in self.children if child.state == "given up"]
        for child in given_up if len(given_up) < len(self.children) else []:  # of others it was the last word
            self._say(f"{child.plan.name}: was given up; {child.trouble or f'see {child.log_path}'}")
        return 1 if given_up else 0

    def _on_signal(self, *_: Any) -> None:
        self._stop_signals += 1

    def _on_hang_up(self, on_terminal: bool, *_: Any) -> None:
        """Drain, once, though shell and kernel both tell it. What is said then goes to a file: the terminal is gone."""
        if on_terminal and not self._hung_up:
            with contextlib.suppress(OSError), (self.log_folder / "up.log").open("ab") as output:
                os.dup2(output.fileno(), 2)
        self._hung_up, self._stop_signals = True, max(self._stop_signals, 1)

    def _say(self, line: str) -> None:
        """Announce `line`. Where that fails, on a full disk for instance, the workers matter more than the words."""
        with contextlib.suppress(OSError):
            self.announce(line)

    def _show(self) -> None:
        with contextlib.suppress(OSError):
            self.show()

    def _try_to_start(self, child: Child) -> None:
        """Start `child`; where the system cannot now (no room, memory or file handles), again after a pause."""
        try:
            self._start(child)
        except (OSError, subprocess.SubprocessError) as trouble:
            self._close_channel(child)
            child.start_at = time.monotonic() + LONGEST_PAUSE_S
            self._say(f"{child.plan.name}: cannot be started: {trouble}; tried again in {LONGEST_PAUSE_S:g} s")

    def _start(self, child: Child) -> None:
        self.log_folder.mkdir(parents=True, exist_ok=True)  # somebody may have tidied up since the launcher began
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        node = node_name(child.plan)
        # GPUs are pinned here, before the child's Python imports anything.
        environment = {**os.environ, **child.plan.environment, boot_pipe.VARIABLE: str(writer)}
        child.ready_channel = reader
        self._selector.register(reader, selectors.EVENT_READ, child)
        try:
            with child.log_path.open("ab") as output:
                child.log_begins = output.tell()
                child.process = subprocess.Popen(
                    worker_command(node, child.plan.concurrency, child.plan.queue),
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=(writer,),
                    start_new_session=True,
                    preexec_fn=_prepare(child.plan),
                )
        finally:
            os.close(writer)
        child.state, child.started_at, child.ready_at, child.start_at = "booting", time.monotonic(), None, None
        child.overdue, child.trouble = False, ""
        child.boots += 1
        self._say(f"{node}: booting (pid {child.process.pid}, {child.plan.place}, log {child.log_path})")

    def _watch(self) -> None:
        """One look: who got ready, who ended, whose pause is over, who takes too long to boot."""
        for key, _ in self._selector.select(timeout=POLL_S):
            self._on_word(key.data)
        now = time.monotonic()
        for child in self.children:
            if child.process is not None and child.process.poll() is not None:
                self._on_exit(child, child.process.returncode)
            elif child.start_at is not None and now >= child.start_at and not self._boots_beside(child):
                self._try_to_start(child)
            elif child.state == "booting" and now - child.started_at > child.plan.startup_timeout_s + 30:
                self._say(f"{child.plan.name}: not up after {now - child.started_at:.0f} s, killed")
                child.overdue = True
                self._kill(child)
        self._show()

    def _boots_beside(self, child: Child) -> bool:
        """Whether a GPU of this child's is measured now: vLLM takes what another engine fills meanwhile for its own."""
        booting = {gpu for each in self.children if each.state == "booting" for gpu in each.plan.gpus}
        return not booting.isdisjoint(child.plan.gpus)

    def _on_word(self, child: Child) -> None:
        told = boot_pipe.hear(child.ready_channel)
        self._close_channel(child)
        if told == boot_pipe.READY:
            child.state, child.ready_at, child.proven = "ready", time.monotonic(), True
            self._say(f"{child.plan.name}: ready after {child.ready_at - child.started_at:.1f} s")
        else:
            child.trouble = told

    def _on_exit(self, child: Child, exit_code: int) -> None:
        self._kill(child)  # what it left of its process group
        if child.ready_channel >= 0:
            self._on_word(child)  # it may have told only now
        child.process = None
        was_ready = child.ready_at is not None
        steady = child.ready_at is not None and time.monotonic() - child.ready_at > STEADY_S
        verdict = EXIT_ENGINE if child.overdue else exit_code  # our own SIGKILL came from no outside
        decision = after_exit(verdict, was_ready, steady, child.failures, child.failed_boots, child.proven)
        child.failures = 0 if steady else child.failures + 1
        child.failed_boots = child.failed_boots + 1 if boot_failed(verdict, was_ready) else 0
        if decision.action == "stop":
            child.state = "stopped"
            self._say(f"{child.plan.name}: ended as asked")
            return
        explained = child.trouble and is_a_persons(verdict, was_ready, child.proven)
        why = child.trouble if explained else f"its last lines:\n{child.last_lines()}"
        self._say(f"{child.plan.name}: ended with {_meaning(exit_code)}; {why}")
        if decision.action == "give up":
            child.state = "given up"
            again = f"this command again, in another terminal, with --only {child.plan.name}"
            self._say(f"{child.plan.name}: given up; mend what its log says, then start it alone: {again}")
        else:
            child.state, child.start_at = "waiting", time.monotonic() + decision.pause_s
            self._say(f"{child.plan.name}: starts again in {decision.pause_s:g} s")

    def _drain(self) -> None:
        """Let running batches end; a second signal, or `drain_timeout_s`, ends the patience."""
        if self._hung_up:
            self._say("the terminal is gone (SIGHUP); in tmux, with nohup or as a unit, workers outlive it")
        living = [child for child in self.children if child.process is not None]
        if not living:
            return
        many = "1 worker" if len(living) == 1 else f"{len(living)} workers"
        self._say(f"draining {many}; a second Ctrl-C or SIGTERM ends them at once")
        for child in living:
            child.state = "draining"
            if child.process is not None:
                child.process.terminate()
        asked, until = self._stop_signals, time.monotonic() + max(child.plan.drain_timeout_s for child in living)
        while living := [child for child in living if not self._has_ended(child)]:
            if self._stop_signals > asked or time.monotonic() > until:
                self._say("not waiting any longer")
                return
            self._show()
            time.sleep(POLL_S)

    def _has_ended(self, child: Child) -> bool:
        """Whether it has; if so, what it left of its process group ends now, while the group's number is its own."""
        if child.process is None or child.process.poll() is None:
            return child.process is None
        self._kill(child)
        child.process, child.state = None, "stopped"
        return True

    def _kill_all(self) -> None:
        for child in self.children:
            if child.process is not None:
                self._kill(child)
                child.process.wait()
                child.process, child.state = None, "killed"
            self._close_channel(child)

    def _kill(self, child: Child) -> None:
        if child.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.process.pid, signal.SIGKILL)

    def _close_channel(self, child: Child) -> None:
        if child.ready_channel >= 0:
            self._selector.unregister(child.ready_channel)
            os.close(child.ready_channel)
            child.ready_channel = -1


def _prepare(plan: WorkerPlan) -> Callable[[], None]:
    """In the child, before exec: it follows the launcher into death, and is bound to its cores."""
    follow = follower()

    def prepare() -> None:
        follow()
        bind(plan.cores)

    return prepare


def _meaning(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code}"
    known = {each.value: each.name for each in signal.Signals}
    return f"signal {known.get(-exit_code, -exit_code)}"
