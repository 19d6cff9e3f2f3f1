"""How tests of the readers read a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.layout_files import lines
from contract.question import Question
from producer.readers import HowToRead, QuestionFile, Source, understand

__all__ = ["CSV", "JSONL", "ROWS", "questions", "read"]

#: Three questions, as rows and in two forms, with letters that not every encoding has.
ROWS = [{"question": f"Was ist {n}? ä, 三", "choices": ["ja", "nein"], "answer": n % 2} for n in range(3)]
JSONL = lines(*ROWS).encode()
CSV = "question,A,B,answer\n" + "".join(f'"Was ist {n}? ä, 三",ja,nein,{"AB"[n % 2]}\n' for n in range(3))


def read(folder: Path, content: str | bytes, name: str = "file", **how: Any) -> QuestionFile:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return understand(Source(path, name, HowToRead(**how)))


def questions(file: QuestionFile) -> list[Question]:
    rows = list(file.rows())
    assert [str(row.trouble) for row in rows if row.trouble] == []
    return [row.question for row in rows if row.question]
