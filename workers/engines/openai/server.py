"""Connection to an OpenAI-compatible server, and probing of its capabilities."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from contract.errors import EngineError, SettingsError, nearest
from contract.settings import OpenAiSettings
from contract.turns import one_turn
from workers.engines.openai import wire
from workers.engines.openai.echo import chat_scores, echoed
from workers.engines.openai.parameters import Parameters
from workers.retries import one_line

if TYPE_CHECKING:
    from openai import OpenAIError

__all__ = ["Connection", "Offers", "RateLimiter", "await_server", "find_out", "is_no_answer", "is_spent", "may_pass"]

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Numbers of next tokens to request, in this order; OpenAI's own plain completions list at most 5.
TOP_WANTED = (20, 5)
#: What is continued to learn this.
PROMPT = "One, two, three,"
#: A next token that certainly is the same where it is part of a prompt.
WORD = re.compile(" [A-Za-z]+")
#: How far two log-probabilities of the same token may be apart, in nats: they are computed in different ways.
MOST_APART = 1.0
#: How far above zero a log-probability may be. What exceeds it is none: some servers can list logits instead.
ROUNDING = 0.01
#: A server may report an unsupported feature as a server error, so probes are retried only a few times.
PROBE_RETRIES = 2
WAIT_S = 1.0
#: Time limit of the request that finds out whether a server is there: a host that is gone may never refuse it.
HELLO_S = 10.0
#: Interval between log messages about a server that does not answer.
TELL_EVERY_S = 30.0
#: What a proxy answers while the server behind it is not up. Other errors, even a 500, may only mean that the server
#: does not list its models.
NOT_UP = frozenset({502, 503, 504})
#: What OpenAI answers if a model's hidden reasoning took all tokens that the text might have had.
SPENT = "Could not finish the message because max_tokens or model output limit was reached"
#: Refusals that may pass, besides all server errors: time-out, conflict, too many requests.
MAY_PASS = frozenset({408, 409, 429})


@dataclass(frozen=True, slots=True)
class Offers:
    """What a server offers for one model."""

    chat: bool = False
    plain: bool = False
    #: How many of the likeliest next tokens it lists with log-probabilities.
    chat_top: int = 0
    plain_top: int = 0
    #: Whether it returns log-probabilities of the prompt's own tokens.
    chat_echo: bool = False
    plain_echo: bool = False
    #: The model's context in tokens, if the server counts tokens of a prompt (vLLM's `/tokenize`), else 0.
    context: int = 0

    @property
    def logprobs(self) -> bool:
        """Whether it gives any log-probabilities."""
        return any((self.chat_top, self.plain_top, self.chat_echo, self.plain_echo))

    def described(self) -> str:
        """Return in words what can be asked of it, in chat and in plain completions."""
        chat, plain = _scores(self.chat_echo, self.chat_top), _scores(self.plain_echo, self.plain_top)
        if self.chat and self.plain:
            if chat == plain:
                return f"chat and plain completions: {chat}"
            return f"chat completions: {chat}; plain completions (chat_template: never): {plain}"
        return f"chat completions: {chat}" if self.chat else f"plain completions: {plain}"


def _scores(echo: bool, top: int) -> str:
    if echo:
        return "log-probabilities of any text"
    if top:
        return f"log-probabilities of the {top} likeliest next tokens only"
    return "no log-probabilities, so only modes that generate text can be used"


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
    """HTTP connection to one model on one server; requests are made in the way that the model takes them."""

    def __init__(self, server: OpenAiSettings) -> None:
        from openai import DefaultHttpxClient, OpenAI

        self.server = server
        self.parameters = Parameters()
        self.client: Any = OpenAI(
            base_url=server.base_url,
            api_key=server.api_key.get_secret_value() or "none",  # the client requires one
            timeout=server.timeout_s,
            max_retries=server.max_retries,
            http_client=DefaultHttpxClient(event_hooks={"response": [_as_its_error_says]}),
        )
        self.pacer = RateLimiter(server.requests_per_minute)

    def with_retries(self, most: int) -> Connection:
        """Return the same connection with at most so many retries of a request; the two learn from each other."""
        other = copy(self)
        other.client = self.client.with_options(max_retries=min(self.server.max_retries, most))
        return other

    def post(self, path: str, *, once: bool = False, **body: Any) -> dict[str, Any]:
        """Return the server's answer, which has choices; `once` means without retries. Raises OpenAIError."""
        self.pacer.wait()
        return self._answer(path, "choices", body, {"max_retries": 0} if once else {})

    def tokenize(self, **body: Any) -> dict[str, Any]:
        """Return the server's answer, which has a token count. Raises OpenAIError if the server does not count."""
        return self._answer(f"{self.server.base_url.removesuffix('/v1')}/tokenize", "count", body)

    def _answer(
        self, path: str, expected: str, body: dict[str, Any], options: Mapping[str, Any] = MappingProxyType({})
    ) -> dict[str, Any]:
        from openai import BadRequestError, OpenAIError, UnprocessableEntityError

        asked = {"model": self.server.model, **self.parameters.taken(body)}
        try:
            answer = self.client.post(path, cast_to=object, body=asked, options=options)
        except (BadRequestError, UnprocessableEntityError) as trouble:
            known = self.parameters.known
            if not self.parameters.learn(trouble, asked):
                raise
            if self.parameters.known > known:
                log.info("%s", self.says(f"{self.server.model} is asked in another way: {trouble}"))
            return self._answer(path, expected, body, options)
        except ValueError as trouble:  # a body that is empty or cut off
            raise OpenAIError(f"an answer that is not JSON: {trouble}") from None
        if not isinstance(answer, dict) or not answer.get(expected):  # an error with status 200 that names no other
            raise OpenAIError(f"an answer without {expected}: {str(answer)[:200]}")
        return cast("dict[str, Any]", answer)

    def says(self, trouble: Exception | str) -> str:
        """Return the trouble as text safe to show: some servers repeat the key, which is removed."""
        key = self.server.api_key.get_secret_value()
        text = f"{self.server.base_url}: {_in_words(trouble)}"
        return text.replace(key, "…") if key else text


