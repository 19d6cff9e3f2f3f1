"""The single thread that owns vLLM's engine and serves calls from any number of threads.

`LLM.generate` mixes up its callers' outputs if two threads call it, so it is not used here. Callers put token ids into
this thread's inbox and wait; before every engine step it adds whatever has arrived, so that requests of several batches
run together and a new batch fills the engine while the previous one drains.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from contract.errors import (
    EngineDead,
    EngineError,
    EngineOutOfMemory,
    EngineUnbootable,
    McqueueError,
    RequestRejected,
    first_line,
)
from workers.engines.boot_errors import Cause, cause_of, failure_reports
from workers.engines.capacity import Capacity, Demand
from workers.engines.prefill_plan import Prefill
from workers.engines.sampling_params import sampling_params
from workers.engines.timer_slack import rare_wakeups

__all__ = ["EngineThread"]

log = logging.getLogger(__name__)

#: Longer than vLLM takes to stop or kill its core process.
PATIENCE_S = 30.0
LOOK_EVERY_S = 0.1


class _Call:
    """One `generate` call: its prefills, and the outputs received so far."""

    def __init__(self, prefills: list[Prefill], part_s: float) -> None:
        self.prefills = prefills
        self._part_s = part_s
        self.failure: EngineError | None = None
        #: Outputs with their positions, not yet fetched.
        self._arrived: deque[tuple[int, Any]] = deque()
        self._left = len(prefills)
        self._done = threading.Event()

    def deliver(self, slot: int, output: Any) -> None:
        self._arrived.append((slot, output))
        self._left -= 1
        if self._left == 0:
            self._done.set()

    def fail(self, failure: EngineError) -> None:
        self.failure = failure
        self._done.set()

    def parts(self) -> Iterator[list[tuple[int, Any]]]:
        """Yield outputs as they arrive. Polls, as waking this thread for each output would slow the engine's steps."""
        while not self._done.wait(self._part_s):
            yield self._fetch()
        yield self._fetch()
        if self.failure is not None:
            raise self.failure

    def _fetch(self) -> list[tuple[int, Any]]:
        return [self._arrived.popleft() for _ in range(len(self._arrived))]


class _Pending(NamedTuple):
    """A prefill submitted to vLLM."""

    call: _Call
    slot: int
    #: Number of the engine's sequence slots that it wants.
    places: int

    @property
    def prefill(self) -> Prefill:
        return self.call.prefills[self.slot]


