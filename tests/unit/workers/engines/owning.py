"""The thread that owns vLLM, with an engine in vLLM's place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, TypeVar

import pytest

from contract.errors import EngineError
from tests.support import PATIENCE_S
from workers.engines.engine_thread import EngineThread

__all__ = ["Sampler", "booted", "end_of", "owner_of"]

_Error = TypeVar("_Error", bound=EngineError)


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

    def reset_prefix_cache(self) -> bool:
        return True


def booted(
    monkeypatch: pytest.MonkeyPatch,
    engine: Sampler,
    room_came: Callable[[], object] = print,
    adapters: Mapping[str, Path] = MappingProxyType({}),
) -> EngineThread:
    """The owner of that engine, which runs."""
    monkeypatch.setattr("workers.engines.engine_thread.sampling_params", lambda _: None)
    sizes = SimpleNamespace(tensor_parallel_size=2, pipeline_parallel_size=1)
    owner = owner_of(monkeypatch, lambda **_: sizes, engine, room_came=room_came, adapters=adapters)
    owner.start()
    owner.await_boot(timeout_s=PATIENCE_S)
    return owner


def end_of(call: Iterator[Any], kind: type[_Error]) -> _Error:
    """The error that ends a call with `part_s=PATIENCE_S`, after at most one part."""
    with pytest.raises(kind) as found:
        list(islice(call, 2))
    return found.value
