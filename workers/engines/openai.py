"""Engine on any OpenAI-compatible server: vLLM's own, llama.cpp, Ollama, a hosted one, or one booted by the worker.

The server's capabilities are probed once (`Offers`). Texts come from chat completions if the chat template is wanted,
else from plain completions. Log-probabilities are requested in two waves, each covering the whole batch:

1. the prompt alone, with as many of the likeliest next tokens as the server lists: this gives the log-probability of
   every continuation among them, and the number of prompt tokens;
2. each remaining continuation after its prompt, echoed with the log-probability of every token: those after the
   prompt's tokens belong to the continuation. White space that the tokenizer merges with the prompt's end is not among
   them, as in `_encode_pair` of lm-evaluation-harness; if anything else is merged, the request fails.

If a server cannot provide what a request needs, that request fails and says what is missing; nothing is guessed.
Parameters that a model does not take are left out where its runs chose no value, which `describe` tells
(`workers.engines.openai_parameters`). If hidden reasoning used up a text's limit of tokens, the text is empty and cut
off.

The client is OpenAI's; it retries connection errors, time-outs, 429 and 5xx after growing, jittered delays, or after
the delay that the server asks for; also 429 and 5xx that the server sends inside an answer with status 200. If none of
its retries is answered and the server refuses everybody, it is waited for (`workers.engines.openai_patience`). A judge
is not waited for but watched (`workers.engines.openai_judge`), and its questions are put off meanwhile. If a server
refuses this request only, if there is nothing in an answer or it cannot be read, or if it broke a text off, the worker
retries the question. A text that a content filter withheld is a failure.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from contract.errors import EngineDead, EngineError
from contract.settings import OpenAiSettings, Settings
from contract.spec import Chat, ChatTemplate
from contract.turns import begun
from contract.verdict import Failure
from workers.engines import openai_wire
from workers.engines.base import (
    Completion,
    Engine,
    GenerateRequest,
    NotServed,
    Part,
    Request,
    ScoreRequest,
    Text,
    UnexpectedFailure,
    asked_texts,
    continuations_of,
    in_order,
)
from workers.engines.capacity import Capacity
from workers.engines.openai_echo import chat_scores, echoed, is_said
from workers.engines.openai_judge import JudgeWatch
from workers.engines.openai_parameters import remedy
from workers.engines.openai_patience import Patience
from workers.engines.openai_server import (
    Connection,
    Offers,
    await_server,
    find_out,
    is_no_answer,
    is_spent,
    may_pass,
)
from workers.engines.vllm_server import LocalServer

if TYPE_CHECKING:
    from openai import OpenAIError

__all__ = ["OpenAiEngine"]

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


#: vLLM takes sampling parameters missing from a request from the model's `generation_config.json`, which may penalise
#: repetitions. These are the neutral values. Other servers may not know the names.
VLLM_SAMPLING = {"repetition_penalty": 1.0, "top_k": -1, "min_p": 0.0}
#: Reasons to end a text that leave it no answer: broken off, as vLLM and SGLang, OpenRouter and Mistral, and DeepSeek
#: call it; or withheld by a filter, all or the rest of it. Any other, and none, is a server's word for a whole answer
#: (`eos`), or what the model chose to do (`tool_calls`).
BROKEN_OFF = frozenset({"abort", "error", "insufficient_system_resource"})
WITHHELD = frozenset({"content_filter"})
#: Upper bound on the tokens that a chat template adds around a text.
MOST_AROUND = 256


class NotOffered(ValueError):
    """The server cannot provide what a request needs."""


@dataclass(slots=True)
class _PartialScore:
    """Partial results for the continuations of a ScoreRequest."""

    prompt_tokens: int
    logprobs: list[float | None]
    token_counts: list[int]
    prefill_tokens: int
    cached_tokens: int
    failure: Failure | None = None

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


class OpenAiEngine(Engine):
    """`Engine` on an OpenAI-compatible server.

    Without `judge`, it uses the server of `settings`, booted first if `boot_local` is set: `start` waits for it and
    probes its capabilities; if it goes away the engine is dead, and if it refuses everybody for a while it is waited
    for. With `judge`, it uses that server, which only generates text: `start` does not wait for it, a request that it
    does not answer fails alone, and while it serves nobody all fail at once, with `NotServed`.
    """

    def __init__(self, settings: Settings, judge: OpenAiSettings | None = None) -> None:
        super().__init__(settings)
        self._server = judge or settings.openai
        self._is_judge = judge is not None
        self._local = (
            LocalServer(settings, lambda reason: self.gone(reason))
            if settings.boot_local and not self._is_judge
            else None
        )
        self._offers = Offers(chat=True)
        self._connection: Connection | None = None
        self._patience: Patience | None = None
        self._judge_watch: JudgeWatch | None = None
        #: Variables of a chat template as JSON → `chat_scores` with them.
        self._scores_with: dict[str, tuple[int, bool]] = {}
        self._learning = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._places = Capacity(self._server.concurrency, lambda: self.room_came())
        self._waits_for = ""

    def start(self) -> None:
        if self._local is not None:
            self._server = self._local.start()
        self._connection = Connection(self._server)
        self._pool = ThreadPoolExecutor(self._server.concurrency, thread_name_prefix="openai")
        if self._is_judge:
            self._judge_watch = JudgeWatch(self._connection)
        else:
            self._waits_for = f"the server at {self._server.base_url}"
            until = time.monotonic() + self.settings.server_startup_timeout
            await_server(self._connection, until - time.monotonic())
            self._offers = find_out(self._connection, until - time.monotonic())
            self._waits_for = ""
            if remarks := self._connection.parameters.remarks():
                log.warning("%s", self._connection.says(f"{self._server.model} {'; it '.join(remarks)}"))
            self._patience = Patience(
                self._connection, self.stopping, in_chat=self._offers.chat, is_ours=self._local is not None
            )

    @property
    def waits_for(self) -> str:
        waiting = self._judge_watch or self._patience
        return self._waits_for or (waiting.waits_for if waiting else "")

    def answers(self, requests: Sequence[Request]) -> Iterator[Part]:
        heads: list[tuple[int, _PartialScore]] = []
        for answered in self._each(self._first, requests):
            heads += [(i, head) for i, head in answered if isinstance(head, _PartialScore)]
            if ended := [(i, head) for i, head in answered if isinstance(head, Completion)]:
                yield ended
        tails = [
            (request, head, k)
            for i, head in heads
            if isinstance(request := requests[i], ScoreRequest)
            for k, logprob in enumerate(head.logprobs)
            if logprob is None and head.failure is None
        ]
        for _ in self._each(self._weigh, tails):
            pass
        if heads:
            yield [(i, head.completion()) for i, head in heads]

    @property
    def counts_tokens(self) -> bool:
        return self._offers.context > 0

    def excess_tokens(self, requests: Sequence[Request]) -> list[int]:
        """See `Engine`; 0 if the server does not count tokens. Makes one call per request that may be too long."""
        found = [0] * len(requests)
        if self.counts_tokens:
            long = [at for at, each in enumerate(requests) if self._may_exceed(each)]
            for ended in self._each(self._length, [requests[at] for at in long]):
                for place, length in ended:
                    found[long[place]] = max(0, length - self._offers.context)
        return found

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        if not self.counts_tokens:
            return super().count_tokens(texts)
        bodies = [{"prompt": each, "add_special_tokens": False} for each in texts]
        return in_order(self._each(self._count, bodies), len(bodies))

    def count_prompt_tokens(self, requests: Sequence[Request]) -> list[int]:
        """See `Engine`; returns upper bounds, as exact counts would need one more call for each text."""
        return [sum(len(each.encode()) for each in asked_texts(request)) for request in requests]

    def _may_exceed(self, request: Request) -> bool:
        """Whether the request may be too long: no tokenizer makes more tokens of a text than it has bytes."""
        asked = request.sampling.max_tokens if isinstance(request, GenerateRequest) else 0
        (most,) = self.count_prompt_tokens([request])
        return most + asked + MOST_AROUND > self._offers.context

    def _length(self, request: Request) -> int:
        """Return the tokens of the request plus those to generate; of its continuations, only the longest counts."""
        longest = max(continuations_of(request), key=len, default="")
        written = request.sampling.max_tokens if isinstance(request, GenerateRequest) else 1
        try:
            in_chat = self._in_chat(request.chat)
            body = openai_wire.tokens(
                request.turns, begun(longest) if in_chat else longest, request.chat.kwargs, in_chat=in_chat
            )
            return self._count({"model": self._model(request.adapter), **body}) + written
        except NotOffered:  # reported when the request itself is made
            return 0

    def _count(self, body: dict[str, Any]) -> int:
        assert self._connection is not None
        answer = self._tried(partial(self._connection.tokenize, **body))
        if isinstance(answer, Failure):
            raise EngineError(f"The server no longer counts tokens: {answer.message}")
        return int(answer["count"])

    def describe(self) -> dict[str, Any]:
        offers = {name: value for name in Offers.__slots__ if (value := getattr(self._offers, name))}
        found = {"engine": "openai", "server": self._server.base_url, "model": self._server.model, "offers": offers}
        if self._connection is None:
            return found
        parameters = self._connection.parameters
        told = {"left_to_model": parameters.left_out, "renamed": parameters.renamed}
        return found | {name: value for name, value in told.items() if value}

    def close(self) -> None:
        for waiting in (self._judge_watch, self._patience):
            if waiting is not None:
                waiting.close()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if self._connection is not None:
            self._connection.client.close()
        if self._local is not None:
            self._local.stop()

    def _each(self, ask: Callable[[T], R], items: Sequence[T]) -> Iterator[list[tuple[int, R]]]:
        """Apply `ask` to every item, within the server's concurrency; yield finished results with their positions."""
        if self._pool is None:
            raise EngineDead("The engine was not started.")

        def ask_in_place(item: T) -> R:
            try:
                return ask(item)
            finally:
                self._places.leave()

        self._places.want(len(items))
        unasked = len(items)
        under_way: dict[Future[R], int] = {}
        try:
            for i, item in enumerate(items):
                under_way[self._pool.submit(ask_in_place, item)] = i
                unasked -= 1
            while under_way:
                ended, _ = wait(under_way, timeout=self.settings.settle_every_s)
                yield [(under_way.pop(each), each.result()) for each in ended]
        except (CancelledError, RuntimeError) as trouble:  # the pool was shut down in the meantime
            raise EngineDead(f"The engine was closed: {trouble}") from None
        finally:
            self._places.leave(unasked + sum([each.cancel() for each in under_way]))

    def _post(self, asked: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any] | Failure:
        """Return the answer, or why this request has none. Raises EngineDead if no other would be answered either."""
        assert self._connection is not None
        path, body = asked
        answer = self._tried(partial(self._connection.post, path, **body, **more))
        return answer if isinstance(answer, Failure) else self._unfinished(answer) or answer

    def _unfinished(self, answer: dict[str, Any]) -> Failure | None:
        """Return why the request has no answer if one of its texts did not come to its end; None if all did.

        Of several texts none is used then: the votes of the others would be too few.
        """
        assert self._connection is not None
        if how := openai_wire.ended_by(answer, WITHHELD):
            said = self._connection.says(f"the server's content filter withheld the text, or the rest of it ({how})")
            return Failure(type="ContentFiltered", message=said)
        if how := openai_wire.ended_by(answer, BROKEN_OFF):
            said = self._connection.says(f"the server broke the text off ({how})")
            return UnexpectedFailure(type="Unfinished", message=said)
        return None

    def _tried(self, ask: Callable[[], dict[str, Any]]) -> dict[str, Any] | Failure:
        from openai import OpenAIError

        assert self._connection is not None
        while True:
            if self._judge_watch is not None and (waits_for := self._judge_watch.waits_for):
                return NotServed(type=NotServed.__name__, message=waits_for)
            try:
                answer = ask()
            except OpenAIError as trouble:
                if is_spent(trouble) and not self._is_judge:
                    return openai_wire.NOTHING_WRITTEN
                if self._outlasted(trouble):
                    continue
                said = f"{self._connection.says(trouble)}{self._remedy(trouble)}"
                return self._kind_of(trouble)(type=type(trouble).__name__, message=said)
            if self._judge_watch is not None:
                self._judge_watch.served()
            return answer

    def _outlasted(self, trouble: OpenAIError) -> bool:
        """Return whether the server refused everybody and now serves again; False if it refused this request only."""
        from openai import OpenAIError

        if self._patience is None:
            return False
        try:
            return self._patience.outlast(trouble)
        except OpenAIError as of_all:
            assert self._connection is not None
            last_words = self._local.last_words() if self._local else ""
            said = f"The server no longer serves requests: {self._connection.says(of_all)} {last_words}"
            raise EngineDead(said.rstrip()) from None

    def _kind_of(self, trouble: OpenAIError) -> type[Failure]:
        """Return what the failure of a request is: worth another attempt if the server was in trouble for long.

        Also if it reported success and sent no answer, which may have any cause. Not if a judge does not answer at all:
        its address may be wrong, and later attempts, made alone, would hold up the questions of all other runs for as
        long as the client waits.
        """
        from openai import APIConnectionError

        if self._judge_watch is not None and self._judge_watch.serves_nobody(trouble):
            return NotServed
        hopeless = self._is_judge and isinstance(trouble, APIConnectionError)
        worth_it = is_no_answer(trouble) or (may_pass(trouble) and not hopeless)
        return UnexpectedFailure if worth_it else Failure

    def _remedy(self, trouble: OpenAIError) -> str:
        """Return which setting of a judge, or of a run, may be at fault; `start` has said what a deployment's may."""
        from openai import APIConnectionError, AuthenticationError, NotFoundError, PermissionDeniedError

        if not self._is_judge:
            found = remedy(trouble)
            return f" {found}" if found else ""
        if isinstance(trouble, AuthenticationError | PermissionDeniedError):
            return " The judge rejects the key: set MCQUEUE_JUDGE_API_KEY for the workers, and restart them."
        if isinstance(trouble, APIConnectionError):
            return " The judge does not answer: is judge.server correct, running, and reachable from the workers?"
        if isinstance(trouble, NotFoundError):
            return " Check judge.server and judge.model."
        return " This is what judge.server answers."

    def _first(self, request: Request) -> Completion | _PartialScore:
        """Return the texts; or the number of prompt tokens and the continuations among the likeliest next tokens."""
        try:
            return self._write(request) if isinstance(request, GenerateRequest) else self._look_ahead(request)
        except NotOffered as trouble:
            return Completion(error=Failure(type=type(trouble).__name__, message=str(trouble)))
        except openai_wire.UNREADABLE as trouble:
            return Completion(error=self._unreadable(trouble))

    def _unreadable(self, trouble: Exception) -> UnexpectedFailure:
        assert self._connection is not None
        said = self._connection.says(f"an answer that cannot be read ({type(trouble).__name__}: {trouble})")
        return UnexpectedFailure(type="Unreadable", message=said)

    def _model(self, adapter: str) -> str | None:
        """Return the server's name for the model with `adapter`: the adapter's own name if we booted the server."""
        if not adapter:
            return None
        if adapter not in self.settings.adapters:
            raise NotOffered(f"there is no adapter {adapter!r} here: add it to `adapters`")
        return adapter if self._local is not None else self.settings.adapters[adapter]

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
        if sampling.reasoning_effort and not in_chat:
            raise NotOffered("sampling.reasoning_effort has no effect outside a chat: set chat_template: always")
        texts: list[Text] = []
        prompt = prefilled = all_cached = 0
        while (wanted := sampling.samples - len(texts)) > 0:
            # Some servers, such as Ollama and llama-cpp-python, return one text however many are requested.
            answer = self._post(
                openai_wire.asked(request.turns, request.chat.kwargs, in_chat=in_chat),
                model=self._model(request.adapter),
                max_tokens=sampling.max_tokens,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                n=wanted,
                seed=request.seed + len(texts),
                stop=list(sampling.stop) or None,
                response_format=openai_wire.response_format(request.json_schema),
                **self._neutral | sampling.chosen(),
            )
            if isinstance(answer, Failure):
                return Completion(error=answer)
            texts += openai_wire.texts_of(answer)[:wanted]
            prompt, cached = openai_wire.prompt_tokens(answer.get("usage") or {})
            prefilled, all_cached = prefilled + prompt, all_cached + cached
        return Completion(texts=tuple(texts), prompt_tokens=prompt, prefill_tokens=prefilled, cached_tokens=all_cached)

    def _look_ahead(self, request: ScoreRequest) -> Completion | _PartialScore:
        offers, server = self._offers, self._server
        if not offers.logprobs:
            said = f"{server.base_url} returns no log-probabilities for {server.model}"
            raise NotOffered(f"{said}: only modes that generate text can be used, such as mode: generate")
        in_chat = self._in_chat(request.chat)
        request = openai_wire.parted(request, in_chat=in_chat)
        scores = self._chat_scores(request) if in_chat else (offers.plain_top, offers.plain_echo)
        if isinstance(scores, Failure):
            return Completion(error=scores)
        top, echo = scores
        if not top and not echo:
            kind, other = ("chat", "never") if in_chat else ("plain", "always")
            raise NotOffered(
                f"{server.base_url} returns no log-probabilities in {kind} completions: set chat_template: {other}"
            )
        if not request.prompt:
            raise NotOffered("a server takes no empty prompt: set unconditional_prompt, for example to 'Answer:'")
        asked = openai_wire.asked(request.turns, request.chat.kwargs, in_chat=in_chat)
        answer = self._post(
            asked,
            model=self._model(request.adapter),
            max_tokens=1,
            temperature=0,
            **openai_wire.top(top, in_chat=in_chat),
            **self._neutral,
        )
        if isinstance(answer, Failure):
            return Completion(error=answer)
        likeliest = openai_wire.next_tokens(answer["choices"][0])
        logprobs = [likeliest.get(each) for each in openai_wire.continuations_of(request, in_chat=in_chat)]
        prompt, cached = openai_wire.prompt_tokens(answer.get("usage") or {})
        if None in logprobs and not echo:
            missing = request.continuations[logprobs.index(None)]
            raise NotOffered(
                f"{missing!r} is not among the {len(likeliest)} likeliest next tokens, and {self._server.base_url} "
                "lists no others: no choice can be made"
            )
        if None in logprobs and not prompt:
            raise NotOffered(f"{self._server.base_url} does not count the prompt's tokens")
        return _PartialScore(prompt, logprobs, [1] * len(logprobs), prompt, cached)

    @property
    def _neutral(self) -> dict[str, Any]:
        return VLLM_SAMPLING if self._offers.context else {}

    def _chat_scores(self, request: ScoreRequest) -> tuple[int, bool] | Failure:
        """Return `openai_echo.chat_scores` with these variables of the template; or why it is not known yet.

        They may change what the template puts before a continued turn, which `start` has only seen without them.
        """
        if not request.chat.kwargs:
            return self._offers.chat_top, self._offers.chat_echo
        given = json.dumps(dict(request.chat.kwargs), sort_keys=True)
        with self._learning:
            if given not in self._scores_with:
                asked = openai_wire.one_more_token(request.chat.kwargs)
                answers = [self._post(each, model=self._model(request.adapter)) for each in asked]
                if later := [each for each in answers if isinstance(each, UnexpectedFailure)]:
                    return later[0]
                answered = [each for each in answers if not isinstance(each, Failure)]
                listed, known = self._offers.chat_top, len(answered) == len(answers)
                self._scores_with[given] = chat_scores(answered, listed) if known else (listed, False)
            return self._scores_with[given]

    def _weigh(self, tail: tuple[ScoreRequest, _PartialScore, int]) -> None:
        """Add the log-probability of one continuation that is not among the likeliest next tokens."""
        request, partial, i = tail
        try:
            self._add_echoed(request, partial, i)
        except openai_wire.UNREADABLE as trouble:
            partial.failure = self._unreadable(trouble)

    def _add_echoed(self, request: ScoreRequest, partial: _PartialScore, i: int) -> None:
        in_chat = self._in_chat(request.chat)
        request = openai_wire.parted(request, in_chat=in_chat)
        continuation = openai_wire.continuations_of(request, in_chat=in_chat)[i]
        asked = openai_wire.echo(request.turns, continuation, request.chat.kwargs, in_chat=in_chat)
        answer = self._post(asked, model=self._model(request.adapter))
        if isinstance(answer, Failure):
            partial.failure = answer
            return
        whole, cached = openai_wire.prompt_tokens(answer.get("usage") or {})
        logprobs, texts = echoed(answer)
        found = logprobs[partial.prompt_tokens :]
        if not found or None in found:
            message = f"{self._server.base_url} echoes no log-probabilities for {continuation!r}"
            partial.failure = Failure(type=NotOffered.__name__, message=message)
            return
        if texts is not None and not is_said(continuation, behind := texts[partial.prompt_tokens :]):
            hint = "set chat_template: never" if in_chat else "change delimiter or the prompt's end"
            message = (
                f"{continuation!r} is {''.join(behind)!r} in the tokens behind the prompt of {self._server.base_url}, "
                f"whose tokenizer joins the prompt's end with what follows: {hint}"
            )
            partial.failure = Failure(type=NotOffered.__name__, message=message)
            return
        partial.logprobs[i] = sum(cast("list[float]", found))
        partial.token_counts[i] = len(found)
        partial.prefill_tokens += whole
        partial.cached_tokens += cached
