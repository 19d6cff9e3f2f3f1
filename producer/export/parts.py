"""The results of a run, part by part, as pieces for its files; of a large run a second process makes every other part.

That process is a fork, so it finds the ledger as its parent has it, and there is nothing to start. It hands its parts
over through a pipe, which holds it up until they are taken: neither gets ahead of the other by more than a part, and
whoever finds the other gone ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from contract.errors import LedgerError
from contract.ledger import Ledger, Run
from contract.question import Question
from contract.verdict import Verdict
from producer.export.summary import Summary

__all__ = ["Part", "PieceOf", "pieces"]

#: Questions in the input's order, each with its verdict or None while it is unsettled.
Part = list[tuple[Question, Verdict | None]]
#: Makes of a part what a file takes; it travels between processes.
PieceOf = Callable[[Part], Any]

#: Questions per part: what the ledger reads in one round trip.
PART_QUESTIONS = 500
#: Questions from which on a second process is worth its start.
MANY_QUESTIONS = 10_000


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the pieces of any part, and counts what it has seen."""

    ledger: Ledger
    run_id: str
    pieces_of: Sequence[PieceOf]
    summary: Summary

    def make(self, start: int) -> list[Any]:
        """The pieces, one per file, of the part that begins with question `start`."""
        results = self.ledger.results(self.run_id, start, start + PART_QUESTIONS)
        part = list(self.summary.watching(results))
        return [piece_of(part) for piece_of in self.pieces_of]


def pieces(
    ledger: Ledger, run: Run, pieces_of: Sequence[PieceOf], summary: Summary
) -> Generator[list[Any], None, None]:
    """The pieces of each part, in order; when they are exhausted, `summary` has counted all.

    Closing it ends the second process. Raises what the ledger raises, in whichever process.
    """
    maker = _Maker(ledger, run.run_id, pieces_of, summary)
    starts = range(0, run.questions, PART_QUESTIONS)
    if run.questions < MANY_QUESTIONS or not _can_share():
        yield from map(maker.make, starts)
        return
    with _helper(_Maker(ledger, run.run_id, pieces_of, Summary(run)), starts[1::2]) as theirs:
        for at, start in enumerate(starts):
            yield _taken(theirs) if at % 2 else maker.make(start)
        summary.include(_taken(theirs))


def _can_share() -> bool:
    """Whether there is a second core. Where forks are not to be trusted, the system does not say which cores it has."""
    return hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1


@contextmanager
def _helper(maker: _Maker, starts: Sequence[int]) -> Iterator[Connection]:
    """A process that hands over the pieces of these parts and then its summary; ended with the block."""
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both; the parent ends, and the pipe with it
    here.close()
    with suppress(BrokenPipeError):
        try:
            for start in starts:
                there.send(maker.make(start))
            there.send(maker.summary)
        except BrokenPipeError:
            raise  # nobody is there to be told
        except Exception as trouble:  # noqa: BLE001 - whatever it is, the parent raises it
            there.send(trouble)


def _taken(theirs: Connection) -> Any:
    try:
        found = theirs.recv()
    except (EOFError, OSError):  # before, or in the middle of a piece
        raise LedgerError("The process that read half of the results was killed.", hint="Try again.") from None
    if isinstance(found, Exception):
        raise found
    return found
