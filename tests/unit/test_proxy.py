"""The proxy through which tests and benchmarks cut a worker off."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest

from benchmarks.faults.proxy import Proxy


def test_a_closed_proxy_lets_nobody_through() -> None:
    """A thread that waited for a connection took one more, and a worker that was cut off renewed its lease by it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = Proxy(server.getsockname())
        with socket.create_connection(proxy.address) as client:
            client.sendall(b"x")
            with server.accept()[0] as passed:
                assert passed.recv(1) == b"x"
            proxy.close()
            with suppress(ConnectionError):
                assert client.recv(1) == b""
        with pytest.raises(ConnectionError):
            socket.create_connection(proxy.address)
