"""Every metric that a worker's page has, by the names under which Prometheus keeps its series."""

from __future__ import annotations

from prometheus_client.metrics_core import Metric

from scripts.reference import metric_families

__all__ = ["OURS", "VLLM"]

#: vLLM's own, as far as the dashboard shows them; tests/acceptance looks for them on a real worker's page.
VLLM = frozenset({"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"})


def _series(metric: Metric) -> set[str]:
    if metric.type == "counter":
        return {f"{metric.name}_total"}
    if metric.type == "histogram":
        return {f"{metric.name}_{part}" for part in ("bucket", "sum", "count")}
    return {metric.name}


OURS = frozenset(name for metric in metric_families() for name in _series(metric))
