"""One request over a connection to a server: its answer, or why it has none.

OpenAI's own client retries connection errors, time-outs, 429 and 5xx after growing, jittered delays, or after the delay
that the server asks for; also 429 and 5xx that the server sends inside an answer with status 200. What is left then is
decided here. If a server refuses this request only, if there is nothing in an answer or it cannot be read, or if it
broke a text off, the worker retries the question. A text that a content filter withheld is a failure.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from contract.errors import EngineDead, EngineError
from contract.verdict import Failure
from workers.engines.base import UnexpectedFailure
from workers.engines.openai import wire
from workers.engines.openai.connection import Connection
from workers.engines.openai.parameters import remedy
from workers.engines.openai.patience import Patience
from workers.engines.openai.refusals import is_no_answer, is_spent, may_pass

if TYPE_CHECKING:
    from openai import OpenAIError

__all__ = ["Answer", "Client", "ModelClient"]

Answer: TypeAlias = dict[str, Any]

#: Values of `finish_reason` of a text that is no answer. It was broken off, in the words of vLLM and SGLang, of
#: OpenRouter and Mistral, and of DeepSeek; or a filter withheld it, or the rest of it. With any other value, or none, a
#: text is whole: servers have their own words for that (`eos`), and for what a model chose to do (`tool_calls`).
BROKEN_OFF = frozenset({"abort", "error", "insufficient_system_resource"})
WITHHELD = frozenset({"content_filter"})


class Client(abc.ABC):
    """Makes requests, each until it is answered or refused for good. Thread-safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    @abc.abstractmethod
    def waits_for(self) -> str:
        """The server and what it said, while it serves nobody; else empty."""

    @abc.abstractmethod
    def answered(self, ask: Callable[[], Answer]) -> Answer | Failure:
        """Return what `ask` returns, or why it is refused. Raises EngineDead if all others would be as well."""

    @abc.abstractmethod
    def close(self) -> None:
        """End all waiting. May be called twice."""

    def post(self, asked: wire.Asked, **more: Any) -> Answer | Failure:
        """Request a completion, with `more` in its body; return it, or why there is none. Raises EngineDead."""
        answer = self.answered(partial(self._connection.post, asked, **more))
        return answer if isinstance(answer, Failure) else self._unfinished(answer) or answer

    def count_tokens(self, body: dict[str, Any]) -> int:
        """Return the number of tokens in the prompt of `body`. Raises EngineError."""
        answer = self.answered(partial(self._connection.tokenize, **body))
        if isinstance(answer, Failure):
            raise EngineError(f"The server no longer counts tokens: {answer.message}")
        return int(answer["count"])

    def unreadable(self, trouble: Exception) -> UnexpectedFailure:
        """Return the failure of a request whose answer could not be read."""
        said = self._connection.says(f"an answer that cannot be read ({type(trouble).__name__}: {trouble})")
        return UnexpectedFailure(type="Unreadable", message=said)

    def _unfinished(self, answer: Answer) -> Failure | None:
        """Return why the request has no answer if one of its texts did not come to its end; None if all did.

        If one of several texts did not, none is used: the others would be too few votes.
        """
        if how := wire.ended_by(answer, WITHHELD):
            said = self._connection.says(f"the server's content filter withheld the text, or the rest of it ({how})")
            return Failure(type="ContentFiltered", message=said)
        if how := wire.ended_by(answer, BROKEN_OFF):
            said = self._connection.says(f"the server broke the text off ({how})")
            return UnexpectedFailure(type="Unfinished", message=said)
        return None

    def _refused(self, trouble: OpenAIError, hint: str) -> Failure:
        """Return the failure of a request that was refused alone.

        Unexpected if a server that was in trouble for long, or reported success and sent no answer, may answer later.
        """
        kind = UnexpectedFailure if may_pass(trouble) or is_no_answer(trouble) else Failure
        said = self._connection.says(trouble)
        return kind(type=type(trouble).__name__, message=f"{said} {hint}" if hint else said)


class ModelClient(Client):
    """Asks the model under test. While its server refuses everybody, it is waited for."""

    def __init__(self, connection: Connection, patience: Patience, last_words: Callable[[], str]) -> None:
        super().__init__(connection)
        self._patience = patience
        self._last_words = last_words

    @property
    def waits_for(self) -> str:
        return self._patience.waits_for or self._connection.waits_for

    def answered(self, ask: Callable[[], Answer]) -> Answer | Failure:
        from openai import OpenAIError

        while True:
            try:
                return ask()
            except OpenAIError as trouble:
                if is_spent(trouble):
                    return wire.NOTHING_WRITTEN
                if self._outlasted():
                    continue
                return self._refused(trouble, remedy(trouble))

    def close(self) -> None:
        self._patience.close()

    def _outlasted(self) -> bool:
        """Return whether the server refused everybody and now serves again; False if it refused this request only."""
        from openai import OpenAIError

        try:
            return self._patience.outlast()
        except OpenAIError as of_all:
            said = f"The server no longer serves requests: {self._connection.says(of_all)} {self._last_words()}"
            raise EngineDead(said.rstrip()) from None
