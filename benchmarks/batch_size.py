"""How many questions should one generate call take? A sweep over batch sizes with your model, questions and machine.

Asks the same questions through pipeline and engine in batches of each size, and prints questions/s, tokens/s (prefilled
and generated) and the duration of a batch, which is also that of each question in it: medians of `--rounds` rounds.
Batches start as in a worker: `--in-flight` of them at a time, and one more whenever the engine has room for it, so that
small ones overlap. Every round measures each size once, with prompts that are in no cache. The optimal size is the
smallest one within 2 % of the fastest. Sizes beyond the number of questions are left out. Questions that fail do not
count in questions/s; `failed` is their largest number in a round.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.asking import Asking, add_asking, asking_of, chosen_model, described, engine_of
from benchmarks.command import Parser, positive, run
from benchmarks.record import plot, print_table, write
from contract.settings import load_settings
from contract.wording import number
from workers.engines.base import Engine
from workers.tuning.trials import Shape, Trial, score_in_batches

WITHIN = 0.98


def main() -> None:
    parser = Parser(__doc__)
    add_asking(parser)
    parser.option("--sizes", positive, (1, 2, 4, 8, 16, 32, 64), "batch sizes")
    parser.option("--in-flight", positive, 1, "batches in flight, also when the engine has no room")
    parser.option("--rounds", positive, 3, "number of measurements of each size")
    options = parser.parse_args()
    over = {**chosen_model(options), "batches_in_flight": options.in_flight}
    settings = load_settings(options.config, [f"{name}={value}" for name, value in over.items()])
    asking = asking_of(options, settings)
    count = asking.count(settings)
    sizes = [size for size in options.sizes if size <= count]
    if left_out := [size for size in options.sizes if size > count]:
        print(
            f"left out, as only {number(count, 'question')} can be asked: {', '.join(map(str, left_out))}",
            file=sys.stderr,
        )
    if not sizes:
        parser.error("--sizes: too few questions for any of them; ask more (--limit, --questions)")
    with engine_of(settings) as engine:
        trials = measure(engine, asking, [Shape(size, options.in_flight) for size in sizes], options.rounds)
        about = described(engine, settings)
    rows = [row(shape.batch_size, found) for shape, found in trials.items()]
    optimal = optimal_size(rows)
    print_table(f"{number(count, 'question')} of {asking.source.shown}, {asking.shown}", rows)
    print(f"Optimal batch size: {optimal}")
    more = {"engine": about, **asking.recorded(settings), "optimal_batch_size": optimal}
    path = write("batch_size", rows, options, **more)
    lines = {"questions/s": [(each["batch_size"], each["questions_per_s"]) for each in rows]}
    print(path, plot(path, "Questions per second by batch size", "batch size", "questions/s", lines, log_x=True))


def measure(engine: Engine, asking: Asking, shapes: Sequence[Shape], rounds: int) -> dict[Shape, list[Trial]]:
    """Return the trials of every shape, one per round."""
    trials: dict[Shape, list[Trial]] = {shape: [] for shape in shapes}
    for turn in range(rounds + 1):
        for shape in shapes:
            items = asking.items(engine.settings, f"{turn} of {shape.batch_size}")
            if turn:
                trials[shape].append(score_in_batches(engine, items, shape))
            else:  # the first calls of a size allocate and compile, so a short round zero is not counted
                score_in_batches(engine, items[: shape.batch_size * shape.batches_in_flight], shape)
    return trials


def row(size: int, trials: Sequence[Trial]) -> dict[str, Any]:
    """Return the medians over the rounds, with the slowest and the fastest round."""
    rates = [each.questions_per_s for each in trials]
    return {
        "batch_size": size,
        "questions_per_s": statistics.median(rates),
        "slowest_round": min(rates),
        "fastest_round": max(rates),
        "tokens_per_s": statistics.median(each.tokens_per_s for each in trials),
        "median_batch_s": statistics.median(each.batch_s for each in trials),
        "failed": max(each.failed for each in trials),
    }


def optimal_size(rows: Sequence[dict[str, Any]]) -> int:
    """Return the smallest batch size that is as fast as the fastest, apart from noise."""
    fastest = max(each["questions_per_s"] for each in rows)
    return min(int(each["batch_size"]) for each in rows if each["questions_per_s"] >= WITHIN * fastest)


if __name__ == "__main__":
    run(main)
