"""How tests of the readers read a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contract.question import Question
from producer.readers import HowToRead, QuestionFile, Source, understand


def read(folder: Path, content: str | bytes, name: str = "file", **how: Any) -> QuestionFile:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return understand(Source(path, name, HowToRead(**how)))


def questions(file: QuestionFile) -> list[Question]:
    rows = list(file.rows())
    assert [str(row.trouble) for row in rows if row.trouble] == []
    return [row.question for row in rows if row.question]
