"""The retrieval stage on a ledger in memory: what is looked up, kept, sent on, and what fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_float

import pytest

from contract import Outcome, Passage
from contract.errors import LedgerError
from contract.ledger import MemoryLedger, RunState
from contract.priority import Priority
from contract.question import Question
from contract.queue import QuestionBatch
from contract.spec import IndexKind, Query, Stage
from tests.support import SIMULATED_MODEL, make_question, make_questions, open_run
from tests.unit.workers.messages.batches import PUBLISHED_AT, away_at_first, batch_of, message
from tests.unit.workers.stages.searching import RAG, SETTINGS, Echo, Outbox, retrieve, retriever, score
from tests.unit.workers.stages.support import error_of, verdict_of
from workers.engines.simulated import SimulatedEngine
from workers.messages.batch import Settlement


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


def test_a_run_whose_passages_are_damaged_is_put_off_alone(
    books: MemoryLedger, echo: Echo, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [make_question(0), make_question(1, context="Its own.")]
    damaged, sound = (
        open_run(books, questions, name, rag=RAG, use_context_field=True) for name in ("damaged", "sound")
    )
    attach = books.attach

    def refuse(run_id: str, passages: Mapping[str, Sequence[Passage]]) -> None:
        if run_id == damaged.run_id:
            raise LedgerError("Redis refuses: WRONGTYPE.")
        attach(run_id, passages)

    monkeypatch.setattr(books, "attach", refuse)
    stage, batch = retriever(books, echo, outbox), batch_of(message(damaged, "q0", "q1"), message(sound, "q0", "q1"))
    stage.run(batch)
    assert [each.run_id for _, each in outbox.sent] == [sound.run_id]
    assert [each.settlement for each in batch.held] == [Settlement.REQUEUE, Settlement.ACKNOWLEDGE]
    assert stage.puts_off == {damaged.run_id: "Redis refuses: WRONGTYPE."}
    begun = books.begin(damaged.run_id, ["q0", "q1"], stage=Stage.RETRIEVE)
    assert [each.attempts for each in begun] == [1, 1], "no attempt was charged"


def test_a_ledger_that_is_away_when_passages_are_found_costs_no_question_an_attempt(
    books: MemoryLedger, echo: Echo, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.outages.LONGEST_PAUSE_S", 0.001)
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
    assert books.result(run.run_id, "q0")[1] is None


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
    assert verdict_of(books, run, "q5").outcome is Outcome.FAILED
    error = error_of(books, run, "q5")
    assert error.type == "TooManyAttempts"
    assert "the index is broken here" in error.message


def test_a_search_that_fails_once_costs_no_question(books: MemoryLedger, echo: Echo, outbox: Outbox) -> None:
    run = open_run(books, make_questions(1), rag=RAG)
    echo.breaks_at = "What is 0 plus"
    retrieve(books, echo, outbox, message(run, "q0"))
    echo.breaks_at = "nothing"
    retrieve(books, echo, outbox, message(run, "q0"))
    assert (books.counts(run.run_id).settled, len(outbox.sent)) == (0, 1)


def test_a_run_without_retrieval_is_refused(books: MemoryLedger, echo: Echo, outbox: Outbox) -> None:
    run = open_run(books, make_questions(1))
    retrieve(books, echo, outbox, message(run, "q0"))
    assert error_of(books, run, "q0").type == "WrongIndex"
    assert (echo.calls, outbox.sent) == ([], [])


def test_the_prompt_has_the_passages_and_the_verdict_keeps_them(
    books: MemoryLedger, echo: Echo, outbox: Outbox
) -> None:
    run = open_run(books, make_questions(2), rag=RAG)
    retrieve(books, echo, outbox, message(run, "q0", "q1"))
    kept = books.passages(run.run_id, ["q0"])["q0"]
    score(books, outbox, message(run, "q0", "q1"))
    assert verdict_of(books, run, "q0").passages == kept
    assert books.passages(run.run_id, ["q0"]) == {}, "they live in the verdict now"


def test_a_question_that_reaches_the_model_without_its_passages_goes_back_for_them(
    books: MemoryLedger, outbox: Outbox
) -> None:
    run = open_run(books, make_questions(2), rag=RAG)
    books.attach(run.run_id, {"q0": [Passage(id="p", score=1.0, text="found")]})
    held = message(run, "q0", "q1", priority=Priority.LOW)
    score(books, outbox, held)
    assert outbox.sent == [("retrieve.facts", QuestionBatch(run.run_id, ["q1"], Priority.LOW, PUBLISHED_AT))]
    assert [question.id for question, verdict in books.results(run.run_id) if verdict] == ["q0"]
    assert held.settlement is Settlement.ACKNOWLEDGE
    assert "1 back to retrieval" in held.summary


def test_a_run_that_limits_its_passages_by_tokens_is_refused_where_nobody_counts_them(
    books: MemoryLedger, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimulatedEngine, "counts_tokens", False)
    run = open_run(books, make_questions(2), rag=RAG.model_copy(update={"max_context_tokens": 100}))
    books.attach(run.run_id, {each: [Passage(id="p", score=1.0, text="found")] for each in ("q0", "q1")})
    score(books, outbox, message(run, "q0"))
    assert "does not count tokens" in error_of(books, run, "q0").message
    monkeypatch.setattr(SimulatedEngine, "counts_tokens", True)
    score(books, outbox, message(run, "q1"))
    assert verdict_of(books, run, "q1").error is None


def test_looking_up_does_not_count_as_an_attempt_to_score(books: MemoryLedger, echo: Echo, outbox: Outbox) -> None:
    run = open_run(books, make_questions(1), rag=RAG)
    retrieve(books, echo, outbox, message(run, "q0"))
    score(books, outbox, message(run, "q0"))
    assert verdict_of(books, run, "q0").attempts == 1


def test_a_question_that_kills_its_retrieval_worker_again_and_again_fails(
    books: MemoryLedger, echo: Echo, outbox: Outbox
) -> None:
    run = open_run(books, make_questions(1), rag=RAG)
    for _ in range(SETTINGS.max_attempts):
        books.begin(run.run_id, ["q0"], stage=Stage.RETRIEVE)
    retrieve(books, echo, outbox, message(run, "q0"))
    assert error_of(books, run, "q0").type == "TooManyAttempts"


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
