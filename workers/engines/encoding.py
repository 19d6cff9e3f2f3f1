"""Encoding of requests as token ids: special tokens, and the boundary between prompt and continuation.

All tokenisation happens here, so that what `tokens` prints is exactly what the engine gets.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from contract.errors import RequestRejected
from contract.spec import Chat
from contract.turns import as_text, begun, parted
from workers.engines.base import GenerateRequest, Request, ScoreRequest, continuations_of, space_moved
from workers.engines.chat_renderer import ChatRenderer

__all__ = ["Encoded", "PromptEncoder"]

#: Maximum number of lines whose tokens are cached: a prompt without a line break is one line, however long.
MOST_KNOWN_LINES = 1000
#: Maximum number of tokens that are kept for requests that were measured and are yet to be asked: some 40 MB.
MOST_KEPT_TOKENS = 1_000_000


@dataclass(frozen=True, slots=True)
class Encoded:
    """A request as tokens."""

    #: The tokenised text, chat template included.
    text: str
    prompt: list[int]
    #: Tokens of each continuation; empty for a GenerateRequest.
    tails: list[list[int]]
    #: The continuations as appended to the text.
    continuations: tuple[str, ...] = ()
    #: Whether the text is a chat, whose template brings its special tokens.
    chat: bool = False

    @property
    def tokens(self) -> int:
        """The tokens of the prompt and of all continuations."""
        return len(self.prompt) + sum(map(len, self.tails))

    @property
    def texts(self) -> _Texts:
        """What was tokenised."""
        return _Texts(self.chat, self.text, self.continuations)


class PromptEncoder:
    """Encoder for one model. Thread-safe: uses a lock, as fast tokenizers fail if two threads use them at once."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        #: Cached tokens of last lines with their continuations: with labels, all questions of a run end alike.
        self._known_lines: dict[str, list[int]] = {}
        self._kept = _Kept()
        self._chats = ChatRenderer(tokenizer)

    @property
    def variables(self) -> list[str] | None:
        """The variables of the chat template that a run may set; None if the model has no template."""
        return self._chats.variables

    def digest(self, ends: object = None) -> str:
        """Return 16 hex digits over what turns text into tokens: vocabulary, its rules, the chat template; and `ends`.

        `ends` is what ends a generated text. Of a tokenizer without the `tokenizers` library, only the template counts.
        """
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        template = getattr(self._tokenizer, "chat_template", None)
        parts = (backend.to_str() if backend is not None else "", str(template), str(ends))
        return sha256("\0".join(parts).encode()).hexdigest()[:16]

    def encode(self, requests: Sequence[Request]) -> list[Encoded | RequestRejected]:
        """Encode each request, in order; a request that cannot be encoded yields the reason.

        A prompt gets either the special tokens that the model's tokenizer puts before a text (one BOS, or none if the
        model has none) or those of its chat template, never both. What the tokenizer puts behind a text (EOS) is
        dropped, as more text follows. Prompt and continuation are tokenised as one text, and the continuation is
        whatever follows the prompt's tokens, so a space at the boundary is neither lost nor doubled. White space at the
        prompt's end is scored with the continuations, except in a chat and where the request `keeps_space`. This equals
        `_encode_pair` of lm-evaluation-harness (`lm_eval/api/model.py`) as long as the prompt has the same tokens with
        and without a continuation. If not, because the tokenizer merges its end with what follows, the prompt ends
        before the first differing token, for all continuations alike. Where it has no token, the model's BOS token,
        or else its EOS token, stands for the start of a text, as in `loglikelihood` there.
        """
        with self._lock:
            wanted = [self._texts_of(each) for each in requests]
            found = self._encoded(dict.fromkeys(each for each in wanted if isinstance(each, _Texts)))
        return [each if isinstance(each, RequestRejected) else found[each] for each in wanted]

    def keep(self, encoded: Iterable[Encoded]) -> None:
        """Keep the tokens of requests that are only measured for now; encoding these again takes them."""
        with self._lock:
            for each in encoded:
                self._kept.put(each)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, without special tokens."""
        with self._lock:
            return [len(ids) for ids in self._ids(list(texts), special=False)]

    def _texts_of(self, request: Request) -> _Texts | RequestRejected:
        """Return what is to be tokenised for `request`, or why it cannot be asked."""
        if isinstance(request, GenerateRequest) and request.sampling.reasoning_effort:
            hint = "Here it is a variable of the chat template, if at all: chat_template_kwargs.reasoning_effort."
            return RequestRejected("sampling.reasoning_effort is for models on a server.", hint=hint)
        continuations = continuations_of(request)
        if not self._chats.is_wanted(request.chat):
            plain = as_text(request.turns)
            if isinstance(request, ScoreRequest) and not request.keeps_space:
                return _Texts(False, *space_moved(plain, continuations))
            return _Texts(False, plain, continuations)
        if continuations and not request.prompt and self._chats.exists:
            return _Texts(False, "", self._in_chat(request.chat, continuations))
        before, begins = parted(request.turns)
        prompt = self._chats.prompt(before, request.chat.kwargs)
        if isinstance(prompt, RequestRejected):
            return prompt
        if begins:
            return _Texts(True, prompt + self._in_chat(request.chat, [begins])[0], continuations)
        return _Texts(True, prompt, self._in_chat(request.chat, continuations))

    def _in_chat(self, chat: Chat, continuations: Sequence[str]) -> tuple[str, ...]:
        """Return `continuations` as the model's turn begins with them, in a chat."""
        opening = self._chats.opening(chat.kwargs) if continuations else ""
        return tuple(opening + begun(each) for each in continuations)

    def _encoded(self, texts: Collection[_Texts]) -> dict[_Texts, Encoded]:
        """Return each of `texts` encoded; those that were kept are not kept any longer."""
        found = {each: kept for each in texts if (kept := self._kept.take(each))}
        new = [each for each in texts if each not in found]
        for text, (prompt, tails) in zip(new, self._parted(new, self._prompts(new)), strict=True):
            found[text] = Encoded(text.prompt, prompt, tails, text.continuations, text.chat)
        return found

    def _prompts(self, texts: Sequence[_Texts]) -> list[list[int]]:
        plain = iter(self._ids([each.prompt for each in texts if not each.chat], special=True))
        chat = iter(self._ids([each.prompt for each in texts if each.chat], special=False))
        return [next(chat if each.chat else plain) for each in texts]

    def _parted(self, texts: Sequence[_Texts], prompts: Sequence[list[int]]) -> list[tuple[list[int], list[list[int]]]]:
        """Return, for each text, the prompt tokens shared by all continuations, and the tokens of each continuation.

        Only the prompt's last line is tokenised again with each continuation, provided that earlier lines do not
        affect it: tokenised alone it yields the same tokens as within the prompt, and its first token is the same with
        every continuation. Otherwise the whole prompt is tokenised again.
        """
        lines = [each.last_lines() if each.continuations else [] for each in texts]
        known = self._lines({line for of_text in lines for line in of_text})
        parted: list[tuple[list[int], list[list[int]]]] = []
        for text, of_text, prompt in zip(texts, lines, prompts, strict=True):
            if not of_text:
                parted.append((prompt, []))
                continue
            line, *extended = [known[each] for each in of_text]
            if not _stands_alone(line, prompt, extended):
                line, extended = prompt, self._ids(text.wholes(), special=not text.chat)
            shared = _shared([line, *extended])
            kept = prompt[: len(prompt) - len(line) + shared]
            tails = [each[shared:] for each in extended]
            parted.append((kept or self._start, tails))
        return parted

    def _lines(self, lines: set[str]) -> dict[str, list[int]]:
        """Return a dict with the tokens of all `lines`, and possibly of other lines."""
        if len(self._known_lines) > MOST_KNOWN_LINES:
            self._known_lines.clear()
        new = list(lines - self._known_lines.keys())
        self._known_lines.update(zip(new, self._ids(new, special=False), strict=True))
        return self._known_lines

    def _ids(self, texts: list[str], *, special: bool) -> list[list[int]]:
        """Return the token ids of `texts`; `special` adds what the tokenizer puts before a text, but nothing behind it.

        Without a second BOS if the template and the tokenizer both add one.
        """
        if not texts:
            return []
        found: list[list[int]] = self._tokenizer(texts, add_special_tokens=special)["input_ids"]
        if special and self._ending:
            found = [ids[: -self._ending] for ids in found]
        bos = getattr(self._tokenizer, "bos_token_id", None)  # read once: the property looks it up by text each time
        return found if bos is None else [ids[1:] if ids[:2] == [bos, bos] else ids for ids in found]

    @cached_property
    def _start(self) -> list[int]:
        """The token that stands for the start of a text; empty if the model has none."""
        found = (getattr(self._tokenizer, name, None) for name in ("bos_token_id", "eos_token_id"))
        return [each for each in found if each is not None][:1]

    @cached_property
    def _ending(self) -> int:
        """The number of special tokens that the tokenizer puts behind a text, such as EOS (`add_eos_token`)."""
        bare, whole = (self._tokenizer(["a"], add_special_tokens=each)["input_ids"][0] for each in (False, True))
        ends = range(len(whole), len(bare) - 1, -1)
        return next((len(whole) - end for end in ends if whole[end - len(bare) : end] == bare), 0)


