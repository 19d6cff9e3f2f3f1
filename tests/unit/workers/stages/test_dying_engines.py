"""Engines that die: which questions are suspected, asked alone, and in the end convicted."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from contract import MemoryLedger, Outcome, RunState
from contract.errors import EngineDead, WaitEnded
from contract.verdict import Failure, Verdict
from tests.support import make_question, make_questions, open_run, settle
from tests.unit.workers.messages.batches import batch_of, message
from tests.unit.workers.ready_engine import SlowTexts
from tests.unit.workers.stages.support import (
    SETTINGS,
    CountingEngine,
    at_once,
    error_of,
    score,
    scorer,
    verdict_of,
)
from workers.engines.base import Completion, Request
from workers.messages.batch import Settlement


def test_an_error_at_the_last_attempt_is_the_end_also_if_those_before_killed_their_workers(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    run = open_run(books, make_questions(1))
    for _ in range(SETTINGS.max_attempts - 1):
        books.begin(run.run_id, ["q0"])
    engine.raises = {"": ZeroDivisionError("odd")}

    batch = score(books, engine, message(run, "q0"))

    assert batch.held[0].settlement is Settlement.ACKNOWLEDGE
    verdict = verdict_of(books, run, "q0")
    assert verdict.attempts == SETTINGS.max_attempts
    assert isinstance(verdict.error, Failure)
    assert verdict.error.message == (
        "attempted 4 times: w@host: ZeroDivisionError: odd; 3 times its worker died without giving a reason"
    )


def test_what_a_dying_engine_had_answered_is_settled_and_only_the_rest_comes_again(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(4))
    dying = SlowTexts(SETTINGS, "What is 2 plus", EngineDead("gone"))
    batch = score(books, dying, message(run, "q0", "q1", "q2", "q3"))
    assert (batch.fatal, batch.held[0].settlement) == ("gone", Settlement.REQUEUE)
    assert list(books.unsettled(run.run_id)) == ["q2"]
    after = CountingEngine()
    score(books, after, message(run, "q0", "q1", "q2", "q3"))
    assert after.calls == [1]
    assert [verdict_of(books, run, each).attempts for each in ("q0", "q2")] == [1, 2]


def test_a_suspect_whose_run_is_halted_while_its_company_is_scored_is_put_aside(books: MemoryLedger) -> None:
    engine = CountingEngine()
    run = open_run(books, make_questions(2))
    for _ in range(2):
        books.begin(run.run_id, ["q0"])

    def halt_meanwhile(_: Sequence[Request]) -> bool:
        books.halt(run.run_id, RunState.PAUSED)
        return False

    engine.dies_at = halt_meanwhile
    batch = score(books, engine, message(run, "q0", "q1"))
    assert engine.calls == [1]
    assert "1 not begun: paused" in batch.held[0].summary
    assert books.counts(run.run_id).settled == 1, "what was in flight ended"
    assert list(books.take_aside(run.run_id)) == ["q0"]


@pytest.mark.parametrize("ended", ["settled", "purged"])
def test_a_suspect_that_is_settled_or_purged_while_its_company_is_scored_is_not_asked(
    books: MemoryLedger, engine: CountingEngine, ended: str
) -> None:
    run, other = (open_run(books, make_questions(1), name) for name in ("suspected", "other"))
    for _ in range(2):
        books.begin(run.run_id, ["q0"])

    def end_meanwhile(_: Sequence[Request]) -> bool:
        if ended == "settled":
            books.commit(run.run_id, [Verdict(question_id="q0", outcome=Outcome.CORRECT, worker="another")])
        else:
            books.purge(run.run_id)
        return False

    engine.dies_at = end_meanwhile
    batch = score(books, engine, message(run, "q0"), message(other, "q0"))
    assert engine.calls == [1]
    assert [held.settlement for held in batch.held] == [Settlement.ACKNOWLEDGE] * 2
    assert batch.held[0].summary == "1 settled before"


def test_a_dead_engine_sends_every_message_back_and_ends_the_worker(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    run = open_run(books, make_questions(3))
    engine.dies_at = lambda _: True
    batch = score(books, engine, message(run, "q0", "q1", "q2"))
    assert batch.fatal == "gone"
    assert batch.held[0].settlement is Settlement.REQUEUE
    assert books.counts(run.run_id).todo == 3


def test_of_a_batch_in_halves_no_question_is_charged_for_a_wait_that_the_workers_stop_ended(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(books, make_questions(4))
    with monkeypatch.context() as once:
        once.setattr("workers.verdicts.outcome_of", lambda *_: 1 / 0)
        engine.dies_at = lambda requests: len(requests) < 4
        engine.death = WaitEnded("stopped while it waited for the server")
        batch = score(books, engine, message(run, "q0", "q1", "q2", "q3"))
    assert engine.calls == [4, 2]
    assert batch.held[0].settlement is Settlement.REQUEUE
    score(books, CountingEngine(), message(run, "q0", "q1", "q2", "q3"))
    assert [verdict_of(books, run, f"q{n}").attempts for n in range(4)] == [1] * 4


def test_of_a_batch_in_halves_every_question_without_an_answer_is_told_why_its_engine_died(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(books, make_questions(4))
    monkeypatch.setattr("workers.verdicts.outcome_of", lambda *_: 1 / 0)
    engine.dies_at = lambda requests: len(requests) < 4
    score(books, engine, message(run, "q0", "q1", "q2", "q3"))
    assert [books.troubles(run.run_id, f"q{n}") for n in range(4)] == [["w@host: EngineDead: gone"]] * 4


@pytest.mark.parametrize(
    ("death", "attempts", "reasons"),
    [(WaitEnded("stopped"), 0, []), (EngineDead("gone"), 1, ["w@host: EngineDead: gone"])],
    ids=["wait", "death"],
)
def test_a_question_that_had_failed_by_itself_has_no_part_in_how_the_other_half_of_its_batch_ends(
    books: MemoryLedger, engine: CountingEngine, death: EngineDead, attempts: int, reasons: list[str]
) -> None:
    run = open_run(books, make_questions(2))
    failing = make_question(0).question
    engine.raises = {failing: ZeroDivisionError("odd")}
    engine.dies_at = lambda requests: all(failing not in each.prompt for each in requests)
    engine.death = death
    stage = scorer(books, engine, stopping=at_once)
    stage.run(batch_of(message(run, "q0", "q1")))
    counted = [each.attempts for each in books.begin(run.run_id, ["q0", "q1"], count_below=0)]
    assert counted == [1, attempts]
    told = [books.troubles(run.run_id, each) for each in ("q0", "q1")]
    assert told == [["w@host: ZeroDivisionError: odd"], reasons]


def test_a_worker_that_ends_amid_a_batch_gives_its_attempts_back_or_tells_why_they_end(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    """From another thread, while the engine hangs or is still at work."""
    run = open_run(books, make_questions(3))
    settle(books, run.run_id, "q0")
    stage = scorer(books, engine)
    attempts: list[list[int]] = []

    def end_meanwhile(_: Sequence[Request]) -> bool:
        for end in (stage.uncount_under_way, partial(stage.note_under_way, "it hangs")):
            end()
            unsettled = books.begin(run.run_id, ["q0", "q1", "q2"], count_below=0)
            attempts.append([each.attempts for each in unsettled])
        return True

    engine.dies_at = end_meanwhile
    stage.run(batch_of(message(run, "q0", "q1", "q2")))
    assert attempts == [[0, 0], [0, 0]]
    told = ["w@host: it hangs", "w@host: EngineDead: gone"]
    assert [books.troubles(run.run_id, each) for each in ("q0", "q1", "q2")] == [[], told, told]


def test_what_a_worker_has_given_back_is_no_longer_under_way_there(books: MemoryLedger, engine: CountingEngine) -> None:
    run = open_run(books, make_questions(1))
    engine.raises = {"": ZeroDivisionError("odd")}
    stage = scorer(books, engine, stopping=at_once)
    stage.run(batch_of(message(run, "q0")))
    stage.note_under_way("it hangs")
    stage.uncount_under_way()
    assert books.troubles(run.run_id, "q0") == ["w@host: ZeroDivisionError: odd"]
    assert books.begin(run.run_id, ["q0"], count_below=0)[0].attempts == 1


def test_who_is_convicted_is_told_what_its_workers_said_last(books: MemoryLedger, engine: CountingEngine) -> None:
    run = open_run(books, make_questions(1))
    books.begin(run.run_id, ["q0"])  # and its worker was killed
    engine.dies_at = lambda _: True
    for _ in range(4):
        score(books, engine, message(run, "q0"))
    verdict = verdict_of(books, run, "q0")
    assert verdict.error is not None
    told = "; ".join(["w@host: EngineDead: gone"] * 3)
    assert verdict.error.message == f"attempted 4 times: {told}; 1 time its worker died without giving a reason"
    assert verdict.attempts == 4


@pytest.mark.parametrize("max_attempts", [2, 3, 4])
def test_a_question_whose_company_keeps_dying_is_begun_alone_and_convicted(
    books: MemoryLedger, engine: CountingEngine, max_attempts: int
) -> None:
    settings = SETTINGS.model_copy(update={"max_attempts": max_attempts})
    run = open_run(books, make_questions(4))
    engine.dies_at = lambda requests: any("What is 2 plus 2" in each.prompt for each in requests)
    for _ in range(12):
        if books.counts(run.run_id).finished:
            break
        stage = scorer(books, engine, settings)
        stage.run(batch_of(message(run, "q0", "q1", "q2", "q3")))
    convicted = verdict_of(books, run, "q2")
    assert convicted.outcome is Outcome.FAILED
    assert convicted.error is not None
    assert convicted.error.type == "TooManyAttempts"
    assert convicted.attempts == max_attempts
    assert convicted.settled_at > 0
    assert books.counts(run.run_id).of(Outcome.FAILED) == 1
    assert books.counts(run.run_id).finished


class MortalEngine(CountingEngine):
    """Dies of poison, but late: whatever else it is asked until then gets no answer. Meanwhile something happens."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] = lambda: None
        self._doomed = False
        self._both_there = threading.Barrier(2)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        if any("poison" in each.prompt for each in requests):
            self._doomed = True
            self.meanwhile()
        with contextlib.suppress(threading.BrokenBarrierError):
            self._both_there.wait(0.2)
        if self._doomed:
            raise EngineDead("poisoned")
        return super().generate(requests)


