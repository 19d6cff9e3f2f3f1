"""How fast a run is, from how many of its questions were settled when."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

__all__ = ["Pace", "Rates"]

#: Window of the current pace, in seconds. After as long without a look at the run, the windows begin anew.
WINDOW_S = 10.0
#: Batches that take longer than the window finish in bursts, so the current pace cannot predict when the run ends: the
#: steady pace covers at least this many seconds and bursts.
STEADY_S, STEADY_BURSTS = 60.0, 6


class Rates(NamedTuple):
    """Questions per second at one moment."""

    #: Over the last `WINDOW_S` seconds; None before a second look.
    lately: float | None
    #: Over a minute or more, or since work began; used to estimate the time left.
    steady: float
    #: Since work began or the run is watched.
    mean: float
    #: What the mean is over, in seconds; 0 before a second look.
    mean_of_s: float
    #: Whether nothing has been settled for so long that the pace predicts nothing.
    stalled: bool = False

    def left_s(self, rest: int) -> float | None:
        """Estimate how many seconds `rest` questions take; None while there is no progress."""
        pace = self.steady or self.mean
        return rest / pace if pace and not self.stalled else None


@dataclass
class Pace:
    """Remembers how many questions were settled when, as far as its `rates` need it."""

    #: (time, settled questions); for equal counts only the first and the last time.
    _seen: deque[tuple[float, int]] = field(default_factory=deque)
    #: The same over `WINDOW_S` seconds, with every time.
    _recent: deque[tuple[float, int]] = field(default_factory=deque)
    _first: tuple[float, int] | None = None
    #: Number of verdicts that were taken back (`requeue --failed`) since the first look.
    _taken_back: int = 0
    #: Seconds that the mean leaves out since the last verdict, because the run is paused.
    _left_out_s: float = 0.0

    def observe(self, now: float, settled: int, *, working: bool = True, halted: bool = False) -> None:
        """Record that `settled` questions are settled at `now`, in seconds of a monotonic clock.

        `working` says whether a worker is at work, `halted` whether the run is paused. The mean leaves out the time
        before the first worker is ready, and pauses, each from the last verdict of what workers had begun. The paces
        that predict how long the rest takes begin anew after any time without work, or without a look at the run. A
        question that is asked again (`requeue --failed`) counts twice, as answering it was work both times.
        """
        if self._seen:
            self._taken_back += max(0, self._seen[-1][1] - self._taken_back - settled)
        settled += self._taken_back
        if self._first is None or (not working and settled == self._first[1]):
            self._first, self._left_out_s = (now, settled), 0.0
            self._begin_anew()
        elif halted:
            idle_s = now - self._seen[-1][0] if settled == self._seen[-1][1] else -self._left_out_s
            self._first = (self._first[0] + idle_s, self._first[1])
            self._left_out_s += idle_s
            self._begin_anew()
        elif (not working and settled == self._seen[-1][1]) or now - self._seen[-1][0] > WINDOW_S:
            self._begin_anew()
        if not halted:
            self._left_out_s = 0.0
        if len(self._seen) > 1 and self._seen[-2][1] == self._seen[-1][1] == settled:
            self._seen.pop()
        self._seen.append((now, settled))
        while len(self._seen) > 2 and now - self._seen[1][0] >= STEADY_S and self._bursts > STEADY_BURSTS:
            self._seen.popleft()
        self._recent.append((now, settled))
        while len(self._recent) > 2 and now - self._recent[1][0] >= WINDOW_S:
            self._recent.popleft()

    def _begin_anew(self) -> None:
        self._seen.clear()
        self._recent.clear()

    @property
    def _bursts(self) -> int:
        return len({settled for _, settled in self._seen}) - 1

    @property
    def rates(self) -> Rates:
        """The run's speed as it was at the last look."""
        if self._first is None:
            return Rates(lately=None, steady=0.0, mean=0.0, mean_of_s=0.0)
        last = self._seen[-1]
        return Rates(
            lately=_rate(self._recent[0], last) if len(self._recent) > 1 else None,
            steady=_rate(self._seen[0], last),
            mean=_rate(self._first, last),
            mean_of_s=last[0] - self._first[0],
            stalled=self._stalled,
        )

    @property
    def _stalled(self) -> bool:
        """Whether nothing has been settled for over a minute, and for twice as long as it ever took before."""
        bursts = [next(of_same)[0] for _, of_same in groupby(self._seen, key=itemgetter(1))]
        longest = max((later - earlier for earlier, later in pairwise(bursts)), default=0.0)
        return bool(bursts) and self._seen[-1][0] - bursts[-1] > max(STEADY_S, 2 * longest)


def _rate(start: tuple[float, int], end: tuple[float, int]) -> float:
    elapsed = end[0] - start[0]
    return (end[1] - start[1]) / elapsed if elapsed > 0 else 0.0
