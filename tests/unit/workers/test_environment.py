"""What a record says about where its figures were measured."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from workers import environment as module
from workers.environment import environment


def test_a_record_names_command_time_machine_and_versions() -> None:
    found = environment()
    assert list(found) == ["command", "measured_at", "machine", "versions"]
    assert list(found["machine"]) == ["processor", "cores", "memory_bytes", "instructions", "gpus", "python"]
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["memory_bytes"] > 10**8
    assert "mcqueue" in found["versions"]
    assert environment("python -m other")["command"] == "python -m other"


@pytest.mark.parametrize(
    ("about", "processor", "instructions"),
    [
        ("model name\t: Xeon 8481\nflags\t\t: fpu avx2 avx512f avx512_bf16\n", "Xeon 8481", "avx2 avx512f avx512_bf16"),
        ("model name\t: EPYC 7B12\nflags\t\t: fpu avx2\n\nmodel name\t: another\n", "EPYC 7B12", "avx2"),
        ("Features\t: fp asimd bf16\n", platform.machine(), "bf16"),
    ],
)
def test_a_record_says_with_which_numbers_its_processor_computes(
    about: str, processor: str, instructions: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(about)
    monkeypatch.setattr(module, "CPU_INFO", tmp_path / "cpuinfo")
    machine = environment()["machine"]
    assert (machine["processor"], machine["instructions"]) == (processor, instructions.split())


def test_a_record_says_how_many_cores_a_quota_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cores_by_quota", lambda: 8)
    assert environment()["machine"]["cores_by_quota"] == 8


def test_a_record_holds_no_password_that_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = ["tune", "last", "--set", "redis_url=redis://:secret@host", "--set=openai.api_key=secret", "--set", "a.b=c"]
    monkeypatch.setattr(sys, "argv", ["workers", *typed])
    assert environment()["command"].endswith("tune last --set 'redis_url=…' '--set=openai.api_key=…' --set a.b=c")
    monkeypatch.setattr(sys, "argv", ["workers", "tune", '--set=models=[{"openai": {"api_key": "secret"}}]'])
    assert environment()["command"].endswith("tune '--set=models=…'")
