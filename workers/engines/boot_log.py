"""What the log says of a boot of vLLM, which is silent for minutes on a GPU: that it began, and how long it took."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from contract.settings import Settings
from workers.engines.installed import is_cpu_build
from workers.host.gpus import Device
from workers.host.nvidia import model_name, visible_gpus

__all__ = ["booting", "gpu_models", "gpus_in_use"]

log = logging.getLogger(__name__)


@contextmanager
def booting(settings: Settings, model: str) -> Iterator[None]:
    """Log the boot of vLLM for `model`, a folder or a hub id, which is the block; one that fails has its own error."""
    gpus = gpus_in_use(settings)
    log.info("vLLM boots %s on %s%s", model, _place(gpus), _patience(settings, on_gpus=bool(gpus)))
    started = time.monotonic()
    yield
    log.info("vLLM is up after %.0f s", time.monotonic() - started)


def gpus_in_use(settings: Settings) -> list[Device]:
    """Those that an engine in this process takes; none where it works on the CPU."""
    return [] if is_cpu_build() else visible_gpus()[: settings.gpus_per_worker]


def gpu_models(gpus: list[Device]) -> str:
    """What they are, each kind once, by the driver's names; empty where it tells none.

    As their kernels differ by kind, so do the last digits of what they compute.
    """
    return ", ".join(dict.fromkeys(filter(None, (model_name(each.name) for each in gpus))))


def _place(gpus: list[Device]) -> str:
    if not gpus:
        return "the CPU"
    names, models = ",".join(each.name for each in gpus), gpu_models(gpus)
    return f"GPU {names} ({models})" if models else f"GPU {names}"


def _patience(settings: Settings, *, on_gpus: bool) -> str:
    """What may take long in a boot."""
    if settings.vllm_args.get("enforce_eager"):
        return ""
    graphs = " and capturing CUDA graphs" if on_gpus else ""
    return f"; compiling{graphs} may take minutes the first time"
