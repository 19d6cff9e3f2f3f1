"""What is retrieval worth on public question sets? Closed book, with retrieved passages, and with the right ones.

FOLDER holds the sets at the paths in SETS in this file; without SET all are asked. Everything goes through the real
commands, on a server and workers of their own: the corpus is indexed with BM25 (English stop words removed), and the
query is the question alone. **Gold** shows each question the passages that its file names, joined by newlines, as its
own context.

The model scores the full text of each choice (`likelihood`). Two accuracies follow from the same scores: by the sum of
a choice's log-probabilities, and by that sum per character. The differences in repaired and broken questions, and their
p, are those of `compare`, by the sum.

The known figures were measured independently with transformers in float32 on 100 questions of a set, with the same
prompts, as the better of the two accuracies; their standard error is about 0.05. The picks are samples: QASC's of
qasc_dev, WorldTree's of the easier questions (ARC-easy) of arc_entailmentbank, for which there are no known figures.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.command import Parser, command_line, existing_folder, one_of, positive, run, writable_folder
from benchmarks.jsonl import read_rows, write_rows
from benchmarks.record import print_table, write
from benchmarks.stand import DEPLOY, Stand, ask_and_export, emptied, host, producer, set_words, stand
from contract.mode import Normalization
from contract.verdict import Outcome

CLOSED, TOP_1, TOP_5, GOLD = "closed book", "BM25 top 1", "BM25 top 5", "gold"
RUN_CONFIG = "configs/runs/likelihood.yaml"


@dataclass(frozen=True)
class RagSet:
    """Questions with a corpus that answers them."""

    questions: str
    corpus: str
    #: File with the relevant passages, {qid, pids} per line; empty: they are in each question's `gold`.
    relevance: str = ""
    #: Condition → known accuracy.
    known: Mapping[str, float] = field(default_factory=dict)


SETS = {
    "demo_qasc": RagSet(
        "picks/demo_qasc/questions.jsonl",
        "picks/demo_qasc/corpus.jsonl",
        known={CLOSED: 0.30, TOP_1: 0.43, TOP_5: 0.39, GOLD: 0.72},
    ),
    "demo_arc_worldtree": RagSet(
        "picks/demo_arc_worldtree/questions.jsonl",
        "picks/demo_arc_worldtree/corpus.jsonl",
    ),
    "qasc_dev": RagSet(
        "norm/qasc_dev.jsonl",
        "rag/qasc_facts.jsonl",
        "rag/qasc_facts.qrels.jsonl",
        known={CLOSED: 0.24, TOP_5: 0.39, GOLD: 0.73},
    ),
    "arc_entailmentbank": RagSet(
        "norm/arc_entailmentbank.jsonl",
        "rag/worldtree_facts.jsonl",
        "rag/worldtree_facts.qrels.jsonl",
        known={CLOSED: 0.44, TOP_5: 0.51, GOLD: 0.74},
    ),
}


@dataclass(frozen=True)
class Prepared:
    """A set in mcqueue's formats."""

    questions: Path
    index: Path
    #: Number in the index.
    passages: int


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=existing_folder)
    shown = f"of {', '.join(SETS)} (all)"
    parser.add_argument("sets", nargs="*", type=one_of(SETS), metavar="SET", help=shown)
    parser.option("--sample", positive, None, "N questions of each set, drawn with seed 0", metavar="N")
    parser.option("--dtype", str, "bfloat16", "data type of the model", choices=["float32", "bfloat16"])
    parser.option("--workdir", writable_folder, Path(".mcqueue/rag-sets"), "folder for indexes, results and logs")
    options = parser.parse_args()
    if options.name and len(options.sets or SETS) > 1:
        parser.error("--name: each set has a record of its own; give one SET")
    command = command_line(without=["--workdir"], hidden={options.folder: "FOLDER"})
    workdir = options.workdir.resolve()
    asked = {name: SETS[name] for name in options.sets or SETS}
    prepared = {name: prepare(each, options.folder, emptied(workdir / name)) for name, each in asked.items()}
    indexes = [str(each.index) for each in prepared.values()]
    with stand(DEPLOY, vllm_args={"dtype": options.dtype}, indexes=indexes) as at, host(at, workdir):
        for name, each in asked.items():
            rows = measure(name, each, prepared[name], options.sample, at, workdir / name)
            print_table("Accuracy", rows, ACCURACY)
            print_table("Against closed book", [row for row in rows if row["condition"] != CLOSED], CHANGE)
            print_table("Retrieval", [row for row in rows if row["condition"] in RETRIEVED], RETRIEVAL)
            print(write(f"rag_sets_{name}", rows, options, command=command, counted=COUNTED))


