"""A ledger that is away while a batch is being worked on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from contract import Begun, MemoryLedger
from contract.engine_info import EngineUsed
from contract.errors import LedgerError, RedisUnreachable, WritesRefused
from contract.verdict import Verdict
from tests.support import make_questions, open_run
from tests.unit.workers.messages.batches import away_at_first, batch_of, message, unheard_at_first
from tests.unit.workers.stages.searching import RAG
from tests.unit.workers.stages.support import SETTINGS, CountingEngine, error_of, score, scorer, verdict_of
from workers.messages.batch import Settlement


def test_scored_work_waits_for_a_ledger_that_is_away(engine: CountingEngine) -> None:
    class Away(MemoryLedger):
        refusals = 2

        def commit(self, run_id: str, verdicts: Sequence[Verdict], engine: EngineUsed | None = None) -> list[Verdict]:
            if self.refusals:
                self.refusals -= 1
                raise RedisUnreachable("away")
            return super().commit(run_id, verdicts, engine)

    books = Away()
    run = open_run(books, make_questions(2))
    batch = score(books, engine, message(run, "q0", "q1"))
    assert engine.calls == [2]
    assert books.counts(run.run_id).finished
    assert batch.held[0].settlement is Settlement.ACKNOWLEDGE


def test_a_ledger_that_is_away_is_asked_ever_more_rarely_up_to_every_five_seconds(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(
        "workers.outages.time",
        SimpleNamespace(sleep=pauses.append, time=time.time, monotonic=time.monotonic),
    )
    run = open_run(books, make_questions(1))
    monkeypatch.setattr(books, "commit", away_at_first(books.commit, 8))
    score(books, engine, message(run, "q0"))
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert books.counts(run.run_id).finished


def test_a_ledger_that_is_away_for_long_is_logged_once_a_minute_and_when_its_trouble_is_another(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An outage of ten minutes left hundreds of lines."""
    now = [0.0]
    seconds = iter((0.0, 1.0, 59.0, 60.0, 61.0, 62.0))
    clock = SimpleNamespace(sleep=lambda _: None, time=time.time, monotonic=lambda: now[0])
    monkeypatch.setattr("workers.outages.time", clock)
    monkeypatch.setattr("workers.retries.time", clock)
    away = [RedisUnreachable("away", hint="Start it.")] * 4
    troubles = [*away, WritesRefused("full", hint="Empty it."), WritesRefused("full, too", hint="Empty it.")]
    run = open_run(books, make_questions(1))
    commit = books.commit

    def refuse(*given: Any) -> list[Verdict]:
        if not troubles:
            return commit(*given)
        now[0] = next(seconds)
        raise troubles.pop(0)

    monkeypatch.setattr(books, "commit", refuse)
    score(books, engine, message(run, "q0"))
    told = [each.getMessage() for each in caplog.records if "waiting for the ledger" in each.getMessage()]
    assert [each.partition("ledger: ")[2] for each in told] == ["away Start it.", "away Start it.", "full Empty it."]
    assert books.counts(run.run_id).finished


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (WritesRefused("It is full.", hint="Empty it."), "It is full. Empty it."),
        (RedisUnreachable("away"), ""),  # once it is back, whoever reads this would take it for away
    ],
    ids=["full", "away"],
)
def test_a_worker_tells_why_redis_refuses_its_verdicts_as_long_as_they_wait(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch, trouble: LedgerError, told: str
) -> None:
    run = open_run(books, make_questions(2))
    stage = scorer(books, engine)
    commit = books.commit
    said: list[str] = []

    def refuse_twice(*given: Any) -> list[Verdict]:
        said.append(stage.refused)
        if len(said) <= 2:
            raise trouble
        return commit(*given)

    monkeypatch.setattr(books, "commit", refuse_twice)
    stage.run(batch_of(message(run, "q0", "q1")))

    assert [*said, stage.refused] == ["", told, told, ""]


