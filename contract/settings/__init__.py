"""Deployment settings: Redis, batching, GPU groups, engine arguments. They must not change the meaning of an answer.

Layers, highest first: environment (`MCQUEUE_BATCH_SIZE`, `MCQUEUE_VLLM_ARGS__DTYPE`) · `--set` · YAML · defaults.
Nothing is read at import; `load_settings` reads them once, and the result is frozen.
"""

from contract.settings.fields import (
    MOST_QUESTIONS,
    PREFIX,
    OpenAiSettings,
    Settings,
    SimulatedSettings,
    refuse_no_server,
)
from contract.settings.loading import as_file, load_fleet, load_settings

__all__ = [
    "MOST_QUESTIONS",
    "PREFIX",
    "OpenAiSettings",
    "Settings",
    "SimulatedSettings",
    "as_file",
    "load_fleet",
    "load_settings",
    "refuse_no_server",
]
