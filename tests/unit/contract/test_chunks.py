"""Splitting of iterables into chunks."""

from collections.abc import Iterator

import pytest

from contract.chunks import chunks


def test_the_last_chunk_may_be_shorter_and_there_is_no_empty_one() -> None:
    assert list(chunks(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(chunks(range(4), 2)) == [[0, 1], [2, 3]]
    assert list(chunks([], 2)) == []


def test_no_more_is_taken_than_the_chunk_needs() -> None:
    items = iter(range(5))

    assert next(chunks(items, 2)) == [0, 1]
    assert next(items) == 2


def test_what_came_before_an_error_is_yielded_before_it_is_raised() -> None:
    def failing() -> Iterator[int]:
        yield from range(3)
        raise ValueError("line 4")

    found = chunks(failing(), 2)

    assert [next(found), next(found)] == [[0, 1], [2]]
    with pytest.raises(ValueError, match="line 4"):
        next(found)
