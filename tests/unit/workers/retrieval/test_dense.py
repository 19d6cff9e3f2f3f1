"""Indexes by vectors, and by vectors and words: each against the same thing done by hand, with the real encoder."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from contract.spec import IndexKind
from tests.support import build_test_index
from tests.unit.workers.retrieval.texts import QUERIES, TEXTS, ids
from workers.retrieval.encoder import TextEncoder
from workers.retrieval.hybrid import fuse
from workers.retrieval.load import IndexRetriever, search_threads
from workers.retrieval.ranking import Ranking


def test_dense_ranks_and_scores_equal_a_brute_force_search(hybrid: IndexRetriever, encoder: TextEncoder) -> None:
    cosines = encoder.queries(QUERIES) @ encoder.passages(TEXTS).T
    for found, row in zip(hybrid.search(QUERIES, 100, IndexKind.DENSE), cosines, strict=True):
        assert ids(found) == [f"p{position}" for position in np.argsort(-row)]
        assert [each.score for each in found] == pytest.approx(np.sort(row)[::-1].tolist(), abs=1e-5)
        assert [each.rank for each in found] == list(range(1, len(TEXTS) + 1))


def test_dense_finds_by_meaning_what_shares_no_word(hybrid: IndexRetriever) -> None:
    assert [ids(found)[0] for found in hybrid.search(QUERIES, 1, IndexKind.DENSE)] == ["p4", "p0", "p3"]


def test_hybrid_is_reciprocal_rank_fusion_of_the_two(hybrid: IndexRetriever) -> None:
    queries = [*QUERIES, "water and iron", ""]
    words, vectors = (hybrid.search(queries, 100, kind) for kind in (IndexKind.BM25, IndexKind.DENSE))
    for found, one, other in zip(hybrid.search(queries, 5), words, vectors, strict=True):
        scores = {each.id: 0.0 for each in [*one, *other]}
        for each in [*one, *other]:
            scores[each.id] += 1 / (60 + each.rank)
        expected = sorted(scores, key=lambda each: (-scores[each], int(each[1:])))[:5]
        assert ids(found) == expected
        assert [each.score for each in found] == pytest.approx([scores[each] for each in expected])


def test_fusion_adds_reciprocal_ranks_and_ties_come_in_the_passages_order() -> None:
    one, other = (Ranking(np.array(each), np.ones(3, np.float32)) for each in ([7, 1, 4], [1, 7, 9]))
    found = fuse([one, other], 10)
    assert found.positions.tolist() == [1, 7, 4, 9]
    assert found.scores.tolist() == pytest.approx([1 / 61 + 1 / 62, 1 / 61 + 1 / 62, 1 / 63, 1 / 63])


def test_a_build_says_how_far_it_is_and_what_its_encoder_does_not_read(tmp_path: Path) -> None:
    told: list[dict[str, object]] = []
    build_test_index(tmp_path / "x", [*TEXTS, "long " * 300], "hybrid", told=told)
    assert {"step": "words", "done": 9, "total": 9} in told
    assert {"step": "vectors", "done": 9, "total": 9} in told
    (note,) = (event["note"] for event in told if "note" in event)
    assert str(note).startswith("1 of 9 passages longer than the 256 tokens that all-minilm-l6-v2 reads")


def test_many_threads_may_ask_at_once(hybrid: IndexRetriever) -> None:
    expected = [ids(found) for found in hybrid.search(QUERIES, 3)]
    answers: list[list[list[str]]] = []
    threads = [
        threading.Thread(target=lambda: answers.append([ids(found) for found in hybrid.search(QUERIES, 3)]))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected] * 8


def test_a_search_takes_a_quarter_of_the_cores_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for cores, threads in ((1, 1), (2, 1), (8, 2), (64, 16)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        assert search_threads() == threads
    monkeypatch.setattr("workers.retrieval.load.usable_cores", lambda: 7.5)
    assert search_threads() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert search_threads() is None
