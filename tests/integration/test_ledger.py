"""What every ledger promises, asked of the one in memory and of the one in Redis."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest
import redis

from contract import Counts, Ledger, Mode, Outcome, RedisLedger, Run, Settings, Verdict, keys, load_settings
from contract.engine_info import EngineUsed
from contract.errors import (
    LedgerError,
    RedisUnreachable,
    RunConflict,
    RunHalted,
    UnknownRun,
    UnreadableRun,
    WritesRefused,
)
from contract.ledger import UNCOUNTED, RunState
from contract.metrics import RedisMetrics
from contract.question import Body
from contract.spec import Stage
from tests.support import make_question, make_questions, make_spec, open_run


def verdict(question_id: str, outcome: Outcome = Outcome.CORRECT, **more: object) -> Verdict:
    return Verdict.model_validate({"question_id": question_id, "outcome": outcome, **more})


def verdicts(count: int, outcome: Outcome = Outcome.CORRECT) -> list[Verdict]:
    return [verdict(f"q{number}", outcome) for number in range(count)]


# Runs


def test_a_run_is_new_once_and_can_be_read_back(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    assert not ledger.open_run(run)
    assert ledger.run(run.run_id) == run
    assert ledger.runs() == [run]


def test_engines_that_answered_a_run_are_kept_once_each_in_their_order_and_forgotten_with_it(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    first = EngineUsed(worker="a", since=10.0, engine={"dtype": "float32", "vllm": "0.32.0"})
    changed = EngineUsed(worker="a", since=30.0, engine={"dtype": "bfloat16", "vllm": "0.32.0"})
    other = EngineUsed(worker="b", since=20.0, engine=first.engine)
    for each in (changed, first, other, first.model_copy(update={"since": 40.0})):
        ledger.note_engine(run.run_id, each)
    assert ledger.engines(run.run_id) == [first, other, changed]
    ledger.purge(run.run_id)
    for ask in (lambda: ledger.engines(run.run_id), lambda: ledger.note_engine(run.run_id, first)):
        with pytest.raises(UnknownRun):
            ask()
    ledger.open_run(run)
    assert ledger.engines(run.run_id) == []


def test_opening_a_run_again_keeps_the_first_ones_birthday(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    later = run.model_copy(update={"run_id": "later", "created_at": run.created_at + 30})
    ledger.open_run(later)
    assert not ledger.open_run(run.model_copy(update={"created_at": run.created_at + 60, "source": "elsewhere"}))
    assert ledger.run(run.run_id) == run
    assert ledger.runs() == [later, run]


def test_a_run_id_with_another_spec_is_a_conflict_and_changes_nothing(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    other = run.model_copy(update={"spec": make_spec(mode=Mode.LETTER)})
    with pytest.raises(RunConflict, match=f"Run {run.run_id} exists with another spec"):
        ledger.open_run(other)
    assert ledger.run(run.run_id) == run


def test_runs_are_listed_newest_first(ledger: Ledger) -> None:
    first = open_run(ledger, make_questions(1), name="first")
    later = [
        first.model_copy(update={"run_id": f"later-{seconds}", "created_at": first.created_at + seconds})
        for seconds in (2, 9, 5)
    ]
    for run in later:
        ledger.open_run(run)
    assert [run.run_id for run in ledger.runs()] == ["later-9", "later-5", "later-2", first.run_id]


def test_reasons_are_kept_until_the_question_is_settled(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(3))
    assert ledger.note_trouble(run.run_id, ["q0", "q1"], "w0: boom") == [1, 1]
    assert ledger.note_trouble(run.run_id, ["q1"], "w1: “ouch”; 1/0") == [2]
    assert ledger.troubles(run.run_id, "q1") == ["w0: boom", "w1: “ouch”; 1/0"]
    ledger.commit(run.run_id, verdicts(2))
    assert ledger.note_trouble(run.run_id, ["q0", "q2"], "too late") == [0, 1]
    assert [ledger.troubles(run.run_id, each) for each in ("q0", "q1", "q2")] == [[], [], ["too late"]]
    ledger.purge(run.run_id)
    with pytest.raises(UnknownRun):
        ledger.note_trouble(run.run_id, ["q2"], "gone")


def test_a_run_is_open_until_its_last_question_is_settled(ledger: Ledger) -> None:
    run, other = (open_run(ledger, make_questions(2), name=name) for name in ("one", "other"))
    assert ledger.open_runs() == sorted([run.run_id, other.run_id])
    ledger.commit(run.run_id, verdicts(1))
    assert run.run_id in ledger.open_runs()
    ledger.commit(run.run_id, verdicts(2))
    assert ledger.open_runs() == [other.run_id]


def test_a_run_without_questions_yet_is_neither_open_nor_finished(ledger: Ledger) -> None:
    run = Run(run_id="bare", spec=make_spec(), source="", questions=3, chance=0.25, created_at=time.time())
    assert ledger.open_run(run)
    assert ledger.open_runs() == []
    assert ledger.counts("bare") == Counts(total=3, todo=0)
    assert not ledger.counts("bare").finished


# Questions


def test_questions_are_written_once_however_often_they_are_added(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(3))
    for _ in range(2):
        ledger.add_questions(run.run_id, make_questions(5))
    assert list(ledger.unsettled(run.run_id)) == ["q0", "q1", "q2", "q3", "q4"]


def test_questions_that_cannot_be_read_are_not_told_as_trouble_with_the_ledger(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(1))

    def unreadable() -> Iterator[Body]:
        yield make_question(1).body()
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        ledger.add_bodies(run.run_id, unreadable())


def test_a_question_that_is_added_again_keeps_its_first_body(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(1))
    ledger.add_questions(run.run_id, [make_question(0, question="Changed?")])
    assert ledger.result(run.run_id, "q0") == (make_question(0), None)


def test_a_settled_question_that_is_added_again_stays_settled(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(1))
    ledger.commit(run.run_id, verdicts(1))
    ledger.add_questions(run.run_id, make_questions(1))
    assert ledger.counts(run.run_id).finished
    assert ledger.open_runs() == []


def test_a_question_comes_back_as_it_was_written(ledger: Ledger) -> None:
    odd = make_question(
        7,
        id="räka/7 #3",
        question="¿<b>Qué</b>\n?",
        context="",
        subject=None,
        metadata={"x": 1.0, "y": None, "z": True},
    )
    run = open_run(ledger, [odd])
    (begun,) = ledger.begin(run.run_id, [odd.id])
    assert repr(begun.question) == repr(odd)


def test_more_questions_than_one_round_trip_carries_keep_their_order(ledger: Ledger) -> None:
    questions = [make_question(number) for number in reversed(range(1200))]
    run = open_run(ledger, questions)
    ledger.add_questions(run.run_id, iter(questions))
    ids = [each.id for each in questions]
    assert list(ledger.unsettled(run.run_id)) == ids
    assert [each.question for each in ledger.begin(run.run_id, ids)] == questions
    settled = ids[100:1100]
    committed = ledger.commit(run.run_id, [verdict(each) for each in settled])
    assert [each.question_id for each in committed] == settled
    assert list(ledger.unsettled(run.run_id)) == ids[:100] + ids[1100:]
    results = list(ledger.results(run.run_id))
    assert [question for question, _ in results] == questions
    assert [question.id for question, found in results if found] == settled


# Beginning


def test_only_unsettled_questions_of_the_run_are_handed_out(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(3))
    ledger.commit(run.run_id, verdicts(1))
    begun = ledger.begin(run.run_id, ["q2", "q0", "no such question", "q1"])
    assert [(each.question, each.attempts, each.counted) for each in begun] == [
        (make_question(2), 1, True),
        (make_question(1), 1, True),
    ]


def test_nothing_is_handed_out_once_all_is_settled(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    ledger.commit(run.run_id, verdicts(2))
    assert ledger.begin(run.run_id, ["q0", "q1"]) == []
    assert ledger.begin(run.run_id, []) == []


def test_each_beginning_counts_as_an_attempt_of_that_question_alone(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    attempts = [ledger.begin(run.run_id, ["q0"])[0].attempts for _ in range(3)]
    assert attempts == [1, 2, 3]
    assert ledger.begin(run.run_id, ["q1"])[0].attempts == 1


def test_a_question_that_is_only_asked_for_is_not_begun(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(1))
    for _ in range(3):
        (asked,) = ledger.begin(run.run_id, ["q0"], suspect_from=UNCOUNTED)
        assert (asked.question.id, asked.attempts, asked.counted) == ("q0", 0, False)
    (begun,) = ledger.begin(run.run_id, ["q0"])
    assert (begun.attempts, begun.counted) == (1, True)


def test_a_suspect_is_handed_out_uncounted_until_it_is_begun_alone(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    for _ in range(2):
        ledger.begin(run.run_id, ["q0"], suspect_from=2)
    for _ in range(2):
        suspect, other = ledger.begin(run.run_id, ["q0", "q1"], suspect_from=2)
        assert (suspect.question.id, suspect.attempts, suspect.counted) == ("q0", 2, False)
        assert other.counted
    (alone,) = ledger.begin(run.run_id, ["q0"])
    assert (alone.attempts, alone.counted) == (3, True)


def test_an_attempt_that_is_taken_back_was_never_made(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(3))
    for _ in range(2):
        ledger.begin(run.run_id, ["q0", "q1"])
    ledger.commit(run.run_id, verdicts(1))
    ledger.uncount(run.run_id, ["q0", "q1", "q2", "unknown"])
    assert [each.attempts for each in ledger.begin(run.run_id, ["q0", "q1", "q2"])] == [2, 1]
    assert ledger.counts(run.run_id).todo == 2


def test_an_attempt_of_one_stage_that_is_taken_back_is_none_of_the_other(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(1))
    for stage in Stage:
        ledger.begin(run.run_id, ["q0"], stage=stage)
    ledger.uncount(run.run_id, ["q0"], stage=Stage.RETRIEVE)
    attempts = {stage: ledger.begin(run.run_id, ["q0"], stage=stage)[0].attempts for stage in Stage}
    assert attempts == {Stage.RETRIEVE: 1, Stage.SCORE: 2}


# Committing


def test_a_second_verdict_for_a_question_changes_nothing(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    first = verdict("q0", Outcome.CORRECT, choice="A", choice_scores={"A": -0.1, "B": float("-inf")})
    assert ledger.commit(run.run_id, [first]) == [first]
    assert ledger.commit(run.run_id, [verdict("q0", Outcome.WRONG, choice="B")]) == []
    assert list(ledger.unsettled(run.run_id)) == ["q1"]
    assert ledger.result(run.run_id, "q0")[1] == first
    assert ledger.counts(run.run_id).outcomes == {Outcome.CORRECT: 1}


def test_the_very_same_verdict_counts_once_within_a_commit_and_across_two(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    same = verdict("q0")
    assert ledger.commit(run.run_id, [same, same]) == [same]
    assert ledger.commit(run.run_id, [same]) == []
    assert ledger.counts(run.run_id).settled == 1


def test_counters_move_with_the_verdicts(ledger: Ledger) -> None:
    questions = make_questions(5)
    run = open_run(ledger, questions)
    for settled, outcome in enumerate(Outcome, start=1):
        before = ledger.counts(run.run_id)
        assert (before.of(outcome), before.finished) == (0, False)
        ledger.commit(run.run_id, [verdict(f"q{settled - 1}", outcome)])
        counts = ledger.counts(run.run_id)
        assert (counts.total, counts.settled, counts.todo, counts.of(outcome)) == (5, settled, 5 - settled, 1)
    assert counts.finished
    assert counts.outcomes == dict.fromkeys(Outcome, 1)


def test_an_empty_commit_settles_nothing(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(3))
    assert ledger.commit(run.run_id, []) == []
    assert ledger.counts(run.run_id).todo == 3


def test_a_commit_tells_which_of_its_verdicts_stand_however_many_there_are(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2500))
    before = [verdict(f"q{number}") for number in range(0, 2500, 7)]
    assert ledger.commit(run.run_id, before) == before
    late = [verdict(f"q{number}", Outcome.WRONG) for number in range(2500)]
    assert ledger.commit(run.run_id, [verdict("stranger"), *late]) == [each for n, each in enumerate(late) if n % 7]


def test_two_threads_that_commit_the_same_questions_settle_each_once(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(300))
    outcomes = {"one": Outcome.CORRECT, "other": Outcome.WRONG}
    together = threading.Barrier(len(outcomes))

    def commit_all(worker: str) -> int:
        together.wait()
        mine = [verdict(f"q{number}", outcomes[worker], worker=worker) for number in range(300)]
        return sum(len(ledger.commit(run.run_id, mine[start : start + 5])) for start in range(0, 300, 5))

    with ThreadPoolExecutor(len(outcomes)) as pool:
        settled = dict(zip(outcomes, pool.map(commit_all, outcomes), strict=True))
    assert sum(settled.values()) == 300
    counts = ledger.counts(run.run_id)
    assert counts.finished
    kept = [found.worker for _, found in ledger.results(run.run_id) if found]
    for worker, outcome in outcomes.items():
        assert kept.count(worker) == settled[worker] == counts.of(outcome)


def test_two_threads_that_begin_the_same_question_count_every_attempt(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(1))
    with ThreadPoolExecutor(2) as pool:
        attempts = list(pool.map(lambda _: ledger.begin(run.run_id, ["q0"])[0].attempts, range(50)))
    assert sorted(attempts) == list(range(1, 51))


# Results


def test_results_come_in_the_files_order_with_nothing_where_nothing_is_settled(ledger: Ledger) -> None:
    questions = [make_question(number) for number in (2, 0, 1)]
    run = open_run(ledger, questions)
    found = verdict("q0", Outcome.WRONG, choice="B", confidence=0.5)
    ledger.commit(run.run_id, [found])
    assert list(ledger.results(run.run_id)) == [(questions[0], None), (questions[1], found), (questions[2], None)]
    assert ledger.result(run.run_id, "q0") == (questions[1], found)
    assert ledger.result(run.run_id, "q1") == (questions[2], None)


def test_a_run_of_another_version_is_told_by_what_is_not_understood_and_hides_no_other(
    redis_ledger: RedisLedger, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = (
        open_run(redis_ledger, make_questions(1), "ours"),
        open_run(redis_ledger, make_questions(1), "theirs"),
    )
    body = json.loads(theirs.model_dump_json())
    body["spec"]["aura"] = "violet"
    redis_ledger.client.set(keys.RunKeys(theirs.run_id).meta, json.dumps(body))

    assert [run.run_id for run in redis_ledger.runs()] == [ours.run_id]
    assert "another version of mcqueue: spec.aura cannot be read here" in caplog.text
    with pytest.raises(UnreadableRun, match=r"spec\.aura.*Install the version"):
        redis_ledger.named(theirs.run_id)


def test_to_find_a_run_by_name_or_to_read_its_results_no_other_run_is_read(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may hold a whole training split as examples."""
    run = open_run(redis_ledger, make_questions(3), "ours")
    open_run(redis_ledger, make_questions(1), "theirs")
    read: list[str] = []

    def reading(run_id: str, body: str) -> Run:
        read.append(run_id)
        return Run.model_validate_json(body)

    monkeypatch.setattr("contract.ledger.redis._run", reading)

    assert redis_ledger.named("ours").run_id == run.run_id
    assert read == [run.run_id]
    assert len(list(redis_ledger.results(run.run_id))) == 3
    assert redis_ledger.engines(run.run_id) == []
    assert redis_ledger.result(run.run_id, "q1")[1] is None
    redis_ledger.purge(run.run_id)
    assert read == [run.run_id], "not once more"


