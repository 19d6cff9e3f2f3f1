"""What a model's folder lacks, found before an engine boots."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.errors import ModelNotFound
from contract.settings import Settings, load_settings
from workers.check import check
from workers.engines.model_files import require_tokenizer
from workers.host.machine import Machine
from workers.host.placement import SettingsSources, plan_host
from workers.unbootable import refuse_unbootable


def trained(folder: Path, *files: str) -> Path:
    """A model's folder as a trainer leaves it, with these files in addition."""
    for name in ("config.json", "generation_config.json", "model.safetensors", "training_args.bin", *files):
        (folder / name).write_text("{}")
    return folder


def serving(folder: Path, *words: str) -> Settings:
    return load_settings(None, [f"hf_model_id={folder}", "redis_url=redis://127.0.0.1:1", *words])


def test_a_folder_without_a_tokenizer_is_refused_by_up_and_told_by_check(tmp_path: Path) -> None:
    """Workers booted vLLM again and again, with half a sentence of transformers each time; check said ok."""
    machine, settings = Machine([], [0]), serving(trained(tmp_path))
    with pytest.raises(ModelNotFound, match=r"has no tokenizer\. .* vllm_args\.tokenizer"):
        refuse_unbootable([settings], plan_host([settings], machine, SettingsSources())[0])
    found = {each.what: each for each in check([settings], machine)}
    assert found["model"].level == "error"
    assert "has no tokenizer" in found["model"].found


@pytest.mark.parametrize(
    "file",
    ["tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "tekken.json", "spiece.model", "qwen.tiktoken"],
)
def test_any_kind_of_tokenizer_is_left_to_the_engine(file: str, tmp_path: Path) -> None:
    require_tokenizer(str(trained(tmp_path, file)), {})


def test_a_tokenizer_that_is_named_besides_need_not_be_in_the_folder(tmp_path: Path) -> None:
    require_tokenizer(str(trained(tmp_path)), {"tokenizer": "owner/base"})


def test_a_hub_id_has_no_files_to_look_at() -> None:
    require_tokenizer("owner/name", {})
