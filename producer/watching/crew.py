"""Those who work on a run, as a watch shows them: what each does now, from the records that they renew every two
seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from contract.fleet import WorkerRecord

__all__ = ["Crew", "Member"]


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
class Crew:
    """Remembers each worker's records for a while, since what it does is a difference of two."""

    #: Batches may take long: over a shorter time a busy worker would seem to rest between two.
    window_s: float = 20.0
    _seen: dict[str, deque[WorkerRecord]] = field(default_factory=dict)

    def look(self, records: Iterable[WorkerRecord]) -> list[Member]:
        """The workers of `records`, by name."""
        found = {record.owner: record for record in records}
        self._seen = {owner: self._seen.get(owner, deque()) for owner in found}
        for owner, record in found.items():
            seen = self._seen[owner]
            if not seen or record.seen_at > seen[-1].seen_at:
                seen.append(record)
            while len(seen) > 2 and record.seen_at - seen[1].seen_at >= self.window_s:
                seen.popleft()
        return sorted(map(_member, self._seen.values()), key=lambda each: each.name)


def _member(seen: deque[WorkerRecord]) -> Member:
    first, last = seen[0], seen[-1]
    elapsed_s = last.seen_at - first.seen_at
    gathered = last.gathered - first.gathered
    # Where no batch was begun lately: what all of them were like.
    batches, questions = (last.batches - first.batches, gathered) if gathered else (last.batches, last.gathered)
    return Member(
        name=last.name,
        state=last.state.value,
        queue=last.queue,
        questions_per_s=(last.done - first.done) / elapsed_s if elapsed_s > 0 else None,
        fill=questions / (batches * last.batch_size) if batches and last.batch_size else None,
        busy=last.busy,
        on_gpu=bool(last.gpus),
    )
