"""The layout that the user defines with `--map`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from contract.errors import nearest
from producer.readers.answers import Way
from producer.readers.field_names import PARTS, Names, names_of, spelled
from producer.readers.layouts import INLINE, NAMED, OWN, YES_NO, Layout
from producer.readers.parts import Fields, Parts, Used
from producer.readers.plain import no_question
from producer.readers.record import FieldTrouble

__all__ = ["is_mapped", "mapped"]


def mapped(mapping: Mapping[str, str]) -> Layout:
    """Return the layout defined by `--map`: part → field, `outer.inner`, or `field+field+…` for choices in columns."""
    base = {"0": Way.INDEX_0, "1": Way.INDEX_1}.get(mapping.get("base", ""))
    fields = {part: source for part, source in mapping.items() if part != "base"}
    layout = Layout("mapped", "mapped", _parts_by(fields, has_base=base is not None))
    # The base given by the user takes precedence over other readings of the numbers.
    return replace(layout, ways=(base, Way.LABEL, Way.TEXT)) if base else layout


def is_mapped(mapping: Mapping[str, str]) -> Callable[[Fields], bool]:
    """Return a predicate: whether a record has the fields that `--map` names."""
    layout = mapped(mapping)

    def looks_right(fields: Fields) -> bool:
        try:
            layout.parts(fields, names_of(tuple(fields)))
        except FieldTrouble:
            return False
        return True

    return looks_right


def _parts_by(mapping: Mapping[str, str], *, has_base: bool) -> Callable[[Fields, Names], Parts]:
    """Return a function that extracts parts as `--map` says; unmapped parts are found by their usual names.

    `has_base`: the user says what numbers count from, so that they are indices, also where choices have numbers.
    """

    def parts(fields: Fields, _names: Names) -> Parts:
        flat, others = _renamed(fields, mapping)
        names = names_of(tuple(flat))
        if names.question is None:
            raise no_question(fields)
        layout = next((each for each in (NAMED, YES_NO, INLINE) if each.matches(flat, names)), OWN)
        found = layout.parts(flat, names)
        if has_base and all(map(str.isdigit, found.labels or ())):
            found = found._replace(labels=None)
        return found._replace(rest={**found.rest, **others}, used=_as_in_the_file(found.used, mapping))

    return parts


#: Part → the most reliable of its names, so that no other field takes precedence.
_SUREST = {part: names[0] for part, names in PARTS.items()}


def _as_in_the_file(used: Used, mapping: Mapping[str, str]) -> Used:
    """Return the used fields under their names in the file, instead of those that `_renamed` gave them."""
    given: dict[str | None, str] = {_SUREST[part]: source for part, source in mapping.items()}

    def each_of(names: Iterable[str | None]) -> tuple[str, ...]:
        paths = (given[name].split("+") if name in given else [name] for name in names)
        return tuple(path for each in paths for path in each if path)

    return used._replace(
        question=given.get(used.question, used.question),
        choices=each_of(used.choices),
        answer=given.get(used.answer, used.answer),
        id=given.get(used.id, used.id),
        subject=given.get(used.subject, used.subject),
        contexts=each_of(used.contexts),
    )


def _renamed(fields: Fields, mapping: Mapping[str, str]) -> tuple[Fields, Fields]:
    """Return the record with the mapped fields under the names of their parts, and its other fields with such names."""
    found: dict[str, Any] = {}
    mapped_fields: set[str] = set()
    similar: set[str] = set()
    for part, source in mapping.items():
        paths = [each for each in source.split("+") if each]
        mapped_fields.update(paths)
        similar |= {name for name in fields if spelled(name) in PARTS[part]}
        values = [_at(fields, path) for path in paths]
        while len(values) > 1 and values[-1] in (None, ""):
            values.pop()
        if values:
            found[_SUREST[part]] = values[0] if len(paths) == 1 else values
    others = {name: fields[name] for name in fields if name in similar - mapped_fields}
    kept = {name: value for name, value in fields.items() if name not in similar | mapped_fields}
    return {**kept, **found}, others


def _at(fields: Fields, path: str) -> Any:
    """Return the value of a field, or of `outer.inner`."""
    if path in fields:
        return fields[path]
    at: Any = fields
    for step in path.split("."):
        if not isinstance(at, Mapping) or step not in at:
            raise FieldTrouble(path, "there is no such field.", nearest(path, list(map(str, fields))), kind="missing")
        at = at[step]
    return at
