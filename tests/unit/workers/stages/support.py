"""A batch scored with an engine that can die, on a ledger in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from contract import Ledger, Run, Settings, load_settings
from contract.errors import EngineDead
from contract.queue import QuestionBatch
from contract.verdict import Failure, Verdict
from tests.support import SIMULATED_MODEL
from tests.unit.workers.messages.batches import batch_of
from workers.engines.base import Completion, Engine, Request
from workers.engines.simulated import SimulatedEngine
from workers.messages.batch import Batch, HeldMessage
from workers.stages.scoring import BatchScorer
from workers.stages.work import StageContext

__all__ = ["SETTINGS", "CountingEngine", "at_once", "error_of", "nowhere", "score", "scorer", "verdict_of"]

SETTINGS = load_settings(None, ["engine=simulated", f"model={SIMULATED_MODEL}", "max_attempts=4"])


class CountingEngine(SimulatedEngine):
    """The simulated engine, with its calls counted and a death on demand."""

    def __init__(self) -> None:
        super().__init__(SETTINGS)
        self.start()
        self.calls: list[int] = []
        self.dies_at: Callable[[Sequence[Request]], bool] = lambda _: False
        self.death = EngineDead("gone")
        self.raises: dict[str, Exception] = {}

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        self.calls.append(len(requests))
        if self.dies_at(requests):
            raise self.death
        for text, trouble in self.raises.items():
            if any(text in each.prompt for each in requests):
                raise trouble
        return super().generate(requests)


def nowhere(queue: str, messages: Sequence[QuestionBatch]) -> None:
    raise AssertionError(f"{len(messages)} messages sent to {queue}")


def at_once() -> bool:
    """Told to end, a worker does not rest before a message comes again."""
    return True


def scorer(books: Ledger, engine: Engine, settings: Settings = SETTINGS, **more: Any) -> BatchScorer:
    """The stage of the worker w@host, which sends nothing on; `more` is of its context."""
    return BatchScorer(StageContext(settings, books, "w@host", nowhere, **more), engine)


def score(books: Ledger, engine: Engine, *held: HeldMessage) -> Batch:
    batch = batch_of(*held)
    scorer(books, engine).run(batch)
    return batch


def verdict_of(books: Ledger, run: Run, question_id: str) -> Verdict:
    verdict = books.result(run.run_id, question_id)[1]
    assert verdict is not None
    return verdict


def error_of(books: Ledger, run: Run, question_id: str) -> Failure:
    error = verdict_of(books, run, question_id).error
    assert error is not None
    return error
