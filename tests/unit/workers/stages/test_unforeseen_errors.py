"""Errors that nobody foresaw: they are tried again, and cost no other question anything."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from contract import MemoryLedger, Outcome, load_settings
from contract.errors import EngineError, RequestRejected
from contract.ledger import Begun
from contract.question import Question
from contract.verdict import Passage, Verdict
from tests.support import SIMULATED_MODEL, make_questions, open_run
from tests.unit.workers.messages.batches import batch_of, message
from tests.unit.workers.stages.searching import RAG
from tests.unit.workers.stages.support import SETTINGS, CountingEngine, error_of, score, scorer, verdict_of
from workers.engines.base import Request
from workers.messages.batch import Settlement
from workers.scoring import Reading
from workers.verdicts import outcome_of


def test_an_error_that_no_engine_should_raise_is_tried_again_with_growing_pauses_and_then_failed_with_every_reason(
    books: MemoryLedger, engine: CountingEngine, no_pauses: list[float]
) -> None:
    run = open_run(books, make_questions(4))
    engine.raises = {"What is 2 plus 2": ZeroDivisionError("odd")}
    batches = [score(books, engine, message(run, "q0", "q1", "q2", "q3")) for _ in range(4)]
    assert [each.held[0].settlement for each in batches] == [Settlement.REQUEUE] * 3 + [Settlement.ACKNOWLEDGE]
    assert [each.requeue_after_s for each in batches] == [1, 2, 4, 0]
    assert no_pauses == [0, 0, 0, 0], "others need not wait for it"
    assert error_of(books, run, "q2").type == "TooManyAttempts"
    assert error_of(books, run, "q2").message == "attempted 4 times: " + "; ".join(
        ["w@host: ZeroDivisionError: odd"] * 4
    )
    assert verdict_of(books, run, "q2").attempts == 4
    assert {verdict_of(books, run, each).attempts for each in ("q0", "q1", "q3")} == {1}
    assert books.counts(run.run_id).of(Outcome.FAILED) == 1


def test_a_question_that_cannot_be_read_ends_as_failed_and_its_company_is_scored_at_once(
    engine: CountingEngine, no_pauses: list[float]
) -> None:
    class Damaged(MemoryLedger):
        def begin(self, run_id: str, question_ids: Sequence[str], *more: Any, **named: Any) -> list[Begun]:
            if "q1" in question_ids:
                raise ValueError("no question at all")
            return super().begin(run_id, question_ids, *more, **named)

    books = Damaged()
    run = open_run(books, make_questions(4))
    batches = [score(books, engine, message(run, "q0", "q1"), message(run, "q2", "q3")) for _ in range(4)]
    assert [[held.settlement for held in each.held] for each in batches] == [
        *[[Settlement.REQUEUE, Settlement.ACKNOWLEDGE]] * 3,
        [Settlement.ACKNOWLEDGE] * 2,
    ]
    assert (engine.calls, no_pauses) == ([3], [0] * 4)
    assert error_of(books, run, "q1").message == "attempted 4 times: " + "; ".join(
        ["w@host: ValueError: no question at all"] * 4
    )
    assert books.counts(run.run_id).of(Outcome.FAILED) == 1


def test_a_batch_of_which_all_questions_fail_rests_as_the_next_ones_would_fail_like_it(
    books: MemoryLedger, engine: CountingEngine, no_pauses: list[float]
) -> None:
    run = open_run(books, make_questions(4))
    engine.raises = {"What is": OSError("too many open files")}
    batches = [score(books, engine, message(run, "q0", "q1", "q2", "q3")) for _ in range(2)]
    assert [each.requeue_after_s for each in batches] == [0, 0]
    assert no_pauses == [1, 2]


def test_several_questions_of_a_batch_that_fail_keep_no_others_waiting_if_the_rest_of_it_is_scored(
    books: MemoryLedger, engine: CountingEngine, no_pauses: list[float]
) -> None:
    run = open_run(books, make_questions(4))
    engine.raises = {f"What is {n} plus": ZeroDivisionError("odd") for n in (1, 2)}
    batch = score(books, engine, message(run, "q0", "q1", "q2", "q3"))
    assert (batch.requeue_after_s, no_pauses) == (1, [0])


def test_a_question_that_fails_here_and_was_settled_elsewhere_meanwhile_is_not_tried_again(
    books: MemoryLedger, engine: CountingEngine, no_pauses: list[float]
) -> None:
    run = open_run(books, make_questions(1))

    def settle_elsewhere(_: Sequence[Request]) -> bool:
        books.commit(run.run_id, [Verdict(question_id="q0", outcome=Outcome.CORRECT, worker="another")])
        return False

    engine.dies_at = settle_elsewhere
    engine.raises = {"": ZeroDivisionError("odd")}
    batch = score(books, engine, message(run, "q0"))
    assert (batch.held[0].settlement, batch.requeue_after_s) == (Settlement.ACKNOWLEDGE, 0)
    assert verdict_of(books, run, "q0").worker == "another"


def test_a_question_that_fails_here_and_whose_run_was_purged_meanwhile_is_dropped_and_its_company_settled(
    books: MemoryLedger, engine: CountingEngine, no_pauses: list[float]
) -> None:
    gone, stays = (open_run(books, make_questions(2), name) for name in ("gone", "stays"))

    def purge_meanwhile(_: Sequence[Request]) -> bool:
        if gone.run_id in books.run_ids():
            books.purge(gone.run_id)
        return False

    engine.dies_at = purge_meanwhile
    engine.raises = {"What is 0 plus": ZeroDivisionError("odd")}
    batch = score(books, engine, message(gone, "q0"), message(stays, "q1"))
    assert [held.settlement for held in batch.held] == [Settlement.ACKNOWLEDGE] * 2
    assert (no_pauses, batch.requeue_after_s) == ([0], 0)
    assert books.counts(stays.run_id).settled == 1


def test_no_more_questions_are_held_for_another_attempt_than_a_full_batch_has(
    books: MemoryLedger, engine: CountingEngine, no_pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a disk was full, every question of the queue used up its attempts, one by one."""
    run = open_run(books, make_questions(5))
    engine.raises = {"What is": OSError("no space left on device")}
    small = load_settings(None, ["engine=simulated", f"model={SIMULATED_MODEL}", "batch_size=3"])
    stage = scorer(books, engine, small)
    monkeypatch.setattr("workers.stages.pauses.time", SimpleNamespace(monotonic=lambda: 0.0, time=time.time))
    batches = [batch_of(message(run, f"q{n}")) for n in range(5)]
    for batch in batches:
        stage.run(batch)
    assert [each.requeue_after_s for each in batches] == [1, 1, 1, 0, 0]
    assert no_pauses == [0, 0, 0, 1, 1]
    monkeypatch.setattr("workers.stages.pauses.time", SimpleNamespace(monotonic=lambda: 1.1, time=time.time))
    stage.run(batch := batch_of(message(run, "q0")))
    assert batch.requeue_after_s == 2, "the others are no longer held"


