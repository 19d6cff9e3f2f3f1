"""Waiting for Redis to come back, so that an outage costs neither an engine nor what it has answered."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from contract.errors import LedgerError
from workers.retries import LONGEST_PAUSE_S, LastTold

__all__ = ["despite_outages"]

log = logging.getLogger(__name__)

T = TypeVar("T")


def despite_outages(
    what: str,
    call: Callable[[], T],
    stopping: Callable[[], bool],
    waits: Callable[[LedgerError], object] = lambda _: None,
) -> T:
    """Return the result of `call`, which asks Redis; repeat it as long as that is unavailable.

    `what` names what waits, for the log; `waits` is called with each trouble. Redis may have executed a call whose
    answer was lost: repeating it must do no harm.

    Raises LedgerError if waiting cannot help, or once this worker is `stopping`.
    """
    wait_s = 0.1
    told = LastTold()
    while True:
        try:
            return call()
        except LedgerError as trouble:
            if not trouble.retryable or stopping():
                raise
            if told.is_news(trouble):
                log.warning("%s waiting for the ledger: %s", what, trouble)
            waits(trouble)
            time.sleep(wait_s)
            wait_s = min(wait_s * 2, LONGEST_PAUSE_S)
