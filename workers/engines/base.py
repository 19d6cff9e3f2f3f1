"""What the rest of the worker knows of a language model: one door with a few verbs."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

from contract.settings import Settings
from contract.spec import ChatTemplate, Sampling
from contract.turns import Turns, readable
from contract.verdict import Failure

__all__ = [
    "Completion",
    "Engine",
    "GenerateRequest",
    "Part",
    "Request",
    "ScoreRequest",
    "Text",
    "asked_texts",
    "continuations_of",
    "in_order",
    "measured",
]

T = TypeVar("T")


class ScoreRequest(NamedTuple):
    """Ask how likely each of `continuations` is after `turns`.

    A continuation carries its own leading space; where the chat template is used it begins the model's turn, and
    loses it (`contract.turns.begun`). How it is computed is the engine's business, as long as it is exact:
    continuations of one token each cost one prefill together, longer ones cost one each.
    """

    turns: Turns
    continuations: tuple[str, ...]
    chat: ChatTemplate = ChatTemplate.NEVER
    #: LoRA adapter of the deployment; empty: the model as it is.
    adapter: str = ""

    @property
    def prompt(self) -> str:
        """The turns, to be read."""
        return readable(self.turns)


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """Ask for `sampling.samples` texts after `turns`; the same seed gives the same texts."""

    turns: Turns
    sampling: Sampling
    seed: int = 0
    chat: ChatTemplate = ChatTemplate.NEVER
    #: JSON schema that the text must follow, where the engine can hold the model to one.
    json_schema: str = ""
    adapter: str = ""

    @property
    def prompt(self) -> str:
        """The turns, to be read."""
        return readable(self.turns)


Request = ScoreRequest | GenerateRequest


@dataclass(frozen=True, slots=True)
class Text:
    """One text that the model wrote."""

    text: str
    tokens: int
    #: It ended at `max_tokens`, not by itself.
    truncated: bool = False


class Completion(NamedTuple):
    """The answer to one request: log-probabilities, or texts, or the reason why there are none.

    `logprobs[i]` is the natural log of the probability of `continuations[i]` after the prompt, summed over its tokens,
    taken from the model's full distribution (no temperature, no masking).
    """

    logprobs: tuple[float, ...] = ()
    #: Tokens of each continuation.
    token_counts: tuple[int, ...] = ()
    texts: tuple[Text, ...] = ()
    #: With what the prompt ended that the texts follow, chat template and all; empty where the engine does not know.
    prompt_end: str = ""
    #: Tokens of the prompt, once.
    prompt_tokens: int = 0
    #: Tokens that all prefills of this request hold, and how many of them came from the prefix cache.
    prefill_tokens: int = 0
    cached_tokens: int = 0
    error: Failure | None = None


#: Answers of a call that have ended, each with its request's position.
Part: TypeAlias = list[tuple[int, Completion]]


class Engine(abc.ABC):
    """A language model that answers from any number of threads at once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        #: Set before `start`. Called from any thread when the engine could begin another call's requests beside those
        #: it has; an engine that cannot tell never calls it.
        self.room_came: Callable[[], object] = lambda: None
        #: Set before `start`. Called with the reason, from any thread, when the engine is gone though nobody closed it,
        #: asked or not; one that cannot tell raises EngineDead at its next call.
        self.gone: Callable[[str], object] = lambda _: None

    @abc.abstractmethod
    def start(self) -> None:
        """Boot. Raises InputError for what a person must mend, EngineError for everything else."""

    @abc.abstractmethod
    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer all requests in one go, in order; all are handed over before any is awaited. Thread-safe.

        A request that cannot be answered for what it is comes back with `error`; the others are not touched.
        Raises EngineDead when the engine is gone, EngineOutOfMemory when fewer requests might do, EngineError else.
        """

    def answers(self, requests: Sequence[Request]) -> Iterator[Part]:
        """`generate`, part by part: about every `settle_every_s` what has ended since, until every request is answered.

        An engine whose answers end together gives one part. What was given stands when a later part raises.
        """
        yield list(enumerate(self.generate(requests)))

    @property
    def counts_tokens(self) -> bool:
        """Whether it can tell how many tokens a text has: without, `max_context_tokens` means something else here."""
        return True

    def excess_tokens(self, requests: Sequence[Request]) -> list[int]:
        """By how many tokens each request, with the answer it asks for, is too long for the model's context; else 0.

        An engine that cannot tell says 0, and refuses what is too long when it is asked.
        """
        return [0] * len(requests)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special ones; at most that many where the engine cannot tell.

        No tokenizer makes more tokens of a text than it has UTF-8 bytes.
        """
        return [len(each.encode()) for each in texts]

    def count_prompt_tokens(self, requests: Sequence[Request]) -> list[int]:
        """Tokens of each request's prompt, and of its continuations, each once.

        Without those of a chat template, where the engine cannot tell.
        """
        return [sum(of_request) for of_request in measured([*map(asked_texts, requests)], self.count_tokens)]

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """What decides the numbers: engine, version, model, dtype and the like. JSON values."""

    @abc.abstractmethod
    def close(self) -> None:
        """Free the model. Calls under way raise EngineDead. May be called twice."""


def continuations_of(request: Request) -> tuple[str, ...]:
    """What `request` wants weighed; nothing where it wants a text."""
    return request.continuations if isinstance(request, ScoreRequest) else ()


def asked_texts(request: Request) -> list[str]:
    """All that `request` is made of: the texts of its turns, and its continuations."""
    return [*(turn.text for turn in request.turns), *continuations_of(request)]


def measured(groups: Sequence[Sequence[T]], measure: Callable[[Sequence[T]], Sequence[int]]) -> list[list[int]]:
    """What `measure` says of each member of each group, asked for all of them at once."""
    found = iter(measure([member for group in groups for member in group]))
    return [list(islice(found, len(group))) for group in groups]


def in_order(parts: Iterable[Sequence[tuple[int, T]]], count: int) -> list[T]:
    """What came in `parts`, each with its position among all `count`."""
    found = dict(each for part in parts for each in part)
    return [found[i] for i in range(count)]
