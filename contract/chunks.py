"""Splitting of iterables into chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

__all__ = ["chunks"]

T = TypeVar("T")


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield `items` in lists of `size`; the last one may be shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
