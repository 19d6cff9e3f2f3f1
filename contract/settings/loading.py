"""Loading of settings: environment over `--set` over YAML over defaults, for one or several models."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_settings import EnvSettingsSource
from pydantic_settings import SettingsError as EnvironmentLayerError

from contract import variables
from contract.errors import SettingsError, nearest
from contract.explain import FORMER_NAMES, explain, without_secrets
from contract.layers import OVERRIDE, Place, all_of, has, merge, parse_overrides
from contract.names import distinct_slug
from contract.settings.fields import PREFIX, Settings, model_name
from contract.spec import RunSpec
from contract.wording import number
from contract.yaml_files import brief, read_yaml

__all__ = ["as_file", "load_fleet", "load_settings"]


def load_settings(config: Path | None = None, overrides: Iterable[str] = ()) -> Settings:
    """Load settings from all layers. Without `config`, the YAML layer is the file named by `MCQUEUE_CONFIG`, if any.

    If they have several `models`, load the one selected by `model` (--set or MCQUEUE_MODEL); without a selection, check
    all, and load the settings they have in common. A single one needs no selection.

    Raises SettingsError that names the setting, the value found, and the closest known name.
    """
    layers = _Layers.read(config, overrides)
    if layers.models and layers.chosen:
        return layers.of_model(layers.chosen)
    for name in layers.models:
        layers.of_model(name)  # raises its errors: `common` does not look into the entries of `models`
    return layers.common()


def load_fleet(config: Path | None = None, overrides: Iterable[str] = ()) -> tuple[Settings, ...]:
    """Load the settings of each of the `models`, or only of the one selected by `model`. Raises SettingsError."""
    layers = _Layers.read(config, overrides)
    if not layers.models:
        return (layers.common(),)
    return tuple(layers.of_model(name) for name in ([layers.chosen] if layers.chosen else layers.models))


#: Settings of the workers that search indexes: they serve all models, and read what these have in common.
FOR_ALL_MODELS = frozenset({"indexes"})


def as_file(config: Path | None, overrides: Iterable[str], model: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deploy file that includes the `--set` layer, with the settings of `model` overridden by `found`.

    The environment is left out, and so are secrets in the `--set` layer. Raises SettingsError.
    """
    layers = replace(_Layers.read(config, overrides), environment={})
    given = without_secrets(layers.overrides, Settings)
    if not layers.models:
        return merge(merge(layers.file, given), found)
    common = {name: given[name] for name in given if name in FOR_ALL_MODELS}
    for_each = {name: value for name, value in given.items() if name not in {"model", "models", *FOR_ALL_MODELS}}
    listed = layers.models
    if "models" in layers.overrides:
        listed = {name: without_secrets(entry, Settings) for name, entry in listed.items()}
    tuned = distinct_slug(model)
    entries = [
        merge(merge(entry, for_each), found if distinct_slug(name) == tuned else {}) for name, entry in listed.items()
    ]
    return {**merge(layers.file, common), "models": entries}


@dataclass(frozen=True, slots=True)
class _Layers:
    """YAML, the `--set` layer over it, and the environment over both."""

    source: str
    file: Mapping[str, Any]
    overrides: Mapping[str, Any]
    environment: Mapping[str, Any]

    @classmethod
    def read(cls, config: Path | None, overrides: Iterable[str]) -> Self:
        config = config or _file_in_environment()
        _refuse_unknown_variables()
        file = read_yaml(config, SettingsError) if config else {}
        given = merge(_overrides_of_launcher(), parse_overrides(overrides, SettingsError))
        return cls(str(config or "settings"), file, given, _environment())

    @property
    def models(self) -> dict[str, Mapping[str, Any]]:
        """Model name → entry of `models`."""
        return _models_of(self._overridden(self.file), self._listed_in)

    @property
    def _listed_in(self) -> str:
        return self._place((self.source, self.file))(("models",))

    @property
    def chosen(self) -> str:
        """The selected model: the only one of `models`, if none is named; else empty."""
        named = self.environment.get("model") or self.overrides.get("model")
        models = list(self.models)
        return str(named or (models[0] if len(models) == 1 else ""))

    def common(self) -> Settings:
        """Return the settings without any entry of `models`: `--set` and the environment over the file."""
        return _checked(self._overridden(self.file), self._place((self.source, self.file)))

    def of_model(self, name: str) -> Settings:
        """Return the settings of one model: the environment over `--set` over its entry over the rest of the file."""
        if name not in self.models:
            hint = nearest(name, list(self.models)) or f"It has {', '.join(self.models)}."
            raise SettingsError(f"{self._listed_in}: models: none is called {name!r}.", hint=hint)
        entry = self.models[name]
        values = {**self._overridden(merge(self.file, entry)), "model": name, "models": []}
        sources = ((f"{self._listed_in}: model {name}", entry), (f"{self.source}: model {name}", self.file))
        return _checked(values, self._place(*sources))

    def _overridden(self, lower: Mapping[str, Any]) -> dict[str, Any]:
        """Return `lower` with the `--set` layer and the environment merged over it."""
        return merge(merge(lower, self.overrides), self.environment)

    def _place(self, *lower: tuple[str, Mapping[str, Any]]) -> Place:
        """Return a function that names the layer of a setting's value; `lower` are those below `--set`, upper first."""

        def place(path: tuple[Any, ...]) -> str:
            if not path:
                return all_of(*lower, (OVERRIDE, self.overrides), ("environment", self.environment))
            names = [PREFIX + "__".join(map(str, path[:end])).upper() for end in range(1, len(path) + 1)]
            if names[-1] in os.environ:
                return names[-1]
            if has(self.overrides, path):
                return OVERRIDE
            sources = [source for source, layer in lower if has(layer, path)]
            sources += [each for each in names if each in os.environ]  # JSON with this setting in it
            return sources[0] if sources else lower[-1][0]

        return place


