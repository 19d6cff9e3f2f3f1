"""Layered configuration: YAML files, `--set a.b=c`, and error messages that suggest the closest known name."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError

from contract.errors import InputError, nearest

__all__ = [
    "LONGEST",
    "OVERRIDE",
    "Place",
    "brief",
    "explain",
    "has",
    "load_yaml",
    "merge",
    "nest",
    "parse_overrides",
    "read_yaml",
    "without_secrets",
]


#: Maps the path of a setting to the layer it came from, so that a message does not blame the file for a value given on
#: the command line.
Place = Callable[[tuple[Any, ...]], str]
#: Name of the command-line layer in messages.
OVERRIDE = "--set"
#: Maximum characters in one value. With a limit, pydantic also rejects text that UTF-8 cannot encode.
LONGEST = 100_000
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
#: Upper limit for a configuration file, which normally has a few kilobytes.
LARGEST_BYTES = 1_000_000


def brief(value: Any) -> str:
    """Return `value` abbreviated for a message: YAML aliases can turn a small file into an enormous value."""
    shown = reprlib.Repr()
    shown.maxlevel, shown.maxdict, shown.maxlist, shown.maxstring, shown.maxother = 2, 4, 8, 200, 80
    return shown.repr(value)


def read_yaml(path: Path, error: type[InputError]) -> dict[str, Any]:
    """Return the mapping in the YAML file at `path`; an empty file is an empty mapping.

    Raises `error` for a missing file, broken YAML (with its line) or anything but a mapping.
    """
    shown = brief(str(path))[1:-1]
    try:
        with path.open("rb") as file:  # bounded: /dev/zero never ends
            start = file.read(LARGEST_BYTES + 1)
        if len(start) > LARGEST_BYTES:
            raise error(f"{shown}: larger than {LARGEST_BYTES:,} bytes.", hint="Is it a configuration file?")
        content = load_yaml(start.decode())
    except FileNotFoundError:
        raise error(f"{shown}: no such configuration file.", hint="See configs/ for the shipped ones.") from None
    except (OSError, ValueError) as trouble:  # not UTF-8, or a NUL in the name
        why = trouble.strerror if isinstance(trouble, OSError) else trouble
        raise error(f"{shown}: cannot be read: {why}.") from None
    except yaml.YAMLError as trouble:
        mark = getattr(trouble, "problem_mark", None)
        place = f"{shown}:{mark.line + 1}" if mark else shown
        raise error(f"{place}: not valid YAML: {getattr(trouble, 'problem', trouble)}.") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise error(f"{shown}: expected `name: value` lines, found a {type(content).__name__}.")
    for name in content:
        if not isinstance(name, str):  # YAML reads a bare `on` or `1` as true or a number
            raise error(
                f"{shown}: {brief(name)} is not a name.", hint="Names are words; see configs/ for the shipped files."
            )
    return cast("dict[str, Any]", content)


class _Loader(yaml.SafeLoader):
    """YAML loader that rejects duplicate keys in a mapping: PyYAML silently keeps only the last one."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                problem = f"{brief(key.value)} is already on line {seen[key.value]}"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen[key.value] = key.start_mark.line + 1
        return node


def load_yaml(text: str) -> Any:
    """Parse `text` as YAML, plain values only. Raises yaml.YAMLError."""
    try:
        return _Loader(text).get_single_data()
    except RecursionError:
        raise yaml.YAMLError("nested too deeply") from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as trouble:
        # For example a date in the 13th month, or `!!int x`: PyYAML does not catch what its constructors raise.
        raise yaml.YAMLError(f"{type(trouble).__name__}: {trouble}") from None


def parse_overrides(pairs: Iterable[str], error: type[InputError]) -> dict[str, Any]:
    """Return a nested mapping from `a.b=c` pairs; values are parsed as YAML, e.g. `true`, `3` and `[0, 1]`.

    A list or a mapping needs its brackets: without them, `Answer:` and `- yes` are texts.

    >>> parse_overrides(["batch_size=8", "vllm_args.dtype=float32", "description=Note: think."], InputError)
    {'batch_size': 8, 'vllm_args': {'dtype': 'float32'}, 'description': 'Note: think.'}
    """
    result: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise error(f"--set {brief(pair)}: expected name=value.", hint="For example --set batch_size=8.")
        result = merge(result, nest(name, _value_of(value)))
    return result


