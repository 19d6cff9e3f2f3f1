"""HTTP exporter for Prometheus: metrics of this worker, of Redis, of the hardware, and of libraries.

`/metrics` is for scraping one worker; `/targets` lists every worker's exporter (Prometheus' `http_sd_configs`), so
that a scrape configuration that names one worker finds all. `/health` answers while the process lives, even without
Redis; `/ready` is 503 until the engine is up, and again while the worker drains.
"""

from __future__ import annotations

import errno
import json
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import REGISTRY, CollectorRegistry, disable_created_metrics, make_wsgi_app
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from contract.address import before_port
from contract.errors import LedgerError

__all__ = ["Exporter"]

log = logging.getLogger(__name__)

#: Number of ports tried from the first one on: more than the workers of any machine.
PORTS = 64
#: A connection that sends nothing for this long is closed: each has a thread.
IDLE_S = 60.0
#: Interval at which the server checks for shutdown; a draining worker waits for it.
POLL_S = 0.1
OK = "200 OK"
UNAVAILABLE = "503 Service Unavailable"
#: Errors after which the next port may be free: in use, or reserved for the administrator.
PORT_TAKEN = frozenset({errno.EADDRINUSE, errno.EACCES})
#: Wildcard addresses, which bind to every address of the machine.
EVERYWHERE = frozenset({"0.0.0.0", "::"})


class Exporter:
    """Serves `collectors` and the process' default registry until closed."""

    def __init__(
        self,
        collectors: Iterable[Collector | CollectorRegistry],
        targets: Callable[[], list[dict[str, Any]]],
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they would add a second series for each counter
        registry = CollectorRegistry()
        for each in (*collectors, REGISTRY):
            registry.register(_Part(each))
        self._metrics = make_wsgi_app(registry)
        self._targets = targets
        self._ready = ready
        self._server: WSGIServer | None = None

    def start(self, address: str, first_port: int, host: str) -> str:
        """Serve on the first free port from `first_port`; return the `host:port` that others connect to.

        Its host is `address`, or `host` if that is a wildcard. If no port is free, this machine lacks the address, or
        this process may have no other thread, log a warning and return an empty string: monitoring must never keep a
        worker from working.
        """
        family = _Server6 if ":" in address else _Server
        for port in range(first_port, first_port + PORTS):
            try:
                server = make_server(address, port, self._answer, family, _Quiet)
            except OSError as trouble:
                if trouble.errno in PORT_TAKEN:
                    continue
                log.warning("no metrics: they cannot be served at metrics_address %s: %s", address, trouble)
                return ""
            serve = partial(server.serve_forever, poll_interval=POLL_S)
            try:
                threading.Thread(target=serve, name="metrics", daemon=True).start()
            except RuntimeError as trouble:
                server.server_close()
                log.warning("no metrics: %s", trouble)
                return ""
            self._server = server  # not before: `close` waits for the thread
            return f"{before_port(host if address in EVERYWHERE else address)}:{port}"
        log.warning("no metrics: no free port from %d to %d at metrics_address %s", first_port, port, address)
        return ""

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Any:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            return self._metrics(environ, start_response)
        if path == "/targets":
            status, kind, content = self._list()
        elif path == "/health" or (path == "/ready" and self._ready()):
            status, kind, content = OK, "text/plain", "ok\n"
        elif path == "/ready":
            status, kind, content = UNAVAILABLE, "text/plain", "not accepting messages\n"
        else:
            status, kind, content = "404 Not Found", "text/plain", "/metrics, /targets, /health or /ready\n"
        start_response(status, [("Content-Type", kind)])
        return [content.encode()]

    def _list(self) -> tuple[str, str, str]:
        try:
            return OK, "application/json", json.dumps(self._targets())
        except LedgerError as trouble:
            return UNAVAILABLE, "text/plain", f"{trouble}\n"


class _Part(Collector):
    """A collector or registry as part of another registry, without its check for duplicate names."""

    def __init__(self, part: Collector | CollectorRegistry) -> None:
        self._part = part

    def collect(self) -> Iterator[Metric]:
        yield from self._part.collect()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    #: So that a restarted worker gets the port that probes and Prometheus know, though connections of its predecessor
    #: linger for a minute. Two workers still cannot share a port: only one of them may listen.
    allow_reuse_address = True

    def server_bind(self) -> None:
        """Bind as the base class does, but without asking a name server for our name: the boot would wait for it."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()[:2]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the signature is socketserver's
        """Leave no traceback of a client that was idle or went away."""
        log.debug("a request to the exporter ended early: %s", sys.exception())


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Quiet(WSGIRequestHandler):
    timeout = IDLE_S

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class' name
        """Do not log scrapes."""
