"""A machine that plays every order of events between queue, workers and ledger, beside a model of what must be true.

Real: the ledger, `Gathering`, `BatchScorer`. Played: the broker (a list of messages, and what each worker holds) and
death. Whatever happens, in whatever order: every enqueued question ends in exactly one verdict, no message is
acknowledged before its questions are settled or put aside, and no stored verdict changes unless a failed one is taken
back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from contract import Ledger, Outcome, Question, Run, RunState, Verdict, load_settings
from contract.chunks import chunks
from contract.errors import EngineDead, RedisUnreachable, RunHalted, UnknownRun
from contract.priority import Priority
from contract.queue import MESSAGE_VERSION
from tests.support import SIMULATED_MODEL, make_question, open_run
from workers.engines.base import Completion, Request
from workers.engines.simulated import SimulatedEngine
from workers.messages.batch import Batch, HeldMessage, Settlement
from workers.messages.batching import Gathering
from workers.stages.scoring import BatchScorer
from workers.stages.work import StageContext

__all__ = ["Interleavings", "make_quick"]

SETTINGS = load_settings(
    None, ["engine=simulated", f"model={SIMULATED_MODEL}", "max_attempts=3", "simulated.reject_text=refused"]
)
NAMES = ("one", "two", "three")
WORKERS = ("w0", "w1")
MESSAGE_SIZE = 2
VERBS = ("enqueue_again", "pause", "cancel", "resume", "requeue", "requeue_failed", "purge")
ENDS = ("well", "killed in the call", "killed before acknowledging", "redis away")
MEANWHILE = ("nothing", "pause", "cancel", "pause and resume", "purge", "taken for dead")


class Killed(BaseException):
    """kill -9: nothing catches it."""


class Engine(SimulatedEngine):
    """Answers, and lets something happen while it does."""

    def __init__(self) -> None:
        super().__init__(SETTINGS)
        self.start()
        self.meanwhile: list[Callable[[Sequence[Request]], None]] = []

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        while self.meanwhile:
            self.meanwhile.pop()(requests)
        if any("poison" in each.prompt for each in requests):
            raise EngineDead("poisoned")
        if any("baffling" in each.prompt for each in requests):
            raise ZeroDivisionError("what no engine should raise")
        return super().generate(requests)


@dataclass
class Worker:
    """A worker's memory: gone when it is killed."""

    gathering: Gathering[HeldMessage] = field(default_factory=lambda: Gathering(4, 1.0, 2, 2))
    engine: Engine = field(default_factory=Engine)
    batches: int = 0


@dataclass
class Truth:
    """What must be so of one run."""

    run: Run
    questions: list[Question]
    state: RunState = RunState.RUNNING
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        return len(self.verdicts) == len(self.questions)


Message = tuple[str, tuple[str, ...]]


def make_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have retries follow at once, and no version read from our package's files for each of thousands of batches."""
    monkeypatch.setattr("workers.stages.pauses.RETRY_PAUSE_S", 0.0)
    monkeypatch.setattr("workers.scoring.metadata", SimpleNamespace(version=lambda _: "0"))


