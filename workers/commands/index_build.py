"""`index-build`: an index, in a process of its own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from contract.errors import McqueueError, first_line
from workers.cpu_quota import cores_by_quota
from workers.retrieval.build import build_index

__all__ = ["build_planned_index"]


@click.command("index-build", hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--device", default="auto", help="Where vectors are computed.")
def build_planned_index(folder: Path, device: str) -> None:
    """Build the index that the plan in FOLDER asks for. `python -m producer index` runs this and reads its output: one
    line of JSON for every step, note and error."""

    def say(**event: object) -> None:
        click.echo(json.dumps(event))

    quota = cores_by_quota()
    if quota:  # read by torch and FAISS when they are imported; they would start a thread per visible core
        os.environ.setdefault("OMP_NUM_THREADS", str(quota))
    try:
        build_index(folder, say, device)
    except McqueueError as trouble:
        say(error=str(trouble))
        sys.exit(1)
    except OSError as trouble:
        reason = trouble.strerror or first_line(trouble)
        say(error=f"{trouble.filename or folder}: {reason}. Check the disk and permissions there.")
        sys.exit(1)
