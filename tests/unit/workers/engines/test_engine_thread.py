"""What the thread that owns vLLM makes of an engine that it cannot have, or has no longer."""

from __future__ import annotations

import json
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar, TypeVar, cast

import pytest

from contract import variables
from contract.errors import EngineDead, EngineError, EngineOutOfMemory, EngineUnbootable, RequestRejected
from contract.spec import Sampling
from contract.turns import one_turn
from tests.support import PATIENCE_S, wait_until
from workers.engines.base import GenerateRequest
from workers.engines.engine_thread import EngineThread
from workers.engines.prefill import Prefill

_Error = TypeVar("_Error", bound=EngineError)

WRITE = GenerateRequest(one_turn("Write."), Sampling(max_tokens=9))


def owner_of(
    monkeypatch: pytest.MonkeyPatch,
    boot: Callable[..., Any],
    engine: Any = None,
    gone: Callable[[str], object] = print,
    arguments: dict[str, Any] | None = None,
    room_came: Callable[[], object] = lambda: None,
    adapters: Mapping[str, Path] = MappingProxyType({}),
) -> EngineThread:
    """The owner of a vLLM that boots like that, to that engine."""
    engines = SimpleNamespace(from_engine_args=lambda *_, **__: engine)
    envs = SimpleNamespace(enable_envs_cache=lambda: None)
    usage = SimpleNamespace(UsageContext=SimpleNamespace(LLM_CLASS=None))
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(EngineArgs=boot, envs=envs))
    monkeypatch.setitem(sys.modules, "vllm.usage.usage_lib", usage)
    monkeypatch.setitem(sys.modules, "vllm.v1.engine", SimpleNamespace(EngineCoreOutputs=object))
    monkeypatch.setitem(sys.modules, "vllm.v1.engine.llm_engine", SimpleNamespace(LLMEngine=engines))
    monkeypatch.setitem(sys.modules, "vllm.lora.request", SimpleNamespace(LoRARequest=lambda *words: words))
    return EngineThread({"model": "owner/name", **(arguments or {})}, adapters, room_came, gone)


def test_of_a_core_process_that_failed_it_is_said_where_its_cause_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    def boot(**_: Any) -> None:
        raise RuntimeError("Engine core initialization failed. See root cause above. Failed core proc(s): {}")

    owner = owner_of(monkeypatch, boot)
    owner.start()
    with pytest.raises(EngineError, match=r"Failed core proc\(s\): {}, further up in this worker's log"):
        owner.await_boot(timeout_s=PATIENCE_S)


def test_of_a_core_process_that_has_told_its_cause_that_is_said_and_whether_another_boot_can_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def boot(**_: Any) -> None:
        core = {"message": "10 GiB KV cache is needed", "lasting": True}
        Path(os.environ[variables.BOOT_CAUSES]).write_text(json.dumps(core) + "\n")
        raise RuntimeError("Engine core initialization failed. See root cause above. Failed core proc(s): {}")

    owner = owner_of(monkeypatch, boot)
    owner.start()
    with pytest.raises(EngineUnbootable, match=r"cannot serve owner/name: 10 GiB KV cache is needed\. See vllm_args"):
        owner.await_boot(timeout_s=PATIENCE_S)


def test_a_core_process_that_ends_is_told_of_though_nobody_asks_and_whoever_asks_then_hears_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ends, told = threading.Event(), queue.SimpleQueue[str]()
    reader = threading.Thread(target=ends.wait, daemon=True)  # vLLM's, which reads until its core process ends
    reader.start()
    core = SimpleNamespace(
        output_queue_thread=reader, outputs_queue=queue.Queue(), utility_results={}, shutdown=lambda: None
    )
    limits = SimpleNamespace(max_num_seqs=8, max_num_batched_tokens=512)
    engine = SimpleNamespace(engine_core=core, vllm_config=SimpleNamespace(scheduler_config=limits))
    arguments = SimpleNamespace(tensor_parallel_size=2, pipeline_parallel_size=1)
    owner = owner_of(monkeypatch, lambda **_: arguments, engine, told.put)
    owner.start()
    owner.await_boot(timeout_s=PATIENCE_S)
    ends.set()
    assert told.get(timeout=PATIENCE_S) == "The engine failed: its core process has ended."
    with pytest.raises(EngineDead, match="its core process has ended"):
        owner.call([], part_s=1)
    assert caplog.records == [], "its traceback would say nothing more"


