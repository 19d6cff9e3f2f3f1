"""LoRA adapters: what vLLM is told of them, and which requests carry one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from contract import Mode, load_settings
from contract.errors import ModelNotFound
from contract.prompts import turns_of
from contract.spec import Sampling
from contract.turns import one_turn
from tests.support import make_question, make_spec
from tests.unit.workers.engines.openai.server import Script, serving
from workers.engines import make_engine
from workers.engines.adapters import adapter_arguments, adapter_folders
from workers.engines.base import ScoreRequest
from workers.engines.encoding import Encoded
from workers.engines.prefill_plan import make_plan
from workers.engines.vllm_server import serve_command
from workers.scoring import MODES


def adapter(folder: Path, *ranks: int, **config: object) -> str:
    """A folder with that configuration, and weights of `ranks`: those that the configuration says unless some are."""
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"target_modules": ["q_proj"], **config}))
    told = config.get("r")
    of = ranks or ((told,) if isinstance(told, int) else (1,))
    save_file(
        {
            f"base_model.model.model.layers.{i}.q_proj.lora_A.weight": np.zeros((rank, 2), np.float32)
            for i, rank in enumerate(of)
        },
        folder / "adapter_model.safetensors",
    )
    return str(folder)


def test_vllm_makes_room_for_all_adapters_and_the_highest_rank(tmp_path: Path) -> None:
    one = adapter(tmp_path / "one", r=4)
    two = adapter(tmp_path / "two", r=12, rank_pattern={"q_proj": 33}, target_modules=["self_attn.v_proj", "q_proj"])
    assert adapter_arguments({}) == {}
    room = {"enable_lora": True, "max_loras": 2, "max_lora_rank": 8, "lora_target_modules": ["q_proj"]}
    assert adapter_arguments({"one": one}) == room
    more = {"max_loras": 3, "max_lora_rank": 64, "lora_target_modules": ["q_proj", "v_proj"]}
    assert adapter_arguments({"one": one, "two": two}) == room | more


@pytest.mark.parametrize(
    "config",
    [
        None,
        "{}",
        '{"r": "x"}',
        '{"r": 8, "rank_pattern": [1]}',
        pytest.param("[" * 5000, id="more brackets than Python reads"),
    ],
)
def test_a_folder_that_holds_no_adapter_is_refused_by_name(tmp_path: Path, config: str | None) -> None:
    folder = tmp_path / "x"
    if config is not None:
        (Path(adapter(folder)) / "adapter_config.json").write_text(config)
    with pytest.raises(ModelNotFound, match=r"adapters\.law: .*adapter_config\.json cannot be read"):
        adapter_arguments({"law": str(folder)})


def test_weights_of_another_rank_than_the_configuration_says_are_refused(tmp_path: Path) -> None:
    patterned = adapter(tmp_path / "patterned", 4, 33, r=4, rank_pattern={"v_proj": 33})
    assert adapter_arguments({"law": patterned})["max_lora_rank"] == 64
    with pytest.raises(ModelNotFound, match=r"adapters\.law: .* are of rank 8, adapter_config\.json says 4\."):
        adapter_arguments({"law": adapter(tmp_path / "x", 8, r=4)})


def test_weights_beside_the_same_ones_pickled_are_looked_at_as_vllm_loads_them(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "x", 16, r=8)
    (tmp_path / "x" / "adapter_model.bin").touch()
    with pytest.raises(ModelNotFound, match=r"of rank 16, adapter_config\.json says 8"):
        adapter_arguments({"law": folder})


def test_weights_of_modules_that_the_configuration_does_not_name_are_refused_as_vllm_would_leave_them_out(
    tmp_path: Path,
) -> None:
    """The base model's scores were recorded as the adapter's."""
    with pytest.raises(ModelNotFound, match=r"adapters\.law: .* are for q_proj, target_modules in .* names v_proj\."):
        adapter_arguments({"law": adapter(tmp_path / "x", r=8, target_modules=["v_proj"])})


def test_an_adapter_of_a_models_experts_is_refused_with_a_remedy(tmp_path: Path) -> None:
    experts = adapter(tmp_path / "more", 8, 256, r=8, target_parameters=["mlp.experts.down_proj"])
    with pytest.raises(ModelNotFound, match=r"adapters\.law: .* has target_parameters.* merge this one"):
        adapter_arguments({"law": experts})


def test_a_rank_that_vllm_does_not_apply_is_told_with_its_adapter(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"adapters\.law: .* has the rank 600\. vLLM applies ranks of at most 512"):
        adapter_arguments({"law": adapter(tmp_path / "x", r=600)})


@pytest.mark.parametrize(
    ("config", "refused"),
    [
        ({"hidden_size": 2, "num_hidden_layers": 3}, ""),
        ({"hidden_size": 4, "num_hidden_layers": 3}, "of width 2; base has the width 4 and 3 layers"),
        ({"hidden_size": 2, "num_hidden_layers": 1}, "of 2 layers; base has the width 2 and 1 layers"),
        ({"hidden_size": 4, "num_hidden_layers": 1, "vision_config": {}}, ""),
        ({"hidden_size": 2, "num_hidden_layers": 2, "audio_config": {}}, ""),
        ({"text_config": {"hidden_size": 4}}, ""),
        (None, ""),
    ],
)
def test_an_adapter_of_another_model_is_refused_before_any_is_loaded(
    tmp_path: Path, config: dict[str, object] | None, refused: str
) -> None:
    folder = adapter(tmp_path / "law", 8, 8, r=8)
    base = tmp_path / "base"
    base.mkdir()
    if config is not None:
        (base / "config.json").write_text(json.dumps(config))
    if not refused:
        assert adapter_folders({"law": folder}, str(base)) == {"law": Path(folder)}
        return
    with pytest.raises(ModelNotFound, match=rf"adapters\.law: it is for another model, {refused}"):
        adapter_folders({"law": folder}, str(base))


def test_an_adapter_is_not_compared_with_a_model_that_happens_to_be_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`check` does so for a model of the hub, of which it has no folder."""
    folder = adapter(tmp_path / "law", 8, 8, r=8)
    (tmp_path / "config.json").write_text('{"hidden_size": 4, "num_hidden_layers": 1}')
    monkeypatch.chdir(tmp_path)
    assert adapter_folders({"law": folder}, "") == {"law": Path(folder)}