class Interleavings(RuleBasedStateMachine):
    """Subclasses say where an empty ledger comes from."""

    make_ledger: Callable[[], Ledger]

    def __init__(self) -> None:
        super().__init__()
        self.ledger = type(self).make_ledger()
        self.truths: dict[str, Truth] = {}
        self.queue: list[Message] = []
        #: Books of held messages; they outlive their worker.
        self.held: dict[str, list[Message]] = {name: [] for name in WORKERS}
        self.workers = {name: Worker() for name in WORKERS}
        self.now_s = 0.0

    # The producer

    @initialize(sizes=st.lists(st.integers(1, 9), min_size=2, max_size=3), odd=st.integers(0, 20))
    def start(self, sizes: list[int], odd: int) -> None:
        for at, (name, size) in enumerate(zip(NAMES, sizes, strict=False)):
            texts = {odd % 7: "poison", odd % 5: "refused", odd % 3: "baffling"} if at == 0 else {}
            self._enqueue_new(name, [make_question(n, question=f"{name} {n} {texts.get(n, '')}") for n in range(size)])

    def _enqueue_new(self, name: str, questions: list[Question]) -> None:
        run = open_run(self.ledger, questions, name=name)
        self.truths[name] = Truth(run, questions)
        self._publish(name, [each.id for each in questions])

    def _publish(self, name: str, ids: Sequence[str]) -> None:
        run_id = self.truths[name].run.run_id
        self.queue += [(run_id, tuple(chunk)) for chunk in chunks(ids, MESSAGE_SIZE)]

    def _missing(self, name: str) -> list[str]:
        run_id = self.truths[name].run.run_id
        everywhere = self.queue + [message for held in self.held.values() for message in held]
        accounted = {each for of_run, ids in everywhere if of_run == run_id for each in ids}
        return [each for each in self.ledger.unsettled(run_id) if each not in accounted]

    def _go_on(self, name: str) -> None:
        """As `contract.audit.go_on`."""
        truth = self.truths[name]
        self.ledger.resume(truth.run.run_id)
        truth.state = RunState.RUNNING
        aside = list(self.ledger.take_aside(truth.run.run_id))
        self._publish(name, aside + [each for each in self._missing(name) if each not in set(aside)])

    def enqueue_again(self, name: str) -> None:
        truth = self.truths.get(name)
        if truth is None:
            return
        assert self.ledger.open_run(truth.run) == truth.run
        self.ledger.add_questions(truth.run.run_id, truth.questions)
        if truth.state is RunState.CANCELLED:
            self._go_on(name)
        elif truth.state is RunState.RUNNING:
            self._publish(name, self._missing(name))

    def pause(self, name: str) -> None:
        self._halt(name, RunState.PAUSED)

    def cancel(self, name: str) -> None:
        self._halt(name, RunState.CANCELLED)

    def _halt(self, name: str, state: RunState) -> None:
        truth = self.truths.get(name)
        if truth is not None:
            truth.state = truth.state if truth.state is RunState.CANCELLED else state
            assert self.ledger.halt(truth.run.run_id, state) is truth.state

    def resume(self, name: str) -> None:
        if name in self.truths:
            self._go_on(name)

    def requeue(self, name: str) -> None:
        truth = self.truths.get(name)
        if truth is not None and truth.state is RunState.RUNNING:
            self._publish(name, self._missing(name))

    def requeue_failed(self, name: str) -> None:
        truth = self.truths.get(name)
        if truth is None:
            return
        failed = [each for each, verdict in truth.verdicts.items() if verdict.outcome is Outcome.FAILED]
        try:
            assert sorted(self.ledger.reopen_failed(truth.run.run_id)) == sorted(failed)
        except RunHalted:
            assert truth.state is not RunState.RUNNING
            assert not truth.finished
            return
        for each in failed:
            del truth.verdicts[each]
        truth.state = RunState.RUNNING if failed else truth.state
        self._publish(name, failed + [each for each in self._missing(name) if each not in set(failed)])

    def purge(self, name: str, *, again: bool = True) -> None:
        truth = self.truths.pop(name, None)
        if truth is not None:
            self.ledger.purge(truth.run.run_id)
            if again:
                self._enqueue_new(name, truth.questions)

    @rule(name=st.sampled_from(NAMES), verb=st.sampled_from(VERBS))
    def command(self, name: str, verb: str) -> None:
        getattr(self, verb)(name)

    # The broker

    @precondition(lambda self: self.queue)
    @rule(data=st.data(), lost=st.booleans())
    def lose_or_duplicate_a_message(self, data: st.DataObject, lost: bool) -> None:
        at = data.draw(st.integers(0, len(self.queue) - 1))
        if lost:
            self.queue.pop(at)
        else:
            self.queue.insert(0, self.queue[at])

    @rule(draw=st.randoms(use_true_random=False))
    def put_into_another_order(self, draw: Random) -> None:
        """As janitors do, by turns and weights; whatever they choose, nothing else may depend on it."""
        draw.shuffle(self.queue)

    @rule(name=st.sampled_from(WORKERS), how_many=st.integers(1, 3), priority=st.sampled_from(Priority))
    def deliver(self, name: str, how_many: int, priority: Priority = Priority.NORMAL) -> None:
        worker = self.workers[name]
        while how_many and self.queue and worker.gathering.has_room():
            message = self.queue.pop(0)
            self.held[name].append(message)
            held = HeldMessage(cast(Any, message), *message, 0.0, priority, MESSAGE_VERSION, arrived_at=0.0)
            awaited = priority == Priority.HIGH
            worker.gathering.add(held, len(held.question_ids), self.now_s, priority, awaited=awaited)
            how_many -= 1

    @rule()
    def audit(self) -> None:
        """As the janitor does where a run looks stalled."""
        for name, truth in self.truths.items():
            if truth.run.run_id in self.ledger.open_runs():
                self._publish(name, self._missing(name))

    # Workers

    @rule(
        name=st.sampled_from(WORKERS),
        meanwhile=st.lists(st.sampled_from(MEANWHILE), min_size=1, max_size=3),
        run=st.sampled_from(NAMES),
    )
    def work(self, name: str, meanwhile: list[str], run: str) -> None:
        """Batches that end well, one after another."""
        for each in meanwhile:
            self.deliver(name, 2)
            self.score(name, 2.0, each, run, "well")

    @rule(
        name=st.sampled_from(WORKERS),
        seconds=st.sampled_from([0.0, 2.0]),
        meanwhile=st.sampled_from(MEANWHILE),
        run=st.sampled_from(NAMES),
        end=st.sampled_from(ENDS),
    )
    def score(self, name: str, seconds: float, meanwhile: str, run: str, end: str) -> None:
        self.now_s += seconds
        worker = self.workers[name]
        gathered = worker.gathering.take(self.now_s)
        if gathered is None:
            return
        worker.batches += 1
        batch = Batch(worker.batches, gathered.items, gathered.questions, gathered.flush, gathered.waited_s)
        halted = {truth.run.run_id for truth in self.truths.values() if truth.state is not RunState.RUNNING}
        worker.engine.meanwhile = [
            lambda _: self._meanwhile(meanwhile, run, name),
            lambda requests: self._assert_none_of(halted, requests),
        ]
        if end == "killed in the call":
            worker.engine.meanwhile.insert(0, _kill)
        ledger = self.ledger if end != "redis away" else cast(Ledger, _NoCommits(self.ledger))
        scorer = BatchScorer(StageContext(SETTINGS, ledger, name, _send_nothing, stopping=lambda: True), worker.engine)
        try:
            scorer.run(batch)
        except Killed:
            self.crash(name)
            return
        self._record_new_verdicts()
        if end == "killed before acknowledging" or batch.fatal:
            self.crash(name)
            return
        for held in batch.held:
            self._settle(name, held)
        worker.gathering.done(batch.questions)

    @rule(name=st.sampled_from(WORKERS))
    def crash(self, name: str) -> None:
        """kill -9; the next worker of that name, or the janitor, puts back what it held."""
        self.workers[name] = Worker()
        self.queue += self.held[name]
        self.held[name] = []

    def _settle(self, name: str, held: HeldMessage) -> None:
        message: Message = cast(Any, held.request)
        if message in self.held[name]:
            self.held[name].remove(message)
        if held.settlement is Settlement.REQUEUE:
            self.queue.insert(0, message)
            return
        truth = next((each for each in self.truths.values() if each.run.run_id == held.run_id), None)
        if truth is None or truth.state is not RunState.RUNNING:
            return
        # The run may have been halted and resumed, or purged and enqueued again, while the batch ran: then its
        # questions are in other messages by now.
        elsewhere = {each for run_id, ids in self._everywhere() if run_id == held.run_id for each in ids}
        for question_id in held.question_ids:
            assert question_id in truth.verdicts or question_id in elsewhere, "acknowledged too early"

    def _everywhere(self) -> list[Message]:
        return self.queue + [message for held in self.held.values() for message in held]

    def _meanwhile(self, what: str, run: str, name: str) -> None:
        self._record_new_verdicts()
        if what == "taken for dead":
            # Its messages are put back while it works: the other worker is given the same questions.
            other = next(each for each in WORKERS if each != name)
            self.queue = self.held[name] + self.queue
            self.held[name] = []
            self.deliver(other, 3)
            self.score(other, 2.0, "nothing", run, "well")
        elif what == "pause and resume":
            self.pause(run)
            self.resume(run)
        elif what != "nothing":
            {"pause": self.pause, "cancel": self.cancel, "purge": self.purge}[what](run)

    def _assert_none_of(self, halted: set[str], requests: Sequence[Request]) -> None:
        stopped = [name for name, truth in self.truths.items() if truth.run.run_id in halted]
        assert not any(f"Question: {name} " in each.prompt for each in requests for name in stopped)

    def _record_new_verdicts(self) -> None:
        for truth in self.truths.values():
            for question, verdict in self.ledger.results(truth.run.run_id):
                if verdict is not None:
                    truth.verdicts.setdefault(question.id, verdict)

    # What is always true

    @invariant()
    def the_books_are_as_they_must_be(self) -> None:
        for truth in self.truths.values():
            results = list(self.ledger.results(truth.run.run_id))
            assert [question for question, _ in results] == truth.questions
            stored = {question.id: verdict for question, verdict in results if verdict is not None}
            assert stored == truth.verdicts, "a stored verdict changed, vanished, or came from nowhere"
            counts = self.ledger.counts(truth.run.run_id)
            assert counts.outcomes == Counter(each.outcome for each in stored.values())
            assert counts.todo == len(truth.questions) - len(stored)
            assert counts.state is truth.state
        open_runs = [
            each.run.run_id for each in self.truths.values() if each.state is RunState.RUNNING and not each.finished
        ]
        assert self.ledger.open_runs() == sorted(open_runs)

    def teardown(self) -> None:
        """However it went until now: once people and workers get on with it, everything is settled, once."""
        for name, truth in self.truths.items():
            if truth.state is not RunState.RUNNING:
                self._go_on(name)
        for _ in range(100):
            if all(truth.finished for truth in self.truths.values()):
                break
            if not self._everywhere():
                self.audit()
            for name in WORKERS:
                self.deliver(name, 3)
                self.score(name, 2.0, "nothing", "one", "well")
            self.the_books_are_as_they_must_be()
        for truth in self.truths.values():
            assert self.ledger.counts(truth.run.run_id).finished
            assert len(truth.verdicts) == len(truth.questions)


def _send_nothing(*_: object) -> None:
    raise AssertionError("no run here has a second stage")


def _kill(_: Sequence[Request]) -> None:
    raise Killed


class _NoCommits:
    """A ledger that is away when verdicts are to be stored."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def commit(self, run_id: str, *_: object) -> list[Verdict]:
        try:
            self._ledger.run(run_id)
        except UnknownRun:
            return []
        raise RedisUnreachable("away")
