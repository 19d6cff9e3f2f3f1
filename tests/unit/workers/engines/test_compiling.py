"""What is compiled on a machine, and what is said of vLLM's helpers that could not be."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from workers.engines.arguments import engine_environment
from workers.engines.compiling import SUPPRESSED, told_in_one_line


class BackendFailed(Exception):
    """As torch wraps what its compiler raised."""

    def __init__(self, inner: Exception) -> None:
        super().__init__("backend='inductor' raised:")
        self.inner_exception = inner


def test_what_kept_the_compiler_from_working_is_said_once_and_without_a_traceback(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    torchs = logging.getLogger(SUPPRESSED)
    monkeypatch.setattr(torchs, "propagate", False)  # what it is may depend on what was imported before
    monkeypatch.setattr(torchs, "disabled", False)
    caplog.set_level(logging.WARNING, SUPPRESSED)
    torchs.addHandler(caplog.handler)
    before = list(torchs.filters)
    told_in_one_line()
    try:
        for helper in ("gather", "count"):
            trouble = BackendFailed(
                OSError("C++ compile error\n\nmain.cpp:2:10: fatal error: Python.h: No such file\n")
            )
            torchs.warning("WON'T CONVERT %s", helper, exc_info=trouble)
        torchs.warning("something else")
    finally:
        for added in set(torchs.filters) - set(before):
            torchs.removeFilter(added)
        torchs.removeHandler(caplog.handler)
    told, other = (record.getMessage() for record in caplog.records)
    assert told.startswith("vLLM's helpers are not compiled, which costs a few percent of its speed: ")
    assert told.endswith(": C++ compile error: Python.h: No such file")
    assert other == "something else"


@pytest.mark.parametrize("lacking", ["", "g++", "Python.h"])
def test_on_a_cpu_nothing_is_compiled_without_a_compiler_or_pythons_headers(
    lacking: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in {"g++", "Python.h"} - {lacking}:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("sysconfig.get_path", lambda *_: str(tmp_path))
    monkeypatch.setattr("workers.engines.arguments.is_cpu_build", lambda: True)
    variables = engine_environment("some/model")
    assert variables.get("TORCH_COMPILE_DISABLE") == ("1" if lacking else None)
    assert variables["TORCHDYNAMO_SUPPRESS_ERRORS"] == "1", "what is there may not work"
