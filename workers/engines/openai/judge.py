"""Requests to a judge. One that serves nobody for now is not waited for in place, but watched until it serves again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from contract.verdict import Failure
from workers.engines.base import NotServed
from workers.engines.openai.client import Answer, Client
from workers.engines.openai.connection import Connection
from workers.engines.openai.patience import refusal
from workers.engines.openai.refusals import is_of_all

if TYPE_CHECKING:
    from openai import OpenAIError

__all__ = ["JudgeClient"]

log = logging.getLogger(__name__)

#: Pause between small requests to a judge that serves nobody, in seconds. A wrong key should not be sent every second.
WAIT_S = 5.0


class JudgeClient(Client):
    """Asks a judge on a server. While that serves nobody, all requests fail at once, with `NotServed`.

    To wait in place, as for the server of the model under test (`Patience`), would hold up the questions of all other
    runs. Whatever the judge refuses everybody for, its questions can wait: a key or an address may be put right.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._closed = threading.Event()
        self._asking = threading.Lock()
        self._served_at = float("-inf")
        #: The judge, what it said first, and what to do about it, while it serves nobody; else empty.
        self._waits_for = ""

    @property
    def waits_for(self) -> str:
        return self._waits_for

    def answered(self, ask: Callable[[], Answer]) -> Answer | Failure:
        from openai import OpenAIError

        if not (waits_for := self._waits_for):
            try:
                return ask()
            except OpenAIError as trouble:
                if not (waits_for := self._waits_for_after(trouble)):
                    return self._refused(trouble, _remedy(trouble))
        return NotServed(type=NotServed.__name__, message=waits_for)

    def close(self) -> None:
        self._closed.set()

    def _waits_for_after(self, refused: OpenAIError) -> str:
        """Find out, with a small request, whether the judge that refused a request refuses everybody; if so, watch it.

        Return `waits_for`, which is empty if it does not.
        """
        refused_at = time.monotonic()
        with self._asking:
            if not self._waits_for and self._served_at < refused_at:
                asked_at = time.monotonic()
                found = refusal(self._connection, in_chat=True)
                if found is None or not is_of_all(refused, found):
                    self._served_at = asked_at
                else:
                    self._waits_for = f"{self._connection.says(found)} {_remedy(found)}"
                    log.warning("the judge serves nobody for now: %s", self._waits_for)
                    threading.Thread(target=self._watch, args=(found,), name="judge", daemon=True).start()
            return self._waits_for

    def _watch(self, refused: OpenAIError) -> None:
        """Make small requests until the judge serves again."""
        while not self._closed.wait(WAIT_S):
            try:
                found = refusal(self._connection, in_chat=True)
            except RuntimeError:
                if self._closed.is_set():  # and with it the client, while a request began
                    return
                raise
            if found is None or not is_of_all(refused, found):
                self._waits_for = ""
                log.warning("the judge at %s serves again", self._connection.server.base_url)
                return


def _remedy(trouble: OpenAIError) -> str:
    """Return which setting of the judge may be at fault."""
    from openai import APIConnectionError, AuthenticationError, NotFoundError, PermissionDeniedError

    if isinstance(trouble, AuthenticationError | PermissionDeniedError):
        return "The judge rejects the key: set MCQUEUE_JUDGE_API_KEY for the workers, and restart them."
    if isinstance(trouble, APIConnectionError):
        return "The judge does not answer: is judge.server correct, running, and reachable from the workers?"
    if isinstance(trouble, NotFoundError):
        return "Check judge.server and judge.model. To change them, cancel the run and enqueue it anew."
    return "This is what judge.server answers."
