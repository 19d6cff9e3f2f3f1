"""What `python -m workers check` finds in Redis: its configuration, the workers, the open runs and the queues."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from redis import Redis, RedisError, ResponseError

from contract import keys
from contract.connection import connect, why_no_writes
from contract.errors import McqueueError, ModelNotFound
from contract.fleet import Fleet, WorkerRecord, WorkerState
from contract.ledger import RedisLedger
from contract.models import require_hub
from contract.process import process_place
from contract.queue import queue_length, queued_runs
from contract.settings import Settings
from contract.wording import number
from workers.engines.packaged import folder_or_hub_id
from workers.host.finding import Finding
from workers.host.fleet_diagnostics import (
    Queue,
    absent_workers,
    check_durability,
    clocks,
    differing_engines,
    fleet_at_work,
    leases,
    put_off,
    taken_names,
)

__all__ = ["check_redis"]


def check_redis(fleet: Sequence[Settings], planned: Mapping[str, str]) -> Iterator[Finding]:
    """Check Redis, the live workers, and the queues of the models of `fleet` and of all open runs.

    `planned` are the workers of `fleet`, each with its queue.
    """
    settings = fleet[0]
    try:
        with connect(settings) as client:
            yield Finding("ok", "Redis", f"{settings.redis_place} answers")
            yield from _configuration(client)
            if refused := why_no_writes(client):
                raise refused  # no worker can renew its lease, so all would seem to be gone
            registry = Fleet(client)
            records = registry.alive()
            yield from _workers(client, registry, records)
            yield from taken_names(records, planned, process_place())
            yield from _queues(RedisLedger(client), fleet, records)
    except McqueueError as trouble:
        yield Finding.of("error", "Redis", trouble)
    except RedisError as trouble:
        yield Finding("error", "Redis", str(trouble))


def _configuration(client: Redis) -> Iterator[Finding]:
    """Check memory, persistence and eviction policy, if the server permits it."""
    try:
        info = client.info()
    except ResponseError as refusal:
        remedy = "To check them, name a user who may: MCQUEUE_REDIS_URL with one whose permissions include +info."
        found = f"memory, persistence and eviction policy are not checked: {refusal}"
        yield Finding("ok", "Redis", found, remedy)
    else:
        yield from check_durability(info)


def _workers(client: Redis, registry: Fleet, records: Sequence[WorkerRecord]) -> Iterator[Finding]:
    """Check the live workers, what dead ones left, and the clocks."""
    alive = [f"{each.name} ({each.state}, {each.model})" for each in records]
    yield Finding("ok", "workers", ", ".join(alive) or "none is alive")
    yield from absent_workers(registry.missing(), registry.boot_failures())
    yield from differing_engines(records)
    yield from leases({name: int(client.hlen(keys.unacked(name))) for name in registry.dead()}, records)
    seconds, microseconds = client.time()
    yield from clocks(time.time(), seconds + microseconds / 1e6, records)


def _queues(ledger: RedisLedger, models: Sequence[Settings], records: Sequence[WorkerRecord]) -> Iterator[Finding]:
    """Check whether the open runs can be read and reranked here, and whether all that waits has workers."""
    #: By the queues that the questions pass through.
    unsettled: Counter[tuple[str, ...]] = Counter()
    waiting = {run_id for each in records for run_id in each.puts_off}
    rerankers: set[str] = set()
    runs, unreadable = ledger.read_open_runs()
    asked = (run for run in runs.values() if not run.spec.rescored_from)  # others pass through no queue
    for run, counts in ledger.standings(asked):
        # Of a run that is being written, some questions are about to be sent.
        unsettled[keys.route(run.spec)] += counts.todo if counts.written and run.run_id not in waiting else 0
        if run.spec.rag and run.spec.rag.reranker:
            rerankers.add(run.spec.rag.reranker)
    yield from (Finding.of("warning", "runs", trouble) for trouble in unreadable.values())
    if any(each.indexes for each in models):
        yield from map(_reranker, sorted(rerankers))
    names = {keys.score_queue(each.served_model) for each in models}.union(*unsettled)
    ready: defaultdict[str, list[str]] = defaultdict(list)
    for each in records:
        if each.state is WorkerState.READY:
            ready[each.queue].append(each.name)
    queues = [_queue(ledger, name, ready[name]) for name in sorted(names)]
    yield from (Finding("ok", "queue", f"{each.name}: {number(each.messages, 'message')} waiting") for each in queues)
    yield from put_off(records)
    yield from fleet_at_work(records, queues, unsettled)


def _queue(ledger: RedisLedger, name: str, ready: Sequence[str]) -> Queue:
    """Look at a queue, and at its messages if no `ready` worker takes them: runs may need none of them any more."""
    if ready:
        waiting = queue_length(ledger.client, name)  # first: what is taken meanwhile is held
        return Queue(name, waiting, held=any(ledger.client.hlen(keys.unacked(each)) for each in ready))
    by_run = queued_runs(ledger.client, name)
    wanted = ledger.open_runs()  # after the messages: a run is open before its first one is sent
    return Queue(name, by_run.total(), sum(n for run_id, n in by_run.items() if run_id not in wanted))


def _reranker(name: str) -> Finding:
    """Check whether an open run's reranker is available here; it is loaded with the run's first questions."""
    try:
        model = folder_or_hub_id(name, "reranker", [])
        if not Path(model).is_dir():
            require_hub(model, "config.json")
    except ModelNotFound as trouble:
        return Finding.of("warning", "reranker", trouble)
    return Finding("ok", "reranker", model)
