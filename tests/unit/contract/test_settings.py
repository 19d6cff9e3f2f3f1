"""Where settings come from, which layer wins, and what is said about a wrong one."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from contract import Settings, load_settings, variables
from contract.errors import SettingsError
from contract.keys import score_queue
from contract.settings import load_fleet
from contract.settings.fields import PARALLEL_SIZES
from tests.support import ROOT
from workers.engines import make_engine

PASSWORD = "hunter2"


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    """A deploy file that sets a few things."""
    path = tmp_path / "deploy.yaml"
    path.write_text("batch_size: 32\nvllm_args: {dtype: float32, seed: 7}\n", encoding="utf-8")
    return path


def refusal(config: Path | None = None, *overrides: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(config, overrides)
    return str(caught.value)


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


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "mode=letter",
            "--set: 'mode' belongs to a run, not to the deployment. "
            "Give it to enqueue: --set mode=…, or --config with a file of configs/runs/.",
        ),
        ("batchsize=8", "--set: unknown setting 'batchsize'. Did you mean 'batch_size'?"),
        ("openai.base_url=x", "--set: unknown setting 'openai.base_url'. Did you mean 'openai.url'?"),
        ("host=x", "--set: unknown setting 'host'. Did you mean 'http.host'?"),
        ("simulated.cal_ms=1", "--set: unknown setting 'simulated.cal_ms'. Did you mean 'simulated.call_ms'?"),
        ("xyz=1", "--set: unknown setting 'xyz'."),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(override: str, message: str) -> None:
    assert refusal(None, override) == message


@pytest.mark.parametrize(
    ("override", "remedy"),
    [("auto_port=true", "a free port is always found"), ("parallel_workers=8", "batches_in_flight")],
)
def test_a_name_of_the_predecessors_is_refused_with_what_does_the_same(override: str, remedy: str) -> None:
    assert remedy in refusal(None, override)


def test_an_unknown_name_in_a_file_is_refused_with_the_files_path(tmp_path: Path) -> None:
    path = tmp_path / "deploy.yaml"
    path.write_text("max_attempt: 3\n", encoding="utf-8")
    assert refusal(path) == f"{path}: unknown setting 'max_attempt'. Did you mean 'max_attempts'?"


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ("8", ", found 8."),
        ("all", ", found 'all'."),
        ("[0, 1]", ": [[0], [1]] is a worker on each, [[0, 1]] one on all of them."),
    ],
)
def test_groups_that_are_none_are_refused_with_what_they_may_mean(groups: str, says: str) -> None:
    wanted = "expected auto, or a list with a group per worker, like [[0], [1], [2, 3]]"
    assert refusal(None, f"gpu_groups={groups}") == f"--set: gpu_groups: {wanted}{says}"


def test_a_text_that_yaml_reads_as_something_else_is_refused_with_how_it_stays_text(tmp_path: Path) -> None:
    path = tmp_path / "deploy.yaml"
    path.write_text("model: no\n", encoding="utf-8")

    assert refusal(path).endswith("found False. In quotes it is text.")
    assert refusal(None, "model=7").endswith("""found 7. In quotes it is text: --set 'NAME="VALUE"'.""")
    assert load_settings(None, ['model="7"']).model == "7"


def test_broken_yaml_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "deploy.yaml"
    path.write_text("batch_size: 3\nvllm_args: {a: 1\nengine: vllm\n", encoding="utf-8")
    assert refusal(path).startswith(f"{path}:3: not valid YAML: ")


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("MCQUEUE_LOG_FROMAT", "environment: unknown variable MCQUEUE_LOG_FROMAT. Did you mean 'MCQUEUE_LOG_FORMAT'?"),
        (
            "MCQUEUE_BATCHSIZE",
            "environment: unknown variable MCQUEUE_BATCHSIZE. Did you mean 'MCQUEUE_BATCH_SIZE'?",
        ),
        ("MCQUEUE_VLLM_ARG__SEED", "environment: unknown variable MCQUEUE_VLLM_ARG__SEED. "),
        (
            "MCQUEUE_SIMULATED__CALL_S",
            "MCQUEUE_SIMULATED__CALL_S: unknown setting 'simulated.call_s'. Did you mean 'simulated.call_ms'?",
        ),
        (
            "MCQUEUE_BATCH_SIZE__VLLM",
            "environment: unknown variable MCQUEUE_BATCH_SIZE__VLLM. MCQUEUE_BATCH_SIZE has no parts.",
        ),
        (
            "MCQUEUE_GPU_GROUPS__0",
            "environment: unknown variable MCQUEUE_GPU_GROUPS__0. MCQUEUE_GPU_GROUPS has no parts.",
        ),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_known_one(
    monkeypatch: pytest.MonkeyPatch, variable: str, message: str
) -> None:
    monkeypatch.setenv(variable, "8")
    assert refusal().startswith(message)


@pytest.mark.parametrize(
    "variable",
    ["MCQUEUE_BOOT_CAUSES", "MCQUEUE_LOG_FORMAT", "MCQUEUE_LOG_LEVEL", "MCQUEUE_READY_FD", "MCQUEUE_WORKER_NAME"],
)
def test_the_projects_other_variables_are_no_settings_and_no_mistakes(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "debug")
    assert load_settings() == Settings()


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("batch_size=many", "batch_size: Input should be a valid integer"),
        ("batch_size=0", "batch_size: Input should be greater than or equal to 1, found 0"),
        ("batch_size=9000", "batch_size: Input should be less than or equal to 8192, found 9000"),
        ("batch_timeout=-1", "batch_timeout: Input should be greater than or equal to 0, found -1"),
        ("question_batch_size=2.5", "question_batch_size: Input should be a valid integer"),
        ("enable_batching=perhaps", "enable_batching: Input should be a valid boolean"),
        ("engine=vlm", "engine: Input should be 'vllm', 'openai' or 'simulated', found 'vlm'"),
        ("hf_model_id=", "hf_model_id: String should have at least 1 character, found ''"),
        ("vllm_args=3", "vllm_args: Input should be a valid dictionary, found 3"),
        ("simulated.boot_s=soon", "simulated.boot_s: Input should be a valid number"),
        ("gpu_groups=[[0], []]", "a list with a group per worker, like [[0], [1], [2, 3]], found an empty group"),
        ("gpu_groups=some", "gpu_groups"),
        ("gpu_groups=[[0], [1.5]]", "gpu_groups: expected a GPU's number, UUID or MIG id, found 1.5."),
        ("gpu_groups=[[true]]", "gpu_groups: expected a GPU's number, UUID or MIG id, found True."),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_name_kind_and_finding(override: str, told: str) -> None:
    message = refusal(None, override)
    assert message.startswith("--set: ")
    assert told in message
    if "found" not in told:
        assert re.search(rf", found '?{re.escape(override.partition('=')[2])}'?\.", message)


@pytest.mark.parametrize(
    "name",
    [
        "batch_deadline_s",
        "settle_every_s",
        "judge_timeout_s",
        "server_startup_timeout",
        "drain_timeout_s",
        "http.deadline_s",
        "http.max_deadline_s",
    ],
)
@pytest.mark.parametrize("seconds", [".inf", "1e10"])
def test_more_seconds_than_a_thread_or_a_socket_can_wait_are_refused(name: str, seconds: str) -> None:
    """They would be waited for by raising OverflowError, which would fail every question."""
    assert f"{name}: Input should be less than or equal to 1000000" in refusal(None, f"{name}={seconds}")
    assert load_settings(None, [f"{name}=1000000"])


def test_all_mistakes_are_told_at_once() -> None:
    message = refusal(None, "batch_size=0", "engin=vllm")
    assert "batch_size" in message
    assert "Did you mean 'engine'?" in message


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{PASSWORD}@redis.example:6380/2",
        f"rediss://user:{PASSWORD}@redis.example/0",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    found = load_settings(None, [f"redis_url={url}"])
    assert found.redis_url.get_secret_value() == url
    shown = [repr(found), str(found), found.redis_place, repr(found.redis_url), str(found.model_dump())]
    assert [each for each in (*shown, found.model_dump_json()) if PASSWORD in each] == []


@pytest.mark.parametrize(
    "url",
    [
        f"http://:{PASSWORD}@h/0",
        f"//:{PASSWORD}@h/0",
        PASSWORD,
        f"redis://user:{PASSWORD}@h:port/0",
        f"redis://user:12/{PASSWORD}@h:6379/0",
        f"redis:{PASSWORD}@h",
        f"redis://h:6379/0?password={PASSWORD}",
        f"rediss://h:6379/0?ssl_cert_reqs={PASSWORD}",
        f"unix://:{PASSWORD}@/run/redis.sock",
        f"redis://:{PASSWORD}/with-a-slash@h:6379/0",
        f"redis://:{PASSWORD}#with-a-hash@h:6379/0",
        f"redis://[h:{PASSWORD}@h",
        f"[redis://{PASSWORD}@h]",
        f"{{{PASSWORD}: h}}",
    ],
)
@pytest.mark.parametrize("layer", ["override", "environment"])
def test_a_url_that_is_none_is_refused_without_showing_its_password(
    monkeypatch: pytest.MonkeyPatch, url: str, layer: str
) -> None:
    overrides = [f"redis_url={url}"] if layer == "override" else []
    if layer == "environment":
        monkeypatch.setenv("MCQUEUE_REDIS_URL", url)
    message = refusal(None, *overrides)
    assert message.startswith(("--set" if overrides else "MCQUEUE_REDIS_URL") + ": redis_url: ")
    assert PASSWORD not in message


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis://user:secret@redis.example/3", "redis://redis.example/3"),
        ("rediss://:secret@redis.example:6380", "rediss://redis.example:6380"),
        ("rediss://h:1/0?ssl_ca_certs=/secret.pem", "rediss://h:1/0"),
        ("redis://user:secret@[::1]:6380/3", "redis://[::1]:6380/3"),
    ],
)
def test_a_message_says_where_redis_is_and_nothing_more(url: str, place: str) -> None:
    assert load_settings(None, [f"redis_url={url}"]).redis_place == place


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


def test_an_engine_uses_as_many_gpus_as_tensor_times_pipeline_parallel() -> None:
    assert load_settings().gpus_per_worker == 1
    both = ["vllm_args.tensor_parallel_size=2", "vllm_args.pipeline_parallel_size=3"]
    assert load_settings(None, both[:1]).gpus_per_worker == 2
    assert load_settings(None, both).gpus_per_worker == 6
    assert load_settings(None, ["vllm_args.prefill_context_parallel_size=2"]).gpus_per_worker == 2


@pytest.mark.parametrize("name", PARALLEL_SIZES)
@pytest.mark.parametrize("size", ["many", 0, 1.5])
def test_a_size_in_gpus_that_is_no_number_of_them_is_refused(name: str, size: object) -> None:
    assert f"{name}: expected a number of GPUs, found {size!r}" in refusal(None, f"vllm_args.{name}={size}")


@pytest.mark.parametrize("share", ["high", 0, 1.5, True, None])
def test_a_share_of_a_gpus_memory_that_is_none_is_refused(share: object) -> None:
    said = refusal(None, f"vllm_args.gpu_memory_utilization={'null' if share is None else share}")
    assert f"gpu_memory_utilization: expected a share of a GPU's memory, above 0 and up to 1, found {share!r}" in said


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


@pytest.mark.parametrize("key", ["\n", "  "])
def test_a_key_of_white_space_is_refused_as_it_would_let_everybody_in(key: str) -> None:
    with pytest.raises(SettingsError, match=r"http\.api_key: it is empty but for white space"):
        load_settings(None, [f"http.api_key={json.dumps(key)}"])
    assert load_settings(None, ["http.api_key="]).http.api_key.get_secret_value() == ""


KEYS = ("http.api_key", "openai.api_key", "judge_api_key")


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("key", ["schlüssel", "a\tb", "a\nb"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(name: str, key: str) -> None:
    with pytest.raises(SettingsError, match=rf"{name}: no header can carry it: use printable ASCII") as refused:
        load_settings(None, [f"{name}={json.dumps(key)}"])
    assert key not in str(refused.value)


@pytest.mark.parametrize("name", KEYS)
def test_a_key_from_a_file_may_end_with_a_newline(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server could be asked with it, and a worker waited for one for ten minutes."""
    monkeypatch.setenv(f"MCQUEUE_{name.replace('.', '__').upper()}", " abc d\n")
    settings = load_settings()
    read = {"http.api_key": settings.http.api_key, "openai.api_key": settings.openai.api_key}
    assert read.get(name, settings.judge_api_key).get_secret_value() == "abc d"


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
