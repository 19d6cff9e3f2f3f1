"""The indexes that a host serves, by name: two of one queue would take each other's questions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from contract.errors import PlanError
from contract.index import read_manifest
from contract.names import distinct_slug
from contract.settings import Settings

__all__ = ["index_folders"]


def index_folders(fleet: Sequence[Settings]) -> dict[str, Path]:
    """Return name → folder of the configured indexes. Raises IndexUnusable, and PlanError for names of one queue."""
    folders: dict[str, Path] = {}
    taken: dict[str, Path] = {}
    for path in dict.fromkeys(path for settings in fleet for path in settings.indexes):
        name = read_manifest(path).plan.name
        if other := taken.get(distinct_slug(name)):
            raise PlanError(
                f"indexes: {other} and {path} are both called {distinct_slug(name)!r}, so they would share a queue.",
                hint="Build one of them into a folder with another name (-o).",
            )
        folders[name] = taken[distinct_slug(name)] = path
    return folders
