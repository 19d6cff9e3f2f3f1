"""The single thread that owns vLLM's engine and serves calls from any number of threads.

`LLM.generate` mixes up its callers' outputs if two threads call it, so it is not used here. Callers put token ids into
this thread's inbox and wait; before every engine step it adds whatever has arrived, so that requests of several batches
run together and a new batch fills the engine while the previous one drains.
"""

from __future__ import annotations

import logging
import multiprocessing
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from contract.errors import EngineDead, EngineError, EngineOutOfMemory, McqueueError, RequestRejected
from workers.engines.boot_errors import cause_of, failure_reports
from workers.engines.capacity import Capacity, Demand
from workers.engines.engine_boot import boot_error, booted_engine, load_adapters
from workers.engines.prefill import Prefill
from workers.engines.sampling_params import sampling_params
from workers.engines.vllm_replies import answer_in, is_elsewhere, is_out_of_memory, is_refusal, why

__all__ = ["EngineThread"]

log = logging.getLogger(__name__)

#: Seconds that `stop` waits for the thread: longer than vLLM takes to stop or kill its core process.
PATIENCE_S = 30.0
#: Seconds between looks at a boot that is aborted: the core process may only be about to start.
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

    def deliver(self, position: int, output: Any) -> None:
        self._arrived.append((position, output))
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
    position: int
    #: Number of the engine's sequence slots that it wants.
    slots: int

    @property
    def prefill(self) -> Prefill:
        return self.call.prefills[self.position]


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
        #: Whether it drafts tokens of texts (`answer_in`).
        self._drafts = bool(arguments.get("speculative_config"))
        self._room_came = room_came
        self._gone = gone
        self._capacity: Capacity
        self._demand: Demand
        self._adapter_folders = adapters
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
                for process in multiprocessing.active_children():  # vLLM's, and those that read texts
                    process.kill()
            self.join(timeout=LOOK_EVERY_S)

    def run(self) -> None:
        try:
            self._boot()
        finally:
            self._booted.set()
        if self._boot_failure is None:
            self._serve()
        elif self.engine is not None:  # it booted, but an adapter cannot be loaded
            self.engine.engine_core.shutdown()

    def _boot(self) -> None:
        with failure_reports() as first_failure:
            try:
                self._start_engine()
            except BaseException as trouble:
                log.debug("boot failed", exc_info=True)
                self._boot_failure = boot_error(self._arguments["model"], cause_of(trouble), first_failure())

    def _start_engine(self) -> None:
        self.engine = booted_engine(self._arguments)
        threading.Thread(target=self._report_death, name="vllm-core-watch", daemon=True).start()
        self._adapters = load_adapters(self.engine, self._adapter_folders)
        limits = self.engine.vllm_config.scheduler_config
        self._capacity = Capacity(limits.max_num_seqs, self._room_came)
        self._demand = Demand(limits.max_num_seqs, limits.max_num_batched_tokens)

    def _serve(self) -> None:
        try:
            while self._take_in():
                if self._pending:
                    self._step()
            self._die(EngineDead("The engine was closed."))
        except BaseException as trouble:
            is_explained = isinstance(trouble, EngineDead) or is_elsewhere(str(trouble))
            log.log(logging.DEBUG if is_explained else logging.ERROR, "engine failed", exc_info=True)
            reason = EngineDead(f"The engine failed: {why(trouble)}.")
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
        self._capacity.want(sum(wanted))
        for position, prefill in enumerate(call.prefills):
            request_id = f"{next(self._ids)}"
            self._pending[request_id] = _Pending(call, position, wanted[position])
            try:
                # What `vllm.inputs.tokens_input` makes: without a type, a renderer would look at the prompt first.
                prompt = {"type": "token", "prompt_token_ids": prefill.token_ids}
                adapter = self._adapters[prefill.adapter] if prefill.adapter else None
                self.engine.add_request(request_id, prompt, sampling_params(prefill), lora_request=adapter)
            except Exception as trouble:
                if not is_refusal(trouble):
                    raise
                log.debug("request refused", exc_info=True)
                self.engine.abort_request([request_id])  # it may be partly added
                self._deliver(request_id, RequestRejected(f"{why(trouble)}."))

    def _step(self) -> None:
        try:
            outputs = self.engine.step()
        except Exception as trouble:
            if not is_out_of_memory(trouble):
                raise
            calls = {id(each.call) for each in self._pending.values()}
            self._drop_everything(EngineOutOfMemory(f"Out of memory: {why(trouble)}.", shared=len(calls) > 1))
            return
        for output in outputs:
            if output.finished:
                prefill = self._pending[output.request_id].prefill
                self._demand.prefilled(prefill, output.num_cached_tokens or 0)
                self._deliver(output.request_id, answer_in(output, prefill, drafts=self._drafts))

    def _deliver(self, request_id: str, output: Any) -> None:
        pending = self._pending.pop(request_id)
        pending.call.deliver(pending.position, output)
        self._capacity.leave(pending.slots)

    def _drop_everything(self, reason: EngineError) -> None:
        """Abort all requests; the engine itself keeps running.

        It forgets what it has cached: vLLM caches a block when it plans the step that is to compute it
        (`allocate_slots` of its KVCacheManager), and this step has not. Raises EngineDead if it cannot.
        """
        self.engine.abort_request(list(self._pending))
        if not self.engine.reset_prefix_cache():
            raise EngineDead("it ran out of memory, and cannot tell what it has cached from what it has not computed")
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
        wait forever, as would one that has asked for something else, such as to load an adapter (`get_output` and
        `call_utility` of vLLM 0.32's `SyncMPClient`). A core in this process has no reader and needs none.
        """
        client = self.engine.engine_core
        reader = getattr(client, "output_queue_thread", None)
        if reader is not None:
            reader.join()
            ended = EngineDead("its core process has ended")
            for asked in list(client.utility_results.values()):
                asked.set_exception(ended)
            client.outputs_queue.put_nowait(ended)
            self._inbox.put(ended)

    def _fail_pending(self, reason: EngineError) -> None:
        calls = {id(each.call): each.call for each in self._pending.values()}
        self._capacity.leave(sum([each.slots for each in self._pending.values()]))
        self._pending.clear()
        for call in calls.values():
            call.fail(reason)