def _value_of(text: str) -> Any:
    try:
        parsed = load_yaml(text) if text else ""
    except yaml.YAMLError:
        return text
    in_brackets = text.lstrip().startswith(("{", "["))
    return text if isinstance(parsed, dict | list) and not in_brackets else parsed


def nest(name: str, value: Any) -> dict[str, Any]:
    """Return `value` under a dotted name.

    >>> nest("vllm_args.dtype", "float32")
    {'vllm_args': {'dtype': 'float32'}}
    """
    nested = value
    for part in reversed(name.split(".")):
        nested = {part: nested}
    return cast("dict[str, Any]", nested)


def merge(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Return `lower` overridden by `upper`, with mappings merged key by key."""
    result = dict(lower)
    for key, value in upper.items():
        below = result.get(key)
        result[key] = merge(below, value) if isinstance(below, dict) and isinstance(value, Mapping) else value
    return result


def has(layer: Mapping[str, Any], path: tuple[Any, ...]) -> bool:
    """Whether `layer` has a value at `path`.

    >>> has({"vllm_args": {"seed": 1}}, ("vllm_args", "seed")), has({"vllm_args": {}}, ("vllm_args", "seed"))
    (True, False)
    """
    here: Any = layer
    for part in path:
        if not isinstance(here, Mapping):
            return True  # a scalar or a list where a mapping is expected: its content came from this layer
        if part not in here:
            return False
        here = here[part]
    return True


def explain(trouble: ValidationError, model: type[BaseModel], source: str | Place) -> str:
    """Describe each mistake in one line: its source, the field, what was found and what was expected."""
    place = source if callable(source) else lambda _: source
    return " ".join(_explain_one(dict(entry), model, place(entry["loc"])) for entry in trouble.errors())


def _explain_one(entry: dict[str, Any], model: type[BaseModel], source: str) -> str:
    name = ".".join(str(part) for part in entry["loc"])
    if entry["type"] == "extra_forbidden":
        known = _known_names(model, entry["loc"][:-1])
        unknown = str(entry["loc"][-1])
        hint = FORMER_NAMES.get(unknown) or nearest(unknown, known) or nearest(unknown, _nested_names(model, unknown))
        return f"{source}: unknown setting {brief(name)}. {hint}".rstrip()
    message = str(entry["msg"]).removeprefix("Value error, ")
    secret = bool(entry["loc"]) and _is_secret(model, entry["loc"])
    found = "" if secret or entry["type"] in {"missing", "value_error"} else f", found {brief(entry['input'])}"
    shown = brief(name)[1:-1] if name else "configuration"
    return f"{source}: {shown}: {message}{found}."


def _is_secret(model: type[BaseModel], path: tuple[Any, ...]) -> bool:
    """Whether the value at `path` is a secret or contains one."""
    fields = model.model_fields
    annotations = [fields[name].annotation for name in map(str, path[:1] or fields) if name in fields]
    return any(
        _is_secret(each, path[1:])
        if isinstance(each, type) and issubclass(each, BaseModel)
        else each in {SecretStr, SecretBytes}
        for each in annotations
    )


def without_secrets(layer: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Return `layer`, values for `model`, without its secrets, and without blocks that hold nothing else."""
    kept: dict[str, Any] = {}
    for name, value in layer.items():
        annotation = model.model_fields[name].annotation if name in model.model_fields else None
        if annotation in {SecretStr, SecretBytes}:
            continue
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            if block := without_secrets(value, annotation):
                kept[name] = block
        else:
            kept[name] = value
    return kept


def _nested_names(model: type[BaseModel], name: str) -> list[str]:
    """Return the settings called `name` in a group of `model`, as `sampling.temperature` for `temperature`."""
    groups = ((group, field.annotation) for group, field in model.model_fields.items())
    return [
        f"{group}.{name}"
        for group, kind in groups
        if isinstance(kind, type) and issubclass(kind, BaseModel) and name in kind.model_fields
    ]


def _known_names(model: type[BaseModel], path: tuple[Any, ...]) -> list[str]:
    """Return the field names at `path` inside `model`."""
    here: type[BaseModel] = model
    for part in path:
        field = here.model_fields.get(str(part))
        annotation = field.annotation if field else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        here = annotation
    return list(here.model_fields)
