"""What `inspect` says of a question set: lengths, positions of the right answers, repetitions, subjects, languages."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from contract.question import Question
from contract.spec import RunSpec
from producer.intake.answer_keys import Keys
from producer.intake.duplicates import Repeats, text_hash
from producer.intake.oddities import Oddities
from producer.stats.percentile import percentile
from producer.temporary import no_room

__all__ = ["MOST_GUESSED", "Lengths", "Profile"]

#: Number of questions, from the first on, whose language is guessed.
MOST_GUESSED = 1000
#: Number of characters of a question from which its language is guessed.
_GUESSED_FROM_CHARS = 400
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


@dataclass
class Profile:
    """Accumulates the statistics; of the questions themselves, it keeps only hashes."""

    #: Counts the tokens of a text; None without a model.
    tokens_of: Callable[[str], int] | None
    #: How the questions would be asked.
    spec: RunSpec
    questions: int = 0
    keys: Keys = field(default_factory=Keys)
    with_context: int = 0
    subjects: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    #: Finds questions whose text occurred before, with any choices.
    same_texts: Repeats = field(default_factory=lambda: Repeats(text_hash))
    #: Of these, those whose choices and context are the same as well.
    repeats: Repeats = field(default_factory=Repeats)
    oddities: Oddities = field(default_factory=Oddities)
    question_chars: Lengths = field(default_factory=Lengths)
    choice_chars: Lengths = field(default_factory=Lengths)
    context_chars: Lengths = field(default_factory=Lengths)
    prompt_tokens: Lengths = field(default_factory=Lengths)
    #: Prompt plus answer: what must fit into the model's context.
    needed_tokens: Lengths = field(default_factory=Lengths)

    def add(self, question: Question, prompts: Sequence[str] = ()) -> None:
        """Count one question; `prompts` are the ones with which it would be asked."""
        self.questions += 1
        self.keys.add(question)
        if question.subject and (question.subject in self.subjects or len(self.subjects) < MOST_SUBJECTS):
            self.subjects[question.subject] += 1
        if self.questions <= MOST_GUESSED:
            self.languages[_language(question)] += 1
        self.same_texts.add(question)
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
            "same_text": self.same_texts.count(),
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

    text = " ".join((question.question[:_GUESSED_FROM_CHARS], *question.choices))[: 2 * _GUESSED_FROM_CHARS]
    try:
        return str(py3langid.classify(text)[0])
    except OSError as trouble:  # the first call unpacks its model
        raise no_room("the model that guesses languages", trouble) from None
