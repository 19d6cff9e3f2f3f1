"""Where a command that boots an engine by itself runs it: as a worker of the same settings would be placed."""

from __future__ import annotations

import os
import socket

from contract.commands import note
from contract.fleet import Fleet
from contract.settings import Settings
from workers.host.fleet_diagnostics import beside_trials
from workers.host.launcher import bind
from workers.host.machine import this_machine
from workers.host.placement import plan_first

__all__ = ["take_first_place"]


def take_first_place(settings: Settings) -> None:
    """Pin this process to the GPUs of the settings' first worker, or to its cores, and say which workers are there.

    Before vLLM is imported. Raises PlanError for GPUs that are missing, SettingsError if the settings start no worker.
    """
    place = plan_first(settings, this_machine())
    os.environ.update(place.environment)
    bind(place.cores)
    for each in beside_trials(Fleet.connect(settings).alive(), socket.gethostname(), place.gpus):
        note(f"note: {each}")