@dataclass(frozen=True, slots=True)
class _Texts:
    """What is tokenised for a request: the prompt, and each continuation behind it."""

    #: Whether the prompt is a chat, whose template brings its special tokens.
    chat: bool
    prompt: str
    continuations: tuple[str, ...]

    def wholes(self) -> list[str]:
        """Return the prompt with each continuation appended."""
        return [self.prompt + each for each in self.continuations]

    def last_lines(self) -> list[str]:
        """Return the prompt from its last non-blank line on, then the same with each continuation appended."""
        line = self.prompt[self.prompt.rstrip().rfind("\n") + 1 :]
        return [line, *(line + each for each in self.continuations)]


class _Kept:
    """Requests encoded ahead, with at most `MOST_KEPT_TOKENS`: some are never asked, and the oldest go first."""

    def __init__(self) -> None:
        self._found: OrderedDict[_Texts, Encoded] = OrderedDict()
        self._tokens = 0

    def put(self, encoded: Encoded) -> None:
        self.take(encoded.texts)
        self._found[encoded.texts] = encoded
        self._tokens += encoded.tokens
        while self._tokens > MOST_KEPT_TOKENS:
            self.take(next(iter(self._found)))

    def take(self, texts: _Texts) -> Encoded | None:
        if found := self._found.pop(texts, None):
            self._tokens -= found.tokens
        return found


def _shared(lines: Sequence[list[int]]) -> int:
    """Return the length of the longest common prefix of `lines`."""
    lowest, highest = min(lines), max(lines)
    differing = (at for at, (a, b) in enumerate(zip(lowest, highest, strict=False)) if a != b)
    return next(differing, min(len(lowest), len(highest)))


def _stands_alone(line: list[int], prompt: list[int], extended: Sequence[list[int]]) -> bool:
    """Whether the tokens of a prompt's last line, alone and with each continuation, do not depend on earlier lines."""
    return 0 < len(line) < len(prompt) and prompt[-len(line) :] == line and all(e[:1] == line[:1] for e in extended)
