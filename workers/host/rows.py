"""What the live table of `workers up` says about each worker, from its record and its process."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from contract.fleet import WorkerRecord, WorkerState
from contract.pace import fill, pace
from contract.tables import Column, FittedTable
from workers.host.child import Child

__all__ = ["Row", "row_of", "state_of", "table_of"]

#: Launcher state of a worker without a process → displayed state.
ENDED = {"waiting": "dead", "stopped": "drained", "killed": "killed", "given up": "given up"}

COLUMNS = (
    Column("worker"),
    Column("state"),
    Column("questions/s", "right"),
    Column("batch fill", "right"),
    Column("model", least=10),
    Column("place", least=10),
    Column("memory", "right"),
    Column("GPU memory", "right"),
    Column("boots", "right"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One worker in the table."""

    name: str
    place: str
    serves: str
    state: str
    boots: int
    questions_per_s: float | None = None
    #: Mean batch fill as a share of `batch_size`.
    fill: float | None = None
    memory_bytes: int | None = None
    gpu_memory_bytes: int | None = None


def state_of(child: Child, record: WorkerRecord | None) -> str:
    """Return the state to show: the launcher's word for it, and of one that is ready what its own record says."""
    if child.state in ENDED:
        return ENDED[child.state]
    if child.state == "booting":
        return f"booting {time.monotonic() - child.started_at:.0f} s"
    if child.state != "ready" or record is None:
        return child.state
    if record.state is WorkerState.DRAINING:
        return "draining"
    return "busy" if record.running else "ready"


def row_of(
    child: Child,
    seen: Sequence[WorkerRecord] = (),
    memory_bytes: int | None = None,
    gpu_memory_bytes: int | None = None,
) -> Row:
    """Return the worker's row; `seen` are its recent records, oldest first."""
    alive = child.process is not None and bool(seen)
    return Row(
        name=child.plan.name,
        place=child.plan.place,
        serves=child.plan.serves,
        state=state_of(child, seen[-1] if seen else None),
        boots=child.boots,
        questions_per_s=pace(seen) if alive else None,
        fill=fill(seen) if alive else None,
        memory_bytes=memory_bytes if child.process else None,
        gpu_memory_bytes=gpu_memory_bytes,
    )


def table_of(rows: Iterable[Row]) -> FittedTable:
    """Return `rows` as a table for a terminal."""
    return FittedTable(COLUMNS, list(map(_texts, rows)))


def _texts(row: Row) -> Sequence[str]:
    return (
        row.name,
        row.state,
        "-" if row.questions_per_s is None else f"{row.questions_per_s:.1f}",
        "-" if row.fill is None else f"{100 * row.fill:.0f} %",
        row.serves,
        row.place,
        _gigabytes(row.memory_bytes),
        _gigabytes(row.gpu_memory_bytes),
        str(row.boots),
    )


def _gigabytes(number: int | None) -> str:
    return "-" if number is None else f"{number / 2**30:.1f} GiB"
