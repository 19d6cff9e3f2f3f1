"""Sides that answer the same questions in turn, round by round, and the ratios of their speeds within each round."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.asking import MODES_ASKED, Asking, whole_path
from benchmarks.record import bars, without
from benchmarks.stand import Stand
from contract.settings import Settings
from contract.wording import number
from producer.readers import Source

__all__ = ["Bench", "Measure", "Times", "draw_ratios", "interleaved", "questions_of", "row"]

#: The round's mark and the number of questions → seconds for them.
Measure: TypeAlias = Callable[[str, int], float]
#: Side → seconds for all questions in each round.
Times: TypeAlias = dict[str, list[float]]


@dataclass(frozen=True)
class Bench:
    """What is asked, and where."""

    at: Stand
    source: Source
    limit: int
    rounds: int
    #: Questions asked one at a time of the raw side; 0: none.
    alone: int = 0
    #: Whether to measure `raw, choices in full` too.
    in_full: bool = True
    #: Questions of the round that is not counted; 0: as many as in the others.
    warm_up: int = 0
    #: Time limits of the raw side's boot and of each of its calls; None: none.
    boot_within_s: float | None = None
    call_within_s: float | None = None

    def asking(self, mode: str, count: int) -> Asking:
        """Return the first `count` questions, asked in that mode."""
        return Asking(self.source, MODES_ASKED[mode], count)

    def whole_path(self, mode: str, served: Settings, mark: str, count: int) -> float:
        """Return the seconds for the first `count` questions through queue, worker and ledger."""
        return whole_path(self.at, self.asking(mode, count), served, mark)


def questions_of(at: Stand, source: Source, limit: int) -> int:
    """Return how many questions are asked. Raises InputError for what cannot be asked, before anything boots."""
    count, size = Asking(source, MODES_ASKED["letter"], limit).count(at.settings), at.settings.batch_size
    if count % size:
        waits = f"the last one waits for batch_timeout, {at.settings.batch_timeout:g} s"
        print(f"note: {number(count, 'question')}, not in whole batches of {size}: {waits}", file=sys.stderr)
    return count


def interleaved(sides: Mapping[str, Measure], bench: Bench, part: int) -> Times:
    """Return the seconds of every side in every round, every other one in reverse order; a first round is not counted.

    All marks begin with `part`. The same engines need another one for each mode: by letter and for texts, questions are
    asked by the same prompt, so the second mode would find those of the first in the cache.

    Each side is also asked a batch just before it is timed: an engine that runs right after another process' engine is
    2 to 3 % slower than one that runs after itself.
    """
    times: Times = {name: [] for name in sides}
    batch = min(bench.limit, bench.at.settings.batch_size)
    for turn in range(bench.rounds + 1):
        count = bench.limit if turn else bench.warm_up or bench.limit
        for name, measure in list(sides.items())[:: -1 if (part + turn) % 2 else 1]:
            measure(f"{part}.{turn}, to warm up", batch)
            seconds = measure(f"{part}.{turn}", count)
            print(f"round {part}.{turn}: {name} {seconds:.2f} s", file=sys.stderr)
            if turn:
                times[name].append(seconds)
    return times


def row(mode: str, count: int, times: Times, base: str, *, inverse: bool = False) -> dict[str, Any]:
    """Return medians, and the speed of `base` relative to the others (inverse: of the others relative to `base`)."""
    found: dict[str, Any] = {"mode": mode, "questions": count}
    found |= {f"{name} questions/s": count / statistics.median(seconds) for name, seconds in times.items()}
    for name in times:
        if name == base:
            continue
        one, other = (name, base) if inverse else (base, name)
        ratios = [theirs / ours for ours, theirs in zip(times[one], times[other], strict=True)]
        shown = f"{one} to {other}"
        found |= {shown: statistics.median(ratios), f"{shown}, rounds": [round(each, 3) for each in ratios]}
    return found


def draw_ratios(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path | str:
    """Draw the ratios of `row` as bars next to the JSON file `path`; return the chart's path, or why there is none."""
    ratios = {f"{each['mode']}, {key}": each[key] for each in rows for key in without(each, "rounds") if " to " in key}
    return bars(path, "Times as fast, medians", "ratio", ratios)
