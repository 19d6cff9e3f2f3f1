"""Do 95 % intervals hold the true figure in 95 % of samples, and do tests see differences that are not there?

Draws samples whose true figure is known, and gives each to the functions that write summary.json and `compare --json`.
`coverage` is the share of samples whose interval holds the truth; intervals that lie below and above it are told apart.
`significant` is the share of samples with a p-value below 0.05: false alarms where the true difference is zero, else
the power. A difference called detectable is the `minimum_detectable_effect` of so many pairs. Every figure of the
record is itself uncertain: with 10,000 samples, a coverage of 0.95 by 0.004.

Questions that share a context, or a subject, are `alike` from 0 (independent) to 1 (all right or all wrong): their
accuracies are drawn from a beta distribution, and `alike` is the correlation between two questions of one context. In
comparisons, so are the share of pairs that differ and the share of these that B wins.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng

from benchmarks.command import Parser, from_zero, positive, run
from benchmarks.record import print_table, write
from producer.stats import Contexts, Interval, Pairs, Share, cluster_interval, mean_interval, share
from producer.stats.paired import ALPHA
from producer.stats.proportion import Sum

#: Numbers of questions of contexts that have the same size.
EVEN = tuple([size] * count for count, size in product((5, 20, 200), (2, 5, 20)))
#: The same of some that differ: a few large ones beside single questions, sizes from 1 to 20, and few at all.
UNEVEN = (
    [20] * 5 + [1] * 60,
    [20] * 10 + [1] * 200,
    [50] * 2 + [1] * 50,
    [*range(1, 21)] * 3,
    [40, 10, 5, 5],
    [100] + [20] * 5,
    [500] + [1] * 20,
    [500] * 2 + [1] * 20,
)
#: From independent questions to contexts that are all right or all wrong.
ALIKE = (0.0, 0.1, 0.5, 1.0)
#: Numbers of questions of subjects: the same, the largest fifteen times the smallest (as in MMLU), and one above all.
SUBJECTS = ([100] * 5, [100] * 57, [round(100 * 15 ** (at / 56)) for at in range(57)], [20] * 9 + [400])

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Found:
    """What a sample tells: the interval of its figure and, of a comparison, the test's p-value."""

    interval: Interval
    p_value: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A population whose figure is known, and how a sample of it is drawn and evaluated."""

    #: As in summary.json or `compare --json`.
    figure: str
    sample: str
    truth: float
    draw: Callable[[Generator], Found]


def tried(case: Case, samples: int, seed: int) -> dict[str, Any]:
    """Return a row of the record: what became of `samples` samples of `case`."""
    chance = default_rng([seed, *f"{case.figure} {case.sample} {case.truth}".encode()])
    found = [case.draw(chance) for _ in range(samples)]
    below = sum(each.interval.high < case.truth for each in found)
    above = sum(each.interval.low > case.truth for each in found)
    p_values = [each.p_value for each in found if each.p_value is not None]
    return {
        "figure": case.figure,
        "sample": case.sample,
        "truth": round(case.truth, 4),
        "coverage": (samples - below - above) / samples,
        "below": below / samples,
        "above": above / samples,
        "width": round(statistics.fmean(each.interval.high - each.interval.low for each in found), 4),
        "significant": sum(each < ALPHA for each in p_values) / samples if p_values else None,
    }


def cases() -> Iterator[Case]:
    """Yield every case, those of one figure together."""
    yield from of_one_run()
    yield from of_two_runs()


def of_one_run() -> Iterator[Case]:
    """Yield the cases of a run's own figures."""
    for of, truth in product((20, 100, 1000), (0.25, 0.5, 0.9, 0.98)):
        yield accuracy(of, truth)
    for sizes, alike, truth in product((*EVEN, *UNEVEN), ALIKE, (0.5, 0.8, 0.9, 0.98)):
        yield by_context(sizes, alike, truth)
    for sizes, alike, truth in product(SUBJECTS, (0.02, 0.05, 0.15), (0.3, 0.6, 0.9)):
        yield by_subject(sizes, alike, truth)
    for subjects, size, truth in product((5, 20, 57), (1, 2, 5, 20, 100), (0.3, 0.6, 0.95)):
        yield of_subjects([size] * subjects, truth)
    for subjects, truth in product((20, 57), (0.3, 0.6, 0.95)):
        yield of_subjects([1 + at % 5 for at in range(subjects)], truth)
    for alike, truth in product((0.0, 0.5, 1.0), (0.6, 0.95)):
        yield of_subjects([50] * 10, truth, context_size=5, alike=alike)
    for of, truth in product((20, 200), (0.5, 0.9)):
        yield of_rotations(of, truth)


