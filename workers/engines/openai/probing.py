"""What an OpenAI-compatible server offers for one model, found out with requests for a single token."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from contract.errors import EngineError, SettingsError, nearest
from contract.turns import one_turn
from workers.engines.openai import wire
from workers.engines.openai.awaiting import await_server, key_rejected, until_answered
from workers.engines.openai.connection import Connection
from workers.engines.openai.echo import Scorable, chat_scores, echoed
from workers.engines.openai.patience import refusal
from workers.engines.openai.refusals import is_away, is_no_answer, is_spent, may_pass

if TYPE_CHECKING:
    from openai import OpenAIError

__all__ = ["Offers", "find_out", "remarks"]

#: Numbers of next tokens to request, in this order. llama.cpp's server, which echoes no prompt, lists any number; a
#: label may be the hundredth. Most others list at most 20, and OpenAI's own plain completions 5.
TOP_WANTED = (1000, 20, 5)
#: The text that is continued in most of these requests.
PROMPT = "One, two, three,"
#: A next token that is certainly the same token when it stands in a prompt: a word with the space before it.
WORD = re.compile(" [A-Za-z]+")
#: How far two log-probabilities of the same token may be apart, in nats: they are computed in different ways.
MOST_APART = 1.0
#: How far above zero rounding may put a log-probability. Larger values are none: some servers can list logits instead.
ROUNDING = 0.01
#: If the server samples at all, its answer to this depends on the seed: so many tokens are never the same by chance.
RANDOM = "Write ten random words."
RANDOM_TOKENS = 24
#: The highest temperature of the protocol.
HOT = 2.0
SEEDS = (1, 2, 3)
#: A value that is no number.
NO_NUMBER = "none"
#: A server may report an unsupported feature as a server error, so probes are retried only a few times.
PROBE_RETRIES = 2


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
    #: Whether it writes the same text at any temperature, whatever the seed.
    only_greedy: bool = False
    #: Whether it takes vLLM's sampling parameters without counting tokens: vLLM's server behind a proxy.
    vllm_sampling: bool = False
    #: Whether it takes llama.cpp's.
    llama_sampling: bool = False

    @property
    def is_vllm(self) -> bool:
        """Whether it is vLLM's server, which alone says how long a prompt may be, or one behind a proxy."""
        return bool(self.context) or self.vllm_sampling

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


def find_out(connection: Connection, timeout_s: float) -> Offers:
    """Wait for the server; then probe what it offers and which parameters its model takes, with one-token requests.

    Raises EngineError after `timeout_s` if no server answers, or none of these requests but all may be answered later;
    SettingsError if they will not be.
    """
    until = time.monotonic() + timeout_s
    await_server(connection, timeout_s)
    probed = connection.with_retries(PROBE_RETRIES)
    offers = until_answered(lambda: _offers(probed), until - time.monotonic())
    connection.parameters.settle()
    return offers


def _offers(connection: Connection) -> Offers:
    from openai import AuthenticationError

    probe = _Probe(connection)
    chat, in_chat = probe.next_tokens(in_chat=True)
    plain, listed = probe.next_tokens(in_chat=False)
    if not chat and not plain:
        if isinstance(probe.refused[0], AuthenticationError):  # llama.cpp's server lists its models without a key
            raise key_rejected(connection, probe.refused[0])
        kind = EngineError if all(map(may_pass, probe.refused)) else SettingsError
        said = connection.says(probe.refused[0])
        raise kind(f"The server answers no test request. {said}", hint=_nearest_model(connection))
    if any(map(may_pass, probe.refused)):  # from now on, it shows whether that concerned everybody
        chat, in_chat = probe.next_tokens(in_chat=True)
        plain, listed = probe.next_tokens(in_chat=False)
    probe.learn_parameters(in_chat=chat)
    scorable = probe.chat_scores(len(in_chat)) if chat else Scorable(0, echo=False)
    # Servers that decode each token alone drop the space before a word, and with it what tells two tokens apart.
    drops_spaces = bool(listed) and not any(token[:1].isspace() for token in listed)
    context = probe.context()
    return Offers(
        chat=chat,
        plain=plain,
        chat_top=0 if drops_spaces and scorable.echo else scorable.top,
        plain_top=0 if drops_spaces else len(listed),
        chat_echo=scorable.echo,
        plain_echo=plain and probe.echoes(listed),
        context=context,
        only_greedy=probe.writes_the_same(in_chat=chat),
        vllm_sampling=not context and probe.met_vllm and probe.takes(wire.VLLM_TEXTS, in_chat=chat),
        llama_sampling=not context and not probe.met_vllm and probe.knows_llama_sampling(in_chat=chat),
    )


