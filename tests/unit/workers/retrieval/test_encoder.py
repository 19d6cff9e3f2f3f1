"""Encoders: what they read, what makes one another, where their weights lie, and the devices that they run on."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import SafetensorError

from contract.errors import IndexUnusable, InputError, ModelNotFound
from contract.index import DEFAULT_ENCODER, MANIFEST, read_manifest
from tests.support import build_test_index
from tests.unit.workers.retrieval.texts import QUERIES, TEXTS, ids
from workers.packaged_weights import PackagedWeights
from workers.retrieval.build import device_errors, free_device
from workers.retrieval.encoder import PACKAGED_ENCODERS, TextEncoder
from workers.retrieval.encoder_files import deciding_files
from workers.retrieval.load import load_index


def test_vectors_have_length_1(encoder: TextEncoder) -> None:
    assert np.linalg.norm(encoder.queries(QUERIES), axis=1) == pytest.approx(1, abs=1e-5)
    assert encoder.info.dimensions == encoder.passages(TEXTS).shape[1] == 384


def test_an_encoder_knows_which_texts_it_does_not_read_to_the_end(encoder: TextEncoder) -> None:
    assert encoder.too_long(["short", "long " * 300, "word " * 254, "word " * 255]) == 2


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
