"""Logging: one short line per edge for people, the same records as JSON lines for machines."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, Literal

__all__ = ["JsonFormatter", "LogFormat", "PersonFormatter", "set_up"]

LogFormat = Literal["person", "json"]
#: Attributes that every LogRecord has; whatever else is on one came in by `extra=`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class PersonFormatter(logging.Formatter):
    """`12:30:05 gpu0 batch 42: 16 questions in 2.34 s` - the level only where it is a warning or worse."""

    def __init__(self, who: str = "") -> None:
        super().__init__("%(asctime)s%(who)s %(mark)s%(message)s", datefmt="%H:%M:%S")
        self._who = f" {who}" if who else ""

    def format(self, record: logging.LogRecord) -> str:
        record.who = self._who
        record.mark = f"{record.levelname}: " if record.levelno >= logging.WARNING else ""
        return super().format(record)


class JsonFormatter(logging.Formatter):
    """One JSON object per record: time, level, logger, message and everything given as `extra=`."""

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


def set_up(who: str = "", log_format: LogFormat = "person", level: int = logging.INFO) -> None:
    """Send this process's records to stderr; results go to stdout, so the two never mix."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(who) if log_format == "json" else PersonFormatter(who))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("celery", "kombu", "amqp", "httpx", "httpcore", "urllib3", "asyncio"):
        logging.getLogger(noisy).setLevel(max(level, logging.WARNING))
