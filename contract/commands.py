"""Shared base of the two command lines: one-line handling of expected errors and Ctrl-C, and sanitized output."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import IO, Any, TypeVar

import click

from contract.errors import McqueueError
from contract.sanitize import for_terminal
from contract.suggested import as_called

__all__ = [
    "INTERRUPTED",
    "MORE_THREADS",
    "NO_ROOM",
    "NO_THREAD",
    "Command",
    "Commands",
    "config_options",
    "for_reader",
    "note",
    "tell",
]

#: Exit code after Ctrl-C, as in a shell.
INTERRUPTED = 130

#: Errors of a full disk, an exceeded quota and a file size limit.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: Errors of a path that a user named: other users' folders, read-only ones, names that the file system does not take.
#: `Path.exists` and its like raise them.
OUT_OF_REACH = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP})
#: Errors of a path on a disk that fails, or on a file server that is gone or has another folder there now.
OUT_OF_ORDER = frozenset({errno.EIO, errno.ESTALE, errno.ENOTCONN})
#: Errors of whatever opens something, be it a file, a pipe or a connection: of this process, or of all of the system.
TOO_MANY = {errno.EMFILE: "ulimit -n", errno.ENFILE: "sysctl fs.file-max"}
#: Python's words where the system lets it have no other thread.
NO_THREAD = "can't start new thread"
MORE_THREADS = "Raise the limit of the user (ulimit -u) or container (pids), or end other programs."
#: Maximum characters shown of a command's first sentence.
SENTENCE = 120

Command = TypeVar("Command", bound=Callable[..., Any])


class _OneLine(click.ClickException):
    """An expected error, shown with its remedy and without a traceback."""

    def __init__(self, message: str) -> None:
        super().__init__(for_reader(message))

    def show(self, file: IO[Any] | None = None) -> None:
        color = False if os.environ.get("NO_COLOR") else None  # None: on a terminal
        click.secho("error: ", fg="red", nl=False, file=file, err=True, color=color)
        click.echo(self.message, file=file, err=True)


class Commands(click.Group):
    """A command group whose commands may raise McqueueError.

    `later` has commands that are imported when they are used, as `module:attribute` by name: importing all of them
    takes longer than most of them run. `interrupted` is shown at Ctrl-C.
    """

    def __init__(
        self, *arguments: Any, later: Mapping[str, str] | None = None, interrupted: str = "", **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._later = dict(later or {})
        self._interrupted = interrupted

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the command line. It prints UTF-8 in any locale: names have any characters, and JSON must be UTF-8."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8", errors=stream.errors)
        return super().main(*arguments, **options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse what is not UTF-8: a name in Latin-1 can neither be printed as UTF-8 nor stored as JSON."""
        for each in args:
            try:
                each.encode()
            except UnicodeEncodeError:
                raise click.UsageError(_why_not_utf_8(each), ctx) from None
        with _in_one_line():  # --help and --version are written here
            return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, imported or not."""
        return sorted({*super().list_commands(ctx), *self._later})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, imported if need be; None if there is none."""
        if cmd_name in self._later:
            self._import(cmd_name)
        elif cmd_name not in self.commands:
            for name in list(self._later):  # click suggests similar names from `commands`
                self._import(name)
        return super().get_command(ctx, cmd_name)

    def _import(self, name: str) -> None:
        self.add_command(resolve_name(self._later.pop(name)), name)

    def all_commands(self, ctx: click.Context | None = None) -> dict[str, click.Command]:
        """Return every command by name."""
        ctx = ctx or click.Context(self)
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return {name: each for name, each in found.items() if each is not None}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List each command with its whole first sentence, which click would truncate at the terminal's width."""
        with formatter.section("Commands"):
            shown = [(name, each) for name, each in self.all_commands(ctx).items() if not each.hidden]
            formatter.write_dl([(name, each.get_short_help_str(SENTENCE)) for name, each in shown])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _in_one_line():
                return super().invoke(ctx)
        except click.NoSuchOption as trouble:
            if any(trouble.option_name in each.opts for each in self.params):
                place = f"{ctx.command_path} {trouble.option_name} … {ctx.invoked_subcommand} …"
                said = f"{trouble.option_name} must come before the command: {place}"
                raise click.NoSuchOption(trouble.option_name, said, ctx=trouble.ctx) from None
            raise
        except KeyboardInterrupt:
            if self._interrupted:
                note(self._interrupted)
            ctx.exit(INTERRUPTED)


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Show expected errors without a traceback."""
    try:
        yield
    except McqueueError as trouble:
        raise _OneLine(str(trouble)) from None
    except OSError as trouble:  # click handles a closed pipe
        place = f"{trouble.filename}: " if trouble.filename else ""
        if trouble.errno in NO_ROOM:  # while the output is written
            remedy = "Free some space and repeat the command."
        elif trouble.errno in TOO_MANY:
            remedy = f"Raise that limit ({TOO_MANY[trouble.errno]}), or end other programs."
        elif place and trouble.errno in OUT_OF_REACH:
            remedy = "Check the path and its permissions."
        elif place and trouble.errno in OUT_OF_ORDER:
            remedy = "Check the disk, or the server, that has it."
        else:
            raise
        raise _OneLine(f"{place}{trouble.strerror}. {remedy}") from None
    except RuntimeError as trouble:
        if str(trouble) != NO_THREAD:
            raise
        raise _OneLine(f"{trouble}. {MORE_THREADS}") from None


def _why_not_utf_8(word: str) -> str:
    """Return what is wrong with a word of the command line: its bytes, or how Python was told to read them."""
    try:
        meant = os.fsencode(word).decode()
    except UnicodeDecodeError:
        return f"{word!r} is not UTF-8. Rename what it names."
    return f"{meant!r} was read as {sys.getfilesystemencoding()}. Unset PYTHONUTF8, or set it to 1."


def config_options(config: str, overrides: str) -> Callable[[Command], Command]:
    """Return a decorator that adds `--config` and `--set` with the given help texts."""

    def add(command: Command) -> Command:
        command = click.option("--set", "overrides", multiple=True, metavar="NAME=VALUE", help=overrides)(command)
        return click.option("--config", type=click.Path(path_type=Path), help=config)(command)

    return add


def for_reader(message: str) -> str:
    """Return the message as a terminal may show it, and as this command's reader can use what it suggests."""
    return for_terminal(as_called(message))


def tell(message: str) -> None:
    """Print a result to stdout."""
    click.echo(for_reader(message))


def note(message: str) -> None:
    """Print a remark for the user to stderr, separate from the results on stdout."""
    click.echo(for_reader(message), err=True)
