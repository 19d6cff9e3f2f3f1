"""When to audit a run for lost messages while its queue is not empty: after a long time without progress.

The audit reads the whole queue, which is expensive while many messages wait. So a run is only audited after half a
minute without a settled question; again after one minute, two, four, and then every ten minutes, because it may just be
waiting for its turn.
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
    """Tracks how long each run has made no progress. Pure: the clock is passed in."""

    def __init__(self) -> None:
        self._runs: dict[str, _Seen] = {}

    def is_due(self, run_id: str, settled: int, now_s: float) -> bool:
        """Return whether to audit the run now, given its number of settled questions."""
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
