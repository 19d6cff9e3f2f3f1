"""What follows the exit of a launcher's worker: it is started again, left alone, or given up. Pure."""

from __future__ import annotations

import signal
from typing import Literal, NamedTuple

from contract.errors import EXIT_RESTART, EXIT_RETRY, EXIT_UNBOOTABLE
from workers.retries import pause_s

__all__ = [
    "GIVE_UP_AFTER",
    "LONGEST_PAUSE_S",
    "STEADY_S",
    "Decision",
    "Exit",
    "Failures",
    "after_exit",
    "needs_a_fix",
]

LONGEST_PAUSE_S = 30.0
#: Shorter for a child that was ready: questions wait for it, and one that kills it is identified only after several
#: deaths.
LONGEST_PAUSE_AFTER_READY_S = 4.0
#: A child that was ready for this long restarts with the first pause again.
STEADY_S = 60.0
#: Consecutive failed boots before the launcher gives up on a worker.
GIVE_UP_AFTER = 5
#: A boot that ends by one of these signals was killed from outside; the kernel's OOM killer counts as such.
FROM_OUTSIDE = frozenset({-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGQUIT})


class Exit(NamedTuple):
    """How a worker ended, and how far it had come."""

    code: int
    #: Whether it had been ready.
    was_ready: bool
    #: Whether it had been ready for `STEADY_S`.
    steady: bool = False
    #: Whether this launcher has seen it ready in any boot. It may then boot again: how much GPU memory is free depends
    #: on other programs, and a file may be replaced right now.
    proven: bool = False


class Failures(NamedTuple):
    """How often in a row a worker has ended before it was steady, and how often its boot has failed."""

    exits: int = 0
    boots: int = 0


class Decision(NamedTuple):
    """What to do after a child's exit."""

    action: Literal["restart", "stop", "give up"]
    pause_s: float = 0.0
    #: The failures so far, this one included; none after an end that was asked for.
    failures: Failures = Failures()


def needs_a_fix(ended: Exit) -> bool:
    """Whether a boot failed for a reason that the user must fix."""
    return not ended.was_ready and not ended.proven and ended.code in {1, EXIT_UNBOOTABLE}


def after_exit(ended: Exit, before: Failures) -> Decision:
    """Decide what follows; `before` are the failures without this one.

    Exit code 0 was requested (a drain by name): stop. So was EXIT_RESTART: restart at once. A boot failure that the
    user must fix: give up. Everything else is restarted after 1, 2, 4 … 30 s, at most 4 s if it was ready: forever if
    it was killed or exited with EXIT_RETRY, five times if its boot fails by itself.
    """
    if ended.code == 0:
        return Decision("stop")
    if ended.code == EXIT_RESTART:
        return Decision("restart")
    boot_failed = not ended.was_ready and ended.code not in {EXIT_RETRY, *FROM_OUTSIDE}
    failures = Failures(0 if ended.steady else before.exits + 1, before.boots + 1 if boot_failed else 0)
    if needs_a_fix(ended) or failures.boots >= GIVE_UP_AFTER:
        return Decision("give up", failures=failures)
    longest_s = LONGEST_PAUSE_AFTER_READY_S if ended.was_ready else LONGEST_PAUSE_S
    return Decision("restart", pause_s(max(1, failures.exits), longest_s), failures)
