"""Command line of a benchmark: options that are checked before anything boots, and errors in one line."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from argparse import (
    Action,
    ArgumentError,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn

from contract.commands import INTERRUPTED
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
    "writable_folder",
]

#: Exit code of shells after SIGTERM.
EXIT_TERMINATED = 143


class Parser(ArgumentParser):
    """Uses the docstring of the program for `--help`, adds `--out` and `--name`, and reports errors in one line."""

    def __init__(self, doc: str | None) -> None:
        super().__init__(_program(), description=doc, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False)
        # Only the figures that the documentation quotes are recorded; everybody else's stay out of git.
        self.option("--out", writable_folder, Path("results/benchmarks"), "folder for the results")
        # Recorded with the command, so that the command shown writes the file that it is shown next to.
        self.option("--name", _file_name, None, "name of the record, instead of the program's")

    def option(
        self, name: str, read: Callable[[str], Any], default: Any, text: str, *, repeats: bool = False, **more: Any
    ) -> None:
        """Add an option, and its default, if any, to its help; it takes several values if the default is a tuple.

        The same value twice is refused, unless it `repeats`: it would ask a run that is answered already.
        """
        several = default if isinstance(default, tuple) else (default,)
        if several is default:
            more["nargs"] = "+"
            more["action"] = "store" if repeats else _Different
        shown = " ".join(f"{each:g}" if isinstance(each, float) else str(each) for each in several)
        said = text if default is None else f"{text} ({shown})"
        self.add_argument(name, type=read, default=default, help=said.replace("%", "%%"), **more)

    def error(self, message: str) -> NoReturn:
        """Exit with 2 after one line on stderr."""
        self.exit(2, f"error: {message}\n")


class _Different(Action):
    def __call__(self, _parser: object, found: Namespace, values: Any, _name: str | None = None) -> None:
        if twice := [str(each) for each, count in Counter(values).items() if count > 1]:
            raise ArgumentError(self, f"given twice: {', '.join(twice)}")
        setattr(found, self.dest, values)


def run(main: Callable[[], int | None]) -> NoReturn:
    """Exit with `main`'s exit code; expected errors are shown without a traceback, with exit code 1.

    SIGTERM, which also comes from a limit on time, ends the program like Ctrl-C: with what it has started.
    """
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))
    try:
        code = main()
    except McqueueError as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    sys.exit(code)


def _program() -> str:
    spec = sys.modules["__main__"].__spec__
    return f"python -m {spec.name}" if spec else sys.argv[0]


def command_line(without: Collection[str] = (), hidden: Mapping[Path, str] | None = None) -> str:
    """Return the command as typed, to be recorded.

    `--out` and the options `without`, each of which takes a value, are left out; the paths in `hidden`, which mean
    nothing to others, are replaced by the names given there.
    """
    words = []
    typed = iter(sys.argv[1:])
    for word in typed:
        if word in ("--out", *without):
            next(typed)
        elif word.partition("=")[0] not in ("--out", *without):
            words.append(_shown(word, hidden or {}))
    return f"{_program()} {shlex.join(words)}".rstrip()


def _shown(word: str, hidden: Mapping[Path, str]) -> str:
    """Return `word` with the name of the hidden path that it is, or that follows its first `=`, if it is one."""
    if Path(word) in hidden:
        return hidden[Path(word)]
    name, _, value = word.partition("=")
    return f"{name}={hidden[Path(value)]}" if value and Path(value) in hidden else word


def positive(text: str) -> int:
    """Parse a positive integer for argparse.

    >>> positive("3")
    3
    """
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def from_zero(text: str) -> int:
    """Parse a non-negative integer for argparse.

    >>> from_zero("0")
    0
    """
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not a non-negative integer")
    return int(text)


def above_zero(text: str) -> float:
    """Parse a positive number for argparse.

    >>> above_zero("0.5")
    0.5
    """
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise ArgumentTypeError(f"{text!r} is not a positive number")
    return found


def existing_file(text: str) -> Path:
    """Parse the path of an existing file for argparse."""
    if not Path(text).is_file():
        raise ArgumentTypeError(f"no such file: {text}")
    return Path(text)


def existing_folder(text: str) -> Path:
    """Parse the path of an existing folder for argparse."""
    if not text or not Path(text).is_dir():  # "" is a path, too: of the current folder
        raise ArgumentTypeError(f"no such folder: {text}")
    return Path(text)


def one_of(names: Collection[str]) -> Callable[[str], str]:
    """Return a parser of one of `names` for argparse, whose `choices` reject an omitted positional argument."""

    def read(text: str) -> str:
        if text not in names:
            raise ArgumentTypeError(f"{text!r} is not one of {', '.join(names)}")
        return text

    return read


def _file_name(text: str) -> str:
    if not text or Path(text).name != text:
        raise ArgumentTypeError(f"not the name of a file: {text!r}")
    return text


def writable_folder(text: str) -> Path:
    """Parse the path of a folder, which need not exist, for argparse."""
    path = Path(text).absolute()
    there = next(each for each in (path, *path.parents) if each.exists())
    if not text or not there.is_dir() or not os.access(there, os.W_OK):
        raise ArgumentTypeError(f"not a writable folder: {text}")
    return Path(text)
