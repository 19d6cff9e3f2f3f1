"""What became of a question."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["MAJORITY", "ContextSource", "Failure", "Outcome", "Passage", "Verdict"]

#: `Verdict.rule` where several texts were counted (`vote`): its `choice_scores` are shares of them.
MAJORITY = "majority"


class Outcome(StrEnum):
    """How a question can end.

    `failed` is not `wrong`: the model was never heard. It is counted apart and shown beside every accuracy.
    `answered` is for questions without a key: a choice was made, and nobody knows whether it is right.
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
    #: From 1, the best.
    rank: int = Field(default=1, ge=1)
    #: Id of the document that it was cut from, and that document's path, where the index knows them.
    document: str = ""
    path: str = ""
    #: Hash of the question that it was written for (corpora of reasoning traces).
    question_hash: str = ""
    #: Whether the prompt had room for it.
    shown: bool = True


class Verdict(BaseModel):
    """One settled question. The first one written for a question stands."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    question_id: str
    outcome: Outcome
    #: Label of the chosen choice; None where nothing was chosen.
    choice: str | None = None
    #: Label → the score that choices were compared by: log-probability, normalised where the spec says so; by
    #: `MAJORITY`, share of the texts that named it. With `circular` these, and what follows from them, are those of the
    #: first rotation with the choice of most.
    choice_scores: dict[str, float] = Field(default_factory=dict)
    #: Softmax share of the chosen choice among the choices, or its share of the texts, 0 to 1.
    confidence: float | None = None
    #: Best score minus second best: nats, or a share of the texts.
    margin: float | None = None
    #: Probability that the model put on any of the labels at all (`letter`): a validity signal.
    label_mass: float | None = None
    raw_text: str = ""
    #: Name of the rule that read the choice.
    rule: str = ""
    context_source: ContextSource = ContextSource.NONE
    #: Everything that was retrieved, best first, shown or not.
    passages: tuple[Passage, ...] = ()
    #: Whether a passage that answers the question was shown; None where the question names none, or nothing was
    #: retrieved.
    retrieval_hit: bool | None = None
    #: The model ran into `max_tokens` before it was done.
    truncated: bool = False
    #: Rotations in which the choice was right, and rotations asked (`circular`).
    rotations_right: int = 0
    rotations: int = 0
    #: Label of what was chosen in each of them, in the order of `contract.choice_order.arrangements`; None where
    #: nothing was. Labels are those of the question as it was enqueued. Empty in verdicts from before this was kept.
    rotation_choices: tuple[str | None, ...] = ()
    #: What the judge wrote (`judge`).
    judge_reason: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    #: Prompt tokens over all prefills, and how many of them came from the engine's prefix cache.
    prefill_tokens: int = 0
    cached_tokens: int = 0
    attempts: int = 1
    error: Failure | None = None
    batch_id: str = ""
    batch_size: int = 0
    worker: str = ""
    #: Whether the worker's engine was the simulated one, whose answers mean nothing.
    simulated: bool = False
    #: From publishing the message to the start of the generate call.
    queued_ms: float = 0.0
    #: The generate call, as long as this question waited for it.
    latency_ms: float = 0.0
    #: Seconds since the epoch, by the worker's clock.
    settled_at: float = 0.0

    @property
    def passages_left_out(self) -> int:
        """Passages that were retrieved and not shown, because the prompt had no room."""
        return sum(not each.shown for each in self.passages)
