"""vLLM's engine arguments and environment, for an engine in this process or a server.

The valid arguments are read from the installed vLLM, never kept in a list here.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from contract.errors import SettingsError, nearest
from workers.engines.compiling import missing_for_helpers
from workers.engines.installed import computes_16_bits, is_cpu_build, require_vllm

__all__ = [
    "as_flags",
    "check_arguments",
    "check_arguments_by_source",
    "engine_environment",
    "for_this_cpu",
    "names_in_source",
    "overrides",
]

log = logging.getLogger(__name__)

#: Arguments of which the deployment has settings of its own.
NAMED_ELSEWHERE = {"model": "Set hf_model_id.", "served_model_name": "Set model at the top level."}
#: Arguments with which the same weights compute something else.
OVERRIDING = ("hf_overrides", "hf_config_path", "model_class_overrides", "disable_sliding_window", "logits_processors")
#: Exists on Linux kernels with transparent huge pages.
TRANSPARENT_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")

#: How often one of OpenMP's threads looks whether the others are ready, before it sleeps: for some 0.5 ms instead of
#: libgomp's 300,000 times, 15 ms on a CPU whose `pause` takes 140 cycles. Where another process has the core of one
#: thread, the others would spin instead of leaving it theirs, hundreds of times in each pass through the model; fewer
#: make short steps slower where nothing else runs (`benchmarks.settings` with `--busy`; GOMP_SPINCOUNT in libgomp's
#: manual).
SPINS = "10000"


def check_arguments(vllm_args: Mapping[str, Any]) -> None:
    """Raise SettingsError for a name that the installed vLLM's `EngineArgs` lacks, suggesting the nearest one.

    Also raised for an argument that would falsify log-probabilities, that asks for another model or several engines, or
    that is a secret.
    """
    require_vllm()
    from vllm import EngineArgs

    _check(vllm_args, [field.name for field in dataclasses.fields(EngineArgs)])


def check_arguments_by_source(vllm_args: Mapping[str, Any]) -> None:
    """Like `check_arguments`, from vLLM's source: takes milliseconds, whereas importing vLLM takes up to a minute."""
    require_vllm()
    _check(vllm_args, names_in_source() or list(vllm_args))


def names_in_source() -> list[str]:
    """Return the fields of vLLM's `EngineArgs`, parsed from its source; empty if it may inherit others."""
    found = importlib.util.find_spec("vllm")
    if found is None or found.origin is None:
        return []
    with suppress(OSError, SyntaxError, ValueError):
        source = Path(found.origin).with_name("engine").joinpath("arg_utils.py").read_text(encoding="utf-8")
        for each in ast.parse(source).body:
            if isinstance(each, ast.ClassDef) and each.name == "EngineArgs" and not each.bases:
                fields = [line.target for line in each.body if isinstance(line, ast.AnnAssign)]
                return [field.id for field in fields if isinstance(field, ast.Name)]
    return []


def _check(vllm_args: Mapping[str, Any], known: list[str]) -> None:
    for name in vllm_args:
        if name not in known:
            raise SettingsError(f"vllm_args: vLLM has no engine argument {name!r}.", hint=nearest(name, known))
        if name in NAMED_ELSEWHERE:
            message = f"vllm_args.{name}: runs are recorded as those of the model that the deployment names."
            raise SettingsError(message, hint=NAMED_ELSEWHERE[name])
    if isinstance(vllm_args.get("hf_token"), str):
        message = "vllm_args.hf_token: arguments are shown in lists of processes and in records, a token must not be."
        raise SettingsError(message, hint="Set HF_TOKEN in the environment instead.")
    if (mode := vllm_args.get("logprobs_mode", "raw_logprobs")) != "raw_logprobs":
        message = f"vllm_args.logprobs_mode: {mode!r} does not give the model's own log-probabilities."
        raise SettingsError(message, hint="Leave it out.")
    if vllm_args.get("kv_sharing_fast_prefill"):
        message = "vllm_args.kv_sharing_fast_prefill: vLLM says that log-probabilities of the prompt are wrong with it."
        raise SettingsError(message, hint="Leave it out.")
    if (engines := vllm_args.get("data_parallel_size") or 1) != 1:
        message = f"vllm_args.data_parallel_size: {engines!r}, but a worker has one engine."
        raise SettingsError(message, hint="Leave it out: each of gpu_groups is a worker with its own engine.")


