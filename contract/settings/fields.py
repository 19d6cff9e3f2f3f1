"""The settings of a deployment and their validation."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from contract import address
from contract.errors import SettingsError
from contract.layers import merge
from contract.names import distinct_slug
from contract.yaml_files import LONGEST, brief, load_yaml

__all__ = [
    "MEMORY_SHARE",
    "MOST_QUESTIONS",
    "PARALLEL_SIZES",
    "PREFIX",
    "OpenAiSettings",
    "Settings",
    "SimulatedSettings",
    "model_name",
    "refuse_no_server",
]

PREFIX = "MCQUEUE_"
#: Maximum question ids in one message.
MOST_QUESTIONS = 1024
#: vLLM's arguments whose product is the number of GPUs that hold one copy of the model.
PARALLEL_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size")
#: vLLM's argument that divides the memory of a GPU.
MEMORY_SHARE = "gpu_memory_utilization"
#: A duration; threads and sockets cannot wait much longer.
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=1_000_000)]


def _usable_in_a_header(key: SecretStr) -> SecretStr:
    """Return the key without white space around it, as a file with a secret ends with a newline. Raises ValueError."""
    stripped = key.get_secret_value().strip()
    if key and not stripped:
        raise ValueError("it is empty but for white space; to have none, leave it out")
    if not re.fullmatch(r"[ -~]*", stripped):
        raise ValueError("no header can carry it: use printable ASCII")
    return SecretStr(stripped)


#: A key that is sent in an HTTP header.
HeaderKey: TypeAlias = Annotated[SecretStr, AfterValidator(_usable_in_a_header)]


class SimulatedSettings(BaseModel):
    """The simulated engine: hash-based answers and a simple latency model, for tests and planning."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=LONGEST)

    call_ms: float = Field(default=0.0, ge=0, description="Fixed time of a generate call.")
    request_ms: float = Field(default=0.0, ge=0, description="Time that each request adds to its call.")
    boot_s: float = Field(default=0.0, ge=0, description="Time to boot.")
    #: Reason why it cannot boot; empty: it can.
    unbootable: str = ""
    #: Prompts that contain this text are rejected; empty: none.
    reject_text: str = ""
    #: A call with a prompt that contains this text raises an EngineError; empty: none does.
    crash_text: str = ""
    #: A call with a prompt that contains this text raises an unexpected error; empty: none does.
    bug_text: str = ""
    #: A prompt that contains this text kills the process, as a crash in native code would; empty: none does.
    kill_text: str = ""
    #: A call with a prompt that contains this text never returns; empty: all do.
    hang_text: str = ""
    #: A call with more requests than this runs out of memory; 0: no limit.
    room: int = Field(default=0, ge=0)
    #: Run the engine in a separate process that ignores SIGTERM, as vLLM's core does.
    core: bool = False


class OpenAiSettings(BaseModel):
    """An OpenAI-compatible server, and the load it may be given."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=LONGEST)

    url: str = Field(default="", description="Base URL; /v1 is added if it has no path. Empty with boot_local.")
    model: str = Field(default="", description="The model's name on the server.")
    #: Sent as a bearer token.
    api_key: HeaderKey = SecretStr("")
    concurrency: int = Field(default=64, ge=1, le=1024, description="Concurrent requests.")
    requests_per_minute: float = Field(default=0, ge=0, description="The server's rate limit; 0: none.")
    timeout_s: Seconds = Field(default=120, description="Time limit of one request, in seconds.")
    max_retries: int = Field(default=5, ge=0, le=100, description="Retries of a request after 429, 5xx or a timeout.")

    @field_validator("url")
    @classmethod
    def _is_a_url_without_secrets(cls, value: str) -> str:
        refuse_no_server(value, "openai.api_key")
        return value

    @property
    def base_url(self) -> str:
        """The URL that paths like /chat/completions are appended to."""
        return self.url.rstrip("/") if urlsplit(self.url).path.strip("/") else f"{self.url.rstrip('/')}/v1"


class HttpSettings(BaseModel):
    """The HTTP server: `python -m producer serve`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Address to listen on.
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535, description="0: any free port.")
    api_key: HeaderKey = Field(default=SecretStr(""), description="Key that callers must send; empty: none.")
    max_prompts: int = Field(default=256, ge=1, description="Maximum questions or prompts in one request.")
    max_body_bytes: int = Field(default=16 * 1024**2, ge=1, description="Maximum size of a request body.")
    max_waiting: int = Field(default=4096, ge=1, description="Maximum questions waiting for an answer at a time.")
    deadline_s: Seconds = Field(default=60, description="Default deadline of a request, in seconds.")
    max_deadline_s: Seconds = Field(default=600, description="Longest deadline a request may ask for, in seconds.")


