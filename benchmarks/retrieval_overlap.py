"""What does retrieval add to a run whose bottleneck is the engine? It happens beside scoring, so it should add nothing.

The same questions without and with retrieval, alternating, `--rounds` times: a real server, a worker that scores with
the simulated engine (a generate call takes `--batch-ms` whatever its size) and a worker that searches an index of
made-up passages. The wall time is measured from the first message to the last verdict; `added` is the median of the
rounds' ratios minus one. `lookup` is the time of retrieval itself, per batch, from the searching worker's log.
"""

from __future__ import annotations

import json
import random
import statistics
from argparse import Namespace
from pathlib import Path
from typing import Any

from benchmarks.command import Parser, above_zero, positive, run
from benchmarks.jsonl import write_rows
from benchmarks.record import bars, print_table, write
from benchmarks.stand import Stand, lasted_s, producer, set_words, settle, stand, verdicts, worker
from contract import keys, variables
from contract.spec import IndexKind
from contract.wording import number

WORDS = 20_000
PASSAGE_WORDS = 60
QUESTION_WORDS = 12
BATCH_SIZE = 32
#: In which times are not rounded to hundredths of a second.
JSON_LOG = {variables.LOG_FORMAT: "json"}


def main() -> None:
    parser = Parser(__doc__)
    parser.option("--questions", positive, 4_000, "questions per run")
    parser.option("--passages", positive, 10_000, "passages in the index")
    parser.option("--rounds", positive, 5, "pairs of runs")
    parser.option("--batch-ms", above_zero, 400.0, "duration of a generate call")
    parser.option("--kinds", str, ("bm25",), "kinds of search", choices=list(map(str, IndexKind)))
    options = parser.parse_args()
    rows = [measure(kind, options) for kind in options.kinds]
    print_table(f"{number(options.questions, 'question')}, {number(options.passages, 'passage')}", rows)
    path = write("retrieval_overlap", rows, options)
    print(path, bars(path, "wall time added by retrieval", "%", {row["kind"]: 100 * row["added"] for row in rows}))


def measure(kind: str, options: Namespace) -> dict[str, Any]:
    """Return a row: the same run without and with retrieval, alternating."""
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
        producer(at.environment, "index", str(corpus), "-o", str(index), "--kind", kind)
        queue = keys.retrieve_queue("index")
        with worker(at, "w0"), worker(at, "r0", queue, JSON_LOG, indexes=[str(index)]) as searching:
            times = [
                (timed(at, questions, index, n, rag=False), timed(at, questions, index, n, rag=True))
                for n in range(options.rounds)
            ]
            log = searching.log.read_text().splitlines()
            lookups_s = [json.loads(line)["seconds"] for line in log if '"batch_done"' in line]
    ratios = [with_s / without_s for without_s, with_s in times]
    return {
        "kind": kind,
        "closed_book_s": statistics.median(without_s for without_s, _ in times),
        "with_retrieval_s": statistics.median(with_s for _, with_s in times),
        "added": statistics.median(ratios) - 1,
        "worst_added": max(ratios) - 1,
        "lookup_ms_per_batch": 1000 * statistics.median(lookups_s),
        "generate_ms_per_batch": options.batch_ms,
    }


def timed(at: Stand, questions: Path, index: Path, seed: int, *, rag: bool) -> float:
    """Return the seconds from the first message to the last verdict."""
    chosen = [f"rag.enabled={str(rag).lower()}", f"rag.index={index}", f"seed={seed}", "mode=letter"]
    return lasted_s(verdicts(at, settle(at, questions, *set_words(chosen)).said["run_id"]))


def text(drawn: random.Random, words: int) -> str:
    """Return made-up words by a Zipf-like law: a few are everywhere, most of them rare."""
    return " ".join(f"w{int(WORDS ** drawn.random())}" for _ in range(words))


if __name__ == "__main__":
    run(main)
