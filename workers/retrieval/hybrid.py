"""Several ways to search at once: reciprocal rank fusion.

G. V. Cormack, C. L. A. Clarke and S. Büttcher, Reciprocal rank fusion outperforms Condorcet and individual rank
learning methods, SIGIR 2009: a passage scores the sum of 1 / (60 + its rank) over the rankings that have it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from contract.index import FUSION_K
from workers.retrieval.base import Ranking, Searcher, best

__all__ = ["DEPTH", "HybridSearcher", "fuse"]

#: How far down each ranking is looked at least.
DEPTH = 100


def fuse(rankings: Sequence[Ranking], top_k: int) -> Ranking:
    """The `top_k` best of `rankings` together, ties by position."""
    scores: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, position in enumerate(ranking.positions.tolist(), start=1):
            scores[position] += 1 / (FUSION_K + rank)
    return best(np.array(list(scores), dtype=np.int64), np.array(list(scores.values())), top_k)


class HybridSearcher(Searcher):
    """Fuses what `searchers` find."""

    def __init__(self, searchers: Sequence[Searcher]) -> None:
        self._searchers = searchers

    def find(self, queries: Sequence[str], top_k: int) -> list[Ranking]:
        """Each searcher answers all queries, `DEPTH` deep or more."""
        found = [each.find(queries, max(top_k, DEPTH)) for each in self._searchers]
        return [fuse(rankings, top_k) for rankings in zip(*found, strict=True)]
