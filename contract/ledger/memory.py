"""The ledger in memory: the same guarantees without Redis, for tests and single-process experiments."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from contract.engine_info import EngineUsed
from contract.errors import RunConflict
from contract.ledger.base import Begun, Ledger, unknown
from contract.ledger.run import Counts, Run, RunState, halted
from contract.question import Body, Question
from contract.spec import Stage
from contract.verdict import Outcome, Passage, Verdict

__all__ = ["MemoryLedger"]


@dataclass
class _Books:
    run: Run
    questions: dict[str, Question] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    attempts: dict[Stage, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    passages: dict[str, tuple[Passage, ...]] = field(default_factory=dict)
    troubles: dict[str, list[str]] = field(default_factory=dict)
    #: The calls that counted the last attempt, by stage, and that noted the last trouble, by question id.
    counted_by: dict[tuple[Stage, str], str] = field(default_factory=dict)
    noted_by: dict[str, str] = field(default_factory=dict)
    engines: list[EngineUsed] = field(default_factory=list)
    state: RunState = RunState.RUNNING
    aside: set[str] = field(default_factory=set)

    def todo(self) -> list[str]:
        return [each for each in self.questions if each not in self.verdicts]


class MemoryLedger(Ledger):
    """A ledger that lives as long as the object. One lock replaces the atomicity of the Lua scripts."""

    def __init__(self) -> None:
        self._runs: dict[str, _Books] = {}
        self._lock = threading.RLock()

    def open_run(self, run: Run) -> Run:
        with self._lock:
            there = self._runs.setdefault(run.run_id, _Books(run)).run
            if there.spec.fingerprint() != run.spec.fingerprint():
                raise RunConflict(f"Run {run.run_id} exists with another spec.", hint="Choose another --run name.")
            return there

    def add_bodies(self, run_id: str, bodies: Iterable[Body]) -> None:
        with self._lock:
            books = self._books(run_id)
            for question_id, canonical in bodies:
                books.questions.setdefault(question_id, Question.model_validate_json(canonical))

    def run(self, run_id: str) -> Run:
        return self._books(run_id).run

    def run_ids(self) -> list[str]:
        return [run.run_id for run in self.runs()]

    def runs(self, among: Sequence[str] | None = None) -> list[Run]:
        with self._lock:
            if among is not None:
                return [self._runs[each].run for each in among if each in self._runs]
            return [books.run for books in reversed(self._runs.values())]

    def open_runs(self) -> list[str]:
        with self._lock:
            return sorted(
                run_id for run_id, books in self._runs.items() if books.state is RunState.RUNNING and books.todo()
            )

    def counts(self, run_id: str) -> Counts:
        with self._lock:
            books = self._books(run_id)
            outcomes: Counter[Outcome] = Counter(verdict.outcome for verdict in books.verdicts.values())
            return Counts(total=books.run.questions, todo=len(books.todo()), outcomes=dict(outcomes), state=books.state)

    def unsettled(self, run_id: str) -> Iterator[str]:
        with self._lock:
            return iter(self._books(run_id).todo())

    def questions(self, run_id: str, question_ids: Sequence[str]) -> dict[str, Question]:
        with self._lock:
            there = self._runs[run_id].questions if run_id in self._runs else {}
            return {each: there[each] for each in question_ids if each in there}

    def begin(
        self,
        run_id: str,
        question_ids: Sequence[str],
        count_below: int | None = None,
        stage: Stage = Stage.SCORE,
        call: str = "",
    ) -> list[Begun]:
        with self._lock:
            books = self._books(run_id)
            attempts = books.attempts[stage]
            open_ones = [each for each in question_ids if each in books.questions and each not in books.verdicts]
            if books.state is not RunState.RUNNING:
                books.aside.update(open_ones)
                raise halted(run_id, books.state)
            begun = []
            for each in open_ones:
                counted = bool(call) and books.counted_by.get((stage, each)) == call
                if not counted and (count_below is None or attempts[each] < count_below):
                    counted = True
                    attempts[each] += 1
                    books.counted_by[stage, each] = call
                begun.append(Begun(books.questions[each], attempts[each], counted))
            return begun

    def uncount(self, run_id: str, question_ids: Sequence[str], stage: Stage = Stage.SCORE) -> None:
        with self._lock:
            books = self._books(run_id)
            attempts = books.attempts[stage]
            for each in question_ids:
                if each not in books.verdicts and attempts[each]:
                    attempts[each] -= 1
                    books.counted_by.pop((stage, each), None)

    def note_trouble(self, run_id: str, question_ids: Sequence[str], reason: str, call: str = "") -> list[int]:
        with self._lock:
            books = self._books(run_id)
            for each in question_ids:
                is_repeated = bool(call) and books.noted_by.get(each) == call
                if each in books.questions and each not in books.verdicts and not is_repeated:
                    books.troubles.setdefault(each, []).append(reason)
                    books.noted_by[each] = call
            return [len(books.troubles.get(each, ())) for each in question_ids]

    def troubles(self, run_id: str, question_id: str) -> list[str]:
        with self._lock:
            return list(self._runs[run_id].troubles.get(question_id, ())) if run_id in self._runs else []

    def attach(self, run_id: str, passages: Mapping[str, Sequence[Passage]]) -> None:
        with self._lock:
            books = self._books(run_id)
            for each, found in passages.items():
                books.attempts[Stage.RETRIEVE].pop(each, None)
                books.troubles.pop(each, None)
                if each in books.questions and each not in books.verdicts:
                    books.passages[each] = tuple(found)

    def passages(self, run_id: str, question_ids: Sequence[str]) -> dict[str, tuple[Passage, ...]]:
        with self._lock:
            known = self._runs[run_id].passages if run_id in self._runs else {}
            return {each: known[each] for each in question_ids if each in known}

    def commit(self, run_id: str, verdicts: Sequence[Verdict], engine: EngineUsed | None = None) -> list[Verdict]:
        with self._lock:
            books = self._books(run_id)
            if engine:
                self.note_engine(run_id, engine)
            standing: dict[str, Verdict] = {}
            for each in verdicts:
                if each.question_id in books.questions and each.question_id not in books.verdicts:
                    books.verdicts[each.question_id] = each
                    books.passages.pop(each.question_id, None)
                    books.troubles.pop(each.question_id, None)
                    for of_stage in books.attempts.values():
                        of_stage.pop(each.question_id, None)
                if books.verdicts.get(each.question_id) == each:
                    standing.setdefault(each.question_id, each)
            return list(standing.values())

    def note_engine(self, run_id: str, used: EngineUsed) -> None:
        with self._lock:
            there = self._books(run_id).engines
            if (used.worker, used.engine) not in [(each.worker, each.engine) for each in there]:
                there.append(used)

    def engines(self, run_id: str) -> list[EngineUsed]:
        with self._lock:
            return sorted(self._books(run_id).engines, key=lambda each: each.since)

    def results(
        self, run_id: str, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[Question, Verdict | None]]:
        with self._lock:
            books = self._books(run_id)
            found = islice(books.questions.items(), start, stop)
            return iter([(question, books.verdicts.get(each)) for each, question in found])

    def results_of(self, run_id: str, question_ids: Sequence[str]) -> dict[str, tuple[Question, Verdict | None]]:
        with self._lock:
            books = self._books(run_id)
            there = [each for each in question_ids if each in books.questions]
            return {each: (books.questions[each], books.verdicts.get(each)) for each in there}

    def halt(self, run_id: str, state: RunState) -> RunState:
        with self._lock:
            books = self._books(run_id)
            if books.state is RunState.RUNNING:
                books.aside.clear()
            if books.state is not RunState.CANCELLED:
                books.state = state
            return books.state

    def resume(self, run_id: str) -> None:
        with self._lock:
            self._books(run_id).state = RunState.RUNNING

    def take_aside(self, run_id: str) -> Iterator[str]:
        with self._lock:
            books = self._books(run_id)
            taken = [each for each in books.todo() if each in books.aside]
            books.aside.clear()
            return iter(taken)

    def reopen_failed(self, run_id: str) -> list[str]:
        with self._lock:
            books = self._books(run_id)
            if books.state is not RunState.RUNNING and not self.counts(run_id).finished:
                raise halted(run_id, books.state)
            failed = [each for each, verdict in books.verdicts.items() if verdict.outcome is Outcome.FAILED]
            for each in failed:
                del books.verdicts[each]
            if failed:
                books.state = RunState.RUNNING
                if not books.verdicts:
                    books.engines.clear()
            return failed

    def purge(self, *run_ids: str) -> None:
        with self._lock:
            for run_id in run_ids:
                self._books(run_id)
            for run_id in run_ids:
                del self._runs[run_id]

    def _books(self, run_id: str) -> _Books:
        with self._lock:
            if run_id not in self._runs:
                raise unknown(run_id, list(self._runs))
            return self._runs[run_id]
