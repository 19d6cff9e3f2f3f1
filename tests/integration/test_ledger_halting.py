"""Ledgers of runs that are paused, cancelled or asked again."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from contract import Counts, Ledger, Outcome, Run
from contract.errors import RunHalted
from contract.ledger import RunState
from contract.spec import Stage
from tests.integration.ledgers import ENGINE, verdict, verdicts
from tests.support import interrupted_run, make_questions, make_spec, open_run

HALTS = [RunState.PAUSED, RunState.CANCELLED]


@pytest.mark.parametrize("state", HALTS)
def test_nothing_of_a_halted_run_is_begun_and_the_audit_does_not_see_it(ledger: Ledger, state: RunState) -> None:
    run, other = (open_run(ledger, make_questions(3), name=name) for name in ("halted", "other"))
    assert ledger.halt(run.run_id, state) is state
    with pytest.raises(RunHalted, match=f"Run {run.run_id} is {state}. Resume it with: .* resume") as caught:
        ledger.begin(run.run_id, ["q0"])
    assert caught.value.state == state
    assert ledger.open_runs() == [other.run_id]
    counts = ledger.counts(run.run_id)
    assert (counts.state, counts.halted, counts.todo, counts.over) == (state, True, 3, state is RunState.CANCELLED)
    assert len(ledger.begin(other.run_id, ["q0"])) == 1


def test_halting_twice_is_halting_once_and_a_cancelled_run_is_not_paused(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    steps = [RunState.PAUSED, RunState.PAUSED, RunState.CANCELLED, RunState.PAUSED]
    assert [ledger.halt(run.run_id, step) for step in steps] == [
        RunState.PAUSED,
        RunState.PAUSED,
        RunState.CANCELLED,
        RunState.CANCELLED,
    ]
    assert ledger.counts(run.run_id).state is RunState.CANCELLED


def test_what_is_in_flight_when_a_run_is_halted_is_settled(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    ledger.begin(run.run_id, ["q0"])
    ledger.halt(run.run_id, RunState.CANCELLED)
    assert ledger.commit(run.run_id, verdicts(1)) == verdicts(1)
    assert ledger.counts(run.run_id).settled == 1


def test_a_run_that_was_finished_by_what_was_in_flight_when_it_was_halted_is_not_opened_again(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    ledger.halt(run.run_id, RunState.PAUSED)
    ledger.commit(run.run_id, verdicts(2))
    with pytest.raises(RunHalted):
        ledger.begin(run.run_id, ["q0", "q1"])
    ledger.resume(run.run_id)
    assert list(ledger.take_aside(run.run_id)) == []
    assert ledger.open_runs() == []


def test_what_was_put_aside_is_given_out_once_in_input_order_and_only_if_unsettled(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(6))
    ledger.commit(run.run_id, [verdict("q3")])
    ledger.halt(run.run_id, RunState.PAUSED)
    for ids in (["q5", "q1"], ["q1", "q3", "stranger", "q0"]):
        with pytest.raises(RunHalted):
            ledger.begin(run.run_id, ids)
    ledger.commit(run.run_id, [verdict("q1")])
    for _ in range(2):
        ledger.resume(run.run_id)
        assert ledger.counts(run.run_id).state is RunState.RUNNING
    assert list(ledger.take_aside(run.run_id)) == ["q0", "q5"]
    assert list(ledger.take_aside(run.run_id)) == []
    assert ledger.open_runs() == [run.run_id]
    assert [each.attempts for each in ledger.begin(run.run_id, ["q0", "q5"])] == [1, 1]


def test_what_a_resume_that_was_killed_left_aside_is_not_sent_once_more_by_the_next_one(ledger: Ledger) -> None:
    """`requeue` had sent it meanwhile; after another pause it was in two messages."""
    run = open_run(ledger, make_questions(2))
    ledger.halt(run.run_id, RunState.PAUSED)
    with pytest.raises(RunHalted):
        ledger.begin(run.run_id, ["q0"])
    ledger.resume(run.run_id)  # and killed
    for state in HALTS:
        ledger.halt(run.run_id, state)
        with pytest.raises(RunHalted):
            ledger.begin(run.run_id, ["q1"])
    ledger.resume(run.run_id)
    assert list(ledger.take_aside(run.run_id)) == ["q1"]


def test_what_is_aside_stays_there_when_the_run_is_halted_once_more(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    ledger.halt(run.run_id, RunState.PAUSED)
    with pytest.raises(RunHalted):
        ledger.begin(run.run_id, ["q0"])
    for state in HALTS:
        ledger.halt(run.run_id, state)
    ledger.resume(run.run_id)
    assert list(ledger.take_aside(run.run_id)) == ["q0"]


def test_what_was_settled_while_it_was_aside_is_not_given_out_when_it_is_taken_back(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    ledger.halt(run.run_id, RunState.PAUSED)
    with pytest.raises(RunHalted):
        ledger.begin(run.run_id, ["q0", "q1"])
    ledger.commit(run.run_id, [verdict("q0", Outcome.FAILED)])
    ledger.resume(run.run_id)
    assert list(ledger.take_aside(run.run_id)) == ["q1"]
    assert ledger.reopen_failed(run.run_id) == ["q0"]
    assert list(ledger.take_aside(run.run_id)) == [], "whoever took it back sends it"


def test_questions_written_while_a_run_is_halted_open_it_when_it_goes_on(ledger: Ledger) -> None:
    run = Run(run_id="slow", spec=make_spec(), source="", questions=1, chance=0.25, created_at=time.time())
    ledger.open_run(run)
    ledger.halt("slow", RunState.PAUSED)
    ledger.add_questions("slow", make_questions(1))
    assert ledger.open_runs() == []
    ledger.resume("slow")
    assert ledger.open_runs() == ["slow"]


def test_failed_verdicts_are_taken_back_and_their_questions_are_as_if_never_begun(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(4))
    ledger.begin(run.run_id, ["q0", "q1", "q2", "q3"])
    kept = [verdict("q0"), verdict("q2", Outcome.UNANSWERED)]
    ledger.commit(run.run_id, [*kept, verdict("q1", Outcome.FAILED), verdict("q3", Outcome.FAILED)])
    assert ledger.reopen_failed(run.run_id) == ["q1", "q3"]
    assert ledger.reopen_failed(run.run_id) == []
    counts = ledger.counts(run.run_id)
    assert (counts.todo, counts.outcomes) == (2, {Outcome.CORRECT: 1, Outcome.UNANSWERED: 1})
    assert [found for _, found in ledger.results(run.run_id)] == [kept[0], None, kept[1], None]
    assert ledger.open_runs() == [run.run_id]
    assert [each.attempts for each in ledger.begin(run.run_id, ["q1", "q3"])] == [1, 1]
    ledger.commit(run.run_id, [verdict("q1"), verdict("q3", Outcome.WRONG)])
    assert ledger.counts(run.run_id).finished


def test_engines_of_which_no_verdict_is_left_are_not_told_as_ones_that_answered_the_run(ledger: Ledger) -> None:
    """All had failed for a wrong setting: what answered them later was said not to be identical to it."""
    run = open_run(ledger, make_questions(2))
    ledger.note_engine(run.run_id, ENGINE)
    ledger.commit(run.run_id, verdicts(1))
    ledger.commit(run.run_id, [verdict("q1", Outcome.FAILED)])
    ledger.reopen_failed(run.run_id)
    assert ledger.engines(run.run_id) == [ENGINE], "it answered the other one"
    ledger.purge(run.run_id)

    open_run(ledger, make_questions(2))
    ledger.note_engine(run.run_id, ENGINE)
    ledger.commit(run.run_id, verdicts(2, Outcome.FAILED))
    ledger.reopen_failed(run.run_id)
    assert ledger.engines(run.run_id) == []


def test_a_search_that_failed_is_as_if_never_begun_when_its_question_is_asked_again(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(1))
    for _ in range(3):
        ledger.begin(run.run_id, ["q0"], stage=Stage.RETRIEVE)
    ledger.commit(run.run_id, [verdict("q0", Outcome.FAILED)])
    ledger.reopen_failed(run.run_id)
    assert [each.attempts for each in ledger.begin(run.run_id, ["q0"], stage=Stage.RETRIEVE)] == [1]


def test_a_halted_run_is_not_reopened_until_it_goes_on_unless_it_is_finished(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    ledger.commit(run.run_id, [verdict("q0", Outcome.FAILED)])
    ledger.halt(run.run_id, RunState.PAUSED)
    with pytest.raises(RunHalted):
        ledger.reopen_failed(run.run_id)
    ledger.commit(run.run_id, [verdict("q1")])  # it was in flight
    counts = ledger.counts(run.run_id)
    assert (counts.finished, counts.halted, counts.standing) == (True, False, "settled")
    assert ledger.reopen_failed(run.run_id) == ["q0"]
    assert ledger.counts(run.run_id).standing == "running"


def test_a_halted_run_that_is_only_half_written_is_not_reopened_although_all_that_is_written_is_settled(
    ledger: Ledger,
) -> None:
    """It was resumed: `enqueue` was killed while `requeue --failed` waited for it, and `pause` came in between."""
    run = interrupted_run(ledger, make_questions(3), written=2)
    ledger.commit(run.run_id, [verdict("q0", Outcome.FAILED), verdict("q1")])
    ledger.halt(run.run_id, RunState.PAUSED)
    with pytest.raises(RunHalted):
        ledger.reopen_failed(run.run_id)
    assert ledger.counts(run.run_id) == Counts(
        total=3, todo=0, outcomes={Outcome.FAILED: 1, Outcome.CORRECT: 1}, state=RunState.PAUSED
    )


def test_a_halted_run_is_refused_to_be_reopened_also_if_nothing_of_it_has_failed(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    ledger.commit(run.run_id, verdicts(1))
    ledger.halt(run.run_id, RunState.CANCELLED)
    with pytest.raises(RunHalted):
        ledger.reopen_failed(run.run_id)
    ledger.commit(run.run_id, verdicts(2))
    assert ledger.reopen_failed(run.run_id) == []
    assert ledger.counts(run.run_id).state is RunState.CANCELLED


def test_two_who_reopen_at_once_take_each_failure_back_once(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(600))
    ledger.commit(run.run_id, verdicts(600, Outcome.FAILED))
    together = threading.Barrier(2)

    def reopen(_: int) -> int:
        together.wait()
        return len(ledger.reopen_failed(run.run_id))

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(reopen, range(2))) == 600
    assert ledger.counts(run.run_id) == Counts(total=600, todo=600)


def test_beginning_and_pausing_at_once_leaves_each_question_begun_or_aside(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(400))
    together = threading.Barrier(2)
    begun: list[str] = []

    def begin() -> None:
        together.wait()
        for number in range(0, 400, 4):
            with suppress(RunHalted):
                ids = [f"q{each}" for each in range(number, number + 4)]
                begun.extend(each.question.id for each in ledger.begin(run.run_id, ids))

    with ThreadPoolExecutor(1) as pool:
        beginning = pool.submit(begin)
        together.wait()
        ledger.halt(run.run_id, RunState.PAUSED)
        beginning.result()
    ledger.resume(run.run_id)
    aside = list(ledger.take_aside(run.run_id))
    assert sorted(begun + aside) == sorted(f"q{each}" for each in range(400))
