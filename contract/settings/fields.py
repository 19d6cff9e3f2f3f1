"""What a deployment decides, and what it may say."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from contract import address
from contract.errors import SettingsError
from contract.layers import LONGEST, brief, load_yaml
from contract.spec import slug

__all__ = [
    "MOST_QUESTIONS",
    "PREFIX",
    "OpenAiSettings",
    "Settings",
    "SimulatedSettings",
    "model_name",
]

PREFIX = "MCQUEUE_"
#: Question ids that one message may carry.
MOST_QUESTIONS = 1024


class SimulatedSettings(BaseModel):
    """The simulated engine: answers by a hash, time by a simple latency model. For tests and planning."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=LONGEST)

    call_ms: float = Field(default=0.0, ge=0, description="Time of a generate call, whatever is in it.")
    request_ms: float = Field(default=0.0, ge=0, description="Time each request adds to its call.")
    boot_s: float = Field(default=0.0, ge=0, description="Time that it takes to start.")
    #: It cannot start, for this reason; empty: it can.
    unbootable: str = ""
    #: A prompt that contains this text is rejected; empty: none is.
    reject_text: str = ""
    #: A call with a prompt that contains this text raises; empty: none does.
    crash_text: str = ""
    #: A call with a prompt that contains this text raises an error that no engine should; empty: none does.
    bug_text: str = ""
    #: A prompt that contains this text ends the process at once, as a fault in native code would; empty: none does.
    kill_text: str = ""
    #: A call with a prompt that contains this text never ends; empty: all do.
    hang_text: str = ""
    #: A call of more requests runs out of memory; 0: none does.
    room: int = Field(default=0, ge=0)
    #: Keep the engine in a process of its own that ignores SIGTERM, as vLLM's core does.
    core: bool = False


class OpenAiSettings(BaseModel):
    """A server that speaks OpenAI's protocol, and how hard it may be asked."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=LONGEST)

    url: str = Field(default="", description="Base URL; without a path, /v1 is meant. Empty with boot_local.")
    model: str = Field(default="", description="The model's name there.")
    #: Sent as a bearer token.
    api_key: SecretStr = SecretStr("")
    concurrency: int = Field(default=64, ge=1, le=1024, description="Requests at a time.")
    requests_per_minute: float = Field(default=0, ge=0, description="The server's rate limit; 0: none.")
    timeout_s: float = Field(default=120, gt=0, description="Seconds that one request may take.")
    max_retries: int = Field(default=5, ge=0, le=100, description="Of a request that may pass: 429, 5xx, time-outs.")

    @field_validator("url")
    @classmethod
    def _is_a_url_without_secrets(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and (parts.scheme not in {"http", "https"} or not parts.hostname):
            raise ValueError(f"expected http://host or https://host, found {value!r}")
        if parts.username or parts.password:
            raise ValueError("a URL is shown in logs: give the key as openai.api_key, not inside the URL")
        return value

    @model_validator(mode="after")
    def _a_server_has_a_model(self) -> Self:
        if bool(self.url) != bool(self.model):
            raise ValueError("url and model belong together: which model of which server?")
        return self

    @property
    def base_url(self) -> str:
        """What paths like /chat/completions are put behind."""
        return self.url.rstrip("/") if urlsplit(self.url).path.strip("/") else f"{self.url.rstrip('/')}/v1"


class HttpSettings(BaseModel):
    """The HTTP door: `python -m producer serve`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Address that it listens on.
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535, description="0: any that is free.")
    api_key: SecretStr = Field(default=SecretStr(""), description="What callers must show; empty: nothing.")
    max_prompts: int = Field(default=256, ge=1, description="Questions or prompts in one request.")
    max_body_bytes: int = Field(default=16 * 1024**2, ge=1, description="Bytes that a request may send.")
    max_waiting: int = Field(default=4096, ge=1, description="Questions that are waited for at a time.")
    deadline_s: float = Field(default=60, gt=0, description="Seconds a request waits where it does not say.")
    max_deadline_s: float = Field(default=600, gt=0, description="Seconds that a request may ask for at most.")


