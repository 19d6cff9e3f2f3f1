"""Indexes by vectors, by both, and re-ranked: each against the same thing done by hand, with the real encoder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import SafetensorError

from contract.errors import HubUnreachable, IndexUnusable, InputError, ModelNotFound
from contract.index import DEFAULT_ENCODER, MANIFEST, DenseOptions, Precision, Structure, read_manifest
from contract.spec import IndexKind
from contract.verdict import Passage
from tests.support import build_test_index
from tests.unit.producer.conftest import room_per_file
from workers.packaged_weights import PackagedWeights
from workers.retrieval.build import device_errors, free_device
from workers.retrieval.dense import VectorIndex, vector_bytes
from workers.retrieval.encoder import PACKAGED_ENCODERS, TextEncoder, Vectors
from workers.retrieval.encoder_files import deciding_files
from workers.retrieval.hybrid import fuse
from workers.retrieval.load import IndexRetriever, load_index, search_threads
from workers.retrieval.ranking import Ranking
from workers.retrieval.rerank import CrossEncoder, RerankingRetriever

TEXTS = [
    "Iron rusts when it meets water and air.",
    "Water boils at 100 degrees Celsius.",
    "Copper conducts electricity well.",
    "Plants turn sunlight into sugar.",
    "The heart pumps blood through the body.",
    "Birds build nests in spring.",
    "A magnet attracts iron.",
    "Sound travels faster in water than in air.",
]
QUERIES = ["Which organ moves blood?", "Why does metal corrode?", "photosynthesis"]


def ids(found: Sequence[Passage]) -> list[str]:
    return [each.id for each in found]


def unit_vectors(count: int, dimensions: int = 64, seed: int = 0) -> Vectors:
    drawn = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), dtype=np.float32)


def filled(vectors: Vectors, options: DenseOptions, path: Path) -> VectorIndex:
    """An index that was written and read again, as all are that serve."""
    made = VectorIndex.empty(vectors.shape[1], options)
    made.add(vectors[:10])
    made.add(vectors[10:])
    made.write(path)
    return VectorIndex.read(path, options)


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return TextEncoder("all-minilm-l6-v2", device="cpu")


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> IndexRetriever:
    return load_index(build_test_index(tmp_path_factory.mktemp("indexes") / "hybrid", TEXTS, "hybrid"))


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


@pytest.mark.parametrize("top_k", [1, 7, 500])
def test_the_nearest_vectors_are_those_of_a_brute_force_search(tmp_path: Path, top_k: int) -> None:
    vectors, queries = unit_vectors(300), unit_vectors(9, seed=1)
    index = filled(vectors, DenseOptions(), tmp_path / "v")
    for found, row in zip(index.find(queries, top_k), queries @ vectors.T, strict=True):
        assert found.positions.tolist() == np.argsort(-row)[:top_k].tolist()
        assert found.scores == pytest.approx(np.sort(row)[::-1][:top_k], abs=1e-5)


@pytest.mark.parametrize("top_k", [10, 500])
def test_a_graph_finds_nearly_all_of_the_nearest_with_their_true_scores(tmp_path: Path, top_k: int) -> None:
    vectors, queries = unit_vectors(300), unit_vectors(9, seed=1)
    index = filled(vectors, DenseOptions(structure=Structure.HNSW), tmp_path / "v")
    for found, row in zip(index.find(queries, top_k), queries @ vectors.T, strict=True):
        nearest = np.argsort(-row)[:top_k]
        assert len(set(found.positions.tolist()) & set(nearest.tolist())) >= 0.9 * len(nearest)
        assert found.scores == pytest.approx(row[found.positions], abs=1e-5)
        assert (np.diff(found.scores) <= 0).all()


@pytest.mark.parametrize("structure", Structure)
def test_binary_vectors_are_scored_again_with_the_full_query(tmp_path: Path, structure: Structure) -> None:
    vectors, queries = unit_vectors(40), unit_vectors(9, seed=1)
    index = filled(vectors, DenseOptions(structure=structure, precision=Precision.BINARY), tmp_path / "v")
    signs = np.where(vectors > 0, 1, -1) / np.sqrt(vectors.shape[1])
    for found, row in zip(index.find(queries, 10), queries @ signs.T, strict=True):
        # Four candidates for each of ten: all forty are scored again, or those that the graph reaches.
        reached = 1.0 if structure is Structure.EXACT else 0.9
        assert len(set(found.positions.tolist()) & set(np.argsort(-row)[:10].tolist())) >= 10 * reached
        assert found.scores == pytest.approx(row[found.positions], abs=1e-5)
        assert (np.diff(found.scores) <= 0).all()


def test_binary_candidates_are_the_nearest_by_hamming_distance(tmp_path: Path) -> None:
    vectors, queries = unit_vectors(500), unit_vectors(9, seed=1)
    index = filled(vectors, DenseOptions(precision=Precision.BINARY), tmp_path / "v")
    for found, query in zip(index.find(queries, 5), queries, strict=True):
        distances = ((vectors > 0) != (query > 0)).sum(axis=1)
        assert (distances[found.positions] <= np.sort(distances)[4 * 5 - 1]).all()


def test_equal_vectors_come_in_the_passages_order_at_the_edge_too(tmp_path: Path) -> None:
    vectors = np.concatenate([unit_vectors(1)] * 30 + [unit_vectors(1, seed=1)] + [unit_vectors(1)] * 30)
    (found,) = filled(vectors, DenseOptions(), tmp_path / "v").find(vectors[30:31], 4)
    assert found.positions.tolist() == [30, 0, 1, 2]


def test_vectors_that_are_added_in_their_room_take_no_more_memory_than_a_build_asks_for() -> None:
    """They took twice that, although the build had found enough for all of them."""
    count, dimensions, options = 132 * 1024, 64, DenseOptions()
    program = f"""
