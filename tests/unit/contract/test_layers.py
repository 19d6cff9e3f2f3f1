"""Configuration in layers, and what is said where one cannot be read."""

from __future__ import annotations

import copy
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.errors import InputError, RunConfigError
from contract.layers import merge, parse_overrides
from contract.yaml_files import brief, read_yaml

names = st.text("abcdefgh_", min_size=1, max_size=3)
leaves = st.none() | st.booleans() | st.integers() | st.lists(st.integers(), max_size=3)
mappings = st.recursive(
    st.dictionaries(names, leaves, max_size=3), lambda inner: st.dictionaries(names, leaves | inner, max_size=3)
)


def leaf_paths(mapping: dict[str, Any], above: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    found = []
    for name, value in mapping.items():
        found += leaf_paths(value, (*above, name)) if isinstance(value, dict) else [((*above, name), value)]
    return found


def at(mapping: dict[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = mapping
    for name in path:
        found = found[name]
    return found


@given(mappings, mappings)
def test_the_upper_layer_decides_whatever_it_names_and_the_lower_keeps_the_rest(
    lower: dict[str, Any], upper: dict[str, Any]
) -> None:
    before = copy.deepcopy((lower, upper))
    merged = merge(lower, upper)
    assert [path for path, value in leaf_paths(upper) if at(merged, path) != value] == []
    decided = {path[:depth] for path, _ in leaf_paths(upper) for depth in range(1, len(path) + 1)}
    for path, value in leaf_paths(lower):
        if not any(path[:depth] in decided for depth in range(1, len(path) + 1)) and path[0] not in upper:
            assert at(merged, path) == value
    assert (lower, upper) == before, "a layer was changed by laying another over it"


@given(mappings)
def test_an_empty_layer_and_the_same_layer_change_nothing(layer: dict[str, Any]) -> None:
    assert merge(layer, {}) == merge({}, layer) == merge(layer, layer) == layer


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
        ({"a": {"b": 1}}, {"a": 2}, {"a": 2}),
        ({"a": 2}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": None}, {"a": None}),
    ],
)
def test_mappings_are_merged_and_anything_else_is_replaced(
    lower: dict[str, Any], upper: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert merge(lower, upper) == expected


@given(st.lists(names, min_size=1, max_size=3), leaves)
def test_an_override_is_read_back_from_where_it_was_put(path: list[str], value: Any) -> None:
    read = parse_overrides([f"{'.'.join(path)}={json.dumps(value)}"], InputError)
    assert leaf_paths(read) == [(tuple(path), value)]


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], {}),
        (["batch_size=8"], {"batch_size": 8}),
        (["a.b=true", "a.c=word", "a.b=0.5"], {"a": {"b": 0.5, "c": "word"}}),
        (["a=[[0], [1, 2]]"], {"a": [[0], [1, 2]]}),
        (["a="], {"a": ""}),
        (["a=b=c"], {"a": "b=c"}),
        (["redis_url=redis://:p@h:1/0"], {"redis_url": "redis://:p@h:1/0"}),
        (["a=[not, closed"], {"a": "[not, closed"}),
        (["a={{ x }} : y"], {"a": "{{ x }} : y"}),
        # Of YAML, these would be less than was written: a comment begins at ` #`, and a line break is a space.
        (["a=Choose option #1 or #2."], {"a": "Choose option #1 or #2."}),
        (["a=# Heading"], {"a": "# Heading"}),
        (["a=One line.\nAnother.\n\nAnd one."], {"a": "One line.\nAnother.\n\nAnd one."}),
        (["a= ", "b=\n"], {"a": " ", "b": "\n"}),
        (["a=word ", "b= 5 # five", "c=null", "d=~"], {"a": "word", "b": 5, "c": None, "d": None}),
        # These, of which YAML takes the beginning for a mark, would be nothing, or a mapping.
        (
            ["a=|", "b= | ", "c=>", "d=&amp", "e=---", "f=!"],
            {"a": "|", "b": "|", "c": ">", "d": "&amp", "e": "---", "f": "!"},
        ),
        (["a='Question': {question}"], {"a": "'Question': {question}"}),
        (["a=|\n  one\n  two", "b=\u3000"], {"a": "one\ntwo", "b": "\u3000"}),
        (["a='in quotes: #1\\n' # not this", 'b="\\n"', "c=!!str 5"], {"a": "in quotes: #1\\n", "b": "\n", "c": "5"}),
    ],
)
def test_overrides_are_what_they_look_like_and_the_last_one_stands(pairs: list[str], expected: dict[str, Any]) -> None:
    assert parse_overrides(pairs, InputError) == expected


@pytest.mark.parametrize(
    ("pair", "hint"), [("batch_size", " For example --set batch_size=1."), ("=8", ""), ("", ""), ("x" * 99, "")]
)
def test_an_override_without_a_name_or_a_value_is_refused(pair: str, hint: str) -> None:
    with pytest.raises(RunConfigError) as caught:
        parse_overrides([pair], RunConfigError)
    assert str(caught.value) == f"--set {brief(pair)}: expected name=value.{hint}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: 1\nb: [1\nc: 2\n", r"\{path}:3: not valid YAML: expected ',' or '\]', but got ':'\."),
        ("a: 1\n\tb: 2\n", r"\{path}:2: not valid YAML: found character '\\t' that cannot start any token\."),
        ("a: 1\nb: {c: 1}\na: 2\n", r"\{path}:3: not valid YAML: 'a' is already on line 1\."),
        ("a:\n  b: 1\n  b: 1\n", r"\{path}:3: not valid YAML: 'b' is already on line 2\."),
        ("- a\n- b\n", r"\{path}: expected `name: value` lines, found a list\."),
        ("just words", r"\{path}: expected `name: value` lines, found a str\."),
        ("a: 1\non: 2\n", r"\{path}: True is not a name\. .*"),
        ("7: 2\n", r"\{path}: 7 is not a name\. .*"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused_with_its_place(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "deploy.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(RunConfigError) as caught:
        read_yaml(path, RunConfigError)
    assert re.fullmatch(message.replace(r"\{path}", re.escape(str(path))), str(caught.value))


def test_what_is_merged_in_may_be_said_anew(tmp_path: Path) -> None:
    path = tmp_path / "deploy.yaml"
    path.write_text("a: &a {x: 1, y: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b, x: 3}\n", encoding="utf-8")
    assert read_yaml(path, RunConfigError)["c"] == {"x": 3, "y": 2}


BOMB = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 99)}]\n" for a, b in pairwise("abcdefg"))
SELF = "a: &a {b: *a}\n"
LONG = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 100)}]\n"


@pytest.mark.parametrize("content", [BOMB, SELF, LONG], ids=["aliases of aliases", "its own part", "a long text"])
def test_aliases_that_stand_for_more_than_memory_holds_are_refused_at_once(tmp_path: Path, content: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(RunConfigError, match=r"aliases \(\*name\) stand for more than 2,000,000 characters"):
        read_yaml(path, RunConfigError)


def test_a_file_that_is_not_there_or_not_text_is_told_by_its_path(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\xfa")
    for path, trouble in [
        (tmp_path / "missing.yaml", "no such configuration file"),
        (binary, "cannot be read"),
        (tmp_path, "cannot be read"),
    ]:
        with pytest.raises(InputError, match=f"^{re.escape(str(path))}: {trouble}"):
            read_yaml(path, InputError)


@pytest.mark.parametrize("content", ["", "# nothing but a remark\n", "---\n"])
def test_an_empty_file_changes_nothing(tmp_path: Path, content: str) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text(content, encoding="utf-8")
    assert read_yaml(path, InputError) == {}
