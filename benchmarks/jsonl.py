"""JSON Lines, read and written whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from contract.errors import InputError

__all__ = ["read_rows", "write_rows"]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The objects of the file. Raises InputError for what is none, and where there is no file."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as trouble:
        raise InputError(f"{path}: cannot be read: {trouble.strerror}.") from None
    return [_row(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]


def _row(line: bytes, place: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{place}: no JSON object.")
    return found


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """A line for each of `rows`; returns the file."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path