class EngineThread(threading.Thread):
    """The only thread that touches vLLM's engine, from boot to shutdown."""

    def __init__(
        self,
        arguments: dict[str, Any],
        adapters: Mapping[str, Path],
        room_came: Callable[[], object],
        gone: Callable[[str], object],
    ) -> None:
        super().__init__(name="vllm-owner", daemon=True)
        self.engine: Any = None
        self._arguments = arguments
        self._drafts = bool(arguments.get("speculative_config"))
        self._room_came = room_came
        self._gone = gone
        self._places: Capacity
        self._demand: Demand
        self._folders = adapters
        #: Name → vLLM's LoRARequest.
        self._adapters: dict[str, Any] = {}
        #: Calls; None asks the thread to stop; an exception reports that the engine has ended, and why.
        self._inbox: queue.SimpleQueue[_Call | Exception | None] = queue.SimpleQueue()
        self._pending: dict[str, _Pending] = {}
        self._ids = count()
        self._booted = threading.Event()
        self._boot_failure: McqueueError | None = None
        self._dead: EngineDead | None = None
        self._gate = threading.Lock()  # no call may enter the inbox after it was last emptied

    def await_boot(self, timeout_s: float) -> None:
        """Wait until the engine is up. Raises the error if the boot failed, or EngineError after `timeout_s`."""
        if not self._booted.wait(timeout_s):
            raise EngineError(
                f"The engine was not up after {timeout_s:g} s.", hint="Raise server_startup_timeout if it needs longer."
            )
        if self._boot_failure is not None:
            raise self._boot_failure

    def call(self, prefills: list[Prefill], part_s: float) -> Iterator[list[tuple[int, Any]]]:
        """Yield vLLM's outputs for `prefills` with their positions: every `part_s` those that have arrived, if any.

        May be called from any thread. Raises EngineDead or EngineOutOfMemory, after yielding what has arrived.
        """
        call = _Call(prefills, part_s)
        with self._gate:
            if self._dead is not None:
                raise self._dead
            self._inbox.put(call)
        self._interrupt_wait()
        return call.parts()

    def _interrupt_wait(self) -> None:
        """Let a step that waits for vLLM's core process return, so that this call reaches the core during that step.

        An empty output makes `SyncMPClient.get_output` return. An engine in this process cannot be interrupted.
        """
        client = self.engine.engine_core
        if hasattr(client, "outputs_queue"):
            from vllm.v1.engine import EngineCoreOutputs

            client.outputs_queue.put_nowait(EngineCoreOutputs())

    def stop(self) -> None:
        """Stop the thread and the engine; calls in progress raise EngineDead.

        An unfinished boot is aborted by killing its core process. Otherwise vLLM would wait until that is up, minutes
        on a GPU, and Python would wait at exit until it is gone.
        """
        self._inbox.put(None)
        until = time.monotonic() + PATIENCE_S
        while self.is_alive() and threading.current_thread() is not self and time.monotonic() < until:
            if not self._booted.is_set():
                for process in multiprocessing.active_children():  # only vLLM uses multiprocessing here
                    process.kill()
            self.join(timeout=LOOK_EVERY_S)

    def run(self) -> None:
        try:
            self._boot()
        finally:
            self._booted.set()
        if self._boot_failure is None:
            self._serve()

    def _boot(self) -> None:
        with failure_reports() as first_failure:
            try:
                self._make_engine()
            except BaseException as trouble:
                log.debug("boot failed", exc_info=True)
                self._boot_failure = self._boot_error(cause_of(trouble), first_failure())

    def _make_engine(self) -> None:
        from vllm import EngineArgs, envs
        from vllm.usage.usage_lib import UsageContext
        from vllm.v1.engine.llm_engine import LLMEngine

        arguments = EngineArgs(**self._arguments)
        with rare_wakeups() if _is_one_process(arguments) else nullcontext():
            # With this context vLLM picks defaults for throughput, as in `LLM`: 16,384 tokens and 1,024 sequences on
            # an H100, not 2,048 and 128.
            self.engine = LLMEngine.from_engine_args(arguments, usage_context=UsageContext.LLM_CLASS)
        envs.enable_envs_cache()  # vLLM's core process does this itself; this one would read the environment per token
        threading.Thread(target=self._report_death, name="vllm-core-watch", daemon=True).start()
        self._load_adapters()
        limits = self.engine.vllm_config.scheduler_config
        self._places = Capacity(limits.max_num_seqs, self._room_came)
        self._demand = Demand(limits.max_num_seqs, limits.max_num_batched_tokens)

    def _boot_error(self, cause: Cause, reported: Cause | None) -> EngineError:
        """Return the boot's error, given the `cause` in this process and the one `reported` by the first to fail."""
        model, lasting = self._arguments["model"], (reported or cause).lasting
        why = cause.message if reported is None or not _is_elsewhere(cause.message) else reported.message
        hint = "See vllm_args in the deploy file; MCQUEUE_LOG_LEVEL=debug shows the traceback."
        if not lasting and not Path(model).exists():
            hint = f"It is loaded from the model hub; hf_model_id may also be a folder. {hint}"
        kind = EngineUnbootable if lasting else EngineError
        return kind(f"vLLM cannot serve {model}: {_or_above(why)}.", hint=hint)

    def _load_adapters(self) -> None:
        """Load all adapters at boot, so that an unusable one does not kill the engine at its first question."""
        from vllm.lora.request import LoRARequest

        for number, (name, folder) in enumerate(self._folders.items(), 1):
            self._adapters[name] = LoRARequest(name, number, str(folder))
            try:
                self.engine.add_lora(self._adapters[name])
            except Exception as trouble:
                raise EngineError(f"adapters.{name}: {_why(trouble)}") from trouble

    def _serve(self) -> None:
        try:
            while self._take_in():
                if self._pending:
                    self._step()
            self._die(EngineDead("The engine was closed."))
        except BaseException as trouble:
            is_explained = isinstance(trouble, EngineDead) or _is_elsewhere(str(trouble))
            log.log(logging.DEBUG if is_explained else logging.ERROR, "engine failed", exc_info=True)
            reason = EngineDead(f"The engine failed: {_why(trouble)}.")
            self._die(reason)
            self._gone(str(reason))
        finally:
            self.engine.engine_core.shutdown()

    def _take_in(self) -> bool:
        """Add every call that has arrived; wait for one if there is nothing to do. Return False if asked to stop."""
        block = not self._pending
        while True:
            try:
                call = self._inbox.get(block=block)
            except queue.Empty:
                return True
            if call is None:
                return False
            if isinstance(call, Exception):
                raise call
            self._add(call)
            block = False

    def _add(self, call: _Call) -> None:
        wanted = [self._demand.of(each) for each in call.prefills]
        self._places.want(sum(wanted))
        for slot, prefill in enumerate(call.prefills):
            name = f"{next(self._ids)}"
            self._pending[name] = _Pending(call, slot, wanted[slot])
            try:
                # What `vllm.inputs.tokens_input` makes: without a type, a renderer would look at the prompt first.
                prompt = {"type": "token", "prompt_token_ids": prefill.token_ids}
                adapter = self._adapters[prefill.adapter] if prefill.adapter else None
                self.engine.add_request(name, prompt, sampling_params(prefill), lora_request=adapter)
            except Exception as trouble:
                if not _is_refusal(trouble):
                    raise
                log.debug("request refused", exc_info=True)
                self.engine.abort_request([name])  # it may be partly added
                self._deliver(name, RequestRejected(f"{_why(trouble)}."))

    def _step(self) -> None:
        try:
            outputs = self.engine.step()
        except Exception as trouble:
            if not _is_out_of_memory(trouble):
                raise
            calls = {id(each.call) for each in self._pending.values()}
            self._drop_everything(EngineOutOfMemory(f"Out of memory: {_why(trouble)}.", shared=len(calls) > 1))
            return
        for output in outputs:
            if output.finished:
                prefill = self._pending[output.request_id].prefill
                self._demand.prefilled(prefill, output.num_cached_tokens or 0)
                self._deliver(output.request_id, _answer(output, prefill, drafts=self._drafts))

    def _deliver(self, request_id: str, output: Any) -> None:
        pending = self._pending.pop(request_id)
        pending.call.deliver(pending.slot, output)
        self._places.leave(pending.places)

    def _drop_everything(self, reason: EngineError) -> None:
        """Abort all requests; the engine itself keeps running."""
        self.engine.abort_request(list(self._pending))
        self._fail_pending(reason)

    def _die(self, reason: EngineDead) -> None:
        with self._gate:
            self._dead = reason
        while not self._inbox.empty():
            call = self._inbox.get()
            if isinstance(call, _Call):
                call.fail(reason)
        self._fail_pending(reason)

    def _report_death(self) -> None:
        """Notify the engine thread when vLLM's core process has ended, even while it is idle.

        vLLM notices that its core process was killed and stops reading from it, but a caller waiting for outputs would
        wait forever (`SyncMPClient.get_output` of vLLM 0.32). A core in this process has no reader and needs none.
        """
        client = self.engine.engine_core
        reader = getattr(client, "output_queue_thread", None)
        if reader is not None:
            reader.join()
            ended = EngineDead("its core process has ended")
            client.outputs_queue.put_nowait(ended)
            self._inbox.put(ended)

    def _fail_pending(self, reason: EngineError) -> None:
        calls = {id(each.call): each.call for each in self._pending.values()}
        self._places.leave(sum([each.places for each in self._pending.values()]))
        self._pending.clear()
        for call in calls.values():
            call.fail(reason)


