"""Reading of completions: in this process, or in others beside it.

The rules for texts (`workers/scoring/extract`) take most of a millisecond per text, and Python runs one thread at a
time: a fast GPU with a small model writes more texts than a process can read and feed the engine besides.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from contract import logs, variables
from contract.chunks import chunks
from contract.question import Question
from contract.spec import RunSpec
from workers.engines.base import Completion
from workers.parent import follow_parent
from workers.scoring import MODES, FollowUp, Reading

__all__ = ["Found", "Reader", "ReadingProcesses", "Unread", "read_here"]

log = logging.getLogger(__name__)

#: Questions sent to a process at a time.
TOGETHER = 16
#: If there are fewer questions than this, they are read here: to send a few costs this process as much as to read them.
FEWEST = 4

#: What was read, or the error that was raised.
Found: TypeAlias = Reading | FollowUp | Exception


class Unread(NamedTuple):
    """All completions of a question's requests."""

    question: Question
    completions: Sequence[Completion]
    spec: RunSpec
    #: Reads them, if the requests were a further step of the mode.
    follow_up: Callable[[Sequence[Completion]], Reading | FollowUp] | None = None

    @property
    def is_slow(self) -> bool:
        """Whether another process should read it. A `follow_up` cannot be sent to one."""
        return self.spec.mode.read_by_rules and self.follow_up is None


#: Reads all that it is given, in order.
Reader: TypeAlias = Callable[[Sequence[Unread]], list[Found]]


def read_here(unread: Sequence[Unread]) -> list[Found]:
    """`Reader` in this process."""
    return [_read(each) for each in unread]


def _read(unread: Unread) -> Found:
    try:
        if unread.follow_up:
            return unread.follow_up(unread.completions)
        completions = [_whole(each, unread.spec.answer_prefix) for each in unread.completions]
        return MODES[unread.spec.mode].read(unread.question, completions, unread.spec)
    except Exception as trouble:  # noqa: BLE001 - an unreadable answer only fails its question
        return trouble


def _whole(completion: Completion, prefix: str) -> Completion:
    """Return the completion with the words before each text that it continues: only together are they an answer."""
    if not prefix or not completion.texts:
        return completion
    texts = tuple([replace(each, text=prefix + each.text) for each in completion.texts])
    return completion._replace(texts=texts, prompt_end=completion.prompt_end.removesuffix(prefix))


class ReadingProcesses:
    """`Reader` that has slow texts read by `count` other processes, and reads all others here. Thread-safe.

    Once one of the processes has ended, everything is read here.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ProcessPoolExecutor | None = None

    def start(self) -> None:
        """Start the processes, if there are to be any and the system has room. They die with the thread that calls."""
        if not self._count:
            return
        # The processes inherit this: only the worker decides what Ctrl-C means, even while they are starting.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._pool = ProcessPoolExecutor(
                self._count, mp_context=multiprocessing.get_context("spawn"), initializer=_set_up
            )
            for _ in range(self._count):  # the pool starts a process for each call, as long as none is idle
                self._pool.submit(os.getpid)
        except OSError as trouble:  # a full /dev/shm, which has the pool's locks, or a limit of processes
            self.close()
            self._pool = None
            log.warning("no process reads texts beside the worker, which reads them itself: %s", trouble)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)

    def __call__(self, unread: Sequence[Unread]) -> list[Found]:
        """Read all of `unread`, in order."""
        slow = [i for i, each in enumerate(unread) if each.is_slow]
        found: dict[int, Found] = {}
        if self._pool is not None and len(slow) >= FEWEST:
            try:
                self._read_apart(self._pool, unread, slow, found)
            except Exception as trouble:  # noqa: BLE001 - the rest can be read here
                self._note(trouble)
        return [found[i] if i in found else _read(each) for i, each in enumerate(unread)]

    def close(self) -> None:
        """End the processes. May be called twice."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    @staticmethod
    def _read_apart(pool: Executor, unread: Sequence[Unread], slow: Sequence[int], found: dict[int, Found]) -> None:
        """Have those of `unread` at the positions `slow` read by `pool`; add what it reads to `found`."""
        specs = {id(each.spec): each.spec for each in unread}
        # The rules only ask whether there are examples. To send all of them would take longer than to read the texts.
        small = {key: spec.without_examples() for key, spec in specs.items()}
        parts = list(chunks(slow, TOGETHER))
        sent = [
            pool.submit(read_here, [unread[i]._replace(spec=small[id(unread[i].spec)]) for i in part]) for part in parts
        ]
        for part, future in zip(parts, sent, strict=True):
            found.update(zip(part, future.result(), strict=True))

    def _note(self, trouble: Exception) -> None:
        if isinstance(trouble, BrokenProcessPool) and self._pool:
            self._pool = None
            log.warning("a process that reads texts has ended: the worker reads them itself from now on")
        else:
            log.debug("texts were not read by another process", exc_info=trouble)


def _set_up() -> None:
    logs.set_up(os.environ.get(variables.WORKER_NAME, ""))
    follow_parent()
