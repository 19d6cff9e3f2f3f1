"""A report of several runs: each compared with the first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.engine_info import EngineUsed
from contract.ledger import MemoryLedger, Run
from contract.question import Question
from contract.spec import IndexKind, Retrieval
from contract.verdict import ContextSource, Outcome, Passage, Verdict
from tests.support import make_question, make_questions, open_run
from tests.unit.producer.report.conftest import Page, Reporter, answer_all


def test_of_several_comparisons_each_p_stands_beside_the_one_that_counts_them_all(
    ledger: MemoryLedger, report: Reporter
) -> None:
    questions = make_questions(40)
    runs = [open_run(ledger, questions, seed=seed) for seed in range(3)]
    for run, lost in zip(runs, (0, 7, 0), strict=True):
        answer_all(ledger, run, right=lambda at, lost=lost: at >= lost)  # type: ignore[misc]

    report(*(run.run_id for run in runs[:2]))
    report(*(run.run_id for run in runs))

    two, three = (Page(path.read_text(encoding="utf-8")).text for path in _shortest_name_first(runs[0]))
    # Seven of seven discordant pairs for A: 2 · ½ / 2⁷, and twice that beside another comparison.
    assert "p = 0.0078." in two
    assert "Holm)" not in two
    assert "p = 0.0078; p = 0.016 adjusted for all comparisons here (Holm)." in three


def _shortest_name_first(run: Run) -> list[Path]:
    return sorted((Path("results") / run.run_id).glob("*.html"), key=lambda each: len(each.name))


def test_several_runs_stand_beside_the_first_one_paired(ledger: MemoryLedger, report: Reporter) -> None:
    questions = make_questions(20)
    a, b = open_run(ledger, questions, "a"), open_run(ledger, questions, "b", seed=7)
    answer_all(ledger, a)
    answer_all(ledger, b, right=lambda n: n % 4 != 1)
    done = report(a.run_id, b.run_id, "--json")
    (path,) = json.loads(done.stdout)["files"]
    assert path == f"results/{a.run_id}/report-with-{b.run_id}.html"
    page = Page(Path(path).read_text(encoding="utf-8"))
    assert "Difference +25.0 percentage points" in page.text
    assert "20 pairs" in page.text
    assert "1 field" in page.text, "they differ in the seed"
    assert "By subject: 2 subjects" in page.text
    assert "odd 10 0.000 0.500 +0.500" in page.text


def test_a_comparison_says_that_other_engines_answered_the_other_run(ledger: MemoryLedger, report: Reporter) -> None:
    """`compare` did; on the page, a change of dtype looked like an effect of the settings."""
    runs = [open_run(ledger, make_questions(20), name, seed=seed) for seed, name in enumerate("ab")]
    for run, dtype in zip(runs, ("float32", "bfloat16"), strict=True):
        answer_all(ledger, run)
        ledger.note_engine(run.run_id, EngineUsed(worker="w", since=0.0, engine={"dtype": dtype}))

    (path,) = report.json(*(run.run_id for run in runs))["files"]

    told = 'Engines of A and B not identical: they differ in dtype ("float32", "bfloat16").'
    assert told in Page(Path(path).read_text(encoding="utf-8")).text


def test_an_accuracy_without_failed_questions_stands_beside_their_chance_level(
    ledger: MemoryLedger, report: Reporter
) -> None:
    pair = make_question(0, choices=("a", "b"), answer="A")
    runs = [open_run(ledger, [pair, make_question(1)], name) for name in ("a", "b")]
    answer_all(ledger, runs[1])
    for question, outcome in ((pair, Outcome.CORRECT), (make_question(1), Outcome.FAILED)):
        ledger.commit(runs[0].run_id, [Verdict(question_id=question.id, outcome=outcome)])

    page = report.page(*runs)

    rows = re.findall(r'<tr><th scope="row">([^<]*)</th>.*?class="chance" x1="([0-9.]+)"', page.html, re.DOTALL)
    chances = dict(rows[:3])
    assert chances[f"{runs[0].run_id} excluding failed questions"] == "50.00", "that of the question with two choices"
    also_as_a_number = f"{runs[0].run_id} excluding failed questions 100.0 % 20.7 to 100.0 % 50.0 % 1 of 1"
    assert also_as_a_number in page.text


def test_a_report_compares_runs_that_share_some_questions_by_these_alone_if_asked(
    ledger: MemoryLedger, report: Reporter
) -> None:
    questions = make_questions(20)
    a, b = open_run(ledger, questions, "a"), open_run(ledger, questions[5:], "b", seed=7)
    c = open_run(ledger, questions, "c", seed=8)
    answer_all(ledger, a)
    answer_all(ledger, b, right=lambda n: n % 4 != 1)
    answer_all(ledger, c)

    page = report.page(a, b, c)
    shared = report.page(a, b, c, option="--shared")

    assert "No paired comparison: Runs a-" in page.text
    assert "with 15 in common. Add --shared to compare the 15 that are the same in both" in page.text
    assert "No paired comparison" not in shared.text
    over = "the accuracy of A is 46.7 % (chance 25.0 %), and that of B is 73.3 % (chance 25.0 %)."
    assert f"Over these 15 pairs, {over}" in shared.text
    over = "the accuracy of A is 50.0 % (chance 25.0 %), and that of B is 50.0 % (chance 25.0 %)."
    assert f"Over these 20 pairs, {over}" in shared.text
    assert "Left out, as only one run has them, or in another version: 5 questions: 5 only in A." in shared.text
    assert shared.text.count("1 field") == 2, "they differ in the seed"


@pytest.mark.parametrize(("flipped", "told"), [(30, "30 questions, the first 20"), (3, "3 questions")])
def test_of_many_flipped_questions_a_report_lists_the_first_and_tells_how_many_there_are(
    ledger: MemoryLedger, report: Reporter, flipped: int, told: str
) -> None:
    a, b = open_run(ledger, make_questions(40), "a"), open_run(ledger, make_questions(40), "b", seed=7)
    answer_all(ledger, a)
    answer_all(ledger, b, right=lambda n: (n % 2 == 0) != (n < flipped))

    (path,) = report.json(a.run_id, b.run_id)["files"]

    above, _, below = Path(path).read_text(encoding="utf-8").partition('aria-label="Flipped questions"')
    assert f"<summary>Flipped: {told}</summary>" in above
    assert re.findall(r'<th scope="row" class="wrap">(q\d+)</th>', below) == [f"q{n}" for n in range(min(flipped, 20))]


def test_reports_of_other_runs_do_not_overwrite_each_other_however_long_their_names_are(
    ledger: MemoryLedger, report: Reporter
) -> None:
    names = [f"nightly-{'x' * 50}-{model}" for model in ("1b", "3b", "8b", "70b", "405b", "405b-base")]
    first, *others = (open_run(ledger, make_questions(1), name).run_id for name in names)
    paths: set[str] = set()
    for left_out in (0, -2, -1, -1):
        words = [each for each in others if each != others[left_out]]
        paths |= set(report.json(first, *words)["files"])

    assert set(map(str, Path("results").rglob("*.html"))) == paths
    assert len(paths) == 3, "one for each set of runs, also for one that is reported twice"


def test_each_run_of_a_report_is_read_once(
    ledger: MemoryLedger, report: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = make_questions(8)
    runs = [open_run(ledger, questions, f"seed {seed}", seed=seed) for seed in range(4)]
    for run in runs:
        answer_all(ledger, run)
    read: list[str] = []
    results = ledger.results

    def noted(run_id: str, start: int = 0, stop: int | None = None) -> Iterator[tuple[Question, Verdict | None]]:
        read.append(run_id)
        return results(run_id, start, stop)

    monkeypatch.setattr(ledger, "results", noted)

    report(*(run.run_id for run in runs))
    assert sorted(read) == sorted(run.run_id for run in runs)


def test_a_run_that_is_reopened_while_it_is_read_is_one_line(
    ledger: MemoryLedger, report: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = (open_run(ledger, make_questions(4), name, seed=seed) for seed, name in enumerate("ab"))
    for run in (a, b):
        answer_all(ledger, run)
    results = ledger.results

    def reopened(run_id: str, start: int = 0, stop: int | None = None) -> Iterator[tuple[Question, Verdict | None]]:
        for question, verdict in results(run_id, start, stop):
            yield question, None if (run_id, question.id) == (b.run_id, "q2") else verdict

    monkeypatch.setattr(ledger, "results", reopened)

    done = report(a.run_id, b.run_id, exit_code=1)
    assert f"Run {b.run_id} is no longer settled: question 'q2' is being asked again." in done.output
    assert not list(Path("results").rglob("*.html"))


def test_with_retrieval_it_shows_what_was_found_and_what_passages_changed(
    ledger: MemoryLedger, report: Reporter
) -> None:
    questions = [
        each.model_copy(update={"metadata": {"source_id": f"p{n}"}}) for n, each in enumerate(make_questions(20))
    ]
    rag = Retrieval(index="elements", index_digest="0" * 64, kind=IndexKind.BM25, retrieval_top_k=3)
    closed, opened = open_run(ledger, questions, "closed"), open_run(ledger, questions, "open", rag=rag)
    answer_all(ledger, closed)
    for number, question in enumerate(questions):
        right = number % 4 != 1
        verdict = Verdict(
            question_id=question.id,
            outcome=Outcome.CORRECT if right else Outcome.WRONG,
            choice=question.answer if right else "ABCD"[(number + 1) % 4],
            context_source=ContextSource.RETRIEVED,
            passages=(Passage(id=f"p{number}" if right else "other", score=2.0, text="a passage"),),
            retrieval_hit=right,
        )
        ledger.commit(opened.run_id, [verdict])
    page = report.page(closed, opened)
    assert "recall@1: a relevant passage in the first 1 75.0 %" in page.text
    assert "accuracy with a relevant passage shown 100.0 %" in page.text
    assert "accuracy without one shown 0.0 %" in page.text
    assert "repaired 5 of 10 incorrect" in page.text
    assert "broken 0 of 10 correct" in page.text
    assert "Effect of retrieval" in page.text


def test_two_runs_have_the_same_two_names_throughout_their_comparison(ledger: MemoryLedger, report: Reporter) -> None:
    rag = Retrieval(index="elements", index_digest="0" * 64, kind=IndexKind.BM25)
    a, b = (open_run(ledger, make_questions(4), name, rag=each) for name, each in (("closed", None), ("open", rag)))
    for run, right in ((a, 1), (b, 3)):
        ledger.commit(run.run_id, [_verdict(number, right) for number in range(4)])
    page = report.page(a, b)
    begin = page.text.index(f"{b.run_id} compared with {a.run_id}")
    comparison = page.text[begin : page.text.index("is right on", begin)]
    assert f"A {a.run_id} · simulated-model · likelihood · prompt question B {b.run_id}" in comparison
    assert "Differences are B minus A." in comparison
    assert "B correct B incorrect A correct" in comparison
    assert "question subject key A B q" in comparison
    assert "field A B" in comparison
    assert "incorrect in A, correct in B" in comparison
    assert not {"first", "second"} & set(comparison.split())


def test_each_run_says_how_it_was_asked_where_it_is_compared_and_where_it_is_told(
    ledger: MemoryLedger, report: Reporter
) -> None:
    rag = Retrieval(index="elements", index_digest="0" * 64, kind=IndexKind.BM25)
    a, b = (open_run(ledger, make_questions(4), name, rag=each) for name, each in (("closed", None), ("open", rag)))
    text = report.page(a, b).text
    how = "likelihood · prompt question · passages from elements"
    assert f"B {b.run_id} · simulated-model · {how} Differences" in text
    assert f"{b.run_id} made up · {how}" in text
    assert re.search(r"asked likelihood · model simulated-model · prompt question, version \w+ · chat template", text)


def _verdict(number: int, right: int) -> Verdict:
    """Of question `number`; the first ones up to `right` are."""
    outcome = Outcome.CORRECT if number < right else Outcome.WRONG
    return Verdict(question_id=f"q{number}", outcome=outcome, choice="A", context_source=ContextSource.RETRIEVED)


def test_of_two_runs_with_retrieval_it_shows_which_found_more(ledger: MemoryLedger, report: Reporter) -> None:
    questions = [make_question(n, gold_passages=[f"p{n}"]) for n in range(4)]
    rag = Retrieval(index="elements", index_digest="0" * 64, kind=IndexKind.BM25, retrieval_top_k=3)
    runs = [open_run(ledger, questions, f"seed {seed}", rag=rag, seed=seed) for seed in (1, 2)]
    for run, reached in zip(runs, (1, 3), strict=True):
        for number, question in enumerate(questions):
            passage = Passage(id=f"p{number}" if number < reached else "other", score=2.0, text="a passage")
            found: dict[str, Any] = {"context_source": ContextSource.RETRIEVED, "passages": (passage,)}
            ledger.commit(run.run_id, [Verdict(question_id=question.id, outcome=Outcome.WRONG, **found)])
    page = report.page(*runs)
    assert "Recall of retrieval recall@3 A 0.250 · B 0.750 relevant passage found, of 4 questions" in page.text


def test_why_runs_are_not_compared_is_said_in_the_report_and_beside_it(ledger: MemoryLedger, report: Reporter) -> None:
    a, b = open_run(ledger, make_questions(4), "a"), open_run(ledger, make_questions(5), "b")

    told = report(a.run_id, b.run_id).stderr

    assert f"{b.run_id} is not compared with {a.run_id}: Runs " in told
    for said in (told, report.page(a, b).text):
        assert "asked different questions" in said


def test_beside_the_flipped_questions_of_a_circular_run_stands_what_its_choices_are(
    ledger: MemoryLedger, report: Reporter
) -> None:
    questions = make_questions(4)
    runs = [open_run(ledger, questions, circular=circular) for circular in (False, True)]
    for run, lost in zip(runs, (0, 2), strict=True):
        answer_all(ledger, run, right=lambda at, lost=lost: at >= lost)  # type: ignore[misc]

    assert "In B, a choice is the most frequent one of a question's rotations" in report.page(*runs).text