def _in_words(trouble: Exception | str) -> str:
    """Return the trouble with what the server says: of an answer's body, the client repeats only a `message`."""
    body = getattr(trouble, "body", None)
    said = body.get("message") if isinstance(body, dict) else None
    if not body or isinstance(said, str) or str(body).startswith("<"):  # a proxy's page says nothing more
        return str(trouble)
    return f"{trouble} - {one_line(str(body))}"


def _as_its_error_says(response: Any) -> None:
    """Give a refusal that was sent with status 200 the status that its error names.

    The client then treats it like any other, and retries it after the delay that the server asks for. OpenRouter sends
    such refusals when a server behind it fails.
    """
    if response.is_success:
        response.read()
        response.status_code = wire.refused_with(response.content) or response.status_code


def is_no_answer(trouble: OpenAIError) -> bool:
    """Whether the server reported success, and sent something else than an answer."""
    from openai import APIError

    return not isinstance(trouble, APIError)


def is_spent(trouble: OpenAIError) -> bool:
    """Whether the limit of tokens was used up before the text began, which other servers report as an empty text."""
    from openai import BadRequestError

    return isinstance(trouble, BadRequestError) and SPENT in str(trouble)


def may_pass(trouble: OpenAIError) -> bool:
    """Whether the same request may be answered later: the server was away, busy or in trouble, and refused nothing."""
    from openai import APIConnectionError, APIStatusError

    if isinstance(trouble, APIStatusError):
        return trouble.status_code in MAY_PASS or trouble.status_code >= 500
    return isinstance(trouble, APIConnectionError)


def is_away(trouble: OpenAIError) -> bool:
    """Whether nothing answers for now, for any request: no connection, or a proxy that does not reach the server."""
    from openai import APIConnectionError, APIStatusError

    if isinstance(trouble, APIStatusError):
        return trouble.status_code in NOT_UP
    return isinstance(trouble, APIConnectionError)


def find_out(connection: Connection, timeout_s: float = 0) -> Offers:
    """Probe what the server offers and which parameters its model takes, with one-token requests.

    If it answers none of them, raises EngineError after `timeout_s` if all may be answered later, else SettingsError.
    """
    probed = connection.with_retries(PROBE_RETRIES)
    offers = _until_answered(lambda: _offers(probed), timeout_s)
    connection.parameters.settle()
    return offers


def _offers(connection: Connection) -> Offers:
    probe = _Probe(connection)
    chat, in_chat = probe.next_tokens(in_chat=True)
    plain, listed = probe.next_tokens(in_chat=False)
    if not chat and not plain:
        kind = EngineError if all(map(may_pass, probe.refused)) else SettingsError
        said = connection.says(probe.refused[0])
        raise kind(f"The server answers no test request. {said}", hint=_nearest_model(connection))
    probe.samples(in_chat=chat)
    chat_top, chat_echo = probe.chat_scores(len(in_chat)) if chat else (0, False)
    # Servers that decode each token alone drop the space before a word, and with it what tells two tokens apart.
    drops_spaces = bool(listed) and not any(token[:1].isspace() for token in listed)
    return Offers(
        chat=chat,
        plain=plain,
        chat_top=0 if drops_spaces and chat_echo else chat_top,
        plain_top=0 if drops_spaces else len(listed),
        chat_echo=chat_echo,
        plain_echo=plain and probe.echoes(listed),
        context=probe.context(),
    )


