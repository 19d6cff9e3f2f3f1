"""Digest of a model's weights, so that a run can tell whether its workers loaded the same ones.

Reading a model's files takes minutes. A few blocks of each distinguish fine-tuned, newer or quantised versions.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

__all__ = ["model_folder", "weights_digest"]

#: Suffixes of weight files.
WEIGHTS = frozenset({".safetensors", ".bin", ".gguf", ".pt"})
#: Small files that determine how the weights are used.
DESCRIPTIONS = ("config.json", "adapter_config.json")
BLOCKS = 16
BLOCK_BYTES = 65_536


def weights_digest(folder: Path) -> str:
    """Return 16 hex digits over names, sizes and blocks of the weights in `folder`; empty if none can be read."""
    digest = hashlib.sha256()
    try:
        found = sorted(each for each in folder.iterdir() if each.suffix in WEIGHTS and each.is_file())
        for file in found:
            _add(digest, file)
        for name in DESCRIPTIONS:
            if (folder / name).is_file():
                digest.update((folder / name).read_bytes())
    except OSError:
        return ""
    return digest.hexdigest()[:16] if found else ""


def _add(digest: hashlib._Hash, path: Path) -> None:
    size = path.stat().st_size
    digest.update(os.fsencode(path.name) + f" {size}\n".encode())
    with path.open("rb") as file:
        for number in range(BLOCKS):
            file.seek(max(0, size - BLOCK_BYTES) * number // (BLOCKS - 1), os.SEEK_SET)
            digest.update(file.read(BLOCK_BYTES))


def model_folder(model: str, revision: str | None = None, download_dir: str | None = None) -> Path | None:
    """Return the local folder with the files of `model` (a folder or a hub id), or None if it is unknown."""
    if Path(model).is_dir():
        return Path(model)
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(model, "config.json", cache_dir=download_dir, revision=revision)
    except ValueError:  # vLLM accepts names that the hub does not, like owner/name:Q4_K_M
        return None
    return Path(found).parent if isinstance(found, str) else None
