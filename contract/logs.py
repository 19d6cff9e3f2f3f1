"""Logging: one short line per event for people, or the same records as JSON for a log collector.

Both may contain text that others wrote, in messages of a queue and in servers' answers: control characters are escaped.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from contract import variables
from contract.errors import SettingsError
from contract.sanitize import for_terminal

__all__ = ["JsonFormatter", "PersonFormatter", "chosen", "formatted", "set_up"]

T = TypeVar("T")

#: Attributes of every LogRecord; any other came from `extra=`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
#: Libraries that log every call.
NOISY = ("celery", "kombu", "amqp", "httpx", "httpcore", "httpx2", "httpcore2", "openai", "urllib3", "asyncio")


class PersonFormatter(logging.Formatter):
    """`12:30:05 gpu0 batch 42: 16 questions in 2.34 s`; the level is shown from WARNING up.

    In a file, which may be read days later, the date stands before the time.
    """

    def __init__(self, who: str = "") -> None:
        on_terminal = sys.stderr is not None and sys.stderr.isatty()  # None: it was closed, as by `2>&-`
        date = "" if on_terminal else "%Y-%m-%d "
        super().__init__("%(asctime)s%(who)s %(mark)s%(message)s", datefmt=f"{date}%H:%M:%S")
        self._who = f" {who}" if who else ""

    def format(self, record: logging.LogRecord) -> str:
        record.who = self._who
        record.mark = f"{record.levelname}: " if record.levelno >= logging.WARNING else ""
        return for_terminal(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object per record: time, level, logger, worker, message, traceback and the `extra=` fields."""

    def __init__(self, who: str = "") -> None:
        super().__init__()
        self._who = who

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "worker": self._who,
            "message": record.getMessage(),
        }
        entry |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def chosen() -> tuple[int, Callable[[str], logging.Formatter]]:
    """Return MCQUEUE_LOG_LEVEL and MCQUEUE_LOG_FORMAT, or their defaults. Raises SettingsError for an invalid value."""
    levels = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}
    level = _chosen(variables.LOG_LEVEL, "info", levels)
    formats: dict[str, Callable[[str], logging.Formatter]] = {"person": PersonFormatter, "json": JsonFormatter}
    return level, _chosen(variables.LOG_FORMAT, "person", formats)


def set_up(who: str = "") -> None:
    """Send this process's log records to stderr, so that they never mix with results on stdout.

    Level and format are as `chosen`. Raises SettingsError.
    """
    level, formatter = chosen()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(who))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in NOISY:
        logging.getLogger(noisy).setLevel(max(level, logging.WARNING))


def formatted(message: str) -> str:
    """Return `message` as a line of this process's log, for output that must not go through its handler."""
    made = next((each.formatter for each in logging.getLogger().handlers if each.formatter), None)
    record = logging.LogRecord(__name__, logging.INFO, "", 0, message, None, None)
    return (made or PersonFormatter()).format(record)


def _chosen(variable: str, default: str, known: Mapping[str, T]) -> T:
    word = os.environ.get(variable, default)
    if word.lower() not in known:
        raise SettingsError(f"environment: {variable} {word!r}: expected one of {', '.join(known)}.")
    return known[word.lower()]
