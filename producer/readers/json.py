"""Reading JSON: a list of objects, or an object that contains them. The text is in memory, objects are decoded singly.

| the file is an object of …                     | the records are                                                |
|------------------------------------------------|----------------------------------------------------------------|
| one list among other members (`questions`, …)  | its items                                                      |
| questions by id                                | the questions                                                  |
| lists, or objects of questions, by name        | those of every group (`--subset` selects one)                  |
| fields of one question                         | that question                                                  |

Beside one list with a usual name, only those lists count in which there is a question: `references` holds none. A
single question beside lists is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import Any, NamedTuple, NoReturn

from contract.errors import QuestionFileError, nearest
from producer.readers.jsonl import DECODER
from producer.readers.record import FieldTrouble, Record
from producer.readers.shapes import IsQuestion, extraction, place_of_questions
from producer.readers.text import Text

__all__ = ["read_entries", "read_json"]

_SPACE = re.compile(r"[ \t\n\r]*")
_SHAPE = 'Expected a list of questions, an object of questions by id, or {"questions": [...]}.'
#: Members that apply to all questions (BIG-bench).
_OF_ALL = ("task_prefix", "description")
#: Usual names for a list of questions when there are other lists, which may be of something else.
_LISTS = ("questions", "examples", "example", "data", "rows", "items", "instances", "problems")


def read_json(text: Text, is_question: IsQuestion, subset: str = "", doubt: str = "") -> Iterator[Record]:
    """Yield the records of the file. Raises QuestionFileError at a syntax error, as what follows cannot be parsed.

    `is_question` says whether an object looks like a question, and `doubt` why perhaps none does.
    """
    cursor = _Cursor(text.whole(), text.shown)
    opening = cursor.peek()
    if opening == "[":
        _refuse_subset(cursor, subset)
        yield from _items(cursor)
    elif opening == "{":
        yield from _object(cursor, is_question, subset, doubt)
    else:
        cursor.fail(f"found {opening!r} at the start of the file", _SHAPE)
    if cursor.peek():
        cursor.fail("there is more text after the end of the questions", _SHAPE)


def read_entries(text: Text) -> Iterator[Record]:
    """Yield the objects of a list, or those of an object by their keys, whatever they are.

    Raises QuestionFileError at a syntax error, as what follows cannot be parsed.
    """
    cursor = _Cursor(text.whole(), text.shown)
    opening = cursor.peek()
    expected = "Expected one list of objects, or one object of objects by id; with an object per line, name it .jsonl."
    if opening not in {"[", "{", ""}:
        cursor.fail(f"found {opening!r} at the start of the file", expected)
    if opening:
        yield from _items(cursor) if opening == "[" else _keyed(cursor)
    if cursor.peek():
        cursor.fail("there is more text after the end", expected)


class _Kind(Enum):
    """Kinds of members of the outermost object."""

    #: A list with a question in it.
    LIST = auto()
    #: A list of objects that do not look like questions.
    OTHER_LIST = auto()
    QUESTION = auto()
    #: An object of questions.
    GROUP = auto()
    OTHER = auto()


class _Member(NamedTuple):
    name: str
    kind: _Kind
    #: Where its value starts.
    at: int


def _object(cursor: _Cursor, is_question: IsQuestion, subset: str, doubt: str) -> Iterator[Record]:
    start = cursor.at
    members = list(_members(cursor, is_question))
    end = cursor.at
    questions = [each for each in members if each.kind is _Kind.QUESTION]
    groups = [each for each in members if each.kind in {_Kind.LIST, _Kind.OTHER_LIST, _Kind.GROUP}]
    if len(questions) * 2 > len(members):
        # The other members count as entries too, so that none is lost silently.
        cursor.at = start
        _refuse_subset(cursor, subset)
        yield from _keyed(cursor)
    elif groups and not _is_one_question(cursor, start, groups, is_question):
        if questions and not subset:
            _refuse_stray(cursor, questions[0], groups)
        cursor.at = end
        task = _task(cursor, members)
        usual = _usual(groups)
        for each in _chosen(groups, subset, cursor) if subset else usual:
            group = each.name if len(usual) > 1 else None
            cursor.at = each.at
            items = _keyed(cursor, group) if each.kind is _Kind.GROUP else _items(cursor, group)
            yield from (item._replace(task=task) for item in items)
    else:
        cursor.at = start
        line, whole = cursor.line(), cursor.value()
        if not is_question(whole):
            names = ", ".join(repr(each.name) for each in members[:10]) or "no fields"
            cursor.at = end
            place = place_of_questions(whole, is_question)
            inside = f" There are questions at {place.path}: {extraction(place)}" if place else ""
            cursor.fail(f"found an object with {names}", f"{doubt} {_SHAPE}{inside}".lstrip())
        _refuse_subset(cursor, subset)
        yield Record(line, whole, whole)
    cursor.at = end


def _members(cursor: _Cursor, is_question: IsQuestion) -> Iterator[_Member]:
    """Yield the members of the object with their positions, in a first pass over it."""
    for _ in cursor.inside("{", "}"):
        name, opening = cursor.name()
        at = cursor.at
        if opening == "[":
            kind = _kind_of_list(_items(cursor), is_question, usual=name in _LISTS)
        else:
            kind = _kind(cursor.value(), is_question)
        yield _Member(name, kind, at)


def _kind_of_list(items: Iterator[Record], is_question: IsQuestion, *, usual: bool) -> _Kind:
    """Return the kind of a list after reading all of its items; an empty one counts if it has a `usual` name."""
    any_items = any_objects = any_questions = False
    for each in items:
        any_items = True
        if each.fields is not None:
            any_objects = True
            any_questions = any_questions or is_question(each.fields)
    if any_questions:
        return _Kind.LIST
    return _Kind.OTHER_LIST if any_objects or (usual and not any_items) else _Kind.OTHER


def _kind(value: object, is_question: IsQuestion) -> _Kind:
    if not isinstance(value, dict):
        return _Kind.OTHER
    if is_question(value):
        return _Kind.QUESTION
    inner = [each for each in value.values() if isinstance(each, dict) and is_question(each)]
    return _Kind.GROUP if len(inner) * 2 > len(value) else _Kind.OTHER


def _task(cursor: _Cursor, members: list[_Member]) -> dict[str, str]:
    """Return the texts that apply to all questions of the file."""
    task: dict[str, str] = {}
    for each in members:
        if each.name in _OF_ALL:
            cursor.at = each.at
            if isinstance(value := cursor.value(), str):
                task[each.name] = value
    return task


def _is_one_question(cursor: _Cursor, start: int, groups: list[_Member], is_question: IsQuestion) -> bool:
    """Whether the object that starts at `start` is a question itself, with lists of objects such as its choices."""
    if any(each.kind is not _Kind.OTHER_LIST for each in groups):
        return False
    cursor.at = start
    return is_question(cursor.value())


def _usual(groups: list[_Member]) -> list[_Member]:
    """Return all groups; if just one list has a usual name, without the other lists that hold no questions."""
    usual = [each for each in groups if each.kind is not _Kind.GROUP and each.name in _LISTS]
    return [each for each in groups if len(usual) != 1 or each in usual or each.kind is not _Kind.OTHER_LIST]


def _chosen(groups: list[_Member], subset: str, cursor: _Cursor) -> list[_Member]:
    chosen = [each for each in groups if each.name == subset]
    if not chosen:
        cursor.fail(f"no subset {subset!r} among {_named(groups)}", nearest(subset, [each.name for each in groups]))
    return chosen


def _refuse_stray(cursor: _Cursor, question: _Member, groups: list[_Member]) -> NoReturn:
    """Raise QuestionFileError for a question beside the lists: it may be one of them, or an example of their form."""
    hint = f"Move it into a list, or remove it; --subset {groups[0].name} reads only what is there."
    cursor.at = question.at
    cursor.fail(f"{question.name!r} is a question, but in none of the lists ({_named(groups)})", hint)


def _named(members: list[_Member]) -> str:
    return ", ".join(each.name for each in members)


def _refuse_subset(cursor: _Cursor, subset: str) -> None:
    """Raise QuestionFileError if a subset is requested of a file without any: ignored, it would name the run."""
    if subset:
        hint = "Remove --subset. To select the questions of one subject, use --subject NAME."
        cursor.fail(f"no subset {subset!r}: the file has no named lists of questions", hint)


def _items(cursor: _Cursor, group: str | None = None) -> Iterator[Record]:
    for _ in cursor.inside("[", "]"):
        line, value = cursor.line(), cursor.value()
        yield Record(line, value, value if isinstance(value, dict) else None, group=group)


def _keyed(cursor: _Cursor, group: str | None = None) -> Iterator[Record]:
    for _ in cursor.inside("{", "}"):
        name, _ = cursor.name()
        line, value = cursor.line(), cursor.value()
        fields = value if isinstance(value, dict) else None
        yield Record(line, {name: value}, fields, key=name, group=group)


class _Cursor:
    """A position in the text that advances value by value."""

    def __init__(self, text: str, shown: str) -> None:
        self._text = text
        self._shown = shown
        self.at = 0
        self._line = 1
        self._counted_to = 0

    def peek(self) -> str:
        """Return the next character that is not white space, or an empty string at the end."""
        found = _SPACE.match(self._text, self.at)
        self.at = found.end() if found else self.at
        return self._text[self.at : self.at + 1]

    def take(self, expected: str) -> None:
        """Skip the character `expected`. Raises QuestionFileError if something else follows."""
        found = self.peek()
        if found != expected:
            self.fail(f"malformed JSON: expected {expected!r}, found {found!r}" if found else "the file ends too early")
        self.at += 1

    def inside(self, opening: str, closing: str) -> Iterator[None]:
        """Stop before each item of the list or object that starts here; the caller must move past the item.

        Afterwards the position is after `closing`.
        """
        self.take(opening)
        first = True
        while self.peek() != closing:
            if not first:
                self.take(",")
                self.peek()
            first = False
            yield
        self.take(closing)

    def value(self) -> Any:
        """Decode the value that starts here and move past it."""
        try:
            found, self.at = DECODER.raw_decode(self._text, self.at)
        except json.JSONDecodeError as trouble:
            self.at = trouble.pos
            unclosed = trouble.msg.startswith("Unterminated") or not self._text[trouble.pos :].strip()
            self.fail(
                f"{'the file ends too early' if unclosed else 'malformed JSON'}: {trouble.msg.removesuffix(' at')}"
            )
        except (ValueError, RecursionError) as trouble:
            self.fail(f"malformed JSON: {trouble}")
        except FieldTrouble as trouble:
            self.fail(f"{trouble.field!r} {trouble.message.rstrip('.')}", trouble.hint)
        return found

    def name(self) -> tuple[str, str]:
        """Move past a member's name and colon; return the name and the first character of the value."""
        if self.peek() != '"':
            self.fail("malformed JSON: expected a name in double quotes")
        name = str(self.value())
        self.take(":")
        return name, self.peek()

    def line(self) -> int:
        """Return the 1-based line of the position."""
        if self.at < self._counted_to:
            self._line, self._counted_to = 1, 0
        self._line += self._text.count("\n", self._counted_to, self.at)
        self._counted_to = self.at
        return self._line

    def fail(self, message: str, hint: str = "Correct the file there and repeat the command.") -> NoReturn:
        """Raise QuestionFileError with the line and column of the position."""
        column = self.at - self._text.rfind("\n", 0, self.at)
        raise QuestionFileError(f"{message}, at column {column}.", path=self._shown, line=self.line(), hint=hint)
