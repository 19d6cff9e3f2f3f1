"""JSON request and response bodies of the HTTP server."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from contract.mode import Mode, Normalization
from contract.question import MAX_CHOICES, MIN_CHOICES, Question, content_id
from contract.spec import ChatTemplate, Effort, Sampling
from contract.verdict import ContextSource, Failure, Outcome, Passage, Verdict
from producer.readers.fields import trouble_of
from producer.readers.marks import refuse_other_order, without_marks
from producer.readers.own_answers import own_labels
from producer.readers.parts import Parts
from producer.readers.record import FieldTrouble
from producer.runs.runconfig import RunConfig, run_config

__all__ = [
    "GenerateBatchIn",
    "GenerateBatchOut",
    "GenerateIn",
    "GenerateOptions",
    "GenerateOut",
    "QuestionIn",
    "ScoreBatchIn",
    "ScoreBatchOut",
    "ScoreIn",
    "ScoreOptions",
    "ScoreOut",
]


Item = TypeVar("Item")
#: A list of which only the first bad item is reported. A large body may have a million of them, and all other requests
#: would wait while they are listed.
Items: TypeAlias = Annotated[list[Item], Field(fail_fast=True)]
#: Maximum number of members of an object, for the same reason: more are refused together.
MOST_MEMBERS = 100
#: Strict types, as in our own JSON layout: true is not 1.
Answer = StrictStr | StrictInt
LeftToModel = Annotated[
    list[str],
    Field(description="Sampling parameters of which the model did not take the request's value, but its own."),
]
#: Fields of a run configuration that determine what answers, regardless of how it is asked.
WHO_ANSWERS = ("model", "adapter", "vllm_version")
#: What error messages call the source of a configuration.
IN_MESSAGES = "request"


class _Body(BaseModel):
    # With any limit, pydantic rejects strings that UTF-8 cannot encode, like "\ud800". The server limits request sizes.
    model_config = ConfigDict(extra="forbid", str_max_length=2**31)

    @model_validator(mode="before")
    @classmethod
    def _has_few_members(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > MOST_MEMBERS:
            raise ValueError(f"found {len(value):,} members in one object; it takes {len(cls.model_fields)}")
        return value


class QuestionIn(_Body):
    """A question as in our own file layout; `answer` is a label, a 0-based index, a choice's text, or a list."""

    id: str | None = None
    question: str
    choices: Items[str]
    answer: Answer | Items[Answer] | None = None
    context: str | None = None
    subject: str | None = None

    def to_question(self) -> Question:
        """Convert to a Question. Raises FieldTrouble."""
        if len(self.choices) < MIN_CHOICES:
            hint = "To generate text from a prompt, use /generate."
            raise FieldTrouble("choices", f"a question needs at least {MIN_CHOICES}.", hint)
        if len(self.choices) > MAX_CHOICES:
            message = f"found {len(self.choices)}, expected {MIN_CHOICES} to {MAX_CHOICES}."
            raise FieldTrouble("choices", message, "Send fewer choices.")
        refuse_other_order(self.choices, "Remove the marks.")
        parts = without_marks(Parts(self.question, self.choices, self.answer))
        right = own_labels(parts.answer, parts.choices)
        try:
            return Question(
                id=content_id(self.question, parts.choices) if self.id is None else self.id,
                question=self.question,
                choices=tuple(parts.choices),
                answer=right[0] if right else None,
                also_right=right[1:],
                context=self.context,
                subject=self.subject,
            )
        except ValidationError as trouble:
            raise trouble_of(trouble) from None


class ScoreOptions(_Body):
    """How to ask; omitted fields default to the server's run configuration."""

    model: str = ""
    mode: Literal["likelihood", "letter", "generate"] | None = None
    normalization: Normalization | None = None
    use_context_field: bool | None = None
    deadline_s: float | None = Field(default=None, gt=0)

    def over(self, base: RunConfig) -> RunConfig:
        """Return `base` overridden by the given fields. Raises RunConfigError."""
        given = self.model_dump(include={"mode", "normalization"}, exclude_none=True)
        kept = base.model_dump(exclude_unset=True)
        if self.mode is not None and self.mode != base.mode:  # the prompt and related fields belong to another mode
            kept = {name: kept[name] for name in kept if name in {*WHO_ANSWERS, "seed", "rag"}}
        if self.normalization not in (None, base.normalization):
            kept.pop("unconditional_prompt", None)
        if self.use_context_field is not None:
            given["rag"] = {**kept.get("rag", {}), "use_context_field": self.use_context_field}
        return run_config({**kept, **given, **_who(self.model, base)}, IN_MESSAGES)


