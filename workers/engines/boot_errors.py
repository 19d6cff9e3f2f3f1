"""Why vLLM did not boot, and whether it can at another time.

Of its core process that failed, vLLM says that the "root cause" is "above", in the log. So each process of vLLM's tells
the worker what it failed of, in a file that the worker names in the environment: `tell_worker`, called by the plugin
that vLLM loads in all of them.
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

from contract.errors import EngineError, first_line

__all__ = ["Cause", "cause_of", "hearing", "tell_worker"]

#: Where vLLM's processes tell what they failed of.
VARIABLE = "MCQUEUE_BOOT_CAUSES"
#: Who logs it there, with the exception, when a process cannot start or fails in its part of the boot.
FAILING = ("vllm.v1.engine.core", "vllm.v1.executor.multiproc_executor")
#: Modules that look at model, arguments and kind of GPU, and at nothing that is otherwise at the next boot. Others find
#: memory that another process still has (`vllm.v1.worker`), ports, NCCL, caches of compiled code.
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
#: What they raise then. A RuntimeError may be CUDA's.
JUDGEMENTS = (AssertionError, AttributeError, ImportError, LookupError, NotImplementedError, TypeError, ValueError)
#: Where one of these led to it, as when no hub answers, it may pass.
PASSING = (OSError, MemoryError)
#: vLLM's words for a folder without them; a file that is cut short, or is none, is safetensors' to tell.
NO_WEIGHTS = re.compile("Cannot find any model weights with `(.+)`")
#: vLLM looks at a model's class in a process of its own, and does not say what that died of. And where no hub answers,
#: it takes what is in the hub's cache for the whole model.
UNEXPLAINED = re.compile("failed to be inspected|not initialized from checkpoint")
#: vLLM may name all three hundred architectures that it knows.
LONGEST = 400


@dataclass(frozen=True, slots=True)
class Cause:
    """Of a boot that failed."""

    #: One line, without its full stop.
    message: str
    #: Every further boot of the same model with the same arguments ends so.
    lasting: bool = False


def cause_of(trouble: BaseException) -> Cause:
    """What `trouble` says, without pydantic's words around it, and what becomes of it."""
    raised = trouble.__cause__ if isinstance(trouble, EngineError) and trouble.__cause__ else trouble
    judged = _inside(raised)
    line = _said(judged if raised is trouble else trouble)
    return Cause(_shortened(line), _lasts(judged))


def tell_worker() -> None:
    """In a process of vLLM's: from now on, what it fails of is told to the worker whose boot this is."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return
    for name in FAILING:
        logging.getLogger(name).addHandler(_Teller(path))
    shown = sys.excepthook

    def tell(kind: type[BaseException], trouble: BaseException, at: TracebackType | None) -> None:
        _tell(path, trouble)
        shown(kind, trouble, at)

    sys.excepthook = tell


@contextmanager
def hearing() -> Iterator[Callable[[], Cause | None]]:
    """Around a boot: what the first of vLLM's processes that failed has told; None where none has."""
    with tempfile.NamedTemporaryFile("r", prefix="mcqueue-boot-", encoding="utf-8") as file:
        os.environ[VARIABLE] = file.name
        try:
            yield lambda: _first_told(file.readline())
        finally:
            del os.environ[VARIABLE]


class _Teller(logging.Handler):
    def __init__(self, path: str) -> None:
        super().__init__(logging.ERROR)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1]:
            _tell(self._path, record.exc_info[1])


def _tell(path: str, trouble: BaseException) -> None:
    """One line in one write, and none where nobody hears any more: the file goes when the boot is over."""
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, f"{json.dumps(asdict(cause_of(trouble)))}\n".encode())
        finally:
            os.close(file)


def _first_told(line: str) -> Cause | None:
    return Cause(**json.loads(line)) if line else None


def _inside(trouble: BaseException) -> BaseException:
    """The exception that pydantic found in a class' own check, if it is about one."""
    while isinstance(trouble, ValidationError):
        inner = trouble.errors()[0].get("ctx", {}).get("error")
        if not isinstance(inner, Exception):
            break
        trouble = inner
    return trouble


def _said(trouble: BaseException) -> str:
    if isinstance(trouble, ValidationError):
        first = trouble.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"  # the value may be a secret
    line = first_line(trouble)
    if line.endswith(":"):  # the next line tells it
        line = " ".join(map(str.strip, str(trouble).strip().splitlines()[:2])).rstrip(". ")
    named = isinstance(trouble, AssertionError | AttributeError | LookupError | TypeError)
    return f"{type(trouble).__name__}: {line}" if named and line != type(trouble).__name__ else line


def _shortened(line: str) -> str:
    """Its first sentences, as many as fit; of a first one that does not, its beginning."""
    if len(line) <= LONGEST:
        return line
    sentences, found, _ = line[:LONGEST].rpartition(". ")
    return sentences if found else f"{line[:LONGEST]}…"


def _lasts(trouble: BaseException) -> bool:
    empty = NO_WEIGHTS.match(str(trouble))
    if type(trouble).__name__ == "SafetensorError" or (empty and Path(empty[1]).is_dir()):
        return True
    return (
        isinstance(trouble, JUDGEMENTS)
        and f"{_raised_in(trouble)}.".startswith(JUDGES)
        and not UNEXPLAINED.search(str(trouble))
        and not any(isinstance(each, PASSING) or _of_network(each) for each in _led_to(trouble))
    )


def _raised_in(trouble: BaseException) -> str:
    """The module of the line that raised it."""
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
    return type(trouble).__module__.partition(".")[0] in {"httpx", "httpcore", "huggingface_hub", "requests"}
