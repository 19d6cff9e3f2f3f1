"""The scoring stage: asks the engine all questions of a batch together, and commits the verdicts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from contract.errors import LedgerError, UnreadableRun
from contract.spec import Judge, RunSpec, Stage
from contract.verdict import Failure
from workers.budget import in_calls
from workers.engines.base import Engine
from workers.messages.batch import Batch
from workers.pipeline import JudgeEngine, no_judges, score_in_parts
from workers.reading import Reader, read_here
from workers.retries import one_line
from workers.stages.base import BatchWork
from workers.stages.work import Endings, Settled, StageContext, Work, by_run, send_on

__all__ = ["BatchScorer", "gathered"]

T = TypeVar("T")


class BatchScorer(BatchWork):
    """The scoring stage."""

    stage = Stage.SCORE

    def __init__(
        self,
        context: StageContext,
        engine: Engine,
        judge_engine: JudgeEngine = no_judges,
        judge_waits_for: Callable[[Judge], str] = lambda _: "",
        reader: Reader = read_here,
    ) -> None:
        super().__init__(context)
        self._judge_engine = judge_engine
        self._judge_waits_for = judge_waits_for
        self._engine = engine
        self._reader = reader
        self._generated = context.generated

    def _hindrance(self, spec: RunSpec) -> str:
        if spec.adapter and spec.adapter not in self._settings.adapters:
            known = ", ".join(self._settings.adapters) or "none"
            return f"the run asks for the adapter {spec.adapter!r}, this worker has {known}: see `adapters`"
        if spec.vllm_version and spec.vllm_version != (here := self._engine.describe().get("vllm", "none")):
            return f"the run asks for vLLM {spec.vllm_version}, this worker has {here}"
        said = self._judge_waits_for(spec.judge) if spec.judge and spec.judge.server else ""
        return said and _no_judge(said)

    def _unfit(self, spec: RunSpec) -> Failure | None:
        if not self._settings.serves(spec.model):
            message = f"the run asks for {spec.model}, this worker serves {self._settings.served_model}"
            return Failure(type="WrongModel", message=message)
        if spec.rag and spec.rag.max_context_tokens and not self._engine.counts_tokens:
            message = (
                "the run limits its passages by max_context_tokens, and this worker's server does not count tokens "
                "(vLLM's does, at /tokenize): leave rag.max_context_tokens out, lower rag.retrieval_top_k instead, or "
                "requeue it for another worker"
            )
            return Failure(type="WrongEngine", message=message)
        return None

    def _describe_engine(self) -> dict[str, Any]:
        return self._engine.describe()

    def _perform(self, batch: Batch, works: Sequence[Work]) -> Iterator[Endings]:
        works, not_asked = self._with_passages(works)
        yield not_asked
        for part in self._calls(works):
            yield from self._scored(batch, part)

    def _scored(self, batch: Batch, works: Sequence[Work]) -> Iterator[Endings]:
        """Ask `works` in one generate call, and commit verdicts while its longest texts are still being generated."""
        provenances = self._recorder.provenances(batch, [(work.held, work.attempts) for work in works])
        latency_ms = 0.0
        parts = score_in_parts(
            [work.item for work in works], self._engine, self._judge_engine, provenances, self._reader
        )
        for part in gathered(parts, self._settings.settle_every_s):
            latency_ms = part[-1][1].latency_ms
            yield self._settled(batch, [Settled(works[i].held, verdict) for i, verdict in part])
        self._generated(len(works), latency_ms / 1000, max([each["queued_ms"] for each in provenances]) / 1000)

    def _settled(self, batch: Batch, settled: Sequence[Settled]) -> Endings:
        """Commit the verdicts, but retry questions with an unforeseen failure, and put off those without a judge."""
        endings = self._commit([each for each in settled if not each.unforeseen and not each.unserved])
        for each in settled:
            if each.unforeseen:
                endings |= self._retry_or_fail(batch, each, one_line(str(each.verdict.error)))
        return endings | self._put_off_unserved([each for each in settled if each.unserved])

    def _put_off_unserved(self, settled: Sequence[Settled]) -> Endings:
        """Put off these questions, which their judge did not serve."""
        endings: Endings = {}
        for run_id, of_run in by_run(settled).items():
            endings |= self._put_off(run_id, of_run, _no_judge(of_run[-1].unserved))
        return endings

    def _calls(self, works: Sequence[Work]) -> Iterator[Sequence[Work]]:
        """Split `works` into generate calls: a single one, unless `batch_tokens` limits it."""
        if not works:
            return
        if not self._settings.batch_tokens:
            yield works
            return
        for part in in_calls([work.item for work in works], self._engine, self._settings.batch_tokens):
            yield works[part]

    def _with_passages(self, works: Sequence[Work]) -> tuple[list[Work], Endings]:
        """Attach the retrieved passages to `works`; send questions that still lack them back to retrieval.

        Those of a run whose passages only an updated worker can read, or none, are put off.
        """
        ready: list[Work] = []
        astray: list[Work] = []
        put_off: Endings = {}
        for run_id, of_run in by_run(works).items():
            wanting = {each.question_id for each in of_run if each.wants_passages}
            try:
                found = self._recorder.despite_outages("a batch", partial(self._ledger.passages, run_id, list(wanting)))
            except UnreadableRun as trouble:
                put_off |= self._put_off(run_id, of_run, str(trouble))
                continue
            except LedgerError as trouble:
                put_off |= self._put_off_damaged(run_id, of_run, trouble)
                continue
            for work in of_run:
                question_id = work.question_id
                if question_id not in wanting:
                    ready.append(work)
                elif question_id in found:
                    ready.append(work._replace(item=work.item._replace(passages=found[question_id])))
                else:
                    astray.append(work)
        return ready, put_off | send_on(self._send, astray, Stage.RETRIEVE, "back to retrieval")


def gathered(
    parts: Iterable[list[T]], every_s: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[list[T]]:
    """Yield the members of `parts` in larger lists: about every `every_s`, all that have come since the last one.

    The clock is read whenever a part comes, also an empty one. If `parts` raises, what came before is yielded first.
    """
    kept: list[T] = []
    due_at = clock() + every_s
    try:
        for part in parts:
            kept += part
            if kept and clock() >= due_at:
                yield kept
                kept, due_at = [], clock() + every_s
    except Exception:
        if kept:
            yield kept
        raise
    if kept:
        yield kept


def _no_judge(said: str) -> str:
    """Return why a run is put off whose judge refuses everybody, or is gone for a while."""
    return one_line(f"its judge serves nobody for now: {said}")
