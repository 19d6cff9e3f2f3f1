"""GPUs by their names, and how they are divided into groups, with device lists as drivers give them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from contract.errors import PlanError
from tests.unit.workers.gpus.hosts import CUT, EIGHT
from workers.gpus.groups import Device, find, group_name, groups_of_all, named_groups, shared_devices


def names(groups: Sequence[Sequence[Device]]) -> list[str]:
    return [",".join(device.name for device in group) for group in groups]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1, list("01234567")),
        (2, ["0,1", "2,3", "4,5", "6,7"]),
        (3, ["0,1,2", "3,4,5"]),
        (8, ["0,1,2,3,4,5,6,7"]),
    ],
)
def test_auto_cuts_all_gpus_into_groups_of_what_one_engine_uses(size: int, expected: list[str]) -> None:
    assert names(groups_of_all(EIGHT, size)) == expected


@pytest.mark.parametrize(
    ("wanted", "size", "expected"),
    [
        ([[0], [3]], 1, ["0", "3"]),
        ([[2, 3], [0, 1]], 2, ["2,3", "0,1"]),
        ([["GPU-4aaa0000-1111"]], 1, ["4"]),
        ([["GPU-4", 5]], 2, ["4,5"]),
    ],
)
def test_groups_are_named_by_number_or_by_uuid_or_its_beginning(
    wanted: list[list[int | str]], size: int, expected: list[str]
) -> None:
    assert names(named_groups(wanted, EIGHT, size)) == expected


def test_an_instance_is_named_by_its_uuid_alone() -> None:
    assert names(named_groups([["MIG-22bb"], ["MIG-11"]], CUT, 1)) == ["MIG-22bb", "MIG-11aa"]
    assert names(groups_of_all(CUT, 1)) == ["0", "MIG-11aa", "MIG-22bb"]


@pytest.mark.parametrize(
    ("wanted", "visible", "size", "says"),
    [
        ([[0], [9]], EIGHT, 1, "asks for GPU 9; 8 visible: 0, 1, 2"),
        ([[0]], [], 1, "asks for GPU 0; none is visible"),
        ([[1, 1]], EIGHT, 2, r"Group \[1, 1\] has a GPU twice"),
        ([[1, "GPU-1aaa"]], EIGHT, 2, r"Group \[1, 1\] has a GPU twice"),
        ([[0, 1]], EIGHT, 1, "has 2 GPUs, but the engine uses .*x prefill_context_parallel_size = 1"),
        ([[0]], EIGHT, 4, "has 1 GPU, but the engine uses .*x prefill_context_parallel_size = 4"),
        ([["GPU-"]], EIGHT, 1, "asks for GPU GPU-"),
        ([[1]], CUT, 1, "asks for GPU 1, which is split into MIG-11aa, MIG-22bb"),
        ([["MIG-11aa", "MIG-22bb"]], CUT, 2, "CUDA shows a process one MIG instance, not 2"),
    ],
)
def test_an_impossible_group_is_refused_with_the_arithmetic(
    wanted: list[list[int | str]], visible: list[Device], size: int, says: str
) -> None:
    with pytest.raises(PlanError, match=says):
        named_groups(wanted, visible, size)


def test_the_beginning_of_two_uuids_is_none_of_them() -> None:
    alike = [Device("0", "GPU-5f3a-1"), Device("1", "GPU-5f3a-2")]
    with pytest.raises(PlanError, match="'GPU-5f3a' matches 2 UUIDs"):
        find("GPU-5f3a", alike)


def test_an_engine_larger_than_all_gpus_is_refused_with_both_numbers() -> None:
    with pytest.raises(PlanError, match=r"uses 4 GPUs per worker .*2 visible"):
        groups_of_all(EIGHT[:2], 4)


def test_an_engine_that_spreads_over_gpus_is_not_given_two_instances() -> None:
    with pytest.raises(PlanError, match="CUDA shows a process one MIG instance, not 2"):
        groups_of_all(CUT[1:], 2)


def test_instances_beside_whole_gpus_do_not_keep_an_engine_from_spreading_over_these() -> None:
    """All eight GPUs of a host were refused for the one that was split."""
    visible = [EIGHT[0], *CUT[1:], *EIGHT[2:]]
    assert [group_name(group) for group in groups_of_all(visible, 2)] == ["gpu0-2", "gpu3-4", "gpu5-6"]


def test_a_model_that_the_others_leave_no_gpu_is_not_told_to_make_do_with_less_than_one() -> None:
    with pytest.raises(PlanError, match="0 visible and not in another group") as refused:
        groups_of_all([], 1)
    assert refused.value.hint == "Leave it one in the groups of other models."


def test_a_gpu_in_two_groups_is_found_whatever_it_is_called() -> None:
    groups = named_groups([[0, 1], ["GPU-1aaa", 2]], EIGHT, 2)
    assert [device.name for device in shared_devices(groups)] == ["1"]


def test_workers_are_called_after_their_gpus() -> None:
    assert [group_name(group) for group in ([EIGHT[2], EIGHT[3]], [CUT[1]], [Device("GPU-0123456789")])] == [
        "gpu2-3",
        "gpu11aa",
        "gpu01234567",
    ]
