"""An engine on an instance of a GPU in MIG mode, which vLLM 0.32 takes for another GPU, or for one that does not exist.

vLLM asks the driver about GPUs by number, and the driver's number of an instance counts within its GPU.
"""

from __future__ import annotations

import os
from typing import Any

__all__ = ["ask_about_its_gpu"]


def ask_about_its_gpu() -> None:
    """Have vLLM in this process, if it is pinned to a MIG instance, ask the driver about that instance's own GPU.

    Otherwise an engine on instance 1 of a host's only GPU does not boot (`NvmlCudaPlatform` of vLLM 0.32), and among
    several GPUs vLLM looks at the properties of another one.

    vLLM calls this in each of its processes as a plugin of the group `vllm.platform_plugins` (pyproject.toml), before
    it asks the driver for anything. Returning None, it adds no platform.
    """
    if not os.environ.get("CUDA_VISIBLE_DEVICES", "").startswith("MIG-"):
        return
    from vllm.platforms import cuda

    def gpu_of_instance(_: type, uuid: str) -> int:
        driver: Any = cuda.pynvml
        instance = driver.nvmlDeviceGetHandleByUUID(uuid)
        return int(driver.nvmlDeviceGetIndex(driver.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance)))

    correct: Any = classmethod(cuda.with_nvml_context(gpu_of_instance))
    cuda.NvmlCudaPlatform.device_control_id_to_physical_device_id = correct
