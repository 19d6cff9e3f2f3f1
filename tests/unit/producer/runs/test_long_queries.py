"""Queries longer than an encoder reads, told before they are searched for."""

from __future__ import annotations

import json
from pathlib import Path

from contract.index import MANIFEST
from contract.ledger import MemoryLedger
from tests.support import build_test_index, make_question
from tests.unit.producer.conftest import Producer, session_on

SAID = (
    "at least 1 of 2 questions longer than the 256 tokens that all-minilm-l6-v2 reads: only their beginning is "
    "searched for by vectors"
)


def enqueue(*more: str) -> str:
    asked = ["q.jsonl", "--set", "rag.enabled=true", "--set", "rag.index=facts", "--dry-run", *more]
    return Producer(session_on(MemoryLedger()), "enqueue")(*asked).stdout


def index_and_questions(folder: Path, *questions: dict[str, object]) -> None:
    build_test_index(folder / "facts", ["one", "two"], "hybrid")
    rows = [make_question(at, **each).model_dump_json() for at, each in enumerate(questions)]
    (folder / "q.jsonl").write_text("\n".join(rows))


def test_enqueue_says_how_many_questions_an_encoder_does_not_read_to_the_end(tmp_path: Path) -> None:
    index_and_questions(tmp_path, {"question": "word, " * 129}, {"question": "short"})
    assert SAID in enqueue()
    assert json.loads(enqueue("--json"))["long_queries"] == {"at_least": 1, "encoder_reads": 256}
    assert "queries" not in enqueue("--set", "rag.kind=bm25")
    assert "long_queries" not in json.loads(enqueue("--set", "rag.kind=bm25", "--json"))


def test_accents_that_are_characters_of_their_own_and_soft_hyphens_are_no_tokens(tmp_path: Path) -> None:
    """An encoder's tokenizer removes them: 150 words were counted as 300 tokens."""
    index_and_questions(tmp_path, {"question": "cafe\u0301 " * 150}, {"question": "x\u00ady " * 150})
    assert "queries" not in enqueue()


def test_choices_count_where_they_are_searched_for(tmp_path: Path) -> None:
    index_and_questions(tmp_path, {"choices": ("word " * 300, "x")}, {})
    assert "queries" not in enqueue()
    assert SAID in enqueue("--set", "rag.query=question+choices")


def test_a_question_that_is_shown_its_own_context_is_no_query(tmp_path: Path) -> None:
    index_and_questions(tmp_path, {"question": "word " * 300, "context": "Its own."}, {})
    assert "queries" not in enqueue("--set", "rag.use_context_field=true")


def test_nothing_is_claimed_of_an_older_index_which_does_not_say_what_its_encoder_reads(tmp_path: Path) -> None:
    index_and_questions(tmp_path, {"question": "word " * 300}, {})
    manifest = json.loads((tmp_path / "facts" / MANIFEST).read_text())
    del manifest["encoder"]["max_tokens"]
    (tmp_path / "facts" / MANIFEST).write_text(json.dumps(manifest))
    assert "queries" not in enqueue()
