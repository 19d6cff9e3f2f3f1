"""The run spec: everything that can change an answer, and nothing about where or how fast it runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, model_validator

from contract.mode import Mode, Normalization
from contract.question import Question, identity
from contract.wording import number

__all__ = [
    "OWN_VARIABLES",
    "Chat",
    "ChatTemplate",
    "Effort",
    "ExampleSelection",
    "FewShot",
    "IndexKind",
    "Judge",
    "Prompt",
    "Query",
    "Retrieval",
    "RunSpec",
    "Sampling",
    "Stage",
    "refuse_kwargs_conflict",
    "refuse_mode_conflict",
]


class Prompt(BaseModel):
    """A Jinja template including its text, so that workers need no file and old runs stay reproducible."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    text: Annotated[str, StringConstraints(min_length=1)]

    @property
    def version(self) -> str:
        """First 8 hex digits of the text's SHA-256, so that a changed template automatically has another version."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:8]


class ChatTemplate(StrEnum):
    """Whether a prompt is wrapped in the model's own chat template."""

    #: If the model has one.
    AUTO = "auto"
    NEVER = "never"
    #: Always; a model without one is rejected.
    ALWAYS = "always"
    #: Always, as several turns: each example is a user turn and an assistant turn, and the description is the system
    #: turn.
    TURNS = "turns"


class Chat(NamedTuple):
    """How a prompt is put into the model's chat template."""

    template: ChatTemplate = ChatTemplate.NEVER
    #: Variables of the template, such as `enable_thinking`.
    kwargs: Mapping[str, JsonValue] = MappingProxyType({})


#: Variables of every chat template that are set for each prompt.
OWN_VARIABLES = frozenset({"messages", "add_generation_prompt", "continue_final_message"})
#: How deeply the value of a template's variable may be nested: a run with 200 levels could be written, but not read.
DEEPEST = 100


Effort: TypeAlias = Annotated[str, StringConstraints(max_length=50)]

#: Sampling parameters that every server and tool knows, and every run has had. All others are named only where a run
#: chose them.
BASIC_SAMPLING = {"max_tokens", "temperature", "top_p", "samples", "stop"}


class Sampling(BaseModel):
    """How text is sampled from the model, in vLLM's terms."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=100_000)

    #: Maximum length of a text; longer ones are truncated.
    max_tokens: int = Field(default=256, ge=1)
    #: 0 is greedy decoding. A run of the mode `vote` has 0.7 unless set.
    temperature: float = Field(default=0.0, ge=0, le=2)
    #: Nucleus sampling: tokens are drawn from the most likely ones that together have this probability.
    top_p: float = Field(default=1.0, gt=0, le=1)
    #: Tokens are drawn from this many of the most likely ones; 0: from all.
    top_k: int = Field(default=0, ge=0)
    #: Tokens less likely than this share of the most likely one's probability are not drawn.
    min_p: float = Field(default=0.0, ge=0, le=1)
    #: Subtracted from the logit of every token that the text has already.
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    #: Divides the logit of every token that prompt or text have already, or multiplies it if negative; 1: neither.
    repetition_penalty: float = Field(default=1.0, gt=0, le=10)
    #: Texts per question; more than one is for `vote` only, which has 5 unless set.
    samples: int = Field(default=1, ge=1, le=256)
    #: Strings at which generation stops.
    stop: tuple[Annotated[str, StringConstraints(min_length=1)], ...] = ()
    #: How much a model on a server reasons before it answers, in its own words (`minimal`, `low`, `medium`, `high`);
    #: empty: as the server has it.
    reasoning_effort: Effort = ""
    #: Tokens of reasoning after which vLLM ends it, so that the answer follows; null: no limit. vLLM must know how the
    #: model marks its reasoning: `vllm_args.reasoning_parser`.
    thinking_token_budget: int | None = Field(default=None, ge=0)

    def chosen(self) -> dict[str, Any]:
        """Return the parameters beyond `BASIC_SAMPLING` that are not at their defaults."""
        return self.model_dump(exclude=BASIC_SAMPLING, exclude_defaults=True)


class ExampleSelection(StrEnum):
    """How the few-shot examples of a question are selected."""

    #: The first k of the pool, the same for all.
    FIXED = "fixed"
    #: Drawn from the pool, seeded by the run's seed and the question's id.
    SEEDED = "seeded"
    #: The first k of the question's own subject, as in MMLU.
    SUBJECT = "subject"


class FewShot(BaseModel):
    """Solved examples before each question. The pool is part of the spec, as it can change every answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    k: int = Field(ge=1, le=64)
    selection: ExampleSelection = ExampleSelection.FIXED
    #: Metadata field of the examples with the reasoning shown before their answer; empty: only the answer is shown.
    rationale: str = ""
    pool: tuple[Question, ...]

    @model_validator(mode="after")
    def _pool_is_large_enough(self) -> Self:
        if len(self.pool) < self.k:
            raise ValueError(f"a pool of {len(self.pool)} is too small for {number(self.k, 'example')}")
        if any(each.answer is None for each in self.pool):
            raise ValueError("every example needs an answer")
        for each in self.pool if self.rationale else ():
            found = each.metadata.get(self.rationale)
            if not isinstance(found, str) or not found.strip():
                there = ", ".join(each.metadata) or "no further field"
                raise ValueError(f"example {each.id} has no text in {self.rationale!r}, but {there}")
        return self

    @cached_property
    def by_subject(self) -> Mapping[str | None, tuple[Question, ...]]:
        """Mapping of each subject to its examples, in the pool's order."""
        subjects: dict[str | None, list[Question]] = {}
        for each in self.pool:
            subjects.setdefault(each.subject, []).append(each)
        return {subject: tuple(examples) for subject, examples in subjects.items()}

    @cached_property
    def places(self) -> Mapping[str, Sequence[int]]:
        """Mapping of a question's `identity` to its positions in the pool, in order."""
        places: dict[str, list[int]] = {}
        for place, each in enumerate(self.pool):
            places.setdefault(identity(each), []).append(place)
        return places


