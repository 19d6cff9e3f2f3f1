"""The command line's exit codes, and the options that several commands share.

Exit codes: 0 done, 1 user error, 2 usage, 3 finished but some questions failed, 4 cancelled before its end,
130 interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console

from contract import commands
from contract.commands import INTERRUPTED, Command, config_options, note
from contract.fair_share import MOST_WEIGHT
from contract.priority import Priority

__all__ = [
    "CANCELLED",
    "FOLDER",
    "INTERRUPTED",
    "SOME_FAILED",
    "Commands",
    "as_json",
    "folder",
    "note",
    "priority_again_option",
    "priority_option",
    "progress_console",
    "run_argument",
    "run_config_options",
    "to_priority",
    "to_weight",
]

PRIORITIES = click.Choice(["high", "normal", "low"])
#: What a run's weight may be.
to_weight = click.IntRange(1, MOST_WEIGHT)
#: Where results go unless `--out` says otherwise.
FOLDER = Path("results")
SOME_FAILED = 3
CANCELLED = 4


class Commands(commands.Commands):
    """The producer's commands."""

    interrupted = "interrupted; the same command again goes on where it stopped"


def progress_console() -> Console:
    """Where progress goes."""
    return Console(stderr=True)


def as_json(command: Command) -> Command:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(command)


def folder(command: Command) -> Command:
    """`--out`."""
    kind = click.Path(file_okay=False, path_type=Path)
    text = "Folder that gets one folder per run."
    return click.option("--out", type=kind, default=FOLDER, show_default=True, help=text)(command)


def priority_option(command: Command) -> Command:
    """`--priority`."""
    return click.option(
        "--priority", type=PRIORITIES, default="normal", show_default=True, help="Before or after other runs."
    )(command)


def priority_again_option(command: Command) -> Command:
    """`--priority` of what is sent again; None: the run's own."""
    return click.option("--priority", type=PRIORITIES, help="Before or after other runs. [default: the run's own]")(
        command
    )


def run_config_options(of_config: str) -> Callable[[Command], Command]:
    """`--config` and `--set` of what is asked."""
    return config_options(of_config, "Lay one value over the configuration.")


def run_argument(*, required: bool) -> Callable[[Command], Command]:
    """`RUN`: an id, its unique beginning, or `last`, the default where it may be left out."""
    if required:
        return click.argument("run_name", metavar="RUN")
    return click.argument("run_name", metavar="[RUN]", default="last")


def to_priority(name: str) -> Priority:
    """The priority of that name."""
    return Priority[name.upper()]
