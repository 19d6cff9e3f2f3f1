"""A batch between ledger and engine, on the ledger in memory."""

from __future__ import annotations

import contextlib
import gc
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from typing import Any, NoReturn

import pytest

from contract import Ledger, MemoryLedger, Outcome, Run, RunSpec, RunState, load_settings
from contract.errors import EngineDead, LedgerError, RedisUnreachable, RequestRejected, UnreadableRun, WaitEnded
from contract.keys import score_queue
from contract.ledger import UNCOUNTED
from contract.question import Question
from contract.queue import MESSAGE_VERSION, QuestionBatch
from contract.verdict import Failure, Verdict
from tests.support import PATIENCE_S, SIMULATED_MODEL, make_question, make_questions, open_run
from tests.unit.workers.batches import PUBLISHED_AT, away_at_first, batch_of, message
from tests.unit.workers.engines import SlowTexts
from workers.engines.base import Completion, Engine, Request
from workers.engines.simulated import SimulatedEngine
from workers.messages.batch import Batch, HeldMessage, Settlement
from workers.scoring import Reading
from workers.stages.base import RETRY_PAUSE_S
from workers.stages.scoring import BatchScorer, gathered
from workers.stages.work import KNOWN_RUNS, StageContext
from workers.verdicts import outcome_of

SETTINGS = load_settings(None, ["engine=simulated", f"model={SIMULATED_MODEL}", "max_attempts=4"])


class CountingEngine(SimulatedEngine):
    """The simulated engine, with its calls counted and a death on demand."""

    def __init__(self) -> None:
        super().__init__(SETTINGS)
        self.start()
        self.calls: list[int] = []
        self.dies_at: Callable[[Sequence[Request]], bool] = lambda _: False
        self.death = EngineDead("gone")
        self.raises: dict[str, Exception] = {}

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        self.calls.append(len(requests))
        if self.dies_at(requests):
            raise self.death
        for text, trouble in self.raises.items():
            if any(text in each.prompt for each in requests):
                raise trouble
        return super().generate(requests)


def nowhere(queue: str, messages: Sequence[QuestionBatch]) -> None:
    raise AssertionError(f"{len(messages)} messages sent to {queue}")


@pytest.fixture
def engine() -> CountingEngine:
    return CountingEngine()


@pytest.fixture
def books() -> MemoryLedger:
    return MemoryLedger()


def score(books: Ledger, engine: Engine, *held: HeldMessage) -> Batch:
    batch = batch_of(*held)
    BatchScorer(StageContext(SETTINGS, books, "w@host", nowhere), engine).run(batch)
    return batch


def verdict_of(books: Ledger, run: Run, question_id: str) -> Verdict:
    verdict = books.result(run.run_id, question_id)[1]
    assert verdict is not None
    return verdict


def test_messages_are_acknowledged_once_their_verdicts_stand(books: MemoryLedger, engine: CountingEngine) -> None:
    began = time.time()
    run = open_run(books, make_questions(6))
    batch = score(books, engine, message(run, "q0", "q1", "q2"), message(run, "q3", "q4", "q5"))
    assert engine.calls == [6]
    assert books.counts(run.run_id).finished
    assert [held.settlement for held in batch.held] == [Settlement.ACKNOWLEDGE] * 2
    verdict = verdict_of(books, run, "q4")
    assert 0 <= time.time() - PUBLISHED_AT - verdict.queued_ms / 1000 <= time.time() - began
    assert (verdict.worker, verdict.batch_size, verdict.attempts) == ("w@host", 6, 1)
    assert re.fullmatch("w@host/[0-9a-f]{6}/1", verdict.batch_id)
    assert verdict.settled_at > 0


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


def test_only_questions_that_were_begun_are_in_a_batchs_line(
    books: MemoryLedger, engine: CountingEngine, caplog: pytest.LogCaptureFixture
) -> None:
    paused, half = open_run(books, make_questions(2), "paused"), open_run(books, make_questions(2), "half")
    books.halt(paused.run_id, RunState.PAUSED)
    score(books, engine, message(half, "q0"))
    caplog.clear()
    with caplog.at_level("INFO"):
        batch = score(books, engine, message(paused, "q0", "q1"), message(half, "q0", "q1"))
        score(books, engine, message(paused, "q0", "q1"))

    lines = [each.getMessage() for each in caplog.records if each.getMessage().startswith("batch ")]
    assert (batch.questions, batch.begun) == (4, 1)
    assert [line.partition(" in ")[0] for line in lines] == ["batch 1: 1 question"]


