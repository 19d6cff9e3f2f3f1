"""Bytes to text: UTF-8 with or without a byte order mark, and nothing else."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from contract.errors import QuestionFileError

__all__ = ["read_lines", "read_text"]


def read_lines(path: Path, shown: str) -> Iterator[str]:
    """Lines of the file with their line ends. Raises QuestionFileError with the offset of a byte that is not UTF-8."""
    offset = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            yield _decode(raw, shown, number, offset)
            offset += len(raw)


def read_text(path: Path, shown: str) -> str:
    """The whole file as text; the same errors as `read_lines`."""
    return _decode(path.read_bytes(), shown, 1, 0)


def _decode(raw: bytes, shown: str, line: int, offset: int) -> str:
    start = len(codecs.BOM_UTF8) if offset == 0 and raw.startswith(codecs.BOM_UTF8) else 0
    try:
        return raw[start:].decode("utf-8")
    except UnicodeDecodeError as trouble:
        at = start + trouble.start
        raise QuestionFileError(
            f"byte 0x{raw[at]:02x} at offset {offset + at} is not UTF-8.",
            path=shown,
            line=line + raw.count(b"\n", 0, at),
            hint="Save the file as UTF-8.",
        ) from None
