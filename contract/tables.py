"""Tables that fit terminals of any width: columns that have no room are left out, and no figure is cut short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.table import Table
from rich.text import Text

__all__ = ["Column", "FittedTable"]

#: Spaces between two columns.
GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, and how it is shown."""

    name: str
    justify: JustifyMethod = "left"
    #: Width down to which its cells may be cut, with an ellipsis; None: not at all.
    least: int | None = None


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table of texts, with its columns in the order of their importance; the first one is always shown."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, as wide as there is room; called by rich."""
        chosen = self._widths(options.max_width)
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
        for at, width in chosen.items():
            table.add_column(self.columns[at].name, justify=self.columns[at].justify, width=width, no_wrap=True)
        for row in self.rows:
            table.add_row(*(Text(row[at]) for at in chosen))
        yield table

    def _widths(self, room: int) -> dict[int, int]:
        """Return the widths of the columns for which there is room; what is left then goes to those that are cut."""
        chosen: dict[int, int] = {}
        names = [column.name for column in self.columns]
        wanted = [max(cell_len(text) for text in texts) for texts in zip(names, *self.rows, strict=True)]
        for at, (column, wants) in enumerate(zip(self.columns, wanted, strict=True)):
            width = wants if column.least is None else min(wants, column.least)
            gap = GAP if chosen else 0
            if gap + width <= room or not chosen:
                chosen[at] = width
                room -= gap + width
        for at, width in chosen.items():
            more = min(wanted[at] - width, max(0, room))
            chosen[at] += more
            room -= more
        return chosen
