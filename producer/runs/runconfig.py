"""The run configuration: configs/runs/*.yaml and --set, turned into a RunSpec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from contract.errors import RunConfigError
from contract.explain import explain
from contract.layers import OVERRIDE, Place, all_of, has, merge, parse_overrides
from contract.mode import Mode, Normalization
from contract.settings import Settings
from contract.spec import (
    ChatTemplate,
    FewShot,
    Judge,
    Prompt,
    RunSpec,
    Sampling,
    refuse_kwargs_conflict,
    refuse_mode_conflict,
)
from contract.yaml_files import LONGEST, read_yaml
from producer.readers import Source
from producer.runs.parts import FewShotConfig, FileName, JudgeConfig, RagConfig
from producer.runs.templates import checked_description, load_prompt, refuse_blind

__all__ = ["NO_QUESTIONS", "RunConfig", "Texts", "load_run_config", "refuse_free", "run_config"]

#: Sampling of the mode `vote` where a run does not say otherwise: votes must be able to differ. The temperature is that
#: of Wang et al. 2023, "Self-consistency improves chain of thought reasoning in language models", for GPT-3.
VOTES = {"samples": 5, "temperature": 0.7}
#: The digest in a spec whose questions are not known yet.
NO_QUESTIONS = "0" * 64


class Texts(NamedTuple):
    """The texts that prompts are made of, as they were when the files were read."""

    prompt: Prompt
    few_shot: FewShot | None
    #: How the file with the examples was read; empty without examples.
    examples_read: str
    judge: Judge | None


class RunConfig(BaseModel):
    """Everything about a run that a user can configure; `to_spec` fills in the rest."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=LONGEST)

    #: Name under which the workers serve the model; empty: the one in the settings.
    model: str = ""
    #: Name of a LoRA adapter that the workers have (`adapters` in the deploy file); empty: the base model.
    adapter: str = ""
    #: How an answer is obtained from the model.
    mode: Mode = Mode.LIKELIHOOD
    #: What a choice's log-likelihood is divided by, or with `mutual_info` compared with (`likelihood` only).
    normalization: Normalization = Normalization.NONE
    #: With `mutual_info`, the prompt after which the choices are scored without the question, for example `Answer:`;
    #: empty: nothing but the token that starts a text.
    unconditional_prompt: str = ""
    #: Name of a built-in template or path of a .j2 file (docs/questions.md); empty: the mode's default.
    prompt: FileName = ""
    #: Text between the prompt and a choice (`likelihood`) or label (`letter`), and before the answer of an example.
    delimiter: str = " "
    #: Words that the model's answer begins with, such as `The best answer is`: its turn, in a chat. A choice or label
    #: follows them, or the model writes on. `delimiter` separates them from what is before and behind.
    answer_prefix: Annotated[str, AfterValidator(str.strip)] = ""
    rag: RagConfig = RagConfig()
    #: Only this version of vLLM may answer; empty: any engine.
    vllm_version: str = ""
    #: Random seed for samples, examples and the order of choices.
    seed: int = Field(default=0, ge=0)
    #: Whether to use the model's chat template: `auto` uses it if there is one. The prompt is a single turn, except
    #: with `turns`: each example is two turns and the description is the system turn. Null: `auto` in modes in which
    #: the model generates text, `never` in modes that score continuations.
    chat_template: ChatTemplate | None = None
    #: Variables of that template: `enable_thinking: false` has models such as Qwen3 answer without reasoning first.
    chat_template_kwargs: Mapping[str, JsonValue] = Field(default_factory=dict)
    sampling: Sampling = Sampling()
    few_shot: FewShotConfig = FewShotConfig()
    #: Text placed once before examples and question; may use {{ subject }}.
    description: Annotated[str, AfterValidator(str.rstrip)] = ""
    #: Shuffle the choices of each question with the seed.
    shuffle: bool = False
    #: Ask in every rotation of the choices; correct only if correct in all of them.
    circular: bool = False
    judge: JudgeConfig = JudgeConfig()

    @model_validator(mode="before")
    @classmethod
    def _votes_can_differ(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("mode") != Mode.VOTE:
            return data
        sampling = data.get("sampling", {})
        return {**data, "sampling": {**VOTES, **sampling}} if isinstance(sampling, Mapping) else data

    @field_validator("mode", mode="before")
    @classmethod
    def _is_a_mode(cls, value: object) -> object:
        """Offer those for questions alone: `free` is for prompts over HTTP, and refused with a file."""
        if value in list(Mode):
            return value
        *most, last = (repr(each.value) for each in Mode if each is not Mode.FREE)
        expected = f"{', '.join(most)} or {last}"
        raise PydanticCustomError("enum", "Input should be {expected}", {"expected": expected})

    @model_validator(mode="after")
    def _parts_fit_the_mode(self) -> Self:
        rationale = self.few_shot.rationale
        refuse_mode_conflict(self.mode, self.normalization, self.sampling, rationale, self.unconditional_prompt)
        if not self.mode.writes and "sampling" in self.model_fields_set:
            raise ValueError(f"sampling has no effect in mode {self.mode}: no text is generated")
        unseen = not self.answer_prefix and (not self.few_shot.k or rationale)
        if self.mode.writes and "delimiter" in self.model_fields_set and unseen:
            shows = "only few-shot examples without a rationale and answer_prefix show it"
            raise ValueError(f"delimiter has no effect in mode {self.mode}: {shows}")
        if not self.mode.judged and "judge" in self.model_fields_set:
            raise ValueError(f"judge has no effect in mode {self.mode}")
        if self.shuffle and self.circular:
            raise ValueError("shuffle and circular are mutually exclusive: circular asks in every rotation")
        refuse_kwargs_conflict(self.asked_chat_template, self.chat_template_kwargs)
        return self

    @property
    def asked_chat_template(self) -> ChatTemplate:
        """`chat_template`, or the default of the mode."""
        return self.chat_template or (ChatTemplate.AUTO if self.mode.writes else ChatTemplate.NEVER)

    def texts(self, asked: Source | None = None) -> Texts:
        """Read templates and examples, for the questions of `asked`. Raises InputError."""
        prompt = load_prompt(self.prompt, self.mode)
        few_shot, examples_read = self.few_shot.load(asked)
        return Texts(prompt, few_shot, examples_read, self.judge.load() if self.mode.judged else None)

    def to_spec(self, questions_digest: str, settings: Settings, texts: Texts | None = None) -> RunSpec:
        """Return the spec for the questions with that digest; `texts` are its own texts if they have been read before.

        Raises SettingsError if it names no model and `settings` have several.
        """
        texts, rag = texts or self.texts(), self.rag.load()
        with_context = self.rag.use_context_field or rag is not None
        refuse_blind(texts.prompt, self.mode, with_context=with_context, circular=self.circular)
        return RunSpec(
            questions_digest=questions_digest,
            model=settings.served_as(self.model) if self.model else settings.served_model,
            adapter=self.adapter,
            mode=self.mode,
            normalization=self.normalization,
            unconditional_prompt=self.unconditional_prompt,
            prompt=texts.prompt,
            delimiter=self.delimiter,
            answer_prefix=self.answer_prefix,
            use_context_field=self.rag.use_context_field,
            rag=rag,
            vllm_version=self.vllm_version,
            seed=self.seed,
            chat_template=self.asked_chat_template,
            chat_template_kwargs=self.chat_template_kwargs,
            sampling=self.sampling if self.mode.writes else None,
            few_shot=texts.few_shot,
            description=checked_description(self.description),
            shuffle=self.shuffle,
            circular=self.circular,
            judge=texts.judge,
        )


def load_run_config(path: Path | None = None, overrides: Iterable[str] = ()) -> RunConfig:
    """Load the run configuration: `--set` overrides YAML, which overrides the defaults.

    Raises a RunConfigError that names the setting, what was found, and the nearest known name.
    """
    file = read_yaml(path, RunConfigError) if path else {}
    over = parse_overrides(overrides, RunConfigError)

    def place(setting: tuple[Any, ...]) -> str:
        if not setting:
            return all_of((str(path), file), (OVERRIDE, over))
        return OVERRIDE if has(over, setting) else str(path or OVERRIDE)

    return run_config(merge(file, over), place)


def run_config(values: Mapping[str, Any], source: str | Place) -> RunConfig:
    """Return the run configuration with `values`, which come from `source`. Raises RunConfigError."""
    _refuse_settings(values, source)
    try:
        return RunConfig(**values)
    except ValidationError as trouble:
        raise RunConfigError(explain(trouble, RunConfig, source)) from None


def refuse_free(config: RunConfig) -> None:
    """Raise RunConfigError if `config` is for prompts, of which nothing is asked but a text, and not for questions."""
    if config.mode is Mode.FREE:
        raise RunConfigError(
            "mode: free is for prompts, sent to /generate of `python -m producer serve`, and needs no setting there.",
            hint="For questions, use mode: generate.",
        )


def _refuse_settings(values: Mapping[str, Any], source: str | Place) -> None:
    """Raise RunConfigError for deployment settings, which are not part of a run's fingerprint."""
    for name in values:
        if name in Settings.model_fields and name not in RunConfig.model_fields:
            raise RunConfigError(
                f"{source((name,)) if callable(source) else source}: {name!r} belongs to the deployment, not to a run.",
                hint=f"Set it with --deploy FILE or MCQUEUE_{name.upper()}.",
            )
