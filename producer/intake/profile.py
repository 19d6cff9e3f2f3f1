"""What a set of questions is like: lengths, where the right answers stand, what repeats, subjects, languages."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from contract.question import LABELS, Question
from contract.spec import Mode, RunSpec
from producer.intake.duplicates import Repeats, Seen
from producer.output import number
from producer.stats.guessing import Guessing

__all__ = ["Keys", "Lengths", "Profile", "Skew", "key_warnings", "lost_backslash", "same_choices", "text_warnings"]

#: Below this probability of as uneven a distribution by chance, the answers' places are called skewed.
SKEW_P = 0.001
#: Questions whose language is guessed: the first ones.
MOST_GUESSED = 1000
#: Letters of a question that a language is guessed by.
_GUESSED_BY = 400
#: Subjects that are counted apart.
MOST_SUBJECTS = 10_000


def lost_backslash(question: Question) -> bool:
    """Whether a backslash was taken for a control character's beginning, as JSON takes that of \\beta and \\frac."""
    texts = "".join((question.question, *question.choices))
    return "\b" in texts or "\f" in texts


def same_choices(question: Question) -> bool:
    """Whether two of its choices are the same text, between which no score can tell."""
    return len(set(map(str.strip, question.choices))) < len(question.choices)


def text_warnings(lost_backslashes: int, same_choices: int) -> list[str]:
    """Warnings about so many questions with a lost backslash, and with two choices of the same text."""
    said = []
    if lost_backslashes:
        said.append(
            f"warning: {number(lost_backslashes, 'question')} with a backspace or form feed in the text: JSON makes"
            " these of \\beta and \\frac. Double the backslashes in the file."
        )
    if same_choices:
        said.append(
            f"warning: {number(same_choices, 'question')} with the same text in two choices: by likelihood both score"
            " the same. Only the choices that the key names count as right."
        )
    return said


class Lengths:
    """Lengths as they come, four bytes each."""

    def __init__(self) -> None:
        self._all = array("I")

    def add(self, length: int) -> None:
        """One more."""
        self._all.append(length)

    @property
    def longest(self) -> int:
        """The greatest length; 0 of nothing."""
        return max(self._all, default=0)

    def percentile(self, share: float) -> int:
        """The smallest length that at least `share` of all do not exceed (the nearest-rank method)."""
        ranked = sorted(self._all)
        return ranked[max(0, math.ceil(share * len(ranked)) - 1)] if ranked else 0

    def to_json(self) -> dict[str, int]:
        """P50, P95, P99 and the longest."""
        return {f"p{part}": self.percentile(part / 100) for part in (50, 95, 99)} | {"max": self.longest}


class Skew(NamedTuple):
    """How unevenly the right answers stand."""

    label: str
    #: Share of the questions with a key whose right answer stands at `label`, and what an even distribution gives it.
    share: float
    expected: float
    #: Probability of a distribution as uneven, if the places were drawn evenly (chi-squared test).
    p: float


@dataclass
class Keys:
    """How many choices the questions have, and where the right ones stand."""

    #: Of the questions with a key.
    guessing: Guessing = field(default_factory=Guessing)
    #: Questions without a key, by their number of choices.
    _keyless: Counter[int] = field(default_factory=Counter)

    def add(self, question: Question) -> None:
        """Count one question."""
        if question.answer is None:
            self._keyless[len(question.choices)] += 1
        else:
            self.guessing.add(question)

    @property
    def keyed(self) -> int:
        """Questions with a key."""
        return self.guessing.of

    @property
    def without_key(self) -> int:
        """Questions without one."""
        return self._keyless.total()

    @property
    def several_right(self) -> int:
        """Questions with several right choices."""
        return sum(count for (_, _, also_right), count in self.guessing.counts.items() if also_right)

    @property
    def choices(self) -> Counter[int]:
        """Number of choices → questions that have so many, with a key or without."""
        found = Counter(self._keyless)
        for (choices, _, _), count in self.guessing.counts.items():
            found[choices] += count
        return found

    def _expected(self) -> dict[str, float]:
        """Label → how many right answers would stand there if their places were drawn evenly."""
        expected = dict.fromkeys(LABELS, 0.0)
        for (choices, _, also_right), count in self.guessing.counts.items():
            for label in LABELS[:choices]:
                expected[label] += count * (1 + len(also_right)) / choices
        return expected

    def skew(self, least: float = 0.0) -> Skew | None:
        """The place that has most beyond its share, if the places are more uneven than chance explains; else None.

        So it is where that place has less than `least` of the questions beyond its share.
        """
        expected, found = self._expected(), self.guessing.answers
        labels = [label for label in LABELS if expected[label] >= 5]
        if len(labels) < 2:
            return None
        most = max(labels, key=lambda label: found[label] - expected[label])
        if (found[most] - expected[most]) / self.keyed < least:
            return None
        from scipy.special import chdtrc  # late, as it takes long to import

        statistic = sum((found[each] - expected[each]) ** 2 / expected[each] for each in labels)
        p = float(chdtrc(len(labels) - 1, statistic))
        return Skew(most, found[most] / self.keyed, expected[most] / self.keyed, p) if p < SKEW_P else None


