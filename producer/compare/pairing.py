"""Pairing two settled runs over the questions that both have, for `compare`, `report` and `suite`."""

from __future__ import annotations

from collections import Counter, defaultdict

from contract.errors import InputError
from contract.ledger import Ledger, Run
from contract.question import Question
from contract.spec import RunSpec
from contract.verdict import Outcome, Verdict
from contract.wording import number
from producer.bar import reading
from producer.compare.comparison import Comparison, Failed, Flip
from producer.compare.incomparable import refuse_incomparable
from producer.compare.shared_questions import Asked, LeftOut, Shared
from producer.engine_differences import Engines
from producer.stats import Contexts, Pairs
from producer.stats.clusters import ContextValues, shared_by
from producer.stats.effect import Effect, RecallPairs, RetrievalEffect
from producer.stats.guessing import Guessing
from producer.stats.side import Side

__all__ = ["First", "Pairing", "pair_up"]


def pair_up(ledger: Ledger, a: Run, b: Run, most_flips: int | None, *, shared: bool) -> Comparison:
    """Return the comparison of `a` and `b`, reading each once, with the first `most_flips` flips (None: all).

    If `shared`, the runs may have asked different questions, of which those that both have are compared. Raises
    InputError if they cannot be compared.
    """
    refuse_incomparable(ledger, a, b, shared=shared)
    first = First(a)
    pairing = Pairing(first, b, most_flips)
    first.read(ledger)
    return pairing.read(ledger)


class First:
    """The run that others are paired with: its side of each question, small enough to keep in memory for a whole run.

    Few sides are different, so each is kept only once.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        #: In input order.
        self.sides: list[Side] = []
        self._kinds: dict[Side, Side] = {}
        #: The questions by id, to find those that another run shares; None unless one asked different ones.
        self._asked: Asked | None = None

    def shared_with(self, other: Run) -> Shared | None:
        """Return what finds the questions that `other` has as well; None if all are the same, in the same order.

        To be called before the run is read.
        """
        if other.spec.questions_digest == self.run.spec.questions_digest:
            return None
        if self._asked is None:
            self._asked = Asked()
        return Shared(self._asked)

    def add(self, question: Question, verdict: Verdict | None) -> None:
        """Keep the next question's side."""
        if self._asked is not None:
            self._asked.add(question)
        side = _side(self.run, question, verdict)
        self.sides.append(self._kinds.setdefault(side, side))

    def read(self, ledger: Ledger) -> None:
        """Add all questions. Raises InputError if the run is no longer settled."""
        with reading(ledger, self.run, "compare") as results:
            for question, verdict in results:
                self.add(question, verdict)