def overrides(vllm_args: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of `vllm_args` with which the same weights compute something else.

    >>> overrides({"hf_overrides": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "max_num_seqs": 64})
    {'hf_overrides': {'rope_scaling': {'rope_type': 'yarn', 'factor': 4.0}}}
    """
    return {name: value for name in OVERRIDING if (value := vllm_args.get(name))}


def for_this_cpu(vllm_args: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Return `vllm_args`, with `dtype: float32` if no type is set and this CPU emulates 16-bit arithmetic in software.

    vLLM uses the 16-bit type of `model` (a folder or a hub id) on every CPU; without instructions for it, that is
    several times slower than float32 (docs/measured.md). Quantised models keep the type that their method needs.
    """
    opened = vllm_args.get("dtype", "auto") == "auto" and is_cpu_build() and not computes_16_bits()
    if not opened or vllm_args.get("quantization") or _is_quantised(model, vllm_args.get("revision")):
        return dict(vllm_args)
    log.info("this CPU has no 16-bit instructions: vLLM computes in float32 unless vllm_args.dtype names a type")
    return {**vllm_args, "dtype": "float32"}


def as_flags(vllm_args: Mapping[str, Any]) -> Iterator[str]:
    """Yield `vllm_args` as command-line arguments for `vllm serve`.

    >>> list(as_flags({"max_model_len": 2048, "enforce_eager": True, "speculative_config": {"method": "ngram"}}))
    ['--max-model-len', '2048', '--enforce-eager', '--speculative-config', '{"method": "ngram"}']
    """
    for name, value in vllm_args.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{flag}" if value else f"--no-{flag}"
        elif value is not None:
            yield f"--{flag}"
            yield from map(_word, value if isinstance(value, list | tuple) else [value])


def engine_environment(model: str, vllm_args: Mapping[str, Any] = {}) -> dict[str, str]:
    """Return the environment variables that vLLM reads at import, for `model` (folder or hub id) on this machine."""
    variables = {
        "VLLM_LOGGING_LEVEL": "ERROR",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "TOKENIZERS_PARALLELISM": "true",
    }
    if all(map(os.path.isdir, [model, *_named_beside_it(vllm_args)])):  # to Path, no model at all is the current folder
        variables["HF_HUB_OFFLINE"] = "1"
    if is_cpu_build():
        variables["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        if TRANSPARENT_HUGE_PAGES.exists():
            # 2 MiB pages for weights, cache and activations make prompts 3 to 5 % faster. PyTorch's default is off.
            variables["THP_MEM_ALLOC_ENABLE"] = "1"
        if "OMP_WAIT_POLICY" not in os.environ:
            variables["GOMP_SPINCOUNT"] = SPINS
        if missing_for_helpers():
            variables["TORCH_COMPILE_DISABLE"] = "1"
        variables["TORCHDYNAMO_SUPPRESS_ERRORS"] = "1"  # see compiling.py
    else:
        # A forked core, vLLM's default on a GPU, loads no plugins (vllm_plugin.py); and workers have threads.
        variables["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"
        # It is compiled at boot, and the engine dies if nvcc or ninja is missing. It would never be used either: vLLM
        # uses it neither for greedy requests nor for those with a seed, and all of ours are one or the other.
        variables["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
    return variables


def _named_beside_it(vllm_args: Mapping[str, Any]) -> list[str]:
    """Return the folders or hub ids of what an engine loads beside its model."""
    drafting = vllm_args.get("speculative_config")
    drafter = drafting.get("model") if isinstance(drafting, Mapping) else None
    return [str(each) for each in (vllm_args.get("tokenizer"), vllm_args.get("hf_config_path"), drafter) if each]


def _is_quantised(model: str, revision: str | None) -> bool:
    """Whether its configuration says so; True if it cannot be read, as vLLM then reports what is wrong."""
    from transformers import PretrainedConfig

    with suppress(OSError, ValueError):
        return "quantization_config" in PretrainedConfig.get_config_dict(model, revision=revision)[0]
    return True


def _word(value: Any) -> str:
    return json.dumps(value) if isinstance(value, Mapping) else str(value)