def test_a_worker_that_holds_as_many_failed_questions_as_it_may_rests_although_others_are_scored(
    books: MemoryLedger, engine: CountingEngine, no_pauses: list[float]
) -> None:
    run = open_run(books, make_questions(8))
    engine.raises = {f"What is {n} plus": OSError("odd") for n in range(0, 8, 2)}
    small = load_settings(None, ["engine=simulated", f"model={SIMULATED_MODEL}", "batch_size=3"])
    stage = scorer(books, engine, small)
    for n in range(0, 8, 2):
        stage.run(batch_of(message(run, f"q{n}", f"q{n + 1}")))
    assert no_pauses == [0, 0, 0, 1]


def test_an_error_that_no_engine_should_raise_is_in_the_log_with_its_traceback_once_its_question_is_found(
    books: MemoryLedger, engine: CountingEngine, no_pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    run = open_run(books, make_questions(4))
    engine.raises = {"What is 2 plus 2": ZeroDivisionError("odd"), "What is 3": RequestRejected("too long")}
    score(books, engine, message(run, "q0", "q1", "q2", "q3"))
    assert [str(each.exc_info[1]) for each in caplog.records if each.exc_info] == ["odd"]


def test_an_error_that_passes_leaves_no_trace_in_the_verdict_but_the_number_of_attempts(
    books: MemoryLedger, engine: CountingEngine, no_pauses: list[float]
) -> None:
    run = open_run(books, make_questions(2))
    engine.raises = {"What is": OSError("too many open files")}
    score(books, engine, message(run, "q0", "q1"))
    assert books.troubles(run.run_id, "q1") == ["w@host: OSError: too many open files"]
    engine.raises = {}
    score(books, engine, message(run, "q0", "q1"))
    assert [verdict_of(books, run, each).attempts for each in ("q0", "q1")] == [2, 2]
    assert verdict_of(books, run, "q1").error is None
    assert books.troubles(run.run_id, "q1") == []
    assert no_pauses == [1, 0]


def test_a_bug_behind_the_engine_costs_the_question_that_meets_it_and_no_other(
    books: MemoryLedger, engine: CountingEngine, no_pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(books, make_questions(5))

    def with_a_bug(question: Question, reading: Reading) -> Outcome:
        if question.id == "q3":
            raise ValueError("\udcff")  # nothing that JSON or Redis would take
        return outcome_of(question, reading)

    monkeypatch.setattr("workers.verdicts.outcome_of", with_a_bug)
    for _ in range(4):
        score(books, engine, message(run, "q0", "q1", "q2", "q3", "q4"))
    assert books.counts(run.run_id).finished
    assert books.counts(run.run_id).of(Outcome.FAILED) == 1
    assert error_of(books, run, "q3").message.count("ValueError: \\udcff") == 4
    assert verdict_of(books, run, "q4").attempts == 1
    assert engine.calls == [5, 2, 3, 1, 2, 1, 1, *[1] * 3], "halved down to it, and then it alone"


def test_a_bug_in_a_later_call_of_a_batch_has_no_question_of_an_earlier_one_asked_again(
    books: MemoryLedger, engine: CountingEngine, no_pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(books, make_questions(6))
    asked: list[str] = []

    def with_a_bug(question: Question, reading: Reading) -> Outcome:
        asked.append(question.id)
        if question.id == "q5":
            raise ValueError("odd")
        return outcome_of(question, reading)

    monkeypatch.setattr("workers.verdicts.outcome_of", with_a_bug)
    settings = SETTINGS.model_copy(update={"batch_tokens": 25})
    batch = batch_of(message(run, "q0", "q1", "q2", "q3", "q4", "q5"))
    scorer(books, engine, settings).run(batch)
    assert asked[:4] == ["q0", "q1", "q2", "q3"]
    assert not {"q0", "q1", "q2", "q3"} & set(asked[4:])
    assert books.counts(run.run_id).settled == 5
    assert books.troubles(run.run_id, "q5") == ["w@host: ValueError: odd"]


def test_an_engine_that_cannot_measure_a_prompt_is_told_in_a_line_and_not_in_a_traceback(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where a server refuses to tokenize one prompt: every attempt left a traceback."""

    def refuse(requests: Sequence[Request]) -> list[int]:
        raise EngineError("The server no longer counts tokens: error 400.")

    run = open_run(books, make_questions(1), rag=RAG)
    books.attach(run.run_id, {"q0": [Passage(id="p", rank=1, score=1.0, text="Two and two are four.")]})
    monkeypatch.setattr(engine, "excess_tokens", refuse)
    score(books, engine, message(run, "q0"))
    told = [each for each in caplog.records if each.levelname in {"WARNING", "ERROR"}]
    assert [each.exc_info for each in told] == [None]
    assert (
        told[0].getMessage().endswith("attempt 1 failed: EngineError: The server no longer counts tokens: error 400.")
    )