@pytest.mark.parametrize("deaths_before", [0, 2])
def test_what_is_suspected_beside_a_poison_of_another_batch_is_not_convicted_with_it(
    books: MemoryLedger, deaths_before: int
) -> None:
    """Whether the poison is a suspect itself, or comes in a batch's ordinary company."""
    run = open_run(books, [make_question(0, question="poison?"), *make_questions(3)[1:]])
    for _ in range(2):
        books.begin(run.run_id, ["q1", "q2"])
    for _ in range(deaths_before):
        books.begin(run.run_id, ["q0"])
    boots = 0
    while not books.counts(run.run_id).finished:
        boots += 1
        engine = MortalEngine()
        stage = scorer(books, engine)
        beside = threading.Thread(target=stage.run, args=(batch_of(message(run, "q1", "q2"), number=2),))
        engine.meanwhile = beside.start
        stage.run(batch_of(message(run, "q0")))
        if beside.ident is None:  # the poison was not asked any more
            beside.start()
        beside.join()
    assert boots == 5 - deaths_before
    assert error_of(books, run, "q0").type == "TooManyAttempts"
    assert [verdict_of(books, run, each).attempts for each in ("q1", "q2")] == [3, 3]
    assert books.counts(run.run_id).of(Outcome.FAILED) == 1
