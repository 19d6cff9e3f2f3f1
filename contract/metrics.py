"""Prometheus metrics about queues, runs and workers, read from Redis at every scrape.

Several processes export the same values, so rules and dashboards take the maximum over them.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import redis
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from contract import keys
from contract.connection import connect_hurried
from contract.errors import LedgerError
from contract.fleet import Fleet, WorkerState
from contract.ledger import Counts, Ledger, RedisLedger, Run
from contract.queue import oldest_published_at, queue_lengths
from contract.settings import Settings

__all__ = ["RedisMetrics", "scrape_targets"]

log = logging.getLogger(__name__)


class RedisMetrics(Collector):
    """Collector of queue depths, ages, open runs and leases. Without Redis it only reports `mcqueue_redis_up 0`."""

    def __init__(self, ledger: Ledger, client: redis.Redis) -> None:
        self._ledger = ledger
        self._client = client
        self._fleet = Fleet(client)
        self._open: dict[str, Run] = {}

    @classmethod
    def connect(cls, settings: Settings) -> RedisMetrics:
        """Return a collector with a connection of its own, which does not wait long. Raises LedgerError."""
        hurried = RedisLedger(connect_hurried(settings))
        return cls(hurried, hurried.client)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics; called by prometheus_client."""
        try:
            self._open = self._ledger.read_open_runs(self._open).runs
            runs = list(self._ledger.standings(self._open.values()))
            found = [
                *self._queues([run for run, _ in runs]),
                *_absent(self._fleet),
                _questions(runs),
            ]
        except (LedgerError, redis.RedisError) as trouble:
            log.warning("metrics of queues and runs left out: %s", trouble)
            found = []
        yield GaugeMetricFamily("mcqueue_redis_up", "Whether Redis answers (1) or not (0).", value=bool(found))
        yield from found

    def _queues(self, runs: Sequence[Run]) -> Sequence[GaugeMetricFamily]:
        alive = self._fleet.alive()
        queues = {each.queue for each in alive if each.queue} | {
            queue for run in runs for queue in keys.route(run.spec)
        }
        depth = GaugeMetricFamily(
            "mcqueue_queue_messages", "Question batches that wait for a worker.", labels=["queue", "priority"]
        )
        age = GaugeMetricFamily(
            "mcqueue_queue_oldest_age_seconds",
            "Time since the oldest waiting question batch was published; 0 where none waits.",
            labels=["queue"],
        )
        workers = GaugeMetricFamily(
            "mcqueue_workers", "Workers whose lease is alive, by state.", labels=["queue", "state"]
        )
        states = Counter((each.queue, each.state) for each in alive)
        for queue in sorted(queues):
            for priority, messages in queue_lengths(self._client, queue).items():
                depth.add_metric([queue, priority.name.lower()], messages)
            oldest = oldest_published_at(self._client, queue)
            age.add_metric([queue], max(0.0, time.time() - oldest) if oldest else 0.0)
            for state in WorkerState:
                workers.add_metric([queue, state.value], states[queue, state])
        return depth, age, workers


def _absent(fleet: Fleet) -> Iterator[GaugeMetricFamily]:
    """Yield the workers that vanished, and those that could not boot."""
    of_worker = ["worker", "queue"]
    about = "Worker whose heartbeats stopped in the last hour without its having been asked to end; always 1."
    missing = GaugeMetricFamily("mcqueue_worker_missing", about, labels=of_worker)
    for each in fleet.missing():
        missing.add_metric([each.name, each.queue], 1)
    about = "Worker whose last boot failed in the last 24 hours; always 1."
    unbooted = GaugeMetricFamily("mcqueue_worker_unbooted", about, labels=of_worker)
    for failure in fleet.boot_failures():
        unbooted.add_metric([failure.worker, failure.queue], 1)
    yield from (missing, unbooted)


def _questions(runs: Iterable[tuple[Run, Counts]]) -> GaugeMetricFamily:
    questions = GaugeMetricFamily(
        "mcqueue_run_questions",
        "Questions of runs that are under way, by outcome, `unsettled` included, and by the queue of the run's model.",
        labels=["run", "queue", "outcome"],
    )
    for run, counts in runs:
        queue = keys.score_queue(run.spec.model)
        for outcome, number in counts.outcomes.items():
            questions.add_metric([run.run_id, queue, outcome.value], number)
        questions.add_metric([run.run_id, queue, "unsettled"], counts.total - counts.settled)
    return questions


def scrape_targets(fleet: Fleet) -> list[dict[str, Any]]:
    """Return every worker's exporter, with its name and queue, in the format of Prometheus' `http_sd_configs`.

    Missing workers are included, unless another one answers at their address now: one that only Redis does not hear of
    can still tell Prometheus what it lacks.
    """
    alive = fleet.alive()
    taken = {each.metrics_at for each in alive}
    return [
        {"targets": [each.metrics_at], "labels": {"worker": each.name, "queue": each.queue}}
        for each in (*alive, *(missing for missing in fleet.missing() if missing.metrics_at not in taken))
        if each.metrics_at
    ]