def _answer(output: Any, prefill: Prefill, *, drafts: bool) -> Any:
    """Return `output`, or the reason why it is not an answer although vLLM calls it finished.

    A core process that is asked to stop, for example by Ctrl-C in its terminal, finishes all requests with the text so
    far (`_send_abort_outputs` of vLLM 0.32). Raises EngineDead in that case.

    An engine that `drafts` tokens of texts (`speculative_config`) gives no log-probabilities in steps of its rejection
    sampler, which leaves `logprob_token_ids` out: with vLLM 0.32's model runner V2, the steps that verify drafted
    tokens; with V1 (on a CPU, and for some methods), all.
    """
    reasons = {each.finish_reason for each in output.outputs}
    if "abort" in reasons:
        raise EngineDead("its core process was asked to stop")
    if "error" in reasons:
        return RequestRejected("vLLM could not process it and gave no reason.")
    if prefill.next_ids and not output.outputs[0].logprobs:
        return _unscored(drafts=drafts)
    return output


def _unscored(*, drafts: bool) -> RequestRejected:
    if not drafts:
        return RequestRejected("vLLM gave no log-probabilities for it and no reason.")
    return RequestRejected(
        "With vllm_args.speculative_config, vLLM gives no log-probabilities while it writes texts, and on a CPU never.",
        hint="Ask a worker without it; on a GPU, requeue --failed when no texts are written is enough.",
    )


def _is_one_process(arguments: Any) -> bool:
    """Whether an engine with these arguments runs entirely in this process; child processes would inherit the slack.

    vLLM may also run a core process, and runs one process for each GPU or CPU node that the model is split over.
    """
    alone = arguments.tensor_parallel_size * arguments.pipeline_parallel_size == 1
    return alone and os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING") == "0"


def _is_refusal(trouble: Exception) -> bool:
    """Whether vLLM only rejects this one request, as opposed to being unable to continue.

    Its validation raised ValueError up to 0.26; in 0.32 it raises VLLMValidationError, a VLLMClientError and not a
    ValueError.
    """
    named = {each.__name__ for each in type(trouble).__mro__}
    return isinstance(trouble, ValueError | TypeError | OverflowError) or "VLLMClientError" in named


def _is_out_of_memory(trouble: BaseException) -> bool:
    return isinstance(trouble, MemoryError) or type(trouble).__name__ == "OutOfMemoryError"


def _why(trouble: BaseException) -> str:
    """Return the first line of its message."""
    return _or_above(first_line(trouble))


def _or_above(line: str) -> str:
    return f"{line}, further up in this worker's log" if _is_elsewhere(line) else line


def _is_elsewhere(line: str) -> bool:
    """Whether this is vLLM's message about a failed core process, which says that the "root cause" is "above"."""
    return "root cause" in line