import numpy as np
from contract.index import DenseOptions
from workers.retrieval.dense import VectorIndex, vector_bytes
def peak_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
vectors = VectorIndex.empty({dimensions}, DenseOptions(), {count})
before, some = peak_bytes(), np.ones((1024, {dimensions}), np.float32)
while len(vectors) < {count}:
    vectors.add(some)
print(peak_bytes() - before)
"""
    more = int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)
    assert more < 0.5 * count * vector_bytes(dimensions, options)


@pytest.mark.parametrize("structure", list(Structure))
@pytest.mark.parametrize("precision", list(Precision))
def test_room_for_vectors_changes_no_index(tmp_path: Path, structure: Structure, precision: Precision) -> None:
    options = DenseOptions(structure=structure, precision=precision)
    written = []
    for room in (0, 50, 300):
        made = VectorIndex.empty(16, options, room)
        for block in np.split(unit_vectors(200, 16), 4):
            made.add(block)
        made.write(tmp_path / "x")
        written.append((tmp_path / "x").read_bytes())
    assert written[0] == written[1] == written[2]


@pytest.mark.parametrize(("missing", "reason"), [(1, "the end is missing"), (70_000, "File too large")])
def test_vectors_that_do_not_fit_on_the_disk_are_told_with_their_file(
    tmp_path: Path, missing: int, reason: str
) -> None:
    """It was said that the device cannot be used, or nothing, and workers could not open the index."""
    vectors = filled(unit_vectors(300), DenseOptions(), tmp_path / "x")
    with (
        room_per_file((tmp_path / "x").stat().st_size - missing),
        pytest.raises(InputError, match=rf"/y: cannot be written: {reason}\. Check the disk space"),
        device_errors("cpu"),
    ):
        vectors.write(tmp_path / "y")


def test_signs_need_whole_bytes() -> None:
    with pytest.raises(
        InputError, match=r"The signs of 12 dimensions do not fill whole bytes\. Build it with --precision"
    ):
        VectorIndex.empty(12, DenseOptions(precision=Precision.BINARY))


def test_vectors_have_length_1(encoder: TextEncoder) -> None:
    assert np.linalg.norm(encoder.queries(QUERIES), axis=1) == pytest.approx(1, abs=1e-5)
    assert encoder.info.dimensions == encoder.passages(TEXTS).shape[1] == 384


def test_an_encoder_knows_which_texts_it_does_not_read_to_the_end(encoder: TextEncoder) -> None:
    assert encoder.too_long(["short", "long " * 300, "word " * 254, "word " * 255]) == 2


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


@pytest.fixture
def own_encoder(tmp_path: Path) -> Path:
    """The packaged encoder as a folder that may be changed."""
    packaged = PACKAGED_ENCODERS[DEFAULT_ENCODER].path().parent
    return Path(shutil.copytree(packaged, tmp_path / "encoder", copy_function=shutil.copyfile))


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("given", [None, "passage: "], ids=["registered", "given"])
def test_what_is_put_before_a_passage_counts_among_the_tokens_that_are_read(
    own_encoder: Path, given: str | None
) -> None:
    """Passages of which the last words were cut off were not told."""
    if given is None:
        edit(own_encoder / "config_sentence_transformers.json", prompts={"document": "passage: "})
    encoder = TextEncoder(str(own_encoder), "cpu", passage_prompt=given)
    assert encoder.too_long(["word " * 252, "word " * 253]) == 1


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("config_sentence_transformers.json", {"prompts": {"query": "query: ", "document": ""}}),
        ("sentence_bert_config.json", {"max_seq_length": 64}),
        ("1_Pooling/config.json", {"include_prompt": False}),
    ],
)
def test_an_encoder_that_was_set_otherwise_is_another_one(
    tmp_path: Path, own_encoder: Path, file: str, changes: dict[str, object]
) -> None:
    folder = build_test_index(tmp_path / "x", TEXTS[:2], "dense", encoder_id=str(own_encoder))
    edit(own_encoder / file, **changes)
    with pytest.raises(
        IndexUnusable, match=rf"was built with a different encoder .*; differing: {file}\. .*build the index again"
    ):
        load_index(folder)
    anew = build_test_index(tmp_path / "y", TEXTS[:2], "dense", encoder_id=str(own_encoder))
    assert read_manifest(anew).digest != read_manifest(folder).digest


def test_what_decides_no_vector_may_differ(own_encoder: Path) -> None:
    before = deciding_files(own_encoder)
    assert {"model.safetensors", "modules.json", "tokenizer.json", "1_Pooling/config.json"} <= before.keys()
    (own_encoder / "README.md").write_text("Nice.")
    (own_encoder / "onnx").mkdir()
    (own_encoder / "onnx" / "model.onnx").write_text("The same in another format.")
    (own_encoder / "vocab.txt").unlink()
    assert deciding_files(own_encoder) == before


def test_weights_in_several_files_count_all(own_encoder: Path) -> None:
    (own_encoder / "model.safetensors").unlink()
    for name in ("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"):
        (own_encoder / name).write_text(name)
    assert sum(name.endswith(".bin") for name in deciding_files(own_encoder)) == 2


def test_an_encoder_of_another_host_is_found_beside_the_index(tmp_path: Path, own_encoder: Path) -> None:
    built = build_test_index(tmp_path / "here" / "x", TEXTS[:2], "dense", encoder_id=str(own_encoder))
    there = tmp_path / "there"
    built.parent.rename(there)
    own_encoder.rename(there / "encoder")
    assert ids(load_index(there / "x").search(["rust"], 1)[0]) == ["p0"]
    edit(there / "encoder" / "sentence_bert_config.json", max_seq_length=64)
    with pytest.raises(IndexUnusable, match="was built with a different encoder"):
        load_index(there / "x")


def test_an_index_from_before_all_files_were_hashed_is_opened_by_the_weights_alone(tmp_path: Path) -> None:
    folder = build_test_index(tmp_path / "x", TEXTS[:2], "dense")
    manifest = read_manifest(folder)
    assert manifest.encoder is not None
    weights = manifest.encoder.files["model.safetensors"]
    for known, opens in ((weights, True), (None, True), ("0" * 64, False)):
        before = manifest.encoder.model_copy(update={"files": {}, "weights_sha256": known})
        (folder / MANIFEST).write_text(manifest.model_copy(update={"encoder": before}).model_dump_json())
        with nullcontext() if opens else pytest.raises(IndexUnusable, match="differing: weights"):
            load_index(folder)


def test_prompts_are_put_before_queries_and_passages_and_belong_to_the_index(tmp_path: Path, own_encoder: Path) -> None:
    told: list[dict[str, object]] = []
    plain = build_test_index(tmp_path / "plain", TEXTS[:2], "dense", encoder_id=str(own_encoder), told=told)
    assert any("registers no prompts" in str(event.get("note")) for event in told)
    told.clear()
    prompts = {"query_prompt": "query: ", "passage_prompt": "passage: "}
    prompted = build_test_index(
        tmp_path / "prompted", TEXTS[:2], "dense", encoder_id=str(own_encoder), told=told, prompts=prompts
    )
    assert not any("note" in event for event in told)
    assert read_manifest(prompted).digest != read_manifest(plain).digest
    by_hand = TextEncoder(str(own_encoder), "cpu")
    (found,) = load_index(prompted).search(["Why does iron rust?"], 1)
    expected = by_hand.queries(["query: Why does iron rust?"]) @ by_hand.passages([f"passage: {TEXTS[0]}"]).T
    assert found[0].score == pytest.approx(float(expected[0, 0]), abs=1e-5)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "all-minilm-l6-v3",
            "encoder: .* is neither a folder, nor a packaged model.* Did you mean 'all-minilm-l6-v2'?",
        ),
        ("/no/such/folder", "encoder: no folder /no/such/folder"),
    ],
)
def test_an_encoder_that_does_not_exist_is_named_with_the_nearest(name: str, says: str) -> None:
    with pytest.raises(ModelNotFound, match=says):
        TextEncoder(name, "cpu")


def test_an_encoder_without_a_name_is_refused_and_is_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--encoder "$ENCODER"`, with a variable that is not set, ended in a traceback."""
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFound, match="encoder: '' is neither a folder, nor a packaged model, nor a hub id"):
        build_test_index(tmp_path / "index", TEXTS[:2], "dense", encoder_id="")


