"""`index-build`, whose output another process reads: also what keeps it from reading and writing is a line of it."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from workers.cli import main


def test_a_disk_that_fails_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a traceback, and that the build failed with exit code 1."""

    def failing(folder: Path, *_: object) -> None:
        raise OSError(errno.EIO, "Input/output error", str(folder / "passages.arrow"))

    monkeypatch.setattr("workers.commands.index_build.build_index", failing)
    done = CliRunner().invoke(main, ["index-build", str(tmp_path)])
    said = f"{tmp_path}/passages.arrow: Input/output error. Check the disk and permissions there."
    assert (done.exit_code, json.loads(done.stdout), done.stderr) == (1, {"error": said}, "")
