"""Requests to a judge. One that serves nobody for now is not waited for in place, but watched until it serves again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from contract.verdict import Failure
from workers.engines.base import NotServed, UnexpectedFailure
from workers.engines.openai import patience
from workers.engines.openai.client import Answer, Client
from workers.engines.openai.connection import Connection
from workers.engines.openai.refusals import is_no_answer, may_pass, may_recover

if TYPE_CHECKING:
    from openai import OpenAIError

__all__ = ["JudgeClient"]

log = logging.getLogger(__name__)


class JudgeClient(Client):
    """Asks a judge on a server. While that serves nobody, all requests fail at once, with `NotServed`."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._watch = JudgeWatch(connection)

    @property
    def waits_for(self) -> str:
        return self._watch.waits_for

    def answered(self, ask: Callable[[], Answer]) -> Answer | Failure:
        from openai import OpenAIError

        if waits_for := self._watch.waits_for:
            return NotServed(type=NotServed.__name__, message=waits_for)
        try:
            answer = ask()
        except OpenAIError as trouble:
            return self._refused(self._kind_of(trouble), trouble, _remedy(trouble))
        self._watch.served()
        return answer

    def close(self) -> None:
        self._watch.close()

    def _kind_of(self, trouble: OpenAIError) -> type[Failure]:
        """Return the kind of failure: one that is retried if the judge was in trouble, or sent no answer.

        If nothing answers at all, it is not retried: the address may be wrong, and later attempts, each made alone,
        would hold up the questions of all other runs for as long as the client waits.
        """
        from openai import APIConnectionError

        if self._watch.serves_nobody(trouble):
            return NotServed
        may_be_answered = may_pass(trouble) or is_no_answer(trouble)
        return UnexpectedFailure if may_be_answered and not isinstance(trouble, APIConnectionError) else Failure


def _remedy(trouble: OpenAIError) -> str:
    """Return which setting of the judge may be at fault."""
    from openai import APIConnectionError, AuthenticationError, NotFoundError, PermissionDeniedError

    if isinstance(trouble, AuthenticationError | PermissionDeniedError):
        return "The judge rejects the key: set MCQUEUE_JUDGE_API_KEY for the workers, and restart them."
    if isinstance(trouble, APIConnectionError):
        return "The judge does not answer: is judge.server correct, running, and reachable from the workers?"
    if isinstance(trouble, NotFoundError):
        return "Check judge.server and judge.model."
    return "This is what judge.server answers."


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
        if not self._may_recover(trouble):
            return False
        with self._asking:
            if not self.waits_for and self._served_at < refused_at:
                asked_at = time.monotonic()
                found = patience.refusal(self._connection, in_chat=True)
                if found is None or not self._may_recover(found):
                    self._served_at = asked_at
                    return False
                self.waits_for = self._connection.says(found)
                log.warning("the judge serves nobody for now: %s", self.waits_for)
                threading.Thread(target=self._watch, name="judge", daemon=True).start()
            return bool(self.waits_for)

    def close(self) -> None:
        """End the watch. May be called twice."""
        self._closed.set()

    def _may_recover(self, trouble: OpenAIError) -> bool:
        from openai import APIConnectionError

        if isinstance(trouble, APIConnectionError):
            return self._is_there
        self._is_there = True
        return may_recover(trouble)

    def _watch(self) -> None:
        while not self._closed.wait(patience.WAIT_S):
            try:
                found = patience.refusal(self._connection, in_chat=True)
            except RuntimeError:
                if self._closed.is_set():  # and with it the client, while a request began
                    return
                raise
            if found is None or not self._may_recover(found):
                self.waits_for = ""
                log.warning("the judge at %s serves again", self._connection.server.base_url)
                return
