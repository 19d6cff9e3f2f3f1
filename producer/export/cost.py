"""What a run took: its tokens, and its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from contract.verdict import Verdict

__all__ = ["Times", "Tokens"]


@dataclass
class Tokens:
    """Tokens of all requests."""

    prompt: int = 0
    completion: int = 0
    #: Of the prompts, and how many of them were in the prefix cache; where the engine says so.
    prefill: int = 0
    cached: int = 0

    def add(self, verdict: Verdict) -> None:
        """Count one verdict."""
        self.prompt += verdict.prompt_tokens
        self.completion += verdict.completion_tokens
        self.prefill += verdict.prefill_tokens
        self.cached += verdict.cached_tokens

    def include(self, other: Tokens) -> None:
        """Add the counts of `other`."""
        self.prompt += other.prompt
        self.completion += other.completion
        self.prefill += other.prefill
        self.cached += other.cached

    def to_json(self) -> dict[str, Any]:
        """Return the content for summary.json; `cache_hit_rate` is the cached fraction of all `prefill` tokens."""
        return {
            "prompt": self.prompt,
            "completion": self.completion,
            "prefill": self.prefill,
            "cached": self.cached,
            "cache_hit_rate": round(self.cached / self.prefill, 6) if self.prefill else None,
        }


@dataclass
class Times:
    """Start of the first generate call, first and last verdict, in seconds since the epoch, by the workers' clocks."""

    started_at: float = float("inf")
    first_settled_at: float = float("inf")
    last_settled_at: float = 0.0

    def add(self, verdict: Verdict) -> None:
        """Count one verdict."""
        if settled_at := verdict.settled_at:
            self.started_at = min(self.started_at, settled_at - verdict.latency_ms / 1000)
            self.first_settled_at = min(self.first_settled_at, settled_at)
            self.last_settled_at = max(self.last_settled_at, settled_at)

    def include(self, other: Times) -> None:
        """Add the times of `other`."""
        self.started_at = min(self.started_at, other.started_at)
        self.first_settled_at = min(self.first_settled_at, other.first_settled_at)
        self.last_settled_at = max(self.last_settled_at, other.last_settled_at)

    @property
    def wall_s(self) -> float | None:
        """Seconds from the start of the first generate call to the last verdict; None before any."""
        return self.last_settled_at - self.started_at if self.last_settled_at else None