def test_an_adapter_of_several_parts_of_a_model_is_compared_with_none_of_them(tmp_path: Path) -> None:
    """Their widths and numbers of layers differ, and the configuration may name one only."""
    folder = Path(adapter(tmp_path / "law", r=8))
    of_parts = {"model.layers.0": 2, "vision.layers.40": 3}
    save_file(
        {f"base_model.model.{part}.q_proj.lora_A.weight": np.zeros((8, w), np.float32) for part, w in of_parts.items()}
        | {"base_model.model.model.layers.0.mlp.experts.up_proj.lora_A.weight": np.zeros((8, 1), np.float32)},
        folder / "adapter_model.safetensors",
    )
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps({**config, "target_modules": ["q_proj", "up_proj"]}))
    base = tmp_path / "base"
    base.mkdir()
    (base / "config.json").write_text('{"hidden_size": 2, "num_hidden_layers": 1}')
    assert adapter_folders({"law": str(folder)}, str(base)) == {"law": folder}


@pytest.mark.parametrize("content", [None, b"", b"hello", b"\xff" * 8, b"\x02\0\0\0\0\0\0\0[]"])
def test_an_adapter_without_weights_that_can_be_read_is_refused(tmp_path: Path, content: bytes | None) -> None:
    folder = adapter(tmp_path / "x", r=8)
    weights = Path(folder) / "adapter_model.safetensors"
    weights.unlink() if content is None else weights.write_bytes(content)
    with pytest.raises(ModelNotFound, match=r"adapters\.law: .*adapter_model\.safetensors cannot be read"):
        adapter_arguments({"law": folder})
    weights.unlink(missing_ok=True)
    (Path(folder) / "adapter_model.bin").touch()
    assert adapter_arguments({"law": folder})["max_lora_rank"] == 8, "pickled ones are left to vLLM"


@pytest.mark.parametrize("modules", ["all-linear", ["q_proj", "lm_head"]])
def test_an_adapter_that_vllm_could_not_score_with_is_refused(tmp_path: Path, modules: object) -> None:
    with pytest.raises(ModelNotFound, match=r"adapters\.law: .* has target_modules .*lm_head"):
        adapter_arguments({"law": adapter(tmp_path / "x", r=8, target_modules=modules)})


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.JUDGE])
def test_every_request_of_a_run_with_an_adapter_carries_it(mode: Mode) -> None:
    drawn = Sampling(samples=3, temperature=1.0) if mode is Mode.VOTE else Sampling()
    for name in ("", "law"):
        spec = make_spec(mode=mode, adapter=name, sampling=drawn if mode.writes else None)
        asked = MODES[mode].ask(make_question(1), turns_of(make_question(1), spec), spec)
        assert {request.adapter for request in asked} == {name}


def test_every_prefill_of_a_request_carries_its_adapter() -> None:
    request = ScoreRequest(one_turn("p"), ("a", "b"), adapter="law")
    plan = make_plan(request, Encoded("p", [1], [[2], [3, 4]]), 99, caches=True)
    assert [each.adapter for each in plan.prefills] == ["law", "law"]  # type: ignore[union-attr]


def test_a_server_by_url_is_asked_for_its_own_name_of_the_adapter() -> None:
    script = Script()
    with serving(script) as url:
        there = ["engine=openai", f"openai.url={url}", "openai.model=base", "adapters.law=base-with-law"]
        engine = make_engine(load_settings(None, there))
        engine.start()
        script.asked.clear()
        engine.generate([ScoreRequest(one_turn("Which?"), (" two words",), adapter="law")])
        assert {each["model"] for each in script.asked} == {"base-with-law"}
        script.asked.clear()
        engine.generate([ScoreRequest(one_turn("Which?"), (" two words",))])
        assert {each["model"] for each in script.asked} == {"base"}
        (unknown,) = engine.generate([ScoreRequest(one_turn("Which?"), (" two words",), adapter="medicine")])
        assert "no adapter 'medicine'" in str(unknown.error)
        engine.close()


def test_a_server_that_we_start_is_given_the_adapters(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "law", r=8)
    settings = load_settings(None, ["engine=openai", "boot_local=true", f"adapters.law={folder}"])
    words = serve_command(settings, "/models/x", 1)
    assert words[-2:] == ["--lora-modules", f"law={folder}"]
    assert "--enable-lora --max-loras 2 --max-lora-rank 8 --lora-target-modules q_proj" in " ".join(words)
