"""The check of a machine with a GPU: what it records whatever happens. What it measures needs a GPU."""

from __future__ import annotations

import json
import multiprocessing
import re
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks import gpu_check
from benchmarks.gpu_check import Checks
from benchmarks.raw import Raw
from benchmarks.sides import Bench, interleaved
from benchmarks.stand import Stand
from contract.errors import EngineError
from producer.readers import Source
from tests.support import PATIENCE_S
from workers.gpus.groups import Device
from workers.host.finding import Finding

GIB = 2**30


def worker_ends() -> None:
    raise EngineError("A worker ended:\nits last words")


def test_a_check_that_cannot_be_made_has_failed_and_says_why_and_those_after_it_are_made() -> None:
    checks = Checks()
    with checks.making("letter: scored", "letter: as on a CPU"):
        checks.add("letter: scored", 160, 160)
        worker_ends()
    with checks.making("utilisation"):
        checks.add("utilisation", 50.0, 80.0)
    assert checks.rows == [
        {"check": "letter: scored", "found": 160, "wanted": 160, "passed": True},
        {"check": "letter: as on a CPU", "passed": False, "why": "EngineError: A worker ended:\nits last words"},
        {"check": "utilisation", "found": 50.0, "wanted": 80.0, "passed": False},
    ]


@contextmanager
def nothing(*_: object, **__: object) -> Iterator[None]:
    """What a stand, a model or a raw side is replaced by."""
    yield


def gpu_checks_record(folder: Path, monkeypatch: pytest.MonkeyPatch, **replaced: object) -> dict[str, Any]:
    """The record of a GPU check with those parts replaced, the others doing nothing."""
    harmless = {"refuse_unfit": lambda: None, "check_answers": lambda *_: None, "timed_model": nothing}
    for name, part in {**harmless, **replaced}.items():
        monkeypatch.setattr(gpu_check, name, part)
    monkeypatch.setattr(sys, "argv", ["gpu_check.py", "--out", str(folder)])
    with suppress(SystemExit):
        gpu_check.main()
    return dict(json.loads((folder / "gpu_check.json").read_text()))


def test_a_gpu_check_without_a_server_has_failed_in_every_check_and_not_before_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def no_server(*_: object, **__: object) -> Iterator[None]:
        worker_ends()
        yield

    record = gpu_checks_record(tmp_path, monkeypatch, stand=no_server, timed_model=lambda _: nullcontext({}))
    assert record["pending"] == []
    made = {row["check"]: row for row in record["rows"]}
    assert {"boot, s", "judge: scored", "generate: whole path to raw", "GPU utilisation, %"} <= made.keys()
    assert not any(row["passed"] for row in made.values())
    assert {row["why"] for row in made.values()} == {"EngineError: A worker ended:\nits last words"}


def test_what_a_gpu_check_found_before_it_was_ended_is_in_its_record_and_so_is_what_it_did_not_come_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended_after_one(_: object, checks: Checks) -> None:
        assert json.loads((tmp_path / "gpu_check.json").read_text())["rows"] == []
        checks.add("boot, s", 40.0, 240.0, most=True)
        assert json.loads((tmp_path / "gpu_check.json").read_text())["rows"] == checks.rows
        sys.exit(143)

    bare: Any = None
    at = Stand(bare, bare, {}, tmp_path)
    record = gpu_checks_record(
        tmp_path, monkeypatch, stand=lambda *_, **__: nullcontext(at), check_answers=ended_after_one
    )
    assert [row["check"] for row in record["rows"]] == ["boot, s"]
    assert record["pending"][0] == "letter: scored"
    assert record["pending"][-1] == "GPU utilisation, %"


