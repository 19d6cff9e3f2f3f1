"""scripts/setup.py before anything is installed: which interpreters it takes, and what it says of others."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from scripts import setup
from tests.support import ROOT


def program(path: Path) -> None:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


@pytest.mark.parametrize("version", [(3, 10, 13), (3, 15, 0)])
def test_an_interpreter_without_wheels_is_refused_before_anything_is_made(
    version: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.version_info", version)
    monkeypatch.setattr("sys.argv", ["setup.py", "--venv", str(tmp_path / "venv")])
    assert setup.main() == 1
    assert "mcqueue needs Python 3.11 to 3.14; this is " in capsys.readouterr().err
    assert not (tmp_path / "venv").exists()


def test_the_newest_usable_interpreter_that_is_here_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert setup.wrong_python().endswith("Install one, then: make PYTHON=python3.14 …")
    for name in ("python3.10", "python3.11", "python3.13", "python3.15"):
        program(tmp_path / name)
    assert setup.wrong_python().endswith("Here is another: make PYTHON=python3.13 …")


def test_pip_and_readme_are_told_the_same() -> None:
    oldest, newest = setup.OLDEST_PYTHON, setup.NEWEST_PYTHON
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert asked == f">={oldest[0]}.{oldest[1]},<{newest[0]}.{newest[1] + 1}"
    told = re.search(r"With Python ([0-9.]+) to ([0-9.]+)", (ROOT / "README.md").read_text())
    assert told
    assert told.groups() == tuple(".".join(map(str, each)) for each in (oldest, newest))
