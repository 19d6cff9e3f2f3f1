"""What the thread that owns vLLM says of an engine that it cannot have."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from contract.errors import EngineError
from workers.engines.owner import Owner


def test_of_a_core_process_that_failed_it_is_said_where_its_cause_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    def boot(**_: Any) -> None:
        raise RuntimeError("Engine core initialization failed. See root cause above. Failed core proc(s): {}")

    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(EngineArgs=boot))
    monkeypatch.setitem(sys.modules, "vllm.usage.usage_lib", SimpleNamespace(UsageContext=None))
    monkeypatch.setitem(sys.modules, "vllm.v1.engine.llm_engine", SimpleNamespace(LLMEngine=None))
    owner = Owner({"model": "owner/name"}, {}, lambda: None)
    owner.start()
    with pytest.raises(EngineError, match=r"Failed core proc\(s\): {}, further up in this worker's log"):
        owner.await_boot(timeout_s=30)
