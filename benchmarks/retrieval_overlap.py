"""What retrieval adds to a run whose bottleneck is the engine: it happens beside scoring, so it should add nothing.

    python -m benchmarks.retrieval_overlap [--questions N] [--passages N] [--rounds N] [--batch-ms MS] [--kinds bm25,…]

The same questions without and with retrieval, in turn, `--rounds` times: a real server, a worker that scores with the
simulated engine (a generate call takes `--batch-ms` whatever is in it) and a worker that searches an index of made-up
passages. Measured is the wall time from the first message to the last verdict; `added` is the median of the rounds'
ratios less one. `lookup` is what retrieval takes by itself, per batch, in the searching worker's own log.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.record import add_out, bars, print_table, write
from benchmarks.stand import Stand, producer, stand, wait_until_settled, worker
from contract import keys

WORDS = 20_000
PASSAGE_WORDS = 60
QUESTION_WORDS = 12
BATCH_SIZE = 32


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=4_000)
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-ms", type=float, default=400.0, help="what a generate call takes")
    parser.add_argument("--kinds", default="bm25", help="ways to search, by commas: bm25, dense, hybrid")
    add_out(parser)
    options = parser.parse_args()
    rows = [row for kind in options.kinds.split(",") for row in measure(kind, options)]
    print_table(f"{options.questions:,} questions, {options.passages:,} passages", rows)
    command = (
        f"python -m benchmarks.retrieval_overlap --questions {options.questions} --passages {options.passages}"
        f" --rounds {options.rounds} --batch-ms {options.batch_ms:g} --kinds {options.kinds}"
    )
    path = write("retrieval_overlap", command, rows, folder=options.out)
    print(path, bars(path, "wall time that retrieval adds", "%", {row["kind"]: 100 * row["added"] for row in rows}))
    return 0


def measure(kind: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One row: the same run without and with retrieval, in turn."""
    drawn = random.Random(7)
    settings: dict[str, Any] = {
        "engine": "simulated",
        "model": "simulated-model",
        "batch_size": BATCH_SIZE,
        "batch_timeout": 0.2,
        "simulated": {"call_ms": options.batch_ms},
    }
    with stand(**settings) as at:
        corpus, questions = at.folder / "corpus.jsonl", at.folder / "questions.jsonl"
        write_rows(corpus, ({"id": f"p{n}", "text": text(drawn, PASSAGE_WORDS)} for n in range(options.passages)))
        choices = ["one", "two", "three", "four"]
        asked = (
            {"question": text(drawn, QUESTION_WORDS), "choices": choices, "answer": "A"}
            for _ in range(options.questions)
        )
        write_rows(questions, asked)
        index = at.folder / "index"
        producer(at, "index", str(corpus), "-o", str(index), "--kind", kind)
        queue = keys.retrieve_queue("index")
        with worker(at, "w0"), worker(at, "r0", queue, indexes=[str(index)]) as searching:
            times = [
                (timed(at, questions, index, n, rag=False), timed(at, questions, index, n, rag=True))
                for n in range(options.rounds)
            ]
            lookups_s = [float(each) for each in re.findall(r"questions in ([\d.]+) s", searching.log.read_text())]
    ratios = [with_s / without_s for without_s, with_s in times]
    yield {
        "kind": kind,
        "closed_book_s": statistics.median(without_s for without_s, _ in times),
        "with_retrieval_s": statistics.median(with_s for _, with_s in times),
        "added": statistics.median(ratios) - 1,
        "worst_added": max(ratios) - 1,
        "lookup_ms_per_batch": 1000 * statistics.median(lookups_s),
        "generate_ms_per_batch": options.batch_ms,
    }


def timed(at: Stand, questions: Path, index: Path, seed: int, *, rag: bool) -> float:
    """Seconds from the first message to the last verdict."""
    chosen = [f"rag.enabled={str(rag).lower()}", f"rag.index={index}", f"seed={seed}", "mode=letter"]
    overrides = [part for each in chosen for part in ("--set", each)]
    command = producer(at, "enqueue", str(questions), *overrides, "--json")
    said = json.loads(command.stdout)
    run_id, total = said["run_id"], said["questions"]
    wait_until_settled(at, run_id, total)
    times = [verdict.settled_at - verdict.queued_ms / 1000 for _, verdict in at.ledger.results(run_id) if verdict]
    last = max(verdict.settled_at for _, verdict in at.ledger.results(run_id) if verdict)
    return last - min(times)


def text(drawn: random.Random, words: int) -> str:
    """Words as often as their rank allows: a few everywhere, most of them rare."""
    return " ".join(f"w{int(WORDS ** drawn.random())}" for _ in range(words))


def write_rows(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    with path.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
