"""How much memory a large question file takes: `producer enqueue --dry-run` over files written for it.

    python -m benchmarks.large_files [GIGABYTES]

One file in JSON Lines and one in CSV, 2 GB each unless told otherwise, in the temporary folder. The peak is the
process's own (ru_maxrss), which is what the system counts against it.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.record import print_table, write

#: A question of about 1 kB, as long as a clinical one.
STEM = "A patient comes to the clinic with a history that is told at length. " * 11


def main() -> int:
    size = int(float(sys.argv[1] if len(sys.argv) > 1 else "2") * 1e9)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, fill in {"questions.jsonl": write_jsonl, "questions.csv": write_csv}.items():
            path = Path(folder) / name
            fill(path, size)
            rows.append(measure(path))
            path.unlink()
    print_table("Large question files", rows)
    print(write("large_files", "python -m benchmarks.large_files", rows).name)
    return 0


def questions() -> Iterator[dict[str, Any]]:
    """Questions without end, each one different."""
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
    """`size` bytes of JSON Lines."""
    with path.open("w") as file:
        _until(size, file.tell, (file.write(json.dumps(each) + "\n") for each in questions()))


def write_csv(path: Path, size: int) -> None:
    """`size` bytes of CSV."""
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
    command = [sys.executable, "-m", "producer", "enqueue", str(path), "--dry-run", "--json"]
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = json.loads(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "file": path.name,
        "gigabytes": round(path.stat().st_size / 1e9, 2),
        "rows": found["rows"],
        "read": found["read"],
        "seconds": round(time.monotonic() - started, 1),
        "peak_mb": round(usage.ru_maxrss * 1024 / 1e6),
    }


if __name__ == "__main__":
    sys.exit(main())
