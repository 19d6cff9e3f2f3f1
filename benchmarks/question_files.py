"""Public question sets through the readers, set by set, compared with the same questions in one plain layout.

RAW holds the sets as published, at the paths in SETS in this file; NORM holds `<name>.jsonl`, whose rows are {id,
question, choices, answer (an index), …}. Two questions are the same if their text, their choices in any order and the
text of the correct choice are; white space, case and a trailing question mark are ignored (NORM gives BoolQ's questions
both with and without one). What is in only one of the two is listed with its reason; if there is none, it is
`unexplained`, and the exit code is 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.command import Parser, command_line, existing_folder, run
from benchmarks.jsonl import read_rows
from benchmarks.record import print_table, write
from contract.errors import InputError, McqueueError
from contract.question import Question
from producer.readers import HowToRead, Source, understand


class Same(NamedTuple):
    """What makes two questions the same."""

    question: str
    choices: tuple[str, ...]
    right: tuple[str, ...]


@dataclass(frozen=True)
class Set:
    """A question set, its files, how they are read, and what they are compared with."""

    name: str
    files: str
    #: Name in NORM; empty: not compared.
    norm: str = ""
    subset: str = ""
    layout: str = ""
    answers: str = ""
    #: Whether NORM has only some of the questions, and whether it has additional ones.
    part: bool = False
    others: bool = False


#: Columns of what differs, and those to add up.
DIFFERENCES = ("only read", "unexplained", "refused")
SUMS = ("rows", "read", "skipped", "equal", "unexplained")

SETS = (
    Set("ARC easy dev", "arc/arc_easy/official/dev.jsonl", "arc_easy_dev"),
    Set("ARC easy test", "arc/arc_easy/official/test.jsonl", "arc_easy_test"),
    Set("ARC easy train", "arc/arc_easy/official/train.jsonl"),
    Set("ARC challenge dev", "arc/arc_challenge/official/dev.jsonl"),
    Set("ARC challenge test", "arc/arc_challenge/official/test.jsonl", "arc_challenge_test"),
    Set("ARC challenge train", "arc/arc_challenge/official/train.jsonl"),
    Set("ARC, the part with proofs", "arc/*/official/*.jsonl", "arc_entailmentbank", part=True),
    Set("BIG-bench, a folder of 99 tasks", "bigbench", "bigbench_mc"),
    Set("BoolQ (ERASER) dev", "boolq_eraser/dev_data.jsonl"),
    Set("BoolQ (ERASER) test", "boolq_eraser/test_data.jsonl", "boolq_eraser_test"),
    Set("CommonsenseQA dev", "commonsenseqa/dev.jsonl", "commonsenseqa_dev"),
    Set("CommonsenseQA train", "commonsenseqa/train.jsonl"),
    Set("CommonsenseQA test, no keys", "commonsenseqa/test.jsonl"),
    Set("MedMCQA dev", "mirage/medmcqa/data/dev.json", "medmcqa_dev"),
    Set("MedQA US test", "mirage/medqa/**/phrases_no_exclude_test.jsonl", "medqa_us_test"),
    Set("MIRAGE, all of it", "mirage/benchmark.json"),
    Set("MIRAGE mmlu", "mirage/benchmark.json", "mmlu_med_mirage", subset="mmlu"),
    Set("MIRAGE medqa", "mirage/benchmark.json", "medqa_us_test", subset="medqa"),
    Set("MIRAGE pubmedqa", "mirage/benchmark.json", "pubmedqa_test500", subset="pubmedqa"),
    Set("MIRAGE bioasq", "mirage/benchmark.json", subset="bioasq"),
    Set("MMLU without header", "mirage/mmlu/data/test/anatomy_test.csv", "mmlu_med_mirage", part=True, others=True),
    Set("MMLU dev, a folder of 57 files", "mmlu/dev", "mmlu_dev"),
    Set("MMLU test, a folder of 57 files", "mmlu/test", "mmlu_test"),
    Set("MMLU, a folder of malformed files", "mmlu_malformed/test"),
    Set("PIQA valid", "piqa/data/valid.jsonl", "piqa_valid", answers="piqa/data/valid-labels.lst"),
    Set("PubMedQA", "pubmedqa/data/ori_pqal.json", "pubmedqa"),
    Set("QASC dev", "qasc/official/dev.jsonl", "qasc_dev"),
    Set("QASC test, no keys", "qasc/official/test.jsonl"),
    Set("QASC in-house dev", "qasc/in_house/dev.jsonl"),
    Set("SciQ", "sciq/sciq.json", "sciq"),
    Set("TruthfulQA mc1", "truthfulqa/data/mc_task.json", "truthfulqa_mc1"),
    Set("TruthfulQA mc2", "truthfulqa/data/mc_task.json", layout="truthfulqa-mc2"),
    Set("TruthfulQA CSV", "truthfulqa/TruthfulQA.csv"),
    Set("the predecessor's", "distllm/tests/test_questions_simple.json"),
    Set("EntailmentBank, open questions", "entailmentbank/dataset/task_1/*.jsonl"),
    Set("a corpus, no questions", "entailmentbank/supporting_data/*.json"),
    Set("answers alone, no questions", "pubmedqa/data/test_ground_truth.json"),
)


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("raw", metavar="RAW", type=existing_folder)
    parser.add_argument("norm", metavar="NORM", type=existing_folder)
    options = parser.parse_args()
    rows = [compare(options.raw, options.norm, each) for each in SETS]
    print_table("Question files", rows)
    compared = {each.norm for each in SETS}
    missing = sorted(path.stem for path in options.norm.glob("*.jsonl") if path.stem not in compared)
    print(f"In NORM, without files in RAW: {', '.join(missing)}")
    command = command_line(hidden={options.raw: "RAW", options.norm: "NORM"})
    print(write("question_files", differing(rows), options, command=command, **totals(rows), without_files=missing))
    return int(any(row["unexplained"] for row in rows))


def compare(raw: Path, norm: Path, one: Set) -> dict[str, Any]:
    """Return a row of the table."""
    found = _Reading()
    paths = sorted(raw.glob(one.files))
    if not paths:
        raise InputError(f"{raw / one.files}: no such file.")
    for path in paths:
        found.read(raw, path, one)
    reasons: Counter[str] = Counter()
    compared: int | None = None
    equal: int | None = None
    missing = 0
    if one.norm:
        ours = Counter(map(_same, found.questions))
        theirs = Counter(_normal(norm / f"{one.norm}.jsonl"))
        compared, equal = theirs.total(), (ours & theirs).total()
        if not one.part:
            reasons = _reasons(_surplus(found.questions, ours - theirs))
        if not one.others:
            missing = (theirs - ours).total()
    unexplained = reasons.pop("unexplained", 0) + missing
    return {
        "set": one.name,
        "files": one.files,
        "read as": found.title,
        "rows": found.rows,
        "read": len(found.questions),
        "skipped": found.rows - len(found.questions),
        "norm": compared,
        "equal": equal,
        "only read": "; ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items())),
        "unexplained": unexplained,
        "refused": "; ".join(f"{count:,} × {kind}" for kind, count in found.kinds.most_common(3)),
    }


def differing(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of sets in which something is skipped, refused or in one of the two only, without empty cells."""
    told = [each for each in rows if each["skipped"] or any(each[column] for column in DIFFERENCES)]
    return [{name: value for name, value in each.items() if value not in (None, "")} for each in told]


