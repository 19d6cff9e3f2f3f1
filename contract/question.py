"""A multiple-choice question, as both sides know it."""

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
    "asked_in",
    "content_id",
    "question_hash",
    "substance",
]

LABELS = string.ascii_uppercase
MIN_CHOICES = 2
MAX_CHOICES = len(LABELS)
#: By number of choices: made once, as every question asks for its labels several times.
_FIRST_LABELS = tuple(tuple(LABELS[:count]) for count in range(MAX_CHOICES + 1))

#: Any text that UTF-8 can write: a constrained string is refused for half a surrogate pair, a plain one is not.
Text = Annotated[str, StringConstraints(pattern="")]
NonBlank = Annotated[str, StringConstraints(pattern=r"\S")]
#: A JSON value that fits into one CSV cell.
Scalar = Text | int | float | bool | None


class Question(BaseModel):
    """One question with its choices; `answer` is the label of the right one, or None where no key is known."""

    # JSON has no word for NaN and the infinities: they would come back from the ledger as None.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    id: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]
    question: NonBlank
    #: None at all makes it a free prompt (`Mode.FREE`); no question file may have such.
    choices: Annotated[tuple[NonBlank, ...], Field(max_length=MAX_CHOICES, strict=False)]
    answer: str | None = None
    #: Labels of further choices that are right too, in order after `answer`: choosing any of them is correct.
    also_right: Annotated[tuple[str, ...], Field(strict=False)] = ()
    subject: Text | None = None
    context: Text | None = None
    #: Ids of the passages that answer it, where the file names them: what retrieval is measured by.
    gold_passages: Annotated[tuple[NonBlank, ...], Field(strict=False)] = ()
    #: What the file said besides, carried through to the results (source ids, difficulty, …).
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
        """Labels of all right choices, in order; empty where no key is known."""
        return () if self.answer is None else (self.answer, *self.also_right)

    @property
    def labels(self) -> tuple[str, ...]:
        """One letter per choice, from A."""
        return _FIRST_LABELS[len(self.choices)]

    def choice_text(self, label: str) -> str:
        """Text of the choice that `label` names."""
        return self.choices[self.labels.index(label)]

    def canonical(self) -> bytes:
        """Bytes that are equal exactly when two questions ask and carry the same."""
        return self.model_dump_json(exclude_defaults=True).encode()

    def body(self) -> Body:
        """The question as the ledger keeps it."""
        return Body(self.id, self.canonical())


class Body(NamedTuple):
    """A checked question in its canonical form."""

    question_id: str
    canonical: bytes


@lru_cache(maxsize=1024)
def asked_in(text: str) -> str:
    """What a question's text asks, by which it is known again: files of one set differ in the white space around it."""
    return " ".join(text.split())


def content_id(question: str, choices: tuple[str, ...] | list[str]) -> str:
    """Id for a question whose file gives none: the first 16 hex digits of SHA-256 over its text and choices.

    The same content has the same id wherever it stands in a file.
    """
    return hashlib.sha256("\x1f".join((question, *choices)).encode()).hexdigest()[:16]


def substance(question: str, choices: Iterable[str]) -> tuple[str, ...]:
    """What a question of this text asks, in whatever order its choices stand: the same in two that are one question."""
    return (question, *sorted(choices))


def question_hash(question: str, answer: str) -> str:
    """The hash by which corpora of reasoning traces name the question that a trace was written for, 16 hex digits.

    The definition is that of Argonium's add_question_hashes.py; `question` is the text with the choices in it.
    """
    cleaned = question.strip().replace("\n", " ").replace("  ", " ")
    return hashlib.sha256(f"{cleaned}||{answer.strip()}".encode(errors="surrogatepass")).hexdigest()[:16]
