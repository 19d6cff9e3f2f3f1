"""Reranking of retrieved passages with a cross-encoder, a model that reads query and passage together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache

from contract.errors import InputError
from contract.spec import IndexKind, Retrieval
from contract.verdict import Passage
from workers.engines.packaged import folder_or_hub_id
from workers.retrieval.base import Retriever
from workers.retrieval.sentence_models import load_model

__all__ = ["CrossEncoder", "Rerankers", "RerankingRetriever"]

#: Maximum cross-encoders in memory, where runs want different ones: those used last.
MOST_LOADED = 4
#: Seconds before loading is retried for a reranker that could not be loaded.
MISSING_FOR_S = 60.0


class CrossEncoder:
    """Cross-encoder that scores pairs of query and passage on the CPU. Thread-safe."""

    def __init__(self, model_id: str) -> None:
        """Load the model: a Hugging Face id or a folder.

        Raises ModelNotFound if it is unavailable, HubUnreachable if that may be temporary, InputError for a model that
        does not give a single score.
        """
        model = folder_or_hub_id(model_id, "reranker", [])
        hint = "Check its name and the network."
        self._model = load_model("CrossEncoder", model, setting="reranker", hint=hint, device="cpu")
        if (labels := int(self._model.num_labels)) != 1:
            raise InputError(
                f"reranker: {model} gives {labels} scores per pair, not a single one to rank passages by.",
                hint="Name a cross-encoder with one label; see id2label in its config.json.",
            )
        self._lock = threading.Lock()

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return how well each pair's second text answers its first; greater is better."""
        if not pairs:
            return []
        with self._lock:
            found = self._model.predict(list(pairs), convert_to_numpy=True, show_progress_bar=False)
        return [float(score) for score in found]


class RerankingRetriever(Retriever):
    """Retriever that takes `rerank_from` passages of `retriever` and returns the best by `cross_encoder`'s scores."""

    def __init__(self, retriever: Retriever, cross_encoder: CrossEncoder, rerank_from: int) -> None:
        self._retriever = retriever
        self._cross_encoder = cross_encoder
        self._rerank_from = rerank_from

    def changed(self) -> bool:
        """See `Retriever.changed`."""
        return self._retriever.changed()

    def search(self, queries: Sequence[str], top_k: int, kind: IndexKind | None = None) -> list[list[Passage]]:
        """See `Retriever.search`; ties keep the order of the underlying retriever."""
        found = self._retriever.search(queries, max(top_k, self._rerank_from), kind)
        pairs = [(query, each.text) for query, passages in zip(queries, found, strict=True) for each in passages]
        scores = iter(self._cross_encoder.scores(pairs))
        return [_in_order([(next(scores), each) for each in passages], top_k) for passages in found]


class Rerankers:
    """Cache of the cross-encoders that runs request for `retriever`. Thread-safe.

    Failed loads are not retried for every batch, as they may take long, on an unresponsive hub for example.
    """

    def __init__(self, retriever: Retriever) -> None:
        self.retriever = retriever
        self._lock = threading.Lock()
        self._model: Callable[[str], CrossEncoder] = lru_cache(MOST_LOADED)(CrossEncoder)
        #: For each reranker that failed to load: the monotonic time before which it is not retried, and the error.
        self._missing: dict[str, tuple[float, Exception]] = {}

    def of(self, wanted: Retrieval) -> Retriever:
        """Return the retriever for `wanted`.

        Raises InputError, HubUnreachable if the hub did not answer, or whatever else ended the loading, such as want of
        memory.
        """
        if not wanted.reranker:
            return self.retriever
        with self._lock:
            until, known = self._missing.get(wanted.reranker, (0.0, None))
            if known is not None and time.monotonic() < until:
                raise known.with_traceback(None)
            try:
                model = self._model(wanted.reranker)
            except Exception as trouble:
                self._missing[wanted.reranker] = time.monotonic() + MISSING_FOR_S, trouble
                raise
            return RerankingRetriever(self.retriever, model, wanted.rerank_from)


def _in_order(scored: list[tuple[float, Passage]], top_k: int) -> list[Passage]:
    ordered = sorted(scored, key=lambda pair: -pair[0])[:top_k]
    return [
        passage.model_copy(update={"score": score, "rank": rank})
        for rank, (score, passage) in enumerate(ordered, start=1)
    ]
