"""The command line's group, and where its commands are. Results go to stdout, progress to stderr."""

from __future__ import annotations

import os
from pathlib import Path

import click

from contract import address, logs, variables
from contract.commands import Commands
from contract.errors import SettingsError
from contract.settings import PREFIX
from contract.suggested import repeat
from producer.session import Session

__all__ = ["main"]

#: Command → where it is. Each is imported when it is used, or its help is.
COMMANDS = {
    "cancel": "producer.control:cancel",
    "compare": "producer.compare.command:compare",
    "enqueue": "producer.enqueue:enqueue",
    "export": "producer.follow:export",
    "index": "producer.index:index",
    "inspect": "producer.inspect:inspect",
    "load": "producer.load:load",
    "pause": "producer.control:pause",
    "purge": "producer.control:purge",
    "report": "producer.report.command:report",
    "requeue": "producer.control:requeue",
    "resume": "producer.control:resume",
    "runs": "producer.listing:runs",
    "serve": "producer.http.serve:serve",
    "show": "producer.listing:show",
    "status": "producer.follow:status",
    "suite": "producer.suite.command:suite",
    "watch": "producer.follow:watch",
    "weight": "producer.control:weight",
}


@click.group(
    cls=Commands,
    later=COMMANDS,
    interrupted="interrupted; run the same command again to continue",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="mcqueue", prog_name="mcqueue")
@click.option("--redis", metavar="URL", help=f"Redis URL; overrides {PREFIX}REDIS_URL.")
@click.option(
    "--deploy",
    type=click.Path(path_type=Path),
    help=f"The workers' deploy file, which names the model. Default: the one that {variables.CONFIG} names.",
)
@click.pass_context
def main(ctx: click.Context, redis: str | None, deploy: Path | None) -> None:
    """Score language models on multiple-choice questions through a durable queue.

    RUN is a run's id or name, a unique prefix of either, or `last`.
    """
    logs.set_up()
    if redis:
        try:
            address.check(redis)
        except ValueError as trouble:  # the settings would blame the environment variable
            raise SettingsError(f"--redis: {trouble}.") from None
        # The environment overrides every other layer, so a flag takes precedence only if it is set there.
        os.environ[f"{PREFIX}REDIS_URL"] = redis
    repeat(deploy, redis)
    session = ctx.ensure_object(Session)
    session.deploy = deploy or session.deploy
    ctx.call_on_close(session.close)
