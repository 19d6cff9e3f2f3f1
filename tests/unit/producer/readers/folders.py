"""Folders of question files, as sets are handed out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.producer.readers.reading import questions_of

__all__ = ["csv_row", "laid_out", "mmlu", "subjects"]


def laid_out(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def csv_row(question: str, answer: str = "B") -> str:
    return f"{question},first,second,third,fourth,{answer}\n"


def mmlu(folder: Path) -> Path:
    """A set as MMLU is handed out: folders of splits, a file a subject, no header, no ids."""
    return laid_out(
        folder / "data",
        {
            f"{split}/{subject}_{split}.csv": "".join(csv_row(f"{subject} {split} {at}") for at in range(count))
            for split, count in (("dev", 2), ("test", 3))
            for subject in ("anatomy", "world_history")
        },
    )


def subjects(path: Path, **how: Any) -> list[str | None]:
    return sorted({each.subject for each in questions_of(path, **how)}, key=str)
