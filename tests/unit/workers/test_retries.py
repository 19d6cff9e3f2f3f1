"""When a question that could not be scored comes again, and what is kept of why."""

from __future__ import annotations

from workers.retries import LONGEST_REASON, pause_s, reason_of


def test_pauses_grow_to_a_limit_however_many_attempts_there_were() -> None:
    assert [pause_s(attempts) for attempts in (1, 2, 3, 4, 5, 1025)] == [1, 2, 4, 5, 5, 5]


def test_of_an_error_of_any_length_a_line_is_kept() -> None:
    """It is kept for each attempt at each question of a batch that it ended."""
    reason = reason_of(ValueError("a\n b\udc80" + 100_000 * "c"))
    assert reason.startswith("ValueError: a b\\udc80ccc")
    assert len(reason) == LONGEST_REASON
