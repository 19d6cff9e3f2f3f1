"""Stored texts are read again by today's rules, into a run of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from benchmarks.made_up import LETTERED
from contract import Failure, MemoryLedger, Mode, Outcome, Prompt, Question, Run, Verdict
from contract.choice_order import arrangements
from contract.engine_info import EngineUsed
from contract.errors import RunConfigError, UnknownRun
from contract.question import Body
from contract.spec import Judge, Sampling
from tests.support import make_questions, open_run
from tests.unit.workers.recheck.stored import GENERATES, commit, stored
from workers.recheck.rescoring import cut_short, rescore
from workers.scoring.base import Reading
from workers.scoring.extract import rules_version
from workers.scoring.generate import read_text

NOTHING_READ = Reading(None, "none")
NOT_READ = "has no texts in which rules would read a choice"


def killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_stored_texts_are_read_by_todays_rules_into_a_run_of_their_own(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(3), "old", **GENERATES)
    gone = stored("q2", "", outcome=Outcome.FAILED, error=Failure(type="RequestRejected", message="too long"))
    commit(books, run, stored("q0", "The answer is A."), stored("q1", "No idea."), gone)
    done = rescore(books, run)
    assert (done.questions, done.changed) == (3, 1)
    assert done.run.spec.rescored_from == run.run_id
    after = {question.id: verdict for question, verdict in books.results(done.run.run_id) if verdict}
    assert (after["q0"].outcome, after["q0"].choice, after["q0"].prompt_tokens) == (Outcome.CORRECT, "A", 9)
    assert after["q1"].outcome is Outcome.UNANSWERED
    assert after["q2"] == gone
    before = books.result(run.run_id, "q0")[1]
    assert before is not None
    assert before.outcome is Outcome.UNANSWERED


def test_a_text_that_the_rules_fail_on_fails_its_question_and_the_others_are_read(
    books: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fragile(question: Question, text: str, *args: Any, **options: Any) -> Reading:
        if text == "!":
            raise IndexError("no such group")
        return read_text(question, text, *args, **options)

    run = open_run(books, make_questions(3), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is A."), stored("q1", "!", choice="B"), stored("q2", "No idea."))
    monkeypatch.setattr("workers.recheck.rescoring.read_text", fragile)

    done = rescore(books, run)

    after = {question.id: verdict for question, verdict in books.results(done.run.run_id) if verdict}
    assert after["q0"].choice == "A"
    assert (after["q1"].outcome, after["q1"].choice, after["q1"].raw_text) == (Outcome.FAILED, None, "!")
    assert after["q1"].error == Failure(
        type="IndexError", message="its text cannot be read by the current rules: no such group"
    )
    assert after["q2"].outcome is Outcome.UNANSWERED
    assert books.counts(done.run.run_id).finished


def test_a_rescored_run_knows_which_engines_wrote_its_texts(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "old", **GENERATES)
    books.note_engine(run.run_id, EngineUsed(worker="w0", since=1.0, engine={"engine": "vllm", "dtype": "float32"}))
    commit(books, run, stored("q0", "The answer is A."))

    again = [rescore(books, run).run.run_id for _ in range(2)]

    (wrote,), read = books.engines(run.run_id), books.engines(again[1])
    assert read == [wrote.model_copy(update={"engine": {**wrote.engine, "rules": rules_version()}})]


def test_a_rescoring_that_was_killed_after_its_last_verdict_knows_the_engines_all_the_same(
    books: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was listed as settled, and its export said of no engine that it had answered."""
    run = open_run(books, make_questions(1), "old", **GENERATES)
    books.note_engine(run.run_id, EngineUsed(worker="w0", since=1.0, engine={"engine": "vllm"}))
    commit(books, run, stored("q0", "The answer is A."))
    write = books.commit

    def write_and_die(run_id: str, verdicts: Sequence[Verdict]) -> None:
        write(run_id, verdicts)
        killed()

    monkeypatch.setattr(books, "commit", write_and_die)
    with pytest.raises(KeyboardInterrupt):
        rescore(books, run)
    (new,) = [each for each in books.run_ids() if each != run.run_id]
    assert books.counts(new).finished
    assert [each.engine for each in books.engines(new)] == [{"engine": "vllm", "rules": rules_version()}]


def test_a_run_that_was_rescored_does_not_name_engines_that_were_asked_only_afterwards(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "old", **GENERATES)
    books.note_engine(run.run_id, EngineUsed(worker="w0", since=1.0, engine={"engine": "vllm"}))
    commit(books, run, stored("q0", "The answer is A."))
    first = rescore(books, run).run
    before = books.engines(first.run_id)
    books.note_engine(run.run_id, EngineUsed(worker="w1", since=2.0, engine={"engine": "vllm"}))
    rescore(books, run)
    assert books.engines(first.run_id) == before


