"""A multiple-choice question, as used by producers and workers.

Four functions say when two questions are the same, each for its purpose:

    identity       the same question in whatever files: text, choices in any order, context; not case, not white space
    substance      the same question twice in a file: text and choices in any order, to the letter
    content_id     the id of a question whose row has none: text and choices, in order
    question_hash  the id that corpora of reasoning traces give a question: text and answer
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

__all__ = [
    "LABELS",
    "MAX_CHOICES",
    "MIN_CHOICES",
    "Body",
    "Question",
    "content_id",
    "identity",
    "normalized",
    "question_hash",
    "substance",
]

LABELS = string.ascii_uppercase
MIN_CHOICES = 2
MAX_CHOICES = len(LABELS)
#: Labels by number of choices, precomputed: they are needed several times per question.
_FIRST_LABELS = tuple(tuple(LABELS[:count]) for count in range(MAX_CHOICES + 1))

#: Any text that UTF-8 can encode: pydantic rejects lone surrogates in constrained strings only.
Text = Annotated[str, StringConstraints(pattern="")]
NonBlank = Annotated[str, StringConstraints(pattern=r"\S")]
#: A JSON value that fits into one CSV cell.
Scalar = Text | int | float | bool | None


class Question(BaseModel):
    """A question with its choices; `answer` is the label of the correct one, or None without a key."""

    # JSON cannot represent NaN and infinities: they would come back from the ledger as None.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    id: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]
    question: NonBlank
    #: Empty for a free prompt (`Mode.FREE`); not allowed in question files.
    choices: Annotated[tuple[NonBlank, ...], Field(max_length=MAX_CHOICES, strict=False)]
    answer: str | None = None
    #: Labels of further correct choices, in order after `answer`: choosing any of them is correct.
    also_right: Annotated[tuple[str, ...], Field(strict=False)] = ()
    subject: Text | None = None
    context: Text | None = None
    #: Ids of the passages that answer it, if the file names them; used to evaluate retrieval.
    gold_passages: Annotated[tuple[NonBlank, ...], Field(strict=False)] = ()
    #: Other fields of the file, carried through to the results (source ids, difficulty, …).
    metadata: dict[Text, Scalar] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _answers_name_choices(self) -> Self:
        labels = LABELS[: len(self.choices)]
        if 0 < len(labels) < MIN_CHOICES:
            raise ValueError(f"choices: expected at least {MIN_CHOICES} items, found {len(labels)}")
        if self.answer is not None and (len(self.answer) != 1 or self.answer not in labels):
            raise ValueError(f"answer {self.answer!r} is none of the labels {', '.join(labels)}")
        if self.also_right:
            if self.answer is None or not set(self.also_right) <= set(labels):
                raise ValueError(f"also_right {self.also_right!r} are not all among the labels {', '.join(labels)}")
            if list(self.right) != sorted(set(self.right)):
                raise ValueError(f"answer and also_right are not each label once, in order: {self.right!r}")
        return self

    @property
    def right(self) -> tuple[str, ...]:
        """Labels of all correct choices, in order; empty without a key."""
        return () if self.answer is None else (self.answer, *self.also_right)

    @property
    def key(self) -> str | None:
        """The key as one text, `B`, or `B,D` if several choices are right; None without one."""
        return ",".join(self.right) if self.also_right else self.answer

    @property
    def labels(self) -> tuple[str, ...]:
        """One letter per choice, from A."""
        return _FIRST_LABELS[len(self.choices)]

    def choice_text(self, label: str) -> str:
        """Return the text of the choice with this label."""
        return self.choices[self.labels.index(label)]

    def canonical(self) -> bytes:
        """Return the canonical form: equal for two questions exactly if all their fields are."""
        # The serializer itself: `model_dump_json` would decode its bytes into a text.
        return self.__pydantic_serializer__.to_json(self, exclude_defaults=True)

    def body(self) -> Body:
        """Return the question as the ledger stores it."""
        return Body(self.id, self.canonical())


class Body(NamedTuple):
    """A validated question in canonical form."""

    question_id: str
    canonical: bytes


def identity(question: Question) -> str:
    """Return a hash by which a question is recognized in whatever file it is, as 32 hex digits.

    It covers the text, the choices in any order, and the context, all `normalized`. The text alone would not do: many
    questions may share one such as "Is the claim supported?". Nor would the id: it is often a row's number, the same in
    every split.
    """
    choices = sorted(map(_normalized, question.choices))
    texts = (normalized(question.question), _normalized(question.context or ""), *choices)
    return hashlib.sha256("\x1f".join(texts).encode(errors="surrogatepass")).hexdigest()[:32]


def _normalized(text: str) -> str:
    return " ".join(text.casefold().split())


@lru_cache(maxsize=1024)
def normalized(text: str) -> str:
    """Return `text` without differences in case and white space, as there are between the files of one data set.

    Cached, for the text of a question: it is compared with those of all examples.
    """
    return _normalized(text)


def content_id(question: str, choices: tuple[str, ...] | list[str]) -> str:
    """Return an id for a question without one: the first 16 hex digits of the SHA-256 over its text and choices.

    The same content has the same id wherever it appears in a file.
    """
    return hashlib.sha256("\x1f".join((question, *choices)).encode()).hexdigest()[:16]


def substance(question: str, choices: Iterable[str]) -> tuple[str, ...]:
    """Return a key that is equal for the same question regardless of the order of its choices."""
    return (question, *sorted(choices))


def question_hash(question: str, answer: str) -> str:
    """Return the hash by which corpora of reasoning traces refer to a trace's question, 16 hex digits.

    Defined as in Argonium's add_question_hashes.py; `question` is the text including the choices.
    """
    cleaned = question.strip().replace("\n", " ").replace("  ", " ")
    return hashlib.sha256(f"{cleaned}||{answer.strip()}".encode(errors="surrogatepass")).hexdigest()[:16]
