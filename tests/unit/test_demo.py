"""What `make demo` says of its end."""

from __future__ import annotations

import sys

import pytest

from demo import run


@pytest.mark.parametrize(("exit_codes", "said"), [([-9, 0], -9), ([1, 3], 1), ([0, -9], -9)])
def test_a_demo_whose_export_was_killed_or_failed_does_not_end_as_one_that_worked(
    exit_codes: list[int], said: int
) -> None:
    assert run.finish(["a", "b"], exit_codes) == said


def test_a_demo_whose_report_was_killed_does_not_end_as_one_that_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    monkeypatch.setattr(run, "producer", lambda *_: killed)
    assert run.finish(["a", "b"], [0, 3]) == -9
