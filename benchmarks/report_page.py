"""How fast a report is written, and how soon its page is usable in Chromium.

Made-up questions and verdicts. `opened_s` runs from the navigation until the table of questions shows rows; the median
of five fresh profiles.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.command import Parser, positive, run
from benchmarks.record import print_table, write
from contract.ledger import MemoryLedger
from contract.question import Question
from contract.verdict import Outcome, Verdict
from producer.report.page import build
from tests.browser import chromium, open_page
from tests.support import make_questions, open_run

OPENINGS = 5
WORDS = 60


def main() -> None:
    parser = Parser(__doc__)
    parser.option("--questions", positive, 20_000, "questions of the report")
    options = parser.parse_args()
    rows = [measure(options.questions)]
    print_table("The report's page", rows)
    print(write("report_page", rows, options.out))


def measure(questions: int) -> dict[str, float]:
    """One report over so many questions of about `WORDS` words."""
    ledger = MemoryLedger()
    drawn = random.Random(0)
    made = [_wordy(question, drawn) for question in make_questions(questions)]
    run = open_run(ledger, made)
    ledger.commit(run.run_id, [_verdict(question, number, drawn) for number, question in enumerate(made)])
    started = time.perf_counter()
    page = build(ledger, [run])
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
        "questions": questions,
        "written_s": round(written_s, 3),
        "file_mb": round(len(page.encode()) / 1e6, 2),
        "opened_s": round(statistics.median(opened_s), 3),
        "opened_slowest_s": round(max(opened_s), 3),
    }


def _wordy(question: Question, drawn: random.Random) -> Question:
    text = " ".join("".join(drawn.choices("abcdefghijklmnopqrstuvwxyz", k=drawn.randint(2, 9))) for _ in range(WORDS))
    return question.model_copy(update={"question": f"{question.question} {text}"})


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
