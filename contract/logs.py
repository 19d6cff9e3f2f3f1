"""Logging: one short line per edge, for the person who reads it."""

from __future__ import annotations

import logging
import sys

__all__ = ["PersonFormatter", "set_up"]


class PersonFormatter(logging.Formatter):
    """`12:30:05 gpu0 batch 42: 16 questions in 2.34 s` - the level only where it is a warning or worse."""

    def __init__(self, who: str = "") -> None:
        super().__init__("%(asctime)s%(who)s %(mark)s%(message)s", datefmt="%H:%M:%S")
        self._who = f" {who}" if who else ""

    def format(self, record: logging.LogRecord) -> str:
        record.who = self._who
        record.mark = f"{record.levelname}: " if record.levelno >= logging.WARNING else ""
        return super().format(record)


def set_up(who: str = "", level: int = logging.INFO) -> None:
    """Send this process's records to stderr; results go to stdout, so the two never mix."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PersonFormatter(who))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("celery", "kombu", "amqp", "httpx", "httpcore", "urllib3", "asyncio"):
        logging.getLogger(noisy).setLevel(max(level, logging.WARNING))
