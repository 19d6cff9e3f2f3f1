"""The retrieval stage: a batch's questions are looked up together, their passages kept, and the questions sent on."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from contract.errors import HubUnreachable, InputError, ModelNotFound
from contract.index import Manifest
from contract.prompts import query_of, wants_passages
from contract.spec import Retrieval, RunSpec, Stage
from contract.verdict import Failure, Passage
from workers.aggregator import Batch
from workers.retrieval.base import Retriever
from workers.tasks import BatchWork
from workers.work import Endings, NotNow, Settled, Work, Workplace, send_on

if TYPE_CHECKING:
    from workers.retrieval.rerank import CrossEncoder

__all__ = ["BatchRetriever", "Rerankers"]

log = logging.getLogger(__name__)


#: Builds of an index that are open at once: the newest, and the one whose runs go on. Each may hold an encoder.
MOST_OPEN = 2
#: Seconds for which a build that cannot be opened is not tried again: each time its files are hashed.
UNUSABLE_FOR_S = 10.0
#: Seconds for which a reranker that cannot be loaded is taken for missing.
MISSING_FOR_S = 60.0
#: Given a digest: the index of that digest, if it lies here.
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
        #: By digest: until when, by the monotonic clock, one that could not be opened is not tried again, and why.
        self._unusable: dict[str, tuple[float, str]] = {}

    def _unfit(self, spec: RunSpec) -> Failure | None:
        return None if spec.rag else Failure(type="WrongIndex", message="the run asks for no retrieval")

    def _hindrance(self, spec: RunSpec) -> str:
        try:
            if spec.rag is not None:
                self._retriever(spec.rag)
        except NotNow as why:
            return str(why)
        except InputError:
            return ""  # it is told where it is looked for
        return ""

    def _retriever(self, wanted: Retrieval) -> Retriever:
        """What the run wants searched. Raises NotNow where that may be had elsewhere or later, else InputError."""
        with self._opening:
            opened = self._opened.get(wanted.index_digest)
            if opened is not None and opened.retriever.changed():
                self._close(wanted)
                opened = None
            if opened is None:
                opened = self._opened[wanted.index_digest] = Rerankers(self._anew(wanted))
                log.info("index %s: opened as %s", self._name, wanted.index_digest[:8])
            while len(self._opened) > MOST_OPEN:
                del self._opened[next(iter(self._opened))]
        try:
            return opened.of(wanted)
        except HubUnreachable as trouble:
            raise NotNow(str(trouble)) from None

    def _anew(self, wanted: Retrieval) -> Retriever:
        """The build that the run was made for, opened now."""
        until, why = self._unusable.get(wanted.index_digest, (0.0, ""))
        if time.monotonic() < until:
            raise NotNow(why)
        try:
            found = self._reopen(wanted.index_digest)
        except Exception as trouble:  # noqa: BLE001 - whatever lies there now, only this run waits
            why = self._lacks(wanted, f"its folder cannot be opened: {trouble}")
            self._unusable[wanted.index_digest] = time.monotonic() + UNUSABLE_FOR_S, why
            raise NotNow(why) from None
        if found is None:
            raise NotNow(self._lacks(wanted, "bring that build back, or cancel the run and ask the new one"))
        return found

    def _close(self, wanted: Retrieval) -> None:
        self._opened.pop(wanted.index_digest, None)
        log.error("index %s was written over while it was open: closed", self._name)

    def _lacks(self, wanted: Retrieval, what: str) -> str:
        here = " and ".join(digest[:8] for digest in self._opened) or "nothing else open"
        return (
            f"the run was made for index {wanted.index} {wanted.index_digest[:8]} (its corpus, encoder and structure), "
            f"here is {here}: {what}"
        )

    def _together(self, batch: Batch, works: Sequence[Work]) -> Iterator[Endings]:
        found: dict[str, dict[str, list[Passage]]] = defaultdict(dict)
        failed: list[Settled] = []
        staying: set[int] = set()
        searched = [each for each in works if wants_passages(each.item.question, each.item.spec)]
        for wanted, alike in _by_retrieval(searched).items():
            try:
                answers = self._answers(alike, wanted)
            except NotNow as why:  # between the look at its build and the end of its search
                for work in alike:
                    staying.add(id(work))
                    yield self._troubled(batch, work.held, work.item.question.id, work.attempts, str(why))
                continue
            for work, passages in zip(alike, answers, strict=True):
                question_id = work.item.question.id
                if isinstance(passages, Failure):
                    staying.add(id(work))
                    failed.append(self._failed(batch, work.held, question_id, work.attempts, passages))
                else:
                    found[work.held.run_id][question_id] = passages
        yield self._commit(failed)
        for run_id, passages_of in found.items():
            self._ledger.attach(run_id, passages_of)
        going_on = [each for each in works if id(each) not in staying]
        yield send_on(self._send, going_on, Stage.SCORE, "retrieved")
        self.done += len(going_on)

    def _answers(self, works: Sequence[Work], wanted: Retrieval) -> Sequence[list[Passage] | Failure]:
        """What is found for each of `works`, or why nothing could be looked up. Raises NotNow."""
        queries = [query_of(work.item.question, wanted.query) for work in works]
        try:
            retriever = self._retriever(wanted)
        except InputError as trouble:  # without its reranker the run cannot be served, the others can
            log.warning("reranker %s: %s", wanted.reranker, trouble)
            return [_failure(trouble)] * len(works)
        answers = _search(retriever, queries, wanted)
        if retriever.changed():
            with self._opening:
                self._close(wanted)
            raise NotNow(f"index {wanted.index} was written over while it was searched")
        floor = wanted.retrieval_score_threshold
        return [
            found if isinstance(found, Failure) or floor is None else [each for each in found if each.score >= floor]
            for found in answers
        ]


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
        from workers.retrieval.rerank import CrossEncoder, RerankingRetriever

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