class ScoreIn(QuestionIn, ScoreOptions):
    """One question."""


class ScoreBatchIn(ScoreOptions):
    """Several questions."""

    questions: Annotated[Items[QuestionIn], Field(min_length=1)]


class PassageOut(BaseModel):
    """A retrieved passage, without its text; `shown` says whether it fit into the prompt."""

    id: str
    rank: int
    score: float | None
    shown: bool
    #: Id and path of the document it was cut from, if the index has them.
    document: str
    path: str

    @classmethod
    def of(cls, passage: Passage) -> PassageOut:
        """Create it; a score that JSON cannot represent becomes null."""
        return cls(**passage.model_dump(include=set(cls.model_fields) - {"score"}), score=_finite(passage.score))


class ScoreOut(BaseModel):
    """A verdict; `error` is set if the outcome is `failed`."""

    id: str
    outcome: Outcome
    choice: str | None
    choice_text: str | None
    confidence: float | None
    choice_scores: dict[str, float | None]
    raw_text: str
    #: Where the context in the prompt came from.
    context_source: ContextSource
    passages: list[PassageOut]
    error: Failure | None
    model: str
    worker: str
    #: Number of questions answered in the same call, from all clients.
    batch_size: int
    queued_ms: float
    latency_ms: float
    left_to_model: LeftToModel

    @classmethod
    def of(cls, question: Question, verdict: Verdict, model: str, left_to_model: list[str]) -> ScoreOut:
        """Create the response; scores that JSON cannot represent, NaN and infinities, become null."""
        return cls(
            id=question.id,
            outcome=verdict.outcome,
            choice=verdict.choice,
            choice_text=question.choice_text(verdict.choice) if verdict.choice else None,
            confidence=_finite(verdict.confidence),
            choice_scores={label: _finite(score) for label, score in verdict.choice_scores.items()},
            raw_text=verdict.raw_text,
            context_source=verdict.context_source,
            passages=[PassageOut.of(each) for each in verdict.passages],
            error=verdict.error,
            model=model,
            worker=verdict.worker,
            batch_size=verdict.batch_size,
            queued_ms=verdict.queued_ms,
            latency_ms=verdict.latency_ms,
            left_to_model=left_to_model,
        )


class ScoreBatchOut(BaseModel):
    """Results in the order of the questions."""

    results: list[ScoreOut]


class GenerateOptions(_Body):
    """How to generate: sampling parameters with vLLM's names, and who answers by when."""

    model: str = ""
    max_tokens: int = Field(default=256, ge=1)
    temperature: float = Field(default=0.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0)
    min_p: float = Field(default=0.0, ge=0, le=1)
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    repetition_penalty: float = Field(default=1.0, gt=0, le=10)
    stop: Items[str] = []
    reasoning_effort: Effort = ""
    thinking_token_budget: int | None = Field(default=None, ge=0)
    seed: int = Field(default=0, ge=0)
    chat_template: ChatTemplate = ChatTemplate.AUTO
    chat_template_kwargs: dict[str, JsonValue] = {}
    deadline_s: float | None = Field(default=None, gt=0)

    def over(self, base: RunConfig) -> RunConfig:
        """Return a run configuration with these parameters; only model and engine come from `base`.

        Raises RunConfigError.
        """
        sampling = self.model_dump(include=set(Sampling.model_fields))
        more = self.model_dump(include={"seed", "chat_template", "chat_template_kwargs"})
        return run_config({"mode": Mode.FREE, "sampling": sampling, **more, **_who(self.model, base)}, IN_MESSAGES)


class GenerateIn(GenerateOptions):
    """One prompt."""

    prompt: Annotated[str, Field(pattern=r"\S")]


class GenerateBatchIn(GenerateOptions):
    """Several prompts."""

    prompts: Annotated[Items[Annotated[str, Field(pattern=r"\S")]], Field(min_length=1)]


class GenerateOut(BaseModel):
    """A generated text; `error` is set if there is none."""

    text: str
    truncated: bool
    completion_tokens: int
    error: Failure | None
    batch_size: int
    left_to_model: LeftToModel


class GenerateBatchOut(BaseModel):
    """Results in the order of the prompts."""

    results: list[GenerateOut]
    total_prompts: int
    total_time_seconds: float
    avg_time_per_prompt: float


def _who(model: str, base: RunConfig) -> dict[str, Any]:
    """Return the fields that determine what answers a request for `model`; those of `base` if it is empty."""
    theirs = {name: getattr(base, name) for name in WHO_ANSWERS}
    return {**theirs, "model": model} if model else theirs


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
