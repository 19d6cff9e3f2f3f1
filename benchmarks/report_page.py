"""How fast is a report written, and how soon is its page usable in Chromium?

Questions and verdicts are made up. `opened_s` is the time from the navigation until the table of questions shows rows;
the median of five fresh profiles.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.browser import chromium, open_page
from benchmarks.command import Parser, positive, run
from benchmarks.made_up import made_up_question, made_up_run
from benchmarks.record import print_table, write
from contract.ledger import MemoryLedger, Run
from contract.question import Question
from contract.verdict import Outcome, Verdict
from producer.report.page import build

OPENINGS = 5
WORDS = 60


def main() -> None:
    parser = Parser(__doc__)
    parser.option("--questions", positive, 20_000, "questions per run")
    parser.option("--runs", positive, (1, 5), "numbers of runs, side by side in one report")
    options = parser.parse_args()
    rows = [measure(options.questions, runs) for runs in options.runs]
    print_table("Report page", rows)
    print(write("report_page", rows, options))


def measure(questions: int, runs: int) -> dict[str, float]:
    """Write and open a report of `runs` runs over `questions` questions of about `WORDS` words."""
    ledger = MemoryLedger()
    drawn = random.Random(0)
    made = [made_up_question(number, f"{number}: {_words(drawn)}?") for number in range(questions)]
    opened = [_settled(ledger, f"model-{number}", made, drawn) for number in range(runs)]
    started = time.perf_counter()
    page = "".join(build(ledger, opened))
    written_s = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        path = Path(folder) / "report.html"
        path.write_text(page, encoding="utf-8")
        opened_s = []
        for _ in range(OPENINGS):
            with open_page(browser) as shown:
                started = time.perf_counter()
                shown.goto(path.as_uri())
                shown.locator("#rows tr").first.wait_for()
                opened_s.append(time.perf_counter() - started)
    return {
        "runs": runs,
        "questions": questions,
        "written_s": round(written_s, 3),
        "file_mb": round(len(page.encode()) / 1e6, 2),
        "opened_s": round(statistics.median(opened_s), 3),
        "opened_slowest_s": round(max(opened_s), 3),
    }


def _words(drawn: random.Random) -> str:
    return " ".join("".join(drawn.choices("abcdefghijklmnopqrstuvwxyz", k=drawn.randint(2, 9))) for _ in range(WORDS))


def _settled(ledger: MemoryLedger, model: str, questions: Sequence[Question], drawn: random.Random) -> Run:
    run = made_up_run("report", model, questions)
    ledger.open_run(run)
    ledger.add_questions(run.run_id, questions)
    ledger.commit(run.run_id, [_verdict(question, number, drawn) for number, question in enumerate(questions)])
    return run


def _verdict(question: Question, number: int, drawn: random.Random) -> Verdict:
    choice = drawn.choice(question.labels)
    return Verdict(
        question_id=question.id,
        outcome=Outcome.CORRECT if choice == question.answer else Outcome.WRONG,
        choice=choice,
        confidence=drawn.uniform(0.25, 1.0),
        choice_scores={label: -10 * drawn.random() for label in question.labels},
        batch_id=f"w/{number // 64}",
        batch_size=64,
        worker="w",
        latency_ms=drawn.lognormvariate(5, 0.5),
        settled_at=1e9 + number / 100,
    )


if __name__ == "__main__":
    run(main)
