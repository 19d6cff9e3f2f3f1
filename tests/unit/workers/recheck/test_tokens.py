"""A question's prompt, token by token, as the engine is given it."""

from __future__ import annotations

import pytest

from contract import MemoryLedger, Prompt, load_settings
from contract.errors import RunConfigError, SettingsError
from contract.spec import IndexKind, Retrieval
from contract.verdict import Passage
from tests.support import make_questions, open_run
from tests.unit.workers.ready_engine import WordTokenizer
from tests.unit.workers.recheck.stored import commit, stored
from workers.engines.encoding import PromptEncoder
from workers.recheck.tokens import as_asked, refuse_foreign_tokens, request_tokens


def test_tokens_are_those_that_the_engine_is_given(books: MemoryLedger) -> None:
    run = open_run(books, make_questions(1), "old")
    question = books.result(run.run_id, "q0")[0]
    (shown,) = request_tokens(run, question, (), PromptEncoder(WordTokenizer()))
    assert shown["text"] == "Question: What is 0 plus 0?\nAnswer:"
    assert shown["token_ids"][0] == WordTokenizer.bos_token_id
    assert [each["text"] for each in shown["continuations"]] == [" 0", " 1", " 2", " 3"]
    assert all(len(each["token_ids"]) == 1 for each in shown["continuations"])


def test_an_unsettled_question_is_shown_with_the_passages_that_it_will_be_asked_with(books: MemoryLedger) -> None:
    rag = Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25)
    template = Prompt(name="with context", text="{{ context }}\n{{ question }}")
    run = open_run(books, make_questions(2), "old", rag=rag, prompt=template)
    with pytest.raises(RunConfigError, match=r"q0 of .* has no passages yet"):
        as_asked(books, run, "q0")
    books.attach(run.run_id, {"q0": [Passage(id="p", score=2.0, text="Sums are even.")], "q1": []})
    (given,) = request_tokens(run, *as_asked(books, run, "q0"), PromptEncoder(WordTokenizer()))
    assert given["text"] == "Sums are even.\nWhat is 0 plus 0?"
    assert as_asked(books, run, "q1")[1] == ()
    commit(books, run, stored("q0", "", choice="A"))
    assert as_asked(books, run, "q0")[1] == (), "what it was asked with counts"


@pytest.mark.parametrize(
    "overrides", [["engine=simulated"], ["engine=openai", "openai.url=http://127.0.0.1:1", "openai.model=gpt"]]
)
def test_tokens_of_another_model_are_not_shown_for_a_server_s_or_for_none(overrides: list[str]) -> None:
    with pytest.raises(SettingsError, match="cannot be shown"):
        refuse_foreign_tokens(load_settings(None, overrides))
    refuse_foreign_tokens(load_settings(None, []))
