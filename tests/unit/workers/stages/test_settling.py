"""What becomes of the questions of a batch: asked, settled, counted, left out, refused."""

from __future__ import annotations

import gc
import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from typing import Any, cast

import pytest

from contract import MemoryLedger, Outcome, RunSpec, RunState
from contract.engine_info import EngineUsed
from contract.errors import EngineDead
from contract.keys import score_queue
from contract.mode import Mode
from contract.spec import Sampling
from contract.verdict import Verdict
from tests.support import PATIENCE_S, SIMULATED_MODEL, make_questions, open_run, settle
from tests.unit.workers.messages.batches import PUBLISHED_AT, away_at_first, batch_of, message
from tests.unit.workers.ready_engine import SlowTexts
from tests.unit.workers.stages.support import SETTINGS, CountingEngine, at_once, nowhere, score, scorer, verdict_of
from workers.engines.base import Completion, Request
from workers.messages.batch import Batch, Settlement
from workers.monitoring.events import BatchEvents
from workers.scoring.extract import rules_version
from workers.stages.scoring import BatchScorer, gathered
from workers.stages.work import KNOWN_RUNS, StageContext


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


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        ("none", (Settlement.ACKNOWLEDGE, "1 settled before", "")),
        ("engine dead", (Settlement.REQUEUE, "", "gone")),
        ("ledger away", (Settlement.REQUEUE, "", "")),
    ],
)
def test_onlookers_are_told_that_a_batch_began_and_ended_whatever_its_end(
    books: MemoryLedger,
    engine: CountingEngine,
    monkeypatch: pytest.MonkeyPatch,
    trouble: str,
    told: tuple[Settlement, str, str],
) -> None:
    seen: list[object] = []

    class Events:
        def started(self, _: Batch) -> None:
            seen.append("began")

        def ended(self, batch: Batch) -> None:
            (held,) = batch.held
            seen.append((held.settlement, held.summary, batch.fatal))

    run = open_run(books, make_questions(1))
    if trouble == "none":
        settle(books, run.run_id, "q0")
    elif trouble == "engine dead":
        engine.dies_at = lambda _: bool(seen)
    else:
        monkeypatch.setattr(books, "begin", away_at_first(books.begin, 1))
    stage = scorer(books, engine, stopping=at_once)
    stage.run(batch_of(message(run, "q0")), cast(BatchEvents, Events()))
    assert seen == ["began", told]


