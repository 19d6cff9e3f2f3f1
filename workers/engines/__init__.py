"""Engines by name. The heavy module behind a name is imported when it is asked for, and not before."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from contract.settings import Settings
from workers.engines.base import Engine

__all__ = ["ENGINES", "make_engine"]

ENGINES = {
    "vllm": "workers.engines.vllm:VllmEngine",
    "simulated": "workers.engines.simulated:SimulatedEngine",
}


def make_engine(settings: Settings) -> Engine:
    """The engine that `settings.engine` names, not yet started."""
    module, _, name = ENGINES[settings.engine].partition(":")
    return cast("type[Engine]", getattr(import_module(module), name))(settings)
