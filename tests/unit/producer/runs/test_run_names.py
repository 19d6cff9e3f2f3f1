"""By what a run can be named."""

from __future__ import annotations

import time
from pathlib import Path

from contract.ledger import MemoryLedger
from contract.names import request_id
from tests.support import make_questions, open_run
from tests.unit.producer.conftest import Producer


def test_a_run_is_named_by_its_beginning_or_as_the_last(producer: Producer, five: Path) -> None:
    first = producer.json("enqueue", five, "--run", "alpha")["run_id"]
    second = producer.json("enqueue", five, "--run", "alps")["run_id"]

    assert producer.json("status", "alph")["run_id"] == first
    assert producer.json("status", "last")["run_id"] == producer.json("status")["run_id"] == second
    assert f"'alp' matches 2 runs: {second}, {first}" in producer("status", "alp", exit_code=1).stderr


def test_a_run_whose_id_begins_that_of_one_that_was_asked_afresh_is_named_by_it(producer: Producer, five: Path) -> None:
    """There is no longer prefix of it, which the message asked for."""
    first = producer.json("enqueue", five, "--run", "alpha")["run_id"]
    producer("enqueue", five, "--run", "alpha", "--fresh")

    assert "Use a longer prefix, or a whole id." in producer("status", "alpha", exit_code=1).stderr
    assert producer.json("status", first)["run_id"] == first


def test_of_many_runs_that_begin_so_the_first_five_are_listed_and_the_rest_counted(
    producer: Producer, five: Path
) -> None:
    ids = [producer.json("enqueue", five, "--run", f"alp{number}")["run_id"] for number in range(5)]
    assert f"'alp' matches 5 runs: {', '.join(reversed(ids))}. " in producer("status", "alp", exit_code=1).stderr
    producer.json("enqueue", five, "--run", "alp5")
    assert f", {ids[1]} and 1 more. " in producer("status", "alp", exit_code=1).stderr


def test_a_run_is_found_by_its_beginning_in_whatever_case(producer: Producer, five: Path) -> None:
    """`--run My-Test` makes the run my-test-…, of which only the whole name was found as it was given."""
    run_id = producer.json("enqueue", five, "--run", "My-Test")["run_id"]
    other = producer.json("enqueue", five, "--run", "My-Tests")["run_id"]

    assert producer.json("status", "My-Test")["run_id"] == run_id, "the whole name is more than a beginning"
    assert producer.json("status", "My-Test-")["run_id"] == producer.json("status", run_id.upper())["run_id"] == run_id
    assert producer.json("status", "MY-TESTS-")["run_id"] == other
    assert "'My-Tes' matches 2 runs" in producer("status", "My-Tes", exit_code=1).stderr
    assert producer.json("status", "LAST")["run_id"] == other


def test_the_last_run_is_never_the_request_of_somebody_who_asks_over_http(
    producer: Producer, five: Path, ledger: MemoryLedger
) -> None:
    def ask_over_http() -> str:
        like = open_run(MemoryLedger(), make_questions(1))
        requested = like.model_copy(update={"run_id": request_id(), "created_at": time.time()})
        ledger.open_run(requested)
        return requested.run_id

    first = ask_over_http()
    refused = producer("purge", "last", "--yes", exit_code=1).stderr
    mine = producer.json("enqueue", five)["run_id"]
    second = ask_over_http()

    assert "There are no runs yet, only requests to the HTTP server. Create one with:" in refused
    assert producer.json("status")["run_id"] == mine
    assert mine in producer("cancel", "last").stdout
    assert f"deleted {mine}" in producer("purge", "last", "--yes").stdout
    assert [each["run_id"] for each in producer.json("runs")] == [second, first]
    assert producer.json("status", second)["run_id"] == second, "by its id"


def test_a_run_is_named_as_it_was_called_when_it_was_made(producer: Producer, five: Path) -> None:
    first = producer.json("enqueue", five, "--run", "My Test")["run_id"]
    producer("enqueue", five, "--run", "My Test 2")

    assert producer.json("status", "My Test")["run_id"] == producer.json("status", "my-test")["run_id"] == first
