"""Hybrid search: several search methods combined by reciprocal rank fusion.

G. V. Cormack, C. L. A. Clarke and S. Büttcher, Reciprocal rank fusion outperforms Condorcet and individual rank
learning methods, SIGIR 2009: a passage scores the sum of 1 / (60 + its rank) over the rankings that have it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from contract.index import FUSION_K
from workers.retrieval.ranking import Ranking, Searcher, best

__all__ = ["HybridSearcher", "fuse"]

#: Minimum depth to which each ranking is considered.
DEPTH = 100


def fuse(rankings: Sequence[Ranking], top_k: int) -> Ranking:
    """Return the `top_k` best passages of all `rankings` combined, ties by position."""
    scores: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, position in enumerate(ranking.positions.tolist(), start=1):
            scores[position] += 1 / (FUSION_K + rank)
    return best(np.array(list(scores), dtype=np.int64), np.array(list(scores.values())), top_k)


class HybridSearcher(Searcher):
    """Searcher that fuses the rankings of `searchers`."""

    def __init__(self, searchers: Sequence[Searcher]) -> None:
        self._searchers = searchers

    def find(self, queries: Sequence[str], top_k: int) -> list[Ranking]:
        """See `Searcher.find`; each searcher answers all queries to a depth of at least `DEPTH`."""
        found = [each.find(queries, max(top_k, DEPTH)) for each in self._searchers]
        return [fuse(rankings, top_k) for rankings in zip(*found, strict=True)]
