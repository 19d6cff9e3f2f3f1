"""What summary.json counts besides accuracy (rotations, the judge, the engine's cache), and what a run's end tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binomtest

from benchmarks.made_up import LETTERED
from contract import MemoryLedger, Mode, Outcome, Prompt, Question, RunState, Verdict
from contract.spec import IndexKind, Judge, Retrieval, Sampling
from contract.verdict import ContextSource, Failure, Passage
from producer.export.summary import Summary
from producer.export.summary_json import summary_json
from producer.options import SOME_FAILED
from tests.support import make_question, make_questions, open_run, settle
from tests.unit.producer.conftest import Producer, settle_next
from tests.unit.producer.export.summed import summary_of, verdict


def test_circular_runs_tell_the_accuracy_of_single_rotations_beside_that_of_all() -> None:
    found = summary_of(
        verdict(Outcome.CORRECT, choice="A", rotations=4, rotations_right=4),
        verdict(Outcome.WRONG, choice="A", rotations=4, rotations_right=3),
        circular=True,
    )
    assert (found["rotation_accuracy"]["value"], found["rotation_accuracy"]["of"]) == (0.875, 2)
    assert found["accuracy_all"]["value"] == 0.5


def test_the_accuracy_of_rotations_is_of_questions_and_has_their_interval() -> None:
    found = summary_of(
        verdict(Outcome.CORRECT, choice="A", rotations=2, rotations_right=2),
        verdict(Outcome.WRONG, choice="B", rotations=4, rotations_right=0),
        circular=True,
    )["rotation_accuracy"]

    # Two questions that weigh the same, and no more certain than two questions are: scipy's Wilson for 1 of 2.
    wilson = binomtest(1, 2).proportion_ci(method="wilson")
    assert found == {
        "value": 0.5,
        "low": round(wilson.low, 6),
        "high": round(wilson.high, 6),
        "of": 2,
        "chance": 0.25,
    }


def test_the_end_of_a_circular_run_tells_its_single_rotations_beside_one_guess(
    ledger: MemoryLedger, producer: Producer
) -> None:
    run = open_run(ledger, make_questions(2), circular=True, prompt=LETTERED)
    rotated: dict[str, Any] = {"outcome": Outcome.WRONG, "choice": "A", "rotations": 4}
    ledger.commit(run.run_id, [Verdict(question_id=f"q{n}", rotations_right=1 + 2 * n, **rotated) for n in range(2)])

    for command in ("watch", "export"):
        told = producer(command, run.run_id).stdout
        single = "0.500  95 % interval 0.095 to 0.905 (mean of 2) over single rotations, chance 0.250"
        assert f"rotations  {single}" in told
        assert producer.json(command, run.run_id)["rotation_accuracy"]["value"] == 0.5


def test_a_run_of_which_all_failed_has_no_speed(ledger: MemoryLedger, producer: Producer) -> None:
    """3 questions that the engine was never asked came at 59,353 questions/s."""
    error = Failure(type="WrongModel", message="the run asks for x")
    run = open_run(ledger, make_questions(3))
    for at, each in enumerate(("q0", "q1"), 1):
        settle(ledger, run.run_id, each, outcome=Outcome.FAILED, error=error, settled_at=at)

    ended = producer("export", run.run_id).stdout
    assert "failed 2" in ended
    assert "questions/s" not in ended
    settle(ledger, run.run_id, "q2", outcome=Outcome.WRONG, settled_at=3)
    assert "speed     1.5 questions/s" in producer("export", run.run_id, exit_code=SOME_FAILED).stdout


def test_a_run_in_which_every_question_with_a_key_failed_has_no_accuracy(
    ledger: MemoryLedger, producer: Producer
) -> None:
    asked = [make_question(n, context=f"Story {n // 2}.") for n in range(4)]
    run = open_run(ledger, [*asked, make_question(4, answer=None)])
    failure = Failure(type="APIConnectionError", message="Connection error.")
    settle(ledger, run.run_id, *(f"q{n}" for n in range(4)), outcome=Outcome.FAILED, error=failure)
    settle(ledger, run.run_id, "q4", outcome=Outcome.ANSWERED, choice="A")

    told = [producer("status", run.run_id).stdout, producer("export", run.run_id, exit_code=SOME_FAILED).stdout]
    summary = summary_json(Summary.of(run, RunState.RUNNING, ledger.results(run.run_id)))

    for each in told:
        assert "accuracy  none: every settled question with a key failed, and an error is not a wrong answer\n" in each
        assert "0.000" not in each
    assert (summary["accuracy_all"], summary["macro_accuracy"]) == (None, None)
    assert "accuracy_by_normalization" not in summary
    assert "accuracy_context_interval" not in summary


def test_the_end_of_a_run_with_failed_questions_tells_its_accuracy_without_them_too(
    ledger: MemoryLedger, producer: Producer
) -> None:
    run, spared = open_run(ledger, make_questions(4)), open_run(ledger, make_questions(3))
    outcomes = (Outcome.CORRECT, Outcome.WRONG, Outcome.UNANSWERED, Outcome.FAILED)
    settle_next(ledger, run.run_id, *outcomes)
    settle_next(ledger, spared.run_id, *outcomes[:3])

    told = producer("export", run.run_id, exit_code=SOME_FAILED).stdout

    assert "accuracy  0.250  95 % interval 0.046 to 0.699 (1 of 4) over all questions; unanswered and failed" in told
    assert (
        "\n          0.333  95 % interval 0.061 to 0.792 (1 of 3) excluding failed questions; unanswered count" in told
    )
    assert "\n          0.500  95 % interval 0.095 to 0.905 (1 of 2) over answered questions" in told
    assert "excluding failed questions" not in producer("export", spared.run_id).stdout


def test_each_accuracy_has_the_chance_level_of_its_own_questions(ledger: MemoryLedger, producer: Producer) -> None:
    """Many choices in questions that failed, or have no verdict yet, made guesses look better than chance."""
    questions = [make_question(at, choices=tuple("vwxyz"[:of]), answer="A") for at, of in enumerate((2, 2, 5, 5))]
    run = open_run(ledger, questions)
    settle(ledger, run.run_id, "q0")

    assert "chance    0.500\n" in producer("export", run.run_id).stdout

    settle(ledger, run.run_id, "q1", outcome=Outcome.UNANSWERED)
    settle(ledger, run.run_id, "q2", "q3", outcome=Outcome.FAILED)
    told = producer("export", run.run_id, exit_code=SOME_FAILED).stdout
    found = json.loads((Path("results") / run.run_id / "summary.json").read_text())

    assert (found["chance"], found["chance_without_failed"]) == (0.35, 0.5)
    assert "chance    0.350\n" in told
    assert "excluding failed questions; unanswered count as incorrect; chance 0.500\n" in told
    assert "over answered questions; chance 0.500\n" in told


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        ((Outcome.CORRECT, Outcome.WRONG), "(1 of 2) over all questions"),
        ((Outcome.CORRECT, Outcome.WRONG, Outcome.FAILED), "(1 of 2) excluding failed questions"),
    ],
)
def test_an_accuracy_that_is_of_the_same_questions_is_told_once(
    ledger: MemoryLedger, producer: Producer, outcomes: tuple[Outcome, ...], told: str
) -> None:
    run = open_run(ledger, make_questions(len(outcomes)))
    settle_next(ledger, run.run_id, *outcomes)

    ended = producer("export", run.run_id, exit_code=SOME_FAILED if Outcome.FAILED in outcomes else 0).stdout

    assert told in ended
    assert ended.count("(1 of 2)") == 1
    assert "over answered questions" not in ended


def test_the_accuracy_of_a_cancelled_run_is_not_said_to_be_over_all_questions(
    ledger: MemoryLedger, producer: Producer
) -> None:
    run = open_run(ledger, make_questions(5))
    settle(ledger, run.run_id, "q0")
    settle(ledger, run.run_id, "q1", outcome=Outcome.WRONG)
    ledger.halt(run.run_id, RunState.CANCELLED)

    told = producer("export", run.run_id).stdout

    assert "cancelled, not finished: 3 of 5 without a verdict" in told
    assert "(1 of 2) over all settled questions; unanswered and failed count as incorrect" in told


def test_the_end_of_any_other_run_speaks_of_no_rotations(ledger: MemoryLedger, producer: Producer) -> None:
    run = open_run(ledger, make_questions(1))
    settle(ledger, run.run_id, "q0")

    assert "rotations" not in producer("watch", run.run_id).stdout


def test_rotations_of_a_question_without_a_key_are_not_wrong_ones() -> None:
    books = MemoryLedger()
    keyed, keyless = (make_question(n, answer=answer) for n, answer in enumerate(("A", None)))
    run = open_run(books, [keyed, keyless], circular=True)
    right = verdict(Outcome.CORRECT, choice="A", rotations=4, rotations_right=4)
    unknown = verdict(Outcome.ANSWERED, choice="A", rotations=4)
    books.commit(run.run_id, [right.model_copy(update={"question_id": "q0"})])
    books.commit(run.run_id, [unknown.model_copy(update={"question_id": "q1"})])

    found = summary_json(Summary.of(run, RunState.RUNNING, books.results(run.run_id)))

    assert (found["rotation_accuracy"]["value"], found["rotation_accuracy"]["of"]) == (1.0, 1)


JUDGED: dict[str, Any] = {
    "mode": Mode.JUDGE,
    "sampling": Sampling(),
    "judge": Judge(prompt=Prompt(name="grade", text="{{ response }}")),
}


def test_judged_runs_tell_how_often_the_judge_agrees_with_the_key() -> None:
    found = summary_of(
        verdict(Outcome.CORRECT, choice="A"),
        verdict(Outcome.CORRECT, choice="B"),  # the judge is kinder than the key
        verdict(Outcome.WRONG, choice="C"),
        verdict(Outcome.CORRECT),  # names no choice: nothing to compare
        **JUDGED,
    )
    assert found["judge_agreement"] == {"value": 0.666667, "agrees": 2, "of": 3}


def test_where_no_judged_answer_names_a_choice_there_is_nothing_for_the_judge_to_agree_with() -> None:
    found = summary_of(verdict(Outcome.CORRECT), **JUDGED)
    assert found["judge_agreement"] == {"value": None, "agrees": 0, "of": 0}


def test_a_judge_that_is_right_about_every_rotation_does_not_disagree_with_the_key() -> None:
    found = summary_of(
        verdict(Outcome.CORRECT, choice="A", rotations=4, rotations_right=4),
        verdict(Outcome.WRONG, choice="A", rotations=4, rotations_right=3),  # B in the last one, graded as wrong
        verdict(Outcome.WRONG, choice="B", rotations=4, rotations_right=0),
        **JUDGED,
        circular=True,
    )
    assert found["judge_agreement"] == {"value": 1.0, "agrees": 2, "of": 2}


def test_the_end_of_a_judged_run_and_its_report_tell_how_often_the_judge_agrees_with_the_key(
    ledger: MemoryLedger, producer: Producer
) -> None:
    judge = Judge(prompt=Prompt(name="grade", text="{{ response }}"))
    run = open_run(ledger, make_questions(3), mode=Mode.JUDGE, sampling=Sampling(), judge=judge)  # the keys: A, B, C
    chosen: tuple[str | None, ...] = ("A", "A", None)
    verdicts = [verdict(Outcome.CORRECT, choice=choice) for choice in chosen]
    ledger.commit(run.run_id, [each.model_copy(update={"question_id": f"q{n}"}) for n, each in enumerate(verdicts)])

    said = "agrees with the key on 1 of 2 answers naming a choice"
    itself = "the model graded itself"
    ended = producer("watch", run.run_id).stdout
    assert f"judge     {itself}" in ended
    assert said in ended
    producer("report", run.run_id)
    page = (Path("results") / run.run_id / "report.html").read_text(encoding="utf-8")
    assert itself in page
    assert said in page


def test_other_runs_have_neither() -> None:
    assert not {"rotation_accuracy", "judge_agreement"} & set(summary_of(verdict(Outcome.CORRECT, choice="A")))


def test_a_run_says_how_many_choices_were_ties_and_how_much_the_model_meant_to_name_a_label() -> None:
    found = summary_of(
        verdict(Outcome.CORRECT, choice="A", margin=0.0, label_mass=0.1),
        verdict(Outcome.WRONG, choice="B", margin=0.5, label_mass=0.2),
    )
    assert found["rates"]["tied"] == 0.5
    assert found["label_mass"] == {"mean": 0.15, "of": 2}
    assert "label_mass" not in summary_of(verdict(Outcome.CORRECT, choice="A", margin=1.0))


def test_a_run_says_how_many_answers_were_made_up() -> None:
    found = summary_of(verdict(Outcome.CORRECT, simulated=True), verdict(Outcome.WRONG))
    assert found["rates"]["simulated"] == 0.5


def test_the_cache_hit_rate_is_the_share_of_all_prefilled_tokens() -> None:
    found = summary_of(
        verdict(Outcome.CORRECT, prefill_tokens=300, cached_tokens=200),
        verdict(Outcome.WRONG, prefill_tokens=100, cached_tokens=100),
    )
    assert found["tokens"]["cache_hit_rate"] == 0.75


def test_runs_with_retrieval_tell_what_it_did_and_others_say_nothing_of_it() -> None:
    rag = Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25, retrieval_top_k=2)
    shown = (Passage(id="p", score=1.0, text="It is 0."),)
    searched = verdict(Outcome.CORRECT, choice="A", context_source=ContextSource.RETRIEVED, passages=shown)

    found = summary_of(searched, verdict(Outcome.FAILED), rag=rag)["retrieval"]

    assert found["context_sources"]["retrieved"] == 1
    assert found["failed_without_passages"] == 1
    # The choices of q0 are 0 to 3, and the first is right.
    assert (found["answer_in_context"]["value"], found["wrong_choice_in_context"]["value"]) == (1, 0)
    assert "retrieval" not in summary_of(searched)


def many_results() -> list[tuple[Question, Verdict | None]]:
    """Questions of several subjects, with and without a key and a context, that ended in every way, or not yet."""
    found: list[tuple[Question, Verdict | None]] = []
    for at in range(120):
        outcome = (*Outcome, None)[at % 6]
        question = make_question(
            at,
            answer=None if outcome is Outcome.ANSWERED else "A",
            subject=(None, "law", "art")[at // 6 % 3],
            context=f"Text {at // 4}." if at % 4 < 3 else None,
        )
        choice = {"choice": "A", "choice_scores": {"A": -1.0, "B": -1.5}, "confidence": 0.625, "label_mass": 0.5}
        more: dict[str, Any] = choice if outcome in {Outcome.CORRECT, Outcome.WRONG, Outcome.ANSWERED} else {}
        settled = outcome and Verdict(question_id=question.id, outcome=outcome, settled_at=1e9 + at, **more)
        found.append((question, settled))
    return found


def figures(summary: Summary) -> dict[str, Any]:
    return {name: value for name, value in summary_json(summary).items() if name != "exported_at"}


def test_figures_that_were_asked_for_early_are_of_all_questions_later() -> None:
    results = many_results()
    run = open_run(MemoryLedger(), [question for question, _ in results], "test", mode=Mode.LIKELIHOOD)
    summary = Summary.of(run, RunState.RUNNING, results[:50])
    early = figures(summary)

    summary.add(results[50:80])
    later = figures(summary)
    summary.include(Summary.of(run, RunState.RUNNING, results[80:]))

    assert early != later == figures(Summary.of(run, RunState.RUNNING, results[:80]))
    assert figures(summary) == figures(Summary.of(run, RunState.RUNNING, results))