def test_an_entry_that_cannot_be_read_is_told_with_run_question_and_field(redis_ledger: RedisLedger) -> None:
    run = open_run(redis_ledger, make_questions(2))
    redis_ledger.commit(run.run_id, [verdict("q0"), verdict("q1")])
    redis_ledger.client.hset(keys.RunKeys(run.run_id).verdicts, "q1", '{"question_id":"q1","outcome":"right"}')
    read = redis_ledger.results(run.run_id)
    assert next(read)[0].id == "q0"
    with pytest.raises(LedgerError, match=f"Run {run.run_id}, question 'q1': .*Verdict.outcome: .* purge the run"):
        next(read)
    with pytest.raises(LedgerError, match=r"Verdict\.outcome"):
        redis_ledger.result(run.run_id, "q1")


def test_a_question_that_the_run_lacks_is_told_by_its_name(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(1))
    with pytest.raises(UnknownRun, match=f"Run {run.run_id} has no question 'q1'"):
        ledger.result(run.run_id, "q1")


# Halting, going on, reopening

HALTS = [RunState.PAUSED, RunState.CANCELLED]


@pytest.mark.parametrize("state", HALTS)
def test_nothing_of_a_halted_run_is_begun_and_the_audit_does_not_see_it(ledger: Ledger, state: RunState) -> None:
    run, other = (open_run(ledger, make_questions(3), name=name) for name in ("halted", "other"))
    assert ledger.halt(run.run_id, state) is RunState.RUNNING
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
        RunState.RUNNING,
        RunState.PAUSED,
        RunState.PAUSED,
        RunState.CANCELLED,
    ]
    assert ledger.counts(run.run_id).state is RunState.CANCELLED


