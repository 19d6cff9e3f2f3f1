"""Hosts on one machine: each has a network of its own, a name, processes that others do not see, and a folder.

A bridge in a namespace of its own connects them, so nothing here can meet a network that the machine really has. A
host sees the programs and packages of the machine, and of the other hosts' folders nothing. Needs root.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support import ROOT, end, lacking, needed_program

__all__ = ["Host", "connected_hosts"]

#: RFC 5737's block for documentation: nobody's real network.
NETWORK = "192.0.2"
CLONE_NEWNET = 0x40000000
#: $1: the host's name; $2: its folder; the others' folders up to `--`; then the command.
SETTLE_IN = """
hostname "$1"; mine=$2; shift 2
while [ "$1" != -- ]; do mount -t tmpfs none "$1"; shift; done
shift; cd "$mine" && exec "$@"
"""


class Host:
    """A host that is up. What runs on it ends with it, as if the power went."""

    def __init__(self, name: str, number: int, folder: Path, others: list[Path], switch: str) -> None:
        self.name = name
        self.folder = folder
        self.address = f"{NETWORK}.{number}"
        self._space = f"{switch}-{name}"
        isolated = ("unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
        settle = ("sh", "-euc", SETTLE_IN, "sh", name, str(folder), *map(str, others), "--")
        self._inside = ("ip", "netns", "exec", self._space, *isolated, *settle)
        self._switch = switch
        self._port = f"port{number}"
        self._running: list[subprocess.Popen[bytes]] = []

    def plug_in(self) -> None:
        """Make its network, with one cable to the switch."""
        _ip("netns", "add", self._space)
        _ip("-n", self._switch, "link", "add", self._port, "type", "veth", "peer", "name", "eth0", "netns", self._space)
        _ip("-n", self._switch, "link", "set", self._port, "master", "bridge", "up")
        _ip("-n", self._space, "link", "set", "lo", "up")
        _ip("-n", self._space, "addr", "add", f"{self.address}/24", "dev", "eth0")
        _ip("-n", self._space, "link", "set", "eth0", "up")

    def start(self, *command: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Run `python …` on the host, in its folder; what it says goes to `<second word>.log` there."""
        with (self.folder / f"{command[1]}.log").open("ab") as log:
            child = subprocess.Popen(
                [*self._inside, sys.executable, *command],
                env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append(child)
        return child

    def files(self, folder: Path) -> list[str]:
        """What is in `folder`, as seen from here."""
        seen = subprocess.run([*self._inside, "ls", str(folder)], check=True, capture_output=True, text=True)
        return seen.stdout.split()

    def said(self, program: str) -> str:
        """What `python -m program` printed here."""
        return (self.folder / f"{program}.log").read_text(errors="replace")

    def pull_the_cable(self) -> None:
        """From now on nothing goes in or out, and nobody is told."""
        _ip("-n", self._switch, "link", "set", self._port, "down")

    def plug_the_cable_in(self) -> None:
        """As before."""
        _ip("-n", self._switch, "link", "set", self._port, "up")

    @contextmanager
    def seat(self) -> Iterator[None]:
        """Sockets that this thread makes meanwhile are made on the host."""
        with Path("/proc/thread-self/ns/net").open() as home, Path("/run/netns", self._space).open() as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(home.fileno())

    def switch_off(self) -> None:
        """End all that runs on the host, and the host."""
        for child in self._running:
            child.kill()  # --kill-child passes it on, and with its first process goes a process namespace
            end(child)
        subprocess.run(["ip", "netns", "del", self._space], check=False, capture_output=True)


@contextmanager
def connected_hosts(folder: Path, *names: str) -> Iterator[list[Host]]:
    """A host for each of `names`, or no test where they cannot be made."""
    for program in ("ip", "unshare"):
        needed_program(program)
    switch = f"mcq{os.getpid() % 10**6}"
    made: list[Host] = []
    try:
        _make_switch(switch)
        folders = [folder / name for name in names]
        for number, (name, mine) in enumerate(zip(names, folders, strict=True), 1):
            mine.mkdir(parents=True)
            made.append(Host(name, number, mine, [each for each in folders if each != mine], switch))
            made[-1].plug_in()
        yield made
    finally:
        for host in made:
            host.switch_off()
        subprocess.run(["ip", "netns", "del", switch], check=False, capture_output=True)


def _make_switch(name: str) -> None:
    try:
        _ip("netns", "add", name)
        _ip("-n", name, "link", "add", "bridge", "type", "bridge", "forward_delay", "0")
        _ip("-n", name, "link", "set", "bridge", "up")
    except subprocess.CalledProcessError as trouble:
        lacking(f"no network namespaces here (they need root): {trouble.stderr.decode().strip()}")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _enter(namespace: int) -> None:
    """setns(2) for this thread; Python has it from 3.12 on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
