"""A server that refuses everybody is waited for, and costs no question an attempt."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from openai import InternalServerError

from contract import MemoryLedger
from contract.errors import EngineDead
from tests.support import PATIENCE_S, make_questions, open_run, wait_until
from tests.unit.workers.engines.openai.server import LETTERS, WRITE, Script, serving, settings_for, started
from tests.unit.workers.messages.batches import batch_of, message
from tests.unit.workers.stages.support import at_once, scorer
from workers.engines import make_engine
from workers.engines.base import UnexpectedFailure
from workers.engines.openai.connection import Connection
from workers.engines.openai.patience import Patience
from workers.messages.batch import Settlement

pytestmark = pytest.mark.usefixtures("short_pauses")


@pytest.mark.parametrize("status", [402, 408, 409, 429, 500, 503])
def test_a_server_that_refuses_everybody_is_waited_for_and_costs_no_question_an_attempt(status: int) -> None:
    script, books = Script(), MemoryLedger()
    run = open_run(books, make_questions(8), model="grader")
    with started(script, max_retries=0) as engine:
        stage = scorer(books, engine, engine.settings, stopping=at_once)
        script.refusals = [status] * 40
        stage.run(batch_of(message(run, *[f"q{i}" for i in range(8)])))
        assert not script.refusals
        assert books.counts(run.run_id).settled == 8
        assert not any(books.troubles(run.run_id, f"q{i}") for i in range(8))
        assert engine.waits_for == ""


def test_requests_that_are_refused_together_are_told_apart_from_a_refusal_of_everybody_by_one_small_request() -> None:
    script = Script(unwanted={"Write.": 403}, slow_text="Write.")
    with started(script, concurrency=16) as engine, ThreadPoolExecutor() as pool:
        asked = pool.submit(engine.generate, [WRITE] * 16)
        wait_until(lambda: script.at_once == 16, "all requests to arrive")
        script.slow_text = ""
        script.released.set()
        assert all(each.error for each in asked.result())
    assert len(script.asked) < 16 + 16


def test_one_request_that_takes_a_proxy_too_long_ends_no_engine() -> None:
    script = Script(unwanted={"Write.": 504})
    with started(script, max_retries=0) as engine:
        refused, other = engine.generate([WRITE, LETTERS])
    assert isinstance(refused.error, UnexpectedFailure)
    assert other.error is None


def test_a_server_of_our_own_that_refuses_everybody_is_replaced_and_not_waited_for() -> None:
    with serving(Script(refusals=[500])) as url:
        connection = Connection(settings_for(url).openai)
        patience = Patience(connection, lambda: False, in_chat=False, is_ours=True)
        with pytest.raises(InternalServerError):
            patience.outlast()


def test_a_worker_that_stops_waits_no_longer() -> None:
    script, stopping = Script(), threading.Event()
    with serving(script) as url:
        engine = make_engine(settings_for(url, max_retries=0))
        engine.stopping = stopping.is_set
        engine.start()
        with ThreadPoolExecutor() as pool:
            script.refusals = [429] * 100_000
            asked = pool.submit(engine.generate, [WRITE, LETTERS])
            wait_until(lambda: bool(engine.waits_for), "refusal")
            stopping.set()
            with pytest.raises(EngineDead, match="stopped while it waited for the server, which refuses everything"):
                asked.result()
        engine.close()


def test_a_worker_that_is_drained_while_it_waits_costs_no_question_an_attempt() -> None:
    script, stopping, books = Script(), threading.Event(), MemoryLedger()
    run = open_run(books, make_questions(4), model="grader")
    with serving(script) as url:
        engine = make_engine(settings_for(url, max_retries=0))
        engine.stopping = stopping.is_set
        engine.start()
        stage = scorer(books, engine, engine.settings, stopping=stopping.is_set)
        batch = batch_of(message(run, "q0", "q1", "q2", "q3"))
        with ThreadPoolExecutor() as pool:
            script.refusals = [429] * 100_000
            running = pool.submit(stage.run, batch)
            wait_until(lambda: bool(engine.waits_for), "refusal")
            stopping.set()
            running.result()
        engine.close()
    assert batch.held[0].settlement is Settlement.REQUEUE
    assert [each.attempts for each in books.begin(run.run_id, ["q0", "q1", "q2", "q3"])] == [1] * 4
    assert not any(books.troubles(run.run_id, f"q{i}") for i in range(4))


def test_what_a_server_that_refuses_everybody_says_is_shown_while_it_is_waited_for() -> None:
    script = Script()
    with started(script, max_retries=0, api_key="s3cret") as engine:
        script.refusals = [429] * 100_000
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(engine.generate, [WRITE])
            wait_until(lambda: bool(engine.waits_for), "refusal")
            said = engine.waits_for
            script.refusals = []
            assert asked.result()[0].error is None
    assert said.startswith(f"the server, which refuses everything for now: {script.url}/v1: Error code: 429")


def test_an_engine_that_is_closed_waits_no_longer() -> None:
    script = Script(refusals=[])
    with started(script, max_retries=0) as engine, ThreadPoolExecutor() as pool:
        script.refusals = [429] * 100_000
        asked = pool.submit(engine.generate, [WRITE])
        wait_until(lambda: bool(engine.waits_for), "refusal")
        engine.close()
        with pytest.raises(EngineDead, match="stopped while it waited"):
            asked.result()


def test_a_worker_that_is_drained_asks_no_more_of_a_server_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends at once instead of after all retries of each request, and the questions keep their attempts."""
    paused = threading.Event()

    def long_pause_s(*_: object) -> float:
        paused.set()
        return 2 * PATIENCE_S

    monkeypatch.setattr("openai.OpenAI._calculate_retry_timeout", long_pause_s)
    stopping, books = threading.Event(), MemoryLedger()
    run = open_run(books, make_questions(1), model="grader")
    with serving(Script()) as url:
        engine = make_engine(settings_for(url))
        engine.stopping = stopping.is_set
        engine.start()
    stage = scorer(books, engine, engine.settings, stopping=stopping.is_set)
    batch = batch_of(message(run, "q0"))
    with ThreadPoolExecutor() as pool:
        running = pool.submit(stage.run, batch)
        assert paused.wait(PATIENCE_S)
        stopping.set()
        running.result(PATIENCE_S)
    engine.close()
    assert batch.held[0].settlement is Settlement.REQUEUE
    assert [each.attempts for each in books.begin(run.run_id, ["q0"])] == [1]
    assert not books.troubles(run.run_id, "q0")


