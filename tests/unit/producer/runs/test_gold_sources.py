"""Whether what questions name as their source can be found at all, said before they are asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contract.index import PASSAGES, Chunking
from contract.relevance import sources_of
from contract.verdict import Passage
from producer.corpus.document import Document
from producer.corpus.store import store_passages
from producer.runs.gold_sources import Named, named_sources
from tests.support import build_test_index, make_question
from tests.unit.producer.conftest import Producer


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    """The passages of an index: of a document `iron` that is cut in two, and of one with a path and a question."""
    documents = [
        Document("iron", "Iron rusts.", "", "", "made up", 1),
        Document("zinc", "It", "metals/zinc.md", "ab12", "made up", 2),
    ]
    store_passages(documents, Chunking(tokens=2), tmp_path / PASSAGES, tmp_path)
    return tmp_path


def named(index: Path, *sources: dict[str, Any]) -> Named:
    return named_sources([make_question(at, **each) for at, each in enumerate(sources)], index, by_hash=True)


@pytest.mark.parametrize(
    "source",
    [
        {"gold_passages": ["iron#2"]},
        {"gold_passages": ["iron"]},
        {"metadata": {"source_id": "zinc"}},
        {"metadata": {"source_path": "metals/zinc.md"}},
        {"metadata": {"question_hash": "ab12"}},
    ],
)
def test_a_source_that_the_index_has_is_not_lost(passages: Path, source: dict[str, Any]) -> None:
    assert named(passages, source, {}) == Named(questions=2, sourced=1, lost=0)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ({"gold_passages": ["iron#3"]}, "iron#3"),
        ({"gold_passages": ["metals/zinc.md"]}, "metals/zinc.md"),
        ({"metadata": {"source_path": "zinc"}}, "zinc"),
        ({"metadata": {"source_id": "Iron"}}, "Iron"),
    ],
)
def test_a_source_that_the_index_lacks_is_told_with_an_example(
    passages: Path, source: dict[str, Any], name: str
) -> None:
    assert named(passages, source, {"gold_passages": ["iron"]}).lines() == [
        (
            "sources",
            "2 of 2 questions name their source; for 1 it is not in the index, so they count as not found: "
            f"q0 names {name!r}",
        )
    ]


def test_passages_of_which_the_index_has_only_some_are_told_as_they_limit_the_share_that_is_found(
    passages: Path,
) -> None:
    found = named(passages, {"gold_passages": ["elsewhere", "iron#1"]}, {"gold_passages": ["iron", "zinc"]})

    said = "for 1 only some passages are, so the share of them that is found stays below 1"
    assert found.lines() == [("sources", f"2 of 2 questions name their source; {said}")]
    assert found.to_json() == {"named_by": 2, "not_in_index": 0, "partly_in_index": 1}


def test_questions_that_name_nothing_are_told_to_have_no_recall(passages: Path) -> None:
    assert named(passages, {}).lines() == [("sources", "no question names its source, so there will be no recall")]


def test_where_the_passages_are_elsewhere_nobody_claims_to_have_looked(tmp_path: Path) -> None:
    found = named(tmp_path / "manifest alone", {"gold_passages": ["iron"]})
    assert found.lost is None
    assert "only where its passages are stored" in found.lines()[0][1]


def test_enqueue_says_before_anything_is_asked_which_sources_cannot_be_found(
    tmp_path: Path, producer: Producer
) -> None:
    build_test_index(tmp_path / "facts", ["one", "two"])
    rows = [make_question(at, gold_passages=[gold]).model_dump_json() for at, gold in enumerate(("p0", "p2"))]
    (tmp_path / "q.jsonl").write_text("\n".join(rows))

    asked = ["enqueue", "q.jsonl", "--set", "rag.enabled=true", "--set", "rag.index=facts"]
    said = "2 of 2 questions name their source; for 1 it is not in the index, so they count as not found: q1 names 'p2'"
    assert said in producer(*asked, "--dry-run").stdout
    with_rag, without = producer(*asked).stdout, producer(*asked, "--no-rag").stdout
    assert said in with_rag
    assert producer.json(*asked)["sources"] == {"named_by": 2, "not_in_index": 1, "partly_in_index": 0}
    assert "sources" not in without
    assert ["passages from" in each for each in (with_rag, without)] == [True, False]


def test_hashes_that_the_reader_adds_are_no_sources_of_an_index_without_any_also_where_its_passages_are_elsewhere(
    tmp_path: Path, producer: Producer
) -> None:
    build_test_index(tmp_path / "facts", ["one", "two"])
    (tmp_path / "facts" / PASSAGES).unlink()
    (tmp_path / "q.json").write_text(json.dumps([{"question": "One?\nA) yes\nB) no", "answer": "A"}]))

    asked = producer.json("enqueue", "q.json", "--set", "rag.enabled=true", "--set", "rag.index=facts")

    assert asked["sources"] == {"named_by": 0, "not_in_index": None, "partly_in_index": None}


def test_a_source_that_looks_like_a_list_may_be_a_name(tmp_path: Path) -> None:
    """The document "[1]" was found, and counted as a miss."""
    named_so = make_question(0, metadata={"source_id": "[1]"})
    assert sources_of(named_so).hit([Passage(id="[1]", score=1.0, text="t", document="[1]")])
    assert sources_of(named_so).hit([Passage(id="1#2", score=1.0, text="t", document="1")])
    assert not sources_of(named_so).hit([Passage(id="2", score=1.0, text="t", document="2")])