def test_a_core_process_that_ends_while_it_loads_an_adapter_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ends = threading.Event()
    reader = threading.Thread(target=ends.wait, daemon=True)
    reader.start()
    asked: dict[int, Future[bool]] = {}

    def add_lora(_: Any) -> bool:
        asked[1] = Future()
        ends.set()
        return asked[1].result(PATIENCE_S)  # vLLM's has no limit

    core = SimpleNamespace(
        output_queue_thread=reader, outputs_queue=queue.Queue(), utility_results=asked, shutdown=lambda: None
    )
    sizes = SimpleNamespace(tensor_parallel_size=2, pipeline_parallel_size=1)
    engine = SimpleNamespace(engine_core=core, add_lora=add_lora)
    owner = owner_of(monkeypatch, lambda **_: sizes, engine, adapters={"mine": tmp_path})
    owner.start()
    with pytest.raises(EngineError, match=r"adapters\.mine: its core process has ended"):
        owner.await_boot(timeout_s=2 * PATIENCE_S)


def test_an_engine_whose_adapter_cannot_be_loaded_is_shut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def add_lora(_: Any) -> None:
        raise ValueError("Loading lora failed: rank 512 is too large")

    engine = SimpleNamespace(engine_core=SimpleNamespace(shutdown=ended.set), add_lora=add_lora)
    sizes = SimpleNamespace(tensor_parallel_size=2, pipeline_parallel_size=1)
    owner = owner_of(monkeypatch, lambda **_: sizes, engine, adapters={"law": Path("/adapters/law")})
    owner.start()
    with pytest.raises(EngineError, match=r"adapters\.law: Loading lora failed: rank 512 is too large"):
        owner.await_boot(timeout_s=PATIENCE_S)
    assert ended.wait(PATIENCE_S)


