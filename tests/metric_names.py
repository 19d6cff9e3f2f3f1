"""Every metric that a worker's page has, by the names under which Prometheus keeps its series."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from prometheus_client.metrics_core import Metric
from redis import Redis

from contract import MemoryLedger, Settings
from contract.metrics import RedisMetrics
from workers.hardware import Hardware
from workers.metrics import HardwareMetrics, WorkerMetrics

__all__ = ["OURS", "VLLM", "families"]

#: vLLM's own, as far as the dashboard shows them; tests/acceptance looks for them on a real worker's page.
VLLM = frozenset({"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"})


class _EmptyRedis:
    """As much of a Redis as it takes to describe its metrics."""

    def register_script(self, _: str) -> None: ...
    def smembers(self, _: str) -> set[str]:
        return set()


def families() -> list[Metric]:
    """Every metric of ours, with its text and type."""
    settings = Settings(engine="simulated", model="m")
    redis = RedisMetrics(MemoryLedger(), cast("Redis", _EmptyRedis()))
    found: Iterable[Metric] = [
        *WorkerMetrics(settings, "w", "score.m").registry.collect(),
        *redis.collect(),
        *HardwareMetrics(Hardware()).collect(),
    ]
    return sorted(found, key=lambda each: each.name)


def _series(metric: Metric) -> set[str]:
    if metric.type == "counter":
        return {f"{metric.name}_total"}
    if metric.type == "histogram":
        return {f"{metric.name}_{part}" for part in ("bucket", "sum", "count")}
    return {metric.name}


OURS = frozenset(name for metric in families() for name in _series(metric))
