"""Connection to one model on an OpenAI-compatible server."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from typing import Any, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from contract.errors import SettingsError, WaitEnded, first_line
from contract.settings import OpenAiSettings
from workers.engines.openai import wire
from workers.engines.openai.parameters import Parameters
from workers.engines.openai.refusals import may_be_of_a_proxy
from workers.retries import one_line, sleep_unless

__all__ = ["Connection", "RateLimiter"]

log = logging.getLogger(__name__)

SERVER_ERROR = 500
#: The status by which most servers made with FastAPI refuse a malformed request.
MALFORMED = 422
#: How long a connection may take to be made. A wrong address may not even refuse one, and each of a request's attempts
#: would wait as long as for an answer.
CONNECT_S = 10.0
#: The client's own pauses are no longer than this, in seconds; servers may ask for two minutes before each retry.
LONG_S = 8.0


class RateLimiter:
    """Lets `per_minute` callers through per minute, evenly spaced; 0 means no limit. Thread-safe."""

    def __init__(
        self,
        per_minute: float,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval_s = 60 / per_minute if per_minute else 0.0
        self._now, self._sleep = now, sleep
        self._lock = threading.Lock()
        self._next_at = 0.0

    def wait(self) -> None:
        """Block until it is the caller's turn."""
        if not self._interval_s:
            return
        with self._lock:
            turn_at = max(self._now(), self._next_at)
            self._next_at = turn_at + self._interval_s
        if (pause_s := turn_at - self._now()) > 0:
            self._sleep(pause_s)


class Connection:
    """HTTP connection to one model on one server; requests are made in the way that the model takes them.

    Once `stopping`, a request that nothing answers, or that the server wants only after a long pause, is not made
    again, but raises WaitEnded. Raises SettingsError for a proxy in the environment that cannot be used.
    """

    def __init__(self, server: OpenAiSettings, stopping: Callable[[], bool] = lambda: False) -> None:
        from openai import DefaultHttpxClient, Timeout

        try:
            http_client = DefaultHttpxClient(event_hooks={"response": [_correct_status]})
        except (ImportError, ValueError) as trouble:  # SOCKS needs a package of its own; or an unknown kind of proxy
            hint = "Name an HTTP proxy, or unset HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, in capitals or not."
            said = f"The environment names a proxy that cannot be used: {first_line(trouble)}."
            raise SettingsError(said, hint=hint) from None
        self.server = server
        self.parameters = Parameters()
        self._pauses: dict[int, str] = {}
        self.client: Any = _interruptible(stopping, self._long_pause)(
            base_url=server.base_url,
            api_key=server.api_key.get_secret_value() or "none",  # the client requires one
            timeout=Timeout(server.timeout_s, connect=min(CONNECT_S, server.timeout_s)),
            max_retries=server.max_retries,
            http_client=http_client,
        )
        self.rate_limiter = RateLimiter(server.requests_per_minute)
        #: Models that answered by the name by which they were asked for.
        self._answering: set[str] = set()

    @property
    def waits_for(self) -> str:
        """The server and what it said, while a request waits for long because it asked for that; else empty."""
        return next(iter(self._pauses.copy().values()), "")

    @contextmanager
    def _long_pause(self, refusal: Exception, pause_s: float) -> Iterator[None]:
        said = f"the server, which wants {pause_s:.0f} s to pass before a retry: {self.says(refusal)}"
        if not self._pauses:
            log.warning("waiting for %s", said)
        self._pauses[threading.get_ident()] = said
        try:
            yield
        finally:
            del self._pauses[threading.get_ident()]

    def with_retries(self, most: int) -> Connection:
        """Return this connection with at most `most` retries of a request. Both share what they learn of parameters."""
        other = copy(self)
        other.client = self.client.with_options(max_retries=min(self.server.max_retries, most))
        return other

    def post(self, asked: wire.Asked, **more: Any) -> dict[str, Any]:
        """Return the server's answer, which has choices, to `asked` with `more` in its body. Raises OpenAIError."""
        path, body = asked
        self.rate_limiter.wait()
        return self._answer(path, "choices", {**body, **more})

    def tokenize(self, **body: Any) -> dict[str, Any]:
        """Return the server's answer, which has a token count. Raises OpenAIError if the server does not count."""
        return self._answer(f"{self.server.base_url.removesuffix('/v1')}/tokenize", "count", body)

    def _answer(self, path: str, expected: str, body: dict[str, Any]) -> dict[str, Any]:
        from openai import BadRequestError, OpenAIError, UnprocessableEntityError

        asked = {"model": self.server.model, **self.parameters.taken(body)}
        try:
            answer = self.client.post(path, cast_to=object, body=asked)
        except (BadRequestError, UnprocessableEntityError) as trouble:
            known = self.parameters.known
            if not self.parameters.learn(trouble, asked):
                raise
            if self.parameters.known > known:
                log.info("%s", self.says(one_line(f"{self.server.model} is asked in another way: {trouble}")))
            return self._answer(path, expected, body)
        except (RecursionError, ValueError) as trouble:  # a body that is empty, cut off, or nested too deeply
            raise OpenAIError(f"an answer that is not JSON: {trouble}") from None
        if not isinstance(answer, dict) or not answer.get(expected):  # an error with status 200 that names no other
            raise OpenAIError(f"an answer without {expected}: {str(answer)[:200]}")
        self._refuse_another_model(asked["model"], answer.get("model"))
        return cast("dict[str, Any]", answer)

    def _refuse_another_model(self, asked: str, answered: object) -> None:
        """Raise OpenAIError if another model answered than `asked`, which has answered by that name before.

        A proxy may fall back to another model while it does not reach the one that it is asked for, or for a prompt
        that is too long for that. Only the name in the answer tells, which many servers write in their own way, or with
        the model's date behind it.
        """
        from openai import OpenAIError

        if answered == asked:
            self._answering.add(asked)
            return
        named = answered if isinstance(answered, str) else ""
        dated = re.fullmatch(rf"{re.escape(asked)}[-@:]\d[\d-]*", named)
        if named and not dated and asked in self._answering:
            raise OpenAIError(f"an answer of {answered!r} instead of {asked!r}: does a proxy fall back to that model?")

    def says(self, trouble: Exception | str) -> str:
        """Return the trouble as text safe to show and store.

        Some servers repeat the key, which is removed. Others quote half of a surrogate pair, which no UTF-8 can hold.
        """
        key = self.server.api_key.get_secret_value()
        way = _proxy_to(self.server.base_url) if may_be_of_a_proxy(trouble) else ""
        text = " ".join(f"{self.server.base_url}{way}: {_in_words(trouble)}{_redirected(trouble)}".split())
        return (text.replace(key, "…") if key else text).encode("utf-8", "backslashreplace").decode()


