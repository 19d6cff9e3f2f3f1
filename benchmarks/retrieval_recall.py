"""How often does retrieval find the passages that answer a question, compared with known figures?

FOLDER holds questions (norm/*.jsonl), corpora (rag/*.jsonl) and the passages that answer each question
(rag/*.qrels.jsonl: qid, pids). There is one index per corpus, built by `producer index` and queried with the question
alone, a hybrid one in all three ways. The known figures were measured by hand with bm25s; `any` is the share of
questions with one of their passages among the first k, `share` the mean share of a question's passages among them.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.command import Parser, command_line, existing_folder, one_of, run
from benchmarks.jsonl import read_rows
from benchmarks.record import print_table, write
from benchmarks.stand import producer
from contract.index import can_answer
from contract.spec import IndexKind
from workers.retrieval.load import load_index

DEPTHS = (1, 5, 10)
#: Largest difference from a known figure that counts as the same.
TOLERANCE = 0.01


@dataclass(frozen=True)
class Known:
    """The corpus of a question set, and what BM25 is known to find in it at `DEPTHS`."""

    corpus: str
    known_any: tuple[float, ...]
    known_share: tuple[float, ...]


SETS = {
    "qasc_dev": Known("qasc_facts", (0.697, 0.874, 0.905), (0.348, 0.531, 0.582)),
    "arc_entailmentbank": Known("worldtree_facts", (0.274, 0.485, 0.610), (0.093, 0.198, 0.263)),
    "pubmedqa_test500": Known("pubmedqa_sections", (0.928, 0.974, 0.978), (0.292, 0.680, 0.738)),
}


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=existing_folder)
    parser.add_argument("sets", nargs="*", type=one_of(SETS), metavar="SET", help=f"of {', '.join(SETS)} (all)")
    parser.option("--kind", str, "hybrid", "kind of the index", choices=list(map(str, IndexKind)))
    options = parser.parse_args()
    if options.name and len(options.sets or SETS) > 1:
        parser.error("--name: each set has a record of its own; give one SET")
    same = True
    for name in options.sets or SETS:
        rows = list(measure(options.folder, name, IndexKind(options.kind)))
        print_table(name, rows)
        command = command_line(hidden={options.folder: "FOLDER"})
        print(write(f"retrieval_recall_{name}", rows, options, command=command))
        same &= all(row["as known"] is not False for row in rows)
    return 0 if same else 1


def measure(folder: Path, name: str, built: IndexKind) -> Iterator[dict[str, Any]]:
    """Yield a row for every way to query an index of kind `built` over one set."""
    known = SETS[name]
    gold = {each["qid"]: set(each["pids"]) for each in read_rows(folder / "rag" / f"{known.corpus}.qrels.jsonl")}
    questions = [each for each in read_rows(folder / "norm" / f"{name}.jsonl") if each["id"] in gold]
    with tempfile.TemporaryDirectory() as scratch:
        corpus, place = folder / "rag" / f"{known.corpus}.jsonl", Path(scratch) / "index"
        producer(os.environ, "index", str(corpus), "-o", str(place), "--kind", built)
        index = load_index(place)
        for kind in (each for each in IndexKind if can_answer(built, each)):
            found = index.search([each["question"] for each in questions], max(DEPTHS), kind)
            ranked = [
                ([passage.id for passage in passages], gold[each["id"]])
                for each, passages in zip(questions, found, strict=True)
            ]
            row: dict[str, Any] = {
                "questions": f"{name} ({len(questions)})",
                "corpus": f"{known.corpus} ({index.manifest.plan.counts.passages})",
                "kind": kind,
            }
            for depth in DEPTHS:
                row[f"any@{depth}"] = mean(bool(wanted & set(ids[:depth])) for ids, wanted in ranked)
            for depth in DEPTHS:
                row[f"share@{depth}"] = mean(len(wanted & set(ids[:depth])) / len(wanted) for ids, wanted in ranked)
            yield {**row, "as known": as_known(row, known) if kind is IndexKind.BM25 else None}


def mean(values: Iterable[float]) -> float:
    """Return the mean, rounded to the four digits that this number of questions supports."""
    return round(statistics.fmean(values), 4)


def as_known(row: dict[str, Any], known: Known) -> bool:
    """Return whether every figure is within `TOLERANCE` of the known one."""
    expected = {f"any@{depth}": value for depth, value in zip(DEPTHS, known.known_any, strict=True)}
    expected |= {f"share@{depth}": value for depth, value in zip(DEPTHS, known.known_share, strict=True)}
    return all(abs(row[name] - value) <= TOLERANCE for name, value in expected.items())


if __name__ == "__main__":
    run(main)
