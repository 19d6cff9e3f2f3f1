"""A run by likelihood tells the accuracy by other normalizations of its scores, too."""

from __future__ import annotations

from typing import Any

import pytest

from contract import MemoryLedger, Mode, Normalization, Outcome, Question, RunState, Verdict
from contract.choice_order import arrangements
from contract.verdict import Failure
from producer.export.summary import Summary
from producer.export.summary_json import summary_json
from tests.support import open_run, settle
from tests.unit.producer.conftest import Producer
from tests.unit.producer.export.summed import summary_of, verdict

#: Three and six characters, three and eight bytes.
UNEVEN = Question(id="q", question="Which?", choices=("ash", "Größen"), answer="A")
TOKENS = {"A": 1, "B": 4}
#: Beside -3 of the right choice, these sums of the other make it the worse one, the better one but as a whole, and the
#: better one per byte alone.
OTHERS = (-9.0, -5.4, -6.6)


@pytest.mark.parametrize("own", sorted({*Normalization} - {Normalization.MUTUAL_INFO}))
def test_one_run_by_likelihood_tells_the_accuracy_by_the_sum_and_by_each_length(own: Normalization) -> None:
    books = MemoryLedger()
    run = open_run(books, [UNEVEN.model_copy(update={"id": f"q{n}"}) for n in range(4)], normalization=own)
    for n, other in enumerate(OTHERS):
        scores = {"A": -3.0 / own.length("ash", 1), "B": other / own.length("Größen", 4)}
        choice = max(scores, key=lambda label: scores[label])
        outcome = Outcome.CORRECT if choice == "A" else Outcome.WRONG
        scored = verdict(outcome, choice=choice, choice_scores=scores, choice_tokens=TOKENS)
        books.commit(run.run_id, [scored.model_copy(update={"question_id": f"q{n}"})])
    failed = Failure(type="RequestRejected", message="long")
    books.commit(run.run_id, [Verdict(question_id="q3", outcome=Outcome.FAILED, error=failed)])

    found = summary_json(Summary.of(run, RunState.RUNNING, books.results(run.run_id)))

    told = {name: (each["right"], each["of"]) for name, each in found["accuracy_by_normalization"].items()}
    assert told == {"none": (3, 4), "character": (2, 4), "byte": (1, 4), "token": (0, 4)}
    assert found["accuracy_by_normalization"][own] == found["accuracy_all"]


def test_the_accuracy_per_token_is_only_told_if_all_verdicts_have_the_tokens_of_their_choices() -> None:
    scored = [
        verdict(Outcome.CORRECT, choice="A", choice_scores={"A": -1.0, "B": -2.0}, choice_tokens=tokens)
        for tokens in ({"A": 1, "B": 1}, {})
    ]
    assert "token" in summary_of(scored[0])["accuracy_by_normalization"]
    assert summary_of(*scored)["accuracy_by_normalization"].keys() == {"none", "character", "byte"}


def test_a_run_by_mutual_information_tells_the_accuracy_by_the_other_normalizations_too() -> None:
    books = MemoryLedger()
    run = open_run(books, [UNEVEN.model_copy(update={"id": "q0"})], normalization=Normalization.MUTUAL_INFO)
    scores, unconditional = {"A": 1.0, "B": 0.4}, {"A": -4.0, "B": -7.0}  # the sums are those of the test above
    right = Verdict(question_id="q0", outcome=Outcome.CORRECT, choice="A", choice_scores=scores)
    books.commit(run.run_id, [right.model_copy(update={"unconditional_scores": unconditional})])

    found = summary_json(Summary.of(run, RunState.RUNNING, books.results(run.run_id)))

    told = {name: each["right"] for name, each in found["accuracy_by_normalization"].items()}
    assert told == {"none": 1, "character": 1, "byte": 0, "mutual_info": 1}
    assert found["calibration"]["confidence"].startswith("the softmax of scores by mutual information, not a model")


def test_of_equal_choices_the_one_shown_first_counts_under_each_normalization() -> None:
    books = MemoryLedger()
    questions = [Question(id=f"q{n}", question="Which?", choices=("ash", "elm", "oak"), answer="B") for n in range(30)]
    run = open_run(books, questions, shuffle=True)
    shown_first = [arrangements(each, run.spec)[0].original("A") for each in questions]
    for question, choice in zip(questions, shown_first, strict=True):
        outcome = Outcome.CORRECT if choice == "B" else Outcome.WRONG
        scores = dict.fromkeys("ABC", -3.0)
        tied = Verdict(question_id=question.id, choice=choice, outcome=outcome, choice_scores=scores)
        books.commit(run.run_id, [tied])

    found = summary_json(Summary.of(run, RunState.RUNNING, books.results(run.run_id)))["accuracy_by_normalization"]

    right = shown_first.count("B")
    assert 0 < right < 30
    assert {name: each["right"] for name, each in found.items()} == {"none": right, "character": right, "byte": right}


def test_the_end_of_a_run_by_likelihood_tells_what_other_normalizations_make_of_it(
    ledger: MemoryLedger, producer: Producer
) -> None:
    run = open_run(ledger, [UNEVEN.model_copy(update={"id": "q0"})])
    scores = {"A": -3.0, "B": -6.6}
    settle(ledger, run.run_id, "q0", choice="A", choice_scores=scores)

    for command in ("watch", "export"):
        told = producer(command, run.run_id).stdout
        assert "(1 of 1) if choices are compared per character (acc_norm)\n" in told
        assert "(0 of 1) if choices are compared per byte (acc_bytes)\n" in told
        assert producer.json(command, run.run_id)["accuracy_by_normalization"]["byte"]["value"] == 0.0


@pytest.mark.parametrize("spec", [{"mode": Mode.LETTER}, {"circular": True}], ids=["letter", "circular"])
def test_runs_whose_scores_are_not_those_of_choices_tell_no_other_normalization(spec: dict[str, Any]) -> None:
    found = summary_of(verdict(Outcome.CORRECT, choice="A", choice_scores={"A": -1.0, "B": -2.0}), **spec)

    assert "accuracy_by_normalization" not in found
