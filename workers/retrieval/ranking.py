"""The interface of a search method, positions of passages out, and code shared by these methods."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ranking", "Searcher", "best"]


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
