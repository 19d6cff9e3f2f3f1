"""Types for questions in a stage: the question with its message, its ending, and the context of the stage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

from contract import keys
from contract.ledger import Ledger
from contract.priority import Priority
from contract.prompts import wants_passages
from contract.queue import QuestionBatch
from contract.settings import Settings
from contract.spec import Stage
from contract.verdict import Verdict
from workers.engines.base import NotServed, UnexpectedFailure
from workers.messages.batch import Batch, HeldMessage
from workers.scoring import Item

__all__ = [
    "AGAIN",
    "KNOWN_RUNS",
    "Endings",
    "NotNow",
    "Send",
    "Settled",
    "StageContext",
    "Work",
    "asked_by_run",
    "by_run",
    "send_on",
]

W = TypeVar("W", bound="Work | Settled")

#: Sends question batches on to a queue.
Send: TypeAlias = Callable[[str, Sequence[QuestionBatch]], object]
#: Called with the verdicts of questions that this worker has settled, once they are in the ledger.
OnCommitted: TypeAlias = Callable[[Sequence[Verdict]], object]
#: Called after a generate call with its number of questions, its seconds, and the longest queueing time in seconds.
OnGenerated: TypeAlias = Callable[[int, float, float], object]
#: (run, question) → how it ended here: its outcome, where it was sent on to, or why it was not begun.
Endings: TypeAlias = dict[tuple[str, str], str]
#: The ending of a question whose attempt failed but was not the last, or that was put off: its message is requeued.
AGAIN = "to be retried"
#: Number of runs of which a stage caches something.
KNOWN_RUNS = 256


class NotNow(Exception):
    """This worker cannot do its stage for a run at the moment, for the given reason: another may, or this one later."""


class Work(NamedTuple):
    """A question of a batch, its message, and its number of attempts, including this one."""

    item: Item
    held: HeldMessage
    attempts: int

    @property
    def run_id(self) -> str:
        return self.held.run_id

    @property
    def question_id(self) -> str:
        return self.item.question.id

    @property
    def wants_passages(self) -> bool:
        """Whether it is only asked with retrieved passages."""
        return wants_passages(self.item.question, self.item.spec)


class Settled(NamedTuple):
    """A verdict, and the message of its question."""

    held: HeldMessage
    verdict: Verdict

    @property
    def run_id(self) -> str:
        return self.held.run_id

    @property
    def question_id(self) -> str:
        return self.verdict.question_id

    @property
    def attempts(self) -> int:
        return self.verdict.attempts

    @property
    def unforeseen(self) -> bool:
        """Whether it failed with an unexpected error, which may be transient."""
        return isinstance(self.verdict.error, UnexpectedFailure) and not self.unserved

    @property
    def unserved(self) -> str:
        """What its judge said, if that serves nobody for now; else empty."""
        return self.verdict.error.message if isinstance(self.verdict.error, NotServed) else ""


@dataclass(frozen=True, slots=True)
class StageContext:
    """What a worker provides to its stage."""

    settings: Settings
    ledger: Ledger
    #: The worker's name.
    worker: str
    send: Send
    #: Whether the worker is stopping.
    stopping: Callable[[], bool] = lambda: False
    committed: OnCommitted = lambda _: None
    generated: OnGenerated = lambda *_: None


def send_on(send: Send, works: Sequence[Work], stage: Stage, ending: str) -> Endings:
    """Send the questions of `works` on to `stage`, keeping messages together; return `ending` for each."""
    by_queue: dict[str, list[QuestionBatch]] = defaultdict(list)
    #: By the message received.
    sent_on: dict[int, QuestionBatch] = {}
    for work in works:
        held = work.held
        if id(held) not in sent_on:
            message = QuestionBatch(held.run_id, [], Priority(held.priority), held.published_at)
            sent_on[id(held)] = message
            by_queue[keys.queue_of(stage, work.item.spec)].append(message)
        sent_on[id(held)].question_ids.append(work.question_id)
    for queue, messages in by_queue.items():
        send(queue, messages)
    return {(work.run_id, work.question_id): ending for work in works}


def by_run(works: Sequence[W]) -> dict[str, list[W]]:
    """Group `works` by run."""
    runs: dict[str, list[W]] = defaultdict(list)
    for work in works:
        runs[work.run_id].append(work)
    return runs


def asked_by_run(batch: Batch) -> dict[str, dict[str, HeldMessage]]:
    """Return run → question id → its message; a question in several messages is asked once."""
    runs: dict[str, dict[str, HeldMessage]] = defaultdict(dict)
    for held in batch.held:
        for question_id in held.question_ids:
            runs[held.run_id].setdefault(question_id, held)
    return runs
