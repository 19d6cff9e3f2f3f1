"""Public question sets through the real commands, beside the accuracy that is known for the same model and scoring.

    python -m benchmarks.known_sets FOLDER

FOLDER holds the sets by the paths below. Needs a Redis (MCQUEUE_REDIS_URL) and a running `python -m workers up`.
The known figures were measured with transformers in float32, prompt and choices as here, independently of mcqueue.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.record import print_table, write


@dataclass(frozen=True)
class KnownSet:
    """A set, how it is asked, and what is known of the answer."""

    name: str
    path: str
    run_config: str
    known_accuracy: float | None


SETS = (
    KnownSet("QASC dev sample, 8 choices, sum", "picks/demo_qasc/questions.jsonl", "likelihood", 0.30),
    KnownSet(
        "QASC dev sample, 8 choices, per character", "picks/demo_qasc/questions.jsonl", "likelihood-normalized", None
    ),
    KnownSet("MMLU anatomy, letters", "raw/mmlu/test/anatomy_test.csv", "letter", None),
)


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) == 2 else None
    if folder is None or not folder.is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    rows = [measure(folder, each) for each in SETS]
    print_table("Known sets", rows)
    print(write("known_sets", "python -m benchmarks.known_sets FOLDER", rows))
    return 0


def measure(folder: Path, known: KnownSet) -> dict[str, Any]:
    """One set through `producer enqueue --watch`."""
    asked = [
        str(folder / known.path),
        "--config",
        f"configs/runs/{known.run_config}.yaml",
        "--fresh",
        "--watch",
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "producer", "enqueue", *asked], stdout=subprocess.PIPE, text=True, check=True
    )
    summary = json.loads(done.stdout)
    accuracy = summary["accuracy_all"]
    return {
        "set": known.name,
        "questions": summary["total"],
        "accuracy": accuracy["value"],
        "low": accuracy["low"],
        "high": accuracy["high"],
        "chance": summary["chance"],
        "failed": summary["outcomes"]["failed"],
        "known": known.known_accuracy,
        "within interval": known.known_accuracy and accuracy["low"] <= known.known_accuracy <= accuracy["high"],
    }


if __name__ == "__main__":
    sys.exit(main())
