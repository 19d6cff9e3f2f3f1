"""What every ledger promises, asked of the one in memory and of the one in Redis."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from contract import Counts, Ledger, Mode, Outcome, Run
from contract.engine_info import EngineUsed
from contract.errors import RunConflict, UnknownRun
from contract.ledger import new_call
from contract.question import Body
from contract.spec import FewShot, Stage
from contract.verdict import Failure, Passage
from tests.integration.ledgers import verdict, verdicts
from tests.support import make_question, make_questions, make_spec, open_run

#: Of questions, by the deploy file's setting.
LARGEST_BATCH = 8192

# Runs


def test_a_run_is_written_once_and_can_be_read_back(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    assert ledger.open_run(run) == run
    assert ledger.run(run.run_id) == run
    assert ledger.runs() == [run]


def test_runs_are_listed_one_by_one_without_their_examples(ledger: Ledger) -> None:
    """All were in memory at once with them: 20 runs with 10,000 examples each took 555 MB."""
    shots = FewShot(k=1, pool=tuple(make_questions(3)))
    kept = open_run(ledger, make_questions(1), "kept", few_shot=shots)
    gone, newest = (open_run(ledger, make_questions(1), name) for name in ("gone", "newest"))
    found = ledger.lean_runs()
    assert next(found) == newest
    ledger.purge(gone.run_id)
    assert list(found) == [kept.without_examples()]


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


def test_an_engine_is_noted_with_the_verdicts_that_it_gave(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    engine = EngineUsed(worker="a", since=10.0, engine={"dtype": "float32"})
    for each in ("q0", "q1"):
        assert ledger.commit(run.run_id, [verdict(each)], engine) == [verdict(each)]
    assert ledger.engines(run.run_id) == [engine]


def test_an_engine_that_is_described_in_another_order_is_the_same_engine(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(1))
    first = EngineUsed(worker="a", since=10.0, engine={"dtype": "float32", "vllm": "0.32.0"})
    ledger.note_engine(run.run_id, first)
    ledger.note_engine(run.run_id, EngineUsed(worker="a", since=20.0, engine={"vllm": "0.32.0", "dtype": "float32"}))
    assert ledger.engines(run.run_id) == [first]


def test_opening_a_run_again_keeps_the_first_ones_birthday(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    later = run.model_copy(update={"run_id": "later", "created_at": run.created_at + 30})
    ledger.open_run(later)
    again = run.model_copy(update={"created_at": run.created_at + 60, "source": "elsewhere"})
    assert ledger.open_run(again) == run
    assert ledger.run(run.run_id) == run
    assert ledger.runs() == [later, run]


def test_a_run_id_with_another_spec_is_a_conflict_and_changes_nothing(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    other = run.model_copy(update={"spec": make_spec(mode=Mode.LETTER)})
    with pytest.raises(RunConflict, match=f"Run {run.run_id} exists with another spec"):
        ledger.open_run(other)
    assert ledger.run(run.run_id) == run


def test_runs_are_listed_newest_first_whatever_the_clocks_of_their_hosts_say(ledger: Ledger) -> None:
    first = open_run(ledger, make_questions(1), name="first")
    later = [
        first.model_copy(update={"run_id": f"later-{seconds}", "created_at": first.created_at + seconds})
        for seconds in (90, -60, 5)
    ]
    for run in later:
        ledger.open_run(run)
    assert [run.run_id for run in ledger.runs()] == ["later-5", "later--60", "later-90", first.run_id]
    assert ledger.runs([first.run_id, "unknown", "later-5"]) == [first, later[2]]
    assert ledger.runs([]) == []


def test_a_call_that_its_caller_repeats_by_name_counts_once(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(3))
    ledger.begin(run.run_id, ["q1"])
    mine, others = new_call(), new_call()
    for _ in range(2):
        begun = ledger.begin(run.run_id, ["q0", "q1"], 1, call=mine)
        assert [(each.attempts, each.counted) for each in begun] == [(1, True), (1, False)]
        assert ledger.note_trouble(run.run_id, ["q0"], "boom", mine) == [1]
    assert [each.attempts for each in ledger.begin(run.run_id, ["q0", "q2"], call=others)] == [2, 1]
    ledger.uncount(run.run_id, ["q2"])
    assert [each.attempts for each in ledger.begin(run.run_id, ["q2"], call=others)] == [1], "what was taken back"
    assert ledger.note_trouble(run.run_id, ["q0"], "boom", others) == [2]


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


def test_passages_are_kept_until_their_question_is_settled_and_end_the_count_of_searches(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(4))
    ids = [question.id for question in make_questions(4)]
    found = (Passage(id="p", rank=1, score=2.0, text="“Sums”"), Passage(id="r", rank=2, score=1.0, text="are even."))
    ledger.commit(run.run_id, verdicts(1))
    ledger.begin(run.run_id, ids, stage=Stage.RETRIEVE)
    ledger.attach(run.run_id, {"q0": found, "q1": found, "q2": ()})
    assert ledger.passages(run.run_id, ids) == {"q1": found, "q2": ()}, "q0 was settled, q3 is yet to be searched for"
    begun = ledger.begin(run.run_id, ids, stage=Stage.RETRIEVE)
    assert [(each.question.id, each.attempts) for each in begun] == [("q1", 1), ("q2", 1), ("q3", 2)]
    ledger.commit(run.run_id, verdicts(2))
    assert ledger.passages(run.run_id, ids) == {"q2": ()}
    assert ledger.passages(run.run_id, []) == {}
    ledger.purge(run.run_id)
    with pytest.raises(UnknownRun):
        ledger.attach(run.run_id, {"q2": found})


def test_what_was_retrieved_for_a_question_is_told_before_and_after_it_is_settled(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(5))
    ids = [question.id for question in make_questions(5)]
    found = (Passage(id="p", score=2.0, text="Sums are even."),)
    ledger.attach(run.run_id, {"q0": found, "q1": ()})
    lost = Failure(type="RetrievalFailed", message="no such index")
    settled = [verdict("q2", passages=found), verdict("q3"), verdict("q4", Outcome.FAILED, error=lost)]
    ledger.commit(run.run_id, settled)
    assert ledger.retrieved(run.run_id, ids) == {"q0": found, "q1": (), "q2": found, "q3": ()}


def test_a_run_is_open_until_its_last_question_is_settled(ledger: Ledger) -> None:
    run, other = (open_run(ledger, make_questions(2), name=name) for name in ("one", "other"))
    assert ledger.open_runs() == sorted([run.run_id, other.run_id])
    ledger.commit(run.run_id, verdicts(1))
    assert run.run_id in ledger.open_runs()
    ledger.commit(run.run_id, verdicts(2))
    assert ledger.open_runs() == [other.run_id]


def test_a_run_without_questions_yet_is_neither_open_nor_finished(ledger: Ledger) -> None:
    run = Run(run_id="bare", spec=make_spec(), source="", questions=3, chance=0.25, created_at=time.time())
    assert ledger.open_run(run) == run
    assert ledger.open_runs() == []
    assert ledger.counts("bare") == Counts(total=3, todo=0)
    assert not ledger.counts("bare").finished


def test_a_run_with_more_questions_than_it_was_announced_with_is_finished_by_the_last(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(1))
    ledger.add_questions(run.run_id, make_questions(2))
    ledger.commit(run.run_id, verdicts(1))
    counts = ledger.counts(run.run_id)
    assert (counts.written, counts.unwritten, counts.finished) == (True, 0, False)
    ledger.commit(run.run_id, verdicts(2))
    assert ledger.counts(run.run_id).finished


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


def test_questions_can_be_read_by_id_and_one_that_is_not_there_is_left_out(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(1200))
    asked = ["q1100", "none", "q3"]
    assert ledger.questions(run.run_id, asked) == {"q1100": make_question(1100), "q3": make_question(3)}
    assert len(ledger.questions(run.run_id, [f"q{n}" for n in range(1200)])) == 1200
    assert ledger.questions("unknown", asked) == {}


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


@pytest.mark.parametrize("count_below", [0, 1, 2])
def test_questions_that_are_numbered_are_handed_out_only_if_they_are_asked_for(
    ledger: Ledger, count_below: int
) -> None:
    run = open_run(ledger, [make_question(number, id=str(number)) for number in range(-1, 5)])
    assert [each.question.id for each in ledger.begin(run.run_id, ["4", "3"], count_below)] == ["4", "3"]
    assert ledger.begin(run.run_id, [str(count_below)])[0].attempts == 1


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
        (asked,) = ledger.begin(run.run_id, ["q0"], count_below=0)
        assert (asked.question.id, asked.attempts, asked.counted) == ("q0", 0, False)
    (begun,) = ledger.begin(run.run_id, ["q0"])
    assert (begun.attempts, begun.counted) == (1, True)


def test_a_suspect_is_handed_out_uncounted_until_it_is_begun_alone(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    for _ in range(2):
        ledger.begin(run.run_id, ["q0"], count_below=2)
    for _ in range(2):
        suspect, other = ledger.begin(run.run_id, ["q0", "q1"], count_below=2)
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


def test_the_very_same_verdict_counts_once_and_stands_however_often_it_is_committed(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    same = verdict("q0")
    for _ in range(2):
        assert ledger.commit(run.run_id, [same, same]) == [same]
    another = verdict("q0", worker="another")
    assert ledger.commit(run.run_id, [another, same]) == [same]
    assert ledger.commit(run.run_id, [same, another, same]) == [same]
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
    assert ledger.counts(run.run_id).outcomes == {Outcome.CORRECT: 358, Outcome.WRONG: 2142}


def test_the_largest_batch_is_begun_broken_off_failed_and_settled_like_any_other(ledger: Ledger) -> None:
    """Lua passes about 8,000 arguments at most."""
    ids = [f"q{number}" for number in range(LARGEST_BATCH)]
    run = open_run(ledger, make_questions(LARGEST_BATCH))
    for _ in range(2):
        begun = ledger.begin(run.run_id, ids)
        assert [(each.question.id, each.attempts) for each in begun] == [(each, 1) for each in ids]
        ledger.uncount(run.run_id, ids)
    assert ledger.note_trouble(run.run_id, ids, "odd") == [1] * LARGEST_BATCH
    ledger.attach(run.run_id, dict.fromkeys(ids, ()))
    assert len(ledger.passages(run.run_id, ids)) == LARGEST_BATCH
    assert ledger.commit(run.run_id, verdicts(LARGEST_BATCH)) == verdicts(LARGEST_BATCH)
    assert ledger.counts(run.run_id).outcomes == {Outcome.CORRECT: LARGEST_BATCH}


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


@pytest.mark.parametrize("ledger", ["memory", "redis"], indirect=True)  # a repeated call must be a question's last
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


def test_results_of_chosen_questions_are_without_those_that_the_run_lacks(ledger: Ledger) -> None:
    questions = make_questions(700)  # more than are read at a time
    run = open_run(ledger, questions)
    found = verdict("q650", Outcome.CORRECT)
    ledger.commit(run.run_id, [found])
    chosen = [f"q{number}" for number in range(699, -50, -1)]
    results = ledger.results_of(run.run_id, chosen)
    assert results == {each.id: (each, found if each.id == "q650" else None) for each in questions}
    assert ledger.results_of(run.run_id, []) == {}
    with pytest.raises(UnknownRun):
        ledger.results_of("nothing", ["q0"])


def test_a_question_that_the_run_lacks_is_told_by_its_name(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(1))
    with pytest.raises(UnknownRun, match=f"Run {run.run_id} has no question 'q1'"):
        ledger.result(run.run_id, "q1")


def test_a_stretch_of_the_results_is_read_by_its_place_in_the_input(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(1203))
    ledger.commit(run.run_id, verdicts(700))
    whole = list(ledger.results(run.run_id))
    assert len(whole) == 1203
    for start, stop in [(0, 500), (3, 5), (499, 1001), (499, 1010), (1200, 1300), (1203, 1300), (7, 7), (1100, None)]:
        assert list(ledger.results(run.run_id, start, stop)) == whole[start:stop]
