"""Formats the results of a run part by part; for large runs a second process makes every other part.

That process is a fork, so it shares its parent's ledger and needs no start-up. It passes its parts through a pipe,
which blocks until they are taken: neither process gets ahead of the other by more than one part, and each ends if the
other is gone.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from contract.errors import LedgerError
from contract.ledger import Ledger, Run
from contract.question import Question
from contract.verdict import Verdict
from producer.export.summary import Summary

__all__ = ["Part", "PieceOf", "count_of", "pieces"]

#: Questions in input order, each with its verdict, or None while it is unsettled.
Part = list[tuple[Question, Verdict | None]]
#: Converts a part into the content written to a file; the result is passed between processes.
PieceOf = Callable[[Part], Any]

#: Questions per part: as many as the ledger reads in one round trip.
PART_QUESTIONS = 500
#: Number of questions from which a second process pays off.
MANY_QUESTIONS = 10_000


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the pieces of any part, and adds it to the summary."""

    ledger: Ledger
    run_id: str
    pieces_of: Sequence[PieceOf]
    summary: Summary

    def make(self, start: int) -> list[Any]:
        """Return the pieces, one per file, of the part that begins with question `start`."""
        results = self.ledger.results(self.run_id, start, start + PART_QUESTIONS)
        part = list(self.summary.counting(results))
        return [piece_of(part) for piece_of in self.pieces_of]


def count_of(run: Run) -> int:
    """Return the number of parts of `run`."""
    return len(_starts(run))


def _starts(run: Run) -> range:
    return range(0, run.questions, PART_QUESTIONS)


def pieces(
    ledger: Ledger, run: Run, pieces_of: Sequence[PieceOf], summary: Summary
) -> Generator[list[Any], None, None]:
    """Yield the pieces of each part, in order; at the end, `summary` has counted all questions.

    Closing the generator ends the second process. Raises the ledger's errors, from either process.
    """
    maker = _Maker(ledger, run.run_id, pieces_of, summary)
    starts = _starts(run)
    with ExitStack() as stack:
        theirs: Connection | None = None
        if run.questions >= MANY_QUESTIONS and _can_share():
            with suppress(OSError):  # the system has no room for a second process, or for a pipe: this one makes all
                second = _Maker(ledger, run.run_id, pieces_of, Summary(run))
                theirs = stack.enter_context(_helper(second, starts[1::2]))
        for at, start in enumerate(starts):
            yield _taken(theirs) if theirs and at % 2 else maker.make(start)
        if theirs:
            summary.include(_taken(theirs))


def _can_share() -> bool:
    """Whether there is a second core. Systems on which forking is unsafe have no `sched_getaffinity`."""
    return hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1


@contextmanager
def _helper(maker: _Maker, starts: Sequence[int]) -> Iterator[Connection]:
    """Start a process that sends the pieces of these parts and then its summary; it ends with the block."""
    forks = multiprocessing.get_context("fork")
    here, there = forks.Pipe(duplex=False)
    process = forks.Process(target=_help, args=(maker, starts, here, there), daemon=True)
    process.start()
    there.close()
    try:
        yield here
    finally:
        here.close()
        process.join()


def _help(maker: _Maker, starts: Sequence[int], here: Connection, there: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both processes; the parent ends and closes the pipe
    here.close()
    with suppress(BrokenPipeError):
        try:
            for start in starts:
                there.send(maker.make(start))
            there.send(maker.summary)
        except BrokenPipeError:
            raise  # the parent is gone
        except Exception as trouble:  # noqa: BLE001 - any error is raised again by the parent
            trouble.add_note(f"In the second process:\n{traceback.format_exc()}")  # pickling leaves it out
            there.send(trouble)


def _taken(theirs: Connection) -> Any:
    try:
        found = theirs.recv()
    except (EOFError, OSError):  # between pieces, or in the middle of one
        raise LedgerError("The process reading half of the results was killed.", hint="Try again.") from None
    if isinstance(found, Exception):
        raise found
    return found