class Judge(BaseModel):
    """How the model's free-text answer is graded against the reference (`judge` only)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: Prompt
    max_tokens: int = Field(default=256, ge=1)
    #: Retries after a judge's answer that is not the requested JSON.
    retries: int = Field(default=2, ge=0, le=10)
    #: Base URL of an OpenAI-compatible server that does the grading, and its model; empty: the model under test.
    server: str = ""
    model: str = ""
    #: How much that model reasons before it grades; empty: as the server has it.
    reasoning_effort: Effort = ""

    @model_validator(mode="after")
    def _a_server_has_a_model(self) -> Self:
        if bool(self.server) != bool(self.model):
            raise ValueError("judge.server and judge.model belong together: name a server and its model, or neither")
        if self.reasoning_effort and not self.server:
            raise ValueError(
                "judge.reasoning_effort has no effect without judge.server: a model that grades itself does so with"
                " sampling.reasoning_effort"
            )
        return self


class IndexKind(StrEnum):
    """How passages are searched: by keywords, by vectors, or by both."""

    BM25 = "bm25"
    DENSE = "dense"
    HYBRID = "hybrid"


class Query(StrEnum):
    """What the retrieval query consists of."""

    #: The question alone, so that the choices cannot leak into retrieval.
    QUESTION = "question"
    QUESTION_AND_CHOICES = "question+choices"


class Retrieval(BaseModel):
    """Which passages are retrieved for a question, and from which index."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Name of the index; also names the queue of the workers that search it.
    index: Annotated[str, StringConstraints(min_length=1)]
    #: Digest of its manifest, so that another corpus or encoder makes another run.
    index_digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    kind: IndexKind
    #: Whether its passages have question hashes that questions can be matched by.
    question_hashes: bool = False
    retrieval_top_k: int = Field(default=5, ge=1, le=1000)
    #: Passages with a lower score are discarded. The scale is that of the index kind, or of the reranker.
    retrieval_score_threshold: float | None = Field(default=None, allow_inf_nan=False)
    query: Query = Query.QUESTION
    #: Id or path of the cross-encoder that reranks the `rerank_from` best; empty: no reranking.
    reranker: str = ""
    rerank_from: int = Field(default=50, ge=1, le=1000)
    #: Token limit for all passages together; None: whatever the model's context leaves.
    max_context_tokens: int | None = Field(default=None, ge=1)


class Stage(StrEnum):
    """A step of processing a question, each done by its own workers."""

    RETRIEVE = "retrieve"
    SCORE = "score"


