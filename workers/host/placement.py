"""The plan of a host: its workers, each with its GPUs or cores and its environment. Pure; starts nothing."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from contract import keys, variables
from contract.errors import PlanError, SettingsError
from contract.layers import parse_overrides
from contract.names import slug
from contract.settings import Settings
from contract.settings.fields import MEMORY_SHARE
from contract.wording import number
from contract.yaml_files import brief
from workers.gpus.groups import (
    OPTION,
    Device,
    group_name,
    groups_as_written,
    groups_of_all,
    named_groups,
    shared_devices,
)
from workers.host.machine import Machine

__all__ = [
    "NOTHING_TO_START",
    "SettingsSources",
    "WorkerPlan",
    "has_workers",
    "memory_share",
    "pick",
    "plan_first",
    "plan_host",
    "plan_retrieval",
    "plan_worker",
]

#: Celery would replace a `%`, and takes what follows an `@` for the host.
WORKER_NAME = re.compile(r"[\w.-]+")
#: vLLM's default `gpu_memory_utilization`.
VLLM_MEMORY_SHARE = 0.92
#: Maximum total share of a GPU with several workers: each CUDA context, about 0.5 GB, comes on top of what its engine
#: requests, and vLLM does not boot if less is free than it requests.
MOST_SHARED = 0.95
#: Said of a plan without any worker. Only `gpu_groups: []` makes one: `auto` uses GPUs if there are any, else cores.
NOTHING_TO_START = (
    "no worker to start on this host: gpu_groups is [], and there are no indexes",
    "Leave gpu_groups out: auto uses the GPUs, or starts cpu_workers if there are none.",
)


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """How to start one worker; kinds of workers differ only in queue and environment."""

    name: str
    #: The model or index it serves.
    serves: str
    #: The queue it takes messages from; empty: that of its model.
    queue: str = ""
    #: GPUs, named as in CUDA_VISIBLE_DEVICES; empty: it runs on the CPU.
    gpus: tuple[str, ...] = ()
    #: Cores it is bound to; empty: any.
    cores: tuple[int, ...] = ()
    #: Threads it computes with, on any core, where a CPU quota limits them; else 0.
    threads: int = 0
    #: Variables to set before its Python starts, in addition to the launcher's environment.
    environment: Mapping[str, str] = field(default_factory=dict)
    startup_timeout_s: float = 600
    drain_timeout_s: float = 60

    @property
    def place(self) -> str:
        """Short description of where it runs."""
        if self.gpus:
            return f"GPU {','.join(self.gpus)}"
        if self.threads:
            return f"CPU, {number(self.threads, 'thread')}"
        return f"cores {_ranges(self.cores)}" if self.cores else "CPU"


@dataclass(frozen=True, slots=True)
class SettingsSources:
    """The sources of the settings, passed on so that workers read the same."""

    config: Path | None = None
    overrides: Sequence[str] = ()

    def environment(self) -> dict[str, str]:
        """Return the variables that make a worker read the same settings."""
        found = {}
        if self.config:
            found[variables.CONFIG] = str(self.config.resolve())
        if self.overrides:
            found[variables.OVERRIDES] = json.dumps(parse_overrides(self.overrides, SettingsError))
        return found


@dataclass(frozen=True, slots=True)
class _Group:
    """A group of GPUs assigned to a model."""

    settings: Settings
    devices: tuple[Device, ...]


def plan_host(
    fleet: Sequence[Settings], machine: Machine, sources: SettingsSources
) -> tuple[list[WorkerPlan], list[str]]:
    """Return one plan per worker for the models of `fleet`, each with a name of its own, and warnings.

    A model with `gpu_groups: auto` gets the visible GPUs that no other model names, divided into groups of the size of
    one engine. Without GPUs, `cpu_workers` workers share the cores, or the threads that a CPU quota allows.
    Raises PlanError, with the arithmetic, for a missing GPU, a group that does not fit the engine, and two groups on
    one GPU without `share_gpus`. A mistake that the settings alone show is reported before a GPU that is missing.
    """
    on_gpus = [each for each in fleet if _wants_gpus(each, machine.gpus)]
    _check_sharing(_listed_groups(on_gpus))  # finds mistakes in a file even where the GPUs that it names are missing
    groups = _groups(on_gpus, machine.gpus)
    warnings = _check_sharing(groups) + _unused(on_gpus, groups, machine.gpus)
    plans = [_on_gpus(each.settings, each.devices) for each in groups]
    without = [each for each in fleet if has_workers(each) and not _wants_gpus(each, machine.gpus)]
    on_cpu = [each for each in without for _ in range(each.cpu_workers)]
    if len(on_cpu) > machine.usable_cores:
        cores = number(machine.usable_cores, "core")
        warnings.append(f"{len(on_cpu)} CPU workers on {cores}: too few for each to have its own.")
    plans += [_on_cpu(each, i, len(on_cpu), machine) for i, each in enumerate(on_cpu)]
    several = len(fleet) > 1
    named = _with_distinct_names(plans, several=several)
    return [_with_environment(plan, sources, several=several) for plan in named], warnings


def plan_first(settings: Settings, machine: Machine) -> WorkerPlan:
    """Return the plan of the first worker of these settings. Raises SettingsError if they start none."""
    plans, _ = plan_host([settings], machine, SettingsSources())
    if not plans:
        raise SettingsError(f"gpu_groups: these settings start no worker for {settings.served_model}.")
    return plans[0]


def plan_worker(
    settings: Settings, gpus: Sequence[str], machine: Machine, sources: SettingsSources, name: str = ""
) -> WorkerPlan:
    """Return the plan of a single worker on `gpus` or all cores, by default named after these. Raises PlanError."""
    if name and not WORKER_NAME.fullmatch(name):
        hint = "Use letters, digits, dots, hyphens and underscores; the host is added."
        raise PlanError(f"--name {brief(name)}: not the name of a worker on its host.", hint=hint)
    if gpus:
        (devices,) = named_groups([gpus], machine.gpus, settings.gpus_per_worker, OPTION)
        plan = _on_gpus(settings, devices)
    else:
        plan = _on_cpu(settings, 0, 1, machine)
    return _with_environment(replace(plan, name=name or plan.name), sources, several=False)


def plan_retrieval(
    names: Sequence[str], settings: Settings, machine: Machine, sources: SettingsSources
) -> list[WorkerPlan]:
    """Return one plan per index: without a GPU, on a quarter of the cores, which leaves the rest to the models."""
    threads = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": str(max(1, machine.usable_cores // 4))}
    plans = [
        replace(_plan(settings, keys.retriever_name(name), threads), serves=name, queue=keys.retrieve_queue(name))
        for name in names
    ]
    return [_with_environment(plan, sources, several=False) for plan in plans]


def pick(plans: Sequence[WorkerPlan], names: Sequence[str]) -> list[WorkerPlan]:
    """Return the plans called `names`; all if there are no names. Raises PlanError for an unknown name."""
    planned = [plan.name for plan in plans]
    for name in names:
        if name not in planned:
            hint = f"Its workers: {', '.join(planned) or 'none'}."
            raise PlanError(f"--only {name}: not a worker of this host.", hint=hint)
    return [plan for plan in plans if not names or plan.name in names]


def has_workers(settings: Settings) -> bool:
    """Whether this host has workers for the model at all: it may only search indexes."""
    return settings.gpu_groups != []


def memory_share(settings: Settings) -> float:
    """Return the share of a GPU's memory that the engine requests."""
    return float(settings.vllm_args.get(MEMORY_SHARE, VLLM_MEMORY_SHARE))


