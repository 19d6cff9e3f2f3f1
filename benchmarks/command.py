"""A benchmark as a person's command: options that are checked before anything boots, and errors in one line."""

from __future__ import annotations

import os
import shlex
import sys
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn

from contract.errors import McqueueError

__all__ = [
    "Parser",
    "above_zero",
    "command_line",
    "existing_file",
    "existing_folder",
    "from_zero",
    "one_of",
    "positive",
    "run",
]

#: As a shell has it for Ctrl-C.
EXIT_INTERRUPTED = 130


class Parser(ArgumentParser):
    """`--help` is the program's docstring, `--out` every program's option; what is wrong is told in one line."""

    def __init__(self, doc: str | None) -> None:
        super().__init__(_program(), description=doc, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False)
        # Figures that the documents quote are recorded, anybody's own stay out of git.
        self.option("--out", _writable_folder, Path("results/benchmarks"), "folder for the figures")

    def option(self, name: str, read: Callable[[str], Any], default: Any, text: str, **more: Any) -> None:
        """An option that says its default, if it has one; it takes several values where that is a tuple."""
        several = default if isinstance(default, tuple) else (default,)
        if several is default:
            more["nargs"] = "+"
        shown = " ".join(f"{each:g}" if isinstance(each, float) else str(each) for each in several)
        said = text if default is None else f"{text} ({shown})"
        self.add_argument(name, type=read, default=default, help=said.replace("%", "%%"), **more)

    def error(self, message: str) -> NoReturn:
        """One line, and 2."""
        self.exit(2, f"error: {message}\n")


def run(main: Callable[[], int | None]) -> NoReturn:
    """`main`'s exit code is the program's; an expected error is told without a traceback, with 1."""
    try:
        code = main()
    except McqueueError as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    sys.exit(code)


def _program() -> str:
    spec = sys.modules["__main__"].__spec__
    return f"python -m {spec.name}" if spec else sys.argv[0]


def command_line(without: Collection[str] = (), hidden: Mapping[Path, str] | None = None) -> str:
    """What was typed, as a record says how it was made.

    Left out are where the figures go and the options `without`, which take a value; the places of `hidden`, which are
    nobody else's, are told by the names that they have there.
    """
    words = []
    typed = iter(sys.argv[1:])
    for word in typed:
        name, equals, place = word.rpartition("=")
        if word in ("--out", *without):
            next(typed)
        elif name not in ("--out", *without):
            words.append(name + equals + (hidden or {}).get(Path(place), place))
    return f"{_program()} {shlex.join(words)}".rstrip()


def positive(text: str) -> int:
    """A whole number from 1, for argparse.

    >>> positive("3")
    3
    """
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def from_zero(text: str) -> int:
    """A whole number from 0, for argparse.

    >>> from_zero("0")
    0
    """
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is no whole number from 0")
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


def existing_file(text: str) -> Path:
    """A file that is there, for argparse."""
    if not Path(text).is_file():
        raise ArgumentTypeError(f"no such file: {text}")
    return Path(text)


def existing_folder(text: str) -> Path:
    """A folder that is there, for argparse."""
    if not Path(text).is_dir():
        raise ArgumentTypeError(f"no such folder: {text}")
    return Path(text)


def one_of(names: Collection[str]) -> Callable[[str], str]:
    """One of `names`, for argparse (whose `choices` refuse that a positional argument is left out)."""

    def read(text: str) -> str:
        if text not in names:
            raise ArgumentTypeError(f"{text!r} is none of {', '.join(names)}")
        return text

    return read


def _writable_folder(text: str) -> Path:
    path = Path(text).absolute()
    there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise ArgumentTypeError(f"no folder that can be written: {text}")
    return Path(text)