class RunSpec(BaseModel):
    """Everything that can change an answer. Runs with equal fingerprints ask exactly the same."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: SHA-256 over the questions' canonical forms, in order.
    questions_digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    #: The name under which a worker serves the model; also names the queue.
    model: Annotated[str, StringConstraints(min_length=1)]
    #: LoRA adapter, by its name in the deployment; empty: the base model.
    adapter: str = ""
    mode: Mode
    normalization: Normalization = Normalization.NONE
    #: Prompt after which choices are scored without the question (`mutual_info`); empty: only the token that starts a
    #: text.
    unconditional_prompt: str = ""
    prompt: Prompt
    #: The only version of vLLM that may answer, where identical numbers matter more than an answer; empty: any engine.
    vllm_version: str = ""
    #: Inserted between the prompt and a choice (or label) that continues it; also before and behind `answer_prefix`.
    delimiter: str = " "
    #: Words that the model's answer begins with, which it continues; empty: it begins its answer itself.
    answer_prefix: str = ""
    #: Whether `Question.context` is shown to the model; nothing is retrieved for a question that has one.
    use_context_field: bool = False
    #: None: closed book.
    rag: Retrieval | None = None
    seed: int = Field(default=0, ge=0)
    chat_template: ChatTemplate = ChatTemplate.NEVER
    #: Variables of the model's chat template, such as `enable_thinking`.
    chat_template_kwargs: Mapping[str, JsonValue] = Field(default_factory=dict)
    #: For modes that generate text only.
    sampling: Sampling | None = None
    few_shot: FewShot | None = None
    #: Template of the text that precedes examples and question, once; may use the question's `subject`.
    description: str = ""
    #: Show each question's choices in its own random order, drawn from the seed.
    shuffle: bool = False
    #: Ask each question once per rotation of its choices; it is correct only if every rotation is.
    circular: bool = False
    judge: Judge | None = None
    #: The run whose stored texts were rescored without asking a model; empty for an ordinary run.
    rescored_from: str = ""
    #: Version of the extraction rules that rescored them; empty for an ordinary run.
    rules_version: str = ""

    @model_validator(mode="after")
    def _parts_fit_the_mode(self) -> Self:
        rationale = self.few_shot.rationale if self.few_shot else ""
        refuse_mode_conflict(self.mode, self.normalization, self.sampling, rationale, self.unconditional_prompt)
        if self.mode.writes != (self.sampling is not None):
            raise ValueError(f"mode {self.mode} {'needs' if self.mode.writes else 'takes no'} sampling")
        if self.mode.judged != (self.judge is not None):
            raise ValueError(f"mode {self.mode} {'needs' if self.mode.judged else 'takes no'} judge")
        if self.shuffle and self.circular:
            raise ValueError("shuffle and circular are mutually exclusive: circular asks in every rotation")
        refuse_kwargs_conflict(self.chat_template, self.chat_template_kwargs)
        return self

    @property
    def chat(self) -> Chat:
        """How its prompts are put into the model's chat template."""
        return Chat(self.chat_template, self.chat_template_kwargs)

    @property
    def reorders(self) -> bool:
        """Whether choices are shown in other orders than the file's."""
        return self.shuffle or self.circular

    def without_examples(self) -> Self:
        """Return the spec for those who need no few-shot examples, of which there may be thousands; the rest stays."""
        if self.few_shot is None:
            return self
        # A copy of it would keep what it has cached of its examples.
        bare = FewShot.model_construct(**self.few_shot.model_dump(exclude={"pool"}), pool=())
        return self.model_copy(update={"few_shot": bare})

    def fingerprint(self) -> str:
        """Return the SHA-256 over the canonical JSON of all fields, as 64 hex digits.

        Fields that were added to the spec later are left out if the run does not use them, so that older runs keep
        their ids. A field that follows from the index's digest is left out as well.
        """
        left_out: dict[str, Any] = {
            name: True
            for name in (
                "adapter",
                "answer_prefix",
                "chat_template_kwargs",
                "description",
                "rules_version",
                "unconditional_prompt",
            )
            if not getattr(self, name)
        }
        if self.sampling is not None:
            left_out["sampling"] = Sampling.model_fields.keys() - BASIC_SAMPLING - self.sampling.chosen().keys()
        if self.few_shot is not None and not self.few_shot.rationale:
            left_out["few_shot"] = {"rationale"}
        if self.judge is not None and not self.judge.reasoning_effort:
            left_out["judge"] = {"reasoning_effort"}
        if self.rag is not None:
            left_out["rag"] = {"question_hashes"}
        fields = self.model_dump(mode="json", exclude=left_out)
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


def refuse_mode_conflict(
    mode: Mode, normalization: Normalization, sampling: Sampling | None, rationale: str, unconditional_prompt: str
) -> None:
    """Raise ValueError if these do not go together."""
    if rationale and not mode.read_by_rules:
        raise ValueError(f"few_shot.rationale shows reasoning before a letter, which mode {mode} does not ask for")
    if normalization is not Normalization.NONE and not mode.scores_choices:
        raise ValueError(f"normalization {normalization} has no effect in mode {mode}, only in likelihood")
    if unconditional_prompt and normalization is not Normalization.MUTUAL_INFO:
        raise ValueError(
            f"unconditional_prompt has no effect with normalization {normalization}, only with mutual_info"
        )
    if sampling is None:
        return
    if mode.votes and sampling.samples < 2:
        raise ValueError(f"mode {mode} needs sampling.samples of at least 2")
    if mode.votes and sampling.temperature == 0:
        raise ValueError(f"mode {mode} needs a sampling.temperature above 0: without it all samples are the same")
    if not mode.votes and sampling.samples > 1:
        raise ValueError(f"sampling.samples above 1 has no effect in mode {mode}, only in vote")


def refuse_kwargs_conflict(template: ChatTemplate, kwargs: Mapping[str, JsonValue]) -> None:
    """Raise ValueError if the chat template cannot be given these variables."""
    if kwargs and template is ChatTemplate.NEVER:
        raise ValueError("chat_template_kwargs has no effect with chat_template never; set chat_template to always")
    if own := sorted(OWN_VARIABLES.intersection(kwargs)):
        raise ValueError(f"chat_template_kwargs: {', '.join(own)} cannot be chosen: it follows from the prompt")
    for name, value in kwargs.items():
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            what = f"{name} is or contains NaN or an infinity, which JSON does not have"
            raise ValueError(f"chat_template_kwargs: {what}") from None
        if _depth(value) > DEEPEST:
            raise ValueError(f"chat_template_kwargs: {name} has more than {DEEPEST} brackets within each other")


def _depth(value: JsonValue) -> int:
    """Return how deeply lists and objects are nested in `value`; 0 if it is neither."""
    if isinstance(value, Mapping):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0
