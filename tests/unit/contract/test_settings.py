"""Where settings come from, and which layer wins."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from contract import Settings, load_settings, variables
from tests.support import ROOT
from tests.unit.contract.refusals import refusal


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    """A deploy file that sets a few things."""
    path = tmp_path / "deploy.yaml"
    path.write_text("batch_size: 32\nvllm_args: {dtype: float32, seed: 7}\n", encoding="utf-8")
    return path


def test_every_layer_wins_over_those_below_it(deploy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().batch_size == 64
    assert load_settings(deploy).batch_size == 32
    monkeypatch.setenv(variables.OVERRIDES, json.dumps({"batch_size": 20}))
    assert load_settings(deploy).batch_size == 20
    assert load_settings(deploy, ["batch_size=16"]).batch_size == 16
    monkeypatch.setenv("MCQUEUE_BATCH_SIZE", "8")
    assert load_settings(deploy, ["batch_size=16"]).batch_size == 8


def test_layers_are_merged_name_by_name(deploy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variables.OVERRIDES, json.dumps({"vllm_args": {"max_num_seqs": 4}}))
    monkeypatch.setenv("MCQUEUE_VLLM_ARGS__MAX_MODEL_LEN", "2048")
    merged = load_settings(deploy, ["vllm_args.seed=9"]).vllm_args
    assert merged == {"dtype": "float32", "seed": 9, "max_num_seqs": 4, "max_model_len": 2048}


def test_the_file_is_found_through_the_environment_unless_one_is_named(
    deploy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variables.CONFIG, str(deploy))
    assert load_settings().batch_size == 32
    named = tmp_path / "named.yaml"
    named.write_text("batch_size: 5\n", encoding="utf-8")
    assert load_settings(named).batch_size == 5


def test_a_file_that_only_the_environment_names_is_missed_with_the_variable_and_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variables.CONFIG, "configs/deploy/laptop.yaml")
    monkeypatch.chdir(tmp_path)
    assert refusal() == (
        f"MCQUEUE_CONFIG: configs/deploy/laptop.yaml: no such configuration file. A relative path starts at {tmp_path}."
    )


def test_a_file_of_the_environment_that_cannot_be_looked_at_is_told_with_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variables.CONFIG, str(tmp_path / ("x" * 300)))
    told = refusal()
    assert told.startswith("MCQUEUE_CONFIG: ")
    assert told.endswith(": cannot be read: File name too long. Check the path and its permissions.")


@pytest.mark.parametrize(
    ("variable", "word", "override", "place"),
    [
        ("MCQUEUE_BATCH_SIZE", "many", "", "MCQUEUE_BATCH_SIZE: batch_size: "),
        ("MCQUEUE_REDIS_URL", "http://host", "", "MCQUEUE_REDIS_URL: redis_url: "),
        ("MCQUEUE_OPENAI__TIMEOUT_S", "soon", "", "MCQUEUE_OPENAI__TIMEOUT_S: openai.timeout_s: "),
        ("MCQUEUE_OPENAI", '{"timeout_s": "soon"}', "", "MCQUEUE_OPENAI: openai.timeout_s: "),
        ("", "", "batch_size=many", "--set: batch_size: "),
        ("", "", "openai.timeout_s=soon", "--set: openai.timeout_s: "),
        ("", "", "batch_sise=1", "--set: unknown setting 'batch_sise'. Did you mean 'batch_size'?"),
        ("", "", "mode=letter", "--set: 'mode' belongs to a run, not to the deployment."),
        ("MCQUEUE_BATCH_TIMEOUT", "soon", "batch_timeout=1", "MCQUEUE_BATCH_TIMEOUT: batch_timeout: "),
    ],
)
def test_a_wrong_value_is_told_with_the_place_where_it_was_given_and_not_with_the_file(
    deploy: Path, monkeypatch: pytest.MonkeyPatch, variable: str, word: str, override: str, place: str
) -> None:
    if variable:
        monkeypatch.setenv(variable, word)
    assert refusal(deploy, *filter(None, [override])).startswith(place)


def test_a_wrong_value_in_the_file_is_told_with_the_file(deploy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy.write_text("batch_size: many\nopenai: {timeout_s: soon}\n", encoding="utf-8")
    monkeypatch.setenv("MCQUEUE_OPENAI", '{"max_retries": 1}')
    monkeypatch.setenv("MCQUEUE_BATCH_TIMEOUT", "1")
    assert re.findall(r"\S+(?=: (?:batch_size|openai))", refusal(deploy, "settle_every_s=2")) == [str(deploy)] * 2


@pytest.mark.parametrize(
    ("word", "value"),
    [("2048", 2048), ("0.9", 0.9), ("true", True), ("float32", "float32"), ("2024-01-01", "2024-01-01"), ("[1", "[1")],
)
def test_an_engine_argument_from_the_environment_is_a_number_where_it_looks_like_one(
    monkeypatch: pytest.MonkeyPatch, word: str, value: object
) -> None:
    monkeypatch.setenv("MCQUEUE_VLLM_ARGS__MAX_MODEL_LEN", word)
    found = load_settings().vllm_args["max_model_len"]
    assert found == value
    assert type(found) is type(value)


def test_lists_and_mappings_come_from_the_environment_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCQUEUE_GPU_GROUPS", "[[0], [1, 2]]")
    monkeypatch.setenv("MCQUEUE_VLLM_ARGS", '{"seed": 3}')
    found = load_settings()
    assert (found.gpu_groups, found.vllm_args) == ([[0], [1, 2]], {"seed": 3})
    monkeypatch.setenv("MCQUEUE_GPU_GROUPS", "auto")
    assert load_settings().gpu_groups == "auto"
    monkeypatch.setenv("MCQUEUE_VLLM_ARGS", "seed=3")
    message = refusal()
    assert message.startswith("environment: ")
    assert '"vllm_args"' in message
    assert message.endswith("Lists and mappings are given as JSON.")


def test_a_mistake_between_settings_is_blamed_on_no_single_layer(deploy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = "configuration: batches_in_flight 80 is more than max_batches_in_flight, 64: raise max_batches_in_flight."
    assert refusal(None, "batches_in_flight=80") == f"--set: {wrong}"
    assert refusal(deploy, "batches_in_flight=80") == f"{deploy} and --set: {wrong}"
    monkeypatch.setenv("MCQUEUE_BATCHES_IN_FLIGHT", "80")
    assert refusal(deploy) == f"{deploy} and environment: {wrong}"


def test_an_engine_uses_as_many_gpus_as_tensor_times_pipeline_parallel() -> None:
    assert load_settings().gpus_per_worker == 1
    both = ["vllm_args.tensor_parallel_size=2", "vllm_args.pipeline_parallel_size=3"]
    assert load_settings(None, both[:1]).gpus_per_worker == 2
    assert load_settings(None, both).gpus_per_worker == 6
    assert load_settings(None, ["vllm_args.prefill_context_parallel_size=2"]).gpus_per_worker == 2


def test_settings_are_read_once_and_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCQUEUE_BATCH_SIZE", "8")
    found = load_settings()
    monkeypatch.setenv("MCQUEUE_BATCH_SIZE", "9")
    assert found.batch_size == 8
    with pytest.raises(ValidationError, match="frozen"):
        found.batch_size = 9


def test_loading_leaves_the_environment_as_it_was(deploy: Path) -> None:
    before = dict(os.environ)
    load_settings(deploy, ["batch_size=3"])
    assert dict(os.environ) == before


@pytest.mark.parametrize("path", sorted((ROOT / "configs" / "deploy").glob("*.yaml")), ids=lambda path: path.name)
def test_every_shipped_deploy_file_can_be_loaded(path: Path) -> None:
    assert load_settings(path) != Settings(), "it would change nothing"