def test_batches_of_two_processes_of_one_name_have_ids_of_their_own(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    """The second one's batches, which are numbered from 1 as well, were counted as the first one's."""
    run = open_run(books, make_questions(2))
    for question_id in ("q0", "q1"):
        score(books, engine, message(run, question_id))
    assert len({verdict_of(books, run, each).batch_id for each in ("q0", "q1")}) == 2


def test_a_worker_does_not_remember_every_run_that_it_ever_served(books: MemoryLedger, engine: CountingEngine) -> None:
    scorer = BatchScorer(StageContext(SETTINGS, books, "w@host", nowhere), engine)
    for number in range(KNOWN_RUNS + 40):  # as callers of the HTTP door make them
        run = open_run(books, make_questions(1), f"http-{number}", seed=number)
        scorer.run(batch_of(message(run, "q0")))
        assert books.counts(run.run_id).finished
        books.purge(run.run_id)
    del run
    gc.collect()
    remembered = {each.seed for each in gc.get_objects() if type(each) is RunSpec}
    assert remembered >= set(range(40, KNOWN_RUNS + 39))
    assert not remembered & set(range(1, 39))


def test_a_run_that_only_a_newer_worker_can_read_waits_for_one_however_often_it_comes(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(books, make_questions(2))
    scorer = BatchScorer(StageContext(SETTINGS, books, "w@host", nowhere, stopping=lambda: True), engine)
    with monkeypatch.context() as older:
        older.setattr(books, "run", lambda run_id: (_ for _ in ()).throw(UnreadableRun(f"{run_id}: spec.new")))
        for _ in range(SETTINGS.max_attempts + 2):
            held = message(run, "q0", "q1")
            scorer.run(batch_of(held))
            assert held.settlement is Settlement.REQUEUE
        assert scorer.puts_off == {run.run_id: f"{run.run_id}: spec.new"}
    assert (engine.calls, books.counts(run.run_id).settled) == ([], 0)

    scorer.run(batch_of(message(run, "q0", "q1")))

    assert books.counts(run.run_id).finished
    assert scorer.puts_off == {}


def test_messages_of_a_run_wait_together_for_the_worker_that_can_read_the_newest(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    run = open_run(books, make_questions(2))
    scorer = BatchScorer(StageContext(SETTINGS, books, "w@host", nowhere, stopping=lambda: True), engine)
    batch = batch_of(message(run, "q0"), message(run, "q1", version=MESSAGE_VERSION + 1))
    scorer.run(batch)
    assert (engine.calls, books.counts(run.run_id).settled) == ([], 0)
    assert [held.settlement for held in batch.held] == [Settlement.REQUEUE] * 2


@pytest.mark.parametrize("ended", ["halted", "purged"])
def test_a_run_that_is_halted_or_purged_is_no_longer_put_off(
    books: MemoryLedger, engine: CountingEngine, ended: str
) -> None:
    run = open_run(books, make_questions(1))
    scorer = BatchScorer(StageContext(SETTINGS, books, "w@host", nowhere, stopping=lambda: True), engine)
    scorer.run(batch_of(message(run, "q0", version=MESSAGE_VERSION + 1)))
    assert list(scorer.puts_off) == [run.run_id]
    if ended == "halted":
        books.halt(run.run_id, RunState.PAUSED)
    else:
        books.purge(run.run_id)
    scorer.run(batch_of(message(run, "q0", version=MESSAGE_VERSION + 1)))
    assert scorer.puts_off == {}


def test_a_batch_of_which_all_was_put_off_rests_before_it_comes_again_and_one_that_did_something_does_not(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    run, other = (open_run(books, make_questions(1), name) for name in ("put-off", "other"))
    scorer = BatchScorer(StageContext(SETTINGS, books, "w@host", nowhere, stopping=lambda: True), engine)
    put_off = message(run, "q0", version=MESSAGE_VERSION + 1)
    for held, pause_s in (([put_off, message(other, "q0")], 0.0), ([put_off], RETRY_PAUSE_S)):
        batch = batch_of(*held)
        scorer.run(batch)
        assert batch.pause_s == pause_s


def test_a_batch_rests_before_it_comes_again_because_the_ledger_was_away(
    engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> NoReturn:
        raise RedisUnreachable("away")

    books = MemoryLedger()
    run = open_run(books, make_questions(2))
    monkeypatch.setattr(books, "begin", away)
    scorer = BatchScorer(StageContext(SETTINGS, books, "w@host", nowhere, stopping=lambda: True), engine)
    batch = batch_of(message(run, "q0", "q1"))
    scorer.run(batch)
    assert (batch.pause_s, batch.held[0].settlement) == (RETRY_PAUSE_S, Settlement.REQUEUE)
    assert books.troubles(run.run_id, "q0") == [], "no question is to blame"


def test_the_ledger_keeps_what_answered_a_run_also_when_a_worker_of_the_name_is_another_one(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    class Newer(CountingEngine):
        def describe(self) -> dict[str, Any]:
            return super().describe() | {"dtype": "float32"}

    run = open_run(books, make_questions(6))
    for number, each in enumerate((engine, engine, Newer())):
        score(books, each, message(run, f"q{number}"))
    old, new = books.engines(run.run_id)
    known = {"mcqueue": metadata.version("mcqueue"), **engine.describe()}
    assert (old.engine, new.engine) == (known, known | {"dtype": "float32"})
    assert {old.worker, new.worker} == {"w@host"}
    first, last = verdict_of(books, run, "q0"), verdict_of(books, run, "q2")
    assert old.since <= first.settled_at <= new.since <= last.settled_at


def test_a_run_that_was_purged_and_enqueued_again_has_its_engine_in_the_ledger(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    scorer = BatchScorer(StageContext(SETTINGS, books, "w@host", nowhere), engine)
    for _ in range(2):
        run = open_run(books, make_questions(2))
        scorer.run(batch_of(message(run, "q0")))
        scorer.run(batch_of(message(run, "q1")))
        assert len(books.engines(run.run_id)) == 1
        books.purge(run.run_id)


def test_verdicts_say_that_the_engine_made_them_up(books: MemoryLedger, engine: CountingEngine) -> None:
    run = open_run(books, make_questions(2))
    score(books, engine, message(run, "q0"))
    as_if_real = StageContext(SETTINGS.model_copy(update={"engine": "vllm"}), books, "w@host", nowhere)
    BatchScorer(as_if_real, engine).run(batch_of(message(run, "q1")))
    assert verdict_of(books, run, "q0").simulated
    assert not verdict_of(books, run, "q1").simulated


def test_a_batch_of_long_prompts_is_asked_in_calls_whose_verdicts_stand_one_by_one(books: MemoryLedger) -> None:
    settings = SETTINGS.model_copy(update={"batch_tokens": 25})
    engine, standing = CountingEngine(), []
    engine.dies_at = lambda _: bool(standing.append(books.counts(run.run_id).settled))  # type: ignore[func-returns-value]
    run = open_run(books, make_questions(6))
    scorer = BatchScorer(StageContext(settings, books, "w@host", nowhere), engine)
    scorer.run(batch_of(message(run, "q0", "q1", "q2", "q3", "q4", "q5")))
    assert engine.calls == [2, 2, 2]
    assert standing == [0, 2, 4]
    assert books.counts(run.run_id).finished


def test_verdicts_stand_while_the_longest_text_of_their_batch_is_still_written(books: MemoryLedger) -> None:
    standing: list[int] = []

    class Watched(SlowTexts):
        def answer(self, request: Request) -> Completion:
            standing.append(books.counts(run.run_id).settled)
            return super().answer(request)

    run = open_run(books, make_questions(4))
    batch = batch_of(message(run, "q0", "q1"), message(run, "q2", "q3"))
    calls: list[tuple[int, float]] = []
    at_once = SETTINGS.model_copy(update={"settle_every_s": 1e-9})
    context = StageContext(
        at_once, books, "w@host", nowhere, generated=lambda questions, seconds, _: calls.append((questions, seconds))
    )
    BatchScorer(context, Watched(SETTINGS, "What is 2 plus")).run(batch)
    latencies_s = [verdict_of(books, run, f"q{n}").latency_ms / 1000 for n in range(4)]
    assert calls == [(4, max(latencies_s))], "it is one call, as long as its slowest answer"
    assert latencies_s[2] == max(latencies_s)
    assert standing == [0, 0, 0, 3]
    assert books.counts(run.run_id).finished
    assert [held.settlement for held in batch.held] == [Settlement.ACKNOWLEDGE] * 2


def test_what_is_read_within_seconds_is_committed_together_and_before_an_error() -> None:
    now_s, committed = 0.0, []

    def parts() -> Iterator[list[str]]:
        nonlocal now_s
        for seconds, part in ((2, ["a"]), (2, ["b"]), (2, []), (2, ["c"]), (7, ["d"]), (1, ["e"]), (1, [])):
            now_s += seconds
            yield part
        raise EngineDead("gone")

    def commit() -> None:
        for part in gathered(parts(), 5, lambda: now_s):
            committed.append((now_s, part))

    with pytest.raises(EngineDead):
        commit()
    assert committed == [(6, ["a", "b"]), (15, ["c", "d"]), (17, ["e"])]


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


def test_settled_questions_are_not_asked_again(books: MemoryLedger, engine: CountingEngine) -> None:
    run = open_run(books, make_questions(4))
    score(books, engine, message(run, "q0", "q1"))
    batch = score(books, engine, message(run, "q0", "q1", "q2"))
    assert engine.calls == [2, 1]
    assert "2 settled before" in batch.held[0].summary


def test_a_question_that_came_in_two_messages_is_asked_once(books: MemoryLedger, engine: CountingEngine) -> None:
    run = open_run(books, make_questions(2))
    batch = score(books, engine, message(run, "q0", "q1"), message(run, "q1"))
    assert engine.calls == [2]
    assert all(held.settlement is Settlement.ACKNOWLEDGE for held in batch.held)


def test_runs_share_a_batch_and_keep_their_books_apart(books: MemoryLedger, engine: CountingEngine) -> None:
    one = open_run(books, make_questions(2), name="one")
    two = open_run(books, make_questions(3), name="two")
    score(books, engine, message(one, "q0", "q1"), message(two, "q0", "q1", "q2"))
    assert engine.calls == [5]
    assert (books.counts(one.run_id).settled, books.counts(two.run_id).settled) == (2, 3)


def test_a_purged_run_is_dropped_and_its_company_scored(books: MemoryLedger, engine: CountingEngine) -> None:
    gone = open_run(books, make_questions(2), name="gone")
    here = open_run(books, make_questions(2), name="here")
    books.purge(gone.run_id)
    batch = score(books, engine, message(gone, "q0"), message(here, "q0", "q1"))
    assert engine.calls == [2]
    assert [held.settlement for held in batch.held] == [Settlement.ACKNOWLEDGE] * 2


def test_only_what_is_newly_settled_is_counted_and_not_what_another_worker_settled_or_a_purged_run_had(
    engine: CountingEngine,
) -> None:
    class Overtaken(MemoryLedger):
        """Another worker settles q0 first, and the run `gone` is purged, while this one scores."""

        def commit(self, run_id: str, verdicts: Sequence[Verdict]) -> list[Verdict]:
            if run_id == gone.run_id:
                self.purge(run_id)
            else:
                super().commit(run_id, [Verdict(question_id="q0", outcome=Outcome.WRONG)])
            return super().commit(run_id, verdicts)

    books = Overtaken()
    gone, run = open_run(books, make_questions(2), name="gone"), open_run(books, make_questions(3))
    counted: list[Verdict] = []
    scorer = BatchScorer(StageContext(SETTINGS, books, "w@host", nowhere, committed=counted.extend), engine)
    scorer.run(batch_of(message(gone, "q0", "q1"), message(run, "q0", "q1", "q2")))
    assert [each.question_id for each in counted] == ["q1", "q2"]
    assert scorer.done == 2


def test_batches_that_are_committed_at_the_same_time_are_all_counted(engine: CountingEngine) -> None:
    class Together(MemoryLedger):
        both = threading.Barrier(2)

        def commit(self, run_id: str, verdicts: Sequence[Verdict]) -> list[Verdict]:
            self.both.wait(PATIENCE_S)
            return super().commit(run_id, verdicts)

    books = Together()
    run = open_run(books, make_questions(4))
    scorer = BatchScorer(StageContext(SETTINGS, books, "w@host", nowhere), engine)
    batches = [batch_of(message(run, *ids), number=n) for n, ids in enumerate((("q0", "q1"), ("q2", "q3")))]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(scorer.run, batches))
    assert scorer.done == 4


@pytest.mark.parametrize("state", [RunState.PAUSED, RunState.CANCELLED])
def test_a_halted_run_is_put_aside_unscored_and_its_company_is_scored(
    books: MemoryLedger, engine: CountingEngine, state: RunState
) -> None:
    halted = open_run(books, make_questions(3), name="halted")
    other = open_run(books, make_questions(2), name="other")
    score(books, engine, message(halted, "q0"))
    books.halt(halted.run_id, state)
    batch = score(books, engine, message(halted, "q0", "q1", "q2"), message(other, "q0", "q1"))
    assert engine.calls == [1, 2]
    assert [held.settlement for held in batch.held] == [Settlement.ACKNOWLEDGE] * 2
    assert batch.held[0].summary == f"3 not begun: {state}"
    assert books.counts(halted.run_id).settled == 1
    books.resume(halted.run_id)
    assert list(books.take_aside(halted.run_id)) == ["q1", "q2"]


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
    scorer = BatchScorer(StageContext(SETTINGS, books, "w@host", nowhere, stopping=lambda: True), engine)
    scorer.run(batch_of(message(run, "q0", "q1")))
    counted = [each.attempts for each in books.begin(run.run_id, ["q0", "q1"], suspect_from=UNCOUNTED)]
    assert counted == [1, attempts]
    told = [books.troubles(run.run_id, each) for each in ("q0", "q1")]
    assert told == [["w@host: ZeroDivisionError: odd"], reasons]


def test_what_a_worker_has_given_back_is_no_longer_under_way_there(books: MemoryLedger, engine: CountingEngine) -> None:
    run = open_run(books, make_questions(1))
    engine.raises = {"": ZeroDivisionError("odd")}
    scorer = BatchScorer(StageContext(SETTINGS, books, "w@host", nowhere, stopping=lambda: True), engine)
    scorer.run(batch_of(message(run, "q0")))
    scorer.note_under_way("it hangs")
    scorer.uncount_under_way()
    assert books.troubles(run.run_id, "q0") == ["w@host: ZeroDivisionError: odd"]
    assert books.begin(run.run_id, ["q0"], suspect_from=UNCOUNTED)[0].attempts == 1


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
        scorer = BatchScorer(StageContext(settings, books, "w@host", nowhere), engine)
        scorer.run(batch_of(message(run, "q0", "q1", "q2", "q3")))
    convicted = verdict_of(books, run, "q2")
    assert convicted.outcome is Outcome.FAILED
    assert convicted.error is not None
    assert convicted.error.type == "TooManyAttempts"
    assert convicted.attempts == max_attempts
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
        scorer = BatchScorer(StageContext(SETTINGS, books, "w@host", nowhere), engine)
        beside = threading.Thread(target=scorer.run, args=(batch_of(message(run, "q1", "q2"), number=2),))
        engine.meanwhile = beside.start
        scorer.run(batch_of(message(run, "q0")))
        if beside.ident is None:  # the poison was not asked any more
            beside.start()
        beside.join()
    assert boots == 5 - deaths_before
    assert error_of(books, run, "q0").type == "TooManyAttempts"
    assert [verdict_of(books, run, each).attempts for each in ("q1", "q2")] == [3, 3]
    assert books.counts(run.run_id).of(Outcome.FAILED) == 1


# What nobody foresaw


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a batch would have rested."""
    pauses: list[float] = []
    monkeypatch.setattr(BatchScorer, "_pause", lambda _, seconds: pauses.append(seconds))
    return pauses


def error_of(books: Ledger, run: Run, question_id: str) -> Failure:
    error = verdict_of(books, run, question_id).error
    assert error is not None
    return error


def test_an_error_that_no_engine_should_raise_is_tried_again_with_growing_pauses_and_then_failed_with_every_reason(
    books: MemoryLedger, engine: CountingEngine, no_pauses: list[float]
) -> None:
    run = open_run(books, make_questions(4))
    engine.raises = {"What is 2 plus 2": ZeroDivisionError("odd")}
    settlements = [score(books, engine, message(run, "q0", "q1", "q2", "q3")).held[0].settlement for _ in range(4)]
    assert settlements == [Settlement.REQUEUE] * 3 + [Settlement.ACKNOWLEDGE]
    assert no_pauses == [1, 2, 4, 0]
    assert error_of(books, run, "q2").type == "TooManyAttempts"
    assert error_of(books, run, "q2").message == "attempted 4 times: " + "; ".join(
        ["w@host: ZeroDivisionError: odd"] * 4
    )
    assert verdict_of(books, run, "q2").attempts == 4
    assert {verdict_of(books, run, each).attempts for each in ("q0", "q1", "q3")} == {1}
    assert books.counts(run.run_id).of(Outcome.FAILED) == 1


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
    BatchScorer(StageContext(settings, books, "w@host", nowhere), engine).run(batch)
    assert asked[:4] == ["q0", "q1", "q2", "q3"]
    assert not {"q0", "q1", "q2", "q3"} & set(asked[4:])
    assert books.counts(run.run_id).settled == 5
    assert books.troubles(run.run_id, "q5") == ["w@host: ValueError: odd"]


@pytest.mark.parametrize(
    ("spec", "failure"),
    [
        ({"model": "another"}, "WrongModel"),
        ({"adapter": "law"}, "NoAdapter"),
        ({"vllm_version": "0.1.0"}, "WrongEngine"),
    ],
)
def test_what_this_worker_must_not_score_is_failed_with_the_reason(
    books: MemoryLedger, engine: CountingEngine, spec: dict[str, object], failure: str
) -> None:
    run = open_run(books, make_questions(1), "test", **spec)
    score(books, engine, message(run, "q0"))
    verdict = verdict_of(books, run, "q0")
    assert verdict.error is not None
    assert verdict.error.type == failure
    assert engine.calls == []


def test_a_worker_scores_a_run_that_spells_the_name_of_its_model_otherwise_since_it_gets_its_questions(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    run = open_run(books, make_questions(1), model=SIMULATED_MODEL.title())
    assert score_queue(run.spec.model) == score_queue(SETTINGS.served_model)
    score(books, engine, message(run, "q0"))
    assert verdict_of(books, run, "q0").error is None


def test_a_worker_that_must_not_score_a_run_is_not_told_as_one_that_answered_it(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    run = open_run(books, make_questions(1), model="another")
    score(books, engine, message(run, "q0"))
    assert books.engines(run.run_id) == []


def test_scored_work_waits_for_a_ledger_that_is_away(engine: CountingEngine) -> None:
    class Away(MemoryLedger):
        refusals = 2

        def commit(self, run_id: str, verdicts: Sequence[Verdict]) -> list[Verdict]:
            if self.refusals:
                self.refusals -= 1
                raise RedisUnreachable("away")
            return super().commit(run_id, verdicts)

    books = Away()
    run = open_run(books, make_questions(2))
    batch = score(books, engine, message(run, "q0", "q1"))
    assert engine.calls == [2]
    assert books.counts(run.run_id).finished
    assert batch.held[0].settlement is Settlement.ACKNOWLEDGE


@pytest.mark.parametrize("call", ["note_engine", "passages"])
def test_a_ledger_that_is_away_between_begin_and_verdict_costs_no_question_an_attempt(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The batch was requeued with its attempts counted: after some outages, a worker was said to have died."""
    monkeypatch.setattr("workers.stages.recorder.LONGEST_PAUSE_S", 0.001)
    run = open_run(books, make_questions(2))
    monkeypatch.setattr(books, call, away_at_first(getattr(books, call), SETTINGS.max_attempts + 1))

    batch = score(books, engine, message(run, "q0", "q1"))

    assert engine.calls == [2]
    assert [verdict_of(books, run, each).attempts for each in ("q0", "q1")] == [1, 1]
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
        def commit(self, run_id: str, verdicts: Sequence[Verdict]) -> list[Verdict]:
            if verdicts:
                raise trouble
            return super().commit(run_id, verdicts)

    monkeypatch.setattr("workers.stages.base.RETRY_PAUSE_S", 0)
    books = Refusing()
    run = open_run(books, make_questions(2))
    batch = batch_of(message(run, "q0", "q1"))
    BatchScorer(StageContext(SETTINGS, books, "w@host", nowhere, stopping=lambda: stopping), engine).run(batch)
    assert batch.held[0].settlement is Settlement.REQUEUE
    assert list(books.unsettled(run.run_id)) == ["q0", "q1"]
