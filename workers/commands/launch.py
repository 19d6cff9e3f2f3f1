"""`up` and `run`: the workers of this host, or one in the foreground."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from contract import logs
from contract.commands import note
from contract.errors import LedgerError
from contract.fleet import Fleet
from contract.settings import load_fleet, load_settings
from workers.commands.options import settings_options
from workers.engines.vllm_folder import vllm_folder
from workers.host.gpu_trouble import gpu_trouble
from workers.host.indexes import index_folders
from workers.host.launcher import Supervisor, bind, node_name, queues_of, worker_command
from workers.host.live_table import screen_for
from workers.host.machine import this_machine
from workers.host.name_conflicts import refuse_taken
from workers.host.placement import NOTHING_TO_START, SettingsSources, pick, plan_host, plan_retrieval, plan_worker
from workers.host.redis_watch import RedisWatch
from workers.host.revival import Revival
from workers.unbootable import refuse_unbootable

__all__ = ["run", "up"]


@click.command()
@settings_options
@click.option(
    "--logs",
    "log_folder",
    type=click.Path(path_type=Path),
    default=Path(".mcqueue/logs"),
    show_default=True,
    help="Folder for the workers' logs, one file per worker; -: to stderr, with the launcher's, as in a container.",
)
@click.option("--only", multiple=True, metavar="NAME", help="Start only worker NAME, next to those already running.")
def up(config: Path | None, overrides: tuple[str, ...], log_folder: Path, only: tuple[str, ...]) -> None:
    """Start the workers of this host and keep them running. SIGTERM, Ctrl-C or closing the terminal drains them."""
    logs.set_up("up")
    fleet = load_fleet(config, overrides)
    sources = SettingsSources(config, overrides)
    machine = this_machine()
    plans, warnings = plan_host(fleet, machine, sources)
    plans += plan_retrieval(list(index_folders(fleet)), fleet[0], machine, sources)
    warnings += [str(each) for each in gpu_trouble(fleet, machine.gpus) if each.level != "ok"]
    if not plans:
        warnings = [". ".join(NOTHING_TO_START)]
    plans = pick(plans, only)
    refuse_unbootable(fleet, plans)
    for warning in warnings:
        note(f"warning: {warning}")
    try:
        registry = Fleet.connect(fleet[0])
        planned = queues_of(plans)
        refuse_taken(registry, list(planned), note)
        registry.announce(planned)
    except LedgerError as trouble:
        if not trouble.retryable:  # workers wait for a Redis that is away, and say so, but not for another password
            raise
    together = log_folder == Path("-")
    with (
        screen_for(sys.stderr, fleet[0], lines_only=together) as screen,
        RedisWatch(fleet[0], screen.say),
        Revival(fleet[0]) as revival,
        vllm_folder() as lock,
    ):
        folder = None if together else log_folder
        exit_code = Supervisor(plans, folder, screen.say, screen.show, revival.wished, lock).run()
    sys.exit(exit_code)


@click.command()
@settings_options
@click.option("--gpus", default="", metavar="0,1", help="GPUs for this worker. Default: none, it runs on the CPU.")
@click.option("-n", "--name", default="", help="Name of this worker on its host, e.g. gpu0.")
def run(config: Path | None, overrides: tuple[str, ...], gpus: str, name: str) -> None:
    """Run one worker in the foreground, pinned to its GPUs before Python starts."""
    settings = load_settings(config, overrides)
    chosen = tuple(filter(None, map(str.strip, gpus.split(","))))
    plan = plan_worker(settings, chosen, this_machine(), SettingsSources(config, overrides), name)
    bind(plan.cores)
    environment = {**os.environ, **plan.environment}
    os.execve(sys.executable, worker_command(node_name(plan)), environment)