def key_warnings(keys: Keys, *, placed: bool, least: float = 0.0) -> list[str]:
    """Warnings about keys that stand in one place more often than evenly, by `least` of the questions or more.

    `placed`: the model sees the choices, in the file's order.
    """
    skew = keys.skew(least)
    if skew is None or not (placed or keys.guessing.same):
        return []
    even = f"{skew.expected:.1%} would be even (p = {skew.p:.1g})"
    said = f"warning: the right answer is {skew.label} in {skew.share:.1%} of the questions, {even}"
    if placed:
        said += ": a model that likes that place is rewarded. Ask with --set shuffle=true"
    if keys.guessing.same:
        always = keys.guessing.same[LABELS.index(skew.label)]
        said += f". Whoever always answers {always!r} scores {skew.share:.3f}: hold accuracies against that, not chance"
    return [f"{said}."]


@dataclass
class Profile:
    """Sums from which the figures follow; of the questions themselves only hashes are kept, on disk."""

    #: Counts a text's tokens; None: there is no model to ask.
    tokens_of: Callable[[str], int] | None
    #: How the questions would be asked.
    spec: RunSpec
    questions: int = 0
    keys: Keys = field(default_factory=Keys)
    with_context: int = 0
    subjects: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    #: Questions whose text stood there before, with whatever choices.
    same_text: int = 0
    #: Of these, those whose choices are the same, too.
    repeats: Repeats = field(default_factory=Repeats)
    lost_backslashes: int = 0
    same_choices: int = 0
    question_chars: Lengths = field(default_factory=Lengths)
    choice_chars: Lengths = field(default_factory=Lengths)
    context_chars: Lengths = field(default_factory=Lengths)
    prompt_tokens: Lengths = field(default_factory=Lengths)
    #: Prompt and what the model adds to it: what its context must hold.
    needed_tokens: Lengths = field(default_factory=Lengths)
    _texts: Seen = field(default_factory=Seen)

    def add(self, question: Question, prompts: Sequence[str] = ()) -> None:
        """Count one question; `prompts` are those that it would be asked with."""
        self.questions += 1
        self.keys.add(question)
        if question.subject and (question.subject in self.subjects or len(self.subjects) < MOST_SUBJECTS):
            self.subjects[question.subject] += 1
        if self.questions <= MOST_GUESSED:
            self.languages[_language(question)] += 1
        if self._texts.line_of(question.question) is None:
            self._texts.add(question.question, self.questions)
        else:
            self.same_text += 1
        self.repeats.add(question)
        self._add_lengths(question)
        self.lost_backslashes += lost_backslash(question)
        self.same_choices += same_choices(question)
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
        """Tokens that come after the prompt: what is written, the longest choice that is weighed, or one label."""
        if self.spec.sampling is not None:
            return self.spec.sampling.max_tokens
        if self.spec.mode is Mode.LIKELIHOOD:
            return max(tokens_of(f" {choice}") for choice in question.choices)
        return 1

    def close(self) -> None:
        """Give the disk space back."""
        self._texts.close()

    def to_json(self) -> dict[str, Any]:
        """Everything, for `--json`."""
        skew = self.keys.skew()
        return {
            "questions": self.questions,
            "choices": {str(count): number for count, number in sorted(self.keys.choices.items())},
            "answers": dict(sorted(self.keys.guessing.answers.items())),
            "without_key": self.keys.without_key,
            "several_right": self.keys.several_right,
            "skew": skew._asdict() if skew else None,
            "repeated": self.repeats.count(),
            "same_text": self.same_text,
            "same_choices": self.same_choices,
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
    """The language's ISO 639-1 code, guessed from the question and its choices."""
    import py3langid

    text = " ".join((question.question[:_GUESSED_BY], *question.choices))[: 2 * _GUESSED_BY]
    return str(py3langid.classify(text)[0])
