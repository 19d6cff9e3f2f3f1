"""A benchmark as a person's command: numbers that are checked before anything boots, and errors in one line."""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import NoReturn

from contract.errors import McqueueError

__all__ = ["above_zero", "command_line", "counts", "positive", "run", "seconds"]

#: As a shell has it for Ctrl-C.
EXIT_INTERRUPTED = 130


def run(main: Callable[[], int]) -> NoReturn:
    """`main`'s exit code is the program's; an expected error is told without a traceback, with 1."""
    try:
        code = main()
    except McqueueError as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    sys.exit(code)


def command_line() -> str:
    """What was typed, but for where the figures go: as a record says how it was made."""
    spec = sys.modules["__main__"].__spec__
    words = sys.argv[1:]
    if "--out" in words:
        at = words.index("--out")
        del words[at : at + 2]
    return shlex.join(["python", "-m", spec.name if spec else sys.argv[0], *words])


def positive(text: str) -> int:
    """A whole number from 1, for argparse.

    >>> positive("3")
    3
    """
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def above_zero(text: str) -> float:
    """A number above 0, for argparse.

    >>> above_zero("0.5")
    0.5
    """
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no number above 0")
    return found


def counts(text: str) -> list[int]:
    """Whole numbers from 1 with commas between.

    >>> counts("1,2,4")
    [1, 2, 4]
    """
    return [positive(each.strip()) for each in text.split(",")]


def seconds(text: str) -> list[float]:
    """Numbers above 0 with commas between.

    >>> seconds("0.05,1")
    [0.05, 1.0]
    """
    return [above_zero(each) for each in text.split(",")]
