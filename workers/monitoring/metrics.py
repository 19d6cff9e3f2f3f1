"""Prometheus metrics of a worker; its exporter serves them beside vLLM's own.

Updated once per batch, never per question. Names follow Prometheus' conventions: base units, `_total` for counters.
docs/reference/metrics.md, which lists them all, is generated from here.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter as Count
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from contract.settings import Settings
from contract.verdict import Outcome, Verdict
from workers.messages.batch import Batch, Settlement
from workers.messages.batching import Flush
from workers.monitoring.hardware import Hardware

__all__ = ["BATCH_BUCKETS", "HardwareMetrics", "WorkerMetrics"]

BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
FILL_BUCKETS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
WAIT_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
CALL_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 300.0)
QUEUED_BUCKETS_S = (0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)


class WorkerMetrics:
    """Metrics of one worker process, in their own registry."""

    def __init__(self, settings: Settings, name: str, queue: str, gpus: str = "") -> None:
        self.registry = CollectorRegistry()
        self._full_batch = settings.full_batch
        self._beaten_at = time.monotonic()
        self._add_identity({"worker": name, "queue": queue, "gpus": gpus, "version": metadata.version("mcqueue")})
        self._add_outcomes()
        self._add_batches()
        self._add_calls()
        self._add_tokens()
        self._add_repetitions()
        self._add_boots()

    def _add_identity(self, info: dict[str, str]) -> None:
        self._gauge("mcqueue_worker_info", "Identity of this worker; always 1.", tuple(info)).labels(**info).set(1)
        self._gauge("mcqueue_batch_size_limit", "Maximum questions in a batch (`batch_size`).").set(self._full_batch)
        lease = self._gauge("mcqueue_lease_age_seconds", "Time since this worker last renewed its lease.")
        lease.set_function(lambda: time.monotonic() - self._beaten_at)  # a clock that is set must not change it

    def _add_outcomes(self) -> None:
        self._questions = self._counter("mcqueue_questions", "Questions settled here, by outcome.", ("outcome",))
        for outcome in Outcome:
            self._questions.labels(outcome.value)

    def _add_batches(self) -> None:
        self._batches = self._counter("mcqueue_batches", "Batches dispatched by the aggregator, by reason.", ("flush",))
        for flush in get_args(Flush):
            self._batches.labels(flush)
        self._size = self._histogram("mcqueue_batch_questions", "Questions in a batch.", BATCH_BUCKETS)
        self._fill = self._histogram(
            "mcqueue_batch_fill_ratio", "Questions begun in a batch, as a share of batch_size.", FILL_BUCKETS
        )
        self._wait = self._histogram(
            "mcqueue_batch_wait_seconds",
            "Time that a batch's oldest question waited in the aggregator.",
            WAIT_BUCKETS_S,
        )
        self._batch_s = self._histogram(
            "mcqueue_batch_seconds", "Time from dispatching a batch to settling its messages.", CALL_BUCKETS_S
        )

    def _add_calls(self) -> None:
        self._generate_s = self._histogram(
            "mcqueue_generate_seconds",
            "Duration of a generate call, by its number of questions, rounded up to 1, 2, 4 to 256 or +Inf.",
            CALL_BUCKETS_S,
            ("questions_le",),
        )
        self._queued_s = self._histogram(
            "mcqueue_queued_seconds",
            "Time from publishing to the generate call, of the longest-waiting question of each call.",
            QUEUED_BUCKETS_S,
        )

    def _add_tokens(self) -> None:
        self._prompt_tokens = self._counter(
            "mcqueue_prompt_tokens", "Prompt tokens of questions settled here, each prompt counted once."
        )
        self._completion_tokens = self._counter(
            "mcqueue_completion_tokens", "Tokens generated for questions settled here."
        )
        self._prefill_tokens = self._counter(
            "mcqueue_prefill_tokens", "Prompt tokens over all prefills, cached ones included."
        )
        self._cached_tokens = self._counter(
            "mcqueue_cached_tokens", "Prompt tokens served from the engine's prefix cache."
        )

    def _add_repetitions(self) -> None:
        self._retries = self._counter(
            "mcqueue_question_retries", "Earlier attempts, without a verdict, at questions settled here."
        )
        self._redelivered = self._counter("mcqueue_messages_redelivered", "Messages that were redelivered.")
        self._returned = self._counter(
            "mcqueue_messages_returned", "Messages requeued because their batch was not settled."
        )

    def _add_boots(self) -> None:
        self._boots = self._counter(
            "mcqueue_engine_boots", "Engines (or indexes) booted under this name, earlier processes included."
        )
        self._boot_s = self._gauge("mcqueue_engine_boot_seconds", "Boot time of this process' engine.")

    def committed(self, verdicts: Sequence[Verdict]) -> None:
        """Count the questions that these verdicts settled; verdicts that came too late must not be among them."""
        if not verdicts:
            return
        for outcome, number in Count(each.outcome for each in verdicts).items():
            self._questions.labels(outcome.value).inc(number)
        self._prompt_tokens.inc(sum([each.prompt_tokens for each in verdicts]))
        self._completion_tokens.inc(sum([each.completion_tokens for each in verdicts]))
        self._prefill_tokens.inc(sum([each.prefill_tokens for each in verdicts]))
        self._cached_tokens.inc(sum([each.cached_tokens for each in verdicts]))
        self._retries.inc(sum([each.attempts for each in verdicts]) - len(verdicts))

    def generated(self, questions: int, seconds: float, queued_s: float) -> None:
        """Count a generate call; `queued_s` is the time its longest-waiting question was queued."""
        self._generate_s.labels(_bucket(questions)).observe(seconds)
        self._queued_s.observe(queued_s)

    def batch_ended(self, batch: Batch) -> None:
        """Count a finished batch, successful or not; if none of its questions was begun, only its messages."""
        if batch.begun:
            self._batches.labels(batch.flush).inc()
            self._size.observe(batch.begun)
            self._fill.observe(batch.begun / self._full_batch)
            self._wait.observe(batch.waited_s)
            self._batch_s.observe(batch.took_s())
        self._redelivered.inc(sum(bool(held.request.delivery_info.get("redelivered")) for held in batch.held))
        self._returned.inc(sum(held.settlement is Settlement.REQUEUE for held in batch.held))

    def booted_before(self, boots: int) -> None:
        """Add the boots of earlier processes of this name, before the first scrape.

        A counter that starts at 0 and then jumps would show all of these boots at one moment.
        """
        self._boots.inc(boots)

    def booted(self, seconds: float) -> None:
        """Count a boot of the engine, and record its duration."""
        self._boot_s.set(seconds)
        self._boots.inc()

    def beaten(self) -> None:
        """Record that the lease was renewed now."""
        self._beaten_at = time.monotonic()

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], labels: tuple[str, ...] = ()) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)


class HardwareMetrics(Collector):
    """Collector of GPU and host metrics, read at every scrape."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics; called by prometheus_client."""
        by_gpu = {
            name: GaugeMetricFamily(f"mcqueue_gpu_{name}", text, labels=["gpu"])
            for name, text in (
                ("utilization_ratio", "GPU utilization, by NVML."),
                ("memory_used_bytes", "GPU memory in use, by all processes."),
                ("memory_total_bytes", "GPU memory."),
                ("temperature_celsius", "GPU temperature."),
            )
        }
        for gpu in self._hardware.gpus():
            values = (gpu.utilization, gpu.memory_used_bytes, gpu.memory_total_bytes, gpu.temperature_celsius)
            for family, value in zip(by_gpu.values(), values, strict=True):
                if value is not None:
                    family.add_metric([gpu.name], value)
        yield from by_gpu.values()
        host = self._hardware.host()
        yield _gauge(
            "mcqueue_cpu_utilization_ratio",
            "Utilization by this worker of the cores, or the CPU quota, that it may use, since the last scrape.",
            host.cpu_utilization,
        )
        yield _gauge(
            "mcqueue_memory_used_bytes", "Resident memory of the worker and its children.", host.memory_used_bytes
        )
        yield _gauge("mcqueue_memory_total_bytes", "Memory of the machine.", host.memory_total_bytes)
        yield _gauge(
            "mcqueue_cpu_temperature_celsius",
            "Hottest core, if there are sensors.",
            host.temperature_celsius,
        )


def _gauge(name: str, text: str, value: float | None) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text)
    if value is not None:
        family.add_metric([], value)
    return family


def _bucket(questions: int) -> str:
    at = bisect_left(BATCH_BUCKETS, questions)
    return str(BATCH_BUCKETS[at]) if at < len(BATCH_BUCKETS) else "+Inf"
