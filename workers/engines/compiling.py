"""What is compiled on this machine, and what it lacks for that: Triton's GPU code, and on a CPU small helpers of vLLM.

Without what Triton needs, no engine runs on a GPU. The helpers are compiled also with `enforce_eager`, and make vLLM
5 % faster. Where that fails all the same, as with a blank in the environment's path, the engine would end at its first
step; told to go on (`TORCHDYNAMO_SUPPRESS_ERRORS`), torch runs them as they are.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sysconfig
import warnings
from pathlib import Path

from contract.errors import first_line

__all__ = ["missing_for_helpers", "missing_for_triton", "told_in_one_line"]

log = logging.getLogger(__name__)

#: Where torch logs each helper that it could not compile, with a hundred lines of traceback.
SUPPRESSED = "torch._dynamo.convert_frame"
#: What the compiler says.
_COMPILER_ERROR = re.compile(r"\berror: (.+)")


def missing_for_triton() -> list[str]:
    """Return what Triton needs for compiling and would not find here, searched in the same way as Triton does."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return [*([] if compiler else ["C compiler"]), *_missing_header()]


def missing_for_helpers() -> list[str]:
    """Return what torch needs for compiling vLLM's helpers on a CPU and would not find here."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    return [*([] if compiler else ["C++ compiler"]), *_missing_header()]


def _missing_header() -> list[str]:
    scheme = sysconfig.get_default_scheme()
    # Debian's own scheme names a folder below /usr/local, which holds no headers.
    header = Path(sysconfig.get_path("include", {"posix_local": "posix_prefix"}.get(scheme, scheme)), "Python.h")
    return [] if header.is_file() else [str(header)]


def told_in_one_line() -> None:
    """Say once what kept torch from compiling, instead of all that it says of every helper."""
    warnings.filterwarnings("ignore", message="Can't find Python.h")
    told: list[str] = []

    def once(record: logging.LogRecord) -> bool:
        trouble = record.exc_info[1] if record.exc_info else None
        if trouble is None:
            return True
        if not told:
            told.append(_why(getattr(trouble, "inner_exception", trouble)))  # torch wraps what a backend raised
            log.warning("vLLM's helpers are not compiled, which costs a few percent of its speed: %s", told[0])
        return False

    logging.getLogger(SUPPRESSED).addFilter(once)


def _why(trouble: BaseException) -> str:
    said = _COMPILER_ERROR.search(str(trouble))
    return f"{first_line(trouble)}: {said[1].strip()}" if said else first_line(trouble)
