"""Which worker gets which GPUs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from contract.errors import PlanError
from workers.gpus import Group, plan_groups, visible_gpus

EIGHT = tuple("01234567")


def pinned(groups: Sequence[Group]) -> list[str]:
    return [group.environment()["CUDA_VISIBLE_DEVICES"] for group in groups]


@pytest.mark.parametrize(
    ("wanted", "gpus_per_worker", "expected"),
    [
        ("auto", 1, list("01234567")),
        ("auto", 2, ["0,1", "2,3", "4,5", "6,7"]),
        ("auto", 8, ["0,1,2,3,4,5,6,7"]),
        ([[0], [3]], 1, ["0", "3"]),
        ([[2, 3], [0, 1]], 2, ["2,3", "0,1"]),
    ],
)
def test_every_group_is_pinned_to_its_own_gpus(wanted: object, gpus_per_worker: int, expected: list[str]) -> None:
    groups = plan_groups(wanted, EIGHT, gpus_per_worker=gpus_per_worker)  # type: ignore[arg-type]
    assert pinned(groups) == expected
    assert len({group.name for group in groups}) == len(groups)


def test_gpus_are_also_named_by_uuid() -> None:
    assert pinned(plan_groups([["GPU-5f3a"]], ("GPU-5f3a", "GPU-77c1"))) == ["GPU-5f3a"]


def test_without_a_gpu_cpu_workers_share_the_cores() -> None:
    groups = plan_groups("auto", (), cpu_workers=2, cpu_cores=8)
    assert [group.name for group in groups] == ["cpu0", "cpu1"]
    assert all(group.environment() == {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "4"} for group in groups)


@pytest.mark.parametrize(
    ("wanted", "visible", "gpus_per_worker", "says"),
    [
        ([[0], [9]], EIGHT, 1, "asks for GPU 9; 8 visible: 0, 1, 2"),
        ([[0]], (), 1, "asks for GPU 0; none is visible"),
        ([[0, 1], [1, 2]], EIGHT, 2, "GPU 1 into two groups"),
        ([[0, 1]], EIGHT, 1, "has 2 GPUs, but the engine uses tensor_parallel_size x pipeline_parallel_size = 1"),
        ("auto", ("0", "1"), 4, "uses 4 GPUs per worker; 2 visible"),
    ],
)
def test_an_impossible_plan_is_refused_with_the_arithmetic(
    wanted: object, visible: tuple[str, ...], gpus_per_worker: int, says: str
) -> None:
    with pytest.raises(PlanError, match=says):
        plan_groups(wanted, visible, gpus_per_worker=gpus_per_worker)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("variable", "expected"), [("0,2", ("0", "2")), ("", ()), ("-1", ()), ("GPU-5f3a", ("GPU-5f3a",))]
)
def test_what_the_person_made_visible_is_all_there_is(variable: str, expected: tuple[str, ...]) -> None:
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": variable}) == expected
