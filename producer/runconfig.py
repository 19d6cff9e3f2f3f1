"""What a person wants asked: configs/runs/*.yaml and --set, turned into a RunSpec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from contract.errors import RunConfigError
from contract.layers import explain, merge, parse_overrides, read_yaml
from contract.settings import Settings
from contract.spec import Mode, Normalization, Prompt, RunSpec

__all__ = ["RunConfig", "load_run_config"]


class RunConfig(BaseModel):
    """Everything about a run that a person may choose; what it leaves open is filled in by `to_spec`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Name the workers serve the model under; empty: the one that the settings serve.
    model: str = ""
    mode: Mode = Mode.LIKELIHOOD
    normalization: Normalization = Normalization.NONE
    #: Name of a built-in template or path of a .j2 file; empty: the default of the mode.
    prompt: str = ""
    #: Put between the prompt and a choice (`likelihood`) or label (`letter`).
    delimiter: str = " "
    use_context_field: bool = False
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _normalization_needs_likelihood(self) -> Self:
        if self.mode is not Mode.LIKELIHOOD and self.normalization is not Normalization.NONE:
            raise ValueError(f"normalization {self.normalization} only means something with mode likelihood")
        return self

    def to_spec(self, questions_digest: str, prompt: Prompt, served_model: str) -> RunSpec:
        """The spec of asking the questions of that digest."""
        return RunSpec(
            questions_digest=questions_digest,
            model=self.model or served_model,
            mode=self.mode,
            normalization=self.normalization,
            prompt=prompt,
            delimiter=self.delimiter,
            use_context_field=self.use_context_field,
            seed=self.seed,
        )


def load_run_config(path: Path | None = None, overrides: Iterable[str] = ()) -> RunConfig:
    """The run configuration from `--set` over YAML over defaults.

    Raises RunConfigError that names the setting, what was found, and the nearest known name.
    """
    values = merge(read_yaml(path, RunConfigError) if path else {}, parse_overrides(overrides, RunConfigError))
    source = str(path or "run configuration")
    _refuse_settings(values, source)
    try:
        return RunConfig(**values)
    except ValidationError as trouble:
        raise RunConfigError(explain(trouble, RunConfig, source)) from None


def _refuse_settings(values: Mapping[str, Any], source: str) -> None:
    """Where and how fast is decided elsewhere: a run may not carry it, for it would not be in the fingerprint."""
    for name in values:
        if name in Settings.model_fields and name not in RunConfig.model_fields:
            raise RunConfigError(
                f"{source}: {name!r} belongs to the deployment, not to a run.",
                hint=f"Give it by --deploy FILE or MCQUEUE_{name.upper()}.",
            )
