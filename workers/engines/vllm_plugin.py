"""What vLLM runs first in each of its processes: a plugin of the group `vllm.general_plugins` (pyproject.toml).

vLLM starts its core and worker processes by itself, and its core would outlive a killed worker with all its memory.
"""

from __future__ import annotations

import multiprocessing

from workers.engines.boot_errors import tell_worker
from workers.engines.cpu_norm import register_kernel
from workers.engines.cpu_sampling import sample_only_whole_prompts
from workers.engines.installed import is_cpu_build
from workers.parent import follow_parent

__all__ = ["set_up"]


def set_up() -> None:
    """Report boot errors to the worker, correct and speed up what a CPU does, and die with the worker."""
    tell_worker()
    if multiprocessing.parent_process() is not None and is_cpu_build():
        sample_only_whole_prompts()
        register_kernel()
    follow_parent()
