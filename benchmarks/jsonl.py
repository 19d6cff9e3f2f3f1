"""Reads and writes whole files of JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from contract.errors import InputError

__all__ = ["read_rows", "write_rows"]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the objects in the file. Raises InputError for lines that are not objects, and if it cannot be read."""
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
        raise InputError(f"{place}: not a JSON object.")
    return found


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write each of `rows` as a line; return the file."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path
