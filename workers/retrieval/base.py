"""The retrieval interface: queries in, passages out. Without numpy, which a worker that only scores does not need."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from contract.spec import IndexKind
from contract.verdict import Passage

__all__ = ["Retriever"]


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
