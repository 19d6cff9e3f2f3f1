"""Boot of vLLM's engine, with its adapters; and the error if that fails."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from contract.errors import EngineError, EngineUnbootable
from contract.settings.fields import PARALLEL_SIZES
from workers.engines.boot_errors import Cause, cause_of
from workers.engines.timer_slack import rare_wakeups
from workers.engines.vllm_replies import is_elsewhere, or_above, why

__all__ = ["boot_error", "booted_engine", "load_adapters", "why_unbootable"]


def booted_engine(arguments: Mapping[str, Any]) -> Any:
    """Return a booted LLMEngine with these engine arguments. Raises whatever vLLM does."""
    from vllm import EngineArgs, envs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.llm_engine import LLMEngine

    checked = EngineArgs(**arguments)
    with rare_wakeups() if _is_one_process(checked) else nullcontext():
        # With this context vLLM picks defaults for throughput, as in `LLM`: 16,384 tokens and 1,024 sequences on
        # an H100, not 2,048 and 128.
        engine = LLMEngine.from_engine_args(checked, usage_context=UsageContext.LLM_CLASS)
    envs.enable_envs_cache()  # vLLM's core process does this itself; this one would read the environment per token
    return engine


def why_unbootable(arguments: Mapping[str, Any]) -> str:
    """Return why no engine with these engine arguments can boot; empty if that is unknown.

    Only vLLM's configuration is made: no weights are read, and no memory is taken.
    """
    from vllm import EngineArgs
    from vllm.usage.usage_lib import UsageContext

    try:
        EngineArgs(**arguments).create_engine_config(UsageContext.LLM_CLASS)
    except Exception as trouble:  # noqa: BLE001 - whatever a boot would fail with
        cause = cause_of(trouble)
        return cause.message if cause.lasting else ""
    return ""


def _is_one_process(arguments: Any) -> bool:
    """Whether an engine with these arguments runs entirely in this process; child processes would inherit the slack.

    vLLM may also run a core process, and runs one process for each GPU or CPU node that the model is split over.
    """
    alone = all(getattr(arguments, size) == 1 for size in PARALLEL_SIZES)
    return alone and os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING") == "0"


def load_adapters(engine: Any, folders: Mapping[str, Path]) -> dict[str, Any]:
    """Load all adapters, and return name → vLLM's LoRARequest. Raises EngineError.

    At boot, so that an unusable one does not kill the engine at its first question.
    """
    from vllm.lora.request import LoRARequest

    adapters = {}
    for number, (name, folder) in enumerate(folders.items(), 1):
        adapters[name] = LoRARequest(name, number, str(folder))
        try:
            engine.add_lora(adapters[name])
        except Exception as trouble:
            raise EngineError(f"adapters.{name}: {why(trouble)}") from trouble
    return adapters


def boot_error(model: str, cause: Cause, reported: Cause | None) -> EngineError:
    """Return the boot's error, given the `cause` in this process and the one `reported` by the first to fail."""
    lasting = (reported or cause).lasting
    message = cause.message if reported is None or not is_elsewhere(cause.message) else reported.message
    hint = "See vllm_args in the deploy file; MCQUEUE_LOG_LEVEL=debug shows the traceback."
    if not lasting and not Path(model).exists():
        hint = f"It is loaded from the model hub; hf_model_id may also be a folder. {hint}"
    kind = EngineUnbootable if lasting else EngineError
    return kind(f"vLLM cannot serve {model}: {or_above(message)}.", hint=hint)
