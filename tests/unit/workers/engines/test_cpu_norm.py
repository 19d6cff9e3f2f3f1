"""Normalisation on a CPU by vLLM's kernel: the same results, and vLLM's own way wherever the kernel does not apply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from workers.engines import cpu_norm
from workers.engines.cpu_norm import register_kernel, rounds_bfloat16, with_kernel
from workers.engines.installed import is_cpu_build

pytestmark = pytest.mark.skipif(not is_cpu_build(), reason="a build for CPUs")

EAGER: dict[str, Any] = {"model": "m", "enforce_eager": True}
PREFERRED = ["mcqueue", "native"]
#: How far an element of a result may be from vLLM's: the last bit of the larger ones.
WITHIN = {"float32": 4e-6, "bfloat16": 0.0625}


@pytest.fixture
def norms() -> Any:
    """vLLM's two operations, with the kernel preferred."""
    from vllm import ir

    assert register_kernel()
    with ir.ops.rms_norm.set_priority(PREFERRED), ir.ops.fused_add_rms_norm.set_priority(PREFERRED):
        yield ir.ops


def rows(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    import torch

    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_kernel_normalises_as_vllm_does(norms: Any, dtype: str) -> None:
    import torch

    x, residual, weight = rows(37, 64, dtype=dtype), rows(37, 64, dtype=dtype, seed=1), rows(64, dtype=dtype, seed=2)
    own = norms.rms_norm.impls["native"].impl_fn(x, weight, 1e-5)
    own_sum = norms.fused_add_rms_norm.impls["native"].impl_fn(x, residual, weight, 1e-5)

    computed_by = "mcqueue" if dtype == "float32" or rounds_bfloat16() else "native"
    assert norms.rms_norm.dispatch(x, weight, 1e-5).provider == computed_by
    assert norms.fused_add_rms_norm.dispatch(x, residual, weight, 1e-5).provider == computed_by
    torch.testing.assert_close(norms.rms_norm(x, weight, 1e-5), own, rtol=0, atol=WITHIN[dtype])
    normed, summed = norms.fused_add_rms_norm.maybe_inplace(x, residual, weight, 1e-5)
    torch.testing.assert_close(normed, own_sum[0], rtol=0, atol=WITHIN[dtype])
    torch.testing.assert_close(summed, own_sum[1], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("made", "variance_size"),
    [
        pytest.param(lambda: (rows(8, 3, 32)[:, 0], rows(32)), None, id="rows apart in memory, as of a projection"),
        pytest.param(lambda: (rows(4, 20), rows(20)), None, id="rows that do not fill a register"),
        pytest.param(lambda: (rows(4, 32), None), None, id="without a weight"),
        pytest.param(lambda: (rows(4, 32, dtype="bfloat16"), rows(32)), None, id="a weight of another type"),
        pytest.param(lambda: (rows(4, 32), rows(32)), 16, id="normalised by a part of the row"),
    ],
)
def test_what_the_kernel_would_compute_otherwise_is_left_to_vllm(
    norms: Any, made: Callable[[], tuple[Any, Any]], variance_size: int | None
) -> None:
    import torch

    x, weight = made()
    own = norms.rms_norm.impls["native"].impl_fn(x, weight, 1e-5, variance_size)

    assert norms.rms_norm.dispatch(x, weight, 1e-5, variance_size).provider == "native"
    assert torch.equal(norms.rms_norm(x, weight, 1e-5, variance_size), own)


def test_where_the_kernel_cuts_bfloat16_off_instead_of_rounding_it_is_left_to_vllm(
    norms: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_norm, "rounds_bfloat16", lambda: False)
    x, weight = rows(4, 32, dtype="bfloat16"), rows(32, dtype="bfloat16")

    assert norms.rms_norm.dispatch(x, weight, 1e-5).provider == "native"
    assert norms.fused_add_rms_norm.dispatch(x, x.clone(), weight, 1e-5).provider == "native"


def test_a_residual_apart_in_memory_is_left_to_vllm(norms: Any) -> None:
    asked = rows(4, 32), rows(4, 64)[:, :32], rows(32), 1e-5

    assert norms.fused_add_rms_norm.dispatch(*asked).provider == "native"


def test_it_is_preferred_unless_something_else_is_asked_for() -> None:
    asked_otherwise = {**EAGER, "ir_op_priority": {"rms_norm": ["native"]}}

    assert with_kernel(EAGER)["ir_op_priority"] == {"rms_norm": PREFERRED, "fused_add_rms_norm": PREFERRED}
    assert with_kernel(asked_otherwise) == asked_otherwise
    assert with_kernel({"model": "compiled"}) == {"model": "compiled"}


def test_a_vllm_without_such_operations_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    import vllm

    monkeypatch.setattr(vllm.ir, "ops", object())

    assert with_kernel(EAGER) == EAGER


def test_a_vllm_whose_operations_have_other_parameters_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm import ir
    from vllm.ir.op import IrOp

    def other_signature(*_args: object, **_how: object) -> Any:
        raise ValueError("schema does not match")

    monkeypatch.setattr(IrOp, "register_impl", other_signature)
    monkeypatch.delitem(ir.ops.fused_add_rms_norm.impls, "mcqueue", raising=False)

    assert with_kernel(EAGER) == EAGER
