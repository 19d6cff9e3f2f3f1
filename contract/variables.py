"""Environment variables with our prefix that are no settings. All others with it are, or misspelled, and refused."""

from __future__ import annotations

__all__ = [
    "BOOT_CAUSES",
    "CONFIG",
    "FOR_USERS",
    "LOG_FORMAT",
    "LOG_LEVEL",
    "MODEL",
    "NO_SETTINGS",
    "OVERRIDES",
    "READY_FD",
    "WORKER_NAME",
]

#: The deploy file.
CONFIG = "MCQUEUE_CONFIG"
#: Settings above all other layers, as a JSON object; set by the launcher for its workers.
OVERRIDES = "MCQUEUE_OVERRIDES"
#: Selects one model of a deploy file with several; set by the launcher for its workers. It is a setting, too.
MODEL = "MCQUEUE_MODEL"
#: A worker's name on its host, for its log.
WORKER_NAME = "MCQUEUE_WORKER_NAME"
#: Descriptor by which a worker reports to its launcher.
READY_FD = "MCQUEUE_READY_FD"
#: File in which vLLM's processes report why they failed.
BOOT_CAUSES = "MCQUEUE_BOOT_CAUSES"
LOG_LEVEL = "MCQUEUE_LOG_LEVEL"
LOG_FORMAT = "MCQUEUE_LOG_FORMAT"
#: Those that a user sets, not one of our processes for another.
FOR_USERS = (CONFIG, LOG_LEVEL, LOG_FORMAT)
#: All but `MODEL`.
NO_SETTINGS = frozenset({CONFIG, OVERRIDES, WORKER_NAME, READY_FD, BOOT_CAUSES, LOG_LEVEL, LOG_FORMAT})
