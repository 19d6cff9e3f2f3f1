"""What `make demo` says of its end, and its server before its start."""

from __future__ import annotations

import subprocess
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


@pytest.mark.parametrize("code", [0, 1])
def test_a_demo_whose_workers_have_ended_does_not_wait_for_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    """It waited for ever where they had been drained or told to stop, as those end without an error."""
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "LOGS", tmp_path)
    monkeypatch.setattr(run, "producer", lambda *_: [sys.executable, "-c", "import time; time.sleep(600)"])
    (tmp_path / "up.log").write_text("cpu0@host: stopped")
    with subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"]) as launcher:
        assert run.watch("demo", [launcher]) == 1
    assert capsys.readouterr().err == "The workers have ended; up.log ends with:\ncpu0@host: stopped\n"


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
