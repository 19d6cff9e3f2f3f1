"""How tests of the readers read a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.layout_files import lines
from contract.question import Question
from producer.readers import HowToRead, QuestionFile, Row, Source, understand

__all__ = ["CSV", "GOOD", "JSONL", "ROWS", "questions", "questions_of", "read", "rows_of", "write"]

GOOD = {"question": "Which?", "choices": ["x", "y"], "answer": "B"}
#: Three questions, as rows and in two forms, with letters that not every encoding has.
ROWS = [{"question": f"Was ist {n}? ä, 三", "choices": ["ja", "nein"], "answer": n % 2} for n in range(3)]
JSONL = lines(*ROWS).encode()
CSV = "question,A,B,answer\n" + "".join(f'"Was ist {n}? ä, 三",ja,nein,{"AB"[n % 2]}\n' for n in range(3))


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def file_of(path: Path, **how: Any) -> QuestionFile:
    return understand(Source(path, path.name, HowToRead(**how)))


def read(folder: Path, content: str | bytes, name: str = "file", **how: Any) -> QuestionFile:
    return file_of(write(folder, name, content), **how)


def questions(file: QuestionFile) -> list[Question]:
    """All questions of a file that has no bad rows."""
    rows = list(file.rows())
    assert [str(row.trouble) for row in rows if row.trouble] == []
    return [row.question for row in rows if row.question]


def rows_of(path: Path, **how: Any) -> list[Row]:
    return list(file_of(path, **how).rows())


def questions_of(path: Path, **how: Any) -> list[Question]:
    return questions(file_of(path, **how))
