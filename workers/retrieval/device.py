"""Choice of the device on which an encoder computes the vectors of a corpus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from contract.errors import InputError, first_line

__all__ = ["device_errors", "free_device"]

#: A GPU with more than this share of its memory in use is considered taken: an engine uses nine tenths of it.
TAKEN = 0.1


def free_device() -> str:
    """Return the first unused GPU, else the CPU: encoding must not take memory from a model on the same GPU."""
    import torch

    for number in range(torch.cuda.device_count()):
        try:
            free, total = torch.cuda.mem_get_info(number)
        except RuntimeError:  # too full even to query
            continue
        if free >= (1 - TAKEN) * total:
            return f"cuda:{number}"
    return "cpu"


@contextmanager
def device_errors(device: str) -> Iterator[None]:
    """Turn errors of the device, such as a full GPU or a missing device, into an InputError with a remedy."""
    try:
        yield
    except RuntimeError as trouble:
        import torch

        full = isinstance(trouble, torch.OutOfMemoryError)
        if not full and device == "auto":
            raise
        what = "does not have enough memory for the encoder" if full else f"cannot be used: {first_line(trouble)}"
        hint = "Build with --device cpu, or name an unused GPU, as in --device cuda:1."
        raise InputError(f"--device {device}: {what}.", hint=hint) from None
