"""What of a file was asked stands beside the figures: a sample, the first ones, one subject, questions asked twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contract.ledger import MemoryLedger, Run
from contract.verdict import Outcome, Verdict
from tests.unit.producer.conftest import Producer, WriteRows


def settled(producer: Producer, ledger: MemoryLedger, *words: object, right: int = 1) -> Run:
    """The run that `enqueue` makes of these words, the first questions of it right and all others wrong."""
    producer("enqueue", *words)
    run = ledger.runs()[-1]
    verdicts = [
        Verdict(question_id=question.id, outcome=Outcome.CORRECT if at < right else Outcome.WRONG, choice="A")
        for at, (question, _) in enumerate(ledger.results(run.run_id))
    ]
    ledger.commit(run.run_id, verdicts)
    return run


def summary(run: Run) -> dict[str, object]:
    content: dict[str, object] = json.loads((Path("results") / run.run_id / "summary.json").read_text())
    return content


@pytest.mark.parametrize(
    ("words", "chosen", "told"),
    [
        (("--sample", 3, "--seed", 7), {"sample": 3, "seed": 7, "rows": 5}, "3 at random (seed 7) · from 5 questions"),
        (("--limit", 2), {"limit": 2, "rows": 2}, "the first 2, the rest was not read"),
        (("--subject", "red"), {"subjects": ["red"], "rows": 5}, "only red · from 5 questions"),
        (
            ("--sample", 2, "--stratified"),
            {"sample": 2, "stratified": True},
            "2 at random (seed 0), stratified by subject · from 5 questions",
        ),
    ],
)
def test_what_was_chosen_of_a_file_stands_in_the_summary_at_the_end_and_in_the_report(
    producer: Producer,
    ledger: MemoryLedger,
    five: Path,
    words: tuple[object, ...],
    chosen: dict[str, object],
    told: str,
) -> None:
    run = settled(producer, ledger, five, *words)

    ended = producer("export", run.run_id).stdout
    producer("report", run.run_id)

    found = summary(run)["selection"]
    assert isinstance(found, dict)
    assert {name: found[name] for name in chosen} == chosen
    assert [line for line in ended.splitlines() if line.split() == ["taken", *told.split()]]
    assert told in (Path("results") / run.run_id / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [(), ("--limit", 5), ("--limit", 9), ("--sample", 9)])
def test_of_a_file_that_was_taken_whole_nothing_is_said(
    producer: Producer, ledger: MemoryLedger, five: Path, words: tuple[object, ...]
) -> None:
    run = settled(producer, ledger, five, *words)

    assert "taken" not in producer("export", run.run_id).stdout
    assert summary(run)["total"] == 5


@pytest.mark.parametrize("behind", ['{"question": "Which?"}', "{"], ids=["bad row", "no JSON"])
def test_what_is_wrong_behind_the_last_row_that_a_limit_asks_for_is_not_read(
    producer: Producer, ledger: MemoryLedger, five: Path, behind: str
) -> None:
    five.write_text(f"{five.read_text()}{behind}\n")

    run = settled(producer, ledger, five, "--limit", 5)

    assert run.taken is not None
    assert (run.taken.rows, run.taken.skipped) == (5, 0)
    assert "the first 5, the rest was not read\n" in producer("export", run.run_id).stdout


@pytest.mark.parametrize(("words", "there"), [((), 5), (("--subject", "red"), 2)])
def test_a_sample_that_is_larger_than_the_file_is_told_as_such(
    producer: Producer, five: Path, words: tuple[object, ...], there: int
) -> None:
    asked = producer("enqueue", five, *words, "--sample", 9)
    told = f"--sample 9: only {there} questions available; all of them are asked"
    assert told in asked.stderr
    assert "at random" not in producer("export").stdout
    assert told not in producer("enqueue", five, *words, "--sample", there).stderr


@pytest.mark.parametrize("more", [(), ("--sample", 1), ("--limit", 5)])
def test_a_subject_that_no_question_has_is_told_beside_one_that_some_have(
    producer: Producer, five: Path, more: tuple[object, ...]
) -> None:
    told = producer("enqueue", five, "--subject", "red", "--subject", "bleu", *more, "--dry-run").stderr
    assert "--subject bleu: no question has it. Did you mean 'blue'?\n" in told
    assert "--subject red" not in told


def test_a_subject_that_may_be_in_the_rest_of_the_file_is_not_told(producer: Producer, five: Path) -> None:
    told = producer("enqueue", five, "--subject", "red", "--subject", "bleu", "--limit", 1, "--dry-run").stderr
    assert "bleu" not in told


@pytest.mark.parametrize(
    ("sample", "told"),
    [(1, "only red · 1 of 2 at random (seed 0) · from 5 questions"), (2, "only red · from 5 questions")],
)
def test_a_sample_of_a_subject_is_told_as_one_of_its_questions_and_only_where_it_leaves_some_out(
    producer: Producer, ledger: MemoryLedger, five: Path, sample: int, told: str
) -> None:
    run = settled(producer, ledger, five, "--subject", "red", "--sample", sample)

    assert f"{told}\n" in producer("export", run.run_id).stdout
    assert run.taken is not None
    assert run.taken.among == 2


@pytest.mark.parametrize(
    ("words", "limit", "original", "told"),
    [
        (("--limit", 2), 2, 2, ["asked: the first 2, the rest was not read."]),
        (("--sample", 3), None, 5, ["asked: 3 at random (seed 0) · from 5 questions."]),
        ((), None, 5, []),
    ],
)
def test_what_lm_evaluation_harness_tools_read_of_a_part_of_a_file_says_that_it_is_a_part(
    producer: Producer,
    ledger: MemoryLedger,
    five: Path,
    words: tuple[object, ...],
    limit: int | None,
    original: int,
    told: list[str],
) -> None:
    run = settled(producer, ledger, five, *words)

    said = producer("export", run.run_id, "--format", "lm-eval").stderr

    (path,) = (Path("results") / run.run_id).glob("lm-eval/*/results_*.json")
    found = json.loads(path.read_text())
    (samples,), (config,) = found["n-samples"].values(), found["configs"].values()
    assert (found["config"]["limit"], samples["original"]) == (limit, original)
    assert [each for each in config["metadata"]["missing"] if each.startswith("asked: ")] == told
    assert all(f"lm-eval: {each}" in said for each in told)


def test_bad_rows_that_were_skipped_are_told_with_the_figures(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows
) -> None:
    good = {"question": "Which?", "choices": ["a", "b"], "answer": "A"}
    run = settled(producer, ledger, write_rows(good, {"question": "Which?"}), "--skip-bad")

    assert "without 1 bad row\n" in producer("export", run.run_id).stdout


def test_one_wording_about_texts_of_their_own_is_no_repetition_but_one_question_where_they_are_not_shown(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows
) -> None:
    same = {"question": "Does it follow?", "choices": ["yes", "no"], "answer": "A"}
    run = settled(producer, ledger, write_rows(*({**same, "id": f"{n}", "context": f"Text {n}."} for n in range(4))))

    ended = producer("export", run.run_id).stdout

    assert "repeat" not in ended
    assert "contexts  all 4 questions are the same without their contexts, which are not shown: intervals" in ended


@pytest.mark.parametrize(
    "choices", [["abc"] * 4, ["abc", "bca", "cab", "cba"]], ids=["as they were", "with their choices in another order"]
)
@pytest.mark.parametrize("ids", [False, True], ids=["without ids", "with ids of their own"])
def test_questions_that_a_file_has_twice_do_not_count_as_two_draws(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, choices: list[str], ids: bool
) -> None:
    rows = [
        {"question": f"Which is {at // 4}?", "choices": [*choices[at % 4]], "answer": "A"}
        | ({"id": f"row {at}"} if ids else {})
        for at in range(40)
    ]
    one = settled(producer, ledger, write_rows(*rows), right=20)
    other = settled(producer, ledger, write_rows(*rows), "--set", "seed=1", right=36)

    ended = producer("export", one.run_id).stdout
    compared = producer.json("compare", one.run_id, other.run_id)

    # Ten questions, five of them known: 2.262 · √(10/9 · 10 · 2²) / 40 = 0.377 to either side.
    told = "95 % interval 0.123 to 0.877, as 40 questions share 10 contexts, or are duplicates\n"
    assert told in ended
    assert "taken     30 duplicates included\n" in ended
    assert compared["difference_context_interval"]["shared"] == 10
