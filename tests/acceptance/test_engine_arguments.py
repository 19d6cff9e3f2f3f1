"""`vllm_args` reach vLLM: read back from the configuration that vLLM makes of them, on the CPU and without weights."""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

import pytest

from contract.settings import load_fleet
from tests.acceptance.conftest import found_by
from tests.support import ROOT
from workers.engines.packaged import prepare

#: For each JSON object of arguments on stdin, what vLLM's configuration says of the asked attributes, or the refusal;
#: then the names of its arguments, by its source and by itself; and what `workers check` finds for each list of its
#: options, with the deployment for a laptop and without a Redis. To import vLLM takes longer than all of it.
ASK = """
import dataclasses, json, sys
from operator import attrgetter
from click.testing import CliRunner
from contract import load_settings
from contract.errors import McqueueError
from workers.cli import main
from workers.engines.arguments import check_arguments, names_in_source
from workers.engines.vllm import engine_arguments, prepare_environment
model, cases, checks = json.load(sys.stdin)
prepare_environment(model)
from vllm import EngineArgs
for arguments, attributes in cases:
    settings = load_settings(None, ["vllm_args=" + json.dumps(arguments)])
    try:
        check_arguments(settings.vllm_args)
    except McqueueError as trouble:
        found = str(trouble)
    else:
        config = EngineArgs(**engine_arguments(settings, model)).create_engine_config() if attributes else None
        found = {name: attrgetter(name)(config) for name in attributes}
    print("FOUND", json.dumps(found, default=str))
print("FOUND", json.dumps([names_in_source(), [field.name for field in dataclasses.fields(EngineArgs)]]))
nobody = {"MCQUEUE_REDIS_URL": "redis://127.0.0.1:1/0", "MCQUEUE_CONFIG": "configs/deploy/laptop.yaml"}
for options in checks:
    done = CliRunner().invoke(main, ["check", "--json", *options], env=nobody)
    print("FOUND", json.dumps([done.exit_code, json.loads(done.stdout)]))
"""

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "context and batching": (
        {"max_model_len": 768, "max_num_seqs": 8, "max_num_batched_tokens": 512, "seed": 7},
        {
            "model_config.max_model_len": 768,
            "scheduler_config.max_num_seqs": 8,
            "scheduler_config.max_num_batched_tokens": 512,
            "model_config.seed": 7,
        },
    ),
    "prefix caching off": ({"enable_prefix_caching": False}, {"cache_config.enable_prefix_caching": False}),
    "chunked prefill off": (
        {"enable_chunked_prefill": False, "max_num_batched_tokens": 2048, "max_model_len": 1024},
        {"scheduler_config.enable_chunked_prefill": False},
    ),
    "quantised weights": ({"quantization": "fp8"}, {"model_config.quantization": "fp8"}),
    "quantised cache": ({"kv_cache_dtype": "fp8"}, {"cache_config.cache_dtype": "fp8"}),
    "speculative decoding": (
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}},
        {"speculative_config.method": "ngram", "speculative_config.num_speculative_tokens": 3},
    ),
    "LoRA": (
        {"enable_lora": True, "max_lora_rank": 32, "max_loras": 2},
        {"lora_config.max_lora_rank": 32, "lora_config.max_loras": 2},
    ),
}
#: What must be refused.
REFUSED: list[dict[str, Any]] = [
    {"logprobs_mode": "raw_logits"},
    {"max_model_length": 1},
    {"data_parallel_size": 2},
    {"kv_sharing_fast_prefill": True},
]
#: Options of `workers check`: one name of an argument is misspelled, and none is.
MISSPELLED = ["--set", "vllm_args.max_model_length=1024"]
#: Values that vLLM refuses: of no such type, and too large for this model.
WRONG = {"dtype=float17": "Input should be 'auto', 'half'", "max_model_len=9000": "max_position_embeddings=8192"}
CHECKS: list[list[str]] = [MISSPELLED, [], *(["--set", f"vllm_args.{each}"] for each in WRONG)]
DEPLOYED = [
    settings.vllm_args for file in sorted((ROOT / "configs/deploy").glob("*.yaml")) for settings in load_fleet(file)
]


