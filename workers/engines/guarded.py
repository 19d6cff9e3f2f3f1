"""Guard around any engine: splits calls that run out of memory, and ends the worker if a call hangs."""

from __future__ import annotations

import faulthandler
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from contract.errors import EngineOutOfMemory
from contract.verdict import Failure
from workers.engines.base import Completion, Engine, Part, Request

__all__ = ["GuardedEngine"]

log = logging.getLogger(__name__)

#: Polling interval of the watchdog in seconds; shorter for short deadlines.
LOOK_S = 0.25
#: A request asked alone is asked again this often after running out of memory together with the requests of others.
SHARED_TRIES = 3


@dataclass
class _Shortage:
    """One time that memory ran out, for one call or for several that ran together."""

    trouble: EngineOutOfMemory | None = None
    room_before: int | None = None
    #: Requests in the largest call that met it, so far.
    largest: int = 0


class GuardedEngine(Engine):
    """Wrapper that remembers how many requests fit, and requires `engine` to answer within `batch_deadline_s`.

    An answer to any call counts, as one call may wait long behind the others on a busy engine. Time in which the engine
    waits for something elsewhere (`waits_for`) does not. A call hung in native code cannot be interrupted, so the
    watchdog thread calls `on_hang`, which is expected to end the process.
    """

    def __init__(self, engine: Engine, on_hang: Callable[[], object]) -> None:
        super().__init__(engine.settings)
        self._engine = engine
        engine.answered = self._note_answer
        self._on_hang = on_hang
        self._closed = threading.Event()
        self._numbers = count()
        self._running_since: dict[int, float] = {}
        self._answered_at = float("-inf")
        #: Number of requests known to fit into one call; None while every call has fit.
        self._room: int | None = None
        self._shortage = _Shortage()
        self._learning = threading.Lock()

    def start(self) -> None:
        self._engine.start()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    @property
    def waits_for(self) -> str:
        return self._engine.waits_for

    def answers(self, requests: Sequence[Request]) -> Iterator[Part]:
        left = list(range(len(requests)))
        room_before = self._room
        shared_tries = 0
        while left:
            asked = left[: self._room]
            try:
                for part in self._timed(self._engine.answers([requests[i] for i in asked])):
                    ended = {asked[k]: completion for k, completion in part}
                    left = [i for i in left if i not in ended]
                    shared_tries = 0 if ended else shared_tries
                    yield list(ended.items())
                if not set(asked).isdisjoint(left):  # the engine left some out, and would again: the caller judges
                    return
            except EngineOutOfMemory as trouble:
                if len(asked) > 1:
                    self._make_room(len(asked), trouble)
                elif trouble.shared and shared_tries < SHARED_TRIES:
                    shared_tries += 1
                else:  # this request is too big by itself
                    self._room = room_before
                    yield [(left.pop(0), Completion(error=Failure.of(trouble)))]

    @property
    def counts_tokens(self) -> bool:
        return self._engine.counts_tokens

    def excess_tokens(self, requests: Sequence[Request]) -> list[int]:
        return self._engine.excess_tokens(requests)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._engine.count_tokens(texts)

    def count_prompt_tokens(self, requests: Sequence[Request]) -> list[int]:
        return self._engine.count_prompt_tokens(requests)

    def describe(self) -> dict[str, Any]:
        return self._engine.describe()

    def close(self) -> None:
        self._closed.set()
        self._engine.close()

    def _make_room(self, asked: int, trouble: EngineOutOfMemory) -> None:
        """Halve the size of calls. Of calls that ran out of memory together, the largest was too large."""
        with self._learning:
            if trouble is not self._shortage.trouble:
                self._shortage = _Shortage(trouble, self._room)
            if asked > self._shortage.largest:
                self._shortage.largest = asked
                self._room = min(asked // 2, self._shortage.room_before or asked)
                log.warning("%d requests per call are too many, at most %d from now on: %s", asked, self._room, trouble)

    def _timed(self, parts: Iterator[Part]) -> Iterator[Part]:
        """Pass `parts` through, timing only the wait for each answer and not the caller's handling of it."""
        number = next(self._numbers)
        since = time.monotonic()
        while True:
            self._running_since[number] = since
            try:
                part = next(parts, None)
            finally:
                del self._running_since[number]
            if part is None:
                return
            if part:
                self._note_answer()
            yield part
            if part:
                since = time.monotonic()

    def _note_answer(self) -> None:
        self._answered_at = time.monotonic()

    def _watch(self) -> None:
        deadline_s = self.settings.batch_deadline_s
        while not self._closed.wait(min(LOOK_S, deadline_s / 4)):
            if self._engine.waits_for:
                self._answered_at = time.monotonic()
            oldest = min(self._running_since.copy().values(), default=None)
            if oldest is not None and time.monotonic() - max(oldest, self._answered_at) > deadline_s:
                faulthandler.dump_traceback()  # first: the launcher shows the end of a dead worker's log
                log.critical("the engine has not answered for %g s (batch_deadline_s); treating it as dead", deadline_s)
                self._on_hang()
                return
