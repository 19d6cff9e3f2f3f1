"""In which encodings files of text are read: recognised, named with --encoding, or refused with the place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contract.errors import QuestionFileError
from producer.readers.text import LONGEST_LINE_BYTES, encoding_of
from tests.unit.producer.readers.reading import CSV, JSONL, ROWS, questions, read


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_unicode_is_recognised_in_every_form(tmp_path: Path, encoding: str, ends: str) -> None:
    mark = "\ufeff" if encoding == "utf-32-be" else ""
    text = mark + CSV.replace("\n", ends)

    assert [each.question for each in questions(read(tmp_path, text.encode(encoding)))] == [
        row["question"] for row in ROWS
    ]


def test_json_may_be_utf_16_too(tmp_path: Path) -> None:
    assert len(questions(read(tmp_path, json.dumps(ROWS, ensure_ascii=False).encode("utf-16")))) == 3


def test_another_encoding_is_refused_with_the_offset_and_read_when_it_is_named(tmp_path: Path) -> None:
    content = "question,A,B,answer\nWas heißt café?,Kaffee,Haus,A\n".encode("latin-1")

    with pytest.raises(QuestionFileError) as caught:
        list(read(tmp_path, content).rows())
    (question,) = questions(read(tmp_path, content, encoding="cp1252"))

    assert f"file:2: byte 0xdf at offset {content.index(0xDF)} is not UTF-8" in str(caught.value)
    assert "If it should read" in str(caught.value)
    assert "heißt café" in str(caught.value)
    assert "--encoding cp1252" in str(caught.value)
    assert question.question == "Was heißt café?"


def test_a_line_of_another_encoding_spoils_itself_alone(tmp_path: Path) -> None:
    content = JSONL + b'{"question": "caf\xe9?"}\n' + JSONL

    rows = list(read(tmp_path, content).rows())

    assert [bool(row.question) for row in rows] == [True] * 3 + [False] + [True] * 3
    assert f"file:4: byte 0xe9 at offset {content.index(0xE9)} is not UTF-8" in str(rows[3].trouble)


def test_utf_16_that_ends_within_a_letter_is_refused_with_the_offset(tmp_path: Path) -> None:
    content = CSV.encode("utf-16")

    with pytest.raises(QuestionFileError, match=rf"file:5: .*offset {len(content)} is not UTF-16-LE"):
        list(read(tmp_path, content + b"x").rows())


@pytest.mark.parametrize("content", [CSV, JSONL.decode(), json.dumps(ROWS, ensure_ascii=False)])
@pytest.mark.parametrize("saved", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_a_named_encoding_of_either_byte_order_needs_no_mark(tmp_path: Path, content: str, saved: str) -> None:
    """It ended in a traceback: without a mark, Python decodes such a text as a whole, but not in parts."""
    found = questions(read(tmp_path, content.encode(saved), encoding=saved[:6]))

    assert [each.question for each in found] == [row["question"] for row in ROWS]


@pytest.mark.parametrize("named", ["utf-16", "utf-32", "utf-16-be"])
def test_utf_8_is_not_read_as_the_chinese_that_its_bytes_are_in_utf_16(tmp_path: Path, named: str) -> None:
    with pytest.raises(QuestionFileError, match=rf"file:1: the file is not {named.upper()}.* Leave --encoding out"):
        read(tmp_path, JSONL, encoding=named)


def test_few_bytes_are_not_guessed_about() -> None:
    assert encoding_of(b"\x00\x01") == "utf-8"
    assert encoding_of("a,b\n".encode("utf-16-le") * 10) == "utf-16-le"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_line_without_end_is_refused_instead_of_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setattr("producer.readers.text.LONGEST_LINE_BYTES", 1024)

    with pytest.raises(QuestionFileError, match="the line is longer than"):
        list(read(tmp_path, ("[header" + "x" * 2000).encode(encoding), "q.csv").rows())
    assert LONGEST_LINE_BYTES > 2**20


@pytest.mark.parametrize("content", [json.dumps(ROWS), json.dumps({"questions": ROWS})])
def test_json_may_be_one_line_of_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setattr("producer.readers.text.LONGEST_LINE_BYTES", 100)

    assert len(questions(read(tmp_path, content, "q.json"))) == len(ROWS)
