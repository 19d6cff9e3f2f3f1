"""Rerankers of a worker that searches: how many it keeps, and what becomes of questions without theirs."""

from __future__ import annotations

import pytest

from contract.errors import HubUnreachable, ModelNotFound
from contract.ledger import MemoryLedger
from tests.support import make_questions, open_run
from tests.unit.workers.messages.batches import batch_of, message
from tests.unit.workers.stages.searching import RAG, SETTINGS, Echo, Outbox, retriever
from tests.unit.workers.stages.support import error_of
from workers.messages.batch import Settlement
from workers.retrieval.rerank import Rerankers


def test_a_reranker_that_cannot_be_loaded_is_tried_again_only_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    class Nowhere:
        def __init__(self, model_id: str) -> None:
            tried.append(model_id)
            raise ModelNotFound(f"{model_id} is not to be had.", hint="Check its name.")

    monkeypatch.setattr("workers.retrieval.rerank.CrossEncoder", Nowhere)
    rerankers, wanted = Rerankers(Echo()), RAG.model_copy(update={"reranker": "far/away"})

    for _ in range(2):
        with pytest.raises(ModelNotFound, match=r"far/away is not to be had\. Check its name\."):
            rerankers.of(wanted)
    assert tried == ["far/away"]
    assert isinstance(rerankers.of(RAG), Echo), "runs without it go on"

    monkeypatch.setattr("workers.retrieval.rerank.time.monotonic", lambda: 1e9)
    with pytest.raises(ModelNotFound):
        rerankers.of(wanted)
    assert tried == ["far/away", "far/away"]


def test_a_worker_keeps_only_the_rerankers_that_were_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    monkeypatch.setattr("workers.retrieval.rerank.CrossEncoder", loaded.append)
    rerankers = Rerankers(Echo())
    for name in ("a", "b", "c", "d", "a", "e", "a", "b"):
        rerankers.of(RAG.model_copy(update={"reranker": name}))
    assert loaded == ["a", "b", "c", "d", "e", "b"]


def test_questions_wait_while_the_hub_does_not_answer_for_their_reranker(
    books: MemoryLedger, echo: Echo, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble: ModelNotFound = HubUnreachable("The hub has no answer.")

    def load(_: str) -> None:
        raise trouble

    monkeypatch.setattr("workers.retrieval.rerank.CrossEncoder", load)
    run = open_run(books, make_questions(1), rag=RAG.model_copy(update={"reranker": "far/away"}))
    stage = retriever(books, echo, outbox)
    for _ in range(SETTINGS.max_attempts + 1):
        held = message(run, "q0")
        stage.run(batch_of(held))
    assert (held.settlement, stage.puts_off[run.run_id]) == (Settlement.REQUEUE, "The hub has no answer.")

    trouble = ModelNotFound("There is none of that name.")
    monkeypatch.setattr("workers.retrieval.rerank.time.monotonic", lambda: 1e9)
    stage.run(batch_of(message(run, "q0")))
    assert "There is none of that name" in error_of(books, run, "q0").message
    assert outbox.sent == []


def test_questions_wait_where_loading_their_reranker_fails_as_for_want_of_memory(
    books: MemoryLedger, echo: Echo, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def load(model_id: str) -> None:
        tried.append(model_id)
        raise RuntimeError("can't allocate memory")

    monkeypatch.setattr("workers.retrieval.rerank.CrossEncoder", load)
    run = open_run(books, make_questions(4), rag=RAG.model_copy(update={"reranker": "far/away"}))
    stage = retriever(books, echo, outbox)
    for _ in range(SETTINGS.max_attempts + 1):
        held = message(run, "q0", "q1", "q2", "q3")
        stage.run(batch_of(held))
    assert held.settlement is Settlement.REQUEUE
    assert stage.puts_off[run.run_id] == "reranker far/away cannot be loaded: RuntimeError: can't allocate memory"
    assert (tried, books.counts(run.run_id).settled) == (["far/away"], 0)
