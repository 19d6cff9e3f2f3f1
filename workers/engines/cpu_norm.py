"""RMS normalisation on a CPU by vLLM's own C++ kernel, where vLLM 0.32 composes it of several PyTorch operations.

vLLM builds the kernel for CPUs too, but offers it to its models on GPUs only. It takes a third of the time or less;
with a small model, normalisation is up to a tenth of all work on short prompts. In float32 its results differ in the
last bit. In 16 bits it rounds once, behind the weight, and the composition before the weight as well. On CPUs without
instructions for bfloat16 it cuts bits off instead of rounding; it is not used for bfloat16 there.
"""

# ruff: noqa: ARG001 - vLLM prescribes the parameters
# No `from __future__ import annotations`: vLLM compares the types with its own, as objects.

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["register_kernel", "rounds_bfloat16", "with_kernel"]

PROVIDER = "mcqueue"
#: The kernel reads so many elements of a row at once, or half as many.
ELEMENTS = 16


def with_kernel(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return vLLM's engine `arguments`, with the kernel preferred where nothing else is asked for.

    A compiled model has kernels of its own, in which normalisation is part of others.
    """
    asked = {"ir_op_priority", "kernel_config"} & arguments.keys()
    if asked or not arguments.get("enforce_eager") or not register_kernel():
        return arguments
    return {**arguments, "ir_op_priority": {name: [PROVIDER, "native"] for name in ("rms_norm", "fused_add_rms_norm")}}


def register_kernel() -> bool:
    """Register the kernel with vLLM in this process, if it is not yet; return False if this vLLM has none, or no place.

    It is used only where `ir_op_priority` names it.
    """
    import torch
    from torch import Tensor

    try:
        from vllm import EngineArgs, ir
        from vllm.platforms import current_platform

        current_platform.import_kernels()
        _ = EngineArgs.__dataclass_fields__["ir_op_priority"]
        norm, add_and_norm = ir.ops.rms_norm, ir.ops.fused_add_rms_norm
        kernel, adding_kernel = torch.ops._C.rms_norm, torch.ops._C.fused_add_rms_norm
    except (ImportError, AttributeError, KeyError):
        return False
    if PROVIDER in add_and_norm.impls:
        return True

    def normalise(x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None) -> Tensor:
        normed = torch.empty_like(x)
        kernel(normed, x, weight, epsilon)
        return normed

    def add_and_normalise(
        x: Tensor, x_residual: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None
    ) -> tuple[Tensor, Tensor]:
        adding_kernel(x, x_residual, weight, epsilon)
        return x, x_residual

    try:
        norm.register_impl(PROVIDER, supports_args=_fits)(normalise)
        add_and_norm.register_impl(PROVIDER, supports_args=_both_fit, inplace=True)(add_and_normalise)
    except ValueError:  # another vLLM, whose operations have other parameters
        return False
    return True


@cache
def rounds_bfloat16() -> bool:
    """Whether the kernel rounds a sum to the nearest bfloat16; on some CPUs it takes the next one towards zero."""
    import torch

    ones = torch.ones(1, ELEMENTS, dtype=torch.bfloat16)
    sums = torch.full_like(ones, 3 / 512)  # 1 + 3/512 is nearer to 1 + 1/128 than to 1, its neighbours
    nearest = ones + sums
    torch.ops._C.fused_add_rms_norm(ones.clone(), sums, ones[0], 1e-5)
    return bool(torch.equal(sums, nearest))


def _fits(x: "Tensor", weight: "Tensor | None", epsilon: float, variance_size: int | None = None) -> bool:
    """Whether the kernel, which takes the data as rows that follow each other, computes the same."""
    import torch

    return (
        weight is not None
        and weight.dtype == x.dtype
        and (x.dtype is not torch.bfloat16 or rounds_bfloat16())
        and variance_size in (None, x.shape[-1])
        and x.shape[-1] % ELEMENTS == 0
        and x.is_contiguous()
    )


def _both_fit(
    x: "Tensor", x_residual: "Tensor", weight: "Tensor | None", epsilon: float, variance_size: int | None = None
) -> bool:
    fits = _fits(x, weight, epsilon, variance_size)
    return fits and x_residual.dtype == x.dtype and x_residual.is_contiguous()
