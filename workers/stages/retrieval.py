"""The retrieval stage: searches for all questions of a batch, stores the passages, and sends the questions on."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from ctypes import c_float
from functools import partial

from contract.errors import InputError, LedgerError, UnknownRun
from contract.index import Manifest
from contract.prompts import query_of
from contract.spec import Retrieval, RunSpec, Stage
from contract.verdict import Failure, Passage
from contract.wording import number
from workers.messages.batch import Batch
from workers.retries import reason_of
from workers.retrieval.base import Retriever
from workers.stages.base import BatchWork
from workers.stages.index_builds import OpenBuilds, Reopen
from workers.stages.work import Endings, NotNow, Settled, StageContext, Work, by_run, send_on

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
        for wanted, alike in _by_retrieval([each for each in works if each.wants_passages]).items():
            try:
                answers = self._answers(alike, wanted)
            except NotNow as why:  # the build was available in `_hindrance`, and has gone since
                for work in alike:
                    yield self._retry_or_fail(batch, work, str(why))
                continue
            except InputError as trouble:  # without its reranker, for example, only this run cannot be served
                log.warning("index %s: %s", wanted.index, trouble)
                failure = Failure(type="RetrievalFailed", message=reason_of(trouble))
                failed += [
                    self._recorder.failed(batch, work.held, work.question_id, work.attempts, failure) for work in alike
                ]
                continue
            for work, passages in zip(alike, answers, strict=True):
                found[work.run_id][work.question_id] = passages
        yield self._commit(failed)
        ready = [each for each in works if not each.wants_passages or each.question_id in found[each.run_id]]
        going_on, put_off = self._stored(ready, found)
        # Of those with a context of their own; where a search ended, `attach` has taken the attempts back.
        self._recorder.uncount([each for each in going_on if not each.wants_passages])
        yield put_off | send_on(self._send, going_on, Stage.SCORE, "retrieved")
        self._recorder.count_done(len(going_on))

    def _stored(
        self, works: Sequence[Work], found: Mapping[str, Mapping[str, list[Passage]]]
    ) -> tuple[list[Work], Endings]:
        """Store the passages, by run and question; return what goes on, and the endings of what is put off.

        Of a run that was purged while it was searched, nothing goes on; one whose data are damaged is put off.
        """
        going_on: list[Work] = []
        put_off: Endings = {}
        for run_id, of_run in by_run(works).items():
            try:
                if passages_of := found.get(run_id):
                    what = f"passages of {number(len(passages_of), 'question')}"
                    self._recorder.despite_outages(what, partial(self._ledger.attach, run_id, passages_of))
                going_on += of_run
            except UnknownRun:
                continue
            except LedgerError as trouble:
                put_off |= self._put_off_damaged(run_id, of_run, trouble)
        return going_on, put_off

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
