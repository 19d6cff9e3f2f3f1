"""Hashes of the files that determine an encoder's vectors: weights, modules, tokenizer and prompts.

Other files in its folder (a README, other formats of the same weights, a training script) may be missing elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from workers.packaged_weights import sha256_of

__all__ = ["deciding_files"]

MODULES = "modules.json"
#: Configuration files in the encoder's folder; in its modules' folders, all JSON files are configuration.
CONFIGURATION = (
    MODULES,
    "config.json",
    "config_sentence_transformers.json",
    "sentence_*_config.json",
    "adapter_config.json",
    "tokenizer_config.json",
)
#: Only the first row with matching files is read.
TOKENIZERS = (("tokenizer.json",), ("vocab.*", "merges.txt", "*.model"))
WEIGHTS = (("*.safetensors",), ("*.bin",))


def deciding_files(folder: Path) -> dict[str, str]:
    """Return path within `folder` → SHA-256 of each of these files."""
    found = set(_matching(folder, CONFIGURATION)) | set(_first(folder, TOKENIZERS)) | set(_first(folder, WEIGHTS))
    for module in _module_folders(folder):
        found |= {path for path in module.rglob("*.json") if path.is_file()} | set(_first(module, WEIGHTS))
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in sorted(found)}


def _module_folders(folder: Path) -> list[Path]:
    try:
        modules = json.loads((folder / MODULES).read_text(encoding="utf-8"))
        paths = [str(each["path"]) for each in modules]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # a plain model of transformers has none
        return []
    return [folder / path for path in paths if path and (folder / path).is_dir()]


def _first(folder: Path, rows: tuple[tuple[str, ...], ...]) -> list[Path]:
    return next((found for patterns in rows if (found := list(_matching(folder, patterns)))), [])


def _matching(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    return (path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
