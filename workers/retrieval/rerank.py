"""What was found, put in order anew by a model that reads query and passage together (a cross-encoder)."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from contract.errors import HubUnreachable, InputError, ModelNotFound, first_line
from contract.models import require_hub
from contract.spec import IndexKind, Retrieval
from contract.verdict import Passage
from workers.engines.packaged import folder_or_hub_id
from workers.retrieval.base import Retriever
from workers.retrieval.encoder import sentence_transformers_loaded

__all__ = ["CrossEncoder", "Rerankers", "RerankingRetriever"]

#: Seconds for which a reranker that cannot be loaded is taken for missing.
MISSING_FOR_S = 60.0


class CrossEncoder:
    """Scores pairs of query and passage, on the CPU. Thread-safe."""

    def __init__(self, model_id: str) -> None:
        """Load the model: a Hugging Face id or a folder.

        Raises ModelNotFound where it is not to be had, HubUnreachable where that may pass, InputError for a model that
        gives no single score.
        """
        model = folder_or_hub_id(model_id, "reranker", [])
        at_hub = not Path(model).is_dir()
        if at_hub:
            require_hub(model, "config.json")
        library = sentence_transformers_loaded()
        try:
            self._model = library.CrossEncoder(model, device="cpu", local_files_only=not at_hub)
        except (OSError, ValueError) as trouble:
            # The hub had its configuration a moment ago: what is read of a file is an OSError, and so is the network's.
            kind = HubUnreachable if at_hub and isinstance(trouble, OSError) else ModelNotFound
            raise kind(
                f"reranker: {model} cannot be loaded: {first_line(trouble)}.", hint="Check its name and the network."
            ) from None
        if (labels := int(self._model.num_labels)) != 1:
            raise InputError(
                f"reranker: {model} gives {labels} scores to a pair, not one to order passages by.",
                hint="Name a cross-encoder with one label: its config.json says so by id2label.",
            )
        self._lock = threading.Lock()

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """How well each pair's second text answers its first; greater is better."""
        if not pairs:
            return []
        with self._lock:
            found = self._model.predict(list(pairs), convert_to_numpy=True, show_progress_bar=False)
        return [float(score) for score in np.asarray(found)]


class RerankingRetriever(Retriever):
    """Has `retriever` find `rerank_from` passages, and gives the best of them by `cross_encoder`, with its scores."""

    def __init__(self, retriever: Retriever, cross_encoder: CrossEncoder, rerank_from: int) -> None:
        self._retriever = retriever
        self._cross_encoder = cross_encoder
        self._rerank_from = rerank_from

    def changed(self) -> bool:
        """See `Retriever.changed`."""
        return self._retriever.changed()

    def search(self, queries: Sequence[str], top_k: int, kind: IndexKind | None = None) -> list[list[Passage]]:
        """See `Retriever.search`; equal scores stay in the order in which they were found."""
        found = self._retriever.search(queries, max(top_k, self._rerank_from), kind)
        pairs = [(query, each.text) for query, passages in zip(queries, found, strict=True) for each in passages]
        scores = iter(self._cross_encoder.scores(pairs))
        return [_in_order([(next(scores), each) for each in passages], top_k) for passages in found]


class Rerankers:
    """`retriever` with each cross-encoder that a run asks for, loaded once. Thread-safe.

    One that cannot be loaded is not tried again for every batch: a hub may take long to say nothing.
    """

    def __init__(self, retriever: Retriever) -> None:
        self.retriever = retriever
        self._lock = threading.Lock()
        self._models: dict[str, CrossEncoder] = {}
        #: Until when, by the monotonic clock, each that could not be loaded is not tried again, and why it could not.
        self._missing: dict[str, tuple[float, ModelNotFound]] = {}

    def of(self, wanted: Retrieval) -> Retriever:
        """The retriever as `wanted` has it. Raises InputError; HubUnreachable where the hub gave no answer."""
        if not wanted.reranker:
            return self.retriever
        with self._lock:
            until, known = self._missing.get(wanted.reranker, (0.0, None))
            if known is not None and time.monotonic() < until:
                raise type(known)(known.message, hint=known.hint)
            if wanted.reranker not in self._models:
                try:
                    self._models[wanted.reranker] = CrossEncoder(wanted.reranker)
                except ModelNotFound as trouble:
                    self._missing[wanted.reranker] = time.monotonic() + MISSING_FOR_S, trouble
                    raise
            return RerankingRetriever(self.retriever, self._models[wanted.reranker], wanted.rerank_from)


def _in_order(scored: list[tuple[float, Passage]], top_k: int) -> list[Passage]:
    ordered = sorted(scored, key=lambda pair: -pair[0])[:top_k]
    return [
        passage.model_copy(update={"score": score, "rank": rank})
        for rank, (score, passage) in enumerate(ordered, start=1)
    ]
