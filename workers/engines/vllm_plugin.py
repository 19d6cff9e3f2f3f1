"""What vLLM runs first in each of its processes: a plugin of the group `vllm.general_plugins` (pyproject.toml).

vLLM starts its core and worker processes by itself, and its core would outlive a killed worker with all its memory.
"""

from __future__ import annotations

import multiprocessing
from types import SimpleNamespace

from workers.engines.boot_errors import tell_worker
from workers.engines.cpu_norm import register_kernel
from workers.engines.cpu_sampling import sample_only_whole_prompts
from workers.engines.installed import is_cpu_build
from workers.engines.model_tokenizer import correct_vllm
from workers.parent import follow_parent

__all__ = ["set_up"]


def set_up() -> None:
    """Report boot errors to the worker, leave no file, die with the worker; correct tokenizers.

    Also correct and speed up what a CPU does.
    """
    tell_worker()
    _keep_stores_with_sockets()
    correct_vllm()
    if multiprocessing.parent_process() is not None and is_cpu_build():
        sample_only_whole_prompts()
        register_kernel()
    follow_parent()


def _keep_stores_with_sockets() -> None:
    """Let vLLM put the file of torch's store where its sockets are: an engine that is killed leaves it.

    vLLM 0.32 puts it into the temporary directory, and has no setting for that.
    """
    from vllm import envs
    from vllm.utils import network_utils

    network_utils.tempfile = SimpleNamespace(gettempdir=lambda: envs.VLLM_RPC_BASE_PATH)
