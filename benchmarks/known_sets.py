"""Public question sets through the real commands, next to the known accuracy of the same model and scoring.

FOLDER holds the sets at the paths in SETS in this file; they are asked on a server and a `python -m workers up` of
their own. `within interval` says whether the known accuracy is within the 95 % interval of the measured one. The known
figures were measured with transformers in float32, with the same prompts and choices, independently of mcqueue.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.command import Parser, command_line, existing_file, existing_folder, run
from benchmarks.record import print_table, write
from benchmarks.stand import DEPLOY, Stand, host, producer, stand


@dataclass(frozen=True)
class KnownSet:
    """A question set, how it is asked, and its known accuracy."""

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


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=existing_folder)
    parser.option("--config", existing_file, DEPLOY, "deploy file")
    options = parser.parse_args()
    for each in SETS:
        if not (options.folder / each.path).is_file():
            parser.error(f"no such file: {options.folder / each.path}")
    with stand(options.config) as at, host(at, at.folder):
        rows = [measure(at, options.folder, each) for each in SETS]
    print_table("Known sets", rows)
    print(write("known_sets", rows, options, command=command_line(hidden={options.folder: "FOLDER"})))


def measure(at: Stand, folder: Path, known: KnownSet) -> dict[str, Any]:
    """Ask one set with `producer enqueue --watch`."""
    run_config = f"configs/runs/{known.run_config}.yaml"
    asked = [str(folder / known.path), "--config", run_config, "--watch", "--json"]
    summary = producer(at.environment, "enqueue", *asked, "--out", str(at.folder / "results")).said
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
    run(main)
