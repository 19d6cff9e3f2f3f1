"""An engine for tests to build theirs on."""

from __future__ import annotations

from typing import Any

from workers.engines.base import Engine

__all__ = ["ReadyEngine"]


class ReadyEngine(Engine):
    """Needs no boot, and holds nothing that must be freed. Subclasses say what it answers."""

    def start(self) -> None: ...

    def describe(self) -> dict[str, Any]:
        return {}

    def close(self) -> None: ...
