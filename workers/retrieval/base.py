"""What the rest of the worker knows of retrieval: queries in, passages out. And what the ways to search share."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contract.spec import IndexKind
from contract.verdict import Passage

__all__ = ["Ranking", "Retriever", "Searcher", "best"]


class Retriever(abc.ABC):
    """Finds passages from any number of threads at once."""

    def changed(self) -> bool:
        """Whether what is searched was written over since it was opened, so that nobody knows what is found."""
        return False

    @abc.abstractmethod
    def search(self, queries: Sequence[str], top_k: int, kind: IndexKind | None = None) -> list[list[Passage]]:
        """The `top_k` best passages of each query, best first, ranks from 1; all queries are searched together.

        `kind` is the way to search, by default the index's own. Fewer than `top_k` come back where there are no more:
        of a small index all; by words only passages that share one with the query; for a blank query none. Equal
        scores come in the passages' order. Raises IndexUnusable if the index cannot be searched as `kind`.
        """


class Ranking(NamedTuple):
    """Passages found for one query, best first."""

    #: Their positions in the index.
    positions: NDArray[np.int64]
    #: Greater is better.
    scores: NDArray[np.float32]


class Searcher(abc.ABC):
    """One way to search an index. Thread-safe."""

    @abc.abstractmethod
    def find(self, queries: Sequence[str], top_k: int) -> list[Ranking]:
        """At most `top_k` passages for each of `queries`, none of which is blank; ties in the passages' order."""


def best(positions: NDArray[Any], scores: NDArray[Any], top_k: int) -> Ranking:
    """The `top_k` entries with the highest scores, ties by position.

    >>> best(np.array([4, 0, 2]), np.array([1.0, 3.0, 1.0]), 2).positions.tolist()
    [0, 2]
    """
    if len(scores) > top_k:
        # Only what reaches the k-th highest score is sorted: all ties at the edge, and no other.
        edge = np.partition(scores, len(scores) - top_k)[len(scores) - top_k]
        reaching = np.flatnonzero(scores >= edge)
        positions, scores = positions[reaching], scores[reaching]
    order = np.lexsort((positions, -scores))[:top_k]
    return Ranking(positions[order].astype(np.int64), scores[order].astype(np.float32))
