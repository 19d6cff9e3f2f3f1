"""The folder of the sockets that vLLM leaves behind."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from workers.engines.boot_errors import failure_reports
from workers.engines.vllm_sockets import VARIABLE, socket_folder


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary directory with a short path, and no folder for sockets yet."""
    monkeypatch.delenv(VARIABLE, raising=False)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_what_is_left_in_the_folder_goes_with_it(temporary: Path) -> None:
    with socket_folder(), socket.socket(socket.AF_UNIX) as left:
        assert [os.environ[VARIABLE]] == [str(each) for each in temporary.iterdir()]
        left.bind(f"{os.environ[VARIABLE]}/{uuid4()}")
    assert VARIABLE not in os.environ
    assert not list(temporary.iterdir())


def test_failed_boots_are_reported_there_too(temporary: Path) -> None:
    with socket_folder(), failure_reports():
        assert Path(os.environ["MCQUEUE_BOOT_CAUSES"]).parent == Path(os.environ[VARIABLE])


def test_a_folder_that_the_launcher_or_the_user_names_is_used_and_stays(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(temporary))
    with socket_folder():
        assert not list(temporary.iterdir())
    assert os.environ[VARIABLE] == str(temporary)
    assert temporary.is_dir()


@pytest.mark.parametrize("name", ["no/such/folder", "x" * 60])
def test_where_there_can_be_no_folder_vllm_keeps_its_own_way(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if "/" not in name:
        (temporary / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / name))
    with socket_folder():
        assert VARIABLE not in os.environ
    assert not list(temporary.glob("*/*"))
