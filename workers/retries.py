"""Retry policy: the pause before the next attempt, and the failure of a question recorded after the last.

Expected engine errors determine the question's outcome directly. An unexpected error, or a server that is overloaded,
may be transient, so the question is retried, but not forever: after `max_attempts` it is `failed`, with the reason of
every attempt whose worker lived to report one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from contract.verdict import Failure
from contract.wording import number

__all__ = ["LONGEST_PAUSE_S", "LastTold", "one_line", "pause_s", "reason_of", "sleep_unless", "too_many"]

#: Interval at which a trouble that lasts is logged again.
AGAIN_S = 60.0
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 5.0
LONGEST_REASON = 500
#: How often a pause looks whether the worker is stopping, in seconds.
LOOK_S = 0.1


class LastTold:
    """The trouble that was logged last. One that lasts is not news: an outage may last for days."""

    def __init__(self) -> None:
        self._kind: tuple[object, ...] = ()
        self._at = 0.0

    def is_news(self, trouble: Exception) -> bool:
        """Whether to log `trouble`: if it is of another kind than the last one, or that was logged a minute ago."""
        # If there is a remedy, not the message, of which a part may change with every attempt.
        before, self._kind = self._kind, (type(trouble), getattr(trouble, "hint", "") or str(trouble))
        if self._kind == before and time.monotonic() < self._at + AGAIN_S:
            return False
        self._at = time.monotonic()
        return True

    def forget(self) -> None:
        """Have the next trouble be news."""
        self._kind = ()


def pause_s(attempts: int, longest_s: float = LONGEST_PAUSE_S) -> float:
    """Return the seconds between attempt number `attempts` and the next: 1, 2, 4, … up to `longest_s`."""
    growing_s = FIRST_PAUSE_S * 2.0 ** min(attempts - 1, 10)  # 2.0**1024 would overflow
    return min(growing_s, longest_s)


def sleep_unless(stopping: Callable[[], bool], seconds: float) -> bool:
    """Sleep for so long; return False, at once, when the worker is `stopping`."""
    until = time.monotonic() + seconds
    while (left_s := until - time.monotonic()) > 0:
        if stopping():
            return False
        time.sleep(min(LOOK_S, left_s))
    return True


def reason_of(trouble: Exception) -> str:
    """Return the error as one line, e.g. `ValueError: …`."""
    return one_line(f"{type(trouble).__name__}: {trouble}")


def one_line(text: str) -> str:
    """Return `text` as one line of bounded length that every encoding can represent."""
    return " ".join(text.split()).encode("utf-8", "backslashreplace").decode()[:LONGEST_REASON]


def too_many(attempts: int, reasons: Sequence[str]) -> Failure:
    """Return the failure of a question that is given up after `attempts`; `reasons` are those in the ledger."""
    silent = attempts - len(reasons)
    known = [*reasons, f"{number(silent, 'time')} its worker died without giving a reason"] if silent > 0 else reasons
    return Failure(type="TooManyAttempts", message=f"attempted {number(attempts, 'time')}: {'; '.join(known)}")
