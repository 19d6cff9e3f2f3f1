"""What the thread that owns vLLM makes of an engine that ends: whoever asks it hears why, and nobody waits for ever."""

from __future__ import annotations

import queue
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from contract.errors import EngineDead
from tests.support import PATIENCE_S
from tests.unit.workers.engines.owning import Sampler, booted, end_of, owner_of
from workers.engines.prefill import Prefill


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


def test_a_request_that_the_engine_cannot_take_because_it_is_at_an_end_is_not_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ended(Sampler):
        def add_request(self, name: str, prompt: dict[str, Any], *_: Any, **__: Any) -> None:
            super().add_request(name, prompt)
            raise RuntimeError("EngineCore encountered an issue")

    call = booted(monkeypatch, Ended({})).call([Prefill([1])], part_s=PATIENCE_S)
    assert str(end_of(call, EngineDead)) == "The engine failed: EngineCore encountered an issue."


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


def test_an_engine_that_is_closed_ends_the_calls_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Sampler):
        def step(self) -> list[Any]:
            return []

    owner = booted(monkeypatch, Slow({}))
    call = owner.call([Prefill([1])], part_s=PATIENCE_S)
    owner.stop()
    assert str(end_of(call, EngineDead)) == "The engine was closed."
