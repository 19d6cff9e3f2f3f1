"""The environment that vLLM is imported in, by what the machine has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contract.errors import SettingsError
from workers.engines import arguments, installed
from workers.engines.arguments import check_arguments_by_source, engine_environment, for_this_cpu
from workers.engines.installed import built_for_cuda, computes_16_bits


@pytest.fixture
def gpu_build(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"vllm": "0.26.0"}
    monkeypatch.setattr(installed, "installed_version", lambda *names: versions.get(names[0]))


@pytest.mark.parametrize(
    ("name", "instead"), [("model", "Set hf_model_id."), ("served_model_name", "Set model at the top level.")]
)
def test_the_model_is_named_in_one_place_as_answers_would_else_be_anothers(name: str, instead: str) -> None:
    """An engine in the worker would ignore it, and `vllm serve` would serve it under the run's model."""
    with pytest.raises(SettingsError, match=f"vllm_args.{name}: .*{instead}"):
        check_arguments_by_source({name: "owner/other"})


def test_a_token_of_the_hub_is_refused_among_arguments_as_those_are_shown() -> None:
    """It stood in the command line of `vllm serve`, which any user of the machine can read, and in tune's record."""
    with pytest.raises(SettingsError, match=r"vllm_args.hf_token: .*HF_TOKEN") as refused:
        check_arguments_by_source({"hf_token": "hf_secret"})
    assert "hf_secret" not in str(refused.value)
    check_arguments_by_source({"hf_token": True})


@pytest.mark.usefixtures("gpu_build")
def test_vllm_compiles_no_sampler_that_ours_would_never_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for program in ("nvcc", "ninja"):
        (tmp_path / program).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert engine_environment("some/model")["VLLM_USE_FLASHINFER_SAMPLER"] == "0"


@pytest.mark.usefixtures("gpu_build")
def test_on_a_gpu_the_engines_process_is_not_forked_from_a_worker_with_threads() -> None:
    assert engine_environment("some/model")["VLLM_WORKER_MULTIPROC_METHOD"] == "spawn"


@pytest.mark.parametrize(
    ("vllm_args", "is_offline"),
    [
        ({}, True),
        ({"tokenizer": "FOLDER", "speculative_config": {"method": "ngram"}}, True),
        ({"tokenizer": "owner/name"}, False),
        ({"hf_config_path": "owner/name"}, False),
        ({"speculative_config": {"method": "eagle3", "model": "owner/head"}}, False),
    ],
)
def test_what_is_used_beside_a_model_in_a_folder_may_come_from_the_hub(
    tmp_path: Path, vllm_args: dict[str, Any], *, is_offline: bool
) -> None:
    """The boot failed as the hub's client was told to be offline, by nobody that its user knew."""
    given = {name: str(tmp_path) if value == "FOLDER" else value for name, value in vllm_args.items()}
    assert ("HF_HUB_OFFLINE" in engine_environment(str(tmp_path), given)) is is_offline


@pytest.mark.parametrize("kernel_has_them", [True, False])
def test_on_a_cpu_tensors_get_huge_pages_where_the_kernel_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kernel_has_them: bool
) -> None:
    told = tmp_path / "enabled"
    if kernel_has_them:
        told.write_text("always [madvise] never\n")
    monkeypatch.setattr(arguments, "TRANSPARENT_HUGE_PAGES", told)
    monkeypatch.setattr(arguments, "is_cpu_build", lambda: True)
    assert ("THP_MEM_ALLOC_ENABLE" in engine_environment("some/model")) is kernel_has_them


@pytest.mark.parametrize(("policy", "limited"), [("", True), ("passive", False), ("active", False)])
def test_on_a_cpu_threads_do_not_wait_busily_for_one_whose_core_another_process_has(
    monkeypatch: pytest.MonkeyPatch, policy: str, *, limited: bool
) -> None:
    monkeypatch.setattr(arguments, "is_cpu_build", lambda: True)
    monkeypatch.delenv("OMP_WAIT_POLICY")
    if policy:
        monkeypatch.setenv("OMP_WAIT_POLICY", policy)
    assert ("GOMP_SPINCOUNT" in engine_environment("some/model")) == limited, "the user's policy decides"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "dtype": "bfloat16"}))
    return tmp_path


def has(monkeypatch: pytest.MonkeyPatch, **capabilities: Any) -> None:
    monkeypatch.setattr(arguments, "is_cpu_build", lambda: True)
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"architecture": "x86_64", **capabilities})


@pytest.mark.parametrize(
    ("capabilities", "native"),
    [
        ({"avx2": True}, False),
        ({"avx512_f": True, "avx512_bf16": False}, False),
        ({"avx512_bf16": True}, True),
        ({"amx_bf16": True}, True),
        ({"architecture": "aarch64"}, True),
    ],
)
def test_an_open_dtype_is_float32_on_a_cpu_that_computes_16_bits_in_software(
    monkeypatch: pytest.MonkeyPatch, model: Path, capabilities: dict[str, Any], native: bool
) -> None:
    has(monkeypatch, **capabilities)
    assert computes_16_bits() is native
    for opened in ({"seed": 1}, {"seed": 1, "dtype": "auto"}):
        assert for_this_cpu(opened, str(model)) == opened | ({} if native else {"dtype": "float32"})


def test_a_dtype_that_was_named_stands(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    has(monkeypatch)
    assert for_this_cpu({"dtype": "bfloat16"}, str(model)) == {"dtype": "bfloat16"}


def test_a_quantised_model_keeps_the_type_that_its_method_needs(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    has(monkeypatch)
    assert for_this_cpu({"quantization": "awq"}, str(model)) == {"quantization": "awq"}
    (model / "config.json").write_text(json.dumps({"model_type": "llama", "quantization_config": {"bits": 4}}))
    assert for_this_cpu({}, str(model)) == {}


@pytest.mark.usefixtures("gpu_build")
def test_on_a_gpu_an_open_dtype_stays_vllms_choice(model: Path) -> None:
    assert for_this_cpu({}, str(model)) == {}


@pytest.mark.parametrize(("version", "major"), [("13.0", 13), ("12.8", 12), (None, None)])
def test_what_cuda_torch_was_built_for(monkeypatch: pytest.MonkeyPatch, version: str | None, major: int | None) -> None:
    monkeypatch.setattr("torch.version.cuda", version)
    assert built_for_cuda() == major
