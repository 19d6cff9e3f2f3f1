"""From requests to token ids: chat template, beginning-of-sequence, and the boundary between prompt and continuation.

The one place where text becomes tokens, so that what `show` prints is what the engine gets.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from contract.errors import ModelNotFound, RequestRejected, first_line
from contract.models import require_hub
from contract.spec import ChatTemplate
from contract.turns import Role, Turns, begun, messages
from workers.engines.base import Request, continuations_of

__all__ = ["Encoded", "PromptEncoder", "positions_of"]

#: Lines whose tokens are remembered, at most: a prompt without a line break is one line, however long.
MOST_KNOWN_LINES = 1000
#: What day it is in a chat template, whatever day it is: else the same run would ask something else tomorrow. This is
#: the one that Llama's templates name where nobody tells them.
TODAY = date(2024, 7, 26)
#: What a template raises, by its own word or by a fault in it.
TEMPLATE_TROUBLES = (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A request in tokens."""

    #: The text that was tokenised, chat template and all.
    text: str
    prompt: list[int]
    #: Tokens of each continuation; none for a request that generates.
    tails: list[list[int]]
    #: The continuations as they follow the text.
    continuations: tuple[str, ...] = ()


def positions_of(model: str) -> int | None:
    """Tokens that the model in that folder or under that hub id was made for; None where it does not say."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(model).get_text_config()
    except (OSError, ValueError):  # vLLM knows kinds of models that transformers does not
        return None
    found: int | None = getattr(config, "max_position_embeddings", None)
    return found


class PromptEncoder:
    """Encodes for one model. Thread-safe: fast tokenizers refuse to be borrowed by two threads at once."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        #: Last lines with what follows them, and their tokens: asked for a label, all questions of a run end alike.
        self._known_lines: dict[str, list[int]] = {}

    @classmethod
    def of_model(cls, model: str) -> PromptEncoder:
        """The encoder of the model in that folder or under that hub id, without an engine. Raises ModelNotFound."""
        from transformers import AutoTokenizer

        if not Path(model).is_dir():
            require_hub(model, "config.json")
        try:
            return cls(AutoTokenizer.from_pretrained(model))
        except (OSError, ValueError) as trouble:  # the hub was there and is gone; a folder of something else
            hint = "hf_model_id may also be a folder, which needs no network."
            raise ModelNotFound(f"No tokenizer for {model!r}: {first_line(trouble)}.", hint=hint) from None

    @property
    def has_chat_template(self) -> bool:
        """Whether the model is a chat model, by its own tokenizer."""
        return bool(getattr(self._tokenizer, "chat_template", None))

    def encode(self, requests: Sequence[Request]) -> list[Encoded | RequestRejected]:
        """Each request in tokens, in order; the reason for what cannot be.

        A prompt gets the special tokens that the model's tokenizer puts before a text (one BOS, or none where the
        model knows none), or those of its chat template, and never both. Prompt and continuation are tokenised as one
        text and the continuation is what lies beyond the prompt's tokens: a space at the boundary is neither lost nor
        doubled. This is `_encode_pair` of lm-evaluation-harness (`lm_eval/api/model.py`) wherever the prompt has the
        same tokens with and without what follows. Where it has not, as the tokenizer makes one token of its end (white
        space, say) and what follows, it ends before the first token that differs, for all continuations alike.
        """
        with self._lock:
            shown = [self._shown(each) for each in requests]
            texts = [each for each in shown if isinstance(each, _Texts)]
            parted = self._parted(texts, self._prompts(texts))
        encoded = (
            Encoded(text.prompt, prompt, tails, text.continuations)
            for text, (prompt, tails) in zip(texts, parted, strict=True)
        )
        return [each if isinstance(each, RequestRejected) else next(encoded) for each in shown]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special ones."""
        with self._lock:
            return [len(ids) for ids in self._ids(list(texts), special=False)]

    def _shown(self, request: Request) -> _Texts | RequestRejected:
        continuations = continuations_of(request)
        if request.chat is ChatTemplate.NEVER or (request.chat is ChatTemplate.AUTO and not self.has_chat_template):
            (turn,) = request.turns
            return _Texts(False, turn.text, continuations)
        if not self.has_chat_template:
            return RequestRejected("The model has no chat template.", hint="Set chat_template: never.")
        prompt = self._in_template(request.turns)
        if isinstance(prompt, RequestRejected):
            return prompt
        return _Texts(True, prompt, tuple(map(begun, continuations)))

    def _in_template(self, turns: Turns) -> str | RequestRejected:
        """`turns` up to where the model's next one begins; the reason where its template does not take them all."""
        hint = "Set chat_template: " + ("never." if len(turns) == 1 else "always, which makes one turn of them all.")
        try:
            text: str = self._tokenizer.apply_chat_template(
                messages(turns), add_generation_prompt=True, tokenize=False, **self._clock()
            )
        except TEMPLATE_TROUBLES as trouble:
            roles = ", ".join(turn.role for turn in turns)
            reason = str(trouble).rstrip(".") or type(trouble).__name__
            what = f"The model's chat template does not take these turns ({roles}): {reason}."
            return RequestRejected(what, hint=hint)
        if lost := _left_out(turns, text):
            what = f"The model's chat template leaves out a turn of the {lost}, or changes its text."
            return RequestRejected(what, hint=hint)
        return text

    def _clock(self) -> dict[str, Any]:
        """A clock that stands still, for a template that tells the model what day it is; nothing for another one."""
        template = str(getattr(self._tokenizer, "chat_template", ""))
        return {"strftime_now": TODAY.strftime} if "strftime_now" in template else {}

    def _prompts(self, texts: Sequence[_Texts]) -> list[list[int]]:
        plain = iter(self._ids([each.prompt for each in texts if not each.chat], special=True))
        chat = iter(self._ids([each.prompt for each in texts if each.chat], special=False))
        return [next(chat if each.chat else plain) for each in texts]

    def _parted(self, texts: Sequence[_Texts], prompts: Sequence[list[int]]) -> list[tuple[list[int], list[list[int]]]]:
        """Tokens of every text's prompt, as far as they are the same whatever follows, and of every continuation.

        Only the prompt's last line is tokenised again with each continuation, if it is sure that the lines before it
        have no part in it: as a line of its own it has the very tokens that it has in the prompt, and it begins with
        the same one whatever follows. Otherwise the whole prompt is.
        """
        lines = [each.last_lines() if each.continuations else [] for each in texts]
        known = self._lines({line for of_text in lines for line in of_text})
        parted = []
        for text, of_text, prompt in zip(texts, lines, prompts, strict=True):
            line, *extended = [known[each] for each in of_text] or [[]]
            if not _stands_alone(line, prompt, extended):
                line, extended = prompt, self._ids(text.wholes(), special=not text.chat)
            shared = _shared([line, *extended])
            kept = prompt[: len(prompt) - len(line) + shared]
            parted.append((kept, [each[shared:] for each in extended]))
        return parted

    def _lines(self, lines: set[str]) -> dict[str, list[int]]:
        """Tokens of each of `lines`, and of some others."""
        if len(self._known_lines) > MOST_KNOWN_LINES:
            self._known_lines.clear()
        new = list(lines - self._known_lines.keys())
        self._known_lines.update(zip(new, self._ids(new, special=False), strict=True))
        return self._known_lines

    def _ids(self, texts: list[str], *, special: bool) -> list[list[int]]:
        """Token ids of `texts`.

        A template that writes BOS itself, before a tokenizer that adds one, must not double it.
        """
        if not texts:
            return []
        found: list[list[int]] = self._tokenizer(texts, add_special_tokens=special)["input_ids"]
        bos = getattr(self._tokenizer, "bos_token_id", None)  # looked up anew by its text each time
        return found if bos is None else [ids[1:] if ids[:2] == [bos, bos] else ids for ids in found]


