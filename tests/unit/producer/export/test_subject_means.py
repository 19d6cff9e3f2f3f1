"""The mean over a run's subjects: its interval, the worst and the best, and subjects of which all questions failed."""

from __future__ import annotations

from contract import MemoryLedger, Outcome, RunState
from producer.export.summary import Summary
from producer.export.summary_json import summary_json
from producer.options import SOME_FAILED
from tests.support import make_question, open_run, settle
from tests.unit.producer.conftest import Producer, settle_next


def test_the_end_of_a_run_tells_the_mean_of_its_subjects_the_worst_and_the_best(
    ledger: MemoryLedger, producer: Producer
) -> None:
    subjects = ["law", "law", "law", "art", None]
    run = open_run(ledger, [make_question(number, subject=subject) for number, subject in enumerate(subjects)])
    settle(ledger, run.run_id, "q0", "q1", "q3")
    settle(ledger, run.run_id, "q2", "q4", outcome=Outcome.WRONG)

    told = producer("export", run.run_id).stdout

    worst, best = "0.000 in none named (0.000 to 0.793, 1)", "1.000 in art (0.207 to 1.000, 1)"
    assert f"subjects  0.556  95 % interval 0.124 to 0.943 (mean of 3)\n          from {worst} to {best}\n" in told


def test_what_guessing_scores_in_the_mean_of_subjects_is_told_where_they_have_other_numbers_of_choices(
    ledger: MemoryLedger, producer: Producer
) -> None:
    asked = [make_question(n, subject="four") for n in range(3)]
    asked.append(make_question(3, subject="two", choices=("yes", "no"), answer="A"))
    run = open_run(ledger, asked)
    settle(ledger, run.run_id, *(f"q{n}" for n in range(4)))

    told = producer("export", run.run_id).stdout

    assert "(mean of 2), chance 0.375\n" in told
    summary = summary_json(Summary.of(run, RunState.RUNNING, ledger.results(run.run_id)))
    assert summary["macro_accuracy"]["chance"] == 0.375, "(1/4 + 1/2) / 2"


def test_the_end_of_a_run_with_failed_questions_tells_the_mean_of_its_subjects_without_them_too(
    ledger: MemoryLedger, producer: Producer
) -> None:
    run = open_run(ledger, [make_question(n, subject=subject) for n, subject in enumerate(["law", "law", "art"])])
    outcomes = (Outcome.CORRECT, Outcome.FAILED, Outcome.CORRECT)
    settle_next(ledger, run.run_id, *outcomes)

    told = producer("export", run.run_id, exit_code=SOME_FAILED).stdout

    assert "subjects  0.750  95 % interval" in told
    (responded,) = [line for line in told.splitlines() if line.endswith("(mean of 2) excluding failed questions")]
    assert responded.strip().startswith("1.000  95 % interval")


def test_a_subject_all_of_whose_questions_failed_is_left_out_of_the_mean_not_counted_as_zero(
    ledger: MemoryLedger, producer: Producer
) -> None:
    asked = ("law", "law", "art", "art", "zoo", "zoo")
    outcomes = (Outcome.CORRECT, Outcome.FAILED, Outcome.CORRECT, Outcome.WRONG, Outcome.FAILED, Outcome.FAILED)
    run = open_run(ledger, [make_question(n, subject=subject) for n, subject in enumerate(asked)])
    settle_next(ledger, run.run_id, *outcomes)

    told = producer("export", run.run_id, exit_code=SOME_FAILED).stdout
    summary = summary_json(Summary.of(run, RunState.RUNNING, ledger.results(run.run_id)))

    means = [summary[name] for name in ("macro_accuracy", "macro_accuracy_without_failed")]
    assert [each["value"] for each in means] == [0.5, 0.75], "(1/2 + 1/2) / 2; (1/1 + 1/2) / 2"
    assert [(each["subjects"], each["failed_subjects"]) for each in means] == [(2, 1)] * 2
    assert all(each["low"] < each["value"] < each["high"] for each in means)
    assert summary["by_subject"]["zoo"]["accuracy_all"] is None
    assert summary["accuracy_cluster_interval"]["clusters"] == 3, "as the accuracy over all questions, 2 of 6"
    assert "(mean of 2)\n" in told
    assert "(mean of 2) excluding failed questions\n" in told
    assert " 1 subject left out, as all questions failed: an error is not a wrong answer\n" in told
    assert "zoo" not in told


def test_why_there_is_no_interval_over_subjects_is_told_also_where_all_questions_failed(ledger: MemoryLedger) -> None:
    run = open_run(ledger, [make_question(at, subject=name) for at, name in enumerate("ab")])
    settle(ledger, run.run_id, *(f"q{n}" for n in range(2)), outcome=Outcome.FAILED)

    found = summary_json(Summary.of(run, RunState.RUNNING, ledger.results(run.run_id)))

    assert found["accuracy_cluster_interval"]["note"] == "not available: every settled question with a key failed"
