"""Where progress is shown; and a bar for work that would otherwise be silent for long: reading all of a large run."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterable
from contextlib import closing
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

from contract.ledger import Ledger, Run
from contract.question import Question
from contract.verdict import Verdict

__all__ = ["LINE_EVERY_S", "progress_console", "reading", "with_bar"]

Item = TypeVar("Item")
#: Seconds between plain lines of progress, where there is no terminal.
LINE_EVERY_S = 5.0
#: Work that ends within this time needs no bar.
MOMENT_S = 1.0
#: Seconds between two updates of the bar.
UPDATE_EVERY_S = 0.1


def progress_console() -> Console:
    """Return the console for progress: stderr, which FORCE_COLOR makes no terminal."""
    return Console(stderr=True, force_terminal=sys.stderr is not None and sys.stderr.isatty())


def reading(ledger: Ledger, run: Run, doing: str) -> closing[Generator[tuple[Question, Verdict | None], None, None]]:
    """Return a context manager for the run's results, with a bar called `doing` beside them."""
    return closing(with_bar(ledger.results(run.run_id), doing, run.questions))


def with_bar(items: Iterable[Item], doing: str, total: int) -> Generator[Item, None, None]:
    """Yield `items`, `total` in number; if that takes a while, a bar on stderr shows how many have passed.

    Without a terminal there is no bar. The bar ends with the generator: close it where a caller may leave early. It
    never starts before the first item, as what makes the items may fork then, which is unsafe beside the bar's thread.
    """
    console = progress_console()
    if not console.is_interactive:
        yield from items
        return
    bar, due = Progress(console=console, transient=True), time.monotonic() + MOMENT_S
    task = bar.add_task(doing, total=total)
    try:
        for passed, item in enumerate(items, start=1):
            yield item
            if time.monotonic() >= due:
                due = time.monotonic() + UPDATE_EVERY_S
                bar.start()
                bar.update(task, completed=passed)
    finally:
        bar.stop()
