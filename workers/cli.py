"""`python -m workers up|run|check|prepare`, `drain|restart` by name, and `tokens|rescore|stability|tune` of a run."""

from __future__ import annotations

import click

from contract.commands import Commands

__all__ = ["main"]

#: Command → where it is. Each is imported when it is used, or its help is.
COMMANDS = {
    "check": "workers.commands.check:check",
    "drain": "workers.commands.remote:drain_workers",
    "index-build": "workers.commands.index_build:build_planned_index",
    "prepare": "workers.commands.prepare:prepare_model",
    "rescore": "workers.commands.recheck:rescore_run",
    "restart": "workers.commands.remote:restart_workers",
    "run": "workers.commands.launch:run",
    "stability": "workers.commands.recheck:check_stability",
    "tokens": "workers.commands.recheck:tokens",
    "tune": "workers.commands.tune:tune_for_run",
    "up": "workers.commands.launch:up",
}


@click.group(cls=Commands, later=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mcqueue", prog_name="mcqueue")
def main() -> None:
    """Workers: one per GPU group, each with its own engine.

    RUN is a run's id or name, a unique prefix of either, or `last`.
    """
