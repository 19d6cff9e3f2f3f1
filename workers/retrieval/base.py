"""The retrieval interface, queries in and passages out, and code shared by the search methods."""

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
    """Passage retriever that can be called from any number of threads at once."""

    def changed(self) -> bool:
        """Whether the index files were overwritten since they were opened, which makes results undefined."""
        return False

    @abc.abstractmethod
    def search(self, queries: Sequence[str], top_k: int, kind: IndexKind | None = None) -> list[list[Passage]]:
        """Return the `top_k` best passages of each query, best first, with ranks from 1; searches all queries together.

        `kind` is the search method, by default the index's own. Fewer than `top_k` are returned if there are no more:
        a small index returns all; BM25 only returns passages that share a word with the query; a blank query returns
        none. Ties are in the passages' order. Raises IndexUnusable if the index cannot be searched by `kind`.
        """


class Ranking(NamedTuple):
    """Passages found for one query, best first."""

    #: Their positions in the index.
    positions: NDArray[np.int64]
    #: Greater is better.
    scores: NDArray[np.float32]


class Searcher(abc.ABC):
    """A search method for an index. Thread-safe."""

    @abc.abstractmethod
    def find(self, queries: Sequence[str], top_k: int) -> list[Ranking]:
        """Return at most `top_k` passages for each of the non-blank `queries`; ties are in the passages' order."""


def best(positions: NDArray[Any], scores: NDArray[Any], top_k: int) -> Ranking:
    """Return the `top_k` entries with the highest scores, ties by position.

    >>> best(np.array([4, 0, 2]), np.array([1.0, 3.0, 1.0]), 2).positions.tolist()
    [0, 2]
    """
    if len(scores) > top_k:
        # Sort only entries with at least the k-th highest score, so that all ties at the edge are included.
        edge = np.partition(scores, len(scores) - top_k)[len(scores) - top_k]
        reaching = np.flatnonzero(scores >= edge)
        positions, scores = positions[reaching], scores[reaching]
    order = np.lexsort((positions, -scores))[:top_k]
    return Ranking(positions[order].astype(np.int64), scores[order].astype(np.float32))
