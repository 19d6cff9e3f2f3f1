"""Which files of an encoder's folder decide its vectors, and their hashes: weights, modules, tokenizer, prompts.

What else lies there (a README, other formats of the same weights, a training script) may be missing on another host.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from workers.packaged_weights import sha256_of

__all__ = ["deciding_files"]

MODULES = "modules.json"
#: In the encoder's own folder; in those of its modules, all JSON is configuration.
CONFIGURATION = (
    MODULES,
    "config.json",
    "config_sentence_transformers.json",
    "sentence_*_config.json",
    "adapter_config.json",
    "tokenizer_config.json",
)
#: Of each row, the first that is there is what is read.
TOKENIZERS = (("tokenizer.json",), ("vocab.*", "merges.txt", "*.model"))
WEIGHTS = (("*.safetensors",), ("*.bin",))


def deciding_files(folder: Path) -> dict[str, str]:
    """SHA-256 of each of them, by its path in `folder`."""
    found = set(_matching(folder, CONFIGURATION)) | set(_first(folder, TOKENIZERS)) | set(_first(folder, WEIGHTS))
    for module in _module_folders(folder):
        found |= {path for path in module.rglob("*.json") if path.is_file()} | set(_first(module, WEIGHTS))
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in sorted(found)}


def _module_folders(folder: Path) -> list[Path]:
    try:
        modules = json.loads((folder / MODULES).read_text(encoding="utf-8"))
        paths = [str(each["path"]) for each in modules]
    except (OSError, ValueError, KeyError, TypeError):  # a plain model of transformers has none
        return []
    return [folder / path for path in paths if path and (folder / path).is_dir()]


def _first(folder: Path, rows: tuple[tuple[str, ...], ...]) -> list[Path]:
    return next((found for patterns in rows if (found := list(_matching(folder, patterns)))), [])


def _matching(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    return (path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
