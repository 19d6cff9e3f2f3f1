"""When a question that could not be scored comes again."""

from __future__ import annotations

from workers.retries import pause_s


def test_pauses_grow_to_a_limit_however_many_attempts_there_were() -> None:
    assert [pause_s(attempts) for attempts in (1, 2, 3, 4, 5, 1025)] == [1, 2, 4, 5, 5, 5]
