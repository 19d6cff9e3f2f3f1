"""Taking over the answers of an earlier run (`enqueue --reuse`): the model is only asked what it was not asked there.

An answer is taken over if the model would get the same prompts for it again, from a run with the same settings. It is
marked by the key of the question as it is now: keys are what is corrected most often, and no model reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from contract.chunks import chunks
from contract.engine_info import EngineUsed
from contract.errors import RunConfigError, UnknownRun
from contract.ledger import Ledger, Run
from contract.marking import hit, mark, mark_rotations
from contract.prompts import all_turns, context_source, variables_of
from contract.question import Question
from contract.spec import RunSpec
from contract.verdict import Outcome, Verdict
from contract.wording import broken_down, number
from producer.compare.spec_differences import differences

__all__ = ["Earlier", "are_alike"]

#: Number of questions to look for at a time.
READ_TOGETHER = 500


class _WhyAsked(Enum):
    """Why a question is asked rather than answered from the earlier run."""

    ABSENT = "not in it"
    OPEN = "without an answer there"
    CHANGED = "not the same there"


def are_alike(a: RunSpec, b: RunSpec) -> bool:
    """Whether runs with these specs differ in nothing but their questions."""
    return a.model_copy(update={"questions_digest": b.questions_digest}).fingerprint() == b.fingerprint()


@dataclass
class Earlier:
    """The answers of an earlier run, for one with `spec`. Raises RunConfigError if its settings are others."""

    ledger: Ledger
    run: Run
    spec: RunSpec
    #: Number of answers taken over so far.
    reused: int = 0
    asked: Counter[_WhyAsked] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if not are_alike(self.run.spec, self.spec):
            raise _unlike(self.run, self.spec)

    @property
    def looked(self) -> bool:
        """Whether any question was looked for."""
        return bool(self.reused or self.asked)

    def settle(self, run_id: str, question_ids: Iterable[str]) -> set[str]:
        """Settle those of these questions of run `run_id` that are answered here; return their ids."""
        settled: set[str] = set()
        for ids in chunks(question_ids, READ_TOGETHER):
            verdicts = self.answers(list(self.ledger.questions(run_id, ids).values()))
            if not verdicts:
                continue
            for used in self._engines():  # first: if this is killed, no verdict is without its engine
                self.ledger.note_engine(run_id, used)
            self.reused += len(self.ledger.commit(run_id, verdicts))  # not those that a worker answered before
            settled.update(each.question_id for each in verdicts)
        return settled

    def count(self, questions: Iterable[Question]) -> None:
        """Only count those of `questions` that are answered here, for `reused` and `describe`."""
        for some in chunks(questions, READ_TOGETHER):
            self.reused += len(self.answers(some))

    def answers(self, questions: Sequence[Question]) -> list[Verdict]:
        """Return the verdicts on those of `questions` that are answered here, by their present keys.

        Of the others, it is counted why they are asked.
        """
        with self._explaining_purge():
            there = self.ledger.results_of(self.run.run_id, [each.id for each in questions])
        found = [self._answer(each, *there.get(each.id, (None, None))) for each in questions]
        self.asked.update(each for each in found if isinstance(each, _WhyAsked))
        return [each for each in found if isinstance(each, Verdict)]

    def _engines(self) -> list[EngineUsed]:
        with self._explaining_purge():
            return self.ledger.engines(self.run.run_id)

    @contextmanager
    def _explaining_purge(self) -> Iterator[None]:
        """Say that it is the earlier run that was purged, and not the one that is being written."""
        try:
            yield
        except UnknownRun as trouble:
            raise RunConfigError(
                f"--reuse {self.run.run_id}: it is no longer in the ledger, so none of its answers can be taken over.",
                hint="Leave out --reuse: then the command goes on, and asks all other questions.",
            ) from trouble

    def _answer(self, question: Question, earlier: Question | None, verdict: Verdict | None) -> Verdict | _WhyAsked:
        if earlier is None:
            return _WhyAsked.ABSENT
        if verdict is None or verdict.outcome is Outcome.FAILED:
            return _WhyAsked.OPEN
        fields: dict[str, Any] = {"reused_from": verdict.reused_from or self.run.run_id}
        if earlier != question:
            if not self._asks_the_same(earlier, question, verdict):
                return _WhyAsked.CHANGED
            fields["retrieval_hit"] = hit(question, self.spec, verdict.passages)
        if earlier.right != question.right:
            if not self._can_be_marked(earlier, question, verdict):
                return _WhyAsked.CHANGED
            fields |= _marked(question, verdict)
        return verdict.model_copy(update=fields)

    def _asks_the_same(self, earlier: Question, now: Question, verdict: Verdict) -> bool:
        """Whether both have the same prompts. Templates show nothing of a question but what is compared here."""
        if (earlier.question, earlier.choices) != (now.question, now.choices):
            return False
        if (earlier.subject, earlier.context) == (now.subject, now.context):
            return True
        spec = self.spec
        if spec.judge and earlier.subject != now.subject and "subject" in variables_of(spec.judge.prompt):
            return False
        if context_source(earlier, spec, verdict.passages) is not context_source(now, spec, verdict.passages):
            return False
        return all_turns(earlier, spec, verdict.passages) == all_turns(now, spec, verdict.passages)

    def _can_be_marked(self, earlier: Question, now: Question, verdict: Verdict) -> bool:
        """Whether the answer can be marked by another key."""
        if self.spec.mode.judged:  # the judge is shown the key's choice
            return False
        if self.spec.mode.read_by_rules and (earlier.also_right or now.also_right):
            return False  # a text that names several choices is read as right if all of them are
        return len(verdict.rotation_choices) == verdict.rotations  # older verdicts do not have them

    def describe(self) -> str:
        """Return how many answers were taken over, and why the other questions are asked."""
        reused = f"{number(self.reused, 'answer')} of {self.run.run_id}"
        others = [(self.asked[each], each.value) for each in _WhyAsked]
        return f"{reused}; to ask {broken_down(others)}" if self.asked else reused


def _unlike(run: Run, spec: RunSpec) -> RunConfigError:
    told = f"--reuse {run.run_id}:"
    if origin := run.spec.rescored_from:
        return RunConfigError(
            f"{told} no model was asked for it, as it reads the texts of {origin} again.",
            hint=f"Give --reuse {origin}, and rescore the new run: python -m workers rescore RUN",
        )
    return RunConfigError(
        f"{told} it was asked in another way, which differs in {', '.join(differences(run.spec, spec))}.",
        hint="Repeat its --config, --set and --model, or leave out --reuse: then all questions are asked.",
    )


def _marked(question: Question, verdict: Verdict) -> dict[str, Any]:
    """Return the fields of `verdict` that follow from the key of `question`."""
    outcome = mark(question, verdict.choice)
    if not verdict.rotations:
        return {"outcome": outcome}
    right = sum(mark(question, each) is Outcome.CORRECT for each in verdict.rotation_choices)
    return {"outcome": mark_rotations(outcome, right, verdict.rotations), "rotations_right": right}
