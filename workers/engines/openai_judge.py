"""A judge that serves nobody for now: it is not waited for in place, but watched until it serves again."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from workers.engines import openai_patience as patience
from workers.engines.openai_server import Connection

if TYPE_CHECKING:
    from openai import OpenAIError

__all__ = ["JudgeWatch"]

log = logging.getLogger(__name__)


class JudgeWatch:
    """Finds out whether a judge's refusal concerns one request or all; in the latter case watches the judge.

    To wait in place, as for the server of the model under test (`Patience`), would hold up the questions of all other
    runs. A judge that has never answered anything is not watched: its address may be wrong. Thread-safe.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._closed = threading.Event()
        self._asking = threading.Lock()
        #: Whether it has ever answered, if only with a refusal.
        self._is_there = False
        self._served_at = float("-inf")
        #: The judge and what it said first, while it serves nobody; else empty.
        self.waits_for = ""

    def served(self) -> None:
        """Record that the judge has answered a request."""
        self._is_there = True

    def serves_nobody(self, trouble: OpenAIError) -> bool:
        """Return whether the judge, after `trouble` with one request, does not answer a small one either."""
        refused_at = time.monotonic()
        if not self._may_end(trouble):
            return False
        with self._asking:
            if not self.waits_for and self._served_at < refused_at:
                asked_at = time.monotonic()
                found = patience.refusal(self._connection, in_chat=True)
                if found is None or not self._may_end(found):
                    self._served_at = asked_at
                    return False
                self.waits_for = self._connection.says(found)
                log.warning("the judge serves nobody for now: %s", self.waits_for)
                threading.Thread(target=self._watch, name="judge", daemon=True).start()
            return bool(self.waits_for)

    def close(self) -> None:
        """End the watch. May be called twice."""
        self._closed.set()

    def _may_end(self, trouble: OpenAIError) -> bool:
        from openai import APIConnectionError

        if isinstance(trouble, APIConnectionError):
            return self._is_there
        self._is_there = True
        return patience.may_end(trouble)

    def _watch(self) -> None:
        while not self._closed.wait(patience.WAIT_S):
            found = patience.refusal(self._connection, in_chat=True)
            if found is None or not self._may_end(found):
                self.waits_for = ""
                log.warning("the judge at %s serves again", self._connection.server.base_url)
                return
