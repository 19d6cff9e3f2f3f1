"""All errors that a user or a worker is expected to handle, as one hierarchy.

    McqueueError
    ├── InputError              the user's input is wrong: exit 1, nothing was changed
    │   ├── QuestionFileError       a question file, with file, line and field
    │   ├── SettingsError           configs/deploy/*.yaml, --set, environment
    │   ├── RunConfigError          configs/runs/*.yaml
    │   ├── ModelNotFound           no such folder, package or hub id
    │   │   └── HubUnreachable          unknown: the hub cannot be asked right now
    │   ├── PlanError               impossible GPU groups
    │   ├── IndexUnusable           an index that is missing, damaged, or built differently
    │   │   └── IndexUnreadable         unknown: its manifest cannot be read right now
    │   └── NameTaken               retryable: another live worker has the name
    ├── LedgerError             the ledger cannot be read or written
    │   ├── RedisUnreachable        retryable
    │   ├── WritesRefused           retryable: Redis or its disk is full, or it is not a primary
    │   ├── UnknownRun
    │   ├── RunHalted               paused or cancelled: none of its questions are started
    │   └── RunConflict             one run id, two different specs
    ├── UnreadableRun           written by a version of mcqueue that this one cannot read
    ├── WorkerStays             a worker did not stop, or did not restart, in time
    ├── NoWorker                retryable: no worker serves the requested model
    ├── TooBusy                 retryable: too many questions are waiting already
    ├── DeadlineMissed          retryable: the verdicts did not arrive in time
    └── EngineError             the engine could not answer
        ├── RequestRejected         this one request, e.g. longer than the model's context
        ├── EngineOutOfMemory       retryable with fewer requests
        ├── EngineDead              retryable on a fresh engine
        │   └── WaitEnded               retryable: the worker stopped while its engine waited for a server
        └── EngineUnbootable        cannot boot with this model and these arguments

Each carries a `hint` on what to do about it. `retryable` says whether trying the same thing again can help.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar

__all__ = [
    "EXIT_ENGINE",
    "EXIT_RESTART",
    "EXIT_RETRY",
    "EXIT_UNBOOTABLE",
    "DeadlineMissed",
    "EngineDead",
    "EngineError",
    "EngineOutOfMemory",
    "EngineUnbootable",
    "HubUnreachable",
    "IndexUnreadable",
    "IndexUnusable",
    "InputError",
    "LedgerError",
    "McqueueError",
    "ModelNotFound",
    "NameTaken",
    "NoWorker",
    "PlanError",
    "QuestionFileError",
    "RedisUnreachable",
    "RequestRejected",
    "RunConfigError",
    "RunConflict",
    "RunHalted",
    "SettingsError",
    "TooBusy",
    "UnknownRun",
    "UnreadableRun",
    "WaitEnded",
    "WorkerStays",
    "WritesRefused",
    "closest",
    "first_line",
    "nearest",
]


#: Exit code of a process with a temporary failure (EX_TEMPFAIL of sysexits.h): restart it.
EXIT_RETRY = 75
#: Exit code of a worker that was asked to restart: start it at once.
EXIT_RESTART = 76
#: Exit code of a worker whose engine did not boot (EX_SOFTWARE): restart it a limited number of times.
EXIT_ENGINE = 70
#: Exit code of a worker whose engine cannot boot as configured (EX_CONFIG): fix the configuration first.
EXIT_UNBOOTABLE = 78


class McqueueError(Exception):
    """Base class of all expected errors: a message and a remedy, shown without a traceback."""

    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def said(self) -> str:
        """The message with the place that it is about, without the remedy."""
        return self.message

    def __str__(self) -> str:
        return f"{self.said} {self.hint}".strip()


class InputError(McqueueError):
    """The user's input is wrong; nothing was changed."""


