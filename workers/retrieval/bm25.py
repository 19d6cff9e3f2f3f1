"""Lexical search with BM25 as implemented by bm25s: Lucene's variant.

X. H. Lù, BM25S: Orders of magnitude faster lexical search via eager sparse scoring, 2024, arXiv:2407.03618.
What a word is, `words` says; all are in lower case, without stemming.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contract.errors import InputError
from contract.index import Bm25Options
from workers.retrieval.files import writing
from workers.retrieval.ranking import Ranking, Searcher, best
from workers.retrieval.words import pattern, prepared

__all__ = ["Bm25Searcher", "build_bm25"]


def build_bm25(texts: Iterable[str], options: Bm25Options, folder: Path) -> None:
    """Write a BM25 index of `texts` to `folder`. Raises InputError if that fails, or none has a word to index."""
    import bm25s

    words = _tokenize(texts, options, return_ids=True)
    if not words.vocab:
        raise InputError(
            f"No passage has a word to search by (stop words: {options.stop_words}).",
            hint="Build it with --stop-words none, or with --kind dense.",
        )
    index = bm25s.BM25(k1=options.k1, b=options.b)
    index.index(words, show_progress=False)
    with writing(folder):
        index.save(folder, show_progress=False)
        _require_whole(folder)


def _require_whole(folder: Path) -> None:
    """Raise OSError if an array is incomplete: NumPy ignores it if its last bytes could not be written."""
    try:
        for path in folder.glob("*.npy"):
            np.load(path, mmap_mode="r")
    except ValueError:
        raise OSError("the end is missing") from None


def _tokenize(texts: Iterable[str], options: Bm25Options, *, return_ids: bool) -> Any:
    import bm25s

    return bm25s.tokenize(
        prepared(texts, options.words),
        token_pattern=pattern(options.words),
        stopwords=None if options.stop_words == "none" else options.stop_words,
        return_ids=return_ids,
        show_progress=False,
    )


class Bm25Searcher(Searcher):
    """Searcher over an index written by `build_bm25`, memory-mapped."""

    def __init__(self, folder: Path, options: Bm25Options) -> None:
        import bm25s

        self._options = options
        self._index = bm25s.BM25.load(folder, mmap=True, show_progress=False)
        # Plain arrays over the same mapped memory: a slice of NumPy's own class for it takes longer to make than it
        # takes to add up the scores of a word.
        self._index.scores |= {part: np.asarray(self._index.scores[part]) for part in ("data", "indices", "indptr")}

    def find(self, queries: Sequence[str], top_k: int) -> list[Ranking]:
        """See `Searcher.find`; returns only passages that share a word with the query, as all others score 0."""
        return [self._rank(words, top_k) for words in _tokenize(queries, self._options, return_ids=False)]

    def _rank(self, words: Sequence[str], top_k: int) -> Ranking:
        known = self._index.get_tokens_ids(words)
        scores = self._index.get_scores_from_ids(known)
        sharing = np.flatnonzero(scores > 0)  # takes a third of the time of `np.flatnonzero(scores)`
        return best(sharing, scores[sharing], top_k)
