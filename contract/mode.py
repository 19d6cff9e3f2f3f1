"""Scoring modes: what each gets from the model, what it takes for the answer, and how choices' scores are compared."""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import Self

__all__ = ["Answer", "Mode", "Normalization", "Output"]


class Output(Enum):
    """What a mode gets from the model."""

    #: Log-probabilities of given continuations of the prompt; the best one is chosen.
    SCORES = auto()
    #: A generated text.
    TEXT = auto()
    #: Several sampled texts; the choice that most of them name is chosen (self-consistency).
    TEXTS = auto()


class Answer(Enum):
    """What a mode takes for the model's answer."""

    #: The label of a choice (multiple-choice formulation).
    LABEL = auto()
    #: The text of a choice (cloze formulation).
    CHOICE = auto()
    #: Words of its own, graded by a judge. They choose nothing, so there is no chance level and no position.
    OPEN = auto()
    #: Nothing that could be right or wrong: the text itself is the result.
    NONE = auto()


class Mode(StrEnum):
    """How the answer is obtained from the model; each mode is a module of `workers/scoring/`.

    What other modules do differently in some modes follows from two traits, which every mode has to state.
    """

    LETTER = "letter", Output.SCORES, Answer.LABEL
    LIKELIHOOD = "likelihood", Output.SCORES, Answer.CHOICE
    GENERATE = "generate", Output.TEXT, Answer.LABEL
    VOTE = "vote", Output.TEXTS, Answer.LABEL
    JUDGE = "judge", Output.TEXT, Answer.OPEN
    #: The question is the prompt, and the generated text is the result.
    FREE = "free", Output.TEXT, Answer.NONE

    output: Output
    answer: Answer

    def __new__(cls, value: str, output: Output, answer: Answer) -> Self:
        """Define a mode with its traits."""
        mode = str.__new__(cls, value)
        mode._value_ = value
        mode.output, mode.answer = output, answer
        return mode

    @property
    def writes(self) -> bool:
        """Whether the model generates text, rather than scoring given continuations."""
        return self.output is not Output.SCORES

    @property
    def scores_labels(self) -> bool:
        """Whether the labels are the continuations that are scored."""
        return not self.writes and self.answer is Answer.LABEL

    @property
    def scores_choices(self) -> bool:
        """Whether the choices are, so that these scores can be normalized."""
        return not self.writes and self.answer is Answer.CHOICE

    @property
    def votes(self) -> bool:
        """Whether several texts vote on the choice."""
        return self.output is Output.TEXTS

    @property
    def chooses(self) -> bool:
        """Whether the answer is one of the choices."""
        return self.answer is Answer.LABEL or self.answer is Answer.CHOICE

    @property
    def marked(self) -> bool:
        """Whether an answer can be right or wrong."""
        return self.answer is not Answer.NONE

    @property
    def read_by_rules(self) -> bool:
        """Whether rules read the choice in the generated text."""
        return self.writes and self.chooses

    @property
    def judged(self) -> bool:
        """Whether a judge decides if the answer is correct."""
        return self.answer is Answer.OPEN


class Normalization(StrEnum):
    """How a choice's log-likelihood is normalized before choices are compared (`likelihood` only)."""

    NONE = "none"
    CHARACTER = "character"
    BYTE = "byte"
    #: By the tokens that are scored, `delimiter` included.
    TOKEN = "token"
    #: Less the choice's log-likelihood after `unconditional_prompt`: what the question adds to how likely it is anyway.
    MUTUAL_INFO = "mutual_info"

    def length(self, choice: str, tokens: int) -> int:
        """Return the divisor for the log-likelihood of `choice`, which is so many tokens."""
        match self:
            case Normalization.TOKEN:
                return tokens
            case Normalization.CHARACTER:
                return len(choice)
            case Normalization.BYTE:
                return len(choice.encode())
            case Normalization.NONE | Normalization.MUTUAL_INFO:
                return 1
