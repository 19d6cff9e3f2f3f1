"""Celery's consumer, hardened against malformed messages and a Redis that temporarily refuses writes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery.worker import consumer

from contract.queue import UNREADABLE
from workers.messages.transport import FOR_WRITING

__all__ = ["Consumer"]

log = logging.getLogger(__name__)


class Consumer(consumer.Consumer):  # type: ignore[misc]  # celery ships no types
    """Consumer that rejects malformed messages. Celery only rejects some, and crashes on malformed headers."""

    def connection_for_read(self, heartbeat: float | None = None) -> Any:
        """Connect for consuming. While Redis refuses writes, Celery retries after 2, 4 … 30 s."""
        options = {FOR_WRITING: True}
        return self.ensure_connected(self.app.connection_for_read(heartbeat=heartbeat, transport_options=options))

    def create_task_handler(self, *arguments: Any, **options: Any) -> Callable[[Any], None]:
        """Wrap Celery's message handler so that errors of malformed messages are caught."""
        handle = super().create_task_handler(*arguments, **options)

        def guarded(message: Any) -> None:
            try:
                handle(message)
            except UNREADABLE as trouble:
                self._reject(message, trouble)

        return guarded

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """Celery's handler of a body that cannot be decoded."""
        try:
            super().on_decode_error(message, exc)
        except UNREADABLE:
            self._reject(message, exc)

    def _reject(self, message: Any, trouble: Exception) -> None:
        log.error("an unreadable message was dropped: %s: %s", type(trouble).__name__, trouble, exc_info=trouble)
        if not message.acknowledged:
            message.reject_log_error(log, self.connection_errors)
