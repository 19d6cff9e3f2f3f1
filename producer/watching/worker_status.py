"""Current activity of a run's workers, derived from the records that they renew every two seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from contract.fleet import WorkerRecord, WorkerState
from contract.keys import is_score_queue
from contract.pace import fill, pace, remembered

__all__ = ["Member", "RunWorkers", "any_scoring"]

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


def any_scoring(crew: Iterable[Member]) -> bool:
    """Whether one of them settles questions now. One that searches an index is ready long before a model has booted."""
    return any(each.state in AT_WORK and is_score_queue(each.queue) for each in crew)


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
