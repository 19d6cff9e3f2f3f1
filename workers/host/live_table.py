"""The display of `workers up`: a live table of its workers on a terminal, plain lines elsewhere.

The launcher knows which processes are alive; what they are doing is in their records in Redis. It must not block on an
unavailable Redis or on a terminal that nobody reads, so one thread reads the records and another one writes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Self, TextIO, cast

import psutil
from rich.console import Console
from rich.live import Live
from rich.text import Text

from contract.errors import LedgerError
from contract.fleet import Fleet, WorkerRecord
from contract.logs import formatted
from contract.pace import remembered
from contract.settings import Settings
from contract.suggested import as_called
from workers.gpus.nvidia import memory_used_bytes
from workers.host.child import Child
from workers.host.launcher import node_name
from workers.host.outlet import Outlet
from workers.host.rows import Row, row_of, table_of
from workers.monitoring.hardware import resident_bytes
from workers.rounds import Rounds

__all__ = ["LiveScreen", "Observer", "Screen", "screen_for"]

DRAW_EVERY_S = 1.0


class Screen:
    """Output as plain lines."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, line: str) -> None:
        """Print a line about an event."""
        self._console.print(Text(formatted(as_called(line))), soft_wrap=True)

    def show(self, children: Sequence[Child]) -> None:
        """Update the display of the workers; plain output has none."""


class Observer(Rounds):
    """Reads the workers' records and memory, as long as the block lasts."""

    def __init__(self, settings: Settings) -> None:
        super().__init__("observer")
        self._settings = settings
        self._fleet: Fleet | None = None
        self._children: Sequence[Child] = ()
        self._history: Mapping[str, Sequence[WorkerRecord]] = {}
        #: Latest complete snapshot: recent records, memory, GPU memory.
        self._seen: Mapping[str, tuple[Sequence[WorkerRecord], int | None, int | None]] = {}

    def look_at(self, children: Sequence[Child]) -> None:
        """Observe these workers from now on."""
        self._children = children

    def row(self, child: Child) -> Row:
        """Return the worker's row from the latest snapshot and the launcher's current state."""
        return row_of(child, *self._seen.get(child.plan.name, ()))

    def round(self) -> None:
        """Look once."""
        records: dict[str, WorkerRecord] = {}
        with suppress(LedgerError):
            self._fleet = self._fleet or Fleet.connect_hurried(self._settings)
            records = _records(self._fleet, self._children)
        self.note(records)

    def note(self, records: Mapping[str, WorkerRecord]) -> None:
        """Take a snapshot with the workers' current `records`; a worker without one has no figures."""
        self._history = {name: remembered(self._history.get(name, ()), each) for name, each in records.items()}
        self._seen = {
            child.plan.name: (
                self._history.get(child.plan.name, ()),
                _memory(child),
                memory_used_bytes(child.plan.gpus),
            )
            for child in self._children
        }


class LiveScreen(Screen):
    """A live table below the printed lines. Once the terminal is gone, and the output goes to a file, plain lines.

    `behind` says that the terminal has not taken the last table yet.
    """

    def __init__(self, console: Console, observer: Observer, behind: Callable[[], bool]) -> None:
        super().__init__(console)
        self._observer = observer
        self._behind = behind
        self._live = Live(console=console, auto_refresh=False)
        self._shown_at = 0.0
        self._children: Sequence[Child] = ()

    def say(self, line: str) -> None:
        if self._console.is_terminal:
            super().say(line)
        else:  # a console decides once, when it is made, whether its cursor can be moved
            Screen(Console(file=self._console.file)).say(line)

    def show(self, children: Sequence[Child]) -> None:
        self._children = children
        self._observer.look_at(children)
        if time.monotonic() - self._shown_at >= DRAW_EVERY_S and self._console.is_terminal and not self._behind():
            self._draw()

    def _draw(self) -> None:
        self._shown_at = time.monotonic()
        self._live.update(table_of(map(self._observer.row, self._children)), refresh=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            if self._children:
                self._draw()  # the final state stays on the terminal
            self._live.stop()


@contextmanager
def screen_for(stream: TextIO, settings: Settings, *, lines_only: bool = False) -> Iterator[Screen]:
    """Yield the display suitable for `stream`, and write it there without ever waiting for that.

    With `lines_only`, as others write there, too, it never has a table.
    """
    with closing(Outlet(stream)) as outlet:
        console = Console(file=cast(TextIO, outlet))
        live = console.is_terminal and _in_foreground() and not lines_only
        if not live:
            yield Screen(console)
            return
        with Observer(settings) as observer, LiveScreen(console, observer, lambda: outlet.behind) as screen:
            yield screen


def _in_foreground() -> bool:
    """Whether this is the terminal's foreground job; a background job would draw over others' output."""
    with suppress(OSError):
        return os.tcgetpgrp(2) == os.getpgrp()
    return False


def _records(fleet: Fleet, children: Sequence[Child]) -> dict[str, WorkerRecord]:
    found = {child.plan.name: fleet.get(node_name(child.plan)) for child in children}
    return {name: record for name, record in found.items() if record is not None}


def _memory(child: Child) -> int | None:
    """Return the resident memory of the worker and its children; None if unknown."""
    if child.process is not None:
        with suppress(psutil.Error):
            return resident_bytes(psutil.Process(child.process.pid)) or None
    return None
