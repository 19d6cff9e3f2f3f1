"""How often retrieval finds the passages that answer a question, beside what is known at the same settings.

    python -m benchmarks.retrieval_recall FOLDER [qasc_dev…] [--kind hybrid]

FOLDER holds questions (norm/*.jsonl), corpora (rag/*.jsonl) and which passages answer which question
(rag/*.qrels.jsonl: qid, pids). One index per corpus, built by `producer index` and asked with the question alone, a
hybrid one in all three ways. The known figures were measured with bm25s by hand; `any` is the share of questions with
one of their passages among the first k, `share` the mean share of a question's passages there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.record import add_out, print_table, write
from contract.index import can_answer
from contract.spec import IndexKind
from workers.retrieval.load import IndexRetriever, load_index

DEPTHS = (1, 5, 10)
#: How far from a known figure counts as the same.
TOLERANCE = 0.01


@dataclass(frozen=True)
class Known:
    """The corpus of some questions, and what BM25 is known to find in it at `DEPTHS`."""

    corpus: str
    known_any: tuple[float, ...]
    known_share: tuple[float, ...]


SETS = {
    "qasc_dev": Known("qasc_facts", (0.697, 0.874, 0.905), (0.348, 0.531, 0.582)),
    "arc_entailmentbank": Known("worldtree_facts", (0.274, 0.485, 0.610), (0.093, 0.198, 0.263)),
    "pubmedqa_test500": Known("pubmedqa_sections", (0.928, 0.974, 0.978), (0.292, 0.680, 0.738)),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", nargs="*", help=f"of {', '.join(SETS)} (all)")
    parser.add_argument("--kind", choices=[each.value for each in IndexKind], default=IndexKind.HYBRID.value)
    add_out(parser)
    options = parser.parse_args()
    as_known = True
    for name in options.sets or SETS:
        rows = list(measure(options.folder, name, IndexKind(options.kind)))
        print_table(name, rows)
        command = f"python -m benchmarks.retrieval_recall FOLDER {name} --kind {options.kind}"
        print(write(f"retrieval_recall_{name}", command, rows, folder=options.out))
        as_known &= all(row["as known"] is not False for row in rows)
    return 0 if as_known else 1


def measure(folder: Path, name: str, built: IndexKind) -> Iterator[dict[str, Any]]:
    """One set in every way that an index of kind `built` can be asked."""
    known = SETS[name]
    gold = {each["qid"]: set(each["pids"]) for each in read(folder / "rag" / f"{known.corpus}.qrels.jsonl")}
    questions = [each for each in read(folder / "norm" / f"{name}.jsonl") if each["id"] in gold]
    with tempfile.TemporaryDirectory() as scratch:
        index = build(folder / "rag" / f"{known.corpus}.jsonl", Path(scratch) / "index", built)
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
                row[f"any@{depth}"] = mean([float(bool(wanted & set(ids[:depth]))) for ids, wanted in ranked])
            for depth in DEPTHS:
                row[f"share@{depth}"] = mean([len(wanted & set(ids[:depth])) / len(wanted) for ids, wanted in ranked])
            yield {**row, "as known": as_known(row, known) if kind is IndexKind.BM25 else None}


def build(corpus: Path, out: Path, kind: IndexKind) -> IndexRetriever:
    """An index through the real command."""
    command = [sys.executable, "-m", "producer", "index", str(corpus), "-o", str(out), "--kind", kind]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return load_index(out)


def read(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def mean(values: list[float]) -> float:
    """To the four places that such a number of questions carries."""
    return round(sum(values) / len(values), 4)


def as_known(row: dict[str, Any], known: Known) -> bool:
    """Whether every figure is within `TOLERANCE` of the known one."""
    expected = {f"any@{depth}": value for depth, value in zip(DEPTHS, known.known_any, strict=True)}
    expected |= {f"share@{depth}": value for depth, value in zip(DEPTHS, known.known_share, strict=True)}
    return all(abs(row[name] - value) <= TOLERANCE for name, value in expected.items())


if __name__ == "__main__":
    sys.exit(main())