def prepare(asked: RagSet, folder: Path, workdir: Path) -> Prepared:
    """Write the questions, with their right passages by id and as context, and build an index over the corpus."""
    texts: dict[str, str] = {}
    for row in read_rows(folder / asked.corpus):
        texts.setdefault(row["id"], row["text"])  # WorldTree's corpus has one id twice
    corpus = write_rows(workdir / "corpus.jsonl", ({"id": each, "text": text} for each, text in texts.items()))
    named = {row["qid"]: row["pids"] for row in read_rows(folder / asked.relevance)} if asked.relevance else {}
    asking = []
    for row in read_rows(folder / asked.questions):
        gold = named[row["id"]] if named else row["gold"]
        kept = {name: row[name] for name in ("id", "question", "choices", "answer")}
        asking.append({**kept, "context": "\n".join(texts[each] for each in gold), "gold_passages": gold})
    questions = write_rows(workdir / "questions.jsonl", asking)
    index = workdir / workdir.name.replace("_", "-")
    built = producer(os.environ, "index", str(corpus), "-o", str(index), "--kind", "bm25", "--json").said
    return Prepared(questions, index, built["plan"]["counts"]["passages"])


def measure(
    name: str, asked: RagSet, prepared: Prepared, sample: int | None, at: Stand, folder: Path
) -> list[dict[str, Any]]:
    """Return a row per condition."""
    retrieving = ["rag.enabled=true", f"rag.index={prepared.index}"]
    conditions = {
        CLOSED: [],
        TOP_1: [*retrieving, "rag.retrieval_top_k=1"],
        TOP_5: [*retrieving, "rag.retrieval_top_k=5"],
        GOLD: ["rag.use_context_field=true"],
    }
    sampled = ["--sample", str(sample)] if sample else []
    rows: list[dict[str, Any]] = []
    closed = ""
    for condition, overrides in conditions.items():
        asking = [str(prepared.questions), "--config", RUN_CONFIG, *sampled, *set_words(overrides)]
        summary = ask_and_export(at, asking, folder)
        run_id = summary["run_id"]
        closed = closed or run_id
        compared = producer(at.environment, "compare", closed, run_id, "--json").said
        rows.append(
            {
                "set": name,
                "condition": condition,
                "passages": prepared.passages,
                **accuracies(summary),
                "known": asked.known.get(condition),
                **changes(compared),
                **retrieval(summary),
            }
        )
    return rows


def accuracies(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the accuracy by the sum, and per character from the same scores."""
    by_sum, per_character = summary["accuracy_all"], summary["accuracy_by_normalization"][Normalization.CHARACTER]
    return {
        "questions": summary["total"],
        "failed": summary["outcomes"][Outcome.FAILED],
        "chance": summary["chance"],
        "accuracy": by_sum["value"],
        "low": by_sum["low"],
        "high": by_sum["high"],
        "per character": per_character["value"],
        "per character low": per_character["low"],
        "per character high": per_character["high"],
    }


def changes(compared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes against closed book: questions that flipped each way, and the p-value."""
    difference = compared["difference"]
    return {
        "repaired": compared["contingency"]["only_b"],
        "broken": compared["contingency"]["only_a"],
        "difference": difference["value"],
        "difference low": difference["low"],
        "difference high": difference["high"],
        "p": compared["mcnemar"]["p_value"],
    }


def retrieval(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the retrieval figures of the run's summary."""
    found = summary.get("retrieval")
    if found is None:
        return {}
    deepest = max(found["recall_any"], key=int)
    figures = {
        "any gold in top 1": found["recall_any"]["1"],
        "any gold in top k": found["recall_any"][deepest],
        "share of gold in top k": found["recall_share"][deepest],
        "MRR": found["mrr"],
        "context precision": found["context_precision"],
        "accuracy, gold shown": found["accuracy_with_right_passage"],
        "accuracy, none shown": found["accuracy_without_right_passage"],
        "right choice in context": found["answer_in_context"],
        "a wrong choice in context": found["wrong_choice_in_context"],
    }
    intervals = {f"{name} interval": [each["low"], each["high"]] for name, each in figures.items() if each}
    return {**{name: each["value"] if each else None for name, each in figures.items()}, **intervals}


RETRIEVED = (TOP_1, TOP_5)
ACCURACY = (
    "set",
    "condition",
    "questions",
    "failed",
    "chance",
    "accuracy",
    "low",
    "high",
    "per character",
    "per character low",
    "per character high",
    "known",
)
CHANGE = ("set", "condition", "repaired", "broken", "difference", "difference low", "difference high", "p")
RETRIEVAL = (
    "set",
    "condition",
    "any gold in top 1",
    "any gold in top k",
    "share of gold in top k",
    "MRR",
    "context precision",
    "accuracy, gold shown",
    "accuracy, none shown",
    "right choice in context",
    "a wrong choice in context",
)
COUNTED = {
    "accuracy": "of all questions, by the sum of a choice's log-probabilities; low and high: 95 % Wilson interval",
    "per character": "the same scores divided by the length of the choice's text",
    "known": "measured independently on 100 questions of the set, the better of the two; about 0.05 standard error",
    "repaired": "incorrect closed book, correct here; broken: the other way round; p: McNemar's mid-p test",
    "figures of retrieval": "as producer/stats/retrieval.py defines them",
}


if __name__ == "__main__":
    run(main)