def test_batches_of_two_processes_of_one_name_have_ids_of_their_own(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    """The second one's batches, which are numbered from 1 as well, were counted as the first one's."""
    run = open_run(books, make_questions(2))
    for question_id in ("q0", "q1"):
        score(books, engine, message(run, question_id))
    assert len({verdict_of(books, run, each).batch_id for each in ("q0", "q1")}) == 2


def test_a_worker_does_not_remember_every_run_that_it_ever_served(books: MemoryLedger, engine: CountingEngine) -> None:
    stage = scorer(books, engine)
    for number in range(KNOWN_RUNS + 40):  # as callers of the HTTP door make them
        run = open_run(books, make_questions(1), f"http-{number}", seed=number)
        stage.run(batch_of(message(run, "q0")))
        assert books.counts(run.run_id).finished
        books.purge(run.run_id)
    del run
    gc.collect()
    remembered = {each.seed for each in gc.get_objects() if type(each) is RunSpec}
    assert remembered >= set(range(40, KNOWN_RUNS + 39))
    assert not remembered & set(range(1, 39))


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


def test_no_verdict_is_older_than_the_record_of_its_engine_whichever_batch_is_written_first(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two batches run at a time: the one that was settled first was written last."""
    run, stage, commit = open_run(books, make_questions(2)), scorer(books, engine), books.commit

    def after_another_batch(*written: Any) -> list[Verdict]:
        monkeypatch.setattr(books, "commit", commit)
        stage.run(batch_of(message(run, "q1"), number=2))
        return commit(*written)

    monkeypatch.setattr(books, "commit", after_another_batch)
    stage.run(batch_of(message(run, "q0")))
    (used,) = books.engines(run.run_id)
    assert used.since <= verdict_of(books, run, "q0").settled_at <= verdict_of(books, run, "q1").settled_at


def test_the_ledger_keeps_which_rules_read_the_texts_of_a_run(books: MemoryLedger, engine: CountingEngine) -> None:
    runs = [
        open_run(books, make_questions(1), "wrote", mode=Mode.GENERATE, sampling=Sampling()),
        open_run(books, make_questions(1), "ranked"),
    ]
    for run in runs:
        score(books, engine, message(run, "q0"))
    assert [books.engines(run.run_id)[0].engine.get("rules") for run in runs] == [rules_version(), None]


def test_a_run_that_was_purged_and_enqueued_again_has_its_engine_in_the_ledger(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    stage = scorer(books, engine)
    for _ in range(2):
        run = open_run(books, make_questions(2))
        stage.run(batch_of(message(run, "q0")))
        stage.run(batch_of(message(run, "q1")))
        assert len(books.engines(run.run_id)) == 1
        books.purge(run.run_id)


def test_a_run_that_was_purged_and_enqueued_again_while_all_of_it_was_asked_has_its_engine_in_the_ledger(
    books: MemoryLedger, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdicts stand, as the run is the same; its export said of no engine that it had answered."""
    run = open_run(books, make_questions(2))
    generate = engine.generate

    def enqueued_again_meanwhile(requests: Sequence[Request]) -> list[Completion]:
        books.purge(run.run_id)
        open_run(books, make_questions(2))
        return generate(requests)

    monkeypatch.setattr(engine, "generate", enqueued_again_meanwhile)
    score(books, engine, message(run, "q0", "q1"))
    assert books.counts(run.run_id).finished
    (used,) = books.engines(run.run_id)
    assert used.since <= verdict_of(books, run, "q0").settled_at


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
    stage = scorer(books, engine, settings)
    stage.run(batch_of(message(run, "q0", "q1", "q2", "q3", "q4", "q5")))
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
    batch.held[1].published_at -= 1000.0
    calls: list[tuple[int, float, float]] = []
    at_once = SETTINGS.model_copy(update={"settle_every_s": 1e-9})
    context = StageContext(at_once, books, "w@host", nowhere, generated=lambda *call: calls.append(call))
    BatchScorer(context, Watched(SETTINGS, "What is 2 plus")).run(batch)
    latencies_s = [verdict_of(books, run, f"q{n}").latency_ms / 1000 for n in range(4)]
    queued_s = [verdict_of(books, run, f"q{n}").queued_ms / 1000 for n in range(4)]
    assert queued_s[0] < queued_s[3]
    assert calls == [(4, max(latencies_s), max(queued_s))], "it is one call, as long as its slowest answer"
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


def test_a_purged_run_is_dropped_and_its_company_scored(
    books: MemoryLedger, engine: CountingEngine, caplog: pytest.LogCaptureFixture
) -> None:
    gone = open_run(books, make_questions(2), name="gone")
    here = open_run(books, make_questions(2), name="here")
    books.purge(gone.run_id)
    batch = score(books, engine, message(gone, "q0"), message(here, "q0", "q1"))
    assert engine.calls == [2]
    assert [held.settlement for held in batch.held] == [Settlement.ACKNOWLEDGE] * 2
    assert caplog.messages == [f"run {gone.run_id} is unknown or purged: 1 of its questions are dropped"]


def test_only_what_is_newly_settled_is_counted_and_not_what_another_worker_settled_or_a_purged_run_had(
    engine: CountingEngine,
) -> None:
    class Overtaken(MemoryLedger):
        """Another worker settles q0 first, and the run `gone` is purged, while this one scores."""

        def commit(self, run_id: str, verdicts: Sequence[Verdict], engine: EngineUsed | None = None) -> list[Verdict]:
            if run_id == gone.run_id:
                self.purge(run_id)
            else:
                super().commit(run_id, [Verdict(question_id="q0", outcome=Outcome.WRONG)])
            return super().commit(run_id, verdicts, engine)

    books = Overtaken()
    gone, run = open_run(books, make_questions(2), name="gone"), open_run(books, make_questions(3))
    counted: list[Verdict] = []
    stage = scorer(books, engine, committed=counted.extend)
    stage.run(batch_of(message(gone, "q0", "q1"), message(run, "q0", "q1", "q2")))
    assert [each.question_id for each in counted] == ["q1", "q2"]
    assert (stage.done, engine.calls) == (2, [5])


def test_batches_that_are_committed_at_the_same_time_are_all_counted(engine: CountingEngine) -> None:
    class Together(MemoryLedger):
        both = threading.Barrier(2)

        def commit(self, run_id: str, verdicts: Sequence[Verdict], engine: EngineUsed | None = None) -> list[Verdict]:
            self.both.wait(PATIENCE_S)
            return super().commit(run_id, verdicts, engine)

    books = Together()
    run = open_run(books, make_questions(4))
    stage = scorer(books, engine)
    batches = [batch_of(message(run, *ids), number=n) for n, ids in enumerate((("q0", "q1"), ("q2", "q3")))]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(stage.run, batches))
    assert stage.done == 4


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


def test_what_no_worker_of_this_queue_may_score_is_failed_with_the_reason(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    run = open_run(books, make_questions(1), "test", model="another")
    batch = score(books, engine, message(run, "q0"))
    verdict = verdict_of(books, run, "q0")
    assert verdict.error is not None
    assert verdict.error.type == "WrongModel"
    assert (engine.calls, batch.begun) == ([], 1)
    assert books.engines(run.run_id) == [], "it is not told as one that answered the run"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"adapter": "law"}, "the run asks for the adapter 'law', this worker has none: see `adapters`"),
        ({"vllm_version": "0.1.0"}, "the run asks for vLLM 0.1.0, this worker has none"),
    ],
)
def test_what_another_worker_of_this_queue_may_score_is_left_to_it_with_the_reason_and_costs_no_attempt(
    books: MemoryLedger, engine: CountingEngine, spec: dict[str, object], why: str
) -> None:
    run = open_run(books, make_questions(1), "test", **spec)
    stage = scorer(books, engine, SETTINGS)
    batch = batch_of(message(run, "q0"))
    stage.run(batch)
    assert (batch.held[0].settlement, engine.calls) == (Settlement.REQUEUE, [])
    assert stage.puts_off == {run.run_id: why}
    assert books.counts(run.run_id).settled == 0
    assert [each.attempts for each in books.begin(run.run_id, ["q0"])] == [1]


