"""A question that could not be scored this time: when it comes again, and what is said once it is given up.

An error that an engine foresees says itself what becomes of the question. An unforeseen one may pass, so the question
is tried again, but not for ever: after `max_attempts` it is `failed`, with the reason of every attempt whose worker
lived to tell one.
"""

from __future__ import annotations

from collections.abc import Sequence

from contract.verdict import Failure

__all__ = ["one_line", "pause_s", "reason_of", "too_many"]

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 5.0
LONGEST_REASON = 500


def pause_s(attempts: int) -> float:
    """Seconds between attempt number `attempts` and the next: 1, 2, 4, 5, 5 …"""
    growing_s = FIRST_PAUSE_S * 2.0 ** min(attempts - 1, 10)  # 2**1024 would be no float any more
    return min(growing_s, LONGEST_PAUSE_S)


def reason_of(trouble: Exception) -> str:
    """`ValueError: …`, as `one_line`."""
    return one_line(f"{type(trouble).__name__}: {trouble}")


def one_line(text: str) -> str:
    """`text` as one line of a bounded length that any encoding takes."""
    return " ".join(text.split()).encode("utf-8", "backslashreplace").decode()[:LONGEST_REASON]


def too_many(attempts: int, reasons: Sequence[str]) -> Failure:
    """Why a question begun so often is given up; `reasons` as the ledger kept them."""
    silent = attempts - len(reasons)
    told = [*reasons, f"{silent} times its worker ended without a word"] if silent > 0 else reasons
    return Failure(type="TooManyAttempts", message=f"begun {attempts} times: {'; '.join(told)}")
