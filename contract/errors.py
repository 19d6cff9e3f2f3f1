"""Every error that a person or a worker is meant to understand, in one tree.

    McqueueError
    ├── InputError              what a person handed in: exit 1, nothing was changed
    │   ├── QuestionFileError       a question file, with file, line and field
    │   ├── SettingsError           configs/deploy/*.yaml, --set, environment
    │   ├── RunConfigError          configs/runs/*.yaml
    │   ├── ModelNotFound           no such folder, package or hub id
    │   │   └── HubUnreachable          nobody can say now whether there is
    │   ├── PlanError               GPU groups that cannot be
    │   ├── IndexUnusable           an index that is missing, damaged, or made with something else
    │   └── NameTaken               retryable: a worker's name is another living worker's
    ├── LedgerError             the truth cannot be read or written
    │   ├── RedisUnreachable        retryable
    │   ├── WritesRefused           retryable: Redis is full, its disk is, or it is no primary
    │   ├── UnknownRun
    │   ├── RunHalted               paused or cancelled: nothing of it is begun
    │   └── RunConflict             one run id, two different contents
    ├── UnreadableRun           written by a version of mcqueue that this one does not understand
    ├── WorkerStays             a worker did not end, or did not come back, in its time
    ├── NoWorker                retryable: nobody serves what somebody waits for
    ├── TooBusy                 retryable: more is waited for already than may be
    ├── DeadlineMissed          retryable: the verdicts were not there in time
    └── EngineError             the model could not answer
        ├── RequestRejected         this one request, e.g. longer than the model's context
        ├── EngineOutOfMemory       retryable with fewer requests
        ├── EngineDead              retryable on a fresh engine
        └── EngineUnbootable        no boot can succeed with this model and these arguments

Each carries a `hint`, what to do about it. `retryable` says whether trying the same thing again can help.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar

__all__ = [
    "EXIT_ENGINE",
    "EXIT_RETRY",
    "EXIT_UNBOOTABLE",
    "DeadlineMissed",
    "EngineDead",
    "EngineError",
    "EngineOutOfMemory",
    "EngineUnbootable",
    "HubUnreachable",
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
    "WorkerStays",
    "WritesRefused",
    "first_line",
    "nearest",
]


#: Exit code of a process that could not go on now but may later (EX_TEMPFAIL of sysexits.h): start it again.
EXIT_RETRY = 75
#: Exit code of a worker whose engine did not boot (EX_SOFTWARE): start it again, but not for ever.
EXIT_ENGINE = 70
#: Exit code of a worker whose engine cannot boot as it is configured (EX_CONFIG): mend that first.
EXIT_UNBOOTABLE = 78


class McqueueError(Exception):
    """Base of all expected errors: one message, one remedy, no traceback."""

    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class InputError(McqueueError):
    """What a person handed in is wrong; nothing was changed."""


class QuestionFileError(InputError):
    """A question file, or one row of it, cannot be understood."""

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
        #: What troubles of this sort are counted as, without the values that this one names.
        self.kind = kind or message.rstrip(".")

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line is not None else self.path
        field = f" field {self.field!r}:" if self.field else ""
        return f"{place}:{field} {super().__str__()}"


class SettingsError(InputError):
    """A setting is unknown or has an impossible value."""


class RunConfigError(InputError):
    """A run configuration is unknown or has an impossible value."""


class ModelNotFound(InputError):
    """The model's name is neither a folder, nor a packaged model, nor reachable on a hub."""


class HubUnreachable(ModelNotFound):
    """The model is not here, and the hub gives no answer now."""


class PlanError(InputError):
    """The wanted GPU groups do not fit the GPUs that are there."""


class IndexUnusable(InputError):
    """An index is missing, damaged, or not what was asked for. `path` is the folder or the file in it."""

    def __init__(self, message: str, *, path: Path | str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.path = str(path)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}. {self.hint}"


class NameTaken(InputError):
    """Another living worker has this name."""

    retryable = True


class LedgerError(McqueueError):
    """The ledger cannot be read or written."""


class RedisUnreachable(LedgerError):
    """No answer from Redis."""

    retryable = True


class WritesRefused(LedgerError):
    """Redis answers and takes no writes: it is full, say, or its disk is. Once that is mended, it does again."""

    retryable = True


class UnknownRun(LedgerError):
    """No run of that name is in the ledger."""


class RunHalted(LedgerError):
    """The run is paused or cancelled; `state` says which."""

    def __init__(self, message: str, *, state: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.state = state


class RunConflict(LedgerError):
    """The run id is taken by something else."""


class UnreadableRun(McqueueError):
    """The run was written by a version of mcqueue that this one does not understand: no trouble with the ledger."""


class WorkerStays(McqueueError):
    """A worker that was asked to end is still there, or one that was to come back did not."""


class NoWorker(McqueueError):
    """Nobody serves the model that somebody waits for."""

    retryable = True


class TooBusy(McqueueError):
    """More is waited for already than may be."""

    retryable = True


class DeadlineMissed(McqueueError):
    """The verdicts were not there in time."""

    retryable = True


class EngineError(McqueueError):
    """The engine failed to answer a call."""


class RequestRejected(EngineError):
    """The engine refuses this request for what it is; the others of its call are not touched."""


class EngineOutOfMemory(EngineError):
    """The call did not fit into memory."""

    retryable = True


class EngineDead(EngineError):
    """The engine is gone; only a fresh process can answer."""

    retryable = True


class EngineUnbootable(EngineError):
    """The engine does not boot, and would not at another time: this model cannot be had with these arguments."""


def first_line(trouble: BaseException) -> str:
    """The first line of what it says, without its full stop; its kind where it says nothing."""
    lines = str(trouble).strip().splitlines()
    return lines[0].rstrip(". ") if lines else type(trouble).__name__


def nearest(word: str, known: Mapping[str, object] | list[str]) -> str:
    """`Did you mean 'x'?` for the known word nearest to `word`, or an empty string."""
    found = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"Did you mean {found[0]!r}?" if found else ""
