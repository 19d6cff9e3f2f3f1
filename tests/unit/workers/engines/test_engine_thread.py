"""What the thread that owns vLLM does with calls: outputs as they arrive, room for others, what is refused."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from contract.errors import EngineDead, EngineOutOfMemory, RequestRejected
from contract.spec import Sampling
from contract.turns import one_turn
from tests.support import PATIENCE_S, wait_until
from tests.unit.workers.engines.owning import Sampler, booted, end_of, owner_of
from workers.engines.base import GenerateRequest
from workers.engines.prefill import Prefill

WRITE = GenerateRequest(one_turn("Write."), Sampling(max_tokens=9))


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


@pytest.mark.parametrize("is_possible", [True, False])
def test_what_a_step_without_memory_was_to_compute_is_not_taken_from_the_cache(
    monkeypatch: pytest.MonkeyPatch, is_possible: bool
) -> None:
    """vLLM took the blocks of that step for cached: the call, made again, got log-probabilities of random memory."""
    done: list[str] = []

    class Caching(Small):
        def abort_request(self, names: list[str]) -> None:
            super().abort_request(names)
            done.append(f"{len(names)} aborted")

        def reset_prefix_cache(self) -> bool:
            done.append("forgotten")
            return is_possible

    engine = Caching()
    engine.have_come.set()
    owner = booted(monkeypatch, engine)
    call = owner.call([Prefill([number]) for number in range(12)], part_s=PATIENCE_S)
    end_of(call, EngineOutOfMemory if is_possible else EngineDead)
    owner.stop()
    assert done == ["12 aborted", "forgotten"]


def test_calls_that_ran_out_of_memory_together_are_told_of_the_same_shortage(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Small()
    owner = booted(monkeypatch, engine)
    calls = [owner.call([Prefill([number]) for number in range(6)], part_s=PATIENCE_S) for _ in range(2)]
    engine.have_come.set()
    one, other = (end_of(each, EngineOutOfMemory) for each in calls)
    assert one is other
    assert one.shared
    owner.stop()


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


def test_each_request_is_asked_with_its_own_adapter_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[int, Any] = {}

    class Adapting(Sampler):
        def add_request(self, name: str, prompt: dict[str, Any], *_: Any, **more: Any) -> None:
            super().add_request(name, prompt)
            given[prompt["prompt_token_ids"][0]] = more["lora_request"]

        def add_lora(self, _: Any) -> None: ...

    text = SimpleNamespace(finish_reason="stop", logprobs=None)
    folders = {"mine": Path("my weights"), "yours": Path("your weights")}
    owner = booted(monkeypatch, Adapting(dict.fromkeys((1, 2, 3), text)), adapters=folders)
    list(owner.call([Prefill([1], adapter="mine"), Prefill([2]), Prefill([3], adapter="yours")], part_s=1))
    owner.stop()
    assert given == {1: ("mine", 1, "my weights"), 2: None, 3: ("yours", 2, "your weights")}


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
