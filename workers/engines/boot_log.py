"""Logging of a vLLM boot, which takes minutes on a GPU without output: its start and its duration."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from contract.settings import Settings
from workers.cpu_quota import cores_by_quota
from workers.engines.installed import is_cpu_build
from workers.gpus.groups import Device
from workers.gpus.nvidia import model_name, visible_gpus

__all__ = ["booting", "gpu_models", "gpus_in_use"]

log = logging.getLogger(__name__)


@contextmanager
def booting(settings: Settings, model: str) -> Iterator[None]:
    """Log start and duration of the boot in the block, for `model` (a folder or a hub id). Failures are not logged."""
    gpus = gpus_in_use(settings)
    log.info("booting vLLM with %s on %s%s", model, _place(gpus), _patience(settings, on_gpus=bool(gpus)))
    started = time.monotonic()
    yield
    log.info("vLLM is up after %.0f s", time.monotonic() - started)


def gpus_in_use(settings: Settings) -> list[Device]:
    """Return the GPUs used by an engine in this process; none on the CPU."""
    return [] if is_cpu_build() else visible_gpus()[: settings.gpus_per_worker]


def gpu_models(gpus: list[Device]) -> str:
    """Return the driver's model names of `gpus`, without repetition; empty if it reports none.

    Recorded because kernels differ between GPU models, and with them the last digits of the results.
    """
    return ", ".join(dict.fromkeys(filter(None, (model_name(each.name) for each in gpus))))


def _place(gpus: list[Device]) -> str:
    if not gpus:
        quota, visible = cores_by_quota(), len(os.sched_getaffinity(0))
        return f"{quota} of {visible} cores, the container's CPU quota" if quota else "the CPU"
    names, models = ",".join(each.name for each in gpus), gpu_models(gpus)
    return f"GPU {names} ({models})" if models else f"GPU {names}"


def _patience(settings: Settings, *, on_gpus: bool) -> str:
    """Return a note on what may take long during the boot."""
    if settings.vllm_args.get("enforce_eager"):
        return ""
    graphs = " and capturing CUDA graphs" if on_gpus else ""
    return f"; compiling{graphs} may take minutes the first time"
