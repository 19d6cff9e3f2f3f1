"""An engine for tests to build theirs on, with a tokenizer and a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from contract import Prompt, Settings
from workers.engines.base import Completion, Engine, Part, Request, ScoreRequest, in_order

__all__ = ["LETTERED", "FlatRows", "ReadyEngine", "Row", "SlowTexts", "WordTokenizer"]

LETTERED = Prompt(
    name="lettered", text="{{ question }}\n{% for c in choices %}{{ c.label }}. {{ c.text }}\n{% endfor %}Answer:"
)


#: Token → log-probability, of one position.
Row = Mapping[int, float]


class FlatRows:
    """Log-probabilities as vLLM's FlatLogprobs has them."""

    def __init__(self, *rows: Row) -> None:
        ends = list(accumulate(map(len, rows), initial=0))
        self.start_indices, self.end_indices = ends[:-1], ends[1:]
        self.token_ids = [token for row in rows for token in row]
        self.logprobs = [value for row in rows for value in row.values()]

    def __len__(self) -> int:
        return len(self.start_indices)


class ReadyEngine(Engine):
    """Needs no boot, and holds nothing that must be freed. Subclasses say what it answers."""

    def start(self) -> None: ...

    def describe(self) -> dict[str, Any]:
        return {}

    def close(self) -> None: ...


class SlowTexts(ReadyEngine):
    """Answers what has `slow` in its prompt after all else of its call, or then raises `trouble`."""

    def __init__(self, settings: Settings, slow: str, trouble: Exception | None = None) -> None:
        super().__init__(settings)
        self.calls: list[int] = []
        self._slow = slow
        self._trouble = trouble

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        return in_order(self.answers(requests), len(requests))

    def answers(self, requests: Sequence[Request]) -> Iterator[Part]:
        self.calls.append(len(requests))
        slow = [i for i, each in enumerate(requests) if self._slow in each.prompt]
        yield [(i, self.answer(each)) for i, each in enumerate(requests) if i not in slow]
        if self._trouble is not None and slow:
            raise self._trouble
        yield [(i, self.answer(requests[i])) for i in reversed(slow)]

    def answer(self, request: Request) -> Completion:
        """The first continuation is the likeliest."""
        assert isinstance(request, ScoreRequest)
        count = len(request.continuations)
        return Completion(logprobs=tuple(-1.0 - i for i in range(count)), token_counts=(1,) * count)


class WordTokenizer:
    """One token per word, 1 before every text; a chat template that wraps the message in brackets."""

    bos_token_id = 1

    def __init__(self, chat_template: str | None = None) -> None:
        self.chat_template = chat_template
        self._ids: dict[str, int] = {"<s>": 1}

    def __call__(self, texts: list[str], *, add_special_tokens: bool) -> dict[str, list[list[int]]]:
        words = [re.findall(r" ?[^ ]+", text) for text in texts]
        ids = [[self._ids.setdefault(word, len(self._ids) + 1) for word in each] for each in words]
        return {"input_ids": [[1, *each] if add_special_tokens else each for each in ids]}

    def apply_chat_template(self, messages: list[dict[str, str]], **_: object) -> str:
        return f"[ {messages[0]['content']} ]"
