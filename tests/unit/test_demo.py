"""What `make demo` says of its end, and its server before its start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from contract import load_settings
from demo import run, valkey


@pytest.mark.parametrize(("exit_codes", "said"), [([-9, 0], -9), ([1, 3], 1), ([0, -9], -9)])
def test_a_demo_whose_export_was_killed_or_failed_does_not_end_as_one_that_worked(
    exit_codes: list[int], said: int
) -> None:
    assert run.finish(["a", "b"], exit_codes) == said


def test_a_demo_whose_report_was_killed_does_not_end_as_one_that_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    monkeypatch.setattr(run, "producer", lambda *_: killed)
    assert run.finish(["a", "b"], [0, 3]) == -9


def test_the_worker_that_searches_finds_its_index_whatever_the_folder_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = Path("/home/me/[my] questions, #2/demo")
    monkeypatch.setattr(run, "INDEX", folder)
    _, override = run.serving(["retrieve.demo", "score.m"])
    assert load_settings(None, [override]).indexes == [folder]


@pytest.mark.parametrize("option", ["--folder", "--url-file"])
def test_a_server_leaves_no_data_in_the_current_folder_for_an_unset_variable(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["valkey.py", option, ""])
    with pytest.raises(SystemExit, match="2"):
        valkey.main()
    assert f"argument {option}: it is empty" in capsys.readouterr().err