@dataclass
class _Probe:
    """Requests made only to learn what the server supports."""

    connection: Connection
    #: Errors of the requests that were not answered.
    refused: list[OpenAIError] = field(default_factory=list)
    #: Whether an answer was one of vLLM's.
    met_vllm: bool = False
    #: Whether the server offers chat completions; None while nothing was answered yet.
    in_chat: bool | None = None

    def next_tokens(self, *, in_chat: bool) -> tuple[bool, dict[str, float]]:
        """Return whether there are completions at all, and the likeliest next tokens with their log-probabilities."""
        from openai import OpenAIError

        asked = wire.asked(one_turn(PROMPT), in_chat=in_chat)
        for wanted in (*TOP_WANTED, 0):
            answer = self._tried(asked, **wire.ONE_TOKEN, **wire.top(wanted, in_chat=in_chat))
            if answer is None:
                continue
            try:
                wire.texts_of(answer)
                found = wire.next_tokens(answer["choices"][0])
            except wire.UNREADABLE as trouble:
                self.refused.append(OpenAIError(f"an answer that cannot be read: {trouble}"))
            else:
                self.in_chat = self.in_chat or in_chat
                return True, found if all(value <= ROUNDING for value in found.values()) else {}
        return False, {}

    def learn_parameters(self, *, in_chat: bool) -> None:
        """Ask for a text with the usual parameters: by refusals, the connection learns which the model takes."""
        self._tried(wire.asked(one_turn(PROMPT), in_chat=in_chat), **wire.ONE_TOKEN, top_p=1, n=1, seed=0)

    def writes_the_same(self, *, in_chat: bool) -> bool:
        """Whether several seeds give the same text at a high temperature.

        `transformers serve` ignores the temperature unless the model's generation_config.json has `do_sample`.
        """
        asked = wire.asked(one_turn(RANDOM), in_chat=in_chat)
        texts: set[str] = set()
        for seed in SEEDS:
            answer = self._tried(asked, max_tokens=RANDOM_TOKENS, temperature=HOT, top_p=1, seed=seed)
            try:
                texts |= {each.text for each in wire.texts_of(answer)} if answer is not None else {""}
            except wire.UNREADABLE:
                return False
            if len(texts) > 1 or "" in texts:  # nothing can be told of a text that has not begun
                return False
        return True

    def knows_llama_sampling(self, *, in_chat: bool) -> bool:
        """Whether `wire.LLAMA_SAMPLING` is understood: refused with a value that is no number, and otherwise taken.

        A server that does not know a parameter ignores it, whatever its value, or refuses it, whatever its value.
        """
        is_taken = self.takes({"repeat_penalty": NO_NUMBER}, in_chat=in_chat)
        is_refused = not is_taken and "repeat_penalty" in str(self.refused[-1])
        return is_refused and self.takes(wire.LLAMA_SAMPLING, in_chat=in_chat)

    def takes(self, sampling: Mapping[str, Any], *, in_chat: bool) -> bool:
        """Whether a text may be asked for with such sampling parameters."""
        return self._tried(wire.asked(one_turn(PROMPT), in_chat=in_chat), **wire.ONE_TOKEN, **sampling) is not None

    def echoes(self, listed: Mapping[str, float]) -> bool:
        """Whether log-probabilities of a prompt's own tokens are returned, and agree with the next tokens' (`listed`).

        llama-cpp-python returns those of other positions if the model has no token that starts a text.
        """
        words = sorted(filter(WORD.fullmatch, listed), key=lambda each: -listed[each])
        word = words[0] if words else " four"
        answer = self._tried(wire.echo(one_turn(PROMPT), word, in_chat=False))
        try:
            found = echoed(answer).logprobs[-1] if answer is not None else None
        except wire.UNREADABLE:
            return False
        return found is not None and abs(found - listed.get(word, found)) < MOST_APART

    def chat_scores(self, listed: int) -> Scorable:
        """Return what can be scored in a chat in which the server lists so many next tokens."""
        answers = [self._tried(asked) for asked in wire.one_more_token()]
        return chat_scores([each for each in answers if each is not None], listed)

    def context(self) -> int:
        """Return the model's context in tokens, if the server counts tokens, else 0."""
        answer = self._answered(partial(self.connection.tokenize, prompt="One, two,"))
        try:
            return int((answer or {}).get("max_model_len") or 0)
        except (TypeError, ValueError):
            return 0

    def _tried(self, asked: wire.Asked, **more: Any) -> dict[str, Any] | None:
        answer = self._answered(partial(self.connection.post, asked, **more))
        self.met_vllm = self.met_vllm or (answer is not None and wire.is_of_vllm(answer))
        return answer

    def _answered(self, ask: Callable[[], dict[str, Any]], *, again: bool = True) -> dict[str, Any] | None:
        """Return what `ask` returns; None if it is refused. Raises EngineError if everything is, for now."""
        from openai import OpenAIError, RateLimitError

        try:
            return ask()
        except RateLimitError as trouble:  # says nothing about what it offers
            raise self._busy(trouble) from None
        except OpenAIError as trouble:
            if is_spent(trouble):
                return wire.NOTHING_WRITTEN
            if self.in_chat is not None and _may_be_of_all(trouble):
                small = refusal(self.connection, in_chat=self.in_chat)
                if small is not None and _may_be_of_all(small):
                    raise self._busy(small) from None
                if again and is_away(trouble):  # a proxy that limits requests may have let only the small one through
                    return self._answered(ask, again=False)
            self.refused.append(trouble)
            return None

    def _busy(self, trouble: OpenAIError) -> EngineError:
        hint = "Does it limit requests? Set openai.requests_per_minute."
        return EngineError(f"The server is busy: {self.connection.says(trouble)}", hint=hint)


