"""`python -m demo.valkey`: the server for trying things, and for a job on a cluster."""

from __future__ import annotations

from pathlib import Path

import psutil

from tests.support import PATIENCE_S, process, wait_until


def test_it_ends_with_its_server_and_says_so(tmp_path: Path) -> None:
    folder, log = tmp_path / "data", tmp_path / "log"
    with process("-m", "demo.valkey", "--folder", str(folder), log=log) as owner:
        wait_until(lambda: "MCQUEUE_REDIS_URL" in log.read_text(), "the server")
        psutil.Process(int((folder / "server.pid").read_text())).kill()
        assert owner.wait(PATIENCE_S) == 1
    assert f"error: the server ended by itself; its log: {folder}/valkey.log" in log.read_text()