class Settings(BaseSettings):
    """All settings of a deployment."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", str_max_length=LONGEST, env_prefix=PREFIX, env_nested_delimiter="__"
    )

    #: Ledger and queue: redis:// or rediss:// (TLS).
    redis_url: SecretStr = SecretStr("redis://127.0.0.1:6379/0")

    # The queue
    question_batch_size: int = Field(default=16, ge=1, le=MOST_QUESTIONS, description="Question ids in one message.")

    # The aggregator
    #: If off, every message is its own batch.
    enable_batching: bool = True
    batch_size: int = Field(
        default=64,
        ge=1,
        le=8192,
        description="Maximum questions in one generate call, but never less than one message (`question_batch_size`).",
    )
    batch_tokens: int = Field(default=0, ge=0, description="Maximum prompt tokens in one generate call; 0: no limit.")
    batch_timeout: float = Field(
        default=0.5,
        ge=0,
        le=600,
        description="Maximum seconds that a batch's oldest question waits for others. An idle worker begins those of "
        "high priority at once.",
    )
    batches_in_flight: int = Field(default=2, ge=1, le=256, description="Concurrent generate calls.")
    max_batches_in_flight: int = Field(
        default=64, ge=1, le=256, description="Concurrent generate calls while the engine has room for more."
    )
    batch_deadline_s: Seconds = Field(
        default=1800,
        description="Seconds a busy engine may go without returning any answer before it counts as dead.",
    )
    reading_processes: int = Field(
        default=0,
        ge=0,
        le=16,
        description="Processes that read generated texts, beside each worker's own; for a GPU with cores to spare.",
    )
    settle_every_s: Seconds = Field(
        default=5,
        description="Seconds between commits while the texts of a batch finish one by one; each costs engine time.",
    )
    max_attempts: int = Field(
        default=5,
        ge=2,
        description="Attempts at a question before it is recorded as failed. The last is made alone: a question that "
        "kills its worker does not fail its neighbours.",
    )

    # The engine
    #: vLLM in this process, an OpenAI-compatible server, or simulated answers for tests and planning.
    engine: Literal["vllm", "openai", "simulated"] = "vllm"
    #: Hugging Face id, folder, or a packaged model.
    hf_model_id: str = Field(default="smollm2-135m-instruct", min_length=1)
    model: str = Field(default="", description="Name the model is served under; empty: derived from hf_model_id.")
    #: Any vLLM engine argument, by its vLLM name.
    vllm_args: dict[str, Any] = Field(default_factory=dict)
    #: LoRA adapters that runs may use: name → folder, or with openai.url the model's name on the server.
    adapters: dict[str, str] = Field(default_factory=dict)
    openai: OpenAiSettings = OpenAiSettings()
    boot_local: bool = Field(default=False, description="With engine openai: start and use `vllm serve`.")
    local_host: str = Field(default="127.0.0.1", description="Address that `vllm serve` listens on.")
    simulated: SimulatedSettings = SimulatedSettings()
    #: API key for a run's judge server.
    judge_api_key: HeaderKey = SecretStr("")
    judge_concurrency: int = Field(default=16, ge=1, le=256, description="Concurrent requests to a judge server.")
    judge_timeout_s: Seconds = Field(default=120, description="Time limit of one judge answer, in seconds.")
    server_startup_timeout: Seconds = Field(default=600, description="Seconds an engine may take to boot.")

    http: HttpSettings = HttpSettings()

    # Retrieval
    indexes: list[Path] = Field(default_factory=list, description="Index folders; each gets its own worker.")

    # Monitoring
    metrics_port: int = Field(default=9400, ge=0, le=65_000, description="First port tried for metrics; 0: no metrics.")
    metrics_address: str = Field(default="127.0.0.1", min_length=1, description="Address that metrics are served on.")

    # Placement
    #: Several models on one host: each entry overrides the rest of the file, and has its own workers and queue.
    models: list[dict[str, Any]] = Field(default_factory=list)
    #: `auto`: as many groups as the visible GPUs allow; or e.g. [[0], [1, 2]], by number, UUID or MIG id; []: none.
    gpu_groups: Literal["auto"] | list[list[int | str]] = "auto"
    share_gpus: bool = Field(default=False, description="Whether groups may share GPUs.")
    cpu_workers: int = Field(default=1, ge=1, description="Number of workers on a host without GPUs.")
    drain_timeout_s: Seconds = Field(
        default=60,
        description="Seconds that running batches have to finish; after that, other workers ask them again.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic-settings'
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take only what is passed in, which `loading` has merged with the environment."""
        return (init_settings,)

    @field_validator("redis_url")
    @classmethod
    def _is_a_redis_url(cls, value: SecretStr) -> SecretStr:
        url = value.get_secret_value().strip()  # a file with a secret ends with a newline
        address.check(url)
        return SecretStr(url)

    @field_validator("models")
    @classmethod
    def _travel_as_json(cls, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        _refuse_what_json_cannot_say(value)
        return value

    @field_validator("vllm_args")
    @classmethod
    def _read_words_as_yaml(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Parse strings as YAML: in the environment, `MCQUEUE_VLLM_ARGS__MAX_MODEL_LEN=2048` is a string."""
        _refuse_what_json_cannot_say(value)
        read = {name: _number_or_word(each) if isinstance(each, str) else each for name, each in value.items()}
        for name in PARALLEL_SIZES:
            if not isinstance(size := read.get(name, 1), int) or isinstance(size, bool) or size < 1:
                raise ValueError(f"{name}: expected a number of GPUs, found {size!r}")
        if not _is_share(share := read.get(MEMORY_SHARE, 1)):
            raise ValueError(
                f"{MEMORY_SHARE}: expected a share of a GPU's memory, above 0 and up to 1, found {share!r}"
            )
        return read

    @field_validator("gpu_groups", mode="before")
    @classmethod
    def _are_groups(cls, value: object) -> object:
        """Report one clear error: pydantic would list a mismatch for each variant of the union."""
        groups = "auto, or a list with a group per worker, like [[0], [1], [2, 3]]"
        listed = value if isinstance(value, list) else []
        if value == "auto" or (isinstance(value, list) and all(isinstance(group, list) for group in value)):
            if wrong := [each for group in listed for each in group if not _names_a_gpu(each)]:
                raise ValueError(f"expected a GPU's number, UUID or MIG id, found {brief(wrong[0])}")
            if not all(listed):
                raise ValueError(f"expected {groups}, found an empty group")
            return value
        if listed and all(map(_names_a_gpu, listed)):
            alone = ", ".join(f"[{each}]" for each in listed)
            together = ", ".join(map(str, listed))
            raise ValueError(f"expected {groups}: [{alone}] is a worker on each, [[{together}]] one on all of them")
        raise ValueError(f"expected {groups}, found {brief(value)}")

    @model_validator(mode="after")
    def _batches_in_flight_are_within_their_maximum(self) -> Self:
        if self.batches_in_flight > self.max_batches_in_flight:
            found = f"{self.batches_in_flight} is more than max_batches_in_flight, {self.max_batches_in_flight}"
            raise ValueError(f"batches_in_flight {found}: raise max_batches_in_flight")
        return self

    @model_validator(mode="after")
    def _one_server_to_ask(self) -> Self:
        if self.engine != "openai" and self.boot_local:
            raise ValueError(f"boot_local has no effect with engine {self.engine}: set engine: openai, or leave it out")
        if self.models:  # each has its own
            return self
        if bool(self.openai.url) != bool(self.openai.model):
            raise ValueError("openai.url and openai.model belong together: which model of which server?")
        if self.engine == "openai" and self.boot_local == bool(self.openai.url):
            raise ValueError("engine openai asks one server: either openai.url and openai.model, or boot_local: true")
        return self

    def refuse_several_models(self) -> None:
        """Raise SettingsError if the file has several models and none was selected."""
        if self.models:
            names = self.every_model
            hint = (
                f"Name one: --set model={names[0]} (--model of enqueue and of benchmarks, `models` in a suite's file),"
                f" or MCQUEUE_MODEL={names[0]}."
            )
            raise SettingsError(f"The settings have several models: {', '.join(names)}.", hint=hint)

    def served_as(self, model: str) -> str:
        """Return the name that `model` is served under: `model` may be a name, hub id or folder of these settings.

        Upper and lower case do not matter, nor do they for queues and workers (`serves`). An id or folder that is not
        in these settings is taken to be served elsewhere, under its default name.
        """
        # A server's model is known by its own id: `hf_model_id` is then that of another model, or the default.
        known = [(each["openai"].get("model") or each["hf_model_id"], model_name(each)) for each in self._each_model()]
        exact: dict[str, str] = dict(known) | {name: name for _, name in known}
        alike = {distinct_slug(spelled): name for spelled, name in exact.items()}
        by_default = default_name(model) if "/" in model else model
        return exact.get(model) or alike.get(distinct_slug(model), by_default)

    @property
    def every_model(self) -> list[str]:
        """Names that the models are served under."""
        return [model_name(each) for each in self._each_model()]

    @property
    def every_adapter(self) -> set[str]:
        """Names of the adapters of all models."""
        return {name for each in self._each_model() for name in each["adapters"]}

    def _each_model(self) -> list[dict[str, Any]]:
        common = self.model_dump(exclude={"models"})
        return [merge({**common, "model": ""}, entry) for entry in self.models] or [common]

    @property
    def served_model(self) -> str:
        """Name of the model in runs and in the queue name. Raises SettingsError if there are several models."""
        self.refuse_several_models()
        return self.model or default_name(self.openai.model or self.hf_model_id)

    def serves(self, model: str) -> bool:
        """Whether workers with these settings get the questions of runs of `model`: whether its queue is theirs.

        Names are compared as queues spell them: another host's deploy file, or a producer without one, may spell the
        model in another way. Raises SettingsError if there are several models.
        """
        return distinct_slug(model) == distinct_slug(self.served_model)

    @property
    def full_batch(self) -> int:
        """Questions in a full batch; without batching, in a message."""
        return self.batch_size if self.enable_batching else self.question_batch_size

    @property
    def runs_the_model(self) -> bool:
        """Whether the model runs on the worker's own GPUs or cores, rather than on a server or simulated."""
        return self.engine == "vllm" or self.boot_local

    @property
    def answers_with(self) -> str:
        """What the engine loads, or which model of which server it asks, for messages."""
        if self.runs_the_model:
            return self.hf_model_id
        return f"{self.openai.model} of {self.openai.base_url}" if self.engine == "openai" else self.served_model

    @property
    def gpus_per_worker(self) -> int:
        """GPUs per engine: the product of `PARALLEL_SIZES`."""
        return math.prod(int(self.vllm_args.get(name, 1)) for name in PARALLEL_SIZES)

    @property
    def redis_place(self) -> str:
        """Address of Redis without user name and password, for messages."""
        return address.place(self.redis_url.get_secret_value())


def refuse_no_server(url: str, key: str) -> None:
    """Raise ValueError if `url` is neither empty nor that of a server, or has a password, which belongs in `key`."""
    expected = "expected http://host or https://host"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its message may have a password in it
        raise ValueError(f"{expected}, or either with :port") from None
    if "@" in (parts.netloc or url):
        raise ValueError(f"a URL is shown in logs and results: give the key as {key}, not inside the URL")
    if url and (parts.scheme not in {"http", "https"} or not parts.hostname or port == 0 or not url.isprintable()):
        raise ValueError(f"{expected}, found {url!r}")


def model_name(settings: Mapping[str, Any]) -> str:
    """Return the name a model is served under, from settings that are not validated yet."""
    remote = settings.get("openai")
    there = remote.get("model") if isinstance(remote, Mapping) else None
    path = there or settings.get("hf_model_id") or Settings.model_fields["hf_model_id"].default
    return str(settings.get("model") or default_name(str(path)))


def default_name(path: str) -> str:
    """Return the name that a model of this hub id or folder is served under, unless the settings give it another."""
    return distinct_slug(Path(path).name)


def _refuse_what_json_cannot_say(value: Any) -> None:
    """Raise ValueError for a value that is not JSON, or is too large: settings are passed to workers as JSON.

    A single line can become too large by YAML aliases.
    """
    size = 0
    try:
        for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
            size += len(piece.encode())
            if size > LONGEST:
                raise ValueError(f"more than {LONGEST:,} bytes")
    except (TypeError, RecursionError) as trouble:
        raise ValueError(f"expected plain words, numbers, lists and mappings: {trouble}") from None


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1


def _names_a_gpu(value: object) -> bool:
    """Whether `value` may name a GPU; Python counts booleans as integers."""
    return isinstance(value, int | str) and not isinstance(value, bool)


def _number_or_word(text: str) -> Any:
    try:
        value = load_yaml(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, bool | int | float) else text