def test_a_call_reaches_the_core_process_while_a_step_waits_for_the_outputs_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a GPU a step may compute for half a second, and the core would have nothing to do behind it."""
    added: list[list[int]] = []
    ended = threading.Event()

    class Core:
        output_queue_thread = threading.Thread(target=ended.wait, daemon=True)
        outputs_queue: queue.Queue[Any] = queue.Queue()
        utility_results: ClassVar[dict[int, Any]] = {}

        def shutdown(self) -> None: ...

    class Engine:
        engine_core = Core()
        vllm_config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=8, max_num_batched_tokens=512))

        def add_request(self, _: str, prompt: dict[str, Any], *__: Any, **___: Any) -> None:
            added.append(prompt["prompt_token_ids"])

        def step(self) -> list[Any]:
            self.engine_core.outputs_queue.get()
            return []

        def abort_request(self, _: Any) -> None: ...

    Core.output_queue_thread.start()
    monkeypatch.setattr("workers.engines.engine_thread.sampling_params", lambda _: None)
    arguments = SimpleNamespace(tensor_parallel_size=2, pipeline_parallel_size=1)
    owner = owner_of(monkeypatch, lambda **_: arguments, Engine())
    owner.start()
    owner.await_boot(timeout_s=PATIENCE_S)
    owner.call([Prefill([1])], part_s=1)
    wait_until(lambda: Core.outputs_queue.empty() and added == [[1]], "a step that waits for its outputs")
    owner.call([Prefill([2])], part_s=1)
    wait_until(lambda: added == [[1], [2]], "the second call in the core")
    owner._inbox.put(None)
    Core.outputs_queue.put(None)
    owner.join(PATIENCE_S)
    ended.set()


class Sampler:
    """An engine in this process that finishes everything in one step, as the outputs by first token say."""

    vllm_config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=8, max_num_batched_tokens=512))
    engine_core = SimpleNamespace(shutdown=lambda: None)

    def __init__(self, outputs: dict[int, Any]) -> None:
        self._outputs = outputs
        self._asked: dict[str, int] = {}

    def add_request(self, name: str, prompt: dict[str, Any], *_: Any, **__: Any) -> None:
        self._asked[name] = prompt["prompt_token_ids"][0]

    def step(self) -> list[Any]:
        asked, self._asked = self._asked, {}
        ended = {"finished": True, "num_cached_tokens": 0}
        return [SimpleNamespace(request_id=name, outputs=[self._outputs[at]], **ended) for name, at in asked.items()]

    def abort_request(self, names: list[str]) -> None:
        for each in names:
            del self._asked[each]


def booted(monkeypatch: pytest.MonkeyPatch, engine: Sampler, room_came: Callable[[], object] = print) -> EngineThread:
    """The owner of that engine, which runs."""
    monkeypatch.setattr("workers.engines.engine_thread.sampling_params", lambda _: None)
    sizes = SimpleNamespace(tensor_parallel_size=2, pipeline_parallel_size=1)
    owner = owner_of(monkeypatch, lambda **_: sizes, engine, room_came=room_came)
    owner.start()
    owner.await_boot(timeout_s=PATIENCE_S)
    return owner


def end_of(call: Iterator[Any], kind: type[_Error]) -> _Error:
    """The error that ends a call with `part_s=PATIENCE_S`, after at most one part."""
    with pytest.raises(kind) as found:
        list(islice(call, 2))
    return found.value


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            {"speculative_config": {"method": "ngram"}},
            "With vllm_args.speculative_config, vLLM gives no log-probabilities while it writes texts, and on a CPU",
        ),
        ({}, "vLLM gave no log-probabilities for it and no reason."),
    ],
)
def test_labels_that_vllm_did_not_score_are_refused_with_the_setting_at_fault_and_nothing_else_of_their_call(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], why: str
) -> None:
    text = SimpleNamespace(finish_reason="stop", logprobs=None)
    scored, unscored = (SimpleNamespace(finish_reason="length", logprobs=rows) for rows in ([{7: -1.0}], []))
    monkeypatch.setattr("workers.engines.engine_thread.sampling_params", lambda _: None)
    sizes = SimpleNamespace(tensor_parallel_size=2, pipeline_parallel_size=1)
    owner = owner_of(monkeypatch, lambda **_: sizes, Sampler({1: text, 2: scored, 3: unscored}), arguments=arguments)
    owner.start()
    owner.await_boot(timeout_s=PATIENCE_S)
    writes, *scores = Prefill([1], generate=WRITE), Prefill([2], next_ids=(7,)), Prefill([3], next_ids=(7,))
    found = dict(each for part in owner.call([writes, *scores], part_s=1) for each in part)
    owner.stop()
    assert [found[0].outputs, found[1].outputs] == [[text], [scored]]
    assert isinstance(found[2], RequestRejected)
    assert str(found[2]).startswith(why)


def test_an_engine_that_fails_for_a_reason_that_nobody_foresaw_leaves_its_traceback_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Sampler):
        def step(self) -> list[Any]:
            raise KeyError("slot")

    owner = booted(monkeypatch, Broken({}))
    with pytest.raises(EngineDead, match="'slot'"):
        list(owner.call([Prefill([1])], part_s=1))
    owner.join(PATIENCE_S)
    (told,) = [each for each in caplog.records if each.exc_info]
    assert (told.levelname, str(told.exc_info and told.exc_info[1])) == ("ERROR", "'slot'")


def test_outputs_are_passed_on_as_they_arrive_and_a_call_ends_with_its_last(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = threading.Semaphore()

    class OneByOne(Sampler):
        def step(self) -> list[Any]:
            assert seen.acquire(timeout=PATIENCE_S)
            outputs = super().step()
            self._asked = {each.request_id: 0 for each in outputs[1:]}
            return outputs[:1]

    owner = booted(monkeypatch, OneByOne({0: SimpleNamespace(finish_reason="stop", logprobs=None)}))
    found = []
    for part in owner.call([Prefill([0])] * 3, part_s=0.01):
        for position, _ in part:
            found.append(position)
            seen.release()
    owner.stop()
    assert found == [0, 1, 2]


class Small(Sampler):
    """Has no memory for more than ten requests at once, of which the first waits until all have come."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(range(99), SimpleNamespace(finish_reason="stop", logprobs=None)))
        self.have_come = threading.Event()

    def add_request(self, name: str, prompt: dict[str, Any], *_: Any, **__: Any) -> None:
        super().add_request(name, prompt)
        assert self.have_come.wait(PATIENCE_S)

    def step(self) -> list[Any]:
        if len(self._asked) > 10:
            raise MemoryError("full")
        return super().step()


def test_a_call_that_memory_does_not_suffice_for_ends_and_the_engine_has_room_for_a_smaller_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, room = Small(), queue.SimpleQueue[None]()
    engine.have_come.set()
    owner = booted(monkeypatch, engine, lambda: room.put(None))
    prefills = [Prefill([number]) for number in range(12)]
    trouble = end_of(owner.call(prefills, part_s=PATIENCE_S), EngineOutOfMemory)
    assert not trouble.shared
    room.get(timeout=PATIENCE_S)
    found = dict(each for part in owner.call(prefills[:10], part_s=1) for each in part)
    assert sorted(found) == list(range(10))
    room.get(timeout=PATIENCE_S)
    owner.stop()