class Pairing:
    """Accumulates the comparison of two runs over the questions that both have, one by one in input order."""

    def __init__(self, first: First, b: Run, most_flips: int | None) -> None:
        """Create it before `first` is read. Afterwards, the questions of `b` are added.

        `most_flips` limits the flipped questions that are kept (None: all are), which are the first.
        """
        a = first.run
        self.a = a
        self.b = b
        self._sides_of_a = first.sides
        #: Finds the questions that both have, if the runs asked different ones.
        self._shared = first.shared_with(b)
        self._passed = 0
        self._effect = RetrievalEffect() if (a.spec.rag is None) != (b.spec.rag is None) else None
        self._recall = _recall(a.spec, b.spec)
        self._subjects: defaultdict[str, Counter[tuple[bool, bool]]] = defaultdict(Counter)
        self._contexts = ContextValues()
        self._repeats = a.repeats or b.repeats
        self._hides_contexts = a.hides_contexts or b.hides_contexts
        #: (run, property) → pairs.
        self._noted: Counter[tuple[str, str]] = Counter()
        self._flips: list[Flip] = []
        self._most_flips = most_flips
        #: (failed in A, failed in B) → questions.
        self._failed: Counter[tuple[bool, bool]] = Counter()
        self._without_key = 0
        self._same_answers = 0
        #: Of the pairs only: a run's own chance level is over all questions that it asked, failed ones included.
        self._guessing = Guessing()

    def add(self, question: Question, verdict: Verdict | None) -> None:
        """Count the next question of B, unless A does not have it."""
        of_b = _side(self.b, question, verdict)
        place = self._shared.place_in_a(question) if self._shared else self._passed
        self._passed += 1
        if place is not None:
            self._count(question, self._sides_of_a[place], of_b)

    def read(self, ledger: Ledger) -> Comparison:
        """Add all questions of B and return the comparison. Raises InputError if there is none."""
        with reading(ledger, self.b, "compare") as results:
            for question, verdict in results:
                self.add(question, verdict)
        return self.comparison(ledger)

    def _count(self, question: Question, of_a: Side, of_b: Side) -> None:
        if self._recall:
            self._recall.add(of_a, of_b)
        if question.answer is None:
            self._without_key += 1
            return
        without, retrieved = (of_a, of_b) if self.a.spec.rag is None else (of_b, of_a)
        did = self._effect.add(without, retrieved) if self._effect else None
        if of_a.failed or of_b.failed:
            self._failed[of_a.failed, of_b.failed] += 1
            return
        self._guessing.add(question)
        self._subjects[question.subject or ""][of_a.right, of_b.right] += 1
        shared = shared_by(question, repeats=self._repeats, hides_contexts=self._hides_contexts)
        self._contexts.add(shared, of_b.right - of_a.right)
        for name, each in (("A", of_a), ("B", of_b)):
            self._noted[name, "unanswered"] += each.outcome is Outcome.UNANSWERED
            self._noted[name, "simulated"] += each.simulated
        self._same_answers += of_a.asked_in == of_b.asked_in
        if of_a.right != of_b.right and (self._most_flips is None or len(self._flips) < self._most_flips):
            hit = retrieved.retrieval_hit if self._effect else None
            self._flips.append(_flip(question, of_a, of_b, did, hit))

    def comparison(self, ledger: Ledger) -> Comparison:
        """Return the comparison of the pairs counted so far. Raises InputError if there are none."""
        kinds = sum(self._subjects.values(), Counter[tuple[bool, bool]]())
        left_out = self._shared.left_out() if self._shared else LeftOut()
        failed = Failed(self._failed[True, False], self._failed[False, True], self._failed[True, True])
        if not kinds:
            raise self._no_pairs(failed, left_out)
        subjects = sorted(self._subjects.items()) if len(self._subjects) > 1 else []
        return Comparison(
            a=self.a,
            b=self.b,
            pairs=Pairs.counted(kinds),
            flips=self._flips,
            failed=failed,
            without_key=self._without_key,
            retrieval=self._effect,
            recall=self._recall,
            by_subject={name: Pairs.counted(found) for name, found in subjects},
            contexts=Contexts.of([self._contexts]),
            unanswered=(self._noted["A", "unanswered"], self._noted["B", "unanswered"]),
            simulated=(self._noted["A", "simulated"], self._noted["B", "simulated"]),
            same_answers=self._same_answers,
            chances=(self._guessing.chance(self.a.spec), self._guessing.chance(self.b.spec)),
            left_out=left_out,
            engines=Engines.of(ledger, self.a, self.b),
        )

    def _no_pairs(self, failed: Failed, left_out: LeftOut) -> InputError:
        if self._shared and not self._shared.found:
            return InputError(
                f"Runs {self.a.run_id} and {self.b.run_id} share no question: {left_out.describe()}.",
                hint="Shared are those with the same id, text, choices, context, key and relevant passages.",
            )
        if failed.of:
            return InputError(
                f"No question with a key was answered in both runs; failed: {failed.describe()}.",
                hint="python -m producer show RUN QUESTION_ID says why one failed; requeue RUN --failed asks it again.",
            )
        keyless = number(self._without_key, "question")
        return InputError(
            f"None of the {keyless} has a key, so there are no correct answers to compare.",
            hint="If the file has keys, name their field when enqueuing it: --map answer=FIELD.",
        )


def _recall(a: RunSpec, b: RunSpec) -> RecallPairs | None:
    return RecallPairs(min(a.rag.retrieval_top_k, b.rag.retrieval_top_k)) if a.rag and b.rag else None


def _side(run: Run, question: Question, verdict: Verdict | None) -> Side:
    """Return the side of `run`, which was settled.

    Raises InputError if it no longer is, because its failed questions have been reopened.
    """
    if verdict is None:
        raise InputError(
            f"Run {run.run_id} is no longer settled: question {question.id!r} is being asked again.",
            hint=f"Wait until it is settled: python -m producer watch {run.run_id}",
        )
    return Side.of(run, question, verdict)


def _flip(question: Question, a: Side, b: Side, retrieval: Effect | None, hit: bool | None) -> Flip:
    of_question = question.id, question.subject, question.key
    return Flip(*of_question, a.outcome, a.choice, b.outcome, b.choice, retrieval, hit)
