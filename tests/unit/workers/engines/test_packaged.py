"""Models that come as Python packages, where their cache cannot be written."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from contract.errors import ModelNotFound
from contract.settings import load_settings
from workers.check import check
from workers.engines.packaged import prepare
from workers.host.machine import Machine


def test_a_cache_that_cannot_be_written_is_one_line_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mcqueue").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ModelNotFound, match=f"cannot be prepared in {tmp_path}/mcqueue/models: .*Not a dir") as refused:
        prepare("smollm2-135m-instruct")
    assert "XDG_CACHE_HOME" in refused.value.hint


def test_a_cache_that_cannot_be_read_is_one_line_with_the_remedy_and_a_finding_of_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with the HOME of another user in a container: workers ended in a traceback, and check found nothing more."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ("x" * 300)))
    with pytest.raises(ModelNotFound, match=r"cannot be prepared in .*: .*File name too long") as refused:
        prepare("smollm2-135m-instruct")
    assert "XDG_CACHE_HOME" in refused.value.hint
    fleet = [load_settings(None, ["hf_model_id=smollm2-135m-instruct", "redis_url=redis://127.0.0.1:1"])]
    found = {each.what: each.level for each in check(fleet, Machine([], [0]))}
    assert (found["model"], found["Redis"]) == ("error", "error")


def test_a_prepared_model_leaves_the_process_free_to_ask_the_hub_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that this process, or its children, asked the hub for afterwards was refused."""
    asked: list[bool] = []

    class Part:
        @classmethod
        def from_pretrained(cls, *_: Path, local_files_only: bool = False, **__: Any) -> Part:
            asked.append(local_files_only)
            return cls()

        def save_pretrained(self, folder: Path) -> None:
            folder.mkdir(parents=True, exist_ok=True)

    fakes = SimpleNamespace(AutoModelForCausalLM=Part, AutoTokenizer=Part, GgufConfig=lambda **_: None)
    monkeypatch.setitem(sys.modules, "transformers", fakes)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(bfloat16=None))
    monkeypatch.setitem(sys.modules, "safetensors", SimpleNamespace(SafetensorError=ValueError))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = dict(os.environ)
    prepare("smollm2-135m-instruct")
    assert asked == [True, True], "it needs nothing of the hub itself"
    assert dict(os.environ) == before
