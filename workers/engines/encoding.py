"""From requests to token ids: chat template, beginning-of-sequence, and the boundary between prompt and continuation.

The one place where text becomes tokens, so that what `show` prints is what the engine gets.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from contract.errors import RequestRejected
from contract.spec import ChatTemplate
from workers.engines.base import Request, ScoreRequest

__all__ = ["Encoded", "PromptEncoder"]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A request in tokens."""

    #: The text that was tokenised, chat template and all.
    text: str
    prompt: list[int]
    #: Tokens of each continuation; none for a request that generates.
    tails: list[list[int]]


class PromptEncoder:
    """Encodes for one model. Thread-safe: fast tokenizers refuse to be borrowed by two threads at once."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()

    @classmethod
    def of_model(cls, model: str) -> PromptEncoder:
        """The encoder of the model in that folder or under that hub id, without an engine."""
        from transformers import AutoTokenizer

        return cls(AutoTokenizer.from_pretrained(model))

    @property
    def has_chat_template(self) -> bool:
        """Whether the model is a chat model, by its own tokenizer."""
        return bool(getattr(self._tokenizer, "chat_template", None))

    def encode(self, requests: Sequence[Request]) -> list[Encoded | RequestRejected]:
        """Each request in tokens, in order; the reason for what cannot be.

        A prompt gets the special tokens that the model's tokenizer puts before a text (one BOS, or none where the
        model knows none), or those of its chat template, and never both. Prompt and continuation are tokenised as one
        text and the continuation is what lies beyond as many tokens as the prompt alone has: a space at the boundary
        is neither lost nor doubled. For prompts that do not end in white space, and ours never do, this is
        `_encode_pair` of lm-evaluation-harness (`lm_eval/api/model.py`).
        """
        with self._lock:
            shown = [self._shown(each) for each in requests]
            plain = self._ids([t for texts in shown if texts and not texts.chat for t in texts.all], special=True)
            chat = self._ids([t for texts in shown if texts and texts.chat for t in texts.all], special=False)
        encoded: list[Encoded | RequestRejected] = []
        for texts in shown:
            if texts is None:
                encoded.append(RequestRejected("The model has no chat template.", hint="Set chat_template: never."))
                continue
            source = chat if texts.chat else plain
            prompt, *wholes = [next(source) for _ in texts.all]
            encoded.append(Encoded(texts.all[0], prompt, [whole[len(prompt) :] for whole in wholes]))
        return encoded

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special ones."""
        with self._lock:
            return [len(ids) for ids in self._ids(list(texts), special=False)]

    def _shown(self, request: Request) -> _Texts | None:
        continuations = request.continuations if isinstance(request, ScoreRequest) else ()
        if request.chat is ChatTemplate.NEVER or (request.chat is ChatTemplate.AUTO and not self.has_chat_template):
            return _Texts(False, [request.prompt, *(request.prompt + each for each in continuations)])
        if not self.has_chat_template:
            return None
        messages = [{"role": "user", "content": request.prompt}]
        prompt = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return _Texts(True, [prompt, *(prompt + each.lstrip() for each in continuations)])

    def _ids(self, texts: list[str], *, special: bool) -> Any:
        """Iterator over the token ids of `texts`."""
        if not texts:
            return iter(())
        found = self._tokenizer(texts, add_special_tokens=special)["input_ids"]
        return iter([self._without_second_bos(ids) for ids in found])

    def _without_second_bos(self, ids: list[int]) -> list[int]:
        """A template that writes BOS itself, before a tokenizer that adds one, must not double it."""
        bos = getattr(self._tokenizer, "bos_token_id", None)
        return ids[1:] if bos is not None and ids[:2] == [bos, bos] else ids


@dataclass(frozen=True, slots=True)
class _Texts:
    chat: bool
    #: The prompt, then prompt and continuation for each continuation.
    all: list[str]