def totals(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sums over all sets, and the names of those that are read in full: equal, or not compared."""
    differ = {each["set"] for each in differing(rows)}
    sums = {column: sum(each[column] or 0 for each in rows) for column in SUMS}
    same = [each for each in rows if each["set"] not in differ]
    return {
        "sums": {"sets": len(rows), **sums},
        "without_difference": [each["set"] for each in same if each["norm"] is not None],
        "read_and_not_compared": [each["set"] for each in same if each["norm"] is None],
    }


class _Reading:
    """The questions read from the files of a set."""

    def __init__(self) -> None:
        self.rows = 0
        self.questions: list[Question] = []
        self.kinds: Counter[str] = Counter()
        self.title = ""

    def read(self, raw: Path, path: Path, one: Set) -> None:
        """Read a further file."""
        answers = raw / one.answers if one.answers else None
        try:
            file = understand(Source(path, path.name, HowToRead(one.layout, subset=one.subset, answers=answers)))
            self.title = file.title
            for row in file.rows():
                self.rows += 1
                if row.question is not None:
                    self.questions.append(row.question)
                elif row.trouble is not None:
                    self.kinds[f"{row.trouble.field or 'row'}: {row.trouble.kind}"] += 1
        except McqueueError as refused:
            self.kinds[refused.message.partition(" with ")[0]] += 1


def _same(question: Question) -> Same:
    right = tuple(sorted(_plain(question.choice_text(label)) for label in question.right))
    return Same(_plain(question.question), tuple(sorted(map(_plain, question.choices))), right)


def _normal(path: Path) -> Iterator[Same]:
    for row in read_rows(path):
        choices = [_plain(each) for each in row["choices"]]
        yield Same(_plain(row["question"]), tuple(sorted(choices)), (choices[row["answer"]],))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip("?").rstrip()


def _surplus(questions: Iterable[Question], surplus: Counter[Same]) -> Iterator[Question]:
    """Yield as many of each question as `surplus` says."""
    for question in questions:
        if surplus[same := _same(question)] > 0:
            surplus[same] -= 1
            yield question


def _reasons(surplus: Iterable[Question]) -> Counter[str]:
    """Count the reasons why questions are not in NORM, which has only those with one clear correct choice."""
    reasons: Counter[str] = Counter()
    for question in surplus:
        texts = [_plain(each) for each in question.choices]
        if question.also_right:
            reasons["with several right choices"] += 1
        elif question.answer is None:
            reasons["without a right choice"] += 1
        elif texts.count(_plain(question.choice_text(question.answer))) > 1:
            reasons["whose right choice stands there twice"] += 1
        else:
            reasons["unexplained"] += 1
    return reasons


if __name__ == "__main__":
    run(main)