def test_rescoring_twice_changes_nothing_more(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is A."))
    first, second = rescore(books, run), rescore(books, run)
    assert first.run.run_id == second.run.run_id
    assert books.counts(first.run.run_id).settled == 1


def test_a_rescored_run_leads_to_the_run_that_has_the_texts(
    books: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It made a further run, whose failed questions could be asked again in neither."""
    run = open_run(books, make_questions(1), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is A."))
    with monkeypatch.context() as yesterday:
        yesterday.setattr("workers.recheck.rescoring.rules_version", lambda: "yesterday")
        before = rescore(books, run).run
    after = rescore(books, run).run

    assert [rescore(books, each).run.run_id for each in (before, after)] == [after.run_id] * 2

    books.purge(run.run_id)
    assert rescore(books, before).run.spec.rescored_from == before.run_id


def test_failed_questions_that_were_asked_again_are_read_by_the_next_rescoring(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(2), "old", **GENERATES)
    gone = stored("q1", "", outcome=Outcome.FAILED, error=Failure(type="EngineDead", message="out of memory"))
    commit(books, run, stored("q0", "The answer is A."), gone)
    before = rescore(books, run).run.run_id
    books.reopen_failed(run.run_id)
    commit(books, run, stored("q1", "The answer is B."))

    after = [rescore(books, run).run.run_id for _ in range(2)]

    outcomes = [[verdict and verdict.outcome for _, verdict in books.results(each)] for each in (before, *after)]
    assert outcomes == [[Outcome.CORRECT, Outcome.FAILED], *[[Outcome.CORRECT, Outcome.CORRECT]] * 2]
    assert after == [f"{before}-2"] * 2


def test_a_run_asked_anew_under_the_id_of_a_purged_one_is_not_given_the_readings_of_its_texts(
    books: MemoryLedger,
) -> None:
    run = open_run(books, make_questions(1), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is B."))
    rescore(books, run)
    books.purge(run.run_id)
    open_run(books, make_questions(1), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is A."))

    found = books.result(rescore(books, run).run.run_id, "q0")[1]

    assert found is not None
    assert (found.choice, found.raw_text) == ("A", "The answer is A.")


def test_rescoring_that_was_killed_is_finished_by_rescoring_again(
    books: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(books, make_questions(2), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is A."), stored("q1", "No idea."))

    monkeypatch.setattr(books, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        rescore(books, run)
    monkeypatch.undo()
    (open_now,) = books.open_runs()
    done = rescore(books, run)
    assert done.run.run_id == open_now
    assert books.counts(open_now).finished
    assert [verdict and verdict.choice for _, verdict in books.results(open_now)] == ["A", None]


def test_a_rescoring_that_other_rules_began_is_named_by_the_command_that_cannot_finish_it(
    books: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hints said to finish it with that command, which made another run and left this one open, without a word."""
    run = open_run(books, make_questions(1), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is A."))
    with monkeypatch.context() as yesterday:
        yesterday.setattr("workers.recheck.rescoring.rules_version", lambda: "yesterday")
        yesterday.setattr(books, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            rescore(books, run)
    (left,) = books.open_runs()

    done = rescore(books, run)

    assert books.counts(done.run.run_id).finished
    assert cut_short(books, done) == [left]
    books.purge(left)
    assert cut_short(books, done) == []


def test_a_rescoring_that_was_cut_short_between_two_writes_is_named_as_well(
    books: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No question of it was unsettled, so it was not among the open runs."""
    run = open_run(books, make_questions(2), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is A."), stored("q1", "No idea."))
    monkeypatch.setattr("workers.recheck.rescoring.CHUNK", 1)
    with monkeypatch.context() as yesterday:
        yesterday.setattr("workers.recheck.rescoring.rules_version", lambda: "yesterday")
        add = books.add_bodies
        written: list[str] = []

        def killed_at_the_second(run_id: str, bodies: Iterable[Body]) -> None:
            if written:
                killed()
            written.append(run_id)
            add(run_id, bodies)

        yesterday.setattr(books, "add_bodies", killed_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            rescore(books, run)
    (left,) = (each for each in books.run_ids() if each != run.run_id)
    assert (books.counts(left).settled, books.open_runs()) == (1, [])

    assert cut_short(books, rescore(books, run)) == [left]

    alike = open_run(books, make_questions(1), "old", **{**GENERATES, "sampling": Sampling(max_tokens=9)})
    commit(books, alike, stored("q0", "The answer is A."))
    assert cut_short(books, rescore(books, alike)) == [], "it is of another run of that name"


def test_a_run_whose_failed_questions_are_asked_again_while_it_is_rescored_is_not_finished(
    books: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rescored run was said to be there, but lacked them; the next command put them behind all others."""
    run = open_run(books, make_questions(3), "old", **GENERATES)
    failed = [
        stored(each, "", outcome=Outcome.FAILED, error=Failure(type="EngineDead", message="out of memory"))
        for each in ("q0", "q2")
    ]
    commit(books, run, stored("q1", "The answer is B."), *failed)
    make = books.open_run

    def reopening_others(new: Run) -> Run:
        books.reopen_failed(run.run_id)
        return make(new)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(books, "open_run", reopening_others)
        with pytest.raises(RunConfigError, match="is not finished any more"):
            rescore(books, run)

    commit(books, run, stored("q0", "The answer is A."), stored("q2", "The answer is C."))
    done = rescore(books, run)

    after = [(question.id, verdict and verdict.outcome) for question, verdict in books.results(done.run.run_id)]
    assert after == [(f"q{n}", Outcome.CORRECT) for n in range(3)]
    assert cut_short(books, done) == []


@pytest.mark.parametrize(
    ("which", "told"),
    [
        ([0], r"^old-\w* was purged while its texts were read. old-rescored-.* cannot be finished: .* purge old-resc"),
        ([1], r"^old-rescored-\w* was purged meanwhile. Repeat this command.$"),
        ([0, 1], r"^old-\w* was purged while its texts were read.$"),
    ],
)
def test_who_rescores_a_run_is_told_which_of_the_two_was_purged_meanwhile(
    books: MemoryLedger, monkeypatch: pytest.MonkeyPatch, which: list[int], told: str
) -> None:
    """It was told as a name that is wrong."""
    run = open_run(books, make_questions(1), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is A."))
    make = books.open_run

    def purging_one(new: Run) -> Run:
        made = make(new)
        for each in which:
            books.purge((run, new)[each].run_id)
        return made

    monkeypatch.setattr(books, "open_run", purging_one)
    with pytest.raises(UnknownRun, match=told):
        rescore(books, run)


def test_a_run_that_is_purged_once_all_its_texts_were_read_leaves_a_whole_one(
    books: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(books, make_questions(1), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is A."))
    read = books.results

    def purging_it_in_the_end(run_id: str) -> Iterator[tuple[Question, Verdict | None]]:
        yield from read(run_id)
        books.purge(run_id)
        books.run(run_id)  # the ledger in Redis looks whether there are more

    monkeypatch.setattr(books, "results", purging_it_in_the_end)
    with pytest.raises(UnknownRun, match=r"old-.* was purged while its texts were read. old-rescored-.* has them all."):
        rescore(books, run)
    (new,) = books.run_ids()
    assert books.counts(new).finished


def test_other_rules_make_another_run_so_that_what_they_read_is_what_one_finds(
    books: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(books, make_questions(1), "old", **GENERATES)
    commit(books, run, stored("q0", "The answer is A."))
    monkeypatch.setattr("workers.recheck.rescoring.rules_version", lambda: "yesterday")
    monkeypatch.setattr("workers.recheck.rescoring.read_text", lambda *_, **__: NOTHING_READ)
    before = rescore(books, run)
    monkeypatch.undo()
    after = rescore(books, run)
    assert before.run.run_id != after.run.run_id
    choices = [books.result(each.run.run_id, "q0")[1] for each in (before, after)]
    assert [verdict and verdict.choice for verdict in choices] == [None, "A"]
    assert after.run.spec.rules_version == rules_version()


def test_votes_are_counted_again(books: MemoryLedger) -> None:
    spec = {**GENERATES, "mode": Mode.VOTE, "sampling": Sampling(samples=3, temperature=0.5)}
    run = open_run(books, make_questions(1), "old", **spec)
    commit(books, run, stored("q0", json.dumps(["Answer: A", "Answer: B", "Answer: A"])))
    after = books.result(rescore(books, run).run.run_id, "q0")[1]
    assert after is not None
    assert after.choice == "A"
    assert after.confidence == pytest.approx(2 / 3)


def test_a_text_about_shuffled_choices_is_read_in_the_order_that_was_shown(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(8), "old", shuffle=True, **GENERATES)
    commit(books, run, *(stored(f"q{n}", "Answer: A") for n in range(8)))
    found = list(books.results(rescore(books, run).run.run_id))
    meant = [arrangements(question, run.spec)[0].original("A") for question, _ in found]
    assert [verdict and verdict.choice for _, verdict in found] == meant
    assert len(found) == 8
    assert len(set(meant)) > 1


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, rf"\(mode likelihood\) {NOT_READ}"),
        ({**GENERATES, "mode": Mode.FREE}, rf"\(mode free\) {NOT_READ}"),
        ({"mode": Mode.LETTER, "prompt": LETTERED, "circular": True}, rf"\(mode letter\) {NOT_READ}"),
        ({**GENERATES, "circular": True}, r"stores the text of one rotation .*, but all of them decide\. .* --fresh"),
    ],
)
def test_a_run_without_all_texts_that_decided_is_refused(books: MemoryLedger, spec: dict[str, Any], told: str) -> None:
    run = open_run(books, make_questions(1), "old", **spec)
    commit(books, run, stored("q0", "A"))
    with pytest.raises(RunConfigError, match=told):
        rescore(books, run)


def test_the_grades_of_a_judge_are_not_read_again(books: MemoryLedger) -> None:
    judge = Judge(prompt=Prompt(name="grade", text="Grade: {{ response }}"))
    run = open_run(books, make_questions(1), "old", mode=Mode.JUDGE, sampling=Sampling(), judge=judge)
    commit(books, run, stored("q0", "It is four."))
    with pytest.raises(RunConfigError, match=r"are its judge's grades: .* To grade again, enqueue it with --fresh"):
        rescore(books, run)


def test_a_run_that_is_not_finished_is_refused(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "old", **GENERATES)
    with pytest.raises(RunConfigError, match="not finished"):
        rescore(books, run)
