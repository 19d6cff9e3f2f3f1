"""The figures of a run, accumulated while its results are streamed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from contract.chunks import TOGETHER, chunks
from contract.ledger import Counts, Run, RunState
from contract.mode import Normalization
from contract.prompts import shows_choices
from contract.question import Question
from contract.verdict import Outcome, Verdict
from producer.export.cost import Times, Tokens
from producer.stats import (
    Contexts,
    Interval,
    Outcomes,
    Positions,
    RetrievalTally,
    Share,
    SubjectMean,
    Tally,
    macro,
    mean_interval,
    share,
)
from producer.stats.agreement import Agreement
from producer.stats.clusters import ContextValues, shared_by
from producer.stats.denominators import ALL, ANSWERED, RESPONDED
from producer.stats.failures import Failures
from producer.stats.guessing import Constant
from producer.stats.normalized import right_by
from producer.stats.positions import Preference
from producer.stats.proportion import Sum

__all__ = ["Summary", "Unbeaten"]

#: Turns the spec of a circular run into one that asks each question in a single order.
ONE_ORDER = {"circular": False}


def _outcomes() -> defaultdict[str, Outcomes]:
    return defaultdict(Outcomes)


def _values() -> defaultdict[tuple[str, Outcome], ContextValues]:
    return defaultdict(ContextValues)


class Unbeaten(NamedTuple):
    """A constant answer that the model does not beat on the questions it answered, although it is above chance."""

    constant: Constant
    #: How the accuracy compares with the constant answer's: `below` or `not distinguishable from`.
    how: str


@dataclass
class Summary:
    """All figures counted over the questions of a run."""

    run: Run
    #: State reported for the run unless every question turns out to be settled.
    state: RunState = RunState.RUNNING
    #: All subjects together, as counted: `tally` also includes the questions that are not written yet.
    counted: Tally = field(default_factory=Tally)
    #: By subject; questions without a subject are under the empty name.
    subjects: defaultdict[str, Outcomes] = field(default_factory=_outcomes)
    #: None if the run has no retrieval.
    retrieval: RetrievalTally | None = None
    tokens: Tokens = field(default_factory=Tokens)
    #: Fraction of each question's rotations that are correct (`circular`).
    rotations: Sum = field(default_factory=Sum)
    #: Number of questions that are correct under each normalization (`likelihood`), and of those that tell it: older
    #: verdicts do not know their choices' tokens.
    normalized: Counter[Normalization] = field(default_factory=Counter)
    normalizable: Counter[Normalization] = field(default_factory=Counter)
    #: Of right and chosen answers, as shown to the model.
    positions: Positions = field(default_factory=Positions)
    failures: Failures = field(default_factory=Failures)
    #: (subject, outcome) → whether each question with a key is right, 1 or 0, with its context.
    in_contexts: defaultdict[tuple[str, Outcome], ContextValues] = field(default_factory=_values)
    #: Of the judge with the key (`judge`).
    agreement: Agreement = field(default_factory=Agreement)
    workers: set[str] = field(default_factory=set)
    #: Number of answers taken over from each earlier run (`enqueue --reuse`); `tokens` and `times` are without them.
    reused: Counter[str] = field(default_factory=Counter)
    #: Empty for a rescored run, whose verdicts keep the times at which the model was asked.
    times: Times = field(default_factory=Times)
    #: Results of `accuracies_over` since something was last added: most figures over subjects need them, and a run may
    #: have as many subjects as questions.
    _accuracies: dict[frozenset[Outcome], Mapping[str, Share]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.run.spec.rag is not None:
            self.retrieval = RetrievalTally.of(self.run.spec.rag)

    @classmethod
    def of(cls, run: Run, state: RunState, results: Iterable[tuple[Question, Verdict | None]]) -> Summary:
        """Return the summary of all `results`."""
        summary = cls(run, state)
        for _ in summary.counting(results):
            pass
        return summary

    def counting(self, results: Iterable[tuple[Question, Verdict | None]]) -> Iterator[tuple[Question, Verdict | None]]:
        """Yield `results`, and count them as they pass, some at a time."""
        for chunk in chunks(results, TOGETHER):
            self.add(chunk)
            yield from chunk

    def add(self, results: Sequence[tuple[Question, Verdict | None]]) -> None:
        """Count some questions."""
        self._accuracies.clear()
        for question, verdict in results:
            self.counted.add(question, verdict)
            self.subjects[question.subject or ""].add(question, verdict)
        if self.retrieval is not None:
            for question, verdict in results:
                self.retrieval.add(question, verdict)
        settled = [(question, verdict) for question, verdict in results if verdict is not None]
        for question, verdict in settled:
            self._add(verdict)
            self.failures.add(question, verdict)
        for question, verdict in settled:
            if question.answer is not None:
                self._add_keyed(question, verdict)

    def include(self, other: Summary) -> None:
        """Add the counts of `other`, which is from the same run."""
        self._accuracies.clear()
        self.counted.include(other.counted)
        for name, outcomes in other.subjects.items():
            self.subjects[name].include(outcomes)
        if self.retrieval is not None and other.retrieval is not None:
            self.retrieval.include(other.retrieval)
        self.tokens.include(other.tokens)
        self.rotations.include(other.rotations)
        self.normalized.update(other.normalized)
        self.normalizable.update(other.normalizable)
        self.positions.include(other.positions)
        self.failures.include(other.failures)
        for where, found in other.in_contexts.items():
            self.in_contexts[where].include(found)
        self.agreement.include(other.agreement)
        self.workers |= other.workers
        self.reused.update(other.reused)
        self.times.include(other.times)

    @property
    def tally(self) -> Tally:
        """All subjects together. Questions that are not written yet belong to no subject, but are unsettled here."""
        return replace(self.counted, unsettled=self.run.questions - self.counted.settled)

    @property
    def asked(self) -> int:
        """Number of settled questions that the run asked itself, or had asked if it was rescored."""
        return self.counted.settled - self.reused.total()

    @property
    def all_asked_failed(self) -> bool:
        """Whether all those questions failed: their speed is that of no model, which may not even have been asked."""
        return self.tally.count(Outcome.FAILED) == self.asked

    @property
    def questions_per_s(self) -> float | None:
        """Speed from the first call to the last verdict; None without a call, or if all that were asked failed."""
        return self.asked / self.times.wall_s if self.times.wall_s and not self.all_asked_failed else None

    @property
    def rotation_chance(self) -> float | None:
        """Chance level of a single rotation of the questions that did not fail."""
        return self.one_order_chance(RESPONDED)

    def one_order_chance(self, outcomes: frozenset[Outcome]) -> float | None:
        """Return the chance level of the questions with one of `outcomes`, asked in a single order."""
        return self.tally.guessing(outcomes).chance(self.run.spec.model_copy(update=ONE_ORDER))

    def _add(self, verdict: Verdict) -> None:
        if verdict.worker:
            self.workers.add(verdict.worker)
        if verdict.reused_from:
            self.reused[verdict.reused_from] += 1
            return
        self.tokens.add(verdict)
        if not self.run.spec.rescored_from:
            self.times.add(verdict)

    def _add_keyed(self, question: Question, verdict: Verdict) -> None:
        """Count the figures that need a key."""
        spec = self.run.spec
        shared = shared_by(question, repeats=self.run.repeats, hides_contexts=self.run.hides_contexts)
        self.in_contexts[question.subject or "", verdict.outcome].add(shared, int(verdict.outcome is Outcome.CORRECT))
        self.positions.add(question, verdict, spec)
        if verdict.rotations:
            self.rotations.add(verdict.rotations_right / verdict.rotations)
        for normalization, right in right_by(question, verdict, spec).items():
            self.normalized[normalization] += right
            self.normalizable[normalization] += 1
        if spec.mode.judged:
            self.agreement.add(question, verdict)

    @property
    def counts(self) -> Counts:
        """The run's progress when it was read: the ledger may know of more verdicts by now."""
        found = self.tally
        outcomes = {each: n for each in Outcome if (n := found.count(each))}
        return Counts(total=self.run.questions, todo=found.unsettled, outcomes=outcomes, state=self.state)

    @property
    def standing(self) -> str:
        """`settled` if every question of the run had a verdict, else the run's state."""
        return self.counts.standing

    def by_normalization(self) -> dict[Normalization, Share]:
        """Return the accuracy over all questions under each normalization (`likelihood`), including the run's own."""
        own, keyed = self.tally.over_all(), self.tally.keyed.total()
        if own is None or not self.normalized:
            return {}
        most = max(self.normalizable.values())
        told_by_all = [each for each, told in self.normalizable.items() if told == most]
        found = {each: share(self.normalized[each], keyed) for each in told_by_all}
        found[self.run.spec.normalization] = own
        return {each: accuracy for each, accuracy in found.items() if accuracy is not None}

    def otherwise_normalized(self) -> dict[Normalization, Share]:
        """Return the same as `by_normalization` without the run's own normalization."""
        own = self.run.spec.normalization
        return {each: accuracy for each, accuracy in self.by_normalization().items() if each is not own}

    def accuracies(self) -> dict[str, Share]:
        """Return subject → accuracy over all its questions; questions without a subject form one if others have one.

        Without the subjects all of whose questions failed: an error is not a wrong answer.
        """
        responded = self.accuracies_over(RESPONDED)
        return {name: each for name, each in self.accuracies_over(ALL).items() if name in responded}

    @property
    def failed_subjects(self) -> int:
        """Number of subjects with a key all of whose questions failed."""
        return len(self.accuracies_over(ALL)) - len(self.accuracies())

    def accuracies_without_failed(self) -> Mapping[str, Share]:
        """Return the same as `accuracies` excluding failed questions; empty if none of those subjects has any."""
        responded = self.accuracies_over(RESPONDED)
        return responded if responded != self.accuracies() else {}

    def accuracies_over(self, outcomes: frozenset[Outcome]) -> Mapping[str, Share]:
        """Return subject → accuracy over `outcomes`, without subjects that have no such outcome with a key."""
        if outcomes not in self._accuracies:
            named = sorted(self.subjects.items()) if self.subjects.keys() - {""} else []
            found = {name: subject.accuracy(outcomes) for name, subject in named}
            self._accuracies[outcomes] = {name: each for name, each in found.items() if each is not None}
        return self._accuracies[outcomes]

    def over_subjects(self) -> SubjectMean | None:
        """Return the mean over subjects, each counted once; None if the questions name none, or all failed."""
        return self._mean(self.accuracies(), ALL)

    def over_subjects_without_failed(self) -> SubjectMean | None:
        """Return the same excluding failed questions; None if `accuracies_without_failed` is empty."""
        return self._mean(self.accuracies_without_failed(), RESPONDED)

    def _mean(self, accuracies: Mapping[str, Share], outcomes: frozenset[Outcome]) -> SubjectMean | None:
        if not accuracies:
            return None
        shares = list(accuracies.values())
        # A single question shares its context with no other; there may be as many subjects as questions.
        by_contexts = [
            self._contexts(name, outcomes).interval(share) if share.of > 1 else None
            for name, share in accuracies.items()
        ]
        guesses = [self.subjects[name].guessing(outcomes).chance(self.run.spec) for name in accuracies]
        known = [each for each in guesses if each is not None]
        chance = sum(known) / len(known) if len(known) == len(shares) else None
        within = mean_interval(shares, by_contexts)
        return SubjectMean(macro(shares), within, len(shares), self.failed_subjects, chance)

    def context_interval(self, outcomes: frozenset[Outcome] = ALL) -> Interval | None:
        """Return the interval of the accuracy over `outcomes` clustered by context, if questions share contexts."""
        accuracy = None if self.tally.all_failed else self.tally.accuracy(outcomes)
        return self.contexts(outcomes).interval(accuracy) if accuracy else None

    @property
    def answered_interval(self) -> Interval | None:
        """Interval of the accuracy over answered questions, clustered by context if they share contexts."""
        answered = self.tally.over_answered()
        return self.context_interval(ANSWERED) or answered.interval if answered else None

    @property
    def answered_chance(self) -> float | None:
        """Chance level of the answered questions."""
        return self.tally.guessing(ANSWERED).chance(self.run.spec)

    @property
    def unbeaten(self) -> Unbeaten | None:
        """The best constant answer, if the model is above chance but not above it, and so may know nothing.

        Both on the questions it answered: others lower the accuracy, but say nothing about the answers that it gives.
        """
        constant = self.tally.guessing(ANSWERED).constant(self.run.spec)
        found, chance = self.answered_interval, self.answered_chance
        if constant is None or found is None or chance is None or found.against(chance) != "above":
            return None
        how = found.against(constant.value)
        return None if how == "above" else Unbeaten(constant, how)

    @property
    def preferred_position(self) -> Preference | None:
        """The position that the model prefers wherever the key is.

        None also if the prompt shows no choices, or if all questions have the same ones and the run does not reorder
        them: then it cannot be told whether the position is preferred or the choice.
        """
        spec = self.run.spec
        if not shows_choices(spec.prompt) or (self.tally.guessing(ANSWERED).common_choices and not spec.reorders):
            return None
        if not self.positions.of:
            return None
        # A model may stick to one position in all rotations of a question, but to another one in the next question.
        rotations = self.positions.mean_choices if spec.circular else 1.0
        return self.positions.preferred(self.contexts(ANSWERED).largest_design_effect * rotations)

    def contexts(self, outcomes: frozenset[Outcome] = ALL) -> Contexts:
        """Return the contexts of the questions with one of `outcomes`."""
        return Contexts.of(found for (_, outcome), found in self.in_contexts.items() if outcome in outcomes)

    def _contexts(self, subject: str, outcomes: frozenset[Outcome]) -> Contexts:
        """Return the contexts of one subject's questions with one of `outcomes`."""
        return Contexts.of(self.in_contexts[subject, each] for each in outcomes if (subject, each) in self.in_contexts)
