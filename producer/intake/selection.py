"""Which questions of a file are asked: by subject, the first ones, or some at random.

A sample is drawn by a hash over seed and id: it is the same however the file is ordered, and a smaller sample with
the same seed is part of a larger one; of a stratified one nearly, as a subject's rounded share may shrink.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from contract.question import Question

__all__ = ["EVERYTHING", "Sampler", "Selection", "shares"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of the good rows are asked: those of `subjects`; of them all, the first `limit`, or `sample` at random."""

    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    #: Subjects wanted; none: all of them.
    subjects: frozenset[str] = frozenset()
    #: Whether each subject has the share in the sample that it has in the file.
    stratified: bool = False

    def wants(self, question: Question) -> bool:
        """Whether the question's subject is wanted."""
        return not self.subjects or question.subject in self.subjects


EVERYTHING = Selection()


class Sampler:
    """Draws the sample that a selection wants, in one pass, in memory for the sample alone (for each subject one)."""

    def __init__(self, selection: Selection) -> None:
        self._size = selection.sample or 0
        self._seed = selection.seed
        self._stratified = selection.stratified
        self._sizes: Counter[str] = Counter()
        #: Per subject the places of the smallest hashes, as a heap with the largest of them on top.
        self._heaps: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)

    def watch(self, questions: Iterable[Question]) -> None:
        """Take the questions into account; their places count from 0."""
        for place, question in enumerate(questions):
            stratum = (question.subject or "") if self._stratified else ""
            self._sizes[stratum] += 1
            rank = hashlib.sha256(f"{self._seed}\x1f{question.id}".encode()).digest()[:8]
            entry = (-int.from_bytes(rank), place)
            heap = self._heaps[stratum]
            if len(heap) < self._size:
                heapq.heappush(heap, entry)
            elif entry > heap[0]:
                heapq.heapreplace(heap, entry)

    def places(self) -> frozenset[int]:
        """Places of the questions drawn: all, if there are no more than wanted."""
        wanted = shares(self._sizes, self._size)
        drawn = (entry for stratum, heap in self._heaps.items() for entry in heapq.nlargest(wanted[stratum], heap))
        return frozenset(place for _, place in drawn)


def shares(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """`total` parted among the strata as their sizes are to each other, by largest remainder (Hamilton's method)."""
    everything = sum(sizes.values())
    if total >= everything:
        return dict(sizes)
    exact = {name: total * size / everything for name, size in sizes.items()}
    parted = {name: int(share) for name, share in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (parted[name] - exact[name], name))
    for name in by_remainder[: total - sum(parted.values())]:
        parted[name] += 1
    return parted
