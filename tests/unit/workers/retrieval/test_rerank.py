"""Rerankers: what was found, in the order of a cross-encoder's own scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from contract.errors import HubUnreachable, InputError, ModelNotFound
from contract.spec import IndexKind
from tests.unit.workers.retrieval.texts import QUERIES, TEXTS, ids
from workers.retrieval.encoder import TextEncoder
from workers.retrieval.load import IndexRetriever
from workers.retrieval.rerank import CrossEncoder, RerankingRetriever


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cross-encoder with weights that were never trained: its order is its own, and that is all that is asked."""
    return made_cross_encoder(tmp_path_factory.mktemp("cross-encoder"))


def made_cross_encoder(folder: Path, labels: int = 1) -> Path:
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    words = sorted({word.strip(".?").lower() for text in [*TEXTS, *QUERIES] for word in text.split()})
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    config = BertConfig(
        vocab_size=len(words) + 5,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        num_labels=labels,
        initializer_range=1.0,
    )
    torch.manual_seed(0)  # scores that lie apart: other draws nearly tie two passages
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def test_a_reranker_orders_what_was_found_by_its_own_scores(hybrid: IndexRetriever, cross_encoder: Path) -> None:
    from sentence_transformers import CrossEncoder as LibraryCrossEncoder

    found = RerankingRetriever(hybrid, CrossEncoder(str(cross_encoder)), rerank_from=6).search(QUERIES, 3)
    by_hand = LibraryCrossEncoder(str(cross_encoder), device="cpu")
    for query, passages, candidates in zip(QUERIES, found, hybrid.search(QUERIES, 6), strict=True):
        scores = by_hand.predict([(query, each.text) for each in candidates], show_progress_bar=False)
        order = np.argsort(-scores)[:3]
        assert ids(passages) == [candidates[position].id for position in order]
        assert [each.score for each in passages] == pytest.approx(scores[order].tolist(), abs=1e-5)
        assert [each.rank for each in passages] == [1, 2, 3]


def test_a_reranker_has_nothing_to_say_where_nothing_was_found(hybrid: IndexRetriever, cross_encoder: Path) -> None:
    reranked = RerankingRetriever(hybrid, CrossEncoder(str(cross_encoder)), rerank_from=6)
    assert reranked.search(["", "zinc"], 3, IndexKind.BM25) == [[], []]


def test_a_model_that_gives_a_pair_several_scores_is_no_reranker(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gives 2 scores per pair, not a single one to rank passages by"):
        CrossEncoder(str(made_cross_encoder(tmp_path, labels=2)))


@pytest.mark.parametrize(
    ("load", "kind", "setting"),
    [
        (partial(TextEncoder, device="cpu"), "SentenceTransformer", "encoder"),
        (CrossEncoder, "CrossEncoder", "reranker"),
    ],
)
def test_a_download_that_breaks_off_is_tried_again_later_and_a_model_that_cannot_be_read_is_not(
    load: Callable[[str], object], kind: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks_off(*_: object, **__: object) -> None:
        raise trouble

    monkeypatch.setattr("workers.retrieval.sentence_models.require_hub", lambda *_: None)
    monkeypatch.setattr(f"sentence_transformers.{kind}", breaks_off)
    trouble: Exception = OSError("the connection was reset")
    with pytest.raises(HubUnreachable, match=f"{setting}: owner/name cannot be loaded: the connection was reset"):
        load("owner/name")
    trouble = ValueError("no such architecture")
    with pytest.raises(ModelNotFound, match="no such architecture") as caught:
        load("owner/name")
    assert not isinstance(caught.value, HubUnreachable)


def test_a_reranker_that_does_not_exist_is_told() -> None:
    with pytest.raises(ModelNotFound, match="reranker: no folder /no/such/folder"):
        CrossEncoder("/no/such/folder")
