"""The plan of a host, with faked GPUs and cores: which workers, where, and with what in their environment."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from contract import Settings
from contract.errors import PlanError
from contract.settings import load_fleet
from tests.unit.workers.gpus.hosts import CUT, EIGHT
from workers.commands import launch
from workers.gpus.groups import Device
from workers.host.machine import Machine
from workers.host.placement import SettingsSources, WorkerPlan, pick, plan_host, plan_retrieval, plan_worker

CORES = list(range(8))


def fleet(*models: dict[str, Any], **common: Any) -> tuple[Settings, ...]:
    values = {**common, "models": list(models)} if models else common
    return load_fleet(None, [f"{name}={json.dumps(value)}" for name, value in values.items()])


def planned(
    chosen: tuple[Settings, ...], visible: list[Device] = EIGHT, cores: list[int] = CORES
) -> tuple[list[WorkerPlan], list[str]]:
    return plan_host(chosen, Machine(visible, cores), SettingsSources())


def places(plans: list[WorkerPlan]) -> dict[str, str]:
    return {plan.name: plan.place for plan in plans}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {f"gpu{i}": f"GPU {i}" for i in range(8)}),
        ({"vllm_args": {"tensor_parallel_size": 8}}, {"gpu0-1-2-3-4-5-6-7": "GPU 0,1,2,3,4,5,6,7"}),
        (
            {"vllm_args": {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}},
            {"gpu0-1-2-3": "GPU 0,1,2,3", "gpu4-5-6-7": "GPU 4,5,6,7"},
        ),
        ({"gpu_groups": [[6], ["GPU-2"]]}, {"gpu6": "GPU 6", "gpu2": "GPU 2"}),
        ({"gpu_groups": []}, {}),
    ],
)
def test_one_worker_per_group(settings: dict[str, Any], expected: dict[str, str]) -> None:
    plans, warnings = planned(fleet(**settings))
    assert (places(plans), warnings) == (expected, [])


@pytest.mark.parametrize("settings", [{}, {"engine": "openai", "openai": {"url": "http://s/v1", "model": "m"}}])
def test_a_host_may_search_indexes_and_have_no_model_with_or_without_gpus(settings: dict[str, Any]) -> None:
    assert planned(fleet(gpu_groups=[], **settings), [])[0] == []


def test_the_pin_is_in_the_environment_and_numbers_mean_what_nvidia_smi_shows() -> None:
    plans, _ = planned(fleet(vllm_args={"tensor_parallel_size": 4}))
    pins = [(each.environment["CUDA_VISIBLE_DEVICES"], each.environment["CUDA_DEVICE_ORDER"]) for each in plans]
    assert pins == [("0,1,2,3", "PCI_BUS_ID"), ("4,5,6,7", "PCI_BUS_ID")]


def test_a_mig_instance_is_a_place_like_a_gpu() -> None:
    plans, _ = planned(fleet(), CUT)
    assert [each.environment["CUDA_VISIBLE_DEVICES"] for each in plans] == ["0", "MIG-11aa", "MIG-22bb"]


def test_instances_that_an_engine_on_two_gpus_cannot_use_are_told_as_such() -> None:
    plans, warnings = planned(fleet({"vllm_args": {"tensor_parallel_size": 2}}), [*CUT, EIGHT[2]])
    assert [each.name for each in plans] == ["gpu0-2"]
    assert warnings == ["GPU MIG-11aa, MIG-22bb stays unused: a worker needs 2, and MIG instances cannot be combined."]


def test_several_models_have_workers_queues_and_settings_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(
        "batch_size: 16\n"
        "models:\n"
        "  - {model: large, gpu_groups: [[0, 1], [2, 3]], vllm_args: {tensor_parallel_size: 2}}\n"
        "  - {model: small, gpu_groups: auto, batch_size: 64}\n"
    )
    both = load_fleet(file)
    plans, _ = plan_host(both, Machine(EIGHT, CORES), SettingsSources(file))
    assert places(plans) == {
        "large-gpu0-1": "GPU 0,1",
        "large-gpu2-3": "GPU 2,3",
        **{f"small-gpu{i}": f"GPU {i}" for i in (4, 5, 6, 7)},
    }
    assert [each.batch_size for each in both] == [16, 64]
    environment = plans[-1].environment
    assert (environment["MCQUEUE_MODEL"], environment["MCQUEUE_CONFIG"]) == ("small", str(file))
    assert environment["MCQUEUE_WORKER_NAME"] == "small-gpu7"


def test_a_worker_of_a_model_named_as_on_the_hub_has_no_slash_in_its_name() -> None:
    plans, _ = planned(fleet({"model": "Org/Big", "gpu_groups": [[0]]}, {"model": "small", "gpu_groups": [[1]]}))
    assert [each.name for each in plans] == ["org-big-gpu0", "small-gpu1"]
    environment = plans[0].environment
    assert (environment["MCQUEUE_MODEL"], environment["MCQUEUE_WORKER_NAME"]) == ("Org/Big", "org-big-gpu0")
    assert pick(plans, ["org-big-gpu0"]) == plans[:1]


@pytest.mark.parametrize(
    ("models", "says"),
    [
        ([{"model": "a", "gpu_groups": [[0]]}, {"model": "b", "gpu_groups": [[0]]}], r"GPU 0 into 2 groups \(a, b\)"),
        ([{"model": "a", "gpu_groups": [[0]], "share_gpus": True}, {"model": "b", "gpu_groups": [[0]]}], "into 2"),
        ([{"model": "a"}, {"model": "b"}], "auto is set for a, b, which leaves open how to divide 8 GPUs"),
        ([{"model": "a", "gpu_groups": [[i] for i in range(8)]}, {"model": "b"}], "0 visible and not in another group"),
        ([{"model": "a", "gpu_groups": [[0, 1]]}], r"Group \[0, 1\] has 2 GPUs"),
        ([{"model": "a", "gpu_groups": [[8]]}], "asks for GPU 8; 8 visible"),
    ],
)
def test_an_impossible_plan_is_refused_with_the_arithmetic(models: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(PlanError, match=says):
        planned(fleet(*models))


def test_groups_that_are_named_need_gpus_even_where_there_is_none() -> None:
    with pytest.raises(PlanError, match="asks for GPU 0; none is visible"):
        planned(fleet(gpu_groups=[[0]]), [])


@pytest.mark.parametrize(
    ("models", "says"),
    [
        ([{"model": "a", "gpu_groups": [[0, 1], [2, 3]]}], r"Group \[0, 1\] has 2 GPUs, but the engine uses"),
        ([{"model": "a", "gpu_groups": [[0]]}, {"model": "b", "gpu_groups": [[1, 2]]}], r"Group \[1, 2\] has 2 GPUs"),
        ([{"model": "a", "gpu_groups": [[0], [1], ["1"]]}], r"GPU 1 into 2 groups \(a, a\)"),
        ([{"model": "a", "gpu_groups": [["GPU-5f"]]}, {"model": "b", "gpu_groups": [["GPU-5f"]]}], "GPU-5f into 2"),
        ([{"model": "a", "gpu_groups": [[1, 1]]}], r"Group \[1, 1\] has a GPU twice"),
        ([{"model": "a", "gpu_groups": [["MIG-1", "MIG-2"]], "vllm_args": {"tensor_parallel_size": 2}}], "one MIG"),
        ([{"model": "a", "gpu_groups": [[0], [0]], "share_gpus": True}], r"GPU 0: gpu_memory_utilization 0.92 \+ 0.92"),
    ],
)
def test_what_the_file_alone_shows_to_be_wrong_is_told_where_its_gpus_are_not(
    models: list[dict[str, Any]], says: str
) -> None:
    """On a login node, only the first GPU that was missing was named."""
    with pytest.raises(PlanError, match=says):
        planned(fleet(*models), [])


def test_a_file_that_may_share_its_gpus_lacks_only_the_gpus_where_there_are_none() -> None:
    third = {"gpu_groups": [[0], ["GPU-5f"], [0]], "vllm_args": {"gpu_memory_utilization": 0.3}}
    with pytest.raises(PlanError, match="asks for GPU 0; none is visible"):
        planned(fleet({"model": "a", **third}, {"model": "b", "gpu_groups": [[1]]}, share_gpus=True), [])


def test_two_workers_share_a_gpu_only_if_the_file_says_so_and_are_warned_of() -> None:
    half = {"gpu_groups": [[0]], "vllm_args": {"gpu_memory_utilization": 0.45}}
    plans, warnings = planned(fleet({"model": "a", **half}, {"model": "b", **half}, share_gpus=True))
    assert places(plans) == {"a-gpu0": "GPU 0", "b-gpu0": "GPU 0"}
    assert warnings == ["GPU 0 is shared by 2 workers (a, b), which slow each other down."]


def test_workers_of_one_model_that_share_gpus_have_names_of_their_own() -> None:
    sharing = {"share_gpus": True, "vllm_args": {"gpu_memory_utilization": 0.3}}
    plans, _ = planned(fleet(gpu_groups=[[0], [1], [0], [0]], **sharing))
    assert places(plans) == {"gpu0": "GPU 0", "gpu1": "GPU 1", "gpu0.2": "GPU 0", "gpu0.3": "GPU 0"}
    assert [each.environment["MCQUEUE_WORKER_NAME"] for each in plans] == ["gpu0", "gpu1", "gpu0.2", "gpu0.3"]
    assert pick(plans, ["gpu0"]) == plans[:1]
    twice = {"model": "a", "gpu_groups": [[0], [0]]}
    plans, _ = planned(fleet(twice, {"model": "b", "gpu_groups": [[0]]}, **sharing))
    assert list(places(plans)) == ["a-gpu0", "a-gpu0.2", "b-gpu0"]


def test_instances_whose_ids_begin_alike_have_workers_with_names_of_their_own() -> None:
    alike = [Device(f"MIG-11aa22bb-{i}", f"MIG-11aa22bb-{i}", "0") for i in (1, 2)]
    assert list(places(planned(fleet(), alike)[0])) == ["gpu11aa22bb", "gpu11aa22bb.2"]


def test_what_shares_a_gpu_must_fit_on_it() -> None:
    with pytest.raises(PlanError, match=r"GPU 0: gpu_memory_utilization 0.92 \+ 0.3 = 1.22 of its memory"):
        planned(
            fleet(
                {"model": "a", "gpu_groups": [[0]]},
                {"model": "b", "gpu_groups": [[0]], "vllm_args": {"gpu_memory_utilization": 0.3}},
                share_gpus=True,
            )
        )


@pytest.mark.parametrize(("share", "boots"), [(0.475, True), (0.48, False), (0.5, False)])
def test_what_cuda_takes_for_each_worker_must_find_room_beside_their_shares(share: float, boots: bool) -> None:
    each = {"gpu_groups": [[0]], "vllm_args": {"gpu_memory_utilization": share}}
    two = fleet({"model": "a", **each}, {"model": "b", **each}, share_gpus=True)
    with nullcontext() if boots else pytest.raises(PlanError, match=r"Lower them to a sum of 0\.95 or less"):
        assert len(planned(two)[0]) == 2


def test_without_a_gpu_workers_are_bound_to_cores_that_they_share_with_nobody() -> None:
    plans, warnings = planned(fleet(cpu_workers=3), [])
    assert (places(plans), warnings) == ({"cpu0": "cores 0-1", "cpu1": "cores 2-3", "cpu2": "cores 4-5"}, [])
    assert {each.environment["OMP_NUM_THREADS"] for each in plans} == {"2"}
    assert {each.environment["CUDA_VISIBLE_DEVICES"] for each in plans} == {""}


def test_models_without_a_gpu_share_the_cores_too() -> None:
    plans, _ = planned(fleet({"model": "a"}, {"model": "b", "cpu_workers": 3}), [])
    assert places(plans) == {"a-cpu0": "cores 0-1", "b-cpu1": "cores 2-3", "b-cpu2": "cores 4-5", "b-cpu3": "cores 6-7"}


def test_as_many_workers_as_cores_have_one_each() -> None:
    plans, warnings = planned(fleet(cpu_workers=2), [], [0, 1])
    assert (places(plans), warnings) == ({"cpu0": "cores 0", "cpu1": "cores 1"}, [])


def test_more_workers_than_cores_are_not_bound_and_warned_of() -> None:
    plans, warnings = planned(fleet(cpu_workers=3), [], [0, 1])
    assert set(places(plans).values()) == {"CPU"}
    assert warnings == ["3 CPU workers on 2 cores: too few for each to have its own."]


@pytest.mark.parametrize(
    ("workers", "threads", "says"),
    [(1, "3", []), (2, "1", []), (4, "1", ["4 CPU workers on 3 cores: too few for each to have its own."])],
)
def test_workers_share_a_cpu_quota_as_threads_that_are_bound_to_no_core(
    workers: int, threads: str, says: list[str]
) -> None:
    plans, warnings = plan_host(fleet(cpu_workers=workers), Machine([], CORES, quota=3), SettingsSources())
    assert [plan.cores for plan in plans] == [()] * workers
    assert {each.environment["OMP_NUM_THREADS"] for each in plans} == {threads}
    assert {each.environment["VLLM_CPU_OMP_THREADS_BIND"] for each in plans} == {"nobind"}
    assert warnings == says


def test_a_worker_under_a_quota_shows_its_threads_and_divides_them_among_its_vllm_processes() -> None:
    (settings,) = fleet(vllm_args={"tensor_parallel_size": 2})
    plan = plan_worker(settings, (), Machine([], CORES, quota=6), SettingsSources())
    assert (plan.place, plan.cores, plan.environment["OMP_NUM_THREADS"]) == ("CPU, 6 threads", (), "3")


def test_a_search_gets_a_quarter_of_what_a_quota_leaves() -> None:
    plans = [
        plan_retrieval(["facts"], Settings(), Machine([], CORES, quota), SettingsSources()) for quota in (None, 4, 1)
    ]
    assert [each.environment["OMP_NUM_THREADS"] for (each,) in plans] == ["2", "1", "1"]


def test_gpus_that_auto_makes_no_group_of_are_warned_of() -> None:
    plans, warnings = planned(fleet(vllm_args={"tensor_parallel_size": 3}))
    assert list(places(plans).values()) == ["GPU 0,1,2", "GPU 3,4,5"]
    assert warnings == ["GPU 6, 7 stays unused: a worker needs 3, and fewer are left."]
    assert planned(fleet(gpu_groups=[[0], [1]]))[1] == [], "left to others on purpose"


def test_a_worker_that_asks_a_server_elsewhere_takes_no_gpu() -> None:
    plans, _ = planned(fleet(engine="openai", openai={"url": "http://h", "model": "m"}))
    assert places(plans) == {"cpu0": "cores 0-7"}


def test_a_single_worker_is_pinned_to_what_its_command_names() -> None:
    (settings,) = fleet(vllm_args={"tensor_parallel_size": 2})
    plan = plan_worker(settings, ("4", "5"), Machine(EIGHT, CORES), SettingsSources(), "mine")
    assert (plan.name, plan.environment["CUDA_VISIBLE_DEVICES"]) == ("mine", "4,5")
    assert plan.environment["MCQUEUE_WORKER_NAME"] == "mine"
    with pytest.raises(PlanError, match=r"Group \[4\] has 1 GPU,"):
        plan_worker(settings, ("4",), Machine(EIGHT, CORES), SettingsSources())
    assert plan_worker(settings, (), Machine(EIGHT, CORES), SettingsSources()).place == "cores 0-7"


@pytest.mark.parametrize("name", ["gpu%z", "gpu0@node7", "my worker", "a/b"])
def test_a_single_workers_name_is_a_word_without_a_host(name: str) -> None:
    (settings,) = fleet()
    with pytest.raises(PlanError, match="not the name of a worker on its host") as refused:
        plan_worker(settings, (), Machine([], CORES), SettingsSources(), name)
    assert "the host is added" in refused.value.hint


def test_the_gpus_of_a_single_worker_may_have_spaces_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, str]] = []
    monkeypatch.setattr(launch, "this_machine", lambda: Machine(EIGHT, CORES))
    monkeypatch.setattr("os.execve", lambda *arguments: started.append(arguments[-1]))
    words = ["--gpus", "4, 5", "--set", "vllm_args.tensor_parallel_size=2"]
    assert CliRunner().invoke(launch.run, words, catch_exceptions=False).exit_code == 0
    assert started[0]["CUDA_VISIBLE_DEVICES"] == "4,5"


def test_a_gpu_that_the_command_names_and_nobody_sees_is_no_fault_of_the_settings() -> None:
    (settings,) = fleet()
    with pytest.raises(PlanError, match=r"^--gpus asks for GPU 0; none is visible") as refused:
        plan_worker(settings, ("0",), Machine([], CORES), SettingsSources())
    assert "leave --gpus out" in str(refused.value)
    assert "gpu_groups" not in str(refused.value)


def test_workers_read_the_settings_that_their_launcher_read(tmp_path: Path) -> None:
    environment = SettingsSources(tmp_path / "x.yaml", ["batch_size=8", "vllm_args.dtype=float32"]).environment()
    assert environment["MCQUEUE_CONFIG"] == str((tmp_path / "x.yaml").resolve())
    assert json.loads(environment["MCQUEUE_OVERRIDES"]) == {"batch_size": 8, "vllm_args": {"dtype": "float32"}}


def test_a_worker_that_searches_has_the_time_that_the_settings_give_any_worker() -> None:
    settings = Settings(server_startup_timeout=1800, drain_timeout_s=300)
    (plan,) = plan_retrieval(["facts"], settings, Machine([], CORES), SettingsSources())
    assert (plan.name, plan.queue) == ("retrieve-facts", "retrieve.facts")
    assert (plan.startup_timeout_s, plan.drain_timeout_s) == (1800, 300)


def test_of_the_plan_some_workers_may_be_picked_by_name() -> None:
    plans, _ = planned(fleet(vllm_args={"tensor_parallel_size": 4}))
    assert pick(plans, ["gpu4-5-6-7"]) == plans[1:]
    assert pick(plans, []) == plans
    with pytest.raises(PlanError, match=r"--only gpu4: .* Its workers: gpu0-1-2-3, gpu4-5-6-7"):
        pick(plans, ["gpu4"])
    with pytest.raises(PlanError, match=r"Its workers: none\."):
        pick([], ["gpu4"])
