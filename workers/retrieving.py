"""The retrieval stage: a batch's questions are looked up together, their passages kept, and the questions sent on."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from contract.errors import ModelNotFound
from contract.index import Manifest
from contract.prompts import query_of, wants_passages
from contract.spec import Retrieval, RunSpec, Stage
from contract.verdict import Failure, Passage
from workers.aggregator import Batch
from workers.retrieval.base import Retriever
from workers.tasks import BatchWork, Endings, Work, Workplace, send_on

if TYPE_CHECKING:
    from workers.retrieval.rerank import CrossEncoder

__all__ = ["BatchRetriever", "Rerankers"]

log = logging.getLogger(__name__)


#: Builds of an index that are open at once: the newest, and the one whose runs go on. Each may hold an encoder.
MOST_OPEN = 2
#: Seconds for which a reranker that cannot be loaded is taken for missing.
MISSING_FOR_S = 60.0
#: Given a digest: the index that lies in the folder now, if it is that one.
Reopen = Callable[[str], Retriever | None]


class BatchRetriever(BatchWork):
    """The retrieval stage of one index, which may be built anew in its place while it is searched."""

    stage = Stage.RETRIEVE

    def __init__(
        self, workplace: Workplace, retriever: Retriever, manifest: Manifest, reopen: Reopen = lambda _: None
    ) -> None:
        super().__init__(workplace)
        self._name = manifest.plan.name
        #: By digest, the newest last. What was replaced on the disk can be searched as long as it is open.
        self._opened = {manifest.digest: Rerankers(retriever)}
        self._reopen = reopen
        self._opening = threading.Lock()

    def _unfit(self, spec: RunSpec) -> Failure | None:
        wanted = spec.rag
        if wanted is None:
            return Failure(type="WrongIndex", message="the run asks for no retrieval")
        with self._opening:
            if wanted.index_digest in self._opened:
                return None
            try:
                found = self._reopen(wanted.index_digest)
            except Exception as trouble:  # noqa: BLE001 - whatever lies there now, only this run pays
                return self._wrong(wanted, f"; its folder cannot be opened anew: {trouble}")
            if found is None:
                return self._wrong(wanted, ", nor has its folder: give both sides the same")
            log.info("index %s was built anew: opened as %s", self._name, wanted.index_digest[:8])
            self._opened[wanted.index_digest] = Rerankers(found)
            while len(self._opened) > MOST_OPEN:
                del self._opened[next(iter(self._opened))]
        return None

    def _wrong(self, wanted: Retrieval, why: str) -> Failure:
        here = " and ".join(digest[:8] for digest in self._opened)
        message = (
            f"the run was made for index {wanted.index} {wanted.index_digest[:8]} (its corpus, encoder and structure); "
            f"this worker has {self._name} {here}{why}"
        )
        return Failure(type="WrongIndex", message=message)

    def _together(self, batch: Batch, works: Sequence[Work]) -> Iterator[Endings]:
        found, failures = self._look_up([work for work in works if wants_passages(work.item.question, work.item.spec)])
        failures_told = [
            self._failed(batch, work.held, work.item.question.id, work.attempts, failures[id(work)])
            for work in works
            if id(work) in failures
        ]
        yield self._commit(failures_told)
        for run_id, passages in found.items():
            self._ledger.attach(run_id, passages)
        going_on = [work for work in works if id(work) not in failures]
        yield send_on(self._send, going_on, Stage.SCORE, "retrieved")
        self.done += len(going_on)

    def _look_up(self, works: Sequence[Work]) -> tuple[dict[str, dict[str, list[Passage]]], dict[int, Failure]]:
        """Run → question id → passages; and, by identity of the work, why nothing could be retrieved."""
        found: dict[str, dict[str, list[Passage]]] = defaultdict(dict)
        failures: dict[int, Failure] = {}
        for wanted, alike in _by_retrieval(works).items():
            for work, passages in zip(alike, self._answers(alike, wanted), strict=True):
                if isinstance(passages, Failure):
                    failures[id(work)] = passages
                else:
                    found[work.held.run_id][work.item.question.id] = passages
        return found, failures

    def _answers(self, works: Sequence[Work], wanted: Retrieval) -> Sequence[list[Passage] | Failure]:
        """What is found for each of `works`, or why nothing could be looked up."""
        queries = [query_of(work.item.question, wanted.query) for work in works]
        opened = self._opened.get(wanted.index_digest)
        if opened is None:  # closed since this batch was begun, for newer ones
            return [self._wrong(wanted, "")] * len(works)
        try:
            retriever = opened.of(wanted)
        except Exception as trouble:  # noqa: BLE001 - without its reranker the run cannot be served, the others can
            log.warning("reranker %s: %s", wanted.reranker, trouble)
            return [_failure(trouble)] * len(works)
        floor = wanted.retrieval_score_threshold
        return [
            found if isinstance(found, Failure) or floor is None else [each for each in found if each.score >= floor]
            for found in _search(retriever, queries, wanted)
        ]


class Rerankers:
    """`retriever` with each cross-encoder that a run asks for, loaded once. Thread-safe.

    One that cannot be loaded is not tried again for every batch: a hub may take long to say nothing.
    """

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever
        self._lock = threading.Lock()
        self._models: dict[str, CrossEncoder] = {}
        #: Until when, by the monotonic clock, each that could not be loaded is not tried again, and why it could not.
        self._missing: dict[str, tuple[float, str, str]] = {}

    def of(self, wanted: Retrieval) -> Retriever:
        """The retriever as `wanted` has it. Raises ModelNotFound."""
        if not wanted.reranker:
            return self._retriever
        from workers.retrieval.rerank import CrossEncoder, RerankingRetriever

        with self._lock:
            until, message, hint = self._missing.get(wanted.reranker, (0.0, "", ""))
            if time.monotonic() < until:
                raise ModelNotFound(message, hint=hint)
            if wanted.reranker not in self._models:
                try:
                    self._models[wanted.reranker] = CrossEncoder(wanted.reranker)
                except ModelNotFound as trouble:
                    self._missing[wanted.reranker] = time.monotonic() + MISSING_FOR_S, trouble.message, trouble.hint
                    raise
            return RerankingRetriever(self._retriever, self._models[wanted.reranker], wanted.rerank_from)


def _search(retriever: Retriever, queries: Sequence[str], wanted: Retrieval) -> list[list[Passage] | Failure]:
    """One search for all; if it fails as a whole, its halves, down to the query that cannot be answered."""
    try:
        return list(retriever.search(queries, wanted.retrieval_top_k, wanted.kind))
    except Exception as trouble:  # noqa: BLE001 - whatever a search raises, only its culprit pays
        if len(queries) == 1:
            return [_failure(trouble)]
        log.warning("a search of %d queries failed, halving it: %s", len(queries), trouble)
        middle = len(queries) // 2
        return _search(retriever, queries[:middle], wanted) + _search(retriever, queries[middle:], wanted)


def _failure(trouble: Exception) -> Failure:
    return Failure(type="RetrievalFailed", message=f"{type(trouble).__name__}: {trouble}")


def _by_retrieval(works: Sequence[Work]) -> dict[Retrieval, list[Work]]:
    """Questions that are looked up in the same way, together: one search each."""
    groups: dict[Retrieval, list[Work]] = defaultdict(list)
    for work in works:
        if work.item.spec.rag is not None:
            groups[work.item.spec.rag].append(work)
    return groups
