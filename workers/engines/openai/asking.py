"""One request of ours, put to a server in the way that it offers: texts, or log-probabilities of continuations.

Texts come from chat completions if the chat template is wanted, else from plain completions. If hidden reasoning used
up a text's limit of tokens, the text is empty and cut off. Log-probabilities are requested in two steps:

1. the prompt alone, with as many of the likeliest next tokens as the server lists: this gives the log-probability of
   every continuation among them, and the number of prompt tokens;
2. each remaining continuation after its prompt, echoed with the log-probability of every token: those after the
   prompt's tokens belong to the continuation. White space that the tokenizer merges with the prompt's end is not among
   them, as in `_encode_pair` of lm-evaluation-harness; if anything else is merged, the request fails.

If a server cannot provide what a request needs, that request fails and says what is missing; nothing is guessed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

from contract.settings import OpenAiSettings
from contract.spec import Chat, ChatTemplate, Sampling
from contract.turns import beginning, begun
from contract.verdict import Failure
from workers.engines.base import (
    Completion,
    GenerateRequest,
    Request,
    ScoreRequest,
    Text,
    UnexpectedFailure,
    continuations_of,
)
from workers.engines.openai import wire
from workers.engines.openai.client import Answer, Client
from workers.engines.openai.echo import Scorable, chat_scores, echoed, is_said
from workers.engines.openai.probing import Offers

__all__ = ["Asker", "PartialScore", "Tail"]


class NotOffered(ValueError):
    """The server cannot provide what a request needs."""


class Weighed(NamedTuple):
    """The log-probability of one continuation and its number of tokens; and the prefill of the request that gave it."""

    logprob: float
    tokens: int
    prefill_tokens: int
    cached_tokens: int


@dataclass(slots=True)
class PartialScore:
    """Partial results for the continuations of a request."""

    #: The request as the server got it, `wire.with_space_moved`.
    request: ScoreRequest
    prompt_tokens: int
    logprobs: list[float | None]
    token_counts: list[int]
    prefill_tokens: int
    cached_tokens: int
    failure: Failure | None = None

    @property
    def tails(self) -> list[Tail]:
        """The continuations that are still to be weighed."""
        return [Tail(self, place) for place, logprob in enumerate(self.logprobs) if logprob is None]

    def add(self, place: int, weighed: Weighed | Failure) -> None:
        """Add what was found of the continuation at `place`."""
        if isinstance(weighed, Failure):
            self.failure = weighed
            return
        self.logprobs[place], self.token_counts[place] = weighed.logprob, weighed.tokens
        self.prefill_tokens += weighed.prefill_tokens
        self.cached_tokens += weighed.cached_tokens

    def completion(self) -> Completion:
        if self.failure is not None:
            return Completion(error=self.failure)
        return Completion(
            logprobs=tuple(each for each in self.logprobs if each is not None),
            token_counts=tuple(self.token_counts),
            prompt_tokens=self.prompt_tokens,
            prefill_tokens=self.prefill_tokens,
            cached_tokens=self.cached_tokens,
        )


class Tail(NamedTuple):
    """A continuation that is not among the likeliest next tokens: what is known of its request, and its place there."""

    head: PartialScore
    place: int


class Asker:
    """Puts single requests to one model on one server. Thread-safe."""

    def __init__(self, client: Client, offers: Offers, server: OpenAiSettings, adapters: Mapping[str, str]) -> None:
        self._client = client
        self._offers = offers
        self._server = server
        #: Adapter → the server's name for the model with it.
        self._adapters = adapters
        #: Variables of a chat template as JSON → `chat_scores` with them.
        self._scores_with: dict[str, Scorable] = {}
        self._learning = threading.Lock()

    def first(self, request: Request) -> Completion | PartialScore:
        """Return the texts; or the number of prompt tokens and the continuations among the likeliest next tokens."""
        try:
            return self._write(request) if isinstance(request, GenerateRequest) else self._look_ahead(request)
        except NotOffered as trouble:
            return Completion(error=Failure.of(trouble))
        except wire.UNREADABLE as trouble:
            return Completion(error=self._client.unreadable(trouble))

    def length(self, request: Request) -> int:
        """Return the tokens of the request plus those to generate; of its continuations, only the longest counts."""
        longest = max(continuations_of(request), key=len, default="")
        written = request.sampling.max_tokens if isinstance(request, GenerateRequest) else 1
        try:
            in_chat = self._in_chat(request.chat)
            begins_turn = in_chat and not beginning(request.turns)
            body = wire.tokenize_body(
                request.turns, begun(longest) if begins_turn else longest, request.chat.kwargs, in_chat=in_chat
            )
            return self._client.count_tokens({"model": self._model(request.adapter), **body}) + written
        except NotOffered:  # reported when the request itself is made
            return 0

    def _model(self, adapter: str) -> str | None:
        """Return the server's name for the model with `adapter`; None for the model itself."""
        if adapter and adapter not in self._adapters:
            raise NotOffered(f"there is no adapter {adapter!r} here: add it to `adapters`")
        return self._adapters.get(adapter)

    def _in_chat(self, chat: Chat) -> bool:
        offers, server, wanted = self._offers, self._server.base_url, chat.template
        if wanted in {ChatTemplate.ALWAYS, ChatTemplate.TURNS} and not offers.chat:
            raise NotOffered(f"{server} offers no chat completions for {self._server.model}: set chat_template: never")
        if wanted is ChatTemplate.NEVER and not offers.plain:
            raise NotOffered(
                f"{server} offers only chat completions for {self._server.model}: set chat_template: auto; there is no "
                "normalization mutual_info here"
            )
        if chat.kwargs and not offers.chat:
            raise NotOffered(
                f"{server} offers no chat completions for {self._server.model}: leave chat_template_kwargs out"
            )
        return wanted is not ChatTemplate.NEVER and offers.chat

    def _write(self, request: GenerateRequest) -> Completion:
        in_chat, sampling = self._in_chat(request.chat), request.sampling
        if sampling.temperature and self._offers.only_greedy:
            raise NotOffered(
                f"{self._server.base_url} writes the same text at any temperature: set mode: generate and "
                "sampling.temperature: 0, or do_sample in its model's generation_config.json"
            )
        if sampling.reasoning_effort and not in_chat:
            raise NotOffered("sampling.reasoning_effort has no effect outside a chat: set chat_template: always")
        if sampling.thinking_token_budget is not None and not self._offers.is_vllm:
            # Others may ignore it without a word, and reason on.
            raise NotOffered(
                f"{self._server.base_url} is not known to be vLLM's, which alone takes sampling.thinking_token_budget: "
                "leave it out, and limit reasoning at the server's start"
            )
        if in_chat and beginning(request.turns):
            scorable = self._chat_scores(request)
            if isinstance(scorable, Failure):
                return Completion(error=scorable)
            self._refuse_to_continue(scorable)
        texts: list[Text] = []
        prompt = prefilled = all_cached = 0
        while (wanted := sampling.samples - len(texts)) > 0:
            # Some servers, such as Ollama and llama-cpp-python, return one text however many are requested.
            answer = self._client.post(
                wire.asked(request.turns, request.chat.kwargs, in_chat=in_chat),
                model=self._model(request.adapter),
                max_tokens=sampling.max_tokens,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                n=wanted,
                seed=request.seed + len(texts),
                stop=list(sampling.stop) or None,
                response_format=wire.response_format(request.json_schema),
                **self._sampling(sampling),
            )
            if isinstance(answer, Failure):
                return Completion(error=answer)
            texts += wire.texts_of(answer, sampling.stop)[:wanted]
            prompt, cached = wire.prompt_tokens(answer.get("usage") or {})
            prefilled, all_cached = prefilled + prompt, all_cached + cached
        return Completion(texts=tuple(texts), prompt_tokens=prompt, prefill_tokens=prefilled, cached_tokens=all_cached)

    def _look_ahead(self, request: ScoreRequest) -> Completion | PartialScore:
        offers, server = self._offers, self._server.base_url
        if not offers.logprobs:
            said = f"{server} returns no log-probabilities for {self._server.model}"
            raise NotOffered(f"{said}: only modes that generate text can be used, such as mode: generate")
        in_chat = self._in_chat(request.chat)
        request = wire.with_space_moved(request, in_chat=in_chat)
        scorable = self._chat_scores(request) if in_chat else Scorable(offers.plain_top, offers.plain_echo)
        if isinstance(scorable, Failure):
            return Completion(error=scorable)
        if in_chat and beginning(request.turns):
            self._refuse_to_continue(scorable)
        if not scorable.top and not scorable.echo:
            kind, other = ("chat", "never") if in_chat else ("plain", "always")
            raise NotOffered(f"{server} returns no log-probabilities in {kind} completions: set chat_template: {other}")
        if not request.prompt:
            raise NotOffered("a server takes no empty prompt: set unconditional_prompt, for example to 'Answer:'")
        answer = self._listing(request, scorable, in_chat=in_chat)
        if isinstance(answer, Failure):
            return Completion(error=answer)
        likeliest = wire.next_tokens(answer["choices"][0])
        logprobs = [likeliest.get(each) for each in wire.continuations_of(request, in_chat=in_chat)]
        prompt, cached = wire.prompt_tokens(answer.get("usage") or {})
        if None in logprobs and not scorable.echo:
            if not likeliest:
                raise NotOffered(
                    f"{server} lists no next tokens behind this prompt, where the model may end its text: set mode: "
                    "generate" + ("" if in_chat else ", or chat_template: always")
                )
            missing = request.continuations[logprobs.index(None)]
            raise NotOffered(
                f"{missing!r} is not among the {len(likeliest)} likeliest next tokens, and {server} lists no "
                "others: set mode: generate, or letter if labels are likelier"
            )
        if None in logprobs and not prompt:
            raise NotOffered(f"{server} does not count the prompt's tokens")
        return PartialScore(request, prompt, logprobs, [1] * len(logprobs), prompt, cached)

    def _refuse_to_continue(self, scorable: Scorable) -> None:
        """Raise NotOffered if the server is not known to continue a turn of the model, as vLLM's does.

        Others may take it for a whole turn, which the model answers. What is scored by echo is such a turn, too.
        """
        if not scorable.echo:
            raise NotOffered(
                f"{self._server.base_url} is not known to let its model continue words that its turn begins with: leave"
                " answer_prefix out" + (", or set chat_template: never" if self._offers.plain else "")
            )

    def _listing(self, request: ScoreRequest, scorable: Scorable, *, in_chat: bool) -> Answer | Failure:
        """Return the answer that lists the likeliest next tokens and counts those of the prompt."""
        ask = partial(
            self._client.post,
            wire.asked(request.turns, request.chat.kwargs, in_chat=in_chat),
            model=self._model(request.adapter),
            **wire.ONE_TOKEN,
            **wire.top(scorable.top, in_chat=in_chat),
        )
        answer = ask(**(wire.VLLM_SAMPLING if self._offers.is_vllm else {}))
        if isinstance(answer, Failure) or scorable.echo or wire.next_tokens(answer["choices"][0]):
            return answer
        # llama-cpp-python's server lists nothing where its model would end the text, unless it may not.
        further = ask(min_tokens=1)
        return answer if isinstance(further, Failure) and not isinstance(further, UnexpectedFailure) else further

    def _sampling(self, sampling: Sampling) -> dict[str, Any]:
        """Return what is sent of `sampling` beyond the protocol, by the names that the server has for it."""
        chosen = sampling.chosen()
        if self._offers.is_vllm:
            return {**wire.VLLM_TEXTS, **chosen}
        if self._offers.llama_sampling:
            penalty = chosen.pop("repetition_penalty", None)
            return {**wire.LLAMA_SAMPLING, **chosen, **({"repeat_penalty": penalty} if penalty else {})}
        return chosen

    def _chat_scores(self, request: Request) -> Scorable | Failure:
        """Return `echo.chat_scores` with these variables of the template; or why it is not known yet.

        They may change what the template puts before a continued turn, and the server was only probed without them.
        """
        if not request.chat.kwargs:
            return Scorable(self._offers.chat_top, self._offers.chat_echo)
        given = json.dumps(dict(request.chat.kwargs), sort_keys=True)
        with self._learning:
            if given not in self._scores_with:
                asked = wire.one_more_token(request.chat.kwargs)
                answers = [self._client.post(each, model=self._model(request.adapter)) for each in asked]
                if later := [each for each in answers if isinstance(each, UnexpectedFailure)]:
                    return later[0]
                answered = [each for each in answers if not isinstance(each, Failure)]
                self._scores_with[given] = chat_scores(answered, self._offers.chat_top)
            return self._scores_with[given]

    def weigh(self, tail: Tail) -> Weighed | Failure:
        """Return the log-probability of a continuation that is not among the likeliest next tokens."""
        try:
            return self._weigh_echoed(tail)
        except NotOffered as trouble:
            return Failure.of(trouble)
        except wire.UNREADABLE as trouble:
            return self._client.unreadable(trouble)

    def _weigh_echoed(self, tail: Tail) -> Weighed | Failure:
        request, prompt_tokens = tail.head.request, tail.head.prompt_tokens
        in_chat = self._in_chat(request.chat)
        continuation = wire.continuations_of(request, in_chat=in_chat)[tail.place]
        asked = wire.echo(request.turns, continuation, request.chat.kwargs, in_chat=in_chat)
        answer = self._client.post(asked, model=self._model(request.adapter))
        if isinstance(answer, Failure):
            return answer
        whole, cached = wire.prompt_tokens(answer.get("usage") or {})
        logprobs, texts = echoed(answer)
        found = logprobs[prompt_tokens:]
        if not found or None in found:
            raise NotOffered(f"{self._server.base_url} echoes no log-probabilities for {continuation!r}")
        if texts is not None and not is_said(continuation, behind := texts[prompt_tokens:]):
            hint = "set chat_template: never" if in_chat else "change delimiter or the prompt's end"
            raise NotOffered(
                f"{continuation!r} is {''.join(behind)!r} in the tokens behind the prompt of {self._server.base_url}, "
                f"whose tokenizer joins the prompt's end with what follows: {hint}"
            )
        return Weighed(sum(cast("list[float]", found)), len(found), whole, cached)
