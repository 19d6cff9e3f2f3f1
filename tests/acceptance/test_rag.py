"""Retrieval as a person runs it: an index built by the command, a worker started by hand, real vLLM, a comparison."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Stack, rows_of, summary_of
from tests.support import ROOT, command, process, wait_until

QUESTIONS, CORPUS = ROOT / "demo" / "questions.jsonl", ROOT / "demo" / "corpus.jsonl"
#: Of the demo set; enough for a gain of its size to be seen.
ASKED = 48


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("indexes") / "elements"
    command("-m", "producer", "index", str(CORPUS), "-o", str(folder))
    return folder


@pytest.fixture(scope="module")
def searching(stack: Stack, index: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The retrieval worker, as the README starts it."""
    log = stack.logs / "searching.log"
    by_hand = ("-m", "celery", "-A", "workers.app", "worker", "--pool", "threads", "-Q", "retrieve.elements")
    environment = {**stack.environment, "MCQUEUE_INDEXES": json.dumps([str(index)])}
    with process(*by_hand, "-n", "searching@test", environment=environment, log=log) as child:
        wait_until(lambda: child.poll() is not None or "ready: takes" in log.read_text(), "the index to be opened")
        assert child.poll() is None, log.read_text()
        yield child


def asked(stack: Stack, index: Path, *overrides: str, limit: int = ASKED) -> Path:
    """Results of the first `limit` questions, asked as configs/runs/rag.yaml has it but for `overrides`."""
    chosen = [part for each in (f"rag.index={index}", *overrides) for part in ("--set", each)]
    return stack.run_to_results(
        str(QUESTIONS), "--config", "configs/runs/rag.yaml", "--limit", str(limit), "--run", "elements", *chosen
    )


@pytest.fixture(scope="module")
def retrieved(stack: Stack, index: Path, searching: subprocess.Popen[bytes]) -> Path:
    return asked(stack, index, "rag.retrieval_top_k=3")


def test_passages_that_hold_the_answers_raise_the_accuracy_and_the_comparison_tells_by_which_questions(
    stack: Stack, index: Path, retrieved: Path
) -> None:
    closed_book = asked(stack, index, "rag.enabled=false")
    compared = stack.producer("compare", closed_book.name, retrieved.name, "--json").stdout
    found: dict[str, Any] = json.loads(compared)
    effect = found["retrieval"]["all"]
    assert effect["repaired"] > effect["broken"]
    assert summary_of(retrieved)["retrieval"]["recall_any"]["3"]["value"] > 0.7


def test_every_row_tells_what_was_retrieved(retrieved: Path) -> None:
    sources = {row["id"]: row["source_id"] for row in map(json.loads, QUESTIONS.read_text().splitlines())}
    for row in rows_of(retrieved):
        ids = json.loads(row["retrieved_ids"])
        assert 1 <= len(ids) <= 3
        assert len(json.loads(row["retrieval_scores"])) == len(ids)
        assert row["retrieval_hit"] == str(sources[row["question_id"]] in ids).lower()


def test_passages_without_room_are_left_out_whole_and_the_row_says_so(
    stack: Stack, index: Path, searching: subprocess.Popen[bytes]
) -> None:
    rows = rows_of(asked(stack, index, "rag.retrieval_top_k=3", "rag.max_context_tokens=100", limit=8))
    left_out = [row for row in rows if row["passages_left_out"] not in ("", "0")]
    assert left_out
    shown = json.loads(stack.producer("show", "last", left_out[0]["question_id"], "--json").stdout)
    passages = shown["verdict"]["passages"]
    assert [each["shown"] for each in passages] == sorted((each["shown"] for each in passages), reverse=True)
    for each in passages:
        assert (each["text"] in shown["prompts"][0]) is each["shown"]
