"""Those who work on a run, as a watch shows them: what each does now, from the records that they renew every two
seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from contract.fleet import WorkerRecord, fill, pace, remembered

__all__ = ["Member", "RunWorkers"]


@dataclass(frozen=True, slots=True)
class Member:
    """One worker, lately. None: nothing can be told yet."""

    name: str
    state: str
    queue: str
    questions_per_s: float | None
    #: Questions of its batches as a share of `batch_size`.
    fill: float | None
    #: Share of its GPUs, or of its cores where it has none, that was busy.
    busy: float | None
    on_gpu: bool


@dataclass
class RunWorkers:
    """Remembers each worker's records for a while, since what it does is a difference of two."""

    _seen: dict[str, Sequence[WorkerRecord]] = field(default_factory=dict)

    def look(self, records: Iterable[WorkerRecord]) -> list[Member]:
        """The workers of `records`, by name."""
        self._seen = {each.owner: remembered(self._seen.get(each.owner, ()), each) for each in records}
        return sorted(map(_member, self._seen.values()), key=lambda each: each.name)


def _member(seen: Sequence[WorkerRecord]) -> Member:
    last = seen[-1]
    return Member(
        name=last.name,
        state=last.state.value,
        queue=last.queue,
        questions_per_s=pace(seen),
        fill=fill(seen),
        busy=last.busy,
        on_gpu=bool(last.gpus),
    )
