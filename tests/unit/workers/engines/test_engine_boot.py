"""Boots of vLLM that fail, and what is said of them."""

from __future__ import annotations

import json
import multiprocessing
import os
import queue
import signal
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from contract import variables
from contract.errors import EngineError, EngineUnbootable
from tests.support import PATIENCE_S, wait_until
from tests.unit.workers.engines.owning import owner_of


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
