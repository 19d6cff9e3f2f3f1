"""Models that come as Python packages, where their cache cannot be written."""

from __future__ import annotations

from pathlib import Path

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
