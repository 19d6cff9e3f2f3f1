"""Diagnosis of Redis and of the workers that share it, from facts gathered by the caller.

Pure, so that each is testable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contract.engine_info import describe_differences, differing
from contract.fleet import LEASE_S, BootFailure, WorkerRecord, WorkerState
from contract.keys import index_of, retriever_name
from contract.pace import fill
from contract.wording import number
from workers.gpus.groups import names_in
from workers.host.finding import Finding

__all__ = [
    "Queue",
    "absent_workers",
    "beside_trials",
    "check_durability",
    "clocks",
    "differing_engines",
    "fleet_at_work",
    "leases",
    "put_off",
    "taken_names",
]

#: A clock this far from Redis' makes times misleading; leases and deadlines do not depend on it.
SKEW_S = 2.0
#: Batches after which a worker's fill is meaningful.
ENOUGH_BATCHES = 10
HALF_FULL = 0.5
#: A Redis that uses more of its memory will soon refuse writes.
MEMORY_SHARE = 0.9
_NO_WORKER = "Start one: python -m workers up. Check that runs and workers use the same model name."


@dataclass(frozen=True, slots=True)
class Queue:
    """Snapshot of a queue."""

    name: str
    #: Waiting messages.
    messages: int
    #: Waiting messages of runs that are purged, settled, paused or cancelled; workers drop them.
    needless: int = 0
    #: Whether its ready workers hold messages that they took from it.
    held: bool = False


def check_durability(info: Mapping[str, Any]) -> Iterator[Finding]:
    """Check by its INFO whether Redis keeps what it is given: its memory, its policy once that is full, its files."""
    used, limit = (info.get(name, 0) / 2**20 for name in ("used_memory", "maxmemory"))
    if limit and used > MEMORY_SHARE * limit:
        remedy = "Raise maxmemory, or export and purge old runs, before Redis refuses writes."
        yield Finding("warning", "Redis", f"{used:,.0f} of {limit:,.0f} MiB of memory in use (maxmemory)", remedy)
    if info.get("maxmemory") == 0:
        remedy = "Set maxmemory to half of what Redis may take; a full one then refuses writes, and workers wait."
        found = "no maxmemory: if memory is used up, the kernel kills it or another program"
        yield Finding("ok", "Redis", found, remedy)
    if (policy := info.get("maxmemory_policy", "noeviction")) != "noeviction":
        remedy = "Set maxmemory-policy noeviction: other policies delete questions when memory runs out."
        yield Finding("error", "Redis", f"maxmemory-policy is {policy}", remedy)
    if info.get("aof_enabled") == 0:
        remedy = "Set appendonly yes (appendfsync everysec), so that a server restart loses nothing."
        yield Finding("warning", "Redis", "no append-only file", remedy)
    files = {"aof_last_write_status": "append-only file", "rdb_last_bgsave_status": "snapshot"}
    for name, file in files.items():
        if info.get(name, "ok") != "ok":
            remedy = "Free space on Redis' disk; its log has the details."
            yield Finding("error", "Redis", f"the last write of its {file} failed ({name})", remedy)


def clocks(here_s: float, redis_s: float, records: Sequence[WorkerRecord]) -> Iterator[Finding]:
    """Report clocks that differ from Redis': this machine's, and those of hosts with implausible heartbeat times."""
    remedy = "Synchronise the clocks (chrony, systemd-timesyncd): times and latencies across hosts are wrong."
    if abs(here_s - redis_s) > SKEW_S:
        yield Finding("warning", "clock", f"{here_s - redis_s:+.1f} s from Redis' clock", remedy)
    for each in records:
        ahead_s = each.seen_at - redis_s if each.seen_at else 0.0  # another version's record may not be readable
        if ahead_s > SKEW_S or ahead_s < -LEASE_S:
            yield Finding(
                "warning", "clock", f"{each.host} ({each.name}) is {ahead_s:+.1f} s from Redis' clock", remedy
            )


def leases(held_by_dead: Mapping[str, int], records: Sequence[WorkerRecord]) -> Iterator[Finding]:
    """Report dead workers that hold messages: name → messages."""
    for name, messages in held_by_dead.items():
        if messages:
            remedy = "Live workers requeue them within seconds." if records else "Start a worker: it requeues them."
            yield Finding("warning", "lease", f"{name} is gone and holds {number(messages, 'message')}", remedy)


def absent_workers(missing: Sequence[WorkerRecord], failures: Sequence[BootFailure]) -> Iterator[Finding]:
    """Report workers that have vanished, and those that could not boot: the others go on without them, more slowly."""
    for each in missing:
        remedy = "If it was killed, start it again: python -m workers up. See its log, and whether its host is up."
        yield Finding("warning", "workers", f"{each.name} has vanished: it was not drained", remedy)
    for failure in failures:
        remedy = (
            f"Fix that, then: python -m workers restart {failure.worker}. "
            "If its launcher has ended, on its host: python -m workers up"
        )
        yield Finding("warning", "workers", f"{failure.worker} could not boot: {failure.reason}", remedy)


def differing_engines(records: Sequence[WorkerRecord]) -> Iterator[Finding]:
    """Report workers of one queue whose engines differ in what can change an answer: which one answers is random."""
    for queue in sorted({each.queue for each in records}):
        ready = [each for each in records if each.queue == queue and each.engine]
        if differs := differing(each.engine for each in ready):
            names = ", ".join(each.name for each in ready)
            found = f"workers of {queue} differ in {describe_differences(differs)}: {names}"
            remedy = "Load the same engine everywhere, or give one a different `model` name, and so its own queue."
            yield Finding("warning", "engines", found, remedy)


def taken_names(records: Sequence[WorkerRecord], planned: Mapping[str, str], here: str) -> Iterator[Finding]:
    """Report live workers that have the name of a planned one, but run elsewhere or serve another model.

    `up` refuses to start the planned one. `planned` is name → queue, and `here` is where this process runs.
    """
    for each in records:
        if each.queue and each.name in planned and each.place != here:
            found = f"{each.name} runs on another machine or in another container with the same host name"
            yield Finding("warning", "workers", found, "Give each a host name of its own.")
        elif each.queue and planned.get(each.name, each.queue) != each.queue:
            found = f"{each.name} serves {each.model}, and a worker of these settings would have the same name"
            remedy = (
                "Serve both models with one deploy file (`models`), end the other worker (python -m workers drain"
                f" {each.name}), or start this one under another name: python -m workers run -n NAME."
            )
            yield Finding("warning", "workers", found, remedy)


def beside_trials(records: Sequence[WorkerRecord], host: str, gpus: Sequence[str]) -> Iterator[Finding]:
    """Report workers of `host` on the GPUs (or without GPUs, on the cores) that a measurement uses."""
    there = [each.name for each in records if each.host == host and (not gpus or {*gpus} & {*names_in(each.gpus)})]
    if there:
        remedy = f"They take time and memory from it; to stop them: python -m workers drain {' '.join(there)}"
        yield Finding(
            "warning", "beside", f"other workers use the same {'GPUs' if gpus else 'cores'}: {', '.join(there)}", remedy
        )


def put_off(records: Sequence[WorkerRecord]) -> Iterator[Finding]:
    """Report the runs that workers cannot serve for now."""
    for each in records:
        for run_id, why in each.puts_off.items():
            yield Finding("warning", "put off", f"{run_id} by {each.name}: {why}")


def fleet_at_work(
    records: Sequence[WorkerRecord], queues: Sequence[Queue], unsettled: Mapping[tuple[str, ...], int]
) -> Iterator[Finding]:
    """Report workers with small batches, queues without workers, and empty queues with unsettled questions.

    `unsettled` has the number of questions without a verdict by the queues that they pass through.
    """
    idle: set[str] = set()
    waiting = {queue.name: queue.messages for queue in queues}
    for each in records:
        share = fill([each])
        if each.batches >= ENOUGH_BATCHES and share is not None and share < HALF_FULL:
            yield _small_batches(each, share, waiting.get(each.queue, 0))
    for queue in queues:
        ready = [each for each in records if each.queue == queue.name and each.state is WorkerState.READY]
        needed = queue.messages - queue.needless
        if needed and not ready:
            name = index_of(queue.name)
            alone = f"--only {retriever_name(name)} --set 'indexes=[FOLDER OF {name}]'"
            remedy = f"Start one: python -m workers up {alone}" if name else _NO_WORKER
            found = f"{queue.name}: {number(needed, 'message')} waiting, but no worker is ready"
            yield Finding("warning", "queue", found, remedy)
        if queue.needless and not ready:
            yield _needless(queue, needed)
        if ready and not queue.messages and not queue.held:
            idle.add(queue.name)
    for route, count in unsettled.items():
        if count and idle.issuperset(route):
            remedy = "Workers resend lost messages within seconds; python -m producer requeue RUN does so at once."
            are = "is empty and its" if len(route) == 1 else "are empty and their"
            questions = number(count, "question")
            found = f"{' and '.join(route)} {are} workers are idle, despite {questions} without a verdict"
            yield Finding("warning", "queue", found, remedy)


def _needless(queue: Queue, needed: int) -> Finding:
    of_these = number(queue.needless, "message")
    found = f"{queue.name}: {of_these} of runs that are purged, settled, paused or cancelled"
    remedy = "They do no harm: the next worker of that queue drops them."
    if not needed:
        remedy += f" To drop them now: celery -A workers.app purge -Q {queue.name}"
    return Finding("ok", "queue", found, remedy)


def _small_batches(worker: WorkerRecord, share: float, waiting: int) -> Finding:
    found = f"{worker.name}: batches are {100 * share:.0f} % full on average"
    if waiting:
        remedy = "Messages are waiting: raise batch_timeout, and make batch_size a multiple of question_batch_size."
        return Finding("warning", "batching", found, remedy)
    remedy = "The queue is empty: enqueue more at a time, or lower batch_size or the number of workers."
    return Finding("warning", "batching", found, remedy)
