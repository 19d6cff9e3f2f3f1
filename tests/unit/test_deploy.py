"""The shipped deployments: each is what its name says, and can be planned on the host that it is for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contract.settings import load_fleet
from tests.support import ROOT
from tests.unit.workers.gpus.hosts import EIGHT
from workers.gpus.groups import Device
from workers.host.diagnostics import check_batching
from workers.host.machine import Machine
from workers.host.placement import SettingsSources, plan_host

DEPLOY = ROOT / "configs" / "deploy"
CORES = [0, 1]


def places(name: str, visible: list[Device]) -> list[str]:
    file = DEPLOY / f"{name}.yaml"
    plans, warnings = plan_host(load_fleet(file), Machine(visible, CORES), SettingsSources(file))
    assert warnings == []
    return [f"{plan.serves}: {plan.place}" for plan in plans]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tensor-parallel-8", ["llama-3.1-405b-instruct-fp8: GPU 0,1,2,3,4,5,6,7"]),
        ("four-by-two", [f"qwen2.5-32b-instruct: GPU {i},{i + 1}" for i in (0, 2, 4, 6)]),
        ("eight-by-one", [f"qwen2.5-7b-instruct: GPU {i}" for i in range(8)]),
        (
            "hybrid",
            ["qwen2.5-72b-instruct: GPU 0,1,2,3", *(f"qwen2.5-7b-instruct: GPU {i}" for i in (4, 5, 6, 7))],
        ),
        ("gpu", [f"qwen2.5-1.5b-instruct: GPU {i}" for i in range(8)]),
        ("openai", ["qwen2.5-7b-instruct: cores 0-1"]),
    ],
)
def test_a_strategy_places_its_workers_on_a_host_of_eight(name: str, expected: list[str]) -> None:
    assert places(name, EIGHT) == expected


def test_the_laptops_file_uses_all_of_two_cores() -> None:
    assert places("laptop", []) == ["smollm2-135m-instruct: cores 0-1"]


@pytest.mark.parametrize("name", ["gpu", "eight-by-one", "four-by-two", "hybrid"])
def test_a_layout_starts_with_the_batch_size_that_is_calculated_for_its_model(name: str) -> None:
    rows = json.loads((ROOT / "benchmarks/recorded/batch_size_estimate.json").read_text())["rows"]
    calculated = {row["model"]: row["batch_size"] for row in rows}
    for settings in load_fleet(DEPLOY / f"{name}.yaml"):
        model = settings.hf_model_id.removeprefix("Qwen/").removesuffix("-Instruct")
        assert settings.batch_size == calculated[model]


@pytest.mark.parametrize("file", sorted(DEPLOY.glob("*.yaml")), ids=lambda file: file.stem)
def test_no_deployment_is_found_fault_with(file: Path) -> None:
    for settings in load_fleet(file):
        assert {finding.level for finding in check_batching(settings)} == {"ok"}
        room = settings.vllm_args.get("max_num_seqs")
        assert room is None or room >= settings.batch_size, "a batch would wait for itself"


#: What vLLM 0.32 captures on a GPU before Blackwell where nobody says how much.
CAPTURED = 512


@pytest.mark.parametrize("file", sorted(DEPLOY.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_deployment_decodes_as_many_texts_as_it_takes_by_cuda_graphs(file: Path) -> None:
    for settings in load_fleet(file):
        graphs = settings.vllm_args.get("max_cudagraph_capture_size", CAPTURED)
        assert settings.vllm_args.get("max_num_seqs", 0) <= graphs


def test_every_deployment_stands_in_the_configurations_list() -> None:
    listed = (ROOT / "configs" / "README.md").read_text()
    assert [file.name for file in DEPLOY.glob("*.yaml") if f"`deploy/{file.name}`" not in listed] == []


def test_a_model_of_a_hundred_gigabytes_has_longer_than_others_to_be_read() -> None:
    large, small = load_fleet(DEPLOY / "hybrid.yaml")
    assert large.server_startup_timeout > small.server_startup_timeout
