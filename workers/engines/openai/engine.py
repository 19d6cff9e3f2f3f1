"""Engine on any OpenAI-compatible server: vLLM's own, llama.cpp, Ollama, a hosted one, or one booted by the worker.

The server's capabilities are probed once (`Offers`). A request is put to it in the way that it offers
(`workers.engines.openai.asking`): those for log-probabilities in two steps, each of which covers the whole batch.
Parameters that a model does not take are left out where its runs chose no value, which `describe` tells
(`workers.engines.openai.parameters`).

If a request stays unanswered and the server refuses everybody, it is waited for (`workers.engines.openai.patience`). A
judge is not waited for but watched (`workers.engines.openai.judge`), and its questions are put off meanwhile.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from contract.errors import EngineDead
from contract.settings import OpenAiSettings, Settings
from workers.engines.base import (
    Completion,
    Engine,
    GenerateRequest,
    Part,
    Request,
    asked_texts,
    in_order,
)
from workers.engines.capacity import Capacity
from workers.engines.openai.asking import Asker, PartialScore
from workers.engines.openai.client import Client, ModelClient
from workers.engines.openai.connection import Connection
from workers.engines.openai.judge import JudgeClient
from workers.engines.openai.patience import Patience
from workers.engines.openai.probing import Offers, find_out, remarks
from workers.engines.vllm_server import LocalServer

__all__ = ["OpenAiEngine"]

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

#: Upper bound on the tokens that a chat template adds around a text.
MOST_AROUND = 256
#: Upper bound on those around each further turn.
MOST_AROUND_TURN = 32


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
        self._client: Client | None = None
        self._asker: Asker | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._capacity = Capacity(self._server.concurrency, lambda: self.room_came())
        self._waits_for = ""

    def start(self) -> None:
        if self._local is not None:
            self._server = self._local.start()
        self._connection = Connection(self._server, self.stopping)
        self._pool = ThreadPoolExecutor(self._server.concurrency, thread_name_prefix="openai")
        self._client = JudgeClient(self._connection) if self._is_judge else self._model_client(self._connection)
        self._asker = Asker(self._client, self._offers, self._server, self._adapters())

    def _adapters(self) -> dict[str, str]:
        """Return by which name the server is asked for each adapter."""
        names = self.settings.adapters
        return names if self._local is None else {name: name for name in names}

    def _model_client(self, connection: Connection) -> ModelClient:
        """Return a client of the model's server, once that answers and it is known what it offers."""
        self._waits_for = f"the server at {self._server.base_url}"
        self._offers = find_out(connection, self.settings.server_startup_timeout)
        self._waits_for = ""
        if unusual := remarks(connection, self._offers, self._adapters().values()):
            log.warning("%s", connection.says(f"{self._server.model} {'; it '.join(unusual)}"))
        is_ours = self._local is not None
        patience = Patience(connection, self.stopping, in_chat=self._offers.chat, is_ours=is_ours)
        return ModelClient(connection, patience, self._local.last_words if self._local else str)

    @property
    def waits_for(self) -> str:
        return self._waits_for or (self._client.waits_for if self._client else "")

    def answers(self, requests: Sequence[Request]) -> Iterator[Part]:
        asker = self._started(self._asker)
        lacking: dict[int, PartialScore] = {}
        for answered in self._each(asker.first, requests):
            lacking |= {i: head for i, head in answered if isinstance(head, PartialScore) and head.tails}
            whole = [(i, head) for i, head in answered if i not in lacking]
            yield [(i, head if isinstance(head, Completion) else head.completion()) for i, head in whole]
        tails = [(i, tail) for i, head in lacking.items() for tail in head.tails]
        left = Counter(i for i, _ in tails)
        for part in self._each(asker.weigh, [tail for _, tail in tails]):
            ended = []
            for at, weighed in part:
                i, tail = tails[at]
                tail.head.add(tail.place, weighed)
                left[i] -= 1
                if not left[i]:
                    ended.append((i, tail.head.completion()))
            yield ended

    @property
    def counts_tokens(self) -> bool:
        return self._offers.context > 0

    def excess_tokens(self, requests: Sequence[Request]) -> list[int]:
        """See `Engine`; 0 if the server does not count tokens. Makes one call per request that may be too long."""
        found = [0] * len(requests)
        if self.counts_tokens:
            long = [at for at, each in enumerate(requests) if self._may_exceed(each)]
            for ended in self._each(self._started(self._asker).length, [requests[at] for at in long]):
                for place, length in ended:
                    found[long[place]] = max(0, length - self._offers.context)
        return found

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        if not self.counts_tokens:
            return super().count_tokens(texts)
        bodies = [{"prompt": each, "add_special_tokens": False} for each in texts]
        return in_order(self._each(self._started(self._client).count_tokens, bodies), len(bodies))

    def count_prompt_tokens(self, requests: Sequence[Request]) -> list[int]:
        """See `Engine`; returns upper bounds, as exact counts would need one more call for each text."""
        return [sum(len(each.encode()) for each in asked_texts(request)) for request in requests]

    def _may_exceed(self, request: Request) -> bool:
        """Whether the request may be too long: no tokenizer makes more tokens of a text than it has bytes."""
        asked = request.sampling.max_tokens if isinstance(request, GenerateRequest) else 0
        (most,) = self.count_prompt_tokens([request])
        around = MOST_AROUND + MOST_AROUND_TURN * (len(request.turns) - 1)
        return most + asked + around > self._offers.context

    def describe(self) -> dict[str, Any]:
        offers = {name: value for name in Offers.__slots__ if (value := getattr(self._offers, name))}
        found = {"engine": "openai", "server": self._server.base_url, "model": self._server.model, "offers": offers}
        if self._connection is None:
            return found
        parameters = self._connection.parameters
        told = {"left_to_model": parameters.left_out, "renamed": parameters.renamed}
        return found | {name: value for name, value in told.items() if value}

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if self._connection is not None:
            self._connection.client.close()
        if self._local is not None:
            self._local.stop()

    def _each(self, ask: Callable[[T], R], items: Sequence[T]) -> Iterator[list[tuple[int, R]]]:
        """Apply `ask` to every item, within the server's concurrency; yield what finished, if anything, with its place.

        What `ask` raises is raised once the results that are there are yielded: they may have been paid for.
        """
        pool = self._started(self._pool)
        if not items:  # as where there is nothing to measure: no call begins that others could join
            return

        def ask_in_place(item: T) -> R:
            try:
                return ask(item)
            finally:
                self._capacity.leave()

        self._capacity.want(len(items))
        unasked = len(items)
        under_way: dict[Future[R], int] = {}
        try:
            for i, item in enumerate(items):
                try:
                    under_way[pool.submit(ask_in_place, item)] = i
                except RuntimeError as trouble:  # the pool was shut down in the meantime
                    raise EngineDead(f"The engine takes no more requests: {trouble}") from None
                unasked -= 1
            while under_way:
                wait(under_way, timeout=self.look_every_s)
                # `wait` itself does not tell of those that were cancelled when the pool was shut down.
                ended = [each for each in under_way if each.done()]
                done = [each for each in ended if not each.cancelled()]
                if answered := [(under_way.pop(each), each.result()) for each in done if not each.exception()]:
                    self.answered()
                yield answered
                if len(done) < len(ended):
                    raise EngineDead("The engine was closed.")
                for each in done:
                    each.result()
        finally:
            self._capacity.leave(unasked + sum([each.cancel() for each in under_way]))

    @staticmethod
    def _started(part: T | None) -> T:
        """Return what `start` has created."""
        if part is None:
            raise EngineDead("The engine was not started.")
        return part
