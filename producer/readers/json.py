"""JSON: a list of objects, or an object whose `questions` is one. Objects are decoded one at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from contract.errors import QuestionFileError
from producer.readers.jsonl import DECODER
from producer.readers.record import Record
from producer.readers.text import read_text

__all__ = ["read_json"]

_SPACE = re.compile(r"[ \t\n\r]*")
_SHAPE = 'Expected a list of questions, or {"questions": [...]}. One object per line belongs into a .jsonl file.'


def read_json(path: Path, shown: str) -> Iterator[Record]:
    """Records of the file. What follows a syntax error cannot be made out, so that one is raised."""
    cursor = _Cursor(read_text(path, shown), shown)
    opening = cursor.peek()
    if not opening:
        return
    if opening == "[":
        yield from _items(cursor)
    elif opening == "{":
        yield from _questions_member(cursor)
    else:
        cursor.fail(f"found {opening!r} at the start of the file", _SHAPE)
    if cursor.peek():
        cursor.fail("there is more after the end of the questions", _SHAPE)


def _items(cursor: _Cursor) -> Iterator[Record]:
    cursor.take("[")
    number = 0
    while cursor.peek() != "]":
        if number:
            cursor.take(",")
        number += 1
        cursor.peek()
        line = cursor.line()
        value = cursor.value()
        yield Record(number, line, value, value if isinstance(value, dict) else None)
    cursor.take("]")


def _questions_member(cursor: _Cursor) -> Iterator[Record]:
    """Items of the member `questions`; the other members describe the file and are passed over."""
    cursor.take("{")
    names: list[str] = []
    while cursor.peek() != "}":
        if names:
            cursor.take(",")
        cursor.peek()
        names.append(str(cursor.value()))
        cursor.take(":")
        if cursor.peek() == "[" and names[-1] == "questions":
            yield from _items(cursor)
        else:
            cursor.value()
    cursor.take("}")
    if "questions" not in names:
        cursor.fail(f"found an object with {', '.join(map(repr, names)) or 'no fields'}", _SHAPE)


class _Cursor:
    """A place in the text, moved forward value by value."""

    def __init__(self, text: str, shown: str) -> None:
        self._text = text
        self._shown = shown
        self._at = 0
        self._line = 1
        self._counted_to = 0

    def peek(self) -> str:
        """Next character that is no white space; empty at the end."""
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._text[self._at : self._at + 1]

    def take(self, expected: str) -> None:
        """Step over `expected`."""
        found = self.peek()
        if found != expected:
            self.fail(f"malformed JSON: expected {expected!r}, found {found!r}" if found else "the file ends too early")
        self._at += 1

    def value(self) -> Any:
        """Decode the value that starts here."""
        try:
            found, self._at = DECODER.raw_decode(self._text, self._at)
        except json.JSONDecodeError as trouble:
            self._at = trouble.pos
            self.fail(f"malformed JSON: {trouble.msg}")
        except (ValueError, RecursionError) as trouble:
            self.fail(f"malformed JSON: {trouble}")
        return found

    def line(self) -> int:
        """1-based line of the place."""
        self._line += self._text.count("\n", self._counted_to, self._at)
        self._counted_to = max(self._at, self._counted_to)
        return self._line

    def fail(self, message: str, hint: str = "Correct the file there and repeat the command.") -> NoReturn:
        """Raise QuestionFileError with line and column of the place."""
        column = self._at - self._text.rfind("\n", 0, self._at)
        raise QuestionFileError(f"{message}, at column {column}.", path=self._shown, line=self.line(), hint=hint)
