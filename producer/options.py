"""Exit codes of the command line, and options shared by several commands.

Exit codes: 0 success, 1 user error, 2 usage error, 3 finished but some questions failed, 4 cancelled before the end,
130 interrupted.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from contract.commands import Command, config_options
from contract.fair_share import MOST_WEIGHT
from contract.names import LAST
from contract.priority import Priority

__all__ = [
    "CANCELLED",
    "FOLDER",
    "KEEPS_PRIORITY",
    "SOME_FAILED",
    "GivenPath",
    "again_to",
    "as_json",
    "folder",
    "priority_option",
    "run_argument",
    "run_config_options",
    "runs_argument",
    "shared_option",
    "to_weight",
]

#: Valid weights of a run.
to_weight = click.IntRange(1, MOST_WEIGHT)
#: Default folder for results, overridden by `--out`.
FOLDER = Path("results")
#: Said where another priority is asked for than that of the messages of a run that wait already.
KEEPS_PRIORITY = "what is queued keeps its priority, and `pause` of other runs lets it go first"
SOME_FAILED = 3
CANCELLED = 4


class GivenPath(click.Path):
    """A path, which is not empty: that of an unset variable would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not value:
            self.fail("it is empty.", param, ctx)
        return super().convert(value, param, ctx)


def as_json(command: Command) -> Command:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(command)


def folder(command: Command) -> Command:
    """Add `--out`."""
    kind = GivenPath(file_okay=False, path_type=Path)
    text = "Results folder, with one subfolder per run."
    return click.option("--out", type=kind, default=FOLDER, show_default=True, help=text)(command)


def again_to(out: Path) -> str:
    """Return how a suggested command names the same results folder: an option, or nothing for the usual one."""
    return "" if out == FOLDER else f" --out {shlex.quote(str(out))}"


def priority_option(command: Command) -> Command:
    """Add `--priority`, of what is sent now; None: the run's own, or normal for a new run."""
    said = (
        "Priority of what is sent now, relative to other runs; what is queued already keeps its own."
        " [default: the run's; normal for a new run]"
    )
    kind = click.Choice([each.name.lower() for each in Priority])
    return click.option("--priority", type=kind, callback=_to_priority, help=said)(command)


def _to_priority(_context: click.Context, _option: click.Parameter, name: str | None) -> Priority | None:
    return Priority[name.upper()] if name else None


def run_config_options(of_config: str) -> Callable[[Command], Command]:
    """Add `--config` and `--set` for the run configuration."""
    return config_options(of_config, "Override one value of the configuration.")


def shared_option(command: Command) -> Command:
    """Add `--shared`."""
    said = (
        "Compare runs over different questions, by those that both have: same id, text, choices, context, key and"
        " relevant passages."
    )
    return click.option("--shared", is_flag=True, help=said)(command)


def run_argument(*, required: bool) -> Callable[[Command], Command]:
    """Add the argument `RUN`, as `Ledger.named` takes it: by default `last` if it is optional."""
    if required:
        return click.argument("run_name", metavar="RUN")
    return click.argument("run_name", metavar="[RUN]", default=LAST)


def runs_argument(command: Command) -> Command:
    """Add the argument `RUN…`: one or more as `run_argument` takes one."""
    return click.argument("run_names", metavar="RUN…", nargs=-1, required=True)(command)
