"""Diagnosis of a failed vLLM boot: its cause, and whether a retry can succeed.

When its core process fails, vLLM only says that the "root cause" is "above", in the log. So every vLLM process reports
its failure to the worker through a file named in the environment: see `tell_worker`, called by the plugin that
vLLM loads in each of them.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from pydantic import ValidationError

from contract import variables
from contract.errors import EngineError, first_line
from contract.explain import first_mistake
from workers.engines import vllm_folder

__all__ = ["Cause", "cause_of", "failure_reports", "tell_worker"]

#: Loggers that log the exception when a vLLM process cannot start or fails during its part of the boot.
FAILING = ("vllm.v1.engine.core", "vllm.v1.executor.multiproc_executor")
#: Modules that only look at the model, the arguments and the kind of GPU, none of which differs at the next boot.
#: Other modules fail on memory still held by another process (`vllm.v1.worker`), ports, NCCL or compile caches.
JUDGES = (
    "pydantic.",
    "transformers.dynamic_module_utils.",
    "transformers.models.auto.",
    "vllm.config.",
    "vllm.engine.arg_utils",
    "vllm.lora.",
    "vllm.model_executor.",
    "vllm.platforms.",
    "vllm.v1.attention.",
    "vllm.v1.core.",
)
#: What they raise on lasting problems. Not RuntimeError: it may come from CUDA.
JUDGEMENTS = (AssertionError, AttributeError, ImportError, LookupError, NotImplementedError, TypeError, ValueError)
#: An error caused by one of these may be temporary, such as an unreachable hub.
PASSING = (OSError, MemoryError)
#: So may one of these packages: the hub's client, and the clients that it has been built on.
NETWORK = frozenset({"huggingface_hub", "httpx", "httpcore", "httpx2", "httpcore2", "requests"})
#: vLLM's message for a folder without weights; truncated or invalid files are reported by safetensors.
NO_WEIGHTS = re.compile("Cannot find any model weights with `(.+)`")
#: Messages that do not tell the cause. vLLM inspects a model's class in a separate process and does not say why that
#: died; and if the hub is unreachable, it takes whatever is in the hub's cache for the whole model.
UNEXPLAINED = re.compile("failed to be inspected|not initialized from checkpoint")
#: Maximum message length in characters: vLLM may list all three hundred architectures it supports.
LONGEST = 400


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of a failed boot."""

    #: One line, without the final full stop.
    message: str
    #: Whether every further boot of the same model with the same arguments would fail in the same way.
    lasting: bool = False


def cause_of(trouble: BaseException) -> Cause:
    """Return the cause behind `trouble`, without pydantic's wording around it."""
    raised = trouble.__cause__ if isinstance(trouble, EngineError) and trouble.__cause__ else trouble
    judged = _inside(raised)
    line = _said(judged if raised is trouble else trouble)
    return Cause(_shortened(line), _lasts(judged))


def tell_worker() -> None:
    """Install, in a vLLM process, the hooks that report its failure to the worker that boots it."""
    path = os.environ.get(variables.BOOT_CAUSES)
    if path is None:
        return
    for name in FAILING:
        logging.getLogger(name).addHandler(_Reporter(path))
    original = sys.excepthook

    def report(kind: type[BaseException], trouble: BaseException, at: TracebackType | None) -> None:
        _report(path, trouble)
        original(kind, trouble, at)

    sys.excepthook = report


@contextmanager
def failure_reports() -> Iterator[Callable[[], Cause | None]]:
    """Collect failure reports during a boot; yields a function that returns the first one, or None.

    Where there can be no file for them, the boot goes on without: it may succeed, or fail in this process.
    """
    folder = os.environ.get(vllm_folder.VARIABLE)
    try:
        descriptor, path = tempfile.mkstemp(prefix="mcqueue-boot-", dir=folder)
    except OSError:
        yield lambda: None
        return
    with os.fdopen(descriptor, encoding="utf-8") as file:
        os.environ[variables.BOOT_CAUSES] = path
        try:
            yield lambda: _parsed(file.readline())
        finally:
            del os.environ[variables.BOOT_CAUSES]
            Path(path).unlink(missing_ok=True)  # a boot that is given up may have lost its folder by now


class _Reporter(logging.Handler):
    def __init__(self, path: str) -> None:
        super().__init__(logging.ERROR)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1]:
            _report(self._path, record.exc_info[1])


def _report(path: str, trouble: BaseException) -> None:
    """Append one line in a single write; do nothing after the boot, when the file is gone."""
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, f"{json.dumps(asdict(cause_of(trouble)))}\n".encode())
        finally:
            os.close(file)


def _parsed(line: str) -> Cause | None:
    """Return what a process reported; None if there is no line, or only what the disk could take of one."""
    return Cause(**json.loads(line)) if line.endswith("\n") else None


def _inside(trouble: BaseException) -> BaseException:
    """Return the exception that a validator raised inside pydantic, if there is one, else `trouble` itself."""
    while isinstance(trouble, ValidationError):
        inner = trouble.errors()[0].get("ctx", {}).get("error")
        if not isinstance(inner, Exception):
            break
        trouble = inner
    return trouble


def _said(trouble: BaseException) -> str:
    if isinstance(trouble, ValidationError):
        return ": ".join(first_mistake(trouble))
    line = first_line(trouble)
    if _is_of_weights(trouble):  # which name no file
        return f"a file of its weights is damaged or not complete: {line}"
    if line.endswith(":"):  # the reason is on the next line
        line = " ".join(map(str.strip, str(trouble).strip().splitlines()[:2])).rstrip(". ")
    named = isinstance(trouble, AssertionError | AttributeError | LookupError | TypeError)
    return f"{type(trouble).__name__}: {line}" if named and line != type(trouble).__name__ else line


def _shortened(line: str) -> str:
    """Return as many of its first sentences as fit, or the beginning of the first one."""
    if len(line) <= LONGEST:
        return line
    sentences, found, _ = line[:LONGEST].rpartition(". ")
    return sentences if found else f"{line[:LONGEST]}…"


def _is_of_weights(trouble: BaseException) -> bool:
    return type(trouble).__name__ == "SafetensorError"


def _lasts(trouble: BaseException) -> bool:
    empty = NO_WEIGHTS.match(str(trouble))
    if _is_of_weights(trouble) or (empty and Path(empty[1]).is_dir()):
        return True
    return (
        isinstance(trouble, JUDGEMENTS)
        and f"{_raised_in(trouble)}.".startswith(JUDGES)
        and not UNEXPLAINED.search(str(trouble))
        and not any(isinstance(each, PASSING) or _of_network(each) for each in _led_to(trouble))
    )


def _raised_in(trouble: BaseException) -> str:
    """Return the name of the module whose code raised it."""
    at, name = trouble.__traceback__, ""
    while at is not None:
        name, at = at.tb_frame.f_globals.get("__name__", ""), at.tb_next
    return name


def _led_to(trouble: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = trouble
    while each is not None:
        yield each
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)


def _of_network(trouble: BaseException) -> bool:
    return type(trouble).__module__.partition(".")[0] in NETWORK
