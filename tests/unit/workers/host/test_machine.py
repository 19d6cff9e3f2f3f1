"""How the cores of a machine are divided among its workers."""

from pathlib import Path

import pytest

from contract.settings import Settings
from workers.host.machine import Machine, by_physical_core
from workers.host.placement import SettingsSources, plan_host


def numbered(root: Path, threads: list[str]) -> list[int]:
    """Write what Linux tells of a machine whose core `i` has the threads `threads[i]`, and return all cores."""
    for number, siblings in enumerate(threads):
        topology = root / f"sys/devices/system/cpu/cpu{number}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{siblings}\n")
    return list(range(len(threads)))


@pytest.mark.parametrize(
    ("threads", "shared"),
    [
        (["0,4", "1,5", "2,6", "3,7"] * 2, ["cores 0-1,4-5", "cores 2-3,6-7"]),
        (["0-1", "0-1", "2-3", "2-3"], ["cores 0-1", "cores 2-3"]),
        (["0", "1", "2", "3"], ["cores 0-1", "cores 2-3"]),
    ],
)
def test_workers_on_one_machine_share_no_physical_core(tmp_path: Path, threads: list[str], shared: list[str]) -> None:
    machine = Machine([], by_physical_core(numbered(tmp_path, threads), tmp_path))
    plans, _ = plan_host([Settings(cpu_workers=2)], machine, SettingsSources())
    assert [plan.place for plan in plans] == shared


def test_cores_of_which_linux_tells_nothing_are_taken_by_number(tmp_path: Path) -> None:
    numbered(tmp_path, ["", "", ""])
    assert by_physical_core({2, 0, 1, 7}, tmp_path) == [0, 1, 2, 7]
