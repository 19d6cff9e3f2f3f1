"""The environment that vLLM is imported in, by what the machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.engines import arguments
from workers.engines.arguments import engine_environment


@pytest.fixture
def gpu_build(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"vllm": "0.26.0"}
    monkeypatch.setattr(arguments, "installed_version", lambda *names: versions.get(names[0]))


@pytest.mark.usefixtures("gpu_build")
def test_without_nvidias_compiler_vllm_is_kept_from_what_needs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert engine_environment("some/model")["VLLM_USE_FLASHINFER_SAMPLER"] == "0"
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.touch(mode=0o755)
    assert "VLLM_USE_FLASHINFER_SAMPLER" not in engine_environment("some/model")


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
