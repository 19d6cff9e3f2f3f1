"""When to look for lost messages of a run although messages still wait in its queue: once it is quiet for long.

Only a look through the whole queue can tell, which is expensive while much waits there. So a run is looked through only
once nothing of it was settled for half a minute; again after one minute, two, four, and then every ten minutes, because
it may just be waiting for its turn.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

__all__ = ["StallWatch"]

FIRST_S = 30.0
LONGEST_S = 600.0


@dataclass(slots=True)
class _Seen:
    settled: int
    since_s: float
    patience_s: float


class StallWatch:
    """How long each run has settled nothing. Pure: the clock is passed in."""

    def __init__(self) -> None:
        self._runs: dict[str, _Seen] = {}

    def is_due(self, run_id: str, settled: int, now_s: float) -> bool:
        """Whether to look through the run now, of which so many questions are settled."""
        seen = self._runs.get(run_id)
        if seen is None or seen.settled != settled:
            self._runs[run_id] = _Seen(settled, now_s, FIRST_S)
            return False
        if now_s - seen.since_s < seen.patience_s:
            return False
        seen.since_s, seen.patience_s = now_s, min(2 * seen.patience_s, LONGEST_S)
        return True

    def keep_only(self, run_ids: Collection[str]) -> None:
        """Forget all other runs."""
        self._runs = {run_id: seen for run_id, seen in self._runs.items() if run_id in run_ids}