def test_a_folder_that_holds_no_encoder_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelNotFound, match=r"encoder: .* cannot be loaded"):
        TextEncoder(str(tmp_path), "cpu")


@pytest.mark.parametrize("trouble", [KeyError("path"), TypeError("unexpected argument"), SafetensorError("truncated")])
def test_a_damaged_encoder_is_told_as_one_that_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trouble: Exception
) -> None:
    """A truncated file of weights was a traceback; as a reranker, it was read again for every question."""

    def fails(*_: Any, **__: Any) -> None:
        raise trouble

    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr("sentence_transformers.SentenceTransformer", fails)
    with pytest.raises(ModelNotFound, match=f"encoder: {tmp_path} cannot be loaded: .* copy it anew"):
        TextEncoder(str(tmp_path), "cpu")


def test_a_machine_without_the_library_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(InputError, match=r"sentence_transformers is not installed.* requirements/retrieval\.txt"):
        TextEncoder("all-minilm-l6-v2", "cpu")


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


@pytest.mark.parametrize(
    ("package", "says"),
    [("no_such_package", "is not installed"), ("tests", "is not the expected file \\(SHA-256 no such file\\)")],
)
def test_packaged_weights_are_these_and_no_others(monkeypatch: pytest.MonkeyPatch, package: str, says: str) -> None:
    monkeypatch.setitem(
        PACKAGED_ENCODERS, "broken", PackagedWeights(package, "the-package==1", "model.safetensors", "0" * 64)
    )
    with pytest.raises(ModelNotFound, match=f"{says}.*the-package==1"):
        TextEncoder("broken", "cpu")


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