@dataclass
class _Probe:
    """Requests made only to learn what the server supports."""

    connection: Connection
    #: Errors of the requests that were not answered.
    refused: list[OpenAIError] = field(default_factory=list)

    def next_tokens(self, *, in_chat: bool) -> tuple[bool, dict[str, float]]:
        """Return whether there are completions at all, and the likeliest next tokens with their log-probabilities."""
        path, body = wire.asked(one_turn(PROMPT), in_chat=in_chat)
        for wanted in (*TOP_WANTED, 0):
            answer = self._tried(path, **body, max_tokens=1, temperature=0, **wire.top(wanted, in_chat=in_chat))
            if answer is not None:
                found = wire.next_tokens(answer["choices"][0])
                return True, found if all(value <= ROUNDING for value in found.values()) else {}
        return False, {}

    def samples(self, *, in_chat: bool) -> None:
        """Have the server refuse what its model does not take of a request for a text."""
        path, body = wire.asked(one_turn(PROMPT), in_chat=in_chat)
        self._tried(path, **body, max_tokens=1, temperature=0, top_p=1, n=1, seed=0)

    def echoes(self, listed: Mapping[str, float]) -> bool:
        """Whether log-probabilities of the prompt's own tokens are returned, and agree with those `listed` behind it.

        llama-cpp-python's are those of other positions if the model has no token that starts a text.
        """
        words = sorted(filter(WORD.fullmatch, listed), key=lambda each: -listed[each])
        word = words[0] if words else " four"
        path, body = wire.echo(one_turn(PROMPT), word, in_chat=False)
        answer = self._tried(path, **body)
        try:
            found = echoed(answer).logprobs[-1] if answer is not None else None
        except wire.UNREADABLE:
            return False
        return found is not None and abs(found - listed.get(word, found)) < MOST_APART

    def chat_scores(self, listed: int) -> tuple[int, bool]:
        """Return how many of the `listed` next tokens can be used in a chat, and whether any text can be scored."""
        answers = [self._tried(path, **body) for path, body in wire.one_more_token()]
        answered = [each for each in answers if each is not None]
        return chat_scores(answered, listed) if len(answered) == len(answers) else (listed, False)

    def context(self) -> int:
        """Return the model's context in tokens, if the server counts tokens, else 0."""
        from openai import OpenAIError

        try:
            return int(self.connection.tokenize(prompt="One, two,").get("max_model_len") or 0)
        except (OpenAIError, TypeError, ValueError):
            return 0

    def _tried(self, path: str, **body: Any) -> dict[str, Any] | None:
        from openai import OpenAIError, RateLimitError

        try:
            return self.connection.post(path, **body)
        except RateLimitError as trouble:  # says nothing about what it offers
            hint = "Does it limit requests? Set openai.requests_per_minute."
            raise EngineError(f"The server is busy: {self.connection.says(trouble)}", hint=hint) from None
        except OpenAIError as trouble:
            if is_spent(trouble):
                return wire.NOTHING_WRITTEN
            self.refused.append(trouble)
            return None


def await_server(connection: Connection, timeout_s: float) -> None:
    """Wait until the server answers, and log for which.

    Raises EngineError after `timeout_s`, SettingsError if it rejects the key.
    """
    impatient = connection.client.with_options(max_retries=0, timeout=min(connection.server.timeout_s, HELLO_S))
    _until_answered(lambda: _greet(connection, impatient), timeout_s)


def _greet(connection: Connection, client: Any) -> None:
    from openai import AuthenticationError, OpenAIError, PermissionDeniedError

    try:
        client.models.list()
    except (AuthenticationError, PermissionDeniedError) as trouble:
        hint = "Set openai.api_key, preferably as MCQUEUE_OPENAI__API_KEY."
        raise SettingsError(f"The server rejects the key. {connection.says(trouble)}", hint=hint) from None
    except OpenAIError as trouble:
        if is_away(trouble):  # anything else answers, and need not list its models
            hint = "Check openai.url; is the server running?"
            raise EngineError(f"No server answers: {connection.says(trouble)}", hint=hint) from None


def _until_answered(ask: Callable[[], T], timeout_s: float) -> T:
    """Return what `ask` returns; while it raises EngineError, log why and ask again, for up to `timeout_s`."""
    started = time.monotonic()
    told_at = float("-inf")
    while True:
        try:
            return ask()
        except EngineError as trouble:
            waited_s = time.monotonic() - started
            if waited_s > timeout_s:
                raise
            if waited_s - told_at >= TELL_EVERY_S:
                told_at = waited_s
                log.warning("waiting up to %g s for the server at openai.url: %s", timeout_s, trouble)
            time.sleep(WAIT_S)


def _nearest_model(connection: Connection) -> str:
    from openai import OpenAIError

    try:
        known = [each.id for each in connection.client.models.list()]
    except OpenAIError:
        return "Check openai.url and openai.model."
    return nearest(connection.server.model, known) or f"It serves {', '.join(known[:5])}."