class QuestionFileError(InputError):
    """A question file, or one row of it, cannot be read."""

    def __init__(
        self,
        message: str,
        *,
        path: Path | str,
        line: int | None = None,
        field: str | None = None,
        hint: str = "",
        kind: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = str(path)
        self.line = line
        self.field = field
        #: Key under which errors of this kind are counted: the message without its specific values.
        self.kind = kind or message.rstrip(".")

    @property
    def said(self) -> str:
        place = f"{self.path}:{self.line}" if self.line is not None else self.path
        field = f" field {self.field!r}:" if self.field else ""
        return f"{place}:{field} {self.message}"


class SettingsError(InputError):
    """A setting is unknown or has an invalid value."""


class RunConfigError(InputError):
    """A run option is unknown or has an invalid value."""


class ModelNotFound(InputError):
    """The model's name is not a folder, a packaged model, or available on the hub."""


class HubUnreachable(ModelNotFound):
    """The model is not available locally, and the hub does not answer right now."""


class PlanError(InputError):
    """The requested GPU groups do not fit the available GPUs."""


class IndexUnusable(InputError):
    """An index is missing, damaged, or not the requested one. `path` is its folder, or the affected file."""

    def __init__(self, message: str, *, path: Path | str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.path = str(path)

    @property
    def said(self) -> str:
        return f"{self.path}: {self.message}."


class IndexUnreadable(IndexUnusable):
    """The system does not let an index's manifest be read, so nobody knows which index it is, or whether it is one."""


class NameTaken(InputError):
    """Another live worker has this name."""

    retryable = True


class LedgerError(McqueueError):
    """The ledger cannot be read or written."""


class RedisUnreachable(LedgerError):
    """Redis does not answer."""

    retryable = True


class WritesRefused(LedgerError):
    """Redis answers but refuses writes, for instance because it or its disk is full. Writes work again once fixed."""

    retryable = True


class UnknownRun(LedgerError):
    """The ledger has no run of that name."""


class RunHalted(LedgerError):
    """The run is paused or cancelled; `state` says which."""

    def __init__(self, message: str, *, state: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.state = state


class RunConflict(LedgerError):
    """The run id already belongs to a different spec."""


class UnreadableRun(McqueueError):
    """The run, or a part of it, was written by a version of mcqueue that this one cannot read. The ledger is fine."""


class WorkerStays(McqueueError):
    """A worker that was asked to stop is still running, or one that was to restart did not."""


class NoWorker(McqueueError):
    """No worker serves the requested model."""

    retryable = True


class TooBusy(McqueueError):
    """The limit on waiting questions is reached."""

    retryable = True


class DeadlineMissed(McqueueError):
    """The verdicts did not arrive in time."""

    retryable = True


class EngineError(McqueueError):
    """The engine failed to answer a call."""


class RequestRejected(EngineError):
    """The engine rejects this particular request; the others of the same call are not affected."""


class EngineOutOfMemory(EngineError):
    """The call did not fit into memory, or with `shared` the calls that ran together did not; all raise this object."""

    retryable = True

    def __init__(self, message: str, *, shared: bool = False) -> None:
        super().__init__(message)
        self.shared = shared


class EngineDead(EngineError):
    """The engine is dead; only a new process can answer."""

    retryable = True


class WaitEnded(EngineDead):
    """The worker stopped while its engine waited for a server. It says nothing about the questions that were asked."""


class EngineUnbootable(EngineError):
    """The engine can never boot with this model and these arguments."""


def first_line(trouble: BaseException) -> str:
    """Return the first line of the message without its full stop; the exception's class name if it has none."""
    lines = str(trouble).strip().splitlines()
    return lines[0].rstrip(". ") if lines else type(trouble).__name__


def nearest(word: str, known: Mapping[str, object] | list[str]) -> str:
    """Return `Did you mean 'x'?` for the known word closest to `word`, or an empty string."""
    found = closest(word, known)
    return f"Did you mean {found!r}?" if found else ""


def closest(word: str, known: Mapping[str, object] | list[str]) -> str:
    """Return the known word closest to `word`, or an empty string."""
    return next(iter(get_close_matches(word, list(known), n=1, cutoff=0.6)), "")