class Settings(BaseSettings):
    """Everything a deployment decides."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", str_max_length=LONGEST, env_prefix=PREFIX, env_nested_delimiter="__"
    )

    #: Ledger and queue: redis:// or rediss:// (TLS).
    redis_url: SecretStr = SecretStr("redis://127.0.0.1:6379/0")

    # The queue
    question_batch_size: int = Field(default=16, ge=1, le=MOST_QUESTIONS, description="Question ids in one message.")

    # The aggregator
    #: Off: every message is a batch of its own.
    enable_batching: bool = True
    batch_size: int = Field(default=64, ge=1, le=8192, description="Questions that one generate call takes at most.")
    batch_tokens: int = Field(
        default=0, ge=0, description="Prompt tokens that one call takes at most; 0: as many as the questions have."
    )
    batch_timeout: float = Field(default=0.5, ge=0, le=600, description="Seconds the oldest question waits at most.")
    batches_in_flight: int = Field(default=2, ge=1, le=256, description="Generate calls that overlap.")
    max_batches_in_flight: int = Field(
        default=64, ge=1, le=256, description="Generate calls that overlap while the engine has room for more."
    )
    batch_deadline_s: float = Field(
        default=1800,
        gt=0,
        description="Seconds an engine that is asked may go without any answer; then it counts as dead.",
    )
    settle_every_s: float = Field(
        default=5,
        gt=0,
        description="Seconds between commits of a batch whose texts end one by one; each costs the engine time.",
    )
    max_attempts: int = Field(default=5, ge=1, description="Starts of a question before it is recorded as failed.")

    # The engine
    #: vLLM in this process, a server that speaks OpenAI's protocol, or made-up answers for tests and planning.
    engine: Literal["vllm", "openai", "simulated"] = "vllm"
    #: Hugging Face id, folder, or a packaged model.
    hf_model_id: str = Field(default="smollm2-135m-instruct", min_length=1)
    model: str = Field(default="", description="Name the model is served under; from hf_model_id when empty.")
    #: Any argument of vLLM's engine, by its own name.
    vllm_args: dict[str, Any] = Field(default_factory=dict)
    #: LoRA adapters that runs may ask for: name → folder, or with openai.url the model's name on the server.
    adapters: dict[str, str] = Field(default_factory=dict)
    openai: OpenAiSettings = OpenAiSettings()
    boot_local: bool = Field(default=False, description="With engine openai: start `vllm serve` and ask that.")
    local_host: str = Field(default="127.0.0.1", description="Address that `vllm serve` listens on.")
    simulated: SimulatedSettings = SimulatedSettings()
    #: For the server of a run's judge.
    judge_api_key: SecretStr = SecretStr("")
    judge_concurrency: int = Field(default=16, ge=1, le=256, description="Requests to a judge's server at a time.")
    judge_timeout_s: float = Field(default=120, gt=0, description="Time that a judge on a server has for one answer.")
    server_startup_timeout: float = Field(default=600, gt=0, description="Seconds an engine may take to boot.")

    http: HttpSettings = HttpSettings()

    # Retrieval
    indexes: list[Path] = Field(default_factory=list, description="Folders of indexes; each gets a worker of its own.")

    # Watching
    metrics_port: int = Field(default=9400, ge=0, le=65_000, description="First port tried for metrics; 0: no metrics.")
    metrics_address: str = Field(default="127.0.0.1", min_length=1, description="Where metrics are served.")

    # Placing
    #: Several models on one host: each entry is laid over the rest of the file, and has workers and a queue of its own.
    models: list[dict[str, Any]] = Field(default_factory=list)
    #: `auto`: as many as the visible GPUs make; or groups like [[0], [1, 2]], by number, UUID or MIG id; []: none.
    gpu_groups: Literal["auto"] | list[list[int | str]] = "auto"
    share_gpus: bool = Field(default=False, description="Whether groups may have GPUs in common.")
    cpu_workers: int = Field(default=1, ge=1, description="Workers where there is no GPU.")
    drain_timeout_s: float = Field(
        default=60, gt=0, description="Seconds running batches have to end; afterwards others ask them again."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic-settings'
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment lies over everything that was passed in."""
        return env_settings, init_settings

    @field_validator("redis_url")
    @classmethod
    def _is_a_redis_url(cls, value: SecretStr) -> SecretStr:
        address.check(value.get_secret_value())
        return value

    @field_validator("models")
    @classmethod
    def _travel_as_json(cls, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        _refuse_what_json_cannot_say(value)
        return value

    @field_validator("vllm_args")
    @classmethod
    def _read_words_as_yaml(cls, value: dict[str, Any]) -> dict[str, Any]:
        """The environment knows only words: `MCQUEUE_VLLM_ARGS__MAX_MODEL_LEN=2048` means a number."""
        _refuse_what_json_cannot_say(value)
        read = {name: _number_or_word(each) if isinstance(each, str) else each for name, each in value.items()}
        for name in ("tensor_parallel_size", "pipeline_parallel_size"):
            if not isinstance(size := read.get(name, 1), int) or size < 1:
                raise ValueError(f"{name}: expected a number of GPUs, found {size!r}")
        return read

    @field_validator("gpu_groups", mode="before")
    @classmethod
    def _are_groups(cls, value: object) -> object:
        """Told in one sentence: pydantic would name every way in which it is neither."""
        groups = "auto, or a list with a group per worker, like [[0], [1], [2, 3]]"
        if value == "auto" or (isinstance(value, list) and all(isinstance(group, list) for group in value)):
            return value
        if isinstance(value, list) and all(isinstance(each, int | str) for each in value):
            alone = ", ".join(f"[{each}]" for each in value)
            together = ", ".join(map(str, value))
            raise ValueError(f"expected {groups}: [{alone}] is a worker on each, [[{together}]] one on all of them")
        raise ValueError(f"expected {groups}, found {brief(value)}")

    @model_validator(mode="after")
    def _groups_are_not_empty(self) -> Self:
        if self.gpu_groups != "auto" and not all(self.gpu_groups):
            raise ValueError("gpu_groups: expected groups like [[0], [1, 2]], found an empty one")
        return self

    @model_validator(mode="after")
    def _some_batches_are_not_more_than_most(self) -> Self:
        if self.batches_in_flight > self.max_batches_in_flight:
            found = f"{self.batches_in_flight} is more than max_batches_in_flight, {self.max_batches_in_flight}"
            raise ValueError(f"batches_in_flight {found}: raise the latter")
        return self

    @model_validator(mode="after")
    def _one_server_to_ask(self) -> Self:
        if self.engine != "openai" and self.boot_local:
            raise ValueError(
                f"boot_local means nothing with engine {self.engine}, which asks no server: engine: openai"
            )
        if self.engine == "openai" and self.boot_local == bool(self.openai.url) and not self.models:
            raise ValueError("engine openai asks one server: either openai.url and openai.model, or boot_local: true")
        return self

    def refuse_several_models(self) -> None:
        """Raises SettingsError where the file has several models and none was named."""
        if self.models:
            names = [model_name(each) for each in self._each_model()]
            hint = f"Name one: --set model={names[0]}, or MCQUEUE_MODEL={names[0]}."
            raise SettingsError(f"There are several models: {', '.join(names)}.", hint=hint)

    def served_as(self, model: str) -> str:
        """Return the name that `model` is served under: `model` may be a name, hub id or folder of these settings.

        Upper and lower case do not matter, as they do not for queues: otherwise workers would take a run's questions
        and then fail them for asking for another model.
        """
        known = [(each["hf_model_id"], model_name(each)) for each in self._each_model()]
        exact: dict[str, str] = dict(known) | {name: name for _, name in known}
        alike = {slug(spelled): name for spelled, name in exact.items()}
        return exact.get(model) or alike.get(slug(model), model)

    def _each_model(self) -> list[dict[str, Any]]:
        common = self.model_dump(exclude={"models"})
        return [{**common, **entry} for entry in self.models or ({},)]

    @property
    def served_model(self) -> str:
        """Name that runs ask for and that the queue is called after. Raises SettingsError if there are several."""
        self.refuse_several_models()
        return self.model or slug(Path(self.openai.model or self.hf_model_id).name)

    @property
    def full_batch(self) -> int:
        """Questions of a full batch: without batching, of a message."""
        return self.batch_size if self.enable_batching else self.question_batch_size

    @property
    def runs_the_model(self) -> bool:
        """Whether the model is on the worker's own GPUs or cores, rather than on a server or nowhere."""
        return self.engine == "vllm" or self.boot_local

    @property
    def gpus_per_worker(self) -> int:
        """GPUs that one engine uses: the product of the sizes that vLLM makes one copy of the model of."""
        kinds = ("tensor", "pipeline", "prefill_context")
        return math.prod(int(self.vllm_args.get(f"{kind}_parallel_size", 1)) for kind in kinds)

    @property
    def redis_place(self) -> str:
        """Where Redis is, without user name and password: fit for a message."""
        return address.place(self.redis_url.get_secret_value())


def model_name(settings: Mapping[str, Any]) -> str:
    """Name that a model is served under, from settings that are not checked yet."""
    remote = settings.get("openai")
    there = remote.get("model") if isinstance(remote, Mapping) else None
    path = there or settings.get("hf_model_id") or Settings.model_fields["hf_model_id"].default
    return str(settings.get("model") or slug(Path(str(path)).name))


def _refuse_what_json_cannot_say(value: Any) -> None:
    """Settings travel to workers as JSON; YAML's aliases can make more of a line than fits. Raises ValueError."""
    size = 0
    try:
        for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
            size += len(piece.encode())
            if size > LONGEST:
                raise ValueError(f"more than {LONGEST:,} bytes")
    except (TypeError, RecursionError) as trouble:
        raise ValueError(f"expected plain words, numbers, lists and mappings: {trouble}") from None


def _number_or_word(text: str) -> Any:
    try:
        value = load_yaml(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, bool | int | float) else text
