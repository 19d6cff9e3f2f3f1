"""A run of a file, as it is planned where nothing else is configured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contract.settings import Settings
from producer.intake.selection import Selection
from producer.readers import Source
from producer.runs.planning import Plan, plan
from producer.runs.runconfig import RunConfig

__all__ = ["planned"]


def planned(path: Path, selection: Selection | None = None, config: RunConfig | None = None, **options: Any) -> Plan:
    return plan(Source(path, path.name), config or RunConfig(), Settings(), selection or Selection(), **options)
