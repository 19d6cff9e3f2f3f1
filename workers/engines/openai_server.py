"""A server that speaks OpenAI's protocol: reaching it, and finding out what it gives."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, cast

from contract.errors import EngineError, SettingsError, nearest
from contract.settings import OpenAiSettings
from contract.turns import one_turn
from workers.engines import openai_wire
from workers.engines.rate_limit import RateLimiter

__all__ = ["Connection", "Offers", "await_server", "find_out"]

#: Next tokens asked for; OpenAI's own plain completions list 5 at most.
TOP_WANTED = (20, 5)
#: A server that lacks something may call that its own error: such are not asked for long.
PROBE_RETRIES = 2
WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Offers:
    """What a server gives for one model."""

    chat: bool = False
    plain: bool = False
    #: How many of the likeliest next tokens come with their log-probabilities.
    chat_top: int = 0
    plain_top: int = 0
    #: Whether the prompt's own tokens do.
    chat_echo: bool = False
    plain_echo: bool = False
    #: Tokens of the model's context, where the server counts those of a prompt (vLLM's `/tokenize`); 0: it does not.
    context: int = 0


class Connection:
    """One model of one server, asked over HTTP."""

    def __init__(self, server: OpenAiSettings) -> None:
        from openai import OpenAI

        self.server = server
        self.client: Any = OpenAI(
            base_url=server.base_url,
            api_key=server.api_key.get_secret_value() or "none",  # the client insists on one
            timeout=server.timeout_s,
            max_retries=server.max_retries,
        )
        self.pacer = RateLimiter(server.requests_per_minute)

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        """The server's answer, which has choices. Raises OpenAIError."""
        self.pacer.wait()
        return self._answer(path, "choices", body)

    def tokenize(self, **body: Any) -> dict[str, Any]:
        """The server's answer, which has a count of tokens. Raises OpenAIError where it counts none."""
        return self._answer(f"{self.server.base_url.removesuffix('/v1')}/tokenize", "count", body)

    def _answer(self, path: str, expected: str, body: dict[str, Any]) -> dict[str, Any]:
        from openai import OpenAIError

        asked = {name: value for name, value in body.items() if value is not None}
        answer = self.client.post(path, cast_to=object, body={"model": self.server.model, **asked})
        if not isinstance(answer, dict) or not answer.get(expected):  # some report errors with status 200
            raise OpenAIError(f"an answer without {expected}: {str(answer)[:200]}")
        return cast("dict[str, Any]", answer)

    def says(self, trouble: Exception) -> str:
        """An error as it may be shown: some servers repeat the key."""
        key = self.server.api_key.get_secret_value()
        text = f"{self.server.base_url}: {trouble}"
        return text.replace(key, "…") if key else text


def find_out(server: OpenAiSettings) -> Offers:
    """What the server gives, by asking for a token of each kind. Raises SettingsError if it gives nothing."""
    connection = Connection(server.model_copy(update={"max_retries": min(server.max_retries, PROBE_RETRIES)}))
    try:
        probe = _Probe(connection)
        chat, chat_top = probe.next_tokens(in_chat=True)
        plain, plain_top = probe.next_tokens(in_chat=False)
        if not chat and not plain:
            raise SettingsError(f"The server answers nothing. {probe.said[0]}", hint=_nearest_model(connection))
        return Offers(
            chat=chat,
            plain=plain,
            chat_top=chat_top,
            plain_top=plain_top,
            chat_echo=chat and probe.echoes(in_chat=True) and probe.continues_turns(),
            plain_echo=plain and probe.echoes(in_chat=False),
            context=probe.context(),
        )
    finally:
        connection.client.close()


@dataclass
class _Probe:
    """Requests that are only made to see what comes back."""

    connection: Connection
    #: What the server said where it refused.
    said: list[str] = field(default_factory=list)

    def next_tokens(self, *, in_chat: bool) -> tuple[bool, int]:
        """Whether there are completions at all, and with how many of the likeliest next tokens."""
        path, body = openai_wire.asked(one_turn("One, two, three,"), in_chat=in_chat)
        for wanted in (*TOP_WANTED, 0):
            answer = self._tried(path, **body, max_tokens=1, temperature=0, **openai_wire.top(wanted, in_chat=in_chat))
            if answer is not None:
                return True, len(openai_wire.next_tokens(answer["choices"][0]))
        return False, 0

    def echoes(self, *, in_chat: bool) -> bool:
        """Whether the prompt's own tokens come with their log-probabilities."""
        path, body = openai_wire.echo(one_turn("One, two,"), " three, four", in_chat=in_chat)
        answer = self._tried(path, **body)
        return answer is not None and any(each is not None for each in openai_wire.prompt_logprobs(answer)[1:-1])

    def continues_turns(self) -> bool:
        """Whether a turn that the model has begun holds, beyond the prompt's tokens, what was begun and nothing else.

        Some chat templates write more before it than before the turn that the model is to begin: Qwen3's, a thought.
        """
        turns = one_turn("One, two,")
        counts = []
        for path, body in (openai_wire.asked(turns, in_chat=True), openai_wire.echo(turns, "A", in_chat=True)):
            answer = self._tried(path, **{"max_tokens": 1, "temperature": 0, **body}) or {}
            counts.append(openai_wire.prompt_tokens(answer.get("usage") or {})[0])
        return counts[1] == counts[0] + 1

    def context(self) -> int:
        """Tokens of the model's context, if the server counts those of a prompt."""
        from openai import OpenAIError

        try:
            return int(self.connection.tokenize(prompt="One, two,").get("max_model_len") or 0)
        except (OpenAIError, TypeError, ValueError):
            return 0

    def _tried(self, path: str, **body: Any) -> dict[str, Any] | None:
        from openai import OpenAIError

        try:
            return self.connection.post(path, **body)
        except OpenAIError as trouble:
            self.said.append(self.connection.says(trouble))
            return None


def await_server(connection: Connection, timeout_s: float) -> None:
    """Return once the server answers. Raises EngineError after `timeout_s`, SettingsError if it refuses the key."""
    from openai import APIConnectionError, AuthenticationError, OpenAIError, PermissionDeniedError

    until = time.monotonic() + timeout_s
    impatient = connection.client.with_options(max_retries=0)
    while True:
        try:
            impatient.models.list()
        except APIConnectionError as trouble:
            if time.monotonic() > until:
                raise EngineError(
                    f"No server answers: {connection.says(trouble)}", hint="Check openai.url; is it started?"
                ) from None
            time.sleep(WAIT_S)
        except (AuthenticationError, PermissionDeniedError) as trouble:
            hint = "Set openai.api_key, best as MCQUEUE_OPENAI__API_KEY."
            raise SettingsError(f"The server refuses the key. {connection.says(trouble)}", hint=hint) from None
        except OpenAIError:
            return  # it answers; whether it lists its models is its own affair
        else:
            return


def _nearest_model(connection: Connection) -> str:
    from openai import OpenAIError

    try:
        known = [each.id for each in connection.client.models.list()]
    except OpenAIError:
        return "Check openai.url and openai.model."
    return nearest(connection.server.model, known) or f"It serves {', '.join(known[:5])}."
