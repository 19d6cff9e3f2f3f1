"""A batch for the retrieval stage, on a ledger in memory, and an index that finds what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from contract import Passage
from contract.index import Bm25Options, Chunking, IndexPlan, IndexSize, Manifest
from contract.ledger import MemoryLedger
from contract.queue import QuestionBatch
from contract.settings import load_settings
from contract.spec import IndexKind, Retrieval
from tests.support import SIMULATED_MODEL
from tests.unit.workers.messages.batches import batch_of
from tests.unit.workers.stages.support import at_once
from workers.engines.simulated import SimulatedEngine
from workers.messages.batch import Batch, HeldMessage
from workers.retrieval.base import Retriever
from workers.stages.retrieval import BatchRetriever
from workers.stages.scoring import BatchScorer
from workers.stages.work import StageContext

__all__ = ["RAG", "SETTINGS", "Echo", "Outbox", "retrieve", "retriever", "score"]

SETTINGS = load_settings(None, ["engine=simulated", f"model={SIMULATED_MODEL}"])
MANIFEST = Manifest(
    plan=IndexPlan(
        name="facts",
        kind=IndexKind.BM25,
        corpus_digest="1" * 64,
        chunking=Chunking(),
        counts=IndexSize(documents=9, passages=9),
        bm25=Bm25Options(),
    ),
    files={},
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)
RAG = Retrieval(index="facts", index_digest=MANIFEST.digest, kind=IndexKind.BM25, retrieval_top_k=2)


class Echo(Retriever):
    """Finds a passage that is the query, and one that is worse."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.breaks_at = "nothing"
        self.written_over_by_search = False

    def changed(self) -> bool:
        return self.written_over_by_search and bool(self.calls)

    def search(self, queries: Sequence[str], top_k: int, kind: IndexKind | None = None) -> list[list[Passage]]:
        self.calls.append(list(queries))
        assert kind is IndexKind.BM25
        if any(self.breaks_at in query for query in queries):
            raise RuntimeError("the index is broken here")
        return [
            [Passage(id=f"{query}#{rank}", rank=rank, score=3.0 - rank, text=query) for rank in range(1, top_k + 1)]
            for query in queries
        ]


class Outbox:
    """What was sent on."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, QuestionBatch]] = []

    def __call__(self, queue: str, messages: Sequence[QuestionBatch]) -> None:
        self.sent += [(queue, each) for each in messages]


def retriever(
    books: MemoryLedger, echo: Echo, outbox: Outbox, *reopen: Callable[[str], Retriever | None]
) -> BatchRetriever:
    return BatchRetriever(StageContext(SETTINGS, books, "r@host", outbox, stopping=at_once), echo, MANIFEST, *reopen)


def retrieve(books: MemoryLedger, echo: Echo, outbox: Outbox, *held: HeldMessage) -> Batch:
    batch = batch_of(*held)
    BatchRetriever(StageContext(SETTINGS, books, "r@host", outbox), echo, MANIFEST).run(batch)
    return batch


def score(books: MemoryLedger, outbox: Outbox, *held: HeldMessage) -> Batch:
    batch, engine = batch_of(*held), SimulatedEngine(SETTINGS)
    engine.start()
    BatchScorer(StageContext(SETTINGS, books, "w@host", outbox), engine).run(batch)
    return batch
