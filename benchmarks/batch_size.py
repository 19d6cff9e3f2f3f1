"""How many questions should one generate call take? A sweep on your model, your questions, your machine.

    python -m benchmarks.batch_size [--config DEPLOY] [--questions FILE] [--limit N] [--set mode=…] [--in-flight N]
                                    [--sizes 1,2,4,…] [--out FOLDER]

Asks the same questions through pipeline and engine in batches of every size, `--in-flight` of them at a time, and
prints questions/s, tokens/s (prefilled and generated) and how long a batch, and so each question in it, takes.
The optimal size is the smallest one within 2 % of the fastest.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.asking import add_asking, asking_of, engine_of
from benchmarks.record import add_out, plot, print_table, write
from contract.settings import load_settings
from workers.tuning import Shape, score_in_batches

WITHIN = 0.98


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_asking(parser, limit=64)
    parser.add_argument("--sizes", default="1,2,4,8,16,32,64")
    parser.add_argument("--in-flight", type=int, default=1, help="batches that run at a time (1)")
    add_out(parser)
    options = parser.parse_args()
    settings, asking = load_settings(options.config), asking_of(options)
    rows: list[dict[str, Any]] = []
    with engine_of(settings) as engine, tempfile.TemporaryDirectory() as folder:
        score_in_batches(engine, asking.items(settings, "to warm up", Path(folder))[:4], Shape(4, 1))
        for size in map(int, options.sizes.split(",")):
            items = asking.items(settings, f"of {size}", Path(folder))
            found = score_in_batches(engine, items, Shape(size, options.in_flight))
            rows.append(
                {
                    "batch_size": size,
                    "questions_per_s": found.questions_per_s,
                    "tokens_per_s": found.tokens_per_s,
                    "median_batch_s": found.batch_s,
                }
            )
        described = engine.describe() | {"model": settings.hf_model_id}  # not where it lies here
    fastest = max(each["questions_per_s"] for each in rows)
    optimal = next(each["batch_size"] for each in rows if each["questions_per_s"] >= WITHIN * fastest)
    print_table(f"{len(items)} questions of {asking.source.shown}, {', '.join(asking.overrides)}", rows)
    print(f"Optimal batch size: {optimal}")
    command = f"python -m benchmarks.batch_size --limit {options.limit} --in-flight {options.in_flight}"
    path = write("batch_size", command, rows, folder=options.out, engine=described, optimal_batch_size=optimal)
    sizes = [each["batch_size"] for each in rows]
    lines = {"questions/s": [(size, each["questions_per_s"]) for size, each in zip(sizes, rows, strict=True)]}
    print(path, plot(path, "Questions per second by batch size", "batch size", "questions/s", lines, log_x=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