def _wants_gpus(settings: Settings, visible: Sequence[Device]) -> bool:
    """Whether the engine runs on this host, and either GPUs are visible or the settings name some."""
    here = settings.engine != "openai" or settings.boot_local
    return here and (bool(visible) or settings.gpu_groups != "auto")


def _listed_groups(fleet: Sequence[Settings]) -> list[_Group]:
    """Return the groups that the files of `fleet` list, by the names there. Raises PlanError for a wrong size."""
    listed = [each for each in fleet if each.gpu_groups != "auto"]
    return [
        _Group(each, group) for each in listed for group in groups_as_written(each.gpu_groups, each.gpus_per_worker)
    ]


def _groups(fleet: Sequence[Settings], visible: Sequence[Device]) -> list[_Group]:
    auto = [each for each in fleet if each.gpu_groups == "auto"]
    if len(auto) > 1:
        raise PlanError(
            f"gpu_groups: auto is set for {', '.join(each.served_model for each in auto)}, which leaves open "
            f"how to divide {number(len(visible), 'GPU')}.",
            hint="List the groups of all models but one.",
        )
    named = {
        i: named_groups(each.gpu_groups, visible, each.gpus_per_worker)
        for i, each in enumerate(fleet)
        if each.gpu_groups != "auto"
    }
    taken = {device for groups in named.values() for group in groups for device in group}
    found = []
    for i, settings in enumerate(fleet):
        free = [device for device in visible if device not in taken]
        groups = named[i] if i in named else groups_of_all(free, settings.gpus_per_worker)
        found += [_Group(settings, group) for group in groups]
    return found


