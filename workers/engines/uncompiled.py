"""The small helpers that vLLM compiles on a CPU, also with `enforce_eager`, where they cannot be compiled.

It takes a C++ compiler that works, Python's headers, and an environment without blanks in its path. Without one of
these the engine would end at its first step; told to go on (`TORCHDYNAMO_SUPPRESS_ERRORS`), torch runs the helpers as
they are.
"""

from __future__ import annotations

import logging

from contract.errors import first_line

__all__ = ["told_in_one_line"]

log = logging.getLogger(__name__)

#: Where torch logs each helper that it could not compile, with a hundred lines of traceback.
SUPPRESSED = "torch._dynamo.convert_frame"


def told_in_one_line() -> None:
    """Say once what kept torch from compiling, instead of all that it says of every helper."""
    told: list[str] = []

    def once(record: logging.LogRecord) -> bool:
        trouble = record.exc_info[1] if record.exc_info else None
        if trouble is None:
            return True
        if not told:
            told.append(first_line(getattr(trouble, "inner_exception", trouble)))  # torch wraps what a backend raised
            log.warning("vLLM's helpers are not compiled, which costs a few percent of its speed: %s", told[0])
        return False

    logging.getLogger(SUPPRESSED).addFilter(once)
