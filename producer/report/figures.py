"""The charts of a run, each with a picture, a caption that explains it, and its numbers as a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from contract.prompts import shows_choices
from contract.spec import RunSpec
from contract.wording import number, percent
from producer.report.measures import Measures, Spread, steps, throughput
from producer.report.svg import Axis, Plot
from producer.stats import Calibration, Positions
from producer.stats.calibration import EDGES, confidence_of

__all__ = [
    "Figure",
    "batch_sizes",
    "calibration_curve",
    "confidence_histogram",
    "latency",
    "position_bias",
    "rate_over_time",
]

PIECES = 30


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its caption, legend and data. `rows` are the numbers that it is drawn from."""

    title: str
    caption: str
    picture: Plot
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    #: (CSS class of the colour, its meaning).
    legend: tuple[tuple[str, str], ...] = ()


#: The meaning of "right" in the two charts of confidence, for runs that ask each question in every rotation.
ONE_ROTATION = " An answer is right if the majority choice is; the run's accuracy requires all rotations to be right."


def _what_confidence_is(spec: RunSpec) -> str:
    return f" Confidence is {confidence_of(spec)}.{ONE_ROTATION if spec.circular else ''}"


def calibration_curve(calibration: Calibration, spec: RunSpec) -> Figure | None:
    """Return accuracy against confidence, with a dot per bin whose area shows its number of answers."""
    if not calibration.of:
        return None
    picture = Plot(
        "Accuracy by confidence; the dashed diagonal is perfect calibration",
        Axis("confidence in the chosen answer", 0, 1, percent=True),
        Axis("accuracy", 0, 1, percent=True),
    )
    picture.line(picture.across(0), picture.down(0), picture.across(1), picture.down(1), "dashed")
    filled = [each for each in calibration.bins if each.count]
    dots = [(picture.across(each.claimed / each.count), picture.down(each.right / each.count)) for each in filled]
    picture.polyline(dots, "curve")
    rows = []
    for each, dot in zip(filled, dots, strict=True):
        claimed, right = each.claimed / each.count, each.right / each.count
        radius = 3 + 9 * math.sqrt(each.count / calibration.of)
        shares = f"{percent(claimed)} % confidence, {percent(right)} % right"
        picture.circle(*dot, radius, "right", f"{number(each.count, 'answer')}: {shares}")
        rows.append((f"{claimed:.3f}", f"{right:.3f}", f"{each.count:,}"))
    ece, brier = calibration.ece(), calibration.brier()
    fewer = f" (of {calibration.distributions:,})" if calibration.distributions != calibration.of else ""
    known = f"Expected calibration error {ece:.3f}" + (f", Brier score {brier:.3f}{fewer}" if brier is not None else "")
    caption = f"{known}. Ten bins of equal width; a larger dot stands for more answers."
    caption += _what_confidence_is(spec)
    return Figure("Calibration", caption, picture, ("mean confidence", "accuracy", "answers"), rows)


def confidence_histogram(calibration: Calibration, spec: RunSpec) -> Figure | None:
    """Return a histogram of confidence, with right and wrong answers stacked."""
    if not calibration.of:
        return None
    tallest = max(each.count for each in calibration.bins)
    picture = Plot(
        "Answers by confidence, right ones below, wrong ones on top",
        Axis("confidence in the chosen answer", 0, 1, percent=True),
        Axis("answers", 0, tallest, whole=True),
    )
    rows = []
    for low, high, each in zip(EDGES, EDGES[1:], calibration.bins, strict=False):
        span, wrong = f"{low:.0%} to {high:.0%}", each.count - each.right
        picture.bar(low, high, 0, each.right, "right", f"{span}: {each.right:,} right")
        picture.bar(low, high, each.right, each.count, "wrong", f"{span}: {wrong:,} wrong")
        rows.append((span, f"{each.right:,}", f"{wrong:,}"))
    caption = f"{number(calibration.of, 'answer')} with a confidence.{_what_confidence_is(spec)}"
    legend = (("right", "right"), ("wrong", "wrong"))
    return Figure("Confidence", caption, picture, ("confidence", "right", "wrong"), rows, legend)


