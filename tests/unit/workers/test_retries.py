"""When a question that could not be scored comes again, and what is kept of why."""

from __future__ import annotations

from workers.retries import LONGEST_REASON, pause_s, reason_of, too_many


def test_pauses_grow_to_a_limit_however_many_attempts_there_were() -> None:
    assert [pause_s(attempts) for attempts in (1, 2, 3, 4, 5, 1025)] == [1, 2, 4, 5, 5, 5]


def test_of_an_error_of_any_length_a_line_is_kept() -> None:
    """It is kept for each attempt at each question of a batch that it ended."""
    reason = reason_of(ValueError("a\n b\udc80" + 100_000 * "c"))
    assert reason.startswith("ValueError: a b\\udc80ccc")
    assert len(reason) == LONGEST_REASON


def test_a_question_that_is_given_up_has_the_reason_of_each_attempt_and_the_number_of_those_without_one() -> None:
    said = {silent: too_many(silent + 2, ["w0: odd", "w1: odd"]).message for silent in (0, 1, 2)}
    assert said == {
        0: "attempted 2 times: w0: odd; w1: odd",
        1: "attempted 3 times: w0: odd; w1: odd; 1 time its worker died without giving a reason",
        2: "attempted 4 times: w0: odd; w1: odd; 2 times its worker died without giving a reason",
    }
    assert too_many(1, []).message == "attempted 1 time: 1 time its worker died without giving a reason"
