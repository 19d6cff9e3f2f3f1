"""Waiting for a server that refuses everybody for now, without failing the questions that it refuses."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from contract.errors import EngineDead
from contract.settings import OpenAiSettings
from contract.turns import one_turn
from workers.engines import openai_wire
from workers.engines.openai_server import TELL_EVERY_S, WAIT_S, Connection, is_away, is_no_answer, may_pass

if TYPE_CHECKING:
    from openai import OpenAIError

__all__ = ["Patience"]

log = logging.getLogger(__name__)

#: Refusals that are about the request: malformed, too large, or with values that the server does not take.
OF_THE_REQUEST = frozenset({400, 413, 422})
#: A server that wants to be paid. Its owner can see to that while the worker waits.
UNPAID = 402


class Patience:
    """Finds out whether a refusal concerns one request or all, and in the latter case waits for the server.

    A refusal does not say which it is: 429 may mean that this request is too large, 403 that this text is not wanted.
    So one small request is made, on behalf of all that were refused meanwhile. Thread-safe.
    """

    def __init__(self, server: OpenAiSettings, *, in_chat: bool) -> None:
        self._connection = Connection(server.model_copy(update={"max_retries": 0}))
        self._in_chat = in_chat
        self._closed = threading.Event()
        self._asking = threading.Lock()
        self._recovered_at = float("-inf")
        #: The server and what it last said, while it is waited for; else empty.
        self.waits_for = ""

    def outlast(self, trouble: OpenAIError) -> bool:
        """Wait while the server serves nobody; return whether it did not, and the request is to be made again.

        Raises the server's OpenAIError if waiting does not help, EngineDead if closed meanwhile.
        """
        if _status(trouble) in OF_THE_REQUEST:
            return False
        if _is_gone(trouble):
            raise trouble
        refused_at = time.monotonic()
        with self._asking:
            if self._recovered_at < refused_at and self._waited():
                self._recovered_at = time.monotonic()
            return self._recovered_at >= refused_at

    def close(self) -> None:
        """End all waiting. May be called twice."""
        self._closed.set()
        self._connection.client.close()

    def _waited(self) -> bool:
        """Return False if the server serves others, else True once it does."""
        told_at = float("-inf")
        try:
            while (trouble := self._refused()) is not None:
                if not _may_end(trouble):
                    raise trouble
                self.waits_for = f"the server, which refuses everything for now: {self._connection.says(trouble)}"
                if time.monotonic() - told_at >= TELL_EVERY_S:
                    told_at = time.monotonic()
                    log.warning("waiting for %s", self.waits_for)
                if self._closed.wait(WAIT_S):
                    raise EngineDead("The engine was closed while it waited for the server.")
            if waited := bool(self.waits_for):
                log.warning("the server answers again")
            return waited
        finally:
            self.waits_for = ""

    def _refused(self) -> OpenAIError | None:
        """Make a small request; return why the server serves nobody, or None."""
        from openai import OpenAIError

        path, body = openai_wire.asked(one_turn("One, two, three,"), in_chat=self._in_chat)
        try:
            self._connection.post(path, **body, max_tokens=1, temperature=0)
        except OpenAIError as trouble:
            return None if _status(trouble) in OF_THE_REQUEST else trouble
        return None


def _status(trouble: OpenAIError) -> int | None:
    return getattr(trouble, "status_code", None)


def _is_gone(trouble: OpenAIError) -> bool:
    """Whether there is no server any more. One that only takes too long may be busy."""
    from openai import APITimeoutError

    return is_away(trouble) and not isinstance(trouble, APITimeoutError)


def _may_end(trouble: OpenAIError) -> bool:
    """Whether a server that refuses everybody like this may serve them later, without anything done to the worker."""
    return not _is_gone(trouble) and (may_pass(trouble) or is_no_answer(trouble) or _status(trouble) == UNPAID)
