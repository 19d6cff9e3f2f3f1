"""The verdict on a question: its outcome and how it came about."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["MAJORITY", "ContextSource", "Failure", "Outcome", "Passage", "Verdict"]

#: `Verdict.rule` of a majority vote over several texts (`vote`); its `choice_scores` are shares of them.
MAJORITY = "majority"


class Outcome(StrEnum):
    """Possible outcomes of a question.

    `failed` is not `wrong`: there was no answer from the model. It is counted separately and shown beside every
    accuracy. `answered` is for questions without a key: there is a choice, but it is unknown whether it is right.
    """

    CORRECT = "correct"
    WRONG = "wrong"
    UNANSWERED = "unanswered"
    FAILED = "failed"
    ANSWERED = "answered"


class Failure(BaseModel):
    """Why a question could not be scored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str
    message: str

    @classmethod
    def of(cls, trouble: BaseException) -> Self:
        """Return the failure whose cause is `trouble`: its class and its message."""
        return cls(type=type(trouble).__name__, message=str(trouble))


class ContextSource(StrEnum):
    """Where the context in a question's prompt came from."""

    NONE = "none"
    #: The question's own `context`.
    QUESTION = "question"
    RETRIEVED = "retrieved"


class Passage(BaseModel):
    """A retrieved passage."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    id: str
    score: float
    text: str
    #: Rank from 1, the best.
    rank: int = Field(default=1, ge=1)
    #: Id and path of the document it was cut from, if the index has them.
    document: str = ""
    path: str = ""
    #: Hash of the question it was written for (corpora of reasoning traces).
    question_hash: str = ""
    #: Whether it fit into the prompt.
    shown: bool = True


class Verdict(BaseModel):
    """The verdict on one question. The first one written for a question stands."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    question_id: str
    outcome: Outcome
    #: Label of the chosen choice; None if nothing was chosen.
    choice: str | None = None
    #: Label → score that choices were compared by: log-probability, normalized if the spec says so; with `MAJORITY`,
    #: the share of texts that named it. With `circular`, these and the fields derived from them are those of the
    #: first rotation with the most frequent choice.
    choice_scores: dict[str, float] = Field(default_factory=dict)
    #: Label → log-likelihood of the choice without the question (`mutual_info`); already subtracted in `choice_scores`.
    unconditional_scores: dict[str, float] = Field(default_factory=dict)
    #: Label → number of tokens of the choice, as it was scored (`likelihood`). Empty in older verdicts.
    choice_tokens: dict[str, int] = Field(default_factory=dict)
    #: Softmax probability of the chosen choice among the choices, or its share of the texts, 0 to 1.
    confidence: float | None = None
    #: Best score minus second best: nats, or a share of the texts.
    margin: float | None = None
    #: Total probability the model put on the labels (`letter`): a validity signal.
    label_mass: float | None = None
    raw_text: str = ""
    #: Name of the rule that extracted the choice.
    rule: str = ""
    context_source: ContextSource = ContextSource.NONE
    #: All retrieved passages, best first, shown or not.
    passages: tuple[Passage, ...] = ()
    #: Whether a passage that answers the question was shown; None if the question names none, or nothing was
    #: retrieved.
    retrieval_hit: bool | None = None
    #: Whether the text was cut off at `max_tokens`, or before that (`context_full`) because the model's context was
    #: full. A server does not tell the two apart.
    truncated: bool = False
    context_full: bool = False
    #: Number of rotations in which the choice was right, and of rotations asked (`circular`).
    rotations_right: int = 0
    rotations: int = 0
    #: Label chosen in each rotation, in the order of `contract.choice_order.arrangements`; None if nothing was chosen.
    #: Labels are those of the question as enqueued. Empty in older verdicts that did not record it.
    rotation_choices: tuple[str | None, ...] = ()
    #: The judge's explanation (`judge`).
    judge_reason: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    #: Prompt tokens over all prefills, and how many of them came from the engine's prefix cache; both are 0 where the
    #: engine does not say, as vLLM for several texts of one prompt.
    prefill_tokens: int = 0
    cached_tokens: int = 0
    attempts: int = 1
    error: Failure | None = None
    batch_id: str = ""
    batch_size: int = 0
    worker: str = ""
    #: The run in which the model was asked, if another one: `enqueue --reuse` took this answer over.
    reused_from: str = ""
    #: Whether the engine was the simulated one, whose answers are meaningless.
    simulated: bool = False
    #: From publishing the message to the start of the generate call.
    queued_ms: float = 0.0
    #: From the start of the generate call until this question's answer was complete.
    latency_ms: float = 0.0
    #: Seconds since the epoch, by the worker's clock.
    settled_at: float = 0.0

    @property
    def passages_left_out(self) -> int:
        """Number of retrieved passages that did not fit into the prompt."""
        return sum(not each.shown for each in self.passages)
