"""Around any engine: a call that is too big for memory is made smaller, and one that never ends ends the worker."""

from __future__ import annotations

import faulthandler
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from contract.errors import EngineOutOfMemory
from contract.verdict import Failure
from workers.engines.base import Completion, Engine, Part, Request, in_order

__all__ = ["GuardedEngine"]

log = logging.getLogger(__name__)

#: How often the watchdog looks, in seconds; more often where deadlines are shorter.
LOOK_S = 0.25


class GuardedEngine(Engine):
    """`engine` with a memory of what fits, and a deadline: one that is asked has to answer within `batch_deadline_s`.

    Any call will do, as one may wait long behind the others of a busy engine. A hung call cannot be taken back from
    native code, so `on_hang` is called, from the watchdog's thread, and is expected to end the process.
    """

    def __init__(self, engine: Engine, on_hang: Callable[[], object]) -> None:
        super().__init__(engine.settings)
        self._engine = engine
        self._on_hang = on_hang
        self._closed = threading.Event()
        self._numbers = count()
        self._running_since: dict[int, float] = {}
        self._answered_at = float("-inf")
        #: Requests that fit into one call as far as is known; None: all that came so far.
        self._room: int | None = None

    def start(self) -> None:
        self._engine.start()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        return in_order(self.answers(requests), len(requests))

    def answers(self, requests: Sequence[Request]) -> Iterator[Part]:
        left = list(range(len(requests)))
        room_before = self._room
        while left:
            asked = left[: self._room]
            try:
                for part in self._timed(self._engine.answers([requests[i] for i in asked])):
                    ended = {asked[k]: completion for k, completion in part}
                    left = [i for i in left if i not in ended]
                    yield list(ended.items())
            except EngineOutOfMemory as trouble:
                if len(asked) > 1:
                    self._room = len(asked) // 2
                    log.warning(
                        "%d requests in a call are too many, %d from now on: %s", len(asked), self._room, trouble
                    )
                else:  # it was this request's size, and not the number of them
                    self._room = room_before
                    yield [(left.pop(0), Completion(error=Failure(type=type(trouble).__name__, message=str(trouble))))]

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

    def _timed(self, parts: Iterator[Part]) -> Iterator[Part]:
        """`parts`; the deadline's clock runs while one is awaited, not while the caller deals with it."""
        number = next(self._numbers)
        while True:
            self._running_since[number] = time.monotonic()
            try:
                part = next(parts, None)
            finally:
                del self._running_since[number]
            if part is None:
                return
            self._answered_at = time.monotonic()
            yield part

    def _watch(self) -> None:
        deadline_s = self.settings.batch_deadline_s
        while not self._closed.wait(min(LOOK_S, deadline_s / 4)):
            oldest = min(self._running_since.copy().values(), default=None)
            if oldest is not None and time.monotonic() - max(oldest, self._answered_at) > deadline_s:
                log.critical("the engine has not answered for %g s (batch_deadline_s): it counts as dead", deadline_s)
                faulthandler.dump_traceback()
                self._on_hang()
                return
