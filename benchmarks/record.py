"""The output of every benchmark: a table to read, and a JSON file for the record."""

from __future__ import annotations

import json
import subprocess
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from benchmarks.command import command_line
from workers.environment import environment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["bars", "commit", "plot", "print_table", "without", "write"]

ROOT = Path(__file__).resolve().parent.parent


def print_table(title: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> None:
    """Print `rows`; the columns are `columns`, or the rows' keys in order of appearance. Missing values stay empty."""
    table = Table(title=title)
    names = columns or list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        table.add_column(name)
    for row in rows:
        table.add_row(*(_cell(row.get(name, "")) for name in names))
    Console(width=160).print(table)


def without(row: Mapping[str, Any], *parts: str) -> dict[str, Any]:
    """Return `row` without the columns whose name contains one of `parts`."""
    return {name: value for name, value in row.items() if not any(part in name for part in parts)}


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def write(name: str, rows: Sequence[Mapping[str, Any]], options: Namespace, *, command: str = "", **more: Any) -> Path:
    """Write `rows` with the time, machine, versions and commit of the measurement; return the file.

    It is called `name`, unless `options`, the program's, say otherwise, and is where they say. `command` is the command
    that produced it, if it is to differ from the one typed.
    """
    options.out.mkdir(parents=True, exist_ok=True)
    path: Path = options.out / f"{options.name or name}.json"
    content = {**environment(command or command_line()), **IMPORTED, **more, "rows": list(rows)}
    unfinished = path.with_suffix(".json.part")  # a program that is killed now leaves the record as it was
    unfinished.write_text(json.dumps(content, indent=2) + "\n")
    return unfinished.replace(path)


def commit() -> str:
    """Return the short hash of the current commit, with a "+" if files differ from it; empty outside a checkout."""
    place = _git("rev-parse", "--show-toplevel")
    if not place or Path(place).resolve() != ROOT:
        return ""
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return _git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # git is not installed
        return ""
    return done.stdout.strip()


#: The commit that is measured: of the code as it was imported, whatever is committed in the hours until its record.
IMPORTED = {"commit": found} if (found := commit()) else {}


def plot(
    beside: Path,
    title: str,
    x: str,
    y: str,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    *,
    log_x: bool = False,
) -> Path | str:
    """Draw `lines` (name → points) into a PNG next to the JSON file `beside`; return its path, or why there is none."""

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot(title=title, xlabel=x, ylabel=y)
        for name, points in lines.items():
            axes.plot(*zip(*sorted(points), strict=True), marker="o", label=name)
        if log_x:
            axes.set_xscale("log", base=2)
            measured = sorted({point[0] for points in lines.values() for point in points})
            axes.set_xticks(measured, [f"{each:g}" for each in measured])
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend()

    return _drawn(beside, draw)


def bars(beside: Path, title: str, x: str, lengths: Mapping[str, float]) -> Path | str:
    """Draw `lengths` as bars into a PNG next to the JSON file `beside`; return its path, or why there is none."""

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot(title=title, xlabel=x)
        drawn = axes.barh(list(lengths), list(lengths.values()))  # horizontal, as their names may be long
        axes.bar_label(drawn, fmt="%.3g", padding=2)
        axes.margins(x=0.1)
        axes.invert_yaxis()  # the first one on top

    return _drawn(beside, draw)


def _drawn(beside: Path, draw: Callable[[Figure], None]) -> Path | str:
    """Save what `draw` draws; without matplotlib there is no chart, but the figures of a long run are kept."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "(no chart: matplotlib is not installed)"
    figure = Figure(figsize=(8, 5), layout="constrained")
    draw(figure)
    path = beside.with_suffix(".png")
    figure.savefig(path, dpi=120)
    return path
