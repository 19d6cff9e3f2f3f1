"""Log-probabilities of a prompt's own tokens, as servers echo them. Pure.

OpenAI's plain completions echo the prompt, and vLLM's chat completions have `prompt_logprobs`. Servers differ in what
they list and count: llama-cpp-python counts the token that starts a text, and does not list it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

from workers.engines.openai.wire import CONTINUED, UNREADABLE, prompt_tokens

__all__ = ["Echo", "Scorable", "chat_scores", "echoed", "is_said"]

#: A token that is shown by its number instead of its text.
NUMBER = re.compile(r"token_id:\d+")
#: A byte of a character, alone in its token: as in SentencePiece's vocabularies, and as OpenAI writes it.
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>|\\x([0-9A-Fa-f]{2})")


class Echo(NamedTuple):
    """A prompt's tokens, in order; the first one has no log-probability."""

    logprobs: list[float | None]
    #: As the server writes them; None if it does not.
    texts: list[str] | None


class Scorable(NamedTuple):
    """What can be scored: how many of the likeliest next tokens the server lists, and whether it echoes any text."""

    top: int
    echo: bool


def echoed(answer: dict[str, Any]) -> Echo:
    """Return the tokens of the prompt, as many as the server counts. Raises ValueError if it echoed others."""
    usage = answer.get("usage") or {}
    count, _ = prompt_tokens(usage)
    if rows := answer.get("prompt_logprobs"):  # vLLM's chat completions: token id → its entry, that of the prompt first
        entries = [next(iter(row.values())) if row else {} for row in rows]
        logprobs, texts = [each.get("logprob") for each in entries], [each.get("decoded_token") for each in entries]
        generated = 0
    else:
        found = answer["choices"][0].get("logprobs") or {}
        logprobs, texts = list(found.get("token_logprobs") or ()), list(found.get("tokens") or ())
        generated = 1 if len(logprobs) > count else min(1, usage.get("completion_tokens") or 0)
    logprobs, texts = logprobs[: len(logprobs) - generated], texts[: len(logprobs) - generated]
    unlisted = count - len(logprobs)
    if unlisted not in {0, 1}:
        raise ValueError(f"log-probabilities of {len(logprobs)} of {count} tokens")
    is_readable = len(texts) == len(logprobs) and all(isinstance(each, str) for each in texts[1:])
    return Echo([None] * unlisted + logprobs, [""] * unlisted + texts if is_readable else None)


def is_said(text: str, tokens: Sequence[str]) -> bool:
    """Whether `tokens` spell `text`, as far as a server's way to write tokens shows.

    White space is ignored, as some servers drop it. Characters beyond ASCII may be spread over several tokens, written
    in other ways, or normalised (NFKC). All that is asked of these is that none is missing at the beginning of `text`,
    where the token before may have taken it.
    """
    if any(map(NUMBER.fullmatch, tokens)):
        return True
    said = "".join(tokens)
    if not any(_ascii(form(text)) == _ascii(form(said)) for form in (str, _normal)):
        return False
    return any(map(_hides_bytes, tokens)) or not _lacks_beginning(_visible(said), _visible(text))


def _normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _ascii(text: str) -> str:
    whole = BYTE.sub(lambda byte: chr(int(byte[1] or byte[2], 16)), text.replace("bytes:", ""))
    return "".join(each for each in whole if "!" <= each <= "~")


def _hides_bytes(token: str) -> bool:
    """Whether parts of characters may be in `token` that its text does not show; llama-cpp-python leaves them out."""
    return not token or "\N{REPLACEMENT CHARACTER}" in token or BYTE.search(token) is not None


def _visible(text: str) -> str:
    """Return the letters, digits, punctuation and symbols of `text`, without what SentencePiece writes for a space."""
    return "".join(each for each in _normal(text) if unicodedata.category(each)[0] in "LNPS" and each != "▁")


def _lacks_beginning(said: str, text: str) -> bool:
    return said != text and text.endswith(said)


def chat_scores(answers: Sequence[dict[str, Any]], listed: int) -> Scorable:
    """Return what can be scored in a chat in which the server lists so many next tokens.

    The answers are those to `wire.one_more_token`, without any that the server refused. Any text can be scored by
    continuing the model's turn with it, if that adds only the text's own tokens to the prompt. If the template then
    puts a space before the model's words that becomes part of their first token, listed tokens cannot be used: without
    the space, the same text is another token.
    """
    try:
        bare, continued = (prompt_tokens(each.get("usage") or {})[0] for each in answers)
        echo = echoed(answers[1])
    except UNREADABLE:  # or an answer is missing
        return Scorable(listed, echo=False)
    if continued != bare + 1 or not echo.logprobs or echo.logprobs[-1] is None:
        return Scorable(listed, echo=False)
    return Scorable(listed if echo.texts is None or echo.texts[-1] == CONTINUED else 0, echo=True)
