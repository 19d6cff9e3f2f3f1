"""Statistics of a question set: lengths, positions of the right answers, repetitions, subjects, languages."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from contract.question import LABELS, Question
from contract.spec import RunSpec
from contract.wording import percent
from producer.intake.duplicates import Repeats, Seen
from producer.intake.oddities import Oddities
from producer.stats.guessing import Guessing
from producer.stats.percentile import percentile

__all__ = ["MOST_GUESSED", "Keys", "Lengths", "Profile", "Skew", "key_warnings"]

#: Significance level at which the positions of the right answers are called skewed.
SKEW_P = 0.001
#: Number of questions, from the first on, whose language is guessed.
MOST_GUESSED = 1000
#: Number of characters of a question from which its language is guessed.
_GUESSED_BY = 400
#: Maximum number of subjects that are counted separately.
MOST_SUBJECTS = 10_000


class Lengths:
    """A list of lengths, in four bytes each."""

    def __init__(self) -> None:
        self._all = array("I")

    def add(self, length: int) -> None:
        """Add a length."""
        self._all.append(length)

    @property
    def longest(self) -> int:
        """The greatest length; 0 if there are none."""
        return max(self._all, default=0)

    def to_json(self) -> dict[str, int]:
        """Return p50, p95, p99 and the maximum; zeros if there are none."""
        ranked = sorted(self._all) or [0]
        return {f"p{part}": percentile(ranked, part / 100) for part in (50, 95, 99)} | {"max": ranked[-1]}


class Skew(NamedTuple):
    """The most over-represented position of the right answers, or choice among them."""

    #: The position's label, or the choice's text.
    label: str
    #: Share of the questions with a key whose right answer that is.
    share: float
    #: The same share in a uniform distribution.
    expected: float
    #: Probability of an equally uneven distribution if right answers were drawn uniformly (chi-squared test).
    p: float


@dataclass
class Keys:
    """The numbers of choices of the questions, and the positions of the right ones."""

    #: Counts of the questions with a key.
    guessing: Guessing = field(default_factory=Guessing)
    #: Number of choices → questions without a key.
    _keyless: Counter[int] = field(default_factory=Counter)

    def add(self, question: Question) -> None:
        """Count one question."""
        if question.answer is None:
            self._keyless[len(question.choices)] += 1
        else:
            self.guessing.add(question)

    @property
    def keyed(self) -> int:
        """Number of questions with a key."""
        return self.guessing.of

    @property
    def without_key(self) -> int:
        """Number of questions without a key."""
        return self._keyless.total()

    @property
    def several_right(self) -> int:
        """Number of questions with several right choices."""
        return sum(count for (_, _, also_right), count in self.guessing.counts.items() if also_right)

    @property
    def choices(self) -> Counter[int]:
        """Number of choices → questions with that many, with or without a key."""
        found = Counter(self._keyless)
        for (choices, _, _), count in self.guessing.counts.items():
            found[choices] += count
        return found

    def _expected(self) -> dict[str, float]:
        """Return label → expected number of right answers there if positions were drawn uniformly."""
        expected = dict.fromkeys(LABELS, 0.0)
        for (choices, _, also_right), count in self.guessing.counts.items():
            for label in LABELS[:choices]:
                expected[label] += count * (1 + len(also_right)) / choices
        return expected

    def skew(self, least: float = 0.0) -> Skew | None:
        """Return the most over-represented position, if the positions are more uneven than chance explains; else None.

        Also None if its excess over the expected number is less than `least` of the questions.
        """
        return self._skew(self.guessing.answers, self._expected(), least)

    def skew_of_choices(self, least: float) -> Skew | None:
        """Return the same of the choices, if all questions have the same ones, in any order; else None."""
        same, said = self.guessing.same, self.guessing.said
        return self._skew(said, dict.fromkeys(same, said.total() / len(same)), least) if same else None

    def _skew(self, found: Counter[str], expected: Mapping[str, float], least: float) -> Skew | None:
        places = [each for each, number in expected.items() if number >= 5]
        if len(places) < 2:
            return None
        most = max(places, key=lambda each: found[each] - expected[each])
        if (found[most] - expected[most]) / self.keyed < least:
            return None
        from scipy.special import chdtrc  # late, as it takes long to import

        statistic = sum((found[each] - expected[each]) ** 2 / expected[each] for each in places)
        p = float(chdtrc(len(places) - 1, statistic))
        return Skew(most, found[most] / self.keyed, expected[most] / self.keyed, p) if p < SKEW_P else None


def key_warnings(keys: Keys, *, placed: bool, least: float = 0.0) -> list[str]:
    """Return warnings about a position, or a choice that all questions have, that is right too often.

    That is in at least `least` of the questions more than expected. `placed`: the model is shown the choices in the
    file's order.
    """
    place, choice = keys.skew(least) if placed else None, keys.skew_of_choices(least)
    skew = place or choice
    if skew is None:
        return []
    which = skew.label if place else repr(skew.label)
    even = f"{percent(skew.expected)} % would be expected (p = {skew.p:.1g})"
    said = f"warning: the right answer is {which} in {percent(skew.share)} % of the questions, {even}"
    if place:
        said += ": a prompt that shows the choices rewards a model that prefers that position. Use --set shuffle=true"
    if choice:
        always = f"Always answering {choice.label!r} scores {choice.share:.3f}"
        said += f". {always}: compare accuracies with that, not with chance"
    return [f"{said}."]


@dataclass
class Profile:
    """Accumulates the statistics; of the questions themselves, it keeps hashes, and texts in a temporary database."""

    #: Counts the tokens of a text; None without a model.
    tokens_of: Callable[[str], int] | None
    #: How the questions would be asked.
    spec: RunSpec
    questions: int = 0
    keys: Keys = field(default_factory=Keys)
    with_context: int = 0
    subjects: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    #: Questions whose text occurred before, with any choices.
    same_text: int = 0
    #: Of these, those whose choices and context are the same as well.
    repeats: Repeats = field(default_factory=Repeats)
    oddities: Oddities = field(default_factory=Oddities)
    question_chars: Lengths = field(default_factory=Lengths)
    choice_chars: Lengths = field(default_factory=Lengths)
    context_chars: Lengths = field(default_factory=Lengths)
    prompt_tokens: Lengths = field(default_factory=Lengths)
    #: Prompt plus answer: what must fit into the model's context.
    needed_tokens: Lengths = field(default_factory=Lengths)
    _texts: Seen = field(default_factory=Seen)

    def add(self, question: Question, prompts: Sequence[str] = ()) -> None:
        """Count one question; `prompts` are the ones with which it would be asked."""
        self.questions += 1
        self.keys.add(question)
        if question.subject and (question.subject in self.subjects or len(self.subjects) < MOST_SUBJECTS):
            self.subjects[question.subject] += 1
        if self.questions <= MOST_GUESSED:
            self.languages[_language(question)] += 1
        if self._texts.place_of(question.question) is None:
            self._texts.add(question.question, self.questions)
        else:
            self.same_text += 1
        self.repeats.add(question)
        self._add_lengths(question)
        self.oddities.add(question)
        if self.tokens_of and prompts:
            self._add_tokens(question, prompts, self.tokens_of)

    def _add_lengths(self, question: Question) -> None:
        self.question_chars.add(len(question.question))
        for choice in question.choices:
            self.choice_chars.add(len(choice))
        if question.context:
            self.with_context += 1
            self.context_chars.add(len(question.context))

    def _add_tokens(self, question: Question, prompts: Sequence[str], tokens_of: Callable[[str], int]) -> None:
        longest = max(map(tokens_of, prompts))
        self.prompt_tokens.add(longest)
        self.needed_tokens.add(longest + self._answer_tokens(question, tokens_of))

    def _answer_tokens(self, question: Question, tokens_of: Callable[[str], int]) -> int:
        """Return the tokens after the prompt: the generated text, the longest scored choice, or one label."""
        if self.spec.sampling is not None:
            return self.spec.sampling.max_tokens
        if self.spec.mode.scores_choices:
            return max(tokens_of(self.spec.delimiter + choice) for choice in question.choices)
        return 1

    def close(self) -> None:
        """Release the disk space."""
        self._texts.close()

    def to_json(self) -> dict[str, Any]:
        """Return all statistics for `--json`."""
        skew = self.keys.skew()
        return {
            "questions": self.questions,
            "choices": {str(count): number for count, number in sorted(self.keys.choices.items())},
            "answers": dict(sorted(self.keys.guessing.answers.items())),
            "without_key": self.keys.without_key,
            "several_right": self.keys.several_right,
            "skew": skew._asdict() if skew else None,
            "repeated": self.repeats.count(),
            "contradicted": len(self.repeats.contradicted()),
            "same_text": self.same_text,
            **asdict(self.oddities),
            "with_context": self.with_context,
            "characters": {
                "question": self.question_chars.to_json(),
                "choice": self.choice_chars.to_json(),
                "context": self.context_chars.to_json(),
            },
            "tokens": self.prompt_tokens.to_json() if self.tokens_of else None,
            "max_model_len": self.needed_tokens.longest if self.tokens_of else None,
            "subjects": dict(self.subjects.most_common()),
            "languages": dict(self.languages.most_common()),
        }


def _language(question: Question) -> str:
    """Return the language's ISO 639-1 code, guessed from the question and its choices."""
    import py3langid

    text = " ".join((question.question[:_GUESSED_BY], *question.choices))[: 2 * _GUESSED_BY]
    return str(py3langid.classify(text)[0])
