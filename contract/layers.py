"""Layered configuration: `--set a.b=c` over YAML files, and which layer a value came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import yaml

from contract.errors import InputError
from contract.yaml_files import brief, load_yaml

__all__ = ["OVERRIDE", "Place", "all_of", "has", "merge", "nest", "parse_overrides"]

#: Maps the path of a setting to the layer it came from, so that a message does not blame the file for a value given on
#: the command line.
Place = Callable[[tuple[Any, ...]], str]
#: Name of the command-line layer in messages.
OVERRIDE = "--set"
LONGEST_EXAMPLE = 40
#: White space that YAML takes off a text's ends. Any other, such as a no-break space, is part of the text.
BLANKS = " \t\r\n"


def parse_overrides(pairs: Iterable[str], error: type[InputError]) -> dict[str, Any]:
    """Return a nested mapping from `a.b=c` pairs; values are parsed as YAML, e.g. `true`, `3` and `[0, 1]`.

    A list or a mapping needs its brackets: without them, `Answer:` and `- yes` are texts. A text without quotes is
    taken as it is, with its line breaks and what follows a `#`; only white space around it is not part of it.

    >>> parse_overrides(["batch_size=8", "vllm_args.dtype=float32", "description=Note: think."], InputError)
    {'batch_size': 8, 'vllm_args': {'dtype': 'float32'}, 'description': 'Note: think.'}
    """
    result: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            known = name.isidentifier() and len(name) < LONGEST_EXAMPLE
            hint = f"For example --set {name}=1." if known else ""
            raise error(f"--set {brief(pair)}: expected name=value.", hint=hint)
        result = merge(result, nest(name, _value_of(value)))
    return result


def _value_of(text: str) -> Any:
    try:
        parsed = load_yaml(text)
    except yaml.YAMLError:
        return text
    stripped = text.strip(BLANKS)
    if isinstance(parsed, dict | list):
        return parsed if stripped.startswith(("{", "[")) else text
    if isinstance(parsed, str):
        in_quotes = stripped.startswith(("'", '"', "!"))  # or with its type, as in `!!str 5`
        is_block = stripped.startswith(("|", ">")) and "\n" in stripped
        return parsed if in_quotes or is_block else stripped or text
    if parsed is None and not stripped.lower().startswith(("null", "~")):  # a comment, or a mark without a value
        return text
    return parsed


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


def all_of(*layers: tuple[str, Mapping[str, Any]]) -> str:
    """Name those of `layers` that have any value: one is not to blame for a mistake between several settings.

    >>> all_of(("deploy.yaml", {"batch_size": 8}), ("--set", {"seed": 1}), ("environment", {}))
    'deploy.yaml and --set'
    """
    return " and ".join(dict.fromkeys(name for name, layer in layers if layer))


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
