"""The retrieval stage: searches for all questions of a batch, stores the passages, and sends the questions on."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from ctypes import c_float
from functools import partial

from contract.errors import InputError, UnknownRun
from contract.index import Manifest
from contract.prompts import query_of, wants_passages
from contract.spec import Retrieval, RunSpec, Stage
from contract.verdict import Failure, Passage
from contract.wording import number
from workers.messages.batch import Batch
from workers.retries import reason_of
from workers.retrieval.base import Retriever
from workers.stages.base import BatchWork
from workers.stages.index_builds import OpenBuilds, Reopen
from workers.stages.work import Endings, NotNow, Settled, StageContext, Work, send_on

__all__ = ["BatchRetriever"]

log = logging.getLogger(__name__)


class BatchRetriever(BatchWork):
    """The retrieval stage of one index, which may be rebuilt in place while it is searched."""

    stage = Stage.RETRIEVE

    def __init__(
        self, context: StageContext, retriever: Retriever, manifest: Manifest, reopen: Reopen = lambda _: None
    ) -> None:
        super().__init__(context)
        self._builds = OpenBuilds(retriever, manifest, reopen)

    def _unfit(self, spec: RunSpec) -> Failure | None:
        return None if spec.rag else Failure(type="WrongIndex", message="the run asks for no retrieval")

    def _hindrance(self, spec: RunSpec) -> str:
        try:
            if spec.rag is not None:
                self._builds.of(spec.rag)
        except NotNow as why:
            return str(why)
        except InputError:
            return ""  # reported as the failure of each question, in `_perform`
        return ""

    def _perform(self, batch: Batch, works: Sequence[Work]) -> Iterator[Endings]:
        found: dict[str, dict[str, list[Passage]]] = defaultdict(dict)
        failed: list[Settled] = []
        staying: set[int] = set()
        searched = [each for each in works if wants_passages(each.item.question, each.item.spec)]
        for wanted, alike in _by_retrieval(searched).items():
            try:
                answers = self._answers(alike, wanted)
            except NotNow as why:  # the build was available in `_hindrance`, and has gone since
                for work in alike:
                    staying.add(id(work))
                    yield self._recorder.retry_or_fail(batch, work.held, work.question_id, work.attempts, str(why))
                continue
            except InputError as trouble:  # without its reranker, for example, only this run cannot be served
                log.warning("index %s: %s", wanted.index, trouble)
                failure = Failure(type="RetrievalFailed", message=reason_of(trouble))
                for work in alike:
                    staying.add(id(work))
                    failed.append(self._recorder.failed(batch, work.held, work.question_id, work.attempts, failure))
                continue
            for work, passages in zip(alike, answers, strict=True):
                found[work.run_id][work.question_id] = passages
        yield self._recorder.commit(failed)
        purged: set[str] = set()
        for run_id, passages_of in found.items():
            try:
                what = f"passages of {number(len(passages_of), 'question')}"
                self._recorder.outlasting(what, partial(self._ledger.attach, run_id, passages_of))
            except UnknownRun:  # purged while it was searched; the other runs' questions go on
                purged.add(run_id)
        # Those with a context of their own; a search that ended has its attempts taken back by `attach`.
        self._recorder.uncount([each for each in works if not wants_passages(each.item.question, each.item.spec)])
        going_on = [each for each in works if id(each) not in staying and each.held.run_id not in purged]
        yield send_on(self._send, going_on, Stage.SCORE, "retrieved")
        self._recorder.count_done(len(going_on))

    def _answers(self, works: Sequence[Work], wanted: Retrieval) -> list[list[Passage]]:
        """Return the passages for each of `works`. Raises NotNow, InputError, and whatever ended the search."""
        retriever = self._builds.of(wanted)
        queries = [query_of(work.item.question, wanted.query) for work in works]
        answers = retriever.search(queries, wanted.retrieval_top_k, wanted.kind)
        if retriever.changed():  # the next call closes it
            raise NotNow(f"index {wanted.index} was overwritten while it was searched")
        if wanted.retrieval_score_threshold is None:
            return answers
        # In single precision, as scores are: those of hybrid searches are known values.
        floor = c_float(wanted.retrieval_score_threshold).value
        return [[each for each in found if each.score >= floor] for found in answers]


def _by_retrieval(works: Sequence[Work]) -> dict[Retrieval, list[Work]]:
    """Group questions with the same retrieval options: one search each."""
    groups: dict[Retrieval, list[Work]] = defaultdict(list)
    for work in works:
        if work.item.spec.rag is not None:
            groups[work.item.spec.rag].append(work)
    return groups
