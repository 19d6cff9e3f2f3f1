"""Current activity of a run's workers, derived from the records that they renew every two seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from contract.fleet import WorkerRecord, WorkerState
from contract.pace import fill, pace, remembered

__all__ = ["AT_WORK", "Member", "RunWorkers"]

#: States in which a worker settles questions.
AT_WORK = frozenset({WorkerState.READY, WorkerState.DRAINING})


@dataclass(frozen=True, slots=True)
class Member:
    """Recent activity of one worker. None: not known yet."""

    name: str
    state: str
    queue: str
    questions_per_s: float | None
    #: Mean number of questions in its batches as a fraction of `batch_size`.
    fill: float | None
    #: Utilisation of its GPUs, or of its cores if it has none, from 0 to 1.
    busy: float | None
    on_gpu: bool


@dataclass
class RunWorkers:
    """Keeps recent records of each worker, since its activity is the difference between two of them."""

    _seen: dict[str, Sequence[WorkerRecord]] = field(default_factory=dict)

    def look(self, records: Iterable[WorkerRecord]) -> list[Member]:
        """Return the workers of `records`, sorted by name."""
        self._seen = {each.owner: remembered(self._seen.get(each.owner, ()), each) for each in records}
        return sorted(map(_member, self._seen.values()), key=lambda each: each.name)


def _member(seen: Sequence[WorkerRecord]) -> Member:
    last = seen[-1]
    return Member(
        name=last.name,
        state=str(last.state),
        queue=last.queue,
        questions_per_s=pace(seen),
        fill=fill(seen),
        busy=last.busy,
        on_gpu=bool(last.gpus),
    )