def _interruptible(
    stopping: Callable[[], bool], long_pause: Callable[[Exception, float], AbstractContextManager[None]]
) -> type[Any]:
    """Return OpenAI's client whose pauses before a retry end once `stopping`, unless the server is only busy.

    It then answers soon, and other texts are being written. A pause that the server wants to be long is a `long_pause`.
    """
    from openai import OpenAI

    class Interruptible(OpenAI):
        def _sleep_for_retry(self, *, retries_taken: int, max_retries: int, options: Any, response: Any) -> None:
            headers = None if response is None else response.headers
            pause_s = self._calculate_retry_timeout(max_retries - retries_taken, options, headers)
            if response is None:
                wait(pause_s, "its server did not answer")
            elif pause_s <= LONG_S:
                time.sleep(pause_s)
            else:
                with long_pause(self._make_status_error_from_response(response), pause_s):
                    wait(pause_s, "its server wanted a pause")

    def wait(pause_s: float, why: str) -> None:
        if not sleep_unless(stopping, pause_s):
            raise WaitEnded(f"The worker stopped while {why}.")

    return Interruptible


def _proxy_to(url: str) -> str:
    """Return that the environment names a proxy for requests to `url`; empty if it names none.

    The client and urllib read NO_PROXY in the same way, but for networks such as 10.0.0.0/8.
    """
    server = urlsplit(url)
    named = getproxies()
    found = named.get(server.scheme) or named.get("all")
    if not found or proxy_bypass(server.netloc):
        return ""
    proxy = found.rpartition("@")[2].rpartition("://")[2]  # without a password
    return f" (through the environment's proxy {proxy}, unless NO_PROXY lists this server)"


def _in_words(trouble: Exception | str) -> str:
    """Return the trouble as text, with the answer's body: the client itself repeats only a `message` of that."""
    body = getattr(trouble, "body", None)
    said = body.get("message") if isinstance(body, dict) else None
    if not body or isinstance(said, str) or str(body).startswith("<"):  # a proxy's page says nothing more
        return str(trouble)
    return f"{trouble} - {one_line(str(body))}"


def _redirected(trouble: Exception | str) -> str:
    """Return where the refused request was sent on to, if it was: on the way, it may have lost its body or its key."""
    response: Any = getattr(trouble, "response", None)
    if not getattr(response, "history", None):
        return ""
    return f" - after a redirect to {response.url}: name that server itself"


def _correct_status(response: Any) -> None:
    """Give two kinds of refusals the status that the client goes by when it decides whether to retry.

    One sent with status 200, as by OpenRouter when a server behind it fails, gets the status that its error names, and
    is retried after the delay that the server asks for. One that calls a malformed request an internal error (500) gets
    `MALFORMED`, and is not retried.
    """
    if response.is_success:
        response.read()
        response.status_code = wire.refused_with(response.content) or response.status_code
    elif response.status_code == SERVER_ERROR:
        response.read()
        response.status_code = MALFORMED if wire.could_not_be_checked(response.content) else SERVER_ERROR
