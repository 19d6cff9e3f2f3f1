"""`python -m demo.valkey`: the server for trying things, and for a job on a cluster."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import redis

from demo.valkey import serve
from tests.support import PATIENCE_S, ROOT, process, wait_until


def test_it_ends_with_its_server_and_says_so(tmp_path: Path) -> None:
    folder, log = tmp_path / "data", tmp_path / "log"
    with process("-m", "demo.valkey", "--folder", str(folder), log=log) as owner:
        wait_until(lambda: "MCQUEUE_REDIS_URL" in log.read_text(), "the server")
        psutil.Process(int((folder / "server.pid").read_text())).kill()
        assert owner.wait(PATIENCE_S) == 1
    assert f"error: the server ended by itself; its log: {folder}/valkey.log" in log.read_text()


def test_a_folder_that_cannot_be_made_is_told_with_the_option_that_names_another(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with process("-m", "demo.valkey", "--folder", str(tmp_path / "file" / "data"), log=tmp_path / "log") as owner:
        assert owner.wait(PATIENCE_S) == 1
    assert (tmp_path / "log").read_text().startswith("error: [Errno 20] Not a directory: ")
    assert "data'. --folder says where the data are kept" in (tmp_path / "log").read_text()


def test_a_disk_without_room_is_told_with_what_is_on_it_and_the_option_that_names_another(tmp_path: Path) -> None:
    """The error of a write names no file."""
    command = f"ulimit -f 0; exec {sys.executable} -m demo.valkey --folder {tmp_path / 'data'}"
    done = subprocess.run(["bash", "-c", command], check=False, cwd=ROOT, capture_output=True, text=True)
    said = f"error: [Errno 27] File too large: '{tmp_path / 'data'}'. --folder says where the data are kept"
    assert (done.returncode, done.stderr[: len(said)]) == (1, said)


def test_the_command_that_it_suggests_finds_its_url_whatever_the_files_name(tmp_path: Path) -> None:
    file, log = tmp_path / "the job's url", tmp_path / "log"
    with process("-m", "demo.valkey", "--folder", str(tmp_path / "data"), "--url-file", str(file), log=log):
        wait_until(lambda: "export" in log.read_text(), "the server")
    export = next(line for line in log.read_text().splitlines() if "export" in line)
    told = subprocess.run(["bash", "-c", f"{export}; echo $MCQUEUE_REDIS_URL"], check=True, capture_output=True)
    assert told.stdout.decode().strip() == file.read_text()


def test_it_comes_back_where_it_was_so_that_running_workers_find_it(tmp_path: Path) -> None:
    with serve(tmp_path) as first:
        pass
    with serve(tmp_path) as second:
        assert second == first


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_its_folder_may_have_any_name_that_a_folder_can_have(tmp_path: Path, host: str) -> None:
    folder = tmp_path / 'My models, "new" & Zoë\'s'
    with serve(folder, host) as url, closing(redis.Redis.from_url(url)) as client:
        assert client.set("written", "here")
    with serve(folder, host) as url, closing(redis.Redis.from_url(url)) as client:
        assert client.get("written") == b"here"


@pytest.mark.parametrize("at", ["127.0.0.2", "127.0.0.1"])
def test_it_moves_if_another_program_has_taken_its_port_at_whatever_address(tmp_path: Path, at: str) -> None:
    with serve(tmp_path, "127.0.0.2") as first:
        port = urlsplit(first).port
    with socket.create_server((at, port or 0)), serve(tmp_path, "127.0.0.2") as second:
        assert urlsplit(second).port != port
