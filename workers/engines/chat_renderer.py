"""Rendering of chats by the template of the model's tokenizer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cached_property
from typing import Any

from jinja2 import Environment, meta

from contract.errors import RequestRejected
from contract.prompts import TEMPLATE_TROUBLES
from contract.spec import OWN_VARIABLES, Chat, ChatTemplate
from contract.turns import Role, Turns, messages

__all__ = ["ChatRenderer"]

#: Fixed date for chat templates, so that a run's prompts do not change from day to day. It is the default date of
#: Llama's templates.
TODAY = date(2024, 7, 26)
#: What the model says in a turn rendered to see what the template puts before it.
ANSWER = "Paris"
#: What the user says there.
ASKED = "Which?"
#: What `transformers` sets in every template, besides the special tokens.
SET_BY_TRANSFORMERS = frozenset({"raise_exception", "strftime_now", "documents"})
#: Its own tag for the model's turns, which leaves nothing in the text.
GENERATION_TAG = re.compile(r"{%-?\s*(end)?generation\s*-?%}")


class ChatRenderer:
    """The chat template of one model, if it has one. Not thread-safe."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        #: The template's variables as JSON → `opening`.
        self._openings: dict[str, str] = {}

    @property
    def exists(self) -> bool:
        """Whether the model's tokenizer has a chat template."""
        return bool(getattr(self._tokenizer, "chat_template", None))

    def is_wanted(self, chat: Chat) -> bool:
        """Whether the prompt must be put into a template, even if the model has none."""
        if chat.template is ChatTemplate.AUTO:
            return self.exists or self._is_code or bool(chat.kwargs)
        return chat.template is not ChatTemplate.NEVER

    @cached_property
    def variables(self) -> list[str] | None:
        """The variables of the chat template that a run may set; None if the model has no template."""
        if not self.exists:
            return None
        try:
            template = GENERATION_TAG.sub("", self._tokenizer.get_chat_template())
            found = meta.find_undeclared_variables(Environment(extensions=["jinja2.ext.loopcontrols"]).parse(template))
        except TEMPLATE_TROUBLES:  # it will not be rendered either, or is none of Jinja's
            return []
        return sorted(found - OWN_VARIABLES - SET_BY_TRANSFORMERS - self._tokenizer.special_tokens_map.keys())

    def prompt(self, turns: Turns, kwargs: Mapping[str, Any]) -> str | RequestRejected:
        """Render `turns` up to the start of the model's next turn, or return why that is not possible."""
        if not self.exists:
            return self._lacking(kwargs)
        if unknown := self._unknown(kwargs):
            # Before it is rendered: `transformers` takes some names, such as chat_template, for parameters of its own.
            return unknown
        hint = "Set chat_template: " + ("never." if len(turns) == 1 else "always, which merges them into one turn.")
        try:
            text = self._rendered(messages(turns), kwargs, add_generation_prompt=True)
        except TEMPLATE_TROUBLES as trouble:
            roles = ", ".join(turn.role for turn in turns)
            reason = str(trouble).rstrip(".") or type(trouble).__name__
            what = f"The model's chat template does not accept these turns ({roles}): {reason}."
            return RequestRejected(what, hint=hint)
        if lost := _left_out(turns, text):
            what = f"The model's chat template drops a turn of the {lost}, or changes its text."
            return RequestRejected(what, hint=hint)
        return text

    def opening(self, kwargs: Mapping[str, Any]) -> str:
        """Return the white space that the template puts between the start of the model's turn and its text, if any.

        Llama 2's puts a space there: without it, a label would be another token than in the turns of the examples.
        Anything but white space, such as an empty reasoning, is left to the model.
        """
        given = json.dumps(dict(kwargs), sort_keys=True)
        if given not in self._openings:
            self._openings[given] = self._find_opening(kwargs)
        return self._openings[given]

    def _lacking(self, kwargs: Mapping[str, Any]) -> RequestRejected:
        if self._is_code:
            what = "vLLM's own code, not a chat template, puts this model's chats together."
            hint = "Set chat_template: never or, if the model has a template too, vllm_args.tokenizer_mode: hf."
            return RequestRejected(what, hint=hint)
        more = ", and leave chat_template_kwargs out" if kwargs else ""
        return RequestRejected("The model has no chat template.", hint=f"Set chat_template: never{more}.")

    @cached_property
    def _is_code(self) -> bool:
        """Whether chats are put together by vLLM's code for this model, as for Mistral's and DeepSeek's tokenizers."""
        of_vllm = [each for each in type(self._tokenizer).__mro__ if each.__module__.startswith("vllm.tokenizers.")]
        return any("apply_chat_template" in vars(each) for each in of_vllm)

    def _unknown(self, kwargs: Mapping[str, Any]) -> RequestRejected | None:
        for name in kwargs:
            if name not in (known := self.variables or []):
                what = f"chat_template_kwargs: the model's chat template has no variable {name!r}."
                return RequestRejected(what, hint=f"It has {', '.join(known) or 'none that can be set'}.")
        return None

    def _find_opening(self, kwargs: Mapping[str, Any]) -> str:
        asked = [{"role": "user", "content": ASKED}]
        answered = [*asked, {"role": "assistant", "content": ANSWER}]
        try:
            begins = self._rendered(asked, kwargs, add_generation_prompt=True)
            whole = self._rendered(answered, kwargs, add_generation_prompt=False)
        except TEMPLATE_TROUBLES:
            return ""
        opening, answer, _ = whole.removeprefix(begins).partition(ANSWER)
        return opening if whole.startswith(begins) and answer and opening.isspace() else ""

    def _rendered(self, said: list[dict[str, str]], kwargs: Mapping[str, Any], *, add_generation_prompt: bool) -> str:
        given = {**self._clock(), **kwargs}
        return self._applied(_in_parts(said) if self._takes_parts else said, add_generation_prompt, given)

    def _applied(self, said: Sequence[Mapping[str, Any]], add_generation_prompt: bool, given: Mapping[str, Any]) -> str:
        text: str = self._tokenizer.apply_chat_template(
            said, add_generation_prompt=add_generation_prompt, tokenize=False, **given
        )
        return text

    @cached_property
    def _takes_parts(self) -> bool:
        """Whether the template drops a text, and wants a list of parts of which some are texts and some images."""
        asked = [{"role": "user", "content": ASKED}]
        return not self._shows(asked) and self._shows(_in_parts(asked))

    def _shows(self, asked: Sequence[Mapping[str, Any]]) -> bool:
        try:
            return ASKED in self._applied(asked, True, self._clock())
        except TEMPLATE_TROUBLES:
            return False

    def _clock(self) -> dict[str, Any]:
        """Return a fixed clock for a template that states the date; nothing for other templates."""
        template = str(getattr(self._tokenizer, "chat_template", ""))
        return {"strftime_now": TODAY.strftime} if "strftime_now" in template else {}


def _in_parts(said: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**each, "content": [{"type": "text", "text": each["content"]}]} for each in said]


def _left_out(turns: Turns, text: str) -> Role | None:
    """Return the role of the first turn whose text is not found verbatim and in order in `text`, or None."""
    at = 0
    for turn in turns:
        said = turn.text.strip()  # templates may strip white space
        found = text.find(said, at)
        if found < 0:
            return turn.role
        at = found + len(said)
    return None