@dataclass(frozen=True, slots=True)
class _Texts:
    chat: bool
    prompt: str
    continuations: tuple[str, ...]

    def wholes(self) -> list[str]:
        """The prompt with each continuation."""
        return [self.prompt + each for each in self.continuations]

    def last_lines(self) -> list[str]:
        """The last line that is not blank with all that follows it, then the same with each continuation."""
        line = self.prompt[self.prompt.rstrip().rfind("\n") + 1 :]
        return [line, *(line + each for each in self.continuations)]


def _left_out(turns: Turns, text: str) -> Role | None:
    """Whose turn does not stand, in its place and word for word, in `text`; None where all do."""
    at = 0
    for turn in turns:
        said = turn.text.strip()  # templates may trim
        found = text.find(said, at)
        if found < 0:
            return turn.role
        at = found + len(said)
    return None


def _shared(lines: Sequence[list[int]]) -> int:
    """How many tokens all of `lines` have in common at their beginning."""
    lowest, highest = min(lines), max(lines)
    differing = (at for at, (a, b) in enumerate(zip(lowest, highest, strict=False)) if a != b)
    return next(differing, min(len(lowest), len(highest)))


def _stands_alone(line: list[int], prompt: list[int], extended: Sequence[list[int]]) -> bool:
    """Whether the tokens of a prompt's last line, and of that line with what follows, owe nothing to what is before."""
    return 0 < len(line) < len(prompt) and prompt[-len(line) :] == line and all(e[:1] == line[:1] for e in extended)
