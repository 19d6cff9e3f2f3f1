"""Mistakes that pydantic finds; in a configuration, with the closest known name and, if it is no secret, the value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any, TypeGuard

from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError

from contract.errors import closest, nearest
from contract.layers import Place
from contract.yaml_files import brief

__all__ = ["FORMER_NAMES", "explain", "first_mistake", "with_secrets", "without_secrets"]

#: Setting names of the predecessor project, and their equivalents here.
FORMER_NAMES = {
    "auto_port": "Leave it out: with boot_local a free port is always found.",
    "parallel_workers": "That is batches_in_flight, the generate calls that overlap.",
    "random_selection": "That is an option of enqueue: --sample N.",
    "random_seed": "That is an option of enqueue, --seed N, and of the run's configuration, seed.",
    "save_incorrect": "Leave it out: every verdict is kept, and its outcome is in results.csv.",
    "retrieval_top_k": "In a run's configuration it is rag.retrieval_top_k.",
    "retrieval_score_threshold": "In a run's configuration it is rag.retrieval_score_threshold.",
    "use_context_field": "In a run's configuration it is rag.use_context_field.",
}

SECRETS = (SecretStr, SecretBytes)
#: Fewer letters begin a word by chance.
_LEAST_LETTERS = 3


def explain(trouble: ValidationError, model: type[BaseModel], source: str | Place) -> str:
    """Describe each mistake in one line: its source, the field, what was found and what was expected."""
    place = source if callable(source) else lambda _: source
    return " ".join(_explain_one(dict(entry), model, place(entry["loc"])) for entry in trouble.errors())


def first_mistake(trouble: ValidationError) -> tuple[str, str]:
    """Return the dotted name of the first field that does not fit, and why; without its value, which may be a secret.

    The name is empty if it is the whole that does not fit.
    """
    first = trouble.errors(include_input=False, include_url=False)[0]
    return ".".join(map(str, first["loc"])), first["msg"]


def _explain_one(entry: dict[str, Any], model: type[BaseModel], source: str) -> str:
    name = ".".join(str(part) for part in entry["loc"])
    if entry["type"] == "extra_forbidden":
        unknown = str(entry["loc"][-1])
        hint = FORMER_NAMES.get(unknown) or _nearest_setting(model, entry["loc"][:-1], unknown)
        return f"{source}: unknown setting {brief(name)}. {hint}".rstrip()
    message, hint = str(entry["msg"]).removeprefix("Value error, "), ""
    if entry["type"] in {"list_type", "tuple_type"}:
        message = "expected a list"
        if entry["input"] is not None:
            message += f", for example {brief([entry['input']])}"
    elif entry["type"] == "string_type" and isinstance(entry["input"], bool | int | float | date):
        hint = "In quotes it is text" + (": --set 'NAME=\"VALUE\"'." if source == "--set" else ".")  # of YAML
    elif entry["type"] in {"enum", "literal_error"} and isinstance(entry["input"], str):
        hint = nearest(entry["input"], re.findall(r"'([^']*)'", entry["ctx"]["expected"]))
    secret = bool(entry["loc"]) and _is_secret(model, entry["loc"])
    found = "" if secret or entry["type"] in {"missing", "value_error"} else f", found {brief(entry['input'])}"
    shown = brief(name)[1:-1] if name else "configuration"
    return f"{source}: {shown}: {message}{found}. {hint}".rstrip()


def _nearest_setting(model: type[BaseModel], group: tuple[Any, ...], unknown: str) -> str:
    """Return `Did you mean 'x'?` for the setting, by its full name, that is closest to `unknown` in `group`.

    Their common beginning is left out: with it, `rag.topk` would be close to `rag.kind`.
    """
    start = "".join(f"{part}." for part in group if isinstance(part, str))
    known = _known_names(model, group)
    if meant := closest(unknown, known):
        return f"Did you mean {start + meant!r}?"
    nested = [] if group else _nested_names(model, unknown)
    if alike := nested or [start + each for each in _spelled_within(unknown, known)]:
        return f"Did you mean {' or '.join(map(repr, alike))}?"
    return f"There are {', '.join(start + each for each in known)}." if start and known else ""


def _spelled_within(word: str, known: Iterable[str]) -> list[str]:
    """Return those of `known` that are a word of `word`, or of which a word begins with its letters.

    `url` for `base_url`, `retrieval_top_k` for `topk`.
    """
    letters, words = word.replace("_", "").lower(), word.lower().split("_")
    if len(letters) < _LEAST_LETTERS:
        return []
    return [each for each in known if each in words or any(end.startswith(letters) for end in _ends(each))]


def _ends(name: str) -> Iterator[str]:
    """Return the letters of `name` from each of its words on."""
    words = name.split("_")
    return ("".join(words[at:]) for at in range(len(words)))


def _nested_names(model: type[BaseModel], name: str) -> list[str]:
    """Return the settings called `name` in a group of `model`, as `sampling.temperature` for `temperature`."""
    groups = ((group, field.annotation) for group, field in model.model_fields.items())
    return [f"{group}.{name}" for group, kind in groups if _is_group(kind) and name in kind.model_fields]


def _known_names(model: type[BaseModel], path: tuple[Any, ...]) -> list[str]:
    """Return the field names at `path` inside `model`."""
    here: type[BaseModel] = model
    for part in path:
        field = here.model_fields.get(str(part))
        annotation = field.annotation if field else None
        if not _is_group(annotation):
            return []
        here = annotation
    return list(here.model_fields)


def _is_group(annotation: object) -> TypeGuard[type[BaseModel]]:
    """Whether a field of this type is a group of settings."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _is_secret(model: type[BaseModel], path: tuple[Any, ...]) -> bool:
    """Whether the value at `path` is a secret or contains one."""
    fields = model.model_fields
    annotations = [fields[name].annotation for name in map(str, path[:1] or fields) if name in fields]
    return any(_is_secret(each, path[1:]) if _is_group(each) else each in SECRETS for each in annotations)


def with_secrets(model: type[BaseModel]) -> frozenset[str]:
    """Return the fields of `model` whose values are, or contain, secrets by their types."""
    return frozenset(name for name in model.model_fields if _is_secret(model, (name,)))


def without_secrets(layer: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Return `layer`, values for `model`, without its secrets, and without blocks that hold nothing else."""
    kept: dict[str, Any] = {}
    for name, value in layer.items():
        annotation = model.model_fields[name].annotation if name in model.model_fields else None
        if annotation in SECRETS:
            continue
        if _is_group(annotation):
            if block := without_secrets(value, annotation):
                kept[name] = block
        else:
            kept[name] = value
    return kept
