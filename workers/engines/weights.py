"""Which weights are in a folder: a digest, so that two workers of one model can be told apart by what they loaded.

A model's files take minutes to read. A few blocks of each tell a fine-tuned, newer or quantised one from another.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

__all__ = ["model_folder", "weights_digest"]

#: Files of weights, by their suffix.
WEIGHTS = frozenset({".safetensors", ".bin", ".gguf", ".pt"})
#: Small files that decide what weights come to.
DESCRIPTIONS = ("config.json", "adapter_config.json")
BLOCKS = 16
BLOCK_BYTES = 65_536


def weights_digest(folder: Path) -> str:
    """16 hex digits over names, sizes and blocks of the weights in `folder`; empty where there are none to be read."""
    digest = hashlib.sha256()
    try:
        found = sorted(each for each in folder.iterdir() if each.suffix in WEIGHTS)
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
    digest.update(f"{path.name} {size}\n".encode())
    with path.open("rb") as file:
        for number in range(BLOCKS):
            file.seek(max(0, size - BLOCK_BYTES) * number // (BLOCKS - 1), os.SEEK_SET)
            digest.update(file.read(BLOCK_BYTES))


def model_folder(model: str, revision: str | None = None, download_dir: str | None = None) -> Path | None:
    """Where the files of `model`, a folder or a hub id, lie on this machine; None where nobody can tell."""
    if Path(model).is_dir():
        return Path(model)
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(model, "config.json", cache_dir=download_dir, revision=revision)
    except ValueError:  # vLLM knows names that the hub has not, like owner/name:Q4_K_M
        return None
    return Path(found).parent if isinstance(found, str) else None
