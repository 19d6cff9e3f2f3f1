"""`python -m producer serve`: the HTTP server."""

from __future__ import annotations

import math
import resource
import signal
from contextlib import suppress
from pathlib import Path

import click

from contract.commands import note
from contract.errors import InputError
from contract.fleet import Fleet
from contract.ledger import RedisLedger
from contract.metrics import RedisMetrics
from producer.options import run_config_options
from producer.runs.runconfig import load_run_config
from producer.session import Session

__all__ = ["allow_callers", "serve"]


@click.command()
@run_config_options("Run configuration file for questions, as in configs/runs/.")
@click.option("--host", help="Address to listen on. Default: http.host in the settings.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on. Default: http.port in the settings.")
@click.pass_obj
def serve(
    session: Session, config: Path | None, overrides: tuple[str, ...], host: str | None, port: int | None
) -> None:
    """Answer questions and prompts over HTTP; clients share the workers' batches.

    Ctrl-C stops the server once it has answered the requests that it has, a second one at once.
    """
    from uvicorn import Config

    from producer.http.stopping import Server
    from producer.http.web import make_app

    http = session.settings.http
    ledger = session.ledger
    workers, metrics = session.broker.all_workers, []
    if isinstance(ledger, RedisLedger):
        workers = Fleet.connect_hurried(session.settings).alive
        metrics = [RedisMetrics.connect(session.settings)]
    base = load_run_config(config, overrides)
    app = make_app(session.settings, ledger, session.broker, base, workers, metrics)
    if not http.api_key.get_secret_value():
        note("No http.api_key is set: anyone who can reach the port may send requests.")
    allow_callers()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # uvicorn sends itself what stopped it, at the end
    host, port = host or http.host, http.port if port is None else port
    server = Server(
        Config(
            app,
            host=host,
            port=port,
            log_config=None,  # its lines go with the others', also as JSON
            access_log=False,
            timeout_graceful_shutdown=math.ceil(http.max_deadline_s),
        )
    )
    try:
        with suppress(KeyboardInterrupt):  # after it has stopped
            server.run()
    except SystemExit:  # uvicorn logs the reason, and exits with a code that has another meaning here
        raise InputError(f"The server cannot listen on {host}:{port}.", hint="Use another --host or --port.") from None


def allow_callers() -> None:
    """Open as many files as the system lets: each caller is one, and the usual 1,024 are fewer than may wait."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
