"""The GPUs of made-up hosts."""

from __future__ import annotations

from workers.gpus.groups import Device

__all__ = ["CUT", "EIGHT"]

EIGHT = [Device(str(i), f"GPU-{i}aaa0000-1111") for i in range(8)]
#: GPU 0 whole, GPU 1 cut into two instances.
CUT = [Device("0", "GPU-5f3a"), Device("MIG-11aa", "MIG-11aa", "1"), Device("MIG-22bb", "MIG-22bb", "1")]
