"""Configuration in layers: YAML files, `--set a.b=c`, and messages that name the mistake and the nearest right word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError

from contract.errors import InputError, nearest

__all__ = ["explain", "merge", "parse_overrides", "read_yaml"]


def read_yaml(path: Path, error: type[InputError]) -> dict[str, Any]:
    """Mapping in the YAML file at `path`; an empty file is an empty mapping.

    Raises `error` for a missing file, broken YAML (with its line) or anything but a mapping.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise error(f"{path}: no such configuration file.", hint="See configs/ for the shipped ones.") from None
    except (OSError, UnicodeDecodeError) as trouble:
        raise error(f"{path}: cannot be read: {trouble}.") from None
    except yaml.YAMLError as trouble:
        mark = getattr(trouble, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        raise error(f"{place}: not valid YAML: {getattr(trouble, 'problem', trouble)}.") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise error(f"{path}: expected `name: value` lines, found a {type(content).__name__}.")
    for name in content:
        if not isinstance(name, str):  # YAML reads a bare `on` or `1` as true or a number
            raise error(f"{path}: {name!r} is no name.", hint="Names are words; see configs/ for the shipped files.")
    return cast("dict[str, Any]", content)


def parse_overrides(pairs: Iterable[str], error: type[InputError]) -> dict[str, Any]:
    """Nested mapping from `a.b=c` words; values are read as YAML, so `true`, `3` and `[0, 1]` are what they look like.

    >>> parse_overrides(["batch_size=8", "vllm_args.dtype=float32"], InputError)
    {'batch_size': 8, 'vllm_args': {'dtype': 'float32'}}
    """
    result: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise error(f"--set {pair!r}: expected name=value.", hint="For example --set batch_size=8.")
        try:
            parsed = yaml.safe_load(value) if value else ""
        except yaml.YAMLError:
            parsed = value
        nested: Any = parsed
        for part in reversed(name.split(".")):
            nested = {part: nested}
        result = merge(result, nested)
    return result


def merge(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """`upper` laid over `lower`, mappings merged key by key."""
    result = dict(lower)
    for key, value in upper.items():
        below = result.get(key)
        result[key] = merge(below, value) if isinstance(below, dict) and isinstance(value, Mapping) else value
    return result


def explain(trouble: ValidationError, model: type[BaseModel], source: str) -> str:
    """One line per mistake, each naming the field, what was found and what to write instead."""
    return " ".join(_explain_one(dict(entry), model, source) for entry in trouble.errors())


def _explain_one(entry: dict[str, Any], model: type[BaseModel], source: str) -> str:
    name = ".".join(str(part) for part in entry["loc"])
    if entry["type"] == "extra_forbidden":
        known = _known_names(model, entry["loc"][:-1])
        return f"{source}: unknown setting {name!r}. {nearest(str(entry['loc'][-1]), known)}".rstrip()
    message = str(entry["msg"]).removeprefix("Value error, ")
    secret = bool(entry["loc"]) and _is_secret(model, entry["loc"])
    found = "" if secret or entry["type"] in {"missing", "value_error"} else f", found {entry['input']!r}"
    return f"{source}: {name or 'configuration'}: {message}{found}."


def _is_secret(model: type[BaseModel], path: tuple[Any, ...]) -> bool:
    """Whether what stands at `path` is a secret, or holds one."""
    fields = model.model_fields
    annotations = [fields[name].annotation for name in map(str, path[:1] or fields) if name in fields]
    return any(
        _is_secret(each, path[1:])
        if isinstance(each, type) and issubclass(each, BaseModel)
        else each in {SecretStr, SecretBytes}
        for each in annotations
    )


def _known_names(model: type[BaseModel], path: tuple[Any, ...]) -> list[str]:
    """Field names at `path` inside `model`."""
    here: type[BaseModel] = model
    for part in path:
        field = here.model_fields.get(str(part))
        annotation = field.annotation if field else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        here = annotation
    return list(here.model_fields)
