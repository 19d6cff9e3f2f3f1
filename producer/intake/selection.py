"""Selecting questions of a file: by subject, the first ones, or a random sample.

A sample is drawn by a hash of seed and id: it does not depend on the order of the file, and a smaller sample with the
same seed is a subset of a larger one. For stratified samples this is only nearly so, as a subject's rounded share may
shrink.
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
    """Which good rows are selected: those of `subjects`, and of these all, the first `limit`, or `sample` at random."""

    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    #: The selected subjects; empty for all.
    subjects: frozenset[str] = frozenset()
    #: Whether each subject has the same share of the sample as of the file.
    stratified: bool = False

    def wants(self, question: Question) -> bool:
        """Whether the question's subject is selected."""
        return not self.subjects or question.subject in self.subjects


EVERYTHING = Selection()


class Sampler:
    """Draws a sample in one pass, with memory for the sample only (if stratified, for one sample per subject)."""

    def __init__(self, selection: Selection) -> None:
        self._size = selection.sample or 0
        self._seed = selection.seed
        self._stratified = selection.stratified
        self._sizes: Counter[str] = Counter()
        #: Stratum → positions of the smallest hashes, as a heap with the largest of them on top.
        self._heaps: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)

    def consider(self, questions: Iterable[Question]) -> None:
        """Consider the questions, whose positions count from 0."""
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

    @property
    def among(self) -> int:
        """Number of questions considered."""
        return self._sizes.total()

    def places(self) -> frozenset[int]:
        """Return the positions of the drawn questions: all, if there are no more than requested."""
        wanted = shares(self._sizes, self._size)
        drawn = (entry for stratum, heap in self._heaps.items() for entry in heapq.nlargest(wanted[stratum], heap))
        return frozenset(place for _, place in drawn)


def shares(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Divide `total` among the strata in proportion to their sizes, by largest remainder (Hamilton's method)."""
    everything = sum(sizes.values())
    if total >= everything:
        return dict(sizes)
    exact = {name: total * size / everything for name, size in sizes.items()}
    parted = {name: int(share) for name, share in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (parted[name] - exact[name], name))
    for name in by_remainder[: total - sum(parted.values())]:
        parted[name] += 1
    return parted
