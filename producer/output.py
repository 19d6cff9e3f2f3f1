"""Formatting of stdout: labelled lines and tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from contract.commands import for_reader
from contract.sanitize import for_json, for_terminal

__all__ = ["Line", "Lines", "echo_json", "echo_lines", "echo_table", "fits", "labelled", "optional_line"]

#: A label and the text after it.
Line = tuple[str, str]
Lines = list[Line]
#: Spaces between two columns.
GAP = 2


def echo_json(content: Any) -> None:
    """Print one JSON document."""
    click.echo(for_json(json.dumps(content, ensure_ascii=False, indent=2)))


def echo_lines(lines: Lines, *, verbatim: bool = False) -> None:
    """Print `label  value` lines with the values aligned.

    `verbatim` if they have texts of questions or models: what suggests a command there is no suggestion of ours.
    """
    shown = for_terminal if verbatim else for_reader
    width = max(len(label) for label, _ in lines) + 2
    for label, value in lines:
        click.echo(shown(f"{label:<{width}}{value}").replace("\n", "\n" + " " * width).rstrip())


def echo_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table, or on a terminal that is too narrow for it each row as text; numbers must already be formatted."""
    names, *content = ([for_terminal(cell) for cell in row] for row in (header, *rows))
    if not fits([names, *content]):
        _echo_as_text(names, content)
        return
    console = _console()
    if not console.is_terminal:  # as wide as it is: programs read line by line
        console.width = _width([names, *content])
    table = Table(box=None, pad_edge=False, header_style="bold")
    for at, name in enumerate(names):  # a name in the first column stays in one piece: `awk '{print $1}'`
        table.add_column(Text(name), overflow="fold", no_wrap=at == 0)
    for row in content:
        table.add_row(*map(Text, row))
    console.print(table)


def fits(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a table of these rows is no wider than the terminal; elsewhere, every table fits."""
    console = _console()
    return not console.is_terminal or _width(rows) <= console.width


def _console() -> Console:
    """Return the console for tables: stdout, which FORCE_COLOR makes no terminal."""
    return Console(file=sys.stdout, force_terminal=sys.stdout is not None and sys.stdout.isatty())


def _width(rows: Sequence[Sequence[str]]) -> int:
    widths = (max(cell_len(line) for row in rows for line in row[at].split("\n")) for at in range(len(rows[0])))
    return sum(widths) + GAP * (len(rows[0]) - 1)


def _echo_as_text(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print the first cell of each row on a line of its own, and below it the others with their columns' names."""
    console = _console()
    for first, *others in rows:
        console.print(Text(first, style="bold"))
        known = (f"{name} {cell}" for name, cell in zip(header[1:], others, strict=True) if cell)
        console.print(Padding(Text(" · ".join(known)), (0, 0, 0, 2)))


def labelled(label: str, values: Iterable[str]) -> Lines:
    """Return a line for each value, the first of them labelled."""
    return [("" if at else label, value) for at, value in enumerate(values)]


def optional_line(label: str, value: str) -> Lines:
    """Return the line; none if `value` is empty."""
    return [(label, value)] if value else []