def _may_be_of_all(trouble: OpenAIError) -> bool:
    return may_pass(trouble) or is_no_answer(trouble)


def remarks(connection: Connection, offers: Offers, adapters: Iterable[str] = ()) -> list[str]:
    """Return in words what runs should know of the server; empty if there is nothing unusual.

    `adapters` has the names by which the server is asked for LoRA adapters.
    """
    found = connection.parameters.remarks()
    if offers.only_greedy:
        found.append("writes the same text at any temperature: runs with sampling.temperature (mode vote) fail")
    known = _models(connection)
    if known and connection.server.model not in known:
        found.append(
            f"is not among the models that the server lists ({', '.join(known[:5])}): some servers answer by the model "
            "that they have, whatever the name"
        )
    if unlisted := sorted({*adapters} - {*known}) if known else []:
        found.append(f"does not list {', '.join(unlisted)}, which `adapters` names: runs with such an adapter may fail")
    return found


def _nearest_model(connection: Connection) -> str:
    known = _models(connection)
    if not known or connection.server.model in known:
        return "Check openai.url, openai.model and the key, MCQUEUE_OPENAI__API_KEY."
    return nearest(connection.server.model, known) or f"It serves {', '.join(known[:5])}."


def _models(connection: Connection) -> list[str]:
    """Return the names of the models that the server lists; none if it does not."""
    from openai import OpenAIError

    try:
        return [each.id for each in connection.with_retries(0).client.models.list() if isinstance(each.id, str)]
    except (OpenAIError, *wire.UNREADABLE):
        return []
