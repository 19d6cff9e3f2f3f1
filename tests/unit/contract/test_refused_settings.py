"""Settings that are refused: unknown names, values that cannot be, keys that no header can carry; and what is said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from contract import Settings, load_settings
from contract.errors import SettingsError
from contract.settings.fields import PARALLEL_SIZES
from tests.unit.contract.refusals import refusal


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
        ("mcqueue_redis_url", "environment: mcqueue_redis_url: variables are in capitals, and read in lower case. "),
        ("mcqueue_redis_ulr", "environment: mcqueue_redis_ulr: variables are in capitals"),
        ("mcqueue_config", "environment: mcqueue_config: variables are in capitals"),
        ("MCQUEUE_ADAPTERS__Law", "environment: MCQUEUE_ADAPTERS__Law: variables are in capitals"),
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


@pytest.mark.parametrize("name", PARALLEL_SIZES)
@pytest.mark.parametrize("size", ["many", 0, 1.5, True])
def test_a_size_in_gpus_that_is_no_number_of_them_is_refused(name: str, size: object) -> None:
    assert f"{name}: expected a number of GPUs, found {size!r}" in refusal(None, f"vllm_args.{name}={size}")


@pytest.mark.parametrize("share", ["high", 0, 1.5, True, None])
def test_a_share_of_a_gpus_memory_that_is_none_is_refused(share: object) -> None:
    said = refusal(None, f"vllm_args.gpu_memory_utilization={'null' if share is None else share}")
    assert f"gpu_memory_utilization: expected a share of a GPU's memory, above 0 and up to 1, found {share!r}" in said


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
