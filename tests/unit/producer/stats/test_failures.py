"""What the end of a run says of its failed questions: how many by type, why, and how they are asked again."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from contract.ledger import MemoryLedger
from contract.verdict import Failure, Outcome, Verdict
from producer.stats.failures import Failures
from tests.support import make_question
from tests.unit.producer.conftest import Producer, settle_whole


def fail(ledger: MemoryLedger, run_id: str, failures: Mapping[str, Failure]) -> None:
    """Settle the run with these failures by question id; all its other questions are right."""
    ledger.commit(run_id, [Verdict(question_id=q, outcome=Outcome.FAILED, error=why) for q, why in failures.items()])
    settle_whole(ledger, run_id)


def failed_lines(told: str) -> list[str]:
    """The first three lines about failed questions."""
    return told[told.index("\nfailed ") + 1 :].splitlines()[:3]


@pytest.mark.parametrize("command", ["watch", "export"])
def test_a_run_with_failed_questions_ends_with_why_and_with_what_asks_them_anew(
    producer: Producer, run_id: str, ledger: MemoryLedger, command: str
) -> None:
    away = Failure(type="JudgeUnreachable", message="No judge answers at\n  http://127.0.0.1:1")
    long = Failure(type="PromptTooLong", message="word " * 1000)
    failures = {"q0": long, "q1": away, "q2": away, "q3": away}
    fail(ledger, run_id, failures)

    first, second, remedy = failed_lines(producer(command, exit_code=3).stdout)
    assert first.endswith("3 × JudgeUnreachable, for example q1: No judge answers at http://127.0.0.1:1")
    assert "1 × PromptTooLong, for example q0: word word" in second
    assert len(second) < 400
    assert remedy.endswith(f"python -m producer requeue {run_id} --failed")


def test_failures_of_one_type_for_different_reasons_have_an_example_of_each(
    producer: Producer, run_id: str, ledger: MemoryLedger
) -> None:
    """Of questions that had killed their workers and one that met an error, an example of the first was all."""
    died = ("attempted 5 times: 5 times its worker died", "attempted 6 times: 6 times its worker died")
    reasons = [*died, "attempted 5 times: gpu0: ZeroDivisionError", "attempted 5 times: gpu1: ZeroDivisionError"]
    fail(ledger, run_id, {f"q{n}": Failure(type="TooManyAttempts", message=each) for n, each in enumerate(reasons)})

    first, second, third = failed_lines(producer("export", exit_code=3).stdout)
    assert first.endswith(f"4 × TooManyAttempts, for example q0: {reasons[0]}")
    assert second.strip() == f"also for example q2: {reasons[2]}"
    assert "retry with" in third


def test_failures_that_differ_in_numbers_only_have_one_example(
    producer: Producer, run_id: str, ledger: MemoryLedger
) -> None:
    """A vLLM worker's message is longer than what tells failures apart: numbers of more digits shifted its end."""
    tokens = {"q0": (998, 7), "q1": (2040, 12), "q2": (10234, 1100)}
    long = "Prompt of {} tokens and longest choice of {} exceed the context of 2048. Raise vllm_args.max_model_len."
    messages = {name: long.format(*counts) for name, counts in tokens.items()} | {"q3": "There is no adapter 'x' here."}
    fail(ledger, run_id, {name: Failure(type="RequestRejected", message=each) for name, each in messages.items()})

    first, second, third = failed_lines(producer("export", exit_code=3).stdout)
    assert "4 × RequestRejected, for example q0: Prompt of 998" in first
    assert second.strip() == "also for example q3: There is no adapter 'x' here."
    assert "retry with" in third


def test_of_a_type_with_many_reasons_three_examples_are_kept() -> None:
    found = Failures()
    for n, word in enumerate(("one", "two", "three", "four", "five")):
        error = Failure(type="RequestRejected", message=word)
        found.add(make_question(n), Verdict(question_id=f"q{n}", outcome=Outcome.FAILED, error=error))
    assert found.count == {"RequestRejected": 5}
    assert list(found.examples["RequestRejected"]) == ["one", "two", "three"]
