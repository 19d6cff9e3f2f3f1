"""Showing the progress of building an index: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from producer.bar import LINE_EVERY_S

__all__ = ["Steps"]

Item = TypeVar("Item")
#: Number of items between two checks of the clock.
LOOK_EVERY = 256


class Steps:
    """The steps by name, each with its progress."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bars = Progress(*columns, console=console) if console.is_interactive else None
        self._tasks: dict[str, TaskID] = {}
        self._next = time.monotonic() + LINE_EVERY_S

    def __enter__(self) -> Self:
        if self._bars:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars:
            self._bars.stop()

    def counted(self, step: str, items: Iterable[Item]) -> Iterator[Item]:
        """Yield `items`, showing how many have passed."""
        done = 0
        for done, item in enumerate(items, start=1):
            yield item
            if done % LOOK_EVERY == 0:
                self.show(step, done, None)
        self.show(step, done, done)

    def show(self, step: str, done: int, total: int | None) -> None:
        """Show that `done` of `total` are done; `total` is None if it is not known yet."""
        if self._bars:
            if step not in self._tasks:
                self._tasks[step] = self._bars.add_task(step, total=total)
            self._bars.update(self._tasks[step], completed=done, total=total)
        elif done == total or time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_EVERY_S
            of = f"/{total:,}" if total else ""
            self._console.print(f"{time.strftime('%H:%M:%S')} {step} {done:,}{of}", markup=False, highlight=False)