@pytest.mark.parametrize(
    ("gpus", "device"), [([], "cpu"), ([1.0], "cuda:0"), ([0.1, 0.99], "cuda:1"), ([0.1, None], "cpu"), ([0.89], "cpu")]
)
def test_vectors_are_made_on_a_gpu_that_nobody_else_uses_else_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, gpus: list[float | None], device: str
) -> None:
    def room(number: int) -> tuple[float, float]:
        if gpus[number] is None:
            raise RuntimeError("CUDA error: out of memory")
        return gpus[number] or 0.0, 1.0

    monkeypatch.setattr("torch.cuda.device_count", lambda: len(gpus))
    monkeypatch.setattr("torch.cuda.mem_get_info", room)
    assert free_device() == device


def test_a_gpu_without_room_for_the_encoder_is_told_with_the_remedy() -> None:
    import torch

    said = r"--device cuda:0: does not have enough memory .* Build with --device cpu"
    with pytest.raises(InputError, match=said), device_errors("cuda:0"):
        raise torch.OutOfMemoryError("CUDA out of memory.")


def test_a_gpu_that_this_torch_cannot_use_is_told_with_the_remedy() -> None:
    said = r"--device cuda: cannot be used: Torch not compiled with CUDA enabled\. Build with --device cpu"
    with pytest.raises(InputError, match=said), device_errors("cuda"):
        raise AssertionError("Torch not compiled with CUDA enabled")  # what torch raises where it was built for CPUs


def test_a_search_keeps_to_its_threads_in_whatever_thread_it_is_asked(tmp_path: Path) -> None:
    import faiss

    vectors, options = unit_vectors(50), DenseOptions()
    filled(vectors, options, tmp_path / "x")
    index = VectorIndex.read(tmp_path / "x", options, threads=1)
    seen: list[int] = []

    def ask() -> None:
        faiss.omp_set_num_threads(2)
        index.find(vectors[:1], 1)
        seen.append(faiss.omp_get_max_threads())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert seen == [1]