def position_bias(positions: Positions, spec: RunSpec) -> Figure | None:
    """Return the position bias: the positions of the keys, and of the chosen answers."""
    keys, chosen, of = positions.keys, positions.chosen, positions.of
    if not of:
        return None
    seen = shows_choices(spec.prompt)
    place = "position as shown to the model" if seen else "position, which the model was not shown"
    labels = positions.labels
    tallest = max(*keys.values(), *chosen.values()) / of
    picture = Plot(
        "Share of keys and of chosen answers by position",
        Axis(place, -0.5, len(labels) - 0.5),
        Axis("share", 0, tallest, percent=True),
        name_ticks=False,
    )
    rows = []
    for at, label in enumerate(labels):
        key, choice = keys.get(label, 0.0) / of, chosen[label] / of
        picture.bar(at - 0.4, at, 0, key, "neutral", f"{label}: {percent(key)} % of the keys")
        picture.bar(at, at + 0.4, 0, choice, "right", f"{label}: {percent(choice)} % of the chosen answers")
        picture.mark(at, label)
        rows.append((label, f"{key:.3f}", f"{choice:.3f}"))
    what = "rotations of questions" if spec.circular else "questions"
    caption = f"{of:,} answered {what} with a key."
    if any(count % 1 for count in keys.values()):
        caption += " Of several right choices, each counts as an equal part of a key."
    if seen:
        caption += (
            " With uneven keys, columns tell little: whether a position is preferred shows where it is wrong, and is "
            "said above if so."
        )
    else:
        caption += " The prompt shows no choices: any difference is due to their texts, or to ties."
    legend = (("neutral", "keys"), ("right", "chosen"))
    return Figure("Position bias", caption, picture, ("position", "keys", "chosen"), rows, legend)


def latency(measures: Measures) -> Figure | None:
    """Return a histogram of the questions' generate call durations; the last column holds the slowest percent."""
    call, queued = Spread.of_values(measures.latency_ms), Spread.of_values(measures.queued_ms)
    if call is None or queued is None:
        return None
    width = steps(0.0, max(call.p99, 1e-3), PIECES)
    most = math.ceil(max(call.p99, 1e-3) / width)
    pieces = Counter(min(int(value / width), most - 1) for value in measures.latency_ms)
    picture = Plot(
        "Questions by duration of their generate call",
        Axis("generate call in ms", 0, most * width),
        Axis("questions", 0, max(pieces.values()), whole=True),
    )
    for at, count in pieces.items():
        span = f"{at * width:,.4g} to {(at + 1) * width:,.4g} ms"
        picture.bar(at * width, (at + 1) * width, 0, count, "right", f"{span}: {count:,}")
    rows = [
        (name, *(f"{value:,.1f}" for value in (each.median, each.p90, each.p99, each.largest)))
        for name, each in (("generate call", call), ("before it, in queue and aggregator", queued))
    ]
    caption = "Duration of each question's generate call; the last column holds all above the 99th percentile."
    return Figure("Latency", caption, picture, ("ms", "median", "90 %", "99 %", "largest"), rows)


def batch_sizes(measures: Measures) -> Figure | None:
    """Return a histogram of the batch sizes."""
    sizes = Counter(measures.batch_sizes.values())
    if not sizes:
        return None
    largest = max(sizes)
    width = max(1, math.ceil(largest / PIECES))
    pieces: Counter[int] = Counter()
    for size, count in sizes.items():
        pieces[(size - 1) // width] += count
    picture = Plot(
        "Batches by number of questions",
        Axis("questions in a batch", 0, (max(pieces) + 1) * width, whole=True),
        Axis("batches", 0, max(pieces.values()), whole=True),
    )
    for at, count in pieces.items():
        low, high = at * width, (at + 1) * width
        span = number(high, "question") if width == 1 else f"{low + 1} to {high} questions"
        picture.bar(low, high, 0, count, "right", f"{span}: {count:,}")
    batches = sizes.total()
    mean = sum(size * count for size, count in sizes.items()) / batches
    caption = f"Batches: {batches:,}, with {mean:,.1f} questions on average and {largest:,} at most."
    rows = [(f"{size:,}", f"{sizes[size]:,}") for size in sorted(sizes)]
    return Figure("Batch sizes", caption, picture, ("questions", "batches"), rows)


def rate_over_time(measures: Measures, started_at: float) -> Figure | None:
    """Return questions per second over time, from the first generate call to the last verdict."""
    found = throughput(measures.settled_at, started_at, len(measures.batch_sizes))
    if found is None:
        return None
    edges, unit = found.edges, found.unit
    picture = Plot(
        "Questions per second over time",
        Axis(f"time since the first generate call in {unit}", 0, edges[-1]),
        Axis("questions/s", 0, max(found.rates)),
    )
    rows = []
    for (start, end), rate in zip(pairwise(edges), found.rates, strict=True):
        picture.bar(start, end, 0, rate, "right", f"{start:,.4g} to {end:,.4g} {unit}: {rate:,.1f}/s")
        rows.append((f"{start:,.4g}", f"{rate:,.1f}"))
    caption = f"Each column is the mean over {edges[1]:,.4g} {unit}, by the workers' clocks."
    return Figure("Throughput", caption, picture, (f"from {unit}", "questions/s"), rows)