def test_a_long_pause_that_the_server_wants_before_a_retry_is_told_and_ends_with_the_worker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As LiteLLM's proxy, which asks for a minute: each retry was waited for in silence, and drained workers killed."""
    script, stopping, books = Script(), threading.Event(), MemoryLedger()
    run = open_run(books, make_questions(2), model="grader")
    with serving(script) as url:
        engine = make_engine(settings_for(url))
        engine.stopping = stopping.is_set
        engine.start()
        stage = scorer(books, engine, engine.settings, stopping=stopping.is_set)
        batch = batch_of(message(run, "q0", "q1"))
        script.refusals, script.retry_after_ms = [429] * 100, 60_000
        with ThreadPoolExecutor() as pool:
            running = pool.submit(stage.run, batch)
            wait_until(lambda: bool(engine.waits_for), "refusal")
            told = f"the server, which wants 60 s to pass before a retry: {url}/v1: Error code: 429 - not now"
            assert engine.waits_for == told
            stopping.set()
            running.result(PATIENCE_S)
        assert engine.waits_for == ""
        engine.close()
    assert f"waiting for {told}" in caplog.messages
    assert batch.held[0].settlement is Settlement.REQUEUE
    assert [each.attempts for each in books.begin(run.run_id, ["q0", "q1"])] == [1] * 2


#: What these answer to any request: LiteLLM's proxy to a key whose budget is used up, and to a wrong one if it has no
#: database; Google to a wrong key.
LIKE_BAD_REQUESTS = [
    {"message": "Budget has been exceeded! Current cost: 0.3759, Max budget: 0.35", "type": "budget_exceeded"},
    {"message": "No connected db.", "type": "no_db_connection", "param": None, "code": "400"},
    {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"},
]


@pytest.mark.parametrize("error", LIKE_BAD_REQUESTS)
def test_a_server_that_calls_every_request_a_bad_one_fails_no_question(error: dict[str, Any]) -> None:
    class Closed(Script):
        is_closed = False

        def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
            return (400, {"error": error}) if self.is_closed else super().answer(path, body)

    script, books = Closed(), MemoryLedger()
    run = open_run(books, make_questions(4), model="grader")
    with started(script) as engine:
        script.is_closed = True
        batch = batch_of(message(run, "q0", "q1", "q2", "q3"))
        scorer(books, engine, engine.settings, stopping=at_once).run(batch)
    assert batch.held[0].settlement is Settlement.REQUEUE
    assert books.counts(run.run_id).settled == 0
    assert "no longer serves requests" in batch.fatal
    assert str(error["message"]) in batch.fatal


def test_questions_that_are_bad_requests_fail_alone_however_many_they_are() -> None:
    script, books = Script(unwanted={"plus": 400}), MemoryLedger()
    run = open_run(books, make_questions(4), model="grader")
    with started(script) as engine:
        scorer(books, engine, engine.settings, stopping=at_once).run(batch_of(message(run, "q0", "q1", "q2", "q3")))
    errors = [verdict.error for _, verdict in books.results(run.run_id) if verdict]
    assert [each and each.type for each in errors] == ["BadRequestError"] * 4
