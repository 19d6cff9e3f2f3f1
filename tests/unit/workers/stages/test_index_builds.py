"""A worker that searches and the builds of its index: runs of another wait, go elsewhere, or have it opened."""

from __future__ import annotations

import pytest

from contract.errors import IndexUnusable
from contract.ledger import MemoryLedger, RunState
from contract.spec import Retrieval, Stage
from tests.support import make_questions, open_run
from tests.unit.workers.messages.batches import batch_of, message
from tests.unit.workers.stages.searching import RAG, SETTINGS, Echo, Outbox, retrieve, retriever
from workers.messages.batch import Settlement
from workers.retrieval.base import Retriever


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
    assert (tried, books.counts(run.run_id).settled) == (["9" * 64], 0)


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
