"""Waiting at boot until a server answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from contract.errors import EngineError, SettingsError
from workers.engines.openai.connection import Connection
from workers.engines.openai.refusals import is_away
from workers.engines.openai.wire import UNREADABLE

__all__ = ["TELL_EVERY_S", "WAIT_S", "await_server", "key_rejected", "until_answered"]

log = logging.getLogger(__name__)

T = TypeVar("T")

WAIT_S = 1.0
#: Time limit of the request that finds out whether a server is there: a host that is gone may never refuse it.
HELLO_S = 10.0
#: Interval between log messages about a server that does not answer.
TELL_EVERY_S = 30.0


def await_server(connection: Connection, timeout_s: float) -> None:
    """Wait until the server answers, and log that it is waited for.

    Raises EngineError after `timeout_s`, SettingsError if it rejects the key.
    """
    impatient = connection.client.with_options(max_retries=0, timeout=min(connection.server.timeout_s, HELLO_S))
    until_answered(lambda: _greet(connection, impatient), timeout_s)


def _greet(connection: Connection, client: Any) -> None:
    from openai import AuthenticationError, OpenAIError, PermissionDeniedError

    try:
        client.models.list()
    except (AuthenticationError, PermissionDeniedError) as trouble:
        raise key_rejected(connection, trouble) from None
    except OpenAIError as trouble:
        if is_away(trouble):  # anything else answers, and need not list its models
            hint = "Check openai.url; is the server running?"
            raise EngineError(f"No server answers: {connection.says(trouble)}", hint=hint) from None
    except UNREADABLE as trouble:
        log.debug("a list of models that cannot be read: %s", trouble)


def key_rejected(connection: Connection, trouble: Exception) -> SettingsError:
    """Return the error to raise if the server refuses the key."""
    hint = "Set openai.api_key, preferably as MCQUEUE_OPENAI__API_KEY."
    return SettingsError(f"The server rejects the key. {connection.says(trouble)}", hint=hint)


def until_answered(ask: Callable[[], T], timeout_s: float) -> T:
    """Return what `ask` returns; while it raises EngineError, log why and ask again, for up to `timeout_s`."""
    started = time.monotonic()
    told_at = float("-inf")
    while True:
        try:
            return ask()
        except EngineError as trouble:
            waited_s = time.monotonic() - started
            if waited_s > timeout_s:
                raise
            if waited_s - told_at >= TELL_EVERY_S:
                told_at = waited_s
                log.warning("waiting up to %g s for the server at openai.url: %s", timeout_s, trouble)
            time.sleep(WAIT_S)
