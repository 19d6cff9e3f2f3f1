"""The frame of `python -m workers`: errors as one line, and exit codes."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

from tests.support import PATIENCE_S, process


def test_a_command_that_is_interrupted_says_so_by_its_exit_code_and_without_a_traceback(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url, log = f"redis://127.0.0.1:{silent.getsockname()[1]}/0", tmp_path / "log"
        with process("-m", "workers", "drain", "gpu0", environment={"MCQUEUE_REDIS_URL": url}, log=log) as command:
            connection, _ = silent.accept()
            with connection:
                command.send_signal(signal.SIGINT)
                assert command.wait(timeout=PATIENCE_S) == 130
    assert log.read_text().strip() == ""
