"""Which passages answer a question."""

from __future__ import annotations

import pytest

from contract.relevance import sources_of
from contract.verdict import Passage
from tests.support import make_question

PASSAGE = Passage(
    id="doc7-0002", score=1.0, text="Water boils.", document="doc7", path="notes/water.md", question_hash="ab12"
)


@pytest.mark.parametrize(
    "named",
    [
        {"gold_passages": ("other", "doc7-0002")},
        {"metadata": {"source_chunk_id": "doc7-0002"}},
        {"metadata": {"source_id": "doc7"}},
        {"metadata": {"source_id": "doc7-0002"}},
        {"gold_passages": ("other", "doc7")},
        {"metadata": {"source_path": "notes/water.md"}},
        {"metadata": {"source_id": '["doc6","doc7"]'}},
        {"metadata": {"source_path": '["notes/water.md"]'}},
        {"metadata": {"question_hash": "ab12"}},
        {"metadata": {"question_hash": '["cd34","ab12"]'}},
    ],
)
def test_a_passage_answers_the_question_that_names_it_in_any_of_the_known_ways(named: dict[str, object]) -> None:
    sources = sources_of(make_question(1, **named))
    assert sources.hit([Passage(id="x", score=2.0, text="no"), PASSAGE]) is True
    assert sources.hit([Passage(id="x", score=2.0, text="no")]) is False
    assert sources.hit([]) is False


@pytest.mark.parametrize(
    "metadata", [{}, {"source_id": ""}, {"source_path": None}, {"source_id": "[]"}, {"level": "doc7"}]
)
def test_a_question_that_names_no_source_is_neither_hit_nor_missed(metadata: dict[str, object]) -> None:
    assert sources_of(make_question(1, metadata=metadata)).hit([PASSAGE]) is None


@pytest.mark.parametrize(
    "source",
    [59, "[draft", pytest.param("[" * 5000, id="more brackets than Python reads")],
)
def test_a_source_that_is_no_list_though_it_may_begin_like_one_is_the_text_of_it(source: int | str) -> None:
    passage = Passage(id=str(source), score=1.0, text="")
    assert sources_of(make_question(1, metadata={"source_id": source})).hit([passage]) is True


def test_a_list_names_its_members_and_not_itself() -> None:
    sources = sources_of(make_question(1, metadata={"source_chunk_id": '["a","b"]'}))
    assert sources.passages == {"a", "b"}


@pytest.mark.parametrize("member", ['""', "null", '{"id": "a"}', '["a"]'])
def test_what_is_empty_or_no_name_in_a_list_names_nothing(member: str) -> None:
    """Every passage of an index without documents would be the one with the empty name."""
    assert sources_of(make_question(1, metadata={"source_id": f"[{member}]"})).hit([PASSAGE]) is None
    named = sources_of(make_question(1, metadata={"source_id": f'["b", {member}]'}))
    assert not named.answered_by(Passage(id="a", score=1.0, text=""))


def test_a_hash_names_a_source_only_where_the_index_has_hashes() -> None:
    question = make_question(1, metadata={"question_hash": "ab12"})
    assert sources_of(question, by_hash=True).hit([]) is False
    assert sources_of(question, by_hash=False).hit([]) is None


def test_a_named_document_is_found_with_any_of_its_passages() -> None:
    sources = sources_of(make_question(1, gold_passages=("doc7", "other")))
    assert sources.named_among([PASSAGE, PASSAGE.model_copy(update={"id": "doc7-0003"})]) == {"doc7"}


def test_a_number_that_became_a_float_names_what_it_named_before() -> None:
    """As pandas writes numbers of a column with empty cells."""
    for given in (1.0, "[1.0]", "[1, 2.0]"):
        sources = sources_of(make_question(1, metadata={"source_id": given}))
        assert sources.answered_by(Passage(id="1", score=1.0, text=""))
