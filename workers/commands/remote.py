"""`drain` and `restart`: workers by name, on any host."""

from __future__ import annotations

from pathlib import Path

import click

from contract.commands import tell
from contract.connection import connect, why_no_writes
from contract.fleet import Fleet
from contract.settings import Settings, load_settings
from workers.commands.options import settings_options
from workers.host.remote_control import drain, restart

__all__ = ["drain_workers", "restart_workers"]


@click.command("drain")
@settings_options
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
def drain_workers(config: Path | None, overrides: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Stop workers NAME… (gpu0, gpu0@host, or @host for all of a host) after their running batches.

    `workers up` does not restart them.
    """
    settings = load_settings(config, overrides)
    drain(_fleet(settings), settings, names, tell)


@click.command("restart")
@settings_options
@click.argument("names", nargs=-1, metavar="[NAME…]")
def restart_workers(config: Path | None, overrides: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Restart workers NAME… (default: all) one at a time, each once the previous one is ready again.

    Each reads anew the deploy file that its `workers up` was started with; --config here only says which Redis. One
    that its launcher has given up, as it could not boot, is started again if it is named.
    """
    settings = load_settings(config, overrides)
    restart(_fleet(settings), settings, names, tell)


def _fleet(settings: Settings) -> Fleet:
    """Connect. Raises WritesRefused at once: no worker can renew its lease then, so that all would seem to be gone."""
    client = connect(settings)
    if refused := why_no_writes(client):
        raise refused
    return Fleet(client)
