"""What is made of a boot of vLLM that failed: the line that tells why, and whether another boot can succeed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub.errors import HfHubHTTPError
from pydantic import ValidationError
from pydantic.dataclasses import dataclass

from contract import variables
from contract.errors import EngineError
from tests.support import PATIENCE_S, ROOT
from tests.unit.producer.conftest import room_per_file
from workers.engines.boot_errors import LONGEST, Cause, _report, cause_of, failure_reports


def raised_in(module: str, line: str) -> Exception:
    """What a `line` of Python raises in `module`."""
    place = {"__name__": module}
    exec(f"def fail():\n {line}", place)
    return caught(place["fail"])  # type: ignore[arg-type]


def caught(fail: Callable[[], object]) -> Exception:
    try:
        fail()
    except Exception as trouble:  # noqa: BLE001 - whatever it is
        return trouble
    raise AssertionError("it did not fail")


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("vllm.config.model", "raise ValueError('max_model_len (9) is greater than the derived max_model_len (8)')"),
        ("vllm.config.parallel", "raise ValueError('heads (9) must be divisible by tensor parallel size (2)')"),
        ("vllm.model_executor.models.registry", "raise ValueError('architectures are not supported for now')"),
        ("vllm.model_executor.models.llama", "{}['model.norm.weight']"),
        ("vllm.model_executor.layers.quantization.gguf", "import not_a_package"),
        ("vllm.v1.core.kv_cache_utils", "raise ValueError('10 GiB KV cache is needed')"),
        ("vllm.platforms.cuda", "raise ValueError('Bfloat16 is only supported on newer GPUs')"),
        ("vllm.engine.arg_utils", "raise NotImplementedError('not on this platform')"),
        ("transformers.models.auto.configuration_auto", "raise ValueError('does not recognize this architecture')"),
        ("anywhere", "raise RuntimeError('Cannot find any model weights with `/tmp`')"),
        ("anywhere", "raise type('SafetensorError', (Exception,), {})('incomplete metadata')"),
    ],
)
def test_what_is_wrong_with_model_or_arguments_lasts(module: str, line: str) -> None:
    assert cause_of(raised_in(module, line)).lasting


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("vllm.v1.worker.utils", "raise ValueError('Free memory on device cuda:0 (3/79 GiB) on startup is less')"),
        ("vllm.v1.worker.gpu_worker", "raise AssertionError('Error in memory profiling.')"),
        ("vllm.model_executor.models.llama", "raise RuntimeError('CUDA error: out of memory')"),
        ("vllm.model_executor.model_loader", "raise type('OutOfMemoryError', (RuntimeError,), {})('CUDA')"),
        ("vllm.distributed.parallel_state", "raise ValueError('NCCL')"),
        ("vllm.compilation.caching", "raise ValueError('a cache that another boot writes')"),
        ("vllm.transformers_utils.config", "raise ValueError('Invalid repository ID or local directory specified')"),
        ("vllm.model_executor.models.registry", "raise ValueError('LlamaForCausalLM failed to be inspected.')"),
        ("anywhere", "raise RuntimeError('Cannot find any model weights with `owner/name`')"),
        ("vllm.model_executor.model_loader", "raise ValueError('weights were not initialized from checkpoint: …')"),
        ("transformers.tokenization_utils", "raise ValueError('no tokenizer, as no hub answers')"),
        ("vllm.config.model", "raise ValueError('no configuration') from ConnectionError('hub')"),
        ("transformers.utils.hub", "raise OSError('We could not connect')"),
        ("vllm.configuration", "raise ValueError('a module that is not known')"),
    ],
)
def test_what_others_on_the_machine_or_the_network_may_have_caused_may_pass(module: str, line: str) -> None:
    assert not cause_of(raised_in(module, line)).lasting


def test_what_the_hubs_client_says_of_the_network_may_pass() -> None:
    (_, client, *_) = (each.__module__.partition(".")[0] for each in HfHubHTTPError.__mro__)
    refused = f"raise ValueError('no configuration') from __import__('{client}').ConnectError('refused')"
    assert not cause_of(raised_in("vllm.config.model", refused)).lasting


@dataclass
class Config:
    """As vLLM's are: pydantic's, with checks of their own."""

    size: int

    def __post_init__(self) -> None:
        raise raised_in("vllm.config.model", "raise ValueError('size is too large\\nby far')")


def test_a_check_inside_pydantic_is_told_in_its_own_words() -> None:
    assert cause_of(caught(lambda: Config(1))) == Cause("size is too large", lasting=True)


def test_a_value_of_the_wrong_kind_is_told_with_its_name_and_lasts_and_is_not_shown_as_it_may_be_a_secret() -> None:
    trouble = caught(lambda: Config(size="hf_token"))  # type: ignore[arg-type]
    assert isinstance(trouble, ValidationError)
    found = cause_of(trouble)
    assert found.message.startswith("size: Input should be a valid integer")
    assert "hf_token" not in found.message
    assert found.lasting


def test_what_a_bare_key_or_assertion_says_is_told_with_its_kind() -> None:
    assert cause_of(raised_in("m", "{}['model.norm.weight']")).message == "KeyError: 'model.norm.weight'"
    assert cause_of(raised_in("m", "assert False")).message == "AssertionError"


def test_a_line_that_only_announces_the_next_one_is_told_with_it() -> None:
    trouble = ValueError("Validation error for 'heads':\n    ValueError: 576 is no multiple of 7.\nMore.")
    assert cause_of(trouble).message == "Validation error for 'heads': ValueError: 576 is no multiple of 7"


def test_our_own_words_are_told_and_what_they_are_about_is_judged() -> None:
    def load() -> None:
        raise EngineError("adapters.law: rank 64") from raised_in(
            "vllm.lora.peft_helper", "raise ValueError('rank 64')"
        )

    assert cause_of(caught(load)) == Cause("adapters.law: rank 64", lasting=True)


def test_a_list_of_all_that_vllm_knows_is_left_out() -> None:
    known = "x" * LONGEST
    assert cause_of(ValueError(f"X is not supported. Supported: {known}")).message == "X is not supported"
    assert cause_of(ValueError(known + known)).message == f"{known}…"


FAIL = """
import logging, sys
from workers.engines.boot_errors import tell_worker
tell_worker()
try:
    raise {kind}
