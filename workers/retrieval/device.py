"""Where an encoder makes the vectors of a corpus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from contract.errors import InputError, first_line

__all__ = ["free_device", "told_of_device"]

#: A GPU of which more than this share is taken serves somebody already: an engine takes nine tenths of it.
TAKEN = 0.1


def free_device() -> str:
    """The first GPU that nobody else uses, else the CPU: encoding must not cost a model beside it its memory."""
    import torch

    for number in range(torch.cuda.device_count()):
        try:
            free, total = torch.cuda.mem_get_info(number)
        except RuntimeError:  # so full that there is no room to ask
            continue
        if free >= (1 - TAKEN) * total:
            return f"cuda:{number}"
    return "cpu"


@contextmanager
def told_of_device(device: str) -> Iterator[None]:
    """What goes wrong there, as InputError with a remedy: a GPU's memory that is full, a device that is not there."""
    try:
        yield
    except RuntimeError as trouble:
        import torch

        full = isinstance(trouble, torch.OutOfMemoryError)
        if not full and device == "auto":
            raise
        what = "has not memory enough for the encoder" if full else f"cannot be used: {first_line(trouble)}"
        hint = "Build with --device cpu, or name a GPU that nobody uses, as in --device cuda:1."
        raise InputError(f"--device {device}: {what}.", hint=hint) from None