def test_what_is_in_flight_when_a_run_is_halted_is_settled(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    ledger.begin(run.run_id, ["q0"])
    ledger.halt(run.run_id, RunState.CANCELLED)
    assert ledger.commit(run.run_id, verdicts(1)) == verdicts(1)
    assert ledger.counts(run.run_id).settled == 1


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


def test_questions_written_while_a_run_is_halted_open_it_when_it_goes_on(ledger: Ledger) -> None:
    run = Run(run_id="slow", spec=make_spec(), source="", questions=2, chance=0.25, created_at=time.time())
    ledger.open_run(run)
    ledger.halt("slow", RunState.PAUSED)
    ledger.add_questions("slow", make_questions(2))
    assert ledger.open_runs() == []
    ledger.resume("slow")
    assert ledger.open_runs() == ["slow"]


def test_failed_verdicts_are_taken_back_and_their_questions_are_as_if_never_begun(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(4))
    ledger.begin(run.run_id, ["q0", "q1", "q2", "q3"])
    kept = [verdict("q0"), verdict("q2", Outcome.UNANSWERED)]
    ledger.commit(run.run_id, [*kept, verdict("q1", Outcome.FAILED), verdict("q3", Outcome.FAILED)])
    assert ledger.reopen_failed(run.run_id) == 2
    assert ledger.reopen_failed(run.run_id) == 0
    counts = ledger.counts(run.run_id)
    assert (counts.todo, counts.outcomes) == (2, {Outcome.CORRECT: 1, Outcome.UNANSWERED: 1})
    assert [found for _, found in ledger.results(run.run_id)] == [kept[0], None, kept[1], None]
    assert ledger.open_runs() == [run.run_id]
    assert [each.attempts for each in ledger.begin(run.run_id, ["q1", "q3"])] == [1, 1]
    ledger.commit(run.run_id, [verdict("q1"), verdict("q3", Outcome.WRONG)])
    assert ledger.counts(run.run_id).finished


def test_a_halted_run_is_not_reopened_until_it_goes_on_unless_it_is_finished(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    ledger.commit(run.run_id, [verdict("q0", Outcome.FAILED)])
    ledger.halt(run.run_id, RunState.PAUSED)
    with pytest.raises(RunHalted):
        ledger.reopen_failed(run.run_id)
    ledger.commit(run.run_id, [verdict("q1")])  # it was in flight
    counts = ledger.counts(run.run_id)
    assert (counts.finished, counts.halted, counts.standing) == (True, False, "settled")
    assert ledger.reopen_failed(run.run_id) == 1
    assert ledger.counts(run.run_id).standing == "running"


def test_two_who_reopen_at_once_take_each_failure_back_once(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(600))
    ledger.commit(run.run_id, verdicts(600, Outcome.FAILED))
    together = threading.Barrier(2)

    def reopen(_: int) -> int:
        together.wait()
        return ledger.reopen_failed(run.run_id)

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


def test_a_stretch_of_the_results_is_read_by_its_place_in_the_input(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(1203))
    ledger.commit(run.run_id, verdicts(700))
    whole = list(ledger.results(run.run_id))
    assert len(whole) == 1203
    for start, stop in [(0, 500), (499, 1001), (1200, 1300), (1203, 1300), (7, 7), (1100, None)]:
        assert list(ledger.results(run.run_id, start, stop)) == whole[start:stop]


# Runs that are not there

QUESTIONS = make_questions(1)
ASKED: dict[str, Callable[[Ledger, str], object]] = {
    "add_questions": lambda ledger, run_id: ledger.add_questions(run_id, QUESTIONS),
    "run": lambda ledger, run_id: ledger.run(run_id),
    "counts": lambda ledger, run_id: ledger.counts(run_id),
    "unsettled": lambda ledger, run_id: list(ledger.unsettled(run_id)),
    "begin": lambda ledger, run_id: ledger.begin(run_id, ["q0"]),
    "uncount": lambda ledger, run_id: ledger.uncount(run_id, ["q0"]),
    "commit": lambda ledger, run_id: ledger.commit(run_id, [verdict("q0")]),
    "results": lambda ledger, run_id: list(ledger.results(run_id)),
    "result": lambda ledger, run_id: ledger.result(run_id, "q0"),
    "halt": lambda ledger, run_id: ledger.halt(run_id, RunState.PAUSED),
    "resume": lambda ledger, run_id: ledger.resume(run_id),
    "take_aside": lambda ledger, run_id: list(ledger.take_aside(run_id)),
    "reopen_failed": lambda ledger, run_id: ledger.reopen_failed(run_id),
    "purge": lambda ledger, run_id: ledger.purge(run_id),
}


@pytest.mark.parametrize("method", ASKED)
def test_an_unknown_run_is_told_with_the_nearest_known_one(ledger: Ledger, method: str) -> None:
    run = open_run(ledger, QUESTIONS, name="chemistry")
    open_run(ledger, QUESTIONS, name="history")
    misspelt = run.run_id.replace("chemistry", "chemstry")
    with pytest.raises(UnknownRun) as caught:
        ASKED[method](ledger, misspelt)
    assert f"No run {misspelt!r} in the ledger" in str(caught.value)
    assert caught.value.hint == f"Did you mean {run.run_id!r}?"


@pytest.mark.parametrize("method", ASKED)
def test_a_purged_run_is_unknown_and_stays_so_whatever_is_asked_of_it(ledger: Ledger, method: str) -> None:
    run = open_run(ledger, QUESTIONS)
    ledger.begin(run.run_id, ["q0"])
    ledger.purge(run.run_id)
    for _ in range(2):
        with pytest.raises(UnknownRun):
            ASKED[method](ledger, run.run_id)
    assert ledger.runs() == []
    assert ledger.open_runs() == []


def test_a_purge_leaves_other_runs_as_they_are(ledger: Ledger) -> None:
    kept, gone = (open_run(ledger, make_questions(2), name=name) for name in ("run", "run-2"))
    ledger.commit(kept.run_id, verdicts(1))
    ledger.purge(gone.run_id)
    assert ledger.runs() == [kept]
    assert ledger.counts(kept.run_id).settled == 1
    assert list(ledger.unsettled(kept.run_id)) == ["q1"]


def test_a_purged_run_can_be_asked_afresh(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    ledger.begin(run.run_id, ["q0"])
    ledger.commit(run.run_id, verdicts(2))
    ledger.purge(run.run_id)
    assert open_run(ledger, make_questions(2)).run_id == run.run_id
    assert ledger.counts(run.run_id) == Counts(total=2, todo=2)
    assert ledger.begin(run.run_id, ["q0"])[0].attempts == 1


def test_a_run_made_anew_under_its_name_counts_the_questions_that_it_has_now(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    assert ledger.counts(run.run_id).total == 2
    ledger.purge(run.run_id)
    ledger.open_run(run.model_copy(update={"questions": 3, "created_at": run.created_at + 1}))
    assert ledger.counts(run.run_id).total == 3


# Redis itself


def test_how_far_a_run_is_is_told_without_reading_its_examples_each_time(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(redis_ledger, make_questions(2))
    read = reads_of_runs(monkeypatch)
    assert {redis_ledger.counts(run.run_id).todo for _ in range(3)} == {2}
    assert read == [run.run_id]


def reads_of_runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that are read from Redis from now on."""
    read: list[str] = []
    real = RedisLedger.run

    def noting(ledger: RedisLedger, run_id: str) -> Run:
        read.append(run_id)
        return real(ledger, run_id)

    monkeypatch.setattr(RedisLedger, "run", noting)
    return read


def keys_of(ledger: RedisLedger, run_id: str) -> set[str]:
    return {str(each) for each in ledger.client.scan_iter(f"mcqueue:run:{run_id}*")}


def test_a_purge_leaves_no_key_behind_and_nobody_writes_one_again(redis_ledger: RedisLedger) -> None:
    run = open_run(redis_ledger, make_questions(3))
    redis_ledger.begin(run.run_id, ["q0", "q1"])
    redis_ledger.commit(run.run_id, verdicts(1))
    assert len(keys_of(redis_ledger, run.run_id)) == 7
    redis_ledger.purge(run.run_id)
    assert keys_of(redis_ledger, run.run_id) == set()
    for method in ("add_questions", "begin", "commit"):
        with pytest.raises(UnknownRun):
            ASKED[method](redis_ledger, run.run_id)
    assert list(redis_ledger.client.scan_iter("mcqueue:*")) == []


def test_a_finished_run_keeps_no_books_of_its_attempts(redis_ledger: RedisLedger) -> None:
    run = open_run(redis_ledger, make_questions(2))
    redis_ledger.begin(run.run_id, ["q0", "q1"])
    redis_ledger.commit(run.run_id, verdicts(2))
    there = {name.rpartition(":")[2] for name in keys_of(redis_ledger, run.run_id)}
    assert there == {"meta", "questions", "order", "verdicts", "counts"}


def test_what_one_process_wrote_another_reads(redis_ledger: RedisLedger, settings: Settings) -> None:
    run = open_run(redis_ledger, make_questions(2))
    redis_ledger.commit(run.run_id, verdicts(1))
    other = RedisLedger.connect(settings)
    try:
        assert other.runs() == [run]
        assert list(other.results(run.run_id)) == list(redis_ledger.results(run.run_id))
    finally:
        other.client.close()


@contextmanager
def full(client: redis.Redis) -> Iterator[None]:
    """The server takes no more writes; the next test finds it as it was."""
    client.config_set("maxmemory", 1)
    try:
        yield
    finally:
        client.config_set("maxmemory", 0)


@pytest.mark.parametrize("method", ["add_questions", "begin", "commit"])
def test_a_full_redis_is_told_with_the_remedy_and_settles_nothing(redis_ledger: RedisLedger, method: str) -> None:
    run = open_run(redis_ledger, make_questions(2))
    with full(redis_ledger.client), pytest.raises(WritesRefused) as caught:
        ASKED[method](redis_ledger, run.run_id)
    assert caught.value.retryable
    assert "Raise maxmemory" in str(caught.value)
    assert redis_ledger.counts(run.run_id) == Counts(total=2, todo=2)


def test_a_redis_that_does_not_answer_is_told_with_its_place() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(RedisUnreachable) as caught:
            RedisLedger.connect(load_settings(None, [f"redis_url=redis://:hunter2@127.0.0.1:{port}/0"]))
    assert caught.value.retryable
    assert f"No Redis answers at redis://127.0.0.1:{port}/0" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_refused_credentials_are_no_outage_and_are_not_shown(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCQUEUE_REDIS_URL", redis_url.replace("redis://", "redis://nobody:hunter2@"))
    with pytest.raises(LedgerError) as caught:
        RedisLedger.connect(load_settings())
    assert not caught.value.retryable
    assert "refuses the credentials" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_verdict_of_a_question_that_the_run_does_not_have_changes_nothing(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    assert ledger.commit(run.run_id, [verdict("stranger")]) == []
    assert (ledger.counts(run.run_id).settled, ledger.counts(run.run_id).todo) == (0, 2)


def test_a_run_purged_and_written_anew_while_a_batch_was_in_flight_still_finishes(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    ledger.begin(run.run_id, ["q0", "q1"])
    ledger.purge(run.run_id)
    ledger.open_run(run)
    ledger.commit(run.run_id, [verdict("q0")])  # late, and before the body is written again
    ledger.add_questions(run.run_id, make_questions(2))
    assert not ledger.counts(run.run_id).finished
    ledger.commit(run.run_id, [verdict("q0"), verdict("q1")])
    assert ledger.counts(run.run_id).finished


def test_a_run_that_is_purged_while_runs_are_looked_at_is_left_out(ledger: Ledger) -> None:
    gone, there = (open_run(ledger, make_questions(1), name) for name in ("gone", "there"))
    runs = ledger.runs()
    ledger.purge(gone.run_id)
    assert [run for run, _ in ledger.standings(runs)] == [there]


class Forgetful(RedisLedger):
    """A ledger that a run is purged from right after somebody asked which runs are open, as the HTTP door may do."""

    def open_runs(self) -> list[str]:
        found = super().open_runs()
        self.purge(found[0])
        return found


def test_open_runs_are_read_once_without_examples_and_those_of_another_version_are_told(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, gone, theirs = (open_run(redis_ledger, make_questions(1), name) for name in ("ours", "gone", "theirs"))
    redis_ledger.client.set(keys.RunKeys(theirs.run_id).meta, '{"spec": {"mode": "telepathy"}}')
    redis_ledger.client.delete(keys.RunKeys(gone.run_id).meta)  # as seen while it is being purged
    told: list[str] = []
    found = redis_ledger.read_open_runs(unreadable=lambda run_id, _: told.append(run_id))
    assert (list(found), told) == ([ours.run_id], [theirs.run_id])
    assert found[ours.run_id].spec.few_shot is None

    monkeypatch.setattr(RedisLedger, "run", lambda _, run_id: theirs if run_id != ours.run_id else pytest.fail("again"))
    assert redis_ledger.read_open_runs(found)[ours.run_id] is found[ours.run_id]


def test_a_scrape_does_not_read_what_an_open_run_asks_again(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(redis_ledger, make_questions(1))
    metrics = RedisMetrics(redis_ledger, redis_ledger.client)
    before = [each.name for each in metrics.collect()]
    monkeypatch.setattr(RedisLedger, "run", lambda *_: pytest.fail(f"{run.run_id} is read again"))
    assert [each.name for each in metrics.collect()] == before


def test_redis_is_not_reported_away_because_a_run_was_purged_during_a_scrape(redis_ledger: RedisLedger) -> None:
    _, there = (open_run(redis_ledger, make_questions(1), name) for name in ("gone", "there"))
    ledger = Forgetful(redis_ledger.client, redis_ledger.place)

    found = {each.name: each.samples for each in RedisMetrics(ledger, redis_ledger.client).collect()}

    assert [each.value for each in found["mcqueue_redis_up"]] == [1]
    assert {each.labels["run"] for each in found["mcqueue_run_questions"]} == {there.run_id}


def test_a_verdict_of_another_version_is_told_with_a_remedy_by_all_who_read_it(redis_ledger: RedisLedger) -> None:
    run = open_run(redis_ledger, make_questions(1))
    newer = json.dumps({"question_id": "q0", "outcome": "failed", "aura": 1})
    redis_ledger.commit(run.run_id, [verdict("q0", Outcome.FAILED)])
    redis_ledger.client.hset(keys.RunKeys(run.run_id).verdicts, "q0", newer)
    for read in (redis_ledger.reopen_failed, lambda run_id: list(redis_ledger.results(run_id))):
        with pytest.raises(LedgerError, match=r"question 'q0': cannot be read .*aura.* Another version of mcqueue"):
            read(run.run_id)
