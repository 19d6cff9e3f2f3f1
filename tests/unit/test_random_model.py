"""The model of random weights that a GPU is timed by: its shape, its size, its folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import gpu_check
from benchmarks.random_model import SHAPES, Shape, largest_fitting, write_model

TOKENIZER = {"vocab_size": 49_152, "eos_token_id": 2, "pad_token_id": None, "hidden_size": 576}


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    folder = tmp_path / "packaged"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TOKENIZER))
    for name in ("tokenizer.json", "chat_template.jinja", "model.safetensors", "generation_config.json"):
        (folder / name).write_text(name)
    return folder


@pytest.mark.parametrize(
    ("shape", "vocabulary", "billions"), [(SHAPES[0], 152_064, 7.62), (SHAPES[1], 151_936, 1.78), (SHAPES[2], 0, 0.36)]
)
def test_a_shape_weighs_what_its_model_does(shape: Shape, vocabulary: int, billions: float) -> None:
    assert shape.weights_bytes(vocabulary) / 2 / 1e9 == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize(
    ("memory_gb", "name"), [(141, "7b"), (80, "7b"), (48, "1.5b"), (24, "1.5b"), (8, "0.5b"), (1, "0.5b")]
)
def test_a_gpu_gets_the_largest_shape_that_two_engines_have_room_to_work_with(
    tokenizer: Path, memory_gb: int, name: str
) -> None:
    assert largest_fitting(gpu_check.SHARE * memory_gb * 1e9, tokenizer).name == f"qwen2.5-{name}"


def test_its_folder_has_a_shape_and_a_tokenizer_and_no_weights(tokenizer: Path, tmp_path: Path) -> None:
    folder = write_model(tmp_path, SHAPES[0], tokenizer)
    assert sorted(each.name for each in folder.iterdir()) == ["chat_template.jinja", "config.json", "tokenizer.json"]
    found = json.loads((folder / "config.json").read_text())
    assert (found["hidden_size"], found["vocab_size"], found["eos_token_id"]) == (3584, 49_152, 2)
    assert "pad_token_id" not in found


def test_speed_is_taken_with_random_weights_unless_a_model_is_named(
    tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_check, "prepare", lambda _: tokenizer)
    monkeypatch.setattr(gpu_check, "gpu_memory_bytes", lambda: 80e9)
    with gpu_check.timed_model(None) as timed:
        folder = Path(timed["hf_model_id"])
        assert (folder.name, folder.is_dir()) == ("random-qwen2.5-7b", True)
        assert timed["vllm_args"] == {"load_format": "dummy", "dtype": "bfloat16", "gpu_memory_utilization": 0.4}
        assert timed["server_startup_timeout"] < 600  # it boots in a minute or two, or never
    assert not folder.exists()
    with gpu_check.timed_model("some/model") as timed:
        assert timed == {"hf_model_id": "some/model", "vllm_args": {"gpu_memory_utilization": 0.4}}


def test_only_what_writes_is_held_against_one_request_at_a_time() -> None:
    assert list(gpu_check.speed_checks("letter")) == ["letter: whole path to raw"]
    assert gpu_check.speed_checks("generate") == {
        "generate: whole path to raw": ("mcqueue to raw", 0.93),
        "generate: whole path to one at a time": ("mcqueue to one at a time", 20.0),
    }