def of_two_runs() -> Iterator[Case]:
    """Yield the cases of comparisons."""
    for of, differing in product((50, 200, 1000), (0.05, 0.2, 0.5)):
        yield difference(of, differing)
        if just_detectable := detectable(of, differing):
            yield difference(of, differing, just_detectable)
    for sizes, alike, apart in product((*EVEN, *UNEVEN), ALIKE, (0.0, 0.1)):
        yield difference_by_context(sizes, alike, apart)


def accuracy(of: int, truth: float) -> Case:
    """An accuracy over independent questions."""

    def draw(chance: Generator) -> Found:
        return Found(_share(chance.binomial(of, truth), of).interval)

    return Case("accuracy_all", f"{of} questions", truth, draw)


def by_context(sizes: Sequence[int], alike: float, truth: float) -> Case:
    """The same over questions that share contexts; each of `sizes` is a context's number of questions."""
    questions = np.array(sizes)

    def draw(chance: Generator) -> Found:
        right = chance.binomial(questions, rates(chance, truth, alike, len(sizes)))
        found = _clusters(right, questions).interval(_share(right.sum(), questions.sum()))
        assert found is not None, "contexts are shared"
        return Found(found)

    return Case("accuracy_context_interval", f"contexts of {_sizes(sizes)} questions, alike {alike:g}", truth, draw)


def by_subject(sizes: Sequence[int], alike: float, truth: float) -> Case:
    """The same with subjects as a sample; each of `sizes` is a subject's number of questions."""

    def draw(chance: Generator) -> Found:
        right = chance.binomial(sizes, rates(chance, truth, alike, len(sizes)))
        found = cluster_interval(list(map(_share, right, sizes)))
        assert found is not None, "there are several subjects"
        return Found(found)

    return Case("accuracy_cluster_interval", f"subjects of {_sizes(sizes)} questions, alike {alike:g}", truth, draw)