def _check_sharing(groups: Sequence[_Group]) -> list[str]:
    """Return warnings about shared GPUs. Raises PlanError if sharing is not enabled, or the memory does not suffice."""
    warnings = []
    for device in shared_devices([each.devices for each in groups]):
        owners = [each.settings for each in groups if device in each.devices]
        names = ", ".join(each.served_model for each in owners)
        if not all(each.share_gpus for each in owners):
            raise PlanError(
                f"gpu_groups puts GPU {device.name} into {len(owners)} groups ({names}).",
                hint="Give each group its own, or set share_gpus: true.",
            )
        shares = [memory_share(each) for each in owners]
        if round(sum(shares), 6) > MOST_SHARED:
            sums = " + ".join(f"{share:g}" for share in shares)
            raise PlanError(
                f"GPU {device.name}: gpu_memory_utilization {sums} = {sum(shares):g} of its memory ({names}); "
                "CUDA needs some more for each worker, so the last one would not boot.",
                hint=f"Lower them to a sum of {MOST_SHARED:g} or less.",
            )
        warnings.append(f"GPU {device.name} is shared by {len(owners)} workers ({names}), which slow each other down.")
    return warnings


def _unused(fleet: Sequence[Settings], groups: Sequence[_Group], visible: Sequence[Device]) -> list[str]:
    """Return a warning if `auto` leaves GPUs unused, too few for one more group. Listed groups may do so on purpose."""
    used = {device for each in groups for device in each.devices}
    idle = [device for device in visible if device not in used]
    names = ", ".join(device.name for device in idle)
    why = "MIG instances cannot be combined" if any(device.is_instance for device in idle) else "fewer are left"
    sizes = [each.gpus_per_worker for each in fleet if each.gpu_groups == "auto"]
    return [f"GPU {names} stays unused: a worker needs {size}, and {why}." for size in sizes if idle]


def _on_gpus(settings: Settings, devices: Sequence[Device]) -> WorkerPlan:
    names = tuple(device.name for device in devices)
    # By default CUDA orders GPUs by speed; nvidia-smi, which people look at, orders them by bus.
    pin = {"CUDA_VISIBLE_DEVICES": ",".join(names), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return replace(_plan(settings, group_name(devices), pin), gpus=names)


def _on_cpu(settings: Settings, i: int, workers: int, machine: Machine) -> WorkerPlan:
    """Return the plan of the worker at position `i` of the `workers` that share the cores.

    Under a CPU quota it may run on all of them: if it were bound to some, the workers of other containers would be
    bound to the same ones.
    """
    name, share = f"cpu{i}", machine.usable_cores // workers
    if machine.quota:
        each = str(share // settings.gpus_per_worker or 1)
        environment = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": each, "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        return replace(_plan(settings, name, environment), threads=share or 1)
    cores = tuple(sorted(machine.cores[i * share : (i + 1) * share]))
    environment = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": str(share or 1)}
    return replace(_plan(settings, name, environment), cores=cores)


def _plan(settings: Settings, name: str, environment: Mapping[str, str]) -> WorkerPlan:
    return WorkerPlan(
        name=name,
        serves=settings.served_model,
        environment=environment,
        startup_timeout_s=settings.server_startup_timeout,
        drain_timeout_s=settings.drain_timeout_s,
    )


def _with_distinct_names(plans: Sequence[WorkerPlan], *, several: bool) -> Iterator[WorkerPlan]:
    """Add the model to each name if there are several models, and a number to a name that is taken: gpu0, gpu0.2.

    It follows a dot: gpu0-2 is the name of a worker on GPUs 0 and 2.
    """
    met: Counter[str] = Counter()
    for plan in plans:
        name = f"{slug(plan.serves)}-{plan.name}" if several else plan.name
        met[name] += 1
        yield replace(plan, name=f"{name}.{met[name]}" if met[name] > 1 else name)


def _with_environment(plan: WorkerPlan, sources: SettingsSources, *, several: bool) -> WorkerPlan:
    """Add the worker's name and the sources of its settings to the environment of `plan`, and one of several models."""
    which = {variables.MODEL: plan.serves} if several else {}
    environment = {**sources.environment(), **which, **plan.environment, variables.WORKER_NAME: plan.name}
    return replace(plan, environment=environment)


def _ranges(numbers: Sequence[int]) -> str:
    """
    >>> _ranges((0, 1, 2, 5))
    '0-2,5'
    """
    runs: list[list[int]] = []
    for core in numbers:
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
