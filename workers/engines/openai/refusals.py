"""What a server's refusals mean: whether they may pass, and who may have sent them. Pure.

One alone does not say whether it concerns its request or all: a small request finds that out
(`workers.engines.openai.patience`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openai import OpenAIError

__all__ = ["is_away", "is_no_answer", "is_of_all", "is_spent", "may_be_of_a_proxy", "may_pass", "may_recover"]

#: What a proxy answers while the server behind it is not up. Other errors, even a 500, may only mean that the server
#: does not list its models.
NOT_UP = frozenset({502, 503, 504})
#: What a proxy answers if it wants a password, or does not let this client through.
NOT_LET_THROUGH = frozenset({403, 407})
#: What OpenAI answers if a model's hidden reasoning took all tokens that the text might have had.
SPENT = "Could not finish the message because max_tokens or model output limit was reached"
#: Refusals that may pass, besides all server errors: time-out, conflict, too many requests.
MAY_PASS = frozenset({408, 409, 429})
#: Refusals that may be about the request: malformed, too large, or with values that the server does not take.
OF_THE_REQUEST = frozenset({400, 413, 422})
#: A server that wants to be paid. Its owner can see to that while the worker waits.
UNPAID = 402


def is_no_answer(trouble: OpenAIError) -> bool:
    """Whether the server reported success, but sent something other than an answer."""
    from openai import APIError

    return not isinstance(trouble, APIError)


def is_spent(trouble: OpenAIError) -> bool:
    """Whether the limit of tokens was used up before the text began, which other servers report as an empty text."""
    from openai import BadRequestError

    return isinstance(trouble, BadRequestError) and SPENT in str(trouble)


def may_pass(trouble: OpenAIError) -> bool:
    """Whether the same request may be answered later: the server was away, busy or in trouble, and refused nothing."""
    from openai import APIConnectionError, APIStatusError

    if isinstance(trouble, APIStatusError):
        return trouble.status_code in MAY_PASS or trouble.status_code >= 500
    return isinstance(trouble, APIConnectionError)


def is_away(trouble: OpenAIError) -> bool:
    """Whether nothing answers for now, for any request: no connection, or a proxy that does not reach the server."""
    from openai import APIConnectionError, APIStatusError

    if isinstance(trouble, APIStatusError):
        return trouble.status_code in NOT_UP
    return isinstance(trouble, APIConnectionError)


def may_be_of_a_proxy(trouble: Exception | str) -> bool:
    """Whether this may come from a proxy on the way rather than from the server."""
    from openai import OpenAIError

    return isinstance(trouble, OpenAIError) and (is_away(trouble) or _status(trouble) in NOT_LET_THROUGH)


def is_of_all(refused: OpenAIError, small: OpenAIError) -> bool:
    """Whether a server that refuses one request (`refused`), and then a small one (`small`), refuses all.

    It may dislike what is in the small one: some models take no limit of so few tokens (OpenAI's through OpenRouter).
    But then it says something else about that. Numbers do not count, as costs grow from one refusal to the next.
    """
    return _status(small) not in OF_THE_REQUEST or _said(small) == _said(refused)


def may_recover(trouble: OpenAIError) -> bool:
    """Whether a server that refuses everybody like this may serve them again later, unchanged.

    A server that cannot be connected to is gone: what takes its place may offer other things, and must be probed anew.
    """
    from openai import APIConnectionError, APITimeoutError

    is_gone = isinstance(trouble, APIConnectionError) and not isinstance(trouble, APITimeoutError)
    return not is_gone and (may_pass(trouble) or is_no_answer(trouble) or _status(trouble) == UNPAID)


def _status(trouble: OpenAIError) -> int | None:
    return getattr(trouble, "status_code", None)


def _said(trouble: OpenAIError) -> tuple[int | None, str]:
    """Return the status and the words without numbers."""
    return _status(trouble), re.sub(r"\d+", "", str(trouble))