@pytest.mark.parametrize("hangs", [False, True])
def test_speed_is_measured_by_what_boots_though_the_engine_alone_may_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    asked: dict[str, int] = {}
    parts_asked = []

    def raw(bench: Bench) -> Namespace:
        assert (bench.boot_within_s, bench.call_within_s, bench.warm_up) == (240.0, 120.0, 16)
        if hangs:
            raise EngineError("vLLM's offline class did not answer within 240 s.")
        return Namespace(close=lambda: None)

    def beside_raw(bench: Bench, _: object, mode: str, part: int) -> dict[str, list[float]]:
        asked[mode] = bench.limit
        parts_asked.append(part)
        return {"mcqueue": [1.0], "raw": [1.0], "one at a time": [40.0]}

    parts = {"pin": lambda _: None, "Raw": raw, "worker": nothing, "beside_raw": beside_raw}
    for name, part in {**parts, "utilisation": lambda *_: 90.0}.items():
        monkeypatch.setattr(gpu_check, name, part)
    settings: Any = Namespace(batch_size=8, server_startup_timeout=240.0)
    checks, bare = Checks(), cast("Any", None)
    gpu_check.check_speed(Stand(settings, bare, {}, tmp_path), checks, 64, 1, 120.0, [])
    assert asked == ({} if hangs else {"letter": 64, "likelihood": 32, "generate": 128})
    assert len(set(parts_asked)) == len(asked), "no mode finds the prompts of another in the cache"
    passed = {row["check"] for row in checks.rows if row["passed"]}
    assert passed >= {"boot beside raw, s", "GPU utilisation, %"}
    assert ("generate: whole path to one at a time" in passed) is not hangs
    assert len(checks.rows) == 6


def test_a_gpu_that_tells_no_utilisation_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "watched", lambda: nullcontext([(1.0, 0.5)]))
    monkeypatch.setattr(gpu_check, "whole_path", lambda *_: 1.0)
    monkeypatch.setattr(gpu_check, "newest", lambda _: [])
    monkeypatch.setattr(gpu_check, "asked_between", lambda _: (2.0, 3.0))
    at: Any = Namespace(settings=None)
    with pytest.raises(EngineError, match="MIG"):
        gpu_check.utilisation(at, Source(Path("x"), "x"), 1)
    monkeypatch.setattr(gpu_check, "asked_between", lambda _: (0.0, 3.0))
    assert gpu_check.utilisation(at, Source(Path("x"), "x"), 1) == 50.0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"visible_gpus": list}, "No NVIDIA GPU"),
        ({"is_cpu_build": lambda: True}, "VARIANT=gpu"),
        ({"entry_points": lambda **_: []}, "--editable"),
        ({"free_memory": lambda _: {"0": (60 * GIB, 80 * GIB)}}, "60.0 of 80.0 GiB free, vLLM asks for 64.0"),
        ({"installed_build": lambda _: iter([Finding("error", "torch", "no CUDA", "make setup")])}, "no CUDA"),
        ({}, ""),
    ],
)
def test_what_would_fail_every_check_on_a_gpu_is_refused_at_once_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], told: str
) -> None:
    fit = {
        "visible_gpus": lambda: [Device("0"), Device("1")],
        "is_cpu_build": lambda: False,
        "require_vllm": lambda: None,
        "free_memory": lambda _: {"0": (79 * GIB, 80 * GIB)},
        "installed_build": lambda _: iter(()),
    }
    for name, found in {**fit, **changes}.items():
        monkeypatch.setattr(gpu_check, name, found)
    with pytest.raises(EngineError, match=re.escape(told)) if told else nullcontext():
        gpu_check.refuse_unfit()


def test_a_round_that_is_not_counted_may_be_shorter_than_the_others() -> None:
    asked: list[tuple[str, int]] = []

    def side(mark: str, count: int) -> float:
        asked.append((mark, count))
        return float(count)

    at: Any = Namespace(settings=Namespace(batch_size=8))
    times = interleaved({"raw": side}, Bench(at, Source(Path("x"), "x"), 100, 2, warm_up=16), 0)
    assert times == {"raw": [100.0, 100.0]}
    assert [count for mark, count in asked if "warm up" not in mark] == [16, 100, 100]


def test_an_engine_that_does_not_answer_in_time_is_killed_and_told() -> None:
    raw = object.__new__(Raw)
    raw._process = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    assert raw._answer(PATIENCE_S, abs, -1) == 1
    (process,) = multiprocessing.active_children()
    with pytest.raises(EngineError, match="did not answer within"):
        raw._answer(0.1, time.sleep, 600)
    process.join(PATIENCE_S)
    with pytest.raises(EngineError, match="has ended"):
        raw._answer(PATIENCE_S, abs, -1)
    raw.close()
