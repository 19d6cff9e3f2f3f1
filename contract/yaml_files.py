"""Reading of YAML files and values: plain, bounded in size, and without duplicate keys."""

from __future__ import annotations

import math
import reprlib
from itertools import chain
from pathlib import Path
from typing import Any, cast

import yaml

from contract.errors import InputError

__all__ = ["LONGEST", "brief", "load_yaml", "read_yaml"]

#: Maximum characters in one value. With a limit, pydantic also rejects text that UTF-8 cannot encode.
LONGEST = 100_000
#: Upper limit for a configuration file, which normally has a few kilobytes.
LARGEST_BYTES = 1_000_000
#: Upper limit for YAML with its aliases written out, of which a few hundred bytes can stand for terabytes. No file
#: without aliases comes near it.
MOST_WRITTEN_OUT = 2 * LARGEST_BYTES


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
    """YAML loader that rejects duplicate keys in a mapping: PyYAML silently keeps only the last one.

    It also rejects aliases that stand for too much, or for what contains them.
    """

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None and _written_out(node, {}) > MOST_WRITTEN_OUT:
            raise yaml.YAMLError(f"its aliases (*name) stand for more than {MOST_WRITTEN_OUT:,} characters")
        return node

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


def _written_out(node: yaml.Node, known: dict[yaml.Node, float]) -> float:
    """Return about how long `node` is with its aliases written out, in characters; infinity if it contains itself."""
    if isinstance(node, yaml.ScalarNode):
        return len(node.value) + 1
    if node not in known:
        known[node] = math.inf
        inner = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
        known[node] = sum(_written_out(each, known) for each in inner) + 1
    return known[node]


def load_yaml(text: str) -> Any:
    """Parse `text` as YAML, plain values only. Raises yaml.YAMLError."""
    try:
        return _Loader(text).get_single_data()
    except RecursionError:
        raise yaml.YAMLError("nested too deeply") from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as trouble:
        # For example a date in the 13th month, or `!!int x`: PyYAML does not catch what its constructors raise.
        raise yaml.YAMLError(f"{type(trouble).__name__}: {trouble}") from None