def _file_in_environment() -> Path | None:
    """Return the file named by `MCQUEUE_CONFIG`.

    The variable is often set in a shell's start-up file, so the error message says which folder a relative path is
    resolved against.
    """
    named = os.environ.get(variables.CONFIG)
    if not named:
        return None
    try:
        Path(named).stat()
    except FileNotFoundError:
        hint = f"A relative path starts at {Path.cwd()}."
        raise SettingsError(f"{variables.CONFIG}: {named}: no such configuration file.", hint=hint) from None
    except OSError as trouble:
        reason = f"{brief(named)}: cannot be read: {trouble.strerror}."
        raise SettingsError(f"{variables.CONFIG}: {reason}", hint="Check the path and its permissions.") from None
    return Path(named)


def _models_of(layers: Mapping[str, Any], source: str) -> dict[str, Mapping[str, Any]]:
    entries = layers.get("models") or []
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise SettingsError(f"{source}: models: expected a list of settings, one `- hf_model_id: …` per model.")
    for entry in entries:
        if not FOR_ALL_MODELS.isdisjoint(entry):
            raise SettingsError(
                f"{source}: models: an entry has `indexes`, but an index is searched for all models.",
                hint="Move it to the top level of the file.",
            )
    named = {model_name(merge({**layers, "model": ""}, entry)): entry for entry in entries}
    queues = {distinct_slug(name) for name in named}
    if len(queues) < len(entries):
        raise SettingsError(
            f"{source}: models: {len(entries)} models, but only {number(len(queues), 'queue name')}: "
            f"{', '.join(sorted(queues))}.",
            hint="Give each a different `model:`, in letters a to z and digits; it names the queue.",
        )
    return named


def _checked(values: Mapping[str, Any], place: Place) -> Settings:
    _refuse_what_a_run_decides(values, place)
    try:
        return Settings(**values)
    except ValidationError as trouble:
        raise SettingsError(explain(trouble, Settings, place)) from None


def _refuse_what_a_run_decides(values: Mapping[str, Any], place: Place) -> None:
    for name in values:
        if name in RunSpec.model_fields and name not in Settings.model_fields and name not in FORMER_NAMES:
            raise SettingsError(
                f"{place((name,))}: {name!r} belongs to a run, not to the deployment.",
                hint=f"Give it to enqueue: --set {name}=…, or --config with a file of configs/runs/.",
            )


def _environment() -> dict[str, Any]:
    """Return the settings in the environment. Raises SettingsError for a list or mapping that is not JSON."""
    try:
        return EnvSettingsSource(Settings)()
    except RecursionError:
        raise SettingsError("environment: a list or mapping is nested too deeply.") from None
    except EnvironmentLayerError as trouble:
        raise SettingsError(f"environment: {trouble}.", hint="Lists and mappings are given as JSON.") from None


def _overrides_of_launcher() -> dict[str, Any]:
    """Return the `--set` layer of `workers up`, which hands it to its workers in the environment."""
    try:
        found = json.loads(os.environ.get(variables.OVERRIDES, "{}"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise SettingsError(
            f"environment: {variables.OVERRIDES}: expected a JSON object.", hint="`workers up` sets it."
        )
    return found


def _refuse_unknown_variables() -> None:
    for name in os.environ:
        if not name.upper().startswith(PREFIX) or name in variables.NO_SETTINGS:
            continue
        if name != (capitals := name.upper()):  # pydantic would take it, and read `LAW` and `Law` both as `law`
            hint = f"Write {capitals}; a name that has capitals of its own can only be given in a file or by --set."
            raise SettingsError(f"environment: {name}: variables are in capitals, and read in lower case.", hint=hint)
        setting, *parts = name.split("__")
        field = setting.removeprefix(PREFIX).lower()
        if field not in Settings.model_fields:
            known = [*variables.FOR_USERS, *(PREFIX + each.upper() for each in Settings.model_fields)]
            raise SettingsError(f"environment: unknown variable {name}.", hint=nearest(name, known))
        if parts and not _has_parts(field):  # pydantic would ignore it
            raise SettingsError(f"environment: unknown variable {name}.", hint=f"{setting} has no parts.")


def _has_parts(field: str) -> bool:
    annotation = Settings.model_fields[field].annotation
    kind = get_origin(annotation) or annotation
    return isinstance(kind, type) and issubclass(kind, (dict, BaseModel))