def test_a_beginning_whose_answer_is_lost_is_one_attempt_however_often_it_is_repeated(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer that an outage cut off counted another one, and the worker was said to have died in it."""
    monkeypatch.setattr("workers.outages.LONGEST_PAUSE_S", 0.001)
    run = open_run(books, make_questions(2))
    monkeypatch.setattr(books, "begin", unheard_at_first(books.begin, SETTINGS.max_attempts + 1))

    score(books, engine, message(run, "q0", "q1"))

    assert engine.calls == [2]
    assert [verdict_of(books, run, each).attempts for each in ("q0", "q1")] == [1, 1]


def test_a_suspect_whose_beginning_is_not_answered_has_not_had_its_last_attempt(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message was requeued with that attempt counted, and it failed without having been asked."""
    monkeypatch.setattr("workers.outages.LONGEST_PAUSE_S", 0.001)
    monkeypatch.setattr("workers.stages.pauses.RETRY_PAUSE_S", 0)
    run = open_run(books, make_questions(1))
    for _ in range(SETTINGS.max_attempts - 2):
        books.begin(run.run_id, ["q0"])
    begin, unheard = books.begin, unheard_at_first(books.begin, 2)
    monkeypatch.setattr(
        books, "begin", lambda of, ids, below, *more: (begin if below else unheard)(of, ids, below, *more)
    )

    engine.dies_at = lambda _: len(engine.calls) == 1  # so that it has another one, its last
    for _ in range(2):
        score(books, engine, message(run, "q0"))

    assert engine.calls == [1, 1]
    assert verdict_of(books, run, "q0").error is None
    assert verdict_of(books, run, "q0").attempts == SETTINGS.max_attempts


@pytest.mark.usefixtures("no_pauses")
def test_a_failed_attempt_that_is_recorded_without_an_answer_is_one_of_all_that_a_question_has(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reason was recorded twice, and counted as two attempts."""
    monkeypatch.setattr("workers.outages.LONGEST_PAUSE_S", 0.001)
    run = open_run(books, make_questions(1))
    engine.raises = {"What is": OSError("too many open files")}
    monkeypatch.setattr(books, "note_trouble", unheard_at_first(books.note_trouble, 2))

    for _ in range(SETTINGS.max_attempts):
        assert not books.counts(run.run_id).finished
        score(books, engine, message(run, "q0"))

    assert engine.calls == [1] * SETTINGS.max_attempts
    assert error_of(books, run, "q0").message.count("too many open files") == SETTINGS.max_attempts


@pytest.mark.parametrize("call", ["commit", "passages"])
def test_a_ledger_that_is_away_between_begin_and_verdict_costs_no_question_an_attempt(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The batch was requeued with its attempts counted: after some outages, a worker was said to have died."""
    monkeypatch.setattr("workers.outages.LONGEST_PAUSE_S", 0.001)
    run = open_run(books, make_questions(2))
    monkeypatch.setattr(books, call, away_at_first(getattr(books, call), SETTINGS.max_attempts + 1))

    batch = score(books, engine, message(run, "q0", "q1"))

    assert engine.calls == [2]
    assert [verdict_of(books, run, each).attempts for each in ("q0", "q1")] == [1, 1]
    assert batch.held[0].settlement is Settlement.ACKNOWLEDGE


def test_a_ledger_that_goes_away_before_the_last_run_of_a_batch_is_begun_costs_those_before_it_no_attempt(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch was requeued, and questions that had not been asked once became suspects, to be asked alone."""
    monkeypatch.setattr("workers.outages.LONGEST_PAUSE_S", 0.001)
    one, other = (open_run(books, make_questions(2), name) for name in ("one", "other"))
    begin, away = books.begin, away_at_first(books.begin, SETTINGS.max_attempts + 1)
    monkeypatch.setattr(books, "begin", lambda run, *more: (away if run == other.run_id else begin)(run, *more))

    batch = score(books, engine, message(one, "q0", "q1"), message(other, "q0", "q1"))

    assert engine.calls == [4]
    assert [verdict_of(books, run, each).attempts for run in (one, other) for each in ("q0", "q1")] == [1] * 4
    assert [each.settlement for each in batch.held] == [Settlement.ACKNOWLEDGE] * 2


@pytest.mark.parametrize(("call", "asked"), [("begin", 2), ("passages", 2), ("commit", 4)])
def test_a_run_whose_data_are_damaged_is_put_off_alone(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch, call: str, asked: int
) -> None:
    """It has a message in every batch, as runs take turns: none of the others was ever asked."""
    damaged, sound = (open_run(books, make_questions(2), name, rag=RAG) for name in ("damaged", "sound"))
    for run in (damaged, sound):
        books.attach(run.run_id, {each: [] for each in ("q0", "q1")})
    works = getattr(books, call)

    def refuse(run_id: str, *more: Any) -> object:
        if run_id == damaged.run_id and more[0]:
            raise LedgerError("Redis refuses: WRONGTYPE.")
        return works(run_id, *more)

    monkeypatch.setattr(books, call, refuse)
    stage, batch = scorer(books, engine), batch_of(message(damaged, "q0", "q1"), message(sound, "q0", "q1"))
    stage.run(batch)
    assert engine.calls == [asked]
    assert books.counts(sound.run_id).finished
    assert [each.settlement for each in batch.held] == [Settlement.REQUEUE, Settlement.ACKNOWLEDGE]
    assert stage.puts_off == {damaged.run_id: "Redis refuses: WRONGTYPE."}
    monkeypatch.undo()
    assert [each.attempts for each in books.begin(damaged.run_id, ["q0"])] == [1], "no attempt was charged"


def test_a_run_whose_data_stay_damaged_is_told_once_and_not_every_second(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = open_run(books, make_questions(2))
    stage = scorer(books, engine)
    said = ["WRONGTYPE", "WRONGTYPE", "WRONGTYPE", "ERR syntax error", "ERR syntax error"]
    left = iter(said)

    def refuse(*_: Any) -> object:
        raise LedgerError(f"Redis refuses: {next(left)}.")

    monkeypatch.setattr(books, "commit", refuse)
    for why in said:
        stage.run(batch_of(message(damaged, "q0", "q1")))
        assert stage.puts_off == {damaged.run_id: f"Redis refuses: {why}."}
    told = [each.getMessage() for each in caplog.records if "put off" in each.getMessage()]
    assert told == [
        f"run {damaged.run_id} is put off: Redis refuses: {each}." for each in ("WRONGTYPE", "ERR syntax error")
    ]


@pytest.mark.parametrize("call", ["note_trouble", "troubles"])
def test_a_run_whose_reasons_for_failed_attempts_are_damaged_is_put_off_alone(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    damaged, sound = (open_run(books, make_questions(2), name) for name in ("damaged", "sound"))
    works = getattr(books, call)

    def refuse(run_id: str, *more: Any) -> object:
        if run_id == damaged.run_id:
            raise LedgerError("Redis refuses: WRONGTYPE.")
        return works(run_id, *more)

    if call == "troubles":  # of one that has had all attempts
        for _ in range(SETTINGS.max_attempts):
            books.begin(damaged.run_id, ["q0"])
    else:
        engine.raises = {"What is": OSError("too many open files")}
    monkeypatch.setattr(books, call, refuse)
    stage, batch = scorer(books, engine), batch_of(message(damaged, "q0", "q1"), message(sound, "q0", "q1"))
    stage.run(batch)
    assert stage.puts_off == {damaged.run_id: "Redis refuses: WRONGTYPE."}
    assert batch.held[0].settlement is Settlement.REQUEUE
    if call == "troubles":
        assert books.counts(sound.run_id).finished
    else:
        assert all(books.troubles(sound.run_id, each) for each in ("q0", "q1"))
    monkeypatch.undo()
    had = SETTINGS.max_attempts if call == "troubles" else 0
    begun = books.begin(damaged.run_id, ["q0", "q1"])
    assert [each.attempts for each in begun] == [had + 1, 1], "no attempt was charged, and none taken back"


def test_an_unreadable_question_of_a_run_whose_reasons_are_damaged_keeps_no_other_run_from_being_asked(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was in a batch with it was requeued, again and again."""
    damaged, sound = (open_run(books, make_questions(2), name) for name in ("damaged", "sound"))
    begin = books.begin

    def begin_readable(run_id: str, question_ids: Sequence[str], *more: Any) -> list[Begun]:
        if run_id == damaged.run_id and "q0" in question_ids:
            raise ValueError("a question that is no JSON")
        return begin(run_id, question_ids, *more)

    def refuse(*_: Any) -> NoReturn:
        raise LedgerError("Redis refuses: WRONGTYPE.")

    monkeypatch.setattr(books, "begin", begin_readable)
    monkeypatch.setattr(books, "note_trouble", refuse)
    stage, batch = scorer(books, engine), batch_of(message(damaged, "q0", "q1"), message(sound, "q0", "q1"))
    stage.run(batch)
    assert books.counts(sound.run_id).finished
    assert [each.settlement for each in batch.held] == [Settlement.REQUEUE, Settlement.ACKNOWLEDGE]
    assert verdict_of(books, damaged, "q1").error is None


def test_what_was_not_begun_of_a_damaged_run_keeps_its_attempts(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What had had all attempts is not counted once more; one of them was taken back each time."""
    damaged = open_run(books, make_questions(1))
    for _ in range(SETTINGS.max_attempts):
        books.begin(damaged.run_id, ["q0"])

    def refuse(*_: Any) -> object:
        raise LedgerError("Redis refuses: WRONGTYPE.")

    monkeypatch.setattr(books, "commit", refuse)
    stage = scorer(books, engine)
    stage.run(batch_of(message(damaged, "q0")))
    assert stage.puts_off
    assert engine.calls == []
    assert [each.attempts for each in books.begin(damaged.run_id, ["q0"])] == [SETTINGS.max_attempts + 1]


def test_a_ledger_that_is_away_when_a_question_is_given_up_costs_its_neighbours_no_attempt(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.outages.LONGEST_PAUSE_S", 0.001)
    run = open_run(books, make_questions(2))
    for _ in range(SETTINGS.max_attempts):
        books.begin(run.run_id, ["q1"])
    monkeypatch.setattr(books, "troubles", away_at_first(books.troubles, 1))

    batch = batch_of(message(run, "q0", "q1"))
    scorer(books, engine).run(batch)

    assert verdict_of(books, run, "q0").attempts == 1
    assert error_of(books, run, "q1").type == "TooManyAttempts"
    assert batch.held[0].settlement is Settlement.ACKNOWLEDGE


@pytest.mark.parametrize(
    ("trouble", "stopping"),
    [(RedisUnreachable("away"), True), (LedgerError("damaged"), False)],
    ids=["away", "damaged"],
)
def test_scored_work_is_asked_again_where_the_worker_stops_or_waiting_is_of_no_use(
    engine: CountingEngine, monkeypatch: pytest.MonkeyPatch, trouble: LedgerError, stopping: bool
) -> None:
    class Refusing(MemoryLedger):
        def commit(self, run_id: str, verdicts: Sequence[Verdict], engine: EngineUsed | None = None) -> list[Verdict]:
            if verdicts:
                raise trouble
            return super().commit(run_id, verdicts, engine)

    monkeypatch.setattr("workers.stages.pauses.RETRY_PAUSE_S", 0)
    books = Refusing()
    run = open_run(books, make_questions(2))
    batch = batch_of(message(run, "q0", "q1"))
    scorer(books, engine, stopping=lambda: stopping).run(batch)
    assert batch.held[0].settlement is Settlement.REQUEUE
    assert list(books.unsettled(run.run_id)) == ["q0", "q1"]
    assert engine.calls == [2]
    assert [books.troubles(run.run_id, each) for each in ("q0", "q1")] == [[], []], "no question is to blame"