class Answers(NamedTuple):
    """What vLLM said."""

    cases: list[Any]
    refusals: list[str]
    #: To the arguments of each shipped deployment.
    deployed: list[Any]
    #: The names of its arguments.
    by_source: list[str]
    by_itself: list[str]
    #: By `workers check`: exit codes and findings.
    misspelled: tuple[int, list[dict[str, str]]]
    right: tuple[int, list[dict[str, str]]]
    wrong: list[tuple[int, list[dict[str, str]]]]


@pytest.fixture(scope="module")
def answers() -> Answers:
    cases: list[tuple[dict[str, Any], list[str]]] = [(given, list(expected)) for given, expected in CASES.values()]
    cases += [(arguments, []) for arguments in REFUSED]
    cases += [(arguments, []) for arguments in DEPLOYED]
    model = str(prepare("smollm2-135m-instruct"))
    found = iter(found_by(ASK, [model, cases, CHECKS]))
    told, refusals, deployed = (list(islice(found, len(asked))) for asked in (CASES, REFUSED, DEPLOYED))
    (by_source, by_itself), misspelled, right, *wrong = found
    return Answers(told, refusals, deployed, by_source, by_itself, misspelled, right, wrong)


@pytest.mark.parametrize("name", CASES)
def test_an_engine_argument_reaches_the_engine(answers: Answers, name: str) -> None:
    assert answers.cases[list(CASES).index(name)] == CASES[name][1]


def test_one_that_vllm_does_not_have_is_refused_with_the_nearest(answers: Answers) -> None:
    refusal = answers.refusals[1]
    assert refusal == "vllm_args: vLLM has no engine argument 'max_model_length'. Did you mean 'max_model_len'?"


def test_one_that_makes_logits_of_log_probabilities_is_refused(answers: Answers) -> None:
    assert "'raw_logits' does not give the model's own log-probabilities. Leave it out." in answers.refusals[0]


def test_several_engines_in_one_worker_are_refused_and_several_workers_named_instead(answers: Answers) -> None:
    refusal = answers.refusals[2]
    assert refusal.startswith("vllm_args.data_parallel_size: 2, but a worker has one engine.")
    assert "each of gpu_groups is a worker" in refusal


def test_a_shortcut_that_makes_log_probabilities_of_prompts_wrong_is_refused(answers: Answers) -> None:
    refusal = answers.refusals[3]
    assert refusal.startswith(
        "vllm_args.kv_sharing_fast_prefill: vLLM says that log-probabilities of the prompt are wrong"
    )


def test_vllm_knows_every_argument_of_the_shipped_deployments(answers: Answers) -> None:
    assert answers.deployed == [{} for _ in DEPLOYED]


def test_its_source_names_the_arguments_that_it_has(answers: Answers) -> None:
    assert answers.by_source == answers.by_itself


def test_workers_check_names_a_misspelled_one_as_the_boot_would_and_boots_nothing(answers: Answers) -> None:
    exit_code, findings = answers.misspelled
    assert exit_code == 1
    found = {(each["level"], each["what"]): each for each in findings}
    assert found["error", "engine"] == {
        "level": "error",
        "what": "engine",
        "found": "vllm_args: vLLM has no engine argument 'max_model_length'.",
        "remedy": "Did you mean 'max_model_len'?",
    }


def test_workers_check_says_that_vllm_knows_the_rest(answers: Answers) -> None:
    exit_code, findings = answers.right
    assert exit_code == 1, "as there is no Redis"
    engine = [each for each in findings if each["what"] == "engine"]
    assert [each["level"] for each in engine] == ["ok", "ok"]
    assert "max_num_seqs" in engine[1]["found"]


def test_workers_check_says_what_vllm_would_refuse_at_every_boot(answers: Answers) -> None:
    """Only names were checked, and a worker was given up later."""
    for (exit_code, findings), why in zip(answers.wrong, WRONG.values(), strict=True):
        assert exit_code == 1
        (error,) = [each for each in findings if (each["level"], each["what"]) == ("error", "engine")]
        assert error["found"].startswith("vLLM cannot serve smollm2-135m-instruct: ")
        assert why in error["found"]