def test_calls_that_ran_out_of_memory_together_are_told_of_the_same_shortage(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Small()
    owner = booted(monkeypatch, engine)
    calls = [owner.call([Prefill([number]) for number in range(6)], part_s=PATIENCE_S) for _ in range(2)]
    engine.have_come.set()
    one, other = (end_of(each, EngineOutOfMemory) for each in calls)
    assert one is other
    assert one.shared
    owner.stop()


def test_a_call_that_comes_while_the_engine_fails_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, has_come = threading.Event(), threading.Event()

    class Broken(Sampler):
        def step(self) -> list[Any]:
            begun.set()
            assert has_come.wait(PATIENCE_S)
            raise EngineDead("broken")

    owner = booted(monkeypatch, Broken({}))
    calls = [owner.call([Prefill([1])], part_s=PATIENCE_S)]
    assert begun.wait(PATIENCE_S)
    calls.append(owner.call([Prefill([2])], part_s=PATIENCE_S))
    has_come.set()
    for each in calls:
        assert str(end_of(each, EngineDead)) == "The engine failed: broken."


def test_a_call_that_enters_just_as_the_engine_ends_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    enters = threading.Event()

    class Broken(Sampler):
        def step(self) -> list[Any]:
            assert enters.wait(PATIENCE_S)
            raise EngineDead("broken")

    class Slow:
        """Takes no second call for as long as the engine needs to end, if it can."""

        def __init__(self, inbox: queue.SimpleQueue[Any]) -> None:
            self._inbox = inbox
            self.empty, self.get = inbox.empty, inbox.get
            self._calls = 0

        def put(self, call: Any) -> None:
            self._calls += 1
            if self._calls > 1:
                enters.set()
                owner.join(0.5)
            self._inbox.put(call)

    monkeypatch.setattr("workers.engines.engine_thread.sampling_params", lambda _: None)
    sizes = SimpleNamespace(tensor_parallel_size=2, pipeline_parallel_size=1)
    owner = owner_of(monkeypatch, lambda **_: sizes, Broken({}))
    owner._inbox = cast("queue.SimpleQueue[Any]", Slow(owner._inbox))
    owner.start()
    owner.await_boot(timeout_s=PATIENCE_S)
    calls = [owner.call([Prefill([number])], part_s=10.0) for number in (1, 2)]
    for each in calls:
        assert str(end_of(each, EngineDead)) == "The engine failed: broken."


def test_a_core_process_that_ends_while_a_step_waits_for_its_outputs_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends = threading.Event()
    reader = threading.Thread(target=ends.wait, daemon=True)
    reader.start()
    core = SimpleNamespace(
        output_queue_thread=reader, outputs_queue=queue.Queue[Any](), utility_results={}, shutdown=lambda: None
    )

    class Engine(Sampler):
        engine_core = core

        def step(self) -> list[Any]:
            core.outputs_queue.get(timeout=PATIENCE_S)  # what the call itself puts there
            ends.set()
            raise core.outputs_queue.get(timeout=10.0)  # vLLM's has no limit

    call = booted(monkeypatch, Engine({})).call([Prefill([1])], part_s=PATIENCE_S)
    assert str(end_of(call, EngineDead)) == "The engine failed: its core process has ended."


def test_a_request_that_vllm_refuses_is_taken_back_and_leaves_its_room_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    aborted, room = [], queue.SimpleQueue[None]()

    class Refusing(Sampler):
        def add_request(self, name: str, prompt: dict[str, Any], *_: Any, **__: Any) -> None:
            super().add_request(name, prompt)
            if prompt["prompt_token_ids"] == [1]:
                raise ValueError("too odd")

        def abort_request(self, names: list[str]) -> None:
            super().abort_request(names)
            aborted.extend(names)

    text = SimpleNamespace(finish_reason="stop", logprobs=None)
    owner = booted(monkeypatch, Refusing({2: text}), lambda: room.put(None))
    for _ in range(3):  # more than the engine's slots, had they not been left
        found = dict(each for part in owner.call([Prefill([1])] * 10 + [Prefill([2])], part_s=1) for each in part)
        assert [str(found[number]) for number in range(10)] == ["too odd."] * 10
        assert found[10].outputs == [text]
        room.get(timeout=10.0)
    owner.stop()
    assert len(aborted) == 30


def test_a_request_that_the_engine_cannot_take_because_it_is_at_an_end_is_not_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ended(Sampler):
        def add_request(self, name: str, prompt: dict[str, Any], *_: Any, **__: Any) -> None:
            super().add_request(name, prompt)
            raise RuntimeError("EngineCore encountered an issue")

    call = booted(monkeypatch, Ended({})).call([Prefill([1])], part_s=PATIENCE_S)
    assert str(end_of(call, EngineDead)) == "The engine failed: EngineCore encountered an issue."


def test_each_request_is_asked_with_its_own_adapter_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[int, Any] = {}

    class Adapting(Sampler):
        def add_request(self, name: str, prompt: dict[str, Any], *_: Any, **more: Any) -> None:
            super().add_request(name, prompt)
            given[prompt["prompt_token_ids"][0]] = more["lora_request"]

    text = SimpleNamespace(finish_reason="stop", logprobs=None)
    owner = booted(monkeypatch, Adapting(dict.fromkeys((1, 2, 3), text)))
    owner._adapters = {"mine": "my weights", "yours": "your weights"}
    list(owner.call([Prefill([1], adapter="mine"), Prefill([2]), Prefill([3], adapter="yours")], part_s=1))
    owner.stop()
    assert given == {1: "my weights", 2: None, 3: "your weights"}


@pytest.mark.parametrize("fails", [False, True])
def test_an_engine_that_has_ended_frees_its_core(monkeypatch: pytest.MonkeyPatch, *, fails: bool) -> None:
    freed = threading.Event()

    class Engine(Sampler):
        engine_core = SimpleNamespace(shutdown=freed.set)

        def step(self) -> list[Any]:
            raise EngineDead("broken")

    owner = booted(monkeypatch, Engine({}))
    if fails:
        end_of(owner.call([Prefill([1])], part_s=PATIENCE_S), EngineDead)
        owner.join(PATIENCE_S)
    else:
        owner.stop()
    assert freed.is_set()


class Gated(Sampler):
    """Begins a step and ends it when it may; all that it is asked is cached."""

    def __init__(self) -> None:
        super().__init__({1: SimpleNamespace(finish_reason="stop", logprobs=None)})
        self.begun, self.may_end = threading.Semaphore(0), threading.Semaphore(0)

    def step(self) -> list[Any]:
        self.begun.release()
        assert self.may_end.acquire(timeout=PATIENCE_S)
        outputs = super().step()
        for each in outputs:
            each.num_cached_tokens = 1280
        return outputs


def test_a_call_that_fills_the_engine_with_several_texts_per_request_leaves_no_room_until_they_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, room = Gated(), queue.SimpleQueue[None]()
    owner = booted(monkeypatch, engine, lambda: room.put(None))
    four_texts = GenerateRequest(one_turn("Write."), Sampling(max_tokens=9, temperature=1.0, samples=4))
    call = owner.call([Prefill([1], generate=four_texts)] * 3, part_s=PATIENCE_S)  # 12 texts on 8 slots
    assert engine.begun.acquire(timeout=PATIENCE_S)
    assert room.empty()
    engine.may_end.release()
    list(call)
    room.get(timeout=PATIENCE_S)
    owner.stop()


def test_prompts_that_are_mostly_cached_leave_the_engine_room_for_another_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, room = Gated(), queue.SimpleQueue[None]()
    owner = booted(monkeypatch, engine, lambda: room.put(None))
    prompt = Prefill([1] * 1280)  # the tokens of more than two steps: all slots

    def leaves_room() -> bool:
        while not room.empty():
            room.get()
        call = owner.call([prompt], part_s=PATIENCE_S)
        assert engine.begun.acquire(timeout=PATIENCE_S)
        found = not room.empty()
        engine.may_end.release()
        list(call)
        return found

    assert not leaves_room()
    engine.may_end.release()
    list(owner.call([prompt] * 300, part_s=PATIENCE_S))
    assert engine.begun.acquire(timeout=PATIENCE_S)
    assert leaves_room()
    owner.stop()


def test_an_engine_that_is_closed_ends_the_calls_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Sampler):
        def step(self) -> list[Any]:
            return []

    owner = booted(monkeypatch, Slow({}))
    call = owner.call([Prefill([1])], part_s=PATIENCE_S)
    owner.stop()
    assert str(end_of(call, EngineDead)) == "The engine was closed."


def test_a_boot_that_nobody_waits_for_any_longer_ends_with_its_core_process(monkeypatch: pytest.MonkeyPatch) -> None:
    core = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(10 * PATIENCE_S,))

    def boot(**_: Any) -> None:
        core.start()
        core.join()
        raise RuntimeError("Engine core initialization failed.")

    owner = owner_of(monkeypatch, boot)
    owner.start()
    wait_until(core.is_alive, "the core process")
    with pytest.raises(EngineError, match=r"not up after 0\.1 s"):
        owner.await_boot(timeout_s=0.1)
    owner.stop()
    assert not owner.is_alive()
    assert core.exitcode == -signal.SIGKILL
    with pytest.raises(EngineError, match="Engine core initialization failed"):
        owner.await_boot(timeout_s=0)
