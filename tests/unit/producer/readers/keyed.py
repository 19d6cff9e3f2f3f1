"""Files of questions with a key, and what is read as right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.layout_files import lines
from contract.errors import QuestionFileError
from producer.readers import HowToRead, QuestionFile, Source, understand

__all__ = ["ASKED", "METALS", "keys", "refusal", "rows", "understood"]

METALS = ["Ir", "Fe", "In", "F"]
ASKED = "Which is iron?"


def understood(folder: Path, content: str, like: QuestionFile | None = None, **mapping: str) -> QuestionFile:
    path = folder / "q"
    path.write_text(content)
    return understand(Source(path, "q", HowToRead(mapping=mapping)), like)


def keys(folder: Path, content: str, like: QuestionFile | None = None, **mapping: str) -> list[str]:
    """The right labels of each row, or what is said against it."""
    return [
        "".join(row.question.right) if row.question else str(row.trouble)
        for row in understood(folder, content, like, **mapping).rows()
    ]


def rows(*answers: dict[str, Any], choices: str = "options") -> str:
    return lines(*({"question": f"{ASKED} {at}", choices: METALS, **each} for at, each in enumerate(answers)))


def refusal(folder: Path, content: str) -> str:
    with pytest.raises(QuestionFileError) as caught:
        understood(folder, content)
    return str(caught.value)
