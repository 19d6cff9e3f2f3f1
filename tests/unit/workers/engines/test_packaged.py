"""Models that come as Python packages, where their cache cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.errors import ModelNotFound
from workers.engines.packaged import prepare


def test_a_cache_that_cannot_be_written_is_one_line_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mcqueue").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ModelNotFound, match=f"cannot be prepared in {tmp_path}/mcqueue/models: .*Not a dir") as refused:
        prepare("smollm2-135m-instruct")
    assert "XDG_CACHE_HOME" in refused.value.hint
