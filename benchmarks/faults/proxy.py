"""Between one process and Redis: it sees every command, can do something at a chosen one, and can break the line.

That is how a kill hits the moment that it is meant for, and not only by chance.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

__all__ = ["Proxy"]

CHUNK = 65536
#: Pieces of a command that may have come with the chunk before.
OVERLAP = 256


@dataclass
class _Trap:
    pattern: re.Pattern[bytes]
    when: Literal["before", "after"]
    action: Callable[[], object]


class Proxy:
    """A TCP proxy to `upstream` that listens on `address` from its making until `close`."""

    def __init__(self, upstream: tuple[str, int], host: str = "127.0.0.1") -> None:
        self.upstream = upstream
        self._listener = socket.create_server((host, 0))
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._trap: _Trap | None = None
        self._lock = threading.Lock()
        self._flowing = threading.Event()
        self._flowing.set()
        self._sockets: set[socket.socket] = set()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Redis as it is seen through the proxy."""
        return f"redis://{self.address[0]}:{self.address[1]}/0"

    def at(self, pattern: bytes, when: Literal["before", "after"], action: Callable[[], object]) -> None:
        """Run `action` once, before or after the next matching command goes to Redis; before: it never gets there."""
        with self._lock:
            self._trap = _Trap(re.compile(pattern, re.DOTALL), when, action)

    def disarm(self) -> None:
        """Forget the trap."""
        with self._lock:
            self._trap = None

    def black_hole(self) -> None:
        """Let nothing through, in either direction, and tell nobody."""
        self._flowing.clear()

    def heal(self) -> None:
        """Let everything through again."""
        self._flowing.set()

    def cut(self) -> None:
        """Reset all connections; new ones are made as always."""
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for each in sockets:
            with contextlib.suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def close(self) -> None:
        """End: nobody gets through from now on."""
        with self._lock:
            self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # else a thread that waits in `accept` takes one more connection
        self._listener.close()
        self.heal()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.upstream, timeout=2)
            except OSError:
                client.close()
                continue
            for each in (client, server):
                each.settimeout(None)
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets |= {client, server}
                closed = self._closed
            if closed:  # while this one was made
                self.cut()
                return
            threading.Thread(target=self._commands, args=(client, server), daemon=True).start()
            threading.Thread(target=self._answers, args=(server, client), daemon=True).start()

    def _commands(self, client: socket.socket, server: socket.socket) -> None:
        before = b""
        with self._until_broken(client, server):
            while data := client.recv(CHUNK):
                self._flowing.wait()
                trap = self._sprung(before + data)
                before = data[-OVERLAP:]
                if trap is not None and trap.when == "before":
                    trap.action()
                    return
                server.sendall(data)
                if trap is not None:
                    trap.action()

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        with self._until_broken(server, client):
            while data := server.recv(CHUNK):
                self._flowing.wait()
                client.sendall(data)

    def _sprung(self, data: bytes) -> _Trap | None:
        with self._lock:
            if self._trap is None or not self._trap.pattern.search(data):
                return None
            trap, self._trap = self._trap, None
            return trap

    @contextlib.contextmanager
    def _until_broken(self, *sockets: socket.socket) -> Iterator[None]:
        try:
            with contextlib.suppress(OSError):
                yield
        finally:
            with self._lock:
                self._sockets -= set(sockets)
            for each in sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
