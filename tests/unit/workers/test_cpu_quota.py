"""The CPU quota of a container, read from made-up cgroup files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from workers.cli import main
from workers.cpu_quota import cores_by_quota, usable_cores

V1 = "5:memory:/pod\n4:cpu,cpuacct:{path}\n0::/\n"
V2 = "0::{path}\n"


def made_up(root: Path, listing: str, files: Mapping[str, str]) -> Path:
    """Return `root`, with a process' list of cgroups and these files below where cgroups are mounted."""
    for name, text in {"proc/self/cgroup": listing, **{f"sys/fs/cgroup/{name}": files[name] for name in files}}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture(autouse=True)
def _bound_to_64_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))


def v1(quota_us: str, period_us: str = "100000", folder: str = "cpu") -> dict[str, str]:
    return {f"{folder}/cpu.cfs_quota_us": f"{quota_us}\n", f"{folder}/cpu.cfs_period_us": f"{period_us}\n"}


@pytest.mark.parametrize(
    ("listing", "files", "cores"),
    [
        (V2.format(path="/"), {"cpu.max": "800000 100000\n"}, 8),
        (V2.format(path="/"), {"cpu.max": "max 100000\n"}, None),
        (V1.format(path="/"), v1("800000"), 8),
        (V1.format(path="/"), v1("-1"), None),
        (V1.format(path="/"), v1("100000", period_us="25000"), 4),
        (V1.format(path="/own"), v1("800000", folder="cpu/own"), 8),
        (V1.format(path="/own"), v1("800000", folder="cpu/pod"), None),  # where this process' memory is counted
        (V1.format(path="/docker/0123"), v1("400000"), 4),  # a container that is shown its host's paths
    ],
)
def test_a_quota_leaves_its_number_of_cores(
    tmp_path: Path, listing: str, files: Mapping[str, str], cores: int | None
) -> None:
    assert cores_by_quota(made_up(tmp_path, listing, files)) == cores


@pytest.mark.parametrize(("quota_us", "cores"), [("50000", 1), ("150000", 2), ("6300000", 63), ("6310000", None)])
def test_a_part_of_a_core_counts_as_one(tmp_path: Path, quota_us: str, cores: int | None) -> None:
    root = made_up(tmp_path, V2.format(path="/"), {"cpu.max": f"{quota_us} 100000"})
    assert cores_by_quota(root) == cores


@pytest.mark.parametrize(
    ("own", "outer", "cores"), [("max 100000", "400000 100000", 4), ("600000 100000", "400000 100000", 4)]
)
def test_the_smallest_quota_of_all_ancestors_counts(tmp_path: Path, own: str, outer: str, cores: int) -> None:
    files = {"pods/one/cpu.max": own, "pods/cpu.max": outer, "cpu.max": "900000 100000"}
    assert cores_by_quota(made_up(tmp_path, V2.format(path="/pods/one"), files)) == cores


@pytest.mark.parametrize("content", ["", "800000", "x y", "800000 0", "-1 100000", "1 2 3"])
def test_what_cannot_be_read_is_no_quota(tmp_path: Path, content: str) -> None:
    assert cores_by_quota(made_up(tmp_path, V2.format(path="/"), {"cpu.max": content})) is None
    assert cores_by_quota(made_up(tmp_path, V1.format(path="/"), v1("400000", period_us="no"))) is None


@pytest.mark.parametrize("listing", ["", "nonsense", "0:/"])
def test_a_system_that_lists_no_cgroups_sets_no_quota(tmp_path: Path, listing: str) -> None:
    assert cores_by_quota(tmp_path / "nothing") is None
    assert cores_by_quota(made_up(tmp_path, listing, {"cpu.max": "400000 100000"})) is None


def test_usable_are_the_cores_that_a_process_is_bound_to_or_the_part_of_them_that_its_quota_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    quotas = ("max 100000", "800000 100000", "150000 100000", "50000 100000")
    roots = [made_up(tmp_path / quota, V2.format(path="/"), {"cpu.max": quota}) for quota in quotas]
    assert [usable_cores(root) for root in roots] == [4, 4, 1.5, 0.5]


def test_commands_plan_with_the_quota_of_their_own_container(monkeypatch: pytest.MonkeyPatch) -> None:
    started: dict[str, str] = {}
    monkeypatch.setattr("workers.host.machine.cores_by_quota", lambda: 1)
    monkeypatch.setattr("workers.host.machine.visible_gpus", list)
    monkeypatch.setattr(os, "execve", lambda _, __, environment: started.update(environment))
    simulated = ["--set", "engine=simulated", "--set", "redis_url=redis://127.0.0.1:1/0"]
    CliRunner().invoke(main, ["run", *simulated], catch_exceptions=False)
    assert started["OMP_NUM_THREADS"] == "1"
    assert "cpu0: CPU, 1 thread" in CliRunner().invoke(main, ["check", *simulated]).output


@pytest.mark.parametrize(("quota", "given", "threads"), [(3, None, "3"), (None, None, None), (3, "2", "2")])
def test_an_index_is_built_with_as_many_threads_as_the_quota_has_cores_unless_they_are_given(
    monkeypatch: pytest.MonkeyPatch, quota: int | None, given: str | None, threads: str | None
) -> None:
    seen: list[str | None] = []
    monkeypatch.setenv("OMP_NUM_THREADS", given or "")
    if given is None:
        monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr("workers.commands.index_build.cores_by_quota", lambda: quota)
    monkeypatch.setattr(
        "workers.commands.index_build.build_index", lambda *_: seen.append(os.environ.get("OMP_NUM_THREADS"))
    )
    CliRunner().invoke(main, ["index-build", "somewhere"], catch_exceptions=False)
    assert seen == [threads]
