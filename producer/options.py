"""The command line's frame: errors as one line, exit codes, and the options that several commands share.

Exit codes: 0 done, 1 user error, 2 usage, 3 finished but some questions failed, 4 cancelled before its end,
130 interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import click
from rich.console import Console

from contract.errors import McqueueError
from contract.priority import Priority
from contract.sharing import MOST_WEIGHT
from producer.harmless import for_terminal

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
INTERRUPTED = 130

Command = TypeVar("Command", bound=Callable[..., Any])


class _OneLine(click.ClickException):
    """An expected error: what is wrong and what to do, without a traceback."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.secho("error: ", fg="red", nl=False, file=file, err=True)
        click.echo(for_terminal(self.message), file=file, err=True)


class Commands(click.Group):
    """A group whose commands may raise our errors."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except McqueueError as trouble:
            raise _OneLine(str(trouble)) from None
        except click.NoSuchOption as trouble:
            if any(trouble.option_name in each.opts for each in self.params):
                place = f"{ctx.command_path} {trouble.option_name} … {ctx.invoked_subcommand} …"
                said = f"{trouble.option_name} stands before the command: {place}"
                raise click.NoSuchOption(trouble.option_name, said, ctx=trouble.ctx) from None
            raise
        except KeyboardInterrupt:
            note("interrupted; the same command again goes on where it stopped")
            ctx.exit(INTERRUPTED)


def note(message: str) -> None:
    """A remark for the person at the terminal, kept out of the results on stdout."""
    click.echo(for_terminal(message), err=True)


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
    return click.option("--priority", type=PRIORITIES, default="normal", show_default=True)(command)


def priority_again_option(command: Command) -> Command:
    """`--priority` of what is sent again; None: the run's own."""
    return click.option("--priority", type=PRIORITIES, help="[default: the run's own]")(command)


def run_argument(*, required: bool) -> Callable[[Command], Command]:
    """`RUN`: an id, its unique beginning, or `last`, which is what it is where it need not be given."""
    if required:
        return click.argument("run_name", metavar="RUN")
    return click.argument("run_name", metavar="[RUN]", default="last")


def to_priority(name: str) -> Priority:
    """The priority of that name."""
    return Priority[name.upper()]
