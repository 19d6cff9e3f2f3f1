"""What is wrong with this machine's GPUs, as far as the driver and the kernel say."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from contract.settings import Settings
from workers.gpus.groups import Device
from workers.gpus.nvidia import driver_trouble, lost_gpus, on_the_bus, undivided_gpus
from workers.host.diagnostics import no_gpu, report_lost, report_undivided
from workers.host.finding import Finding
from workers.host.placement import has_workers

__all__ = ["gpu_trouble"]


def gpu_trouble(fleet: Sequence[Settings], gpus: Sequence[Device]) -> Iterator[Finding]:
    """Report GPUs that cannot be used and, if a model of `fleet` runs here but no GPU is visible, why."""
    yield from report_lost(lost_gpus())
    yield from report_undivided(undivided_gpus())
    if not gpus and any(each.runs_the_model and has_workers(each) for each in fleet):
        yield no_gpu(os.environ.get("CUDA_VISIBLE_DEVICES"), driver_trouble(), on_the_bus())