def test_a_worker_with_adapters_scores_the_runs_that_ask_for_one_of_them_and_names_them_where_it_puts_others_off(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    law, med = (open_run(books, make_questions(1), name, adapter=name) for name in ("law", "med"))
    settings = SETTINGS.model_copy(update={"adapters": {"law": "adapters/law", "tax": "adapters/tax"}})
    stage = scorer(books, engine, settings)
    stage.run(batch_of(message(law, "q0"), message(med, "q0")))
    assert verdict_of(books, law, "q0").error is None
    assert "this worker has law, tax" in stage.puts_off[med.run_id]


def test_a_worker_scores_a_run_that_spells_the_name_of_its_model_otherwise_since_it_gets_its_questions(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    run = open_run(books, make_questions(1), model=SIMULATED_MODEL.title())
    assert score_queue(run.spec.model) == score_queue(SETTINGS.served_model)
    score(books, engine, message(run, "q0"))
    assert verdict_of(books, run, "q0").error is None


def test_a_worker_that_began_nothing_of_a_run_is_not_told_as_one_that_answered_it(
    books: MemoryLedger, engine: CountingEngine
) -> None:
    halted, settled = open_run(books, make_questions(1), "halted"), open_run(books, make_questions(1), "settled")
    books.halt(halted.run_id, RunState.PAUSED)
    settle(books, settled.run_id, "q0")
    score(books, engine, message(halted, "q0"), message(settled, "q0"))
    assert (books.engines(halted.run_id), books.engines(settled.run_id)) == ([], [])
