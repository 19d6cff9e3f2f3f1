"""What a worker tells its launcher about its boot: by a pipe, that its engine has booted, and then, once and in one
line, that it is ready, or why it failed; and by its exit code, whether another boot makes sense."""

from __future__ import annotations

import os
from contextlib import suppress

from contract import variables
from contract.errors import (
    EXIT_ENGINE,
    EXIT_RETRY,
    EXIT_UNBOOTABLE,
    EngineUnbootable,
    HubUnreachable,
    InputError,
    LedgerError,
    McqueueError,
)

__all__ = ["BOOTED", "READY", "exit_code", "is_launched", "read_report", "report"]

#: Its engine has booted, or its index is loaded. All that can keep it waiting now is Redis, for however long.
BOOTED = "booted\n"
READY = "ready"
#: Small enough to be written and read in one call.
LONGEST_BYTES = 4096


def is_launched() -> bool:
    """Whether a launcher supervises this process and restarts it."""
    return variables.READY_FD in os.environ


def report(line: str) -> None:
    """Report BOOTED, READY, or why the boot failed. Ignored if there is no launcher, or no longer."""
    if is_launched():
        with suppress(OSError):
            os.write(int(os.environ[variables.READY_FD]), line.encode(errors="backslashreplace")[:LONGEST_BYTES])


def read_report(reader: int) -> str:
    """Return what the worker has reported since; empty if that is nothing, or it ended without another report."""
    with suppress(BlockingIOError):
        return os.read(reader, 2 * LONGEST_BYTES).decode(errors="replace")
    return ""


def exit_code(trouble: McqueueError) -> int:
    """Return the exit code that tells the launcher to give up, retry later, or retry a few times.

    A hub that does not answer, though an InputError to a user, is nothing that has to be fixed in the settings; a Redis
    that refuses the password is.
    """
    if trouble.retryable:
        return EXIT_RETRY
    if isinstance(trouble, EngineUnbootable):
        return EXIT_UNBOOTABLE
    wrong = isinstance(trouble, InputError | LedgerError) and not isinstance(trouble, HubUnreachable)
    return 1 if wrong else EXIT_ENGINE
