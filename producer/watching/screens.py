"""Screens for what is watched: one redraws a picture in place on a terminal, the other prints plain lines."""

from __future__ import annotations

import time
from typing import Protocol, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from contract.commands import for_reader
from producer.bar import LINE_EVERY_S
from producer.watching.progress import Snapshot

__all__ = ["BarScreen", "LineScreen", "NothingToEnd", "Screen", "screen_for"]


class Picture(Protocol):
    """Anything that a screen can show."""

    def line(self) -> str:
        """Return it as one log line."""

    def drawn(self) -> RenderableType:
        """Return it as drawn on a terminal, where it is redrawn in place."""

    @property
    def over(self) -> bool:
        """Whether it is the last one."""


class Screen(Protocol):
    """Output of a watcher; a context manager."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def show(self, snapshot: Snapshot) -> None:
        """Show the run's current status."""

    def say(self, message: str) -> None:
        """Print a message that stays on the screen."""


class NothingToEnd:
    """A no-op context manager for screens that need no cleanup."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class LineScreen(NothingToEnd):
    """Plain lines, a few seconds apart, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0

    def show(self, picture: Picture) -> None:
        """Print the picture's line, unless one was printed less than `LINE_EVERY_S` seconds ago."""
        now = time.monotonic()
        if now >= self._next or picture.over:
            self._next = now + LINE_EVERY_S
            self.say(picture.line())

    def say(self, message: str) -> None:
        """Print one line, with the time."""
        _print_line(self._console, f"{time.strftime('%H:%M:%S')} {message}")


class BarScreen:
    """A picture that is redrawn in place, with messages above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, picture: Picture) -> None:
        """Redraw the picture."""
        self._live.update(picture.drawn())

    def say(self, message: str) -> None:
        """Print one line above the picture."""
        _print_line(self._console, message)


def _print_line(console: Console, message: str) -> None:
    """Print a message, parts of which may come from workers, in one piece: it may contain a command to be copied."""
    console.print(Text(for_reader(message)), soft_wrap=True)


def screen_for(console: Console) -> LineScreen | BarScreen:
    """Return a screen with a progress bar for a terminal that can redraw it, and one with plain lines otherwise."""
    return BarScreen(console) if console.is_interactive else LineScreen(console)
