"""What is said of vLLM's helpers that could not be compiled."""

from __future__ import annotations

import logging

import pytest

from workers.engines.uncompiled import SUPPRESSED, told_in_one_line


class BackendFailed(Exception):
    """As torch wraps what its compiler raised."""

    def __init__(self, inner: Exception) -> None:
        super().__init__("backend='inductor' raised:")
        self.inner_exception = inner


def test_what_kept_the_compiler_from_working_is_said_once_and_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    torchs = logging.getLogger(SUPPRESSED)
    before = list(torchs.filters)
    told_in_one_line()
    try:
        for helper in ("gather", "count"):
            trouble = BackendFailed(OSError("C++ compile error\n\nPython.h: No such file"))
            torchs.warning("WON'T CONVERT %s", helper, exc_info=trouble)
        torchs.warning("something else")
    finally:
        for added in set(torchs.filters) - set(before):
            torchs.removeFilter(added)
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "vLLM's helpers are not compiled, which costs a few percent of its speed: C++ compile error",
        "something else",
    ]
