"""Retrieval on real processes: an index, a worker that searches it, one that scores, and what comes between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from contract import RedisLedger, Run, Verdict, keys
from contract.fleet import Fleet
from contract.index import read_manifest, replaced_beside
from contract.queue import held_question_ids, queue_length
from contract.spec import IndexKind, Retrieval
from tests.integration.runs import send, verdicts, wait_finished
from tests.support import (
    NOT_BY_ITSELF,
    PATIENCE_S,
    SIMULATED_MODEL,
    build_test_index,
    make_question,
    open_run,
    process,
    processes_of_session,
    wait_until,
    worker,
)

QUEUE = keys.retrieve_queue("facts")
FACTS = [f"The answer to question number{number} stands here." for number in range(40)]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """An index called `facts`: passage p7 has the word that question 7 asks for, and no other has."""
    return build_test_index(tmp_path / "facts", FACTS)


def retrieval(index: Path, **changes: object) -> Retrieval:
    manifest = read_manifest(index)
    fields = {"index": manifest.plan.name, "index_digest": manifest.digest, "kind": IndexKind.BM25}
    return Retrieval.model_validate({**fields, "retrieval_top_k": 3, **changes})


def open_rag_run(ledger: RedisLedger, index: Path, count: int = 40, **changes: object) -> Run:
    questions = [
        make_question(number, question=f"What is number{number} about?", gold_passages=(f"p{number}",))
        for number in range(count)
    ]
    return open_run(ledger, questions, rag=retrieval(index, **changes))


@contextmanager
def searcher(tmp_path: Path, index: Path, name: str = "r0", **settings: object) -> Iterator[None]:
    """A worker that searches `index`. What it is to search must be sent before it starts.

    Of a run that is open, its audit sends what is in no message.
    """
    with worker(tmp_path / name, name, QUEUE, indexes=[str(index)], **settings):
        yield


@pytest.fixture
def finished(redis_ledger: RedisLedger) -> Callable[[Run], list[Verdict]]:
    def wait(run: Run) -> list[Verdict]:
        wait_finished(redis_ledger, run)
        return verdicts(redis_ledger, run)

    return wait


def test_every_question_is_scored_with_what_was_found_for_it(
    redis_ledger: RedisLedger, app: Celery, index: Path, tmp_path: Path, finished: Callable[[Run], list[Verdict]]
) -> None:
    run = open_rag_run(redis_ledger, index)
    send(app, redis_ledger, run)
    with worker(tmp_path / "w0"), searcher(tmp_path, index):
        verdicts = finished(run)
    assert [each.passages[0].id for each in verdicts] == [f"p{number}" for number in range(40)]
    assert all(each.retrieval_hit and each.attempts == 1 for each in verdicts)
    assert not redis_ledger.client.exists(keys.RunKeys(run.run_id).passages, keys.RunKeys(run.run_id).lookups)


def test_questions_wait_for_a_retrieval_worker_and_are_not_scored_without_one(
    redis_ledger: RedisLedger, app: Celery, index: Path, tmp_path: Path, finished: Callable[[Run], list[Verdict]]
) -> None:
    run = open_rag_run(redis_ledger, index, count=8)
    closed_book = open_run(redis_ledger, [make_question(number) for number in range(8)], "closed")
    send(app, redis_ledger, run)
    send(app, redis_ledger, closed_book)
    with worker(tmp_path / "w0"):
        finished(closed_book)
        assert redis_ledger.counts(run.run_id).settled == 0
        assert queue_length(redis_ledger.client, QUEUE) == 2
        with searcher(tmp_path, index):
            assert all(each.passages for each in finished(run))


def test_a_killed_retrieval_worker_loses_no_question(
    redis_ledger: RedisLedger, app: Celery, index: Path, tmp_path: Path, finished: Callable[[Run], list[Verdict]]
) -> None:
    run = open_rag_run(redis_ledger, index)
    send(app, redis_ledger, run)
    # It holds messages for a batch that never fills, until it is killed with them in its hands.
    waiting: dict[str, Any] = {"batch_size": 64, "batch_timeout": 600}
    with worker(tmp_path / "w0"), worker(tmp_path / "r0", "r0", QUEUE, indexes=[str(index)], **waiting) as first:
        client = redis_ledger.client
        wait_until(lambda: len(held_question_ids(client, ["r0@test"], run.run_id)) == 40, "it to hold all")
        first.kill()
        first.wait()
        with searcher(tmp_path, index, "r1"):
            verdicts = finished(run)
    assert [each.passages[0].id for each in verdicts] == [f"p{number}" for number in range(40)]


def test_an_index_that_is_built_anew_while_it_is_searched_serves_the_next_run_without_a_restart(
    redis_ledger: RedisLedger, app: Celery, index: Path, tmp_path: Path, finished: Callable[[Run], list[Verdict]]
) -> None:
    before = open_rag_run(redis_ledger, index, count=4)
    send(app, redis_ledger, before)
    with worker(tmp_path / "w0"), searcher(tmp_path, index):
        finished(before)
        index.rename(tmp_path / "replaced")
        build_test_index(index, [f"Anew: {fact}" for fact in FACTS])
        after = open_rag_run(redis_ledger, index, count=4)
        again = open_rag_run(redis_ledger, tmp_path / "replaced", count=4, retrieval_top_k=2)
        for run in (after, again):
            send(app, redis_ledger, run)
        assert [each.passages[0].text[:5] for each in finished(after)] == ["Anew:"] * 4
        assert [each.passages[0].text[:5] for each in finished(again)] == ["The a"] * 4


def test_after_one_build_and_a_restart_the_runs_of_the_build_before_go_on(
    redis_ledger: RedisLedger, app: Celery, index: Path, tmp_path: Path, finished: Callable[[Run], list[Verdict]]
) -> None:
    before = open_rag_run(redis_ledger, index, count=4)
    index.rename(replaced_beside(index))
    build_test_index(index, [f"Anew: {fact}" for fact in FACTS])
    after = open_rag_run(redis_ledger, index, count=4)
    for run in (before, after):
        send(app, redis_ledger, run)
    with worker(tmp_path / "w0"), searcher(tmp_path, index):
        assert [each.passages[0].text[:5] for each in finished(before)] == ["The a"] * 4
        assert [each.passages[0].text[:5] for each in finished(after)] == ["Anew:"] * 4


def test_questions_for_a_build_that_nobody_has_wait_and_another_run_passes_them(
    redis_ledger: RedisLedger, app: Celery, index: Path, tmp_path: Path, finished: Callable[[Run], list[Verdict]]
) -> None:
    waiting = open_rag_run(redis_ledger, index, count=4, index_digest="9" * 64)
    run = open_rag_run(redis_ledger, index, count=4)
    fleet = Fleet(redis_ledger.client)
    for each in (waiting, run):
        send(app, redis_ledger, each)
    with worker(tmp_path / "w0"), searcher(tmp_path, index, batch_size=4):  # a call each
        assert all(each.retrieval_hit for each in finished(run))
        wait_until(lambda: any(waiting.run_id in each.puts_off for each in fleet.alive()), "the worker to say so")
    assert redis_ledger.counts(waiting.run_id).settled == 0
    assert queue_length(redis_ledger.client, QUEUE) == 1


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda index: (index / "manifest.json").unlink(), "has no manifest.json"),
        (lambda index: (index / "passages.arrow").write_bytes(b"x"), "passages.arrow"),
        (Path.exists, "the settings have no such index"),
    ],
)
def test_a_worker_without_its_index_says_what_is_wrong_and_takes_nothing(
    damage: Callable[[Path], object],
    says: str,
    redis_ledger: RedisLedger,
    app: Celery,
    index: Path,
    tmp_path: Path,
) -> None:
    run = open_rag_run(redis_ledger, index, count=4)
    send(app, redis_ledger, run)
    damage(index)
    queue = QUEUE if "no such" not in says else keys.retrieve_queue("another")
    with (
        pytest.raises(AssertionError, match="the worker ended") as ended,
        worker(tmp_path / "r0", "r0", queue, indexes=[str(index)]),
    ):
        pass
    assert says in str(ended.value)
    assert "Traceback" not in str(ended.value)
    assert queue_length(redis_ledger.client, QUEUE) == 1


def test_up_starts_a_worker_for_each_index_beside_the_models(
    redis_ledger: RedisLedger, app: Celery, index: Path, tmp_path: Path, finished: Callable[[Run], list[Verdict]]
) -> None:

    run = open_rag_run(redis_ledger, index, count=8)
    send(app, redis_ledger, run)
    settings = ["engine=simulated", f"model={SIMULATED_MODEL}", f"indexes=[{index}]", "gpu_groups=auto", NOT_BY_ITSELF]
    arguments = [part for each in settings for part in ("--set", each)]
    with process("-m", "workers", "up", *arguments, "--logs", str(tmp_path / "logs"), log=tmp_path / "up") as launcher:
        assert all(each.passages for each in finished(run))
        launcher.terminate()
        assert launcher.wait(timeout=PATIENCE_S) == 0
        assert processes_of_session(launcher.pid) == []
    assert {path.stem for path in (tmp_path / "logs").iterdir()} == {"cpu0", "retrieve-facts"}


def test_a_worker_serves_one_queue(redis_url: str, index: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="the worker ended") as ended,
        worker(tmp_path / "r0", "r0", f"{QUEUE},{keys.score_queue(SIMULATED_MODEL)}", indexes=[str(index)]),
    ):
        pass
    assert "a worker serves one queue" in str(ended.value)
