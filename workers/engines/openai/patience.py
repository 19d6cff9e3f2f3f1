"""Waiting for a server that refuses everybody for now, without failing the questions that it refuses."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contract.errors import WaitEnded
from contract.turns import one_turn
from workers.engines.openai import wire
from workers.engines.openai.awaiting import TELL_EVERY_S, WAIT_S
from workers.engines.openai.connection import Connection
from workers.engines.openai.parameters import remedy
from workers.engines.openai.refusals import is_spent, may_recover

if TYPE_CHECKING:
    from openai import OpenAIError

__all__ = ["Patience", "refusal"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Finding:
    """What the last small requests showed."""

    #: When the last of them was made: it tells about every refusal before that.
    asked_at: float = float("-inf")
    #: Whether small requests before it were refused, so that the server was waited for.
    waited: bool = False
    #: Why the server serves nobody, if waiting does not help.
    trouble: Exception | None = None


class Patience:
    """Finds out whether a refusal concerns one request or all, and in the latter case waits for the server.

    A refusal does not say which it is: 429 may mean that this request is too large, 403 that this text is not wanted,
    504 that it took too long, and 400 that a key is rejected or a budget used up (Google, xAI, LiteLLM's proxy). So one
    small request is made, on behalf of all that were refused meanwhile. A server of our own (`is_ours`) is not waited
    for: nobody else keeps it busy, and a new engine boots a new one. Thread-safe.
    """

    def __init__(self, connection: Connection, stopping: Callable[[], bool], *, in_chat: bool, is_ours: bool) -> None:
        self._connection = connection
        self._stopping = stopping
        self._in_chat = in_chat
        self._is_ours = is_ours
        self._closed = threading.Event()
        self._asking = threading.Lock()
        self._found = _Finding()
        #: The server and what it last said, while it is waited for; else empty.
        self.waits_for = ""

    def outlast(self) -> bool:
        """After a refusal, wait while the server serves nobody. Return whether that was so: then ask it again.

        Raises the server's OpenAIError if waiting does not help, WaitEnded if the worker stops meanwhile.
        """
        refused_at = time.monotonic()
        with self._asking:
            if self._found.asked_at < refused_at:
                try:
                    self._found = self._find_out()
                finally:
                    self.waits_for = ""
            found = self._found
        if found.trouble is not None:
            raise found.trouble
        return found.waited

    def close(self) -> None:
        """End all waiting. May be called twice."""
        self._closed.set()

    def _find_out(self) -> _Finding:
        """Make small requests until one is answered, or waiting does not help."""
        told_at, waited = float("-inf"), False
        while True:
            asked_at = time.monotonic()
            if (trouble := refusal(self._connection, in_chat=self._in_chat)) is None:
                if waited:
                    log.warning("the server answers again")
                return _Finding(asked_at, waited)
            if self._is_ours or not may_recover(trouble):
                return _Finding(asked_at, waited, trouble)
            waited = True
            said = f"{self._connection.says(trouble)} {remedy(trouble)}".rstrip()
            self.waits_for = f"the server, which refuses everything for now: {said}"
            if asked_at - told_at >= TELL_EVERY_S:
                told_at = asked_at
                log.warning("waiting for %s", self.waits_for)
            if self._stopping() or self._closed.wait(WAIT_S):
                return _Finding(asked_at, waited, WaitEnded(f"The worker stopped while it waited for {self.waits_for}"))


def refusal(connection: Connection, *, in_chat: bool) -> OpenAIError | None:
    """Make a small request; return why the server serves nobody, or None."""
    from openai import OpenAIError

    try:
        connection.with_retries(0).post(wire.asked(one_turn("One, two, three,"), in_chat=in_chat), **wire.ONE_TOKEN)
    except OpenAIError as trouble:
        return None if is_spent(trouble) else trouble
    return None
