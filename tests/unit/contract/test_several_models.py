"""The names that a deployment's models are known by, and files that have several models."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract import load_settings
from contract.errors import SettingsError
from contract.keys import score_queue
from contract.settings import load_fleet
from tests.unit.contract.refusals import refusal
from workers.engines import make_engine


@pytest.mark.parametrize(
    ("overrides", "served"),
    [
        (["hf_model_id=HuggingFaceTB/SmolLM2-135M"], "smollm2-135m"),
        (["hf_model_id=/models/My Model"], "my-model"),
        (["hf_model_id=org/a", "model=b"], "b"),
    ],
)
def test_a_model_is_served_under_its_own_name_or_the_last_part_of_where_it_lies(
    overrides: list[str], served: str
) -> None:
    assert load_settings(None, overrides).served_model == served


def test_whose_runs_settings_serve_is_decided_by_the_queue() -> None:
    settings = load_settings(None, ["hf_model_id=owner/Qwen-7B"])
    for spelled in ("qwen-7b", "Qwen-7B", "Qwen 7B", "owner/Qwen-7B", "千问-7B"):
        assert settings.serves(spelled) is (score_queue(spelled) == score_queue(settings.served_model))


SEVERAL = """
batch_size: 8
vllm_args: {dtype: bfloat16}
models:
  - {hf_model_id: owner/Large, batch_size: 4, vllm_args: {tensor_parallel_size: 2}}
  - {model: small}
