"""A Redis client that repeats every call: whatever it is used for must be the same as with one call.

A real client does so after a timeout, and a Redis that only stood still executes both calls.
"""

from __future__ import annotations

from typing import Any

import redis
from redis.client import Pipeline

__all__ = ["Repeating"]


class Repeating(redis.Redis):
    """Has Redis execute each command and each pipeline twice, and returns the second answer."""

    def execute_command(self, *words: Any, **options: Any) -> Any:
        """Execute a command twice."""
        super().execute_command(*words, **options)  # type: ignore[no-untyped-call]
        return super().execute_command(*words, **options)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Pipeline:
        """Return a pipeline that is executed twice."""
        return _RepeatingPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


class _RepeatingPipeline(Pipeline):
    def execute(self, raise_on_error: bool = True) -> list[Any]:
        commands = self.command_stack
        super().execute(raise_on_error)
        self.command_stack = commands
        return super().execute(raise_on_error)
