"""Shared base of the two command lines: one-line handling of expected errors and Ctrl-C, and sanitized output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, ClassVar, TypeVar

import click

from contract.errors import McqueueError
from contract.sanitize import for_terminal

__all__ = ["INTERRUPTED", "Command", "Commands", "config_options", "note", "tell"]

#: Exit code after Ctrl-C, as in a shell.
INTERRUPTED = 130

#: Maximum characters shown of a command's first sentence.
SENTENCE = 120

Command = TypeVar("Command", bound=Callable[..., Any])


class _OneLine(click.ClickException):
    """An expected error, shown with its remedy and without a traceback."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.secho("error: ", fg="red", nl=False, file=file, err=True)
        click.echo(for_terminal(self.message), file=file, err=True)


class Commands(click.Group):
    """A command group whose commands may raise McqueueError."""

    #: Message shown at Ctrl-C.
    interrupted: ClassVar[str] = ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List each command with its whole first sentence, which click would truncate at the terminal's width."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(SENTENCE)) for name, each in found if each and not each.hidden]
            )

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except McqueueError as trouble:
            raise _OneLine(str(trouble)) from None
        except click.NoSuchOption as trouble:
            if any(trouble.option_name in each.opts for each in self.params):
                place = f"{ctx.command_path} {trouble.option_name} … {ctx.invoked_subcommand} …"
                said = f"{trouble.option_name} must come before the command: {place}"
                raise click.NoSuchOption(trouble.option_name, said, ctx=trouble.ctx) from None
            raise
        except KeyboardInterrupt:
            if self.interrupted:
                note(self.interrupted)
            ctx.exit(INTERRUPTED)


def config_options(config: str, overrides: str) -> Callable[[Command], Command]:
    """Return a decorator that adds `--config` and `--set` with the given help texts."""

    def add(command: Command) -> Command:
        command = click.option("--set", "overrides", multiple=True, metavar="NAME=VALUE", help=overrides)(command)
        return click.option("--config", type=click.Path(path_type=Path), help=config)(command)

    return add


def tell(message: str) -> None:
    """Print a result to stdout."""
    click.echo(for_terminal(message))


def note(message: str) -> None:
    """Print a remark for the user to stderr, separate from the results on stdout."""
    click.echo(for_terminal(message), err=True)
