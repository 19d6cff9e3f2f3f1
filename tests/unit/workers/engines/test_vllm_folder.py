"""The folder of what vLLM's processes leave behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from contract.errors import EngineError
from tests.support import wait_until
from workers.engines.boot_errors import failure_reports
from workers.engines.vllm_folder import VARIABLE, vllm_folder

#: A process that makes a folder, starts a worker that uses it if told to, prints the folder and ends as if killed.
KILLED = """
import os, subprocess, sys
from workers.engines.vllm_folder import VARIABLE, vllm_folder
with vllm_folder() as lock:
    open(os.environ[VARIABLE] + "/left", "w").close()
    if sys.argv[1:]:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.Popen([sys.executable, "-c", "input()"], pass_fds=lock, **quiet)
    print(os.environ[VARIABLE], flush=True)
    os._exit(9)
"""


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary directory with a short path, and no folder of vLLM yet."""
    monkeypatch.delenv(VARIABLE, raising=False)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_what_is_left_in_the_folder_goes_with_it(temporary: Path) -> None:
    with vllm_folder(), socket.socket(socket.AF_UNIX) as left:
        assert [os.environ[VARIABLE]] == [str(each) for each in temporary.iterdir()]
        left.bind(f"{os.environ[VARIABLE]}/{uuid4()}")
    assert VARIABLE not in os.environ
    assert not list(temporary.iterdir())


def test_failed_boots_are_reported_there_too(temporary: Path) -> None:
    with vllm_folder(), failure_reports():
        assert Path(os.environ["MCQUEUE_BOOT_CAUSES"]).parent == Path(os.environ[VARIABLE])


def test_a_folder_that_the_launcher_or_the_user_names_is_used_and_stays(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(temporary))
    with vllm_folder():
        assert not list(temporary.iterdir())
    assert os.environ[VARIABLE] == str(temporary)
    assert temporary.is_dir()


def test_a_folder_that_was_removed_from_under_a_launcher_is_made_again_for_the_next_boot(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(temporary / "of_the_launcher"))
    with vllm_folder(), failure_reports():
        assert list((temporary / "of_the_launcher").glob("mcqueue-boot-*"))


def test_a_folder_that_cannot_be_made_is_one_line(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (temporary / "file").touch()
    monkeypatch.setenv(VARIABLE, str(temporary / "file"))
    with pytest.raises(EngineError, match=f"{VARIABLE}: .*/file cannot be made: File exists"), vllm_folder():
        pass


@pytest.mark.parametrize("name", ["no/such/folder", "x" * 60])
def test_where_there_can_be_no_folder_vllm_keeps_its_own_way(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if "/" not in name:
        (temporary / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / name))
    with vllm_folder():
        assert VARIABLE not in os.environ
    assert not list(temporary.glob("*/*"))


def test_what_a_killed_process_left_is_removed_by_the_next_one(temporary: Path) -> None:
    left = killed()
    assert (left / "left").exists()
    with vllm_folder():
        assert [str(each) for each in temporary.iterdir()] == [os.environ[VARIABLE]]


def test_a_folder_stays_while_a_worker_of_a_killed_launcher_uses_it(temporary: Path) -> None:
    worker_reads, worker_lives = os.pipe()
    left = killed("with a worker", stdin=worker_reads)
    assert not removed(left)
    os.close(worker_lives)
    wait_until(lambda: removed(left), "the folder to be removed once the worker has ended")


def test_what_others_have_in_the_temporary_directory_stays(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (temporary / "mcqueue-of-somebody").mkdir()
    (temporary / "mcqueue-file").touch()
    left = killed()
    (temporary / "mcqueue-link").symlink_to(left)
    for name, other in (("os.geteuid", os.geteuid() + 1), ("workers.engines.vllm_folder.boot_id", "another machine")):
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(name, lambda other=other: other)
            assert not removed(left), f"{name} is {other}"
    assert removed(left)
    assert sorted(each.name for each in temporary.iterdir()) == ["mcqueue-file", "mcqueue-link", "mcqueue-of-somebody"]


def killed(*words: str, stdin: int = subprocess.DEVNULL) -> Path:
    """Return the folder that a killed process left."""
    command = [sys.executable, "-c", KILLED, *words]
    done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr
    return Path(done.stdout.strip())


def removed(folder: Path) -> bool:
    """Whether the next process that makes a folder removes this one."""
    with vllm_folder():
        return not folder.exists()