"""


@pytest.fixture
def several(tmp_path: Path) -> Path:
    file = tmp_path / "several.yaml"
    file.write_text(SEVERAL)
    return file


def test_each_of_several_models_is_laid_over_the_rest_of_the_file(several: Path) -> None:
    large, small = load_fleet(several, ["vllm_args.seed=7"])
    assert (large.served_model, large.batch_size) == ("large", 4)
    assert large.vllm_args == {"dtype": "bfloat16", "tensor_parallel_size": 2, "seed": 7}
    assert (small.served_model, small.batch_size, small.vllm_args) == ("small", 8, {"dtype": "bfloat16", "seed": 7})


def test_one_of_several_models_is_named_by_override_or_environment(
    several: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings(several, ["model=large"]).batch_size == 4
    assert [each.served_model for each in load_fleet(several, ["model=small"])] == ["small"]
    monkeypatch.setenv("MCQUEUE_MODEL", "large")
    assert load_settings(several).batch_size == 4


TWO_AS_JSON = '[{"hf_model_id": "a/b"}, {"hf_model_id": "c/d", "batch_size": 4}]'


def test_several_models_may_come_from_the_environment(several: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCQUEUE_MODELS", TWO_AS_JSON)
    for fleet in (load_fleet(several), load_fleet(several, ["models=[{model: other}]"])):
        assert [(each.served_model, each.batch_size) for each in fleet] == [("b", 8), ("d", 4)]
    assert load_settings().served_as("c/d") == "d"
    monkeypatch.setenv("MCQUEUE_MODEL", "d")
    assert (load_settings().served_model, load_settings().batch_size) == ("d", 4)
    assert [each.hf_model_id for each in load_fleet()] == ["c/d"]


def test_an_empty_variable_selects_none_of_several_models(several: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCQUEUE_MODEL", "")
    assert [each.served_model for each in load_fleet(several)] == ["large", "small"]
    assert load_settings(several, ["model=small"]).served_model == "small"


@pytest.mark.parametrize(
    ("variable", "override", "place"),
    [('"large"', "", "MCQUEUE_MODELS"), ('{"model": "large"}', "", "MCQUEUE_MODELS"), ("", "models=large", "--set")],
)
def test_models_that_are_no_list_are_told_with_the_place_where_they_were_given(
    several: Path, monkeypatch: pytest.MonkeyPatch, variable: str, override: str, place: str
) -> None:
    if variable:
        monkeypatch.setenv("MCQUEUE_MODELS", variable)
    assert refusal(several, *filter(None, [override])).startswith(f"{place}: models: expected a list of settings")


ENTRY = '[{"model": "mine", "batch_siz": 3}]'


@pytest.mark.parametrize(
    ("variable", "override", "place"), [(ENTRY, "", "MCQUEUE_MODELS"), ("", f"models={ENTRY}", "--set")]
)
def test_a_wrong_setting_in_an_entry_of_models_is_told_with_the_place_where_they_were_given(
    several: Path, monkeypatch: pytest.MonkeyPatch, variable: str, override: str, place: str
) -> None:
    if variable:
        monkeypatch.setenv("MCQUEUE_MODELS", variable)
    overrides = [*filter(None, [override]), "model=mine"]
    assert refusal(several, *overrides).startswith(f"{place}: model mine: unknown setting 'batch_siz'")
    several.write_text("batch_size: many\n")
    monkeypatch.setenv("MCQUEUE_MODELS", '[{"model": "mine"}]')
    assert refusal(several, "model=mine").startswith(f"{several}: model mine: batch_size: "), "the rest is the file's"


def test_a_name_for_the_only_model_of_a_file_is_none_for_several(several: Path) -> None:
    """They were all known by it to a producer, whose runs then waited in a queue that no worker serves."""
    several.write_text(f"model: mine\n{SEVERAL}")
    settings = load_settings(several)
    assert settings.every_model == [each.served_model for each in load_fleet(several)] == ["large", "small"]
    assert settings.served_as("owner/Large") == "large"


def test_a_single_entry_of_models_needs_no_selection() -> None:
    only = ["models=[{hf_model_id: org/Small, batch_size: 4}]"]
    assert (load_settings(None, only).served_model, load_settings(None, only).batch_size) == ("small", 4)
    assert load_fleet(None, only) == (load_settings(None, only),)


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("owner/Large", "large"),
        ("large", "large"),
        ("small", "small"),
        ("Other", "Other"),
        # Their queue is the same.
        ("Large", "large"),
        ("Owner/large", "large"),
    ],
)
def test_a_model_may_be_asked_for_by_the_id_that_the_deploy_file_has(several: Path, asked: str, served: str) -> None:
    assert load_settings(several).served_as(asked) == served


@pytest.mark.parametrize(
    ("asked", "served"),
    [("Org/Big-Model", "big-model"), ("big-model", "big-model"), ("smollm2-135m-instruct", "smollm2-135m-instruct")],
)
def test_a_servers_model_is_known_by_its_own_id_and_not_by_the_one_that_would_be_loaded(
    asked: str, served: str
) -> None:
    """The default `hf_model_id` was taken for the model of the server, which was asked instead."""
    server = ["engine=openai", "openai.url=http://127.0.0.1:9", "openai.model=Org/Big-Model"]
    assert load_settings(None, server).served_as(asked) == served


ONE_SERVER = """
engine: openai
openai: {url: http://gateway/v1}
adapters: {base: a/base}
models:
  - {openai: {model: Qwen/Qwen3-8B}, adapters: {own: a/own}}
  - {openai: {model: Qwen/Qwen3-14B}}
"""


def test_several_models_of_one_server_are_loaded_by_workers_and_producers_alike(tmp_path: Path) -> None:
    """Producers refused the file: it has a URL without a model for all."""
    file = tmp_path / "gateway.yaml"
    file.write_text(ONE_SERVER)
    assert [each.served_model for each in load_fleet(file)] == ["qwen3-8b", "qwen3-14b"]
    assert load_settings(file).served_as("Qwen/Qwen3-14B") == "qwen3-14b"
    assert load_settings(file).every_adapter == {"base", "own"}


def test_a_model_is_named_by_all_that_the_file_says_of_its_server() -> None:
    """An entry with settings of the server hid its model, and the worker took the name of the packaged one."""
    given = [
        "engine=openai",
        "openai={url: http://s/v1, model: Qwen/Qwen3-8B}",
        "models=[{openai: {concurrency: 256}}, {openai: {model: other}}]",
    ]
    assert [each.served_model for each in load_fleet(None, given)] == ["qwen3-8b", "other"]


@pytest.mark.parametrize("wrong", ["openai: null", "openai: http://s/v1", "hf_model_id: 7", "adapters: null"])
def test_a_wrong_entry_of_models_is_refused_for_producers_too(wrong: str) -> None:
    """Commands that asked for a model by its id ended in a traceback."""
    with pytest.raises(SettingsError, match=f"model b: {wrong.partition(':')[0]}: "):
        load_settings(None, [f"models=[{{model: a}}, {{model: b, {wrong}}}]"])


def test_models_in_folders_without_latin_letters_are_not_taken_for_one_another() -> None:
    settings = load_settings(None, ["hf_model_id=/models/模型"])
    other = load_settings(None, ["hf_model_id=/models/文心"])
    assert settings.served_model != other.served_model
    assert settings.served_as("文心") == "文心"


def test_an_id_that_the_settings_lack_is_the_name_that_its_workers_have_by_default() -> None:
    there = load_settings(None, ["hf_model_id=Owner/Some-Model"])
    assert load_settings(None, ["hf_model_id=another/one"]).served_as("Owner/Some-Model") == there.served_model


def test_an_id_that_is_also_the_name_of_workers_is_that_name() -> None:
    settings = load_settings(None, ["hf_model_id=owner/Large", "model=owner/Large"])
    assert settings.served_as("owner/Large") == "owner/Large"


def test_several_models_have_no_name_in_common(several: Path) -> None:
    common = load_settings(several)
    assert common.batch_size == 8
    with pytest.raises(SettingsError, match=r"several models: large, small\. Name one: --set model=large"):
        _ = common.served_model
    with pytest.raises(SettingsError, match="several models"):
        make_engine(common)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["model=smal"], "none is called 'smal'. Did you mean 'small'"),
        (["models=[{batch_siz: 3, model: small}]", "model=small"], "model small: unknown setting 'batch_siz'"),
        (["models=[{model: a}, {model: a}]"], "2 models, but only 1 queue name: a"),
        (["models=[{model: Llama3}, {model: llama3}]"], "2 models, but only 1 queue name: llama3"),
        (["models=large"], "models: expected a list of settings"),
        (["models=[{model: a, indexes: [places]}, {model: b}]"], "Move it to the top level of the file."),
    ],
)
def test_wrong_models_are_named(several: Path, overrides: list[str], says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_fleet(several, overrides)
    assert says in str(caught.value)