def of_subjects(sizes: Sequence[int], mean: float, context_size: int = 1, alike: float = 0.0) -> Case:
    """The mean over subjects that are the same in every sample, with accuracies of up to 0.2 around `mean`."""
    spread = min(0.2, 1 - mean, mean)
    accuracies = mean + np.linspace(-spread, spread, len(sizes))

    def draw(chance: Generator) -> Found:
        shares, within = [], []
        for truth, size in zip(accuracies, sizes, strict=True):
            contexts = np.full(size // context_size, context_size)
            right = chance.binomial(contexts, rates(chance, truth, alike, len(contexts)))
            shares.append(_share(right.sum(), size))
            within.append(_clusters(right, contexts).interval(shares[-1]) if context_size > 1 else None)
        return Found(mean_interval(shares, within))

    shared = f" in contexts of {context_size}, alike {alike:g}" if context_size > 1 else ""
    return Case("macro_accuracy", f"subjects of {_sizes(sizes)} questions{shared}", mean, draw)


def detectable(of: int, differing: float) -> float | None:
    """Return the `minimum_detectable_effect` of pairs of which as many differ; None if there is none."""
    discordant = round(of * differing)
    return Pairs(of - discordant, discordant, 0, 0).detectable()


def difference(of: int, differing: float, apart: float = 0.0) -> Case:
    """The difference of two runs that differ in the share `differing` of independent pairs."""
    only_b = (differing + apart) / 2
    kinds = [0.5 - differing / 2, differing - only_b, only_b, 0.5 - differing / 2]

    def draw(chance: Generator) -> Found:
        pairs = Pairs(*map(int, chance.multinomial(of, kinds)))
        return Found(pairs.interval(), pairs.p_value())

    named = ", a detectable difference" if apart else ""
    return Case("difference", f"{of} pairs, {differing:g} of them differ{named}", apart, draw)


def difference_by_context(sizes: Sequence[int], alike: float, apart: float, differing: float = 0.2) -> Case:
    """The same with pairs that share contexts; each of `sizes` is a context's number of pairs."""
    questions = np.array(sizes)
    wins = (1 + apart / differing) / 2

    def draw(chance: Generator) -> Found:
        differ = chance.binomial(questions, rates(chance, differing, alike, len(sizes)))
        only_b = chance.binomial(differ, rates(chance, wins, alike, len(sizes)))
        of, apart_in, b_in = (int(each.sum()) for each in (questions, differ, only_b))
        pairs = Pairs(of - apart_in, apart_in - b_in, b_in, 0)
        clusters = _clusters(2 * only_b - differ, questions)
        interval = clusters.interval(pairs, lowest=-1.0)
        assert interval is not None, "contexts are shared"
        return Found(interval, clusters.p_value(pairs))

    sample = f"contexts of {_sizes(sizes)} pairs, {differing:g} of them differ, alike {alike:g}"
    return Case("difference_context_interval", sample, apart, draw)


def of_rotations(of: int, truth: float, rotations: int = 4) -> Case:
    """A mean of proportions: of how many rotations are right, which questions differ in (correlation 0.5)."""

    def draw(chance: Generator) -> Found:
        total = Sum()
        for right in chance.binomial(rotations, rates(chance, truth, 0.5, of)):
            total.add(right / rotations)
        mean = total.mean()
        assert mean is not None, "there are questions"
        return Found(Interval(mean.low, mean.high))

    return Case("rotation_accuracy", f"{of} questions in {rotations} rotations", truth, draw)


def rates(chance: Generator, mean: float, alike: float, count: int | tuple[int, ...]) -> Floats:
    """Return accuracies of contexts, as many as `count` or in that shape: variance `alike` times a single answer's."""
    if not 0 < alike < 1 or not 0 < mean < 1:
        return (chance.random(count) < mean).astype(float) if alike else np.full(count, mean)
    strength = (1 - alike) / alike
    return chance.beta(mean * strength, (1 - mean) * strength, count)


def _clusters(sums: Integers, sizes: Integers) -> Contexts:
    return Contexts(Counter(zip(sums.tolist(), sizes.tolist(), strict=True)))


def _share(right: int, of: int) -> Share:
    found = share(int(right), int(of))
    assert found is not None, "a sample has questions"
    return found


def _sizes(sizes: Sequence[int]) -> str:
    """Describe the sizes of contexts: "5 x 20 and 60 x 1"."""
    counts = Counter(sizes)
    if len(counts) > 2:
        return f"{len(sizes)} x {min(sizes)} to {max(sizes)}"
    return " and ".join(f"{count} x {size}" for size, count in counts.items())


def summed_up(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each figure: its lowest, median and highest coverage, and most false alarms."""
    found = []
    for figure, group in groupby(rows, key=lambda row: str(row["figure"])):
        of = list(group)
        coverages = [row["coverage"] for row in of]
        alarms = [row["significant"] for row in of if row["significant"] is not None and row["truth"] == 0]
        worst = min(of, key=lambda row: float(row["coverage"]))
        found.append(
            {
                "figure": figure,
                "cases": len(of),
                "lowest": min(coverages),
                "median": statistics.median(coverages),
                "highest": max(coverages),
                "most false alarms": max(alarms) if alarms else "",
                "the lowest is of": f"{worst['sample']}, truth {worst['truth']:g}",
            }
        )
    return found


def main() -> None:
    parser = Parser(__doc__)
    parser.option("--samples", positive, 10_000, "samples of each case")
    parser.option("--seed", from_zero, 0, "seed of the samples")
    options = parser.parse_args()
    rows = [tried(case, options.samples, options.seed) for case in cases()]
    print_table(f"coverage of 95 % intervals in {options.samples:,} samples each", summed_up(rows))
    print(write("coverage", rows, options))


if __name__ == "__main__":
    run(main)