except Exception:
    if {logged}:
        logging.getLogger("vllm.v1.engine.core").exception("EngineCore failed to start.")
    else:
        raise
"""


def fail_with(kind: str, *, logged: bool) -> None:
    """A process of vLLM's fails so, and either logs it or ends with it."""
    script = FAIL.format(kind=kind, logged=logged)
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, timeout=PATIENCE_S, check=False, capture_output=True)


@pytest.mark.parametrize("logged", [True, False])
def test_the_process_that_failed_first_is_heard(logged: bool) -> None:
    with failure_reports() as told:
        fail_with("KeyError('model.norm.weight')", logged=logged)
        fail_with("RuntimeError('its peer is gone')", logged=True)
        assert told() == Cause("KeyError: 'model.norm.weight'")


def test_a_boot_in_which_no_process_tells_anything_is_heard_as_such() -> None:
    with failure_reports() as told:
        assert told() is None


def test_weights_that_were_not_copied_to_their_end_are_called_that() -> None:
    cut_short = raised_in("vllm", "raise type('SafetensorError', (Exception,), {})('incomplete metadata')")
    assert cause_of(cut_short).message == "a file of its weights is damaged or not complete: incomplete metadata"


def test_half_a_report_that_a_full_disk_left_is_none() -> None:
    """It was a JSONDecodeError in the place of the worker's own error, and the engine's thread ended without a word."""
    with failure_reports() as first_failure:
        with room_per_file(20):
            _report(os.environ[variables.BOOT_CAUSES], ValueError("max_model_len (9) is greater than 8"))
        assert Path(os.environ[variables.BOOT_CAUSES]).stat().st_size == 20
        assert first_failure() is None


def test_a_boot_goes_on_where_no_file_can_be_made_for_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_RPC_BASE_PATH", str(tmp_path / "gone"))
    with failure_reports() as told:
        assert told() is None


def test_when_the_boot_is_over_nobody_is_told_anything_and_nothing_is_left() -> None:
    with failure_reports():
        file = Path(os.environ[variables.BOOT_CAUSES])
    assert variables.BOOT_CAUSES not in os.environ
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variables.BOOT_CAUSES, str(file))
        fail_with("ValueError('at work')", logged=True)
    assert not file.exists()
