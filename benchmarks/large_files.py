"""How much memory does a large question file take? `producer enqueue --dry-run` over files generated for this.

One file in JSON Lines and one in CSV, in the temporary folder, with questions of about 1 kB. The peak is the resident
memory of the process (ru_maxrss), in millions of bytes; seconds are those of the whole command.
"""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.command import Parser, above_zero, run
from benchmarks.record import print_table, write
from benchmarks.stand import producer

#: A question of about 1 kB, as long as a clinical one.
STEM = "A patient comes to the clinic with a history that is told at length. " * 11


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument(
        "gigabytes", metavar="GIGABYTES", type=above_zero, nargs="?", default=2.0, help="size of each (2)"
    )
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, fill in {"questions.jsonl": write_jsonl, "questions.csv": write_csv}.items():
            path = Path(folder) / name
            fill(path, int(options.gigabytes * 1e9))
            rows.append(measure(path))
            path.unlink()
    print_table("Large question files", rows)
    print(write("large_files", rows, options))


def questions() -> Iterator[dict[str, Any]]:
    """Yield different questions endlessly."""
    number = 0
    while True:
        number += 1
        yield {
            "id": f"question-{number}",
            "question": f"{STEM}Which is number {number}?",
            "choices": [f"choice {number + at}" for at in range(4)],
            "answer": "ABCD"[number % 4],
        }


def write_jsonl(path: Path, size: int) -> None:
    """Write `size` bytes of JSON Lines."""
    with path.open("w") as file:
        _until(size, file.tell, (file.write(json.dumps(each) + "\n") for each in questions()))


def write_csv(path: Path, size: int) -> None:
    """Write `size` bytes of CSV."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "question", "A", "B", "C", "D", "answer"])
        cells = ([each["id"], each["question"], *each["choices"], each["answer"]] for each in questions())
        _until(size, file.tell, map(writer.writerow, cells))


def _until(size: int, tell: Callable[[], int], written: Iterator[object]) -> None:
    for number, _ in enumerate(written):
        if number % 1000 == 0 and tell() >= size:
            return


def measure(path: Path) -> dict[str, Any]:
    """Read the file as `enqueue` does."""
    done = producer(os.environ, "enqueue", str(path), "--dry-run", "--json")
    return {
        "file": path.name,
        "gigabytes": round(path.stat().st_size / 1e9, 2),
        "rows": done.said["rows"],
        "read": done.said["read"],
        "seconds": round(done.wall_s, 1),
        "peak_mb": round(done.peak_rss_bytes / 1e6),
    }


if __name__ == "__main__":
    run(main)
