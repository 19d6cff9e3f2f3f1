"""The retrieval stage on a ledger in memory: what is looked up, kept, sent on, and what fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_float
from datetime import UTC, datetime

import pytest

from contract import Outcome, Passage, Run, Verdict
from contract.errors import HubUnreachable, IndexUnusable, ModelNotFound
from contract.index import Bm25Options, Chunking, IndexPlan, IndexSize, Manifest
from contract.ledger import MemoryLedger, RunState
from contract.priority import Priority
from contract.question import Question
from contract.queue import QuestionBatch
from contract.settings import load_settings
from contract.spec import IndexKind, Query, Retrieval, Stage
from tests.support import SIMULATED_MODEL, make_question, make_questions, open_run
from tests.unit.workers.messages.batches import PUBLISHED_AT, away_at_first, batch_of, message
from tests.unit.workers.stages.support import at_once
from workers.engines.simulated import SimulatedEngine
from workers.messages.batch import Batch, HeldMessage, Settlement
from workers.retrieval.base import Retriever
from workers.retrieval.rerank import Rerankers
from workers.stages.retrieval import BatchRetriever
from workers.stages.scoring import BatchScorer
from workers.stages.work import StageContext

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


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()


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


def verdict_of(books: MemoryLedger, run: Run, question_id: str) -> Verdict | None:
    return books.result(run.run_id, question_id)[1]


def test_a_question_that_was_sent_on_or_has_failed_is_done_here(
    books: MemoryLedger, echo: Echo, outbox: Outbox
) -> None:
    run = open_run(books, make_questions(3), rag=RAG)
    echo.breaks_at = make_questions(3)[1].question
    stage = retriever(books, echo, outbox)
    for _ in range(SETTINGS.max_attempts):
        stage.run(batch_of(message(run, "q1")))
    stage.run(batch_of(message(run, "q0", "q2")))
    assert (stage.done, books.counts(run.run_id).settled) == (3, 1)


def test_a_batch_is_looked_up_in_one_search_and_sent_on_in_the_messages_it_came_in(
    books: MemoryLedger, echo: Echo, outbox: Outbox
) -> None:
    questions = make_questions(3)
    run = open_run(books, questions, rag=RAG)
    first, second = message(run, "q0", "q1"), message(run, "q2", priority=Priority.HIGH)
    batch = retrieve(books, echo, outbox, first, second)
    assert echo.calls == [[each.question for each in questions]]
    assert outbox.sent == [
        (f"score.{SIMULATED_MODEL}", QuestionBatch(run.run_id, ["q0", "q1"], Priority.NORMAL, PUBLISHED_AT)),
        (f"score.{SIMULATED_MODEL}", QuestionBatch(run.run_id, ["q2"], Priority.HIGH, PUBLISHED_AT)),
    ]
    assert [each.settlement for each in batch.held] == [Settlement.ACKNOWLEDGE] * 2
    assert first.summary == "2 retrieved"
    kept = books.passages(run.run_id, ["q0", "q1", "q2"])
    assert [each.text for each in kept["q1"]] == [questions[1].question] * 2
    assert books.counts(run.run_id).todo == 3
    assert books.engines(run.run_id) == [], "who searches answers nothing"


def test_a_ledger_that_is_away_when_passages_are_found_costs_no_question_an_attempt(
    books: MemoryLedger, echo: Echo, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.stages.recorder.LONGEST_PAUSE_S", 0.001)
    run = open_run(books, make_questions(2), rag=RAG)
    monkeypatch.setattr(books, "attach", away_at_first(books.attach, SETTINGS.max_attempts + 1))

    retrieve(books, echo, outbox, message(run, "q0", "q1"))

    assert (len(echo.calls), len(outbox.sent)) == (1, 1)
    assert set(books.passages(run.run_id, ["q0", "q1"])) == {"q0", "q1"}


def test_a_question_with_its_own_context_is_sent_on_unsearched(books: MemoryLedger, echo: Echo, outbox: Outbox) -> None:
    questions = [make_question(0), make_question(1, context="Its own.")]
    run = open_run(books, questions, rag=RAG, use_context_field=True)
    retrieve(books, echo, outbox, message(run, "q0", "q1"))
    assert echo.calls == [[questions[0].question]]
    assert outbox.sent[0][1].question_ids == ["q0", "q1"]
    score(books, outbox, message(run, "q0", "q1"))
    assert books.counts(run.run_id).finished


def test_a_question_with_its_own_context_is_sent_on_however_often_its_run_is_paused_and_resumed(
    books: MemoryLedger, echo: Echo, outbox: Outbox
) -> None:
    run = open_run(books, [make_question(0, context="Given.")], rag=RAG, use_context_field=True)
    for _ in range(SETTINGS.max_attempts + 1):
        retrieve(books, echo, outbox, message(run, "q0"))
        books.halt(run.run_id, RunState.PAUSED)
        score(books, outbox, message(run, "q0"))
        books.resume(run.run_id)
        assert list(books.take_aside(run.run_id)) == ["q0"]  # to be sent again, from its first stage on
    assert len(outbox.sent) == SETTINGS.max_attempts + 1
    assert verdict_of(books, run, "q0") is None


def test_the_choices_are_looked_up_only_when_the_run_says_so(books: MemoryLedger, echo: Echo, outbox: Outbox) -> None:
    question = make_question(1)
    run = open_run(books, [question], rag=RAG.model_copy(update={"query": Query.QUESTION_AND_CHOICES}))
    retrieve(books, echo, outbox, message(run, "q1"))
    assert echo.calls == [["\n".join((question.question, *question.choices))]]


def test_passages_below_the_threshold_are_not_kept(books: MemoryLedger, echo: Echo, outbox: Outbox) -> None:
    run = open_run(books, make_questions(1), rag=RAG.model_copy(update={"retrieval_score_threshold": 1.5}))
    retrieve(books, echo, outbox, message(run, "q0"))
    assert [each.rank for each in books.passages(run.run_id, ["q0"])["q0"]] == [1]


def test_a_passage_that_scores_exactly_the_threshold_is_kept(books: MemoryLedger, outbox: Outbox) -> None:
    """A hybrid score of 1 / 61, in single precision, is less than that number in double precision."""

    class First(Echo):
        def search(self, queries: Sequence[str], top_k: int, kind: IndexKind | None = None) -> list[list[Passage]]:
            score = c_float(1 / 61).value
            found = super().search(queries, top_k, kind)
            return [[each.model_copy(update={"score": score}) for each in passages] for passages in found]

    run = open_run(books, make_questions(1), rag=RAG.model_copy(update={"retrieval_score_threshold": 1 / 61}))
    retrieve(books, First(), outbox, message(run, "q0"))
    assert len(books.passages(run.run_id, ["q0"])["q0"]) == RAG.retrieval_top_k


def test_a_query_that_breaks_the_search_is_tried_again_alone_and_then_fails_without_being_asked(
    books: MemoryLedger, echo: Echo, outbox: Outbox
) -> None:
    run = open_run(books, make_questions(8), rag=RAG)
    echo.breaks_at = "What is 5 plus"
    ids = [f"q{n}" for n in range(8)]
    held = message(run, *ids)
    retrieve(books, echo, outbox, held)
    assert outbox.sent[0][1].question_ids == ids[:4]
    assert {each for _, sent in outbox.sent for each in sent.question_ids} == {*ids} - {"q5"}
    assert held.summary == "7 retrieved, 1 to be retried"
    stage = retriever(books, echo, outbox)
    for _ in range(SETTINGS.max_attempts - 1):
        stage.run(batch_of(message(run, "q5")))
    verdict = verdict_of(books, run, "q5")
    assert verdict is not None
    assert verdict.error is not None
    assert (verdict.outcome, verdict.error.type) == (Outcome.FAILED, "TooManyAttempts")
    assert "the index is broken here" in verdict.error.message


def test_a_search_that_fails_once_costs_no_question(books: MemoryLedger, echo: Echo, outbox: Outbox) -> None:
    run = open_run(books, make_questions(1), rag=RAG)
    echo.breaks_at = "What is 0 plus"
    retrieve(books, echo, outbox, message(run, "q0"))
    echo.breaks_at = "nothing"
    retrieve(books, echo, outbox, message(run, "q0"))
    assert (verdict_of(books, run, "q0"), len(outbox.sent)) == (None, 1)


def test_a_run_without_retrieval_is_refused(books: MemoryLedger, echo: Echo, outbox: Outbox) -> None:
    run = open_run(books, make_questions(1))
    retrieve(books, echo, outbox, message(run, "q0"))
    verdict = verdict_of(books, run, "q0")
    assert verdict is not None
    assert verdict.error is not None
    assert verdict.error.type == "WrongIndex"
    assert (echo.calls, outbox.sent) == ([], [])


def test_questions_for_a_build_that_is_not_here_wait_for_it_however_often_they_come(
    books: MemoryLedger, echo: Echo, outbox: Outbox
) -> None:
    run = open_run(books, make_questions(2), rag=of_build("9"))
    there: dict[str, Retriever] = {}
    stage = retriever(books, echo, outbox, there.get)
    for _ in range(SETTINGS.max_attempts + 2):
        held = message(run, "q0", "q1")
        stage.run(batch_of(held))
        assert held.settlement is Settlement.REQUEUE
    assert "for index facts 99999999" in stage.puts_off[run.run_id]
    assert (outbox.sent, books.counts(run.run_id).settled) == ([], 0)

    there["9" * 64] = Echo()
    held = message(run, "q0", "q1")
    stage.run(batch_of(held))
    assert held.settlement is Settlement.ACKNOWLEDGE
    assert (len(outbox.sent), stage.puts_off) == (1, {})


def test_a_batch_that_was_only_put_off_is_not_logged_as_work_done(
    books: MemoryLedger, echo: Echo, outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    run = open_run(books, make_questions(2), rag=of_build("9"))
    stage = retriever(books, echo, outbox)
    with caplog.at_level("INFO"):
        for _ in range(3):  # it comes again every second, for as long as nobody has the build
            stage.run(batch_of(message(run, "q0", "q1")))
    assert [each.levelname for each in caplog.records if each.name.startswith("workers.")] == ["WARNING"]


def test_a_run_that_was_retrieved_elsewhere_is_no_longer_put_off_here(
    books: MemoryLedger, echo: Echo, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.stages.put_offs.PUT_OFF_S", 0.0)
    stage = retriever(books, echo, outbox)
    for number in range(3):
        run = open_run(books, make_questions(1), f"run-{number}", rag=of_build("9"), seed=number)
        stage.run(batch_of(message(run, "q0")))
        books.purge(run.run_id)
    assert stage.puts_off == {}
    assert len(stage._put_offs._runs) == 1, "those before are not remembered either"


def test_the_messages_of_a_cancelled_run_do_not_wait_for_its_build(
    books: MemoryLedger, echo: Echo, outbox: Outbox
) -> None:
    run = open_run(books, make_questions(1), rag=of_build("9"))
    books.halt(run.run_id, RunState.CANCELLED)
    held = message(run, "q0")
    retrieve(books, echo, outbox, held)
    assert held.settlement is Settlement.ACKNOWLEDGE


def test_what_is_found_in_an_index_while_it_is_written_over_is_thrown_away(
    books: MemoryLedger, echo: Echo, outbox: Outbox
) -> None:
    run = open_run(books, make_questions(1), rag=RAG)
    again = Echo()
    stage = retriever(books, echo, outbox, lambda _: again)
    echo.written_over_by_search = True
    first, second = message(run, "q0"), message(run, "q0")
    stage.run(batch_of(first))
    assert (first.settlement, outbox.sent) == (Settlement.REQUEUE, [])
    stage.run(batch_of(second))
    assert (second.settlement, len(echo.calls), len(again.calls)) == (Settlement.ACKNOWLEDGE, 1, 1)


def test_a_build_that_was_written_over_and_cannot_be_opened_again_is_no_longer_here(
    books: MemoryLedger, echo: Echo, outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    run = open_run(books, make_questions(1), rag=RAG)
    stage = retriever(books, echo, outbox)
    echo.written_over_by_search = True
    for _ in range(3):
        stage.run(batch_of(message(run, "q0")))
    assert (len(echo.calls), outbox.sent) == (1, [])
    assert "here is no other build" in stage.puts_off[run.run_id]
    assert caplog.text.count("index facts was overwritten while open") == 1


def of_build(digit: str) -> Retrieval:
    """What a run asks of the index as it was built that time."""
    return RAG.model_copy(update={"index_digest": digit * 64})


def test_an_index_that_was_built_anew_is_opened_for_the_runs_that_want_it_and_the_old_one_serves_on(
    books: MemoryLedger, echo: Echo, outbox: Outbox
) -> None:
    old = open_run(books, make_questions(2), "old", rag=RAG)
    new = open_run(books, make_questions(2), "new", rag=of_build("9"))
    asked: list[str] = []
    anew = Echo()

    def reopen(digest: str) -> Retriever | None:
        asked.append(digest)
        return anew if digest == "9" * 64 else None

    stage = retriever(books, echo, outbox, reopen)
    for run, question in ((old, "q0"), (new, "q0"), (old, "q1"), (new, "q1")):
        stage.run(batch_of(message(run, question)))

    assert (len(echo.calls), len(anew.calls), asked) == (2, 2, ["9" * 64])
    assert len(outbox.sent) == 4


def test_the_oldest_build_of_an_index_is_closed_for_the_third(books: MemoryLedger, echo: Echo, outbox: Outbox) -> None:
    runs = [open_run(books, make_questions(1), digit, rag=of_build(digit)) for digit in "78"]
    first = open_run(books, make_questions(1), "first", rag=RAG)
    there = {"7" * 64, "8" * 64}
    stage = retriever(
        books,
        echo,
        outbox,
        lambda digest: Echo() if digest in there else None,
    )
    for run in (*runs, first):
        stage.run(batch_of(message(run, "q0")))
    assert len(outbox.sent) == 2
    assert "here is 77777777 and 88888888" in stage.puts_off[first.run_id]


def test_a_new_build_that_cannot_be_opened_is_told_with_the_reason_and_not_hashed_again_at_once(
    books: MemoryLedger, echo: Echo, outbox: Outbox
) -> None:
    run = open_run(books, make_questions(1), rag=of_build("9"))

    tried: list[str] = []

    def reopen(digest: str) -> Retriever | None:
        tried.append(digest)
        raise IndexUnusable("is damaged", path="indexes/facts/passages.arrow", hint="Copy it again.")

    stage = retriever(books, echo, outbox, reopen)
    for _ in range(2):
        stage.run(batch_of(message(run, "q0")))
    assert "indexes/facts/passages.arrow: is damaged. Copy it again." in stage.puts_off[run.run_id]
    assert (tried, verdict_of(books, run, "q0")) == (["9" * 64], None)


def test_the_prompt_has_the_passages_and_the_verdict_keeps_them(
    books: MemoryLedger, echo: Echo, outbox: Outbox
) -> None:
    run = open_run(books, make_questions(2), rag=RAG)
    retrieve(books, echo, outbox, message(run, "q0", "q1"))
    kept = books.passages(run.run_id, ["q0"])["q0"]
    score(books, outbox, message(run, "q0", "q1"))
    verdict = verdict_of(books, run, "q0")
    assert verdict is not None
    assert verdict.passages == kept
    assert books.passages(run.run_id, ["q0"]) == {}, "they live in the verdict now"


def test_a_question_that_reaches_the_model_without_its_passages_goes_back_for_them(
    books: MemoryLedger, outbox: Outbox
) -> None:
    run = open_run(books, make_questions(2), rag=RAG)
    books.attach(run.run_id, {"q0": [Passage(id="p", score=1.0, text="found")]})
    held = message(run, "q0", "q1", priority=Priority.LOW)
    score(books, outbox, held)
    assert outbox.sent == [("retrieve.facts", QuestionBatch(run.run_id, ["q1"], Priority.LOW, PUBLISHED_AT))]
    assert verdict_of(books, run, "q0") is not None
    assert verdict_of(books, run, "q1") is None
    assert held.settlement is Settlement.ACKNOWLEDGE
    assert "1 back to retrieval" in held.summary


def test_a_run_that_limits_its_passages_by_tokens_is_refused_where_nobody_counts_them(
    books: MemoryLedger, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimulatedEngine, "counts_tokens", False)
    run = open_run(books, make_questions(2), rag=RAG.model_copy(update={"max_context_tokens": 100}))
    books.attach(run.run_id, {each: [Passage(id="p", score=1.0, text="found")] for each in ("q0", "q1")})
    score(books, outbox, message(run, "q0"))
    verdict = verdict_of(books, run, "q0")
    assert verdict is not None
    assert verdict.error is not None
    assert "does not count tokens" in verdict.error.message
    monkeypatch.setattr(SimulatedEngine, "counts_tokens", True)
    score(books, outbox, message(run, "q1"))
    counted = verdict_of(books, run, "q1")
    assert counted is not None
    assert counted.error is None


def test_looking_up_does_not_count_as_an_attempt_to_score(books: MemoryLedger, echo: Echo, outbox: Outbox) -> None:
    run = open_run(books, make_questions(1), rag=RAG)
    retrieve(books, echo, outbox, message(run, "q0"))
    score(books, outbox, message(run, "q0"))
    verdict = verdict_of(books, run, "q0")
    assert verdict is not None
    assert verdict.attempts == 1


def test_a_question_that_kills_its_retrieval_worker_again_and_again_fails(
    books: MemoryLedger, echo: Echo, outbox: Outbox
) -> None:
    run = open_run(books, make_questions(1), rag=RAG)
    for _ in range(SETTINGS.max_attempts):
        books.begin(run.run_id, ["q0"], stage=Stage.RETRIEVE)
    retrieve(books, echo, outbox, message(run, "q0"))
    verdict = verdict_of(books, run, "q0")
    assert verdict is not None
    assert verdict.error is not None
    assert verdict.error.type == "TooManyAttempts"


def test_a_search_for_a_suspect_alone_counts_as_one_more_and_not_as_an_attempt_to_score(
    books: MemoryLedger, outbox: Outbox
) -> None:
    class Killed(BaseException):
        pass

    class Deadly(Echo):
        def search(self, *_: object, **__: object) -> list[list[Passage]]:
            raise Killed

    run = open_run(books, make_questions(1), rag=RAG)
    for _ in range(2):
        books.begin(run.run_id, ["q0"], stage=Stage.RETRIEVE)
    with pytest.raises(Killed):
        retrieve(books, Deadly(), outbox, message(run, "q0"))
    assert [books.begin(run.run_id, ["q0"], stage=stage)[0].attempts for stage in Stage] == [4, 1]


def test_runs_with_other_wishes_are_searched_apart(books: MemoryLedger, echo: Echo, outbox: Outbox) -> None:
    questions: list[Question] = make_questions(1)
    one = open_run(books, questions, "one", rag=RAG)
    other = open_run(books, questions, "other", rag=RAG.model_copy(update={"retrieval_top_k": 1}))
    retrieve(books, echo, outbox, message(one, "q0"), message(other, "q0"))
    assert len(echo.calls) == 2
    assert [len(books.passages(run.run_id, ["q0"])["q0"]) for run in (one, other)] == [2, 1]


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
    verdict = verdict_of(books, run, "q0")
    assert verdict is not None
    assert verdict.error is not None
    assert "There is none of that name" in verdict.error.message
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


def test_questions_whose_build_has_just_gone_come_again_and_those_of_other_runs_are_searched_and_go_on(
    books: MemoryLedger, echo: Echo, outbox: Outbox
) -> None:
    class Overwritten(Echo):
        """Was there when the batch was begun, and is no longer when it is searched."""

        def changed(self) -> bool:
            return True

    anew = iter([Overwritten()])
    first, gone, last = (
        open_run(books, make_questions(2), name, rag=rag)
        for name, rag in (
            ("first", RAG),
            ("gone", of_build("9")),
            ("last", RAG.model_copy(update={"retrieval_top_k": 1})),
        )
    )
    stage = retriever(books, echo, outbox, lambda _: next(anew, None))
    held = [message(run, "q0", "q1") for run in (first, gone, last)]
    stage.run(batch_of(*held))

    assert [each.summary for each in held] == ["2 retrieved", "2 to be retried", "2 retrieved"]
    assert [each.settlement for each in held] == [Settlement.ACKNOWLEDGE, Settlement.REQUEUE, Settlement.ACKNOWLEDGE]
    assert [(sent.run_id, sent.question_ids) for _, sent in outbox.sent] == [
        (first.run_id, ["q0", "q1"]),
        (last.run_id, ["q0", "q1"]),
    ]
    assert [len(books.passages(run.run_id, ["q0", "q1"])) for run in (first, gone, last)] == [2, 0, 2]
    assert "for index facts 99999999" in books.troubles(gone.run_id, "q1")[0]
    assert books.begin(gone.run_id, ["q1"], 0, Stage.RETRIEVE)[0].attempts == 1
    assert stage.done == 4


def test_a_run_that_is_purged_while_it_is_searched_holds_up_no_other(
    books: MemoryLedger, echo: Echo, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = open_run(books, make_questions(1), rag=RAG, name="gone")
    stays = open_run(books, make_questions(1), rag=RAG, name="stays")
    search = echo.search

    def purged_meanwhile(queries: Sequence[str], top_k: int, kind: IndexKind) -> list[list[Passage]]:
        books.purge(gone.run_id)
        return search(queries, top_k, kind)

    monkeypatch.setattr(echo, "search", purged_meanwhile)
    held = message(gone, "q0"), message(stays, "q0")
    retrieve(books, echo, outbox, *held)
    assert [each.settlement for each in held] == [Settlement.ACKNOWLEDGE, Settlement.ACKNOWLEDGE]
    assert [sent.run_id for _, sent in outbox.sent] == [stays.run_id]
