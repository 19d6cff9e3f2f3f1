"""LoRA adapters of a deployment: their folders, and the engine arguments that vLLM needs for them."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from contract.errors import ModelNotFound
from contract.models import from_home

__all__ = ["adapter_arguments", "adapter_folders"]

#: Values that vLLM accepts for max_lora_rank.
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
#: Modules whose adapters vLLM applies to sampled tokens only: its CPU build dies at a prompt's log-probabilities.
OUTPUT = frozenset({"lm_head", "embed_tokens"})
#: Upper bound on the header of any safetensors file.
HEADER_BYTES = 100_000_000
#: Modules whose input is as wide as the part of the model that they are in.
AS_WIDE = frozenset({"q_proj", "k_proj", "v_proj", "qkv_proj"})
_LAYER = re.compile(r"(.*)\.layers\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class _Adapter:
    folder: Path
    rank: int
    modules: frozenset[str]
    #: What its weights tell of its model.
    size: _Size


class _Size(NamedTuple):
    """What an adapter's weights tell of its model."""

    #: Number of layers that it has at least; 0: unknown, or in several parts.
    layers: int
    #: Widths of its parts; empty: unknown.
    widths: frozenset[int]


def adapter_folders(adapters: Mapping[str, str], model: str) -> dict[str, Path]:
    """Return adapter name → absolute folder in peft's format.

    Raises ModelNotFound, also for an adapter of another model than `model`, if that is a folder, and known (not empty):
    with a hub's model, vLLM compares them.
    """
    found = {name: _read(name, path) for name, path in adapters.items()}
    for name, each in found.items() if model else ():
        _refuse_for_another_model(name, each.size, Path(model, "config.json"))
    return {name: each.folder for name, each in found.items()}


def adapter_arguments(adapters: Mapping[str, str]) -> dict[str, Any]:
    """Return vLLM's engine arguments for loading all `adapters`; empty without any. Raises ModelNotFound.

    One extra slot stays empty: in a batch with adapters, vLLM's CPU kernels apply whatever is in the last slot to a
    request without one. Only modules changed by some adapter are prepared. The model's head is never among them, or
    vLLM 0.32 could not return log-probabilities of prompts, which is how continuations are scored.
    """
    if not adapters:
        return {}
    found = [_read(name, path) for name, path in adapters.items()]
    highest = max(each.rank for each in found)
    return {
        "enable_lora": True,
        "max_loras": len(found) + 1,
        "max_lora_rank": next(rank for rank in RANKS if rank >= highest),
        "lora_target_modules": sorted(frozenset[str]().union(*(each.modules for each in found))),
    }


def _read(name: str, path: str) -> _Adapter:
    folder = from_home(path).resolve()
    file = folder / "adapter_config.json"
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        ranks = {int(content["r"]), *map(int, (content.get("rank_pattern") or {}).values())}
        modules = content["target_modules"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as trouble:
        raise _unreadable(name, file, trouble) from None
    suffixes = frozenset(str(each).rpartition(".")[2] for each in modules) if isinstance(modules, list) else OUTPUT
    if OUTPUT & suffixes:
        raise ModelNotFound(
            f"adapters.{name}: {file} has target_modules {modules!r}.",
            hint="Expected a list of a layer's modules, like q_proj; vLLM cannot score with an adapted lm_head.",
        )
    if content.get("target_parameters"):
        raise ModelNotFound(
            f"adapters.{name}: {file} has target_parameters, such as the experts of a model.",
            hint="Only adapters of target_modules are loaded: merge this one into its model, and load that.",
        )
    if max(ranks) > RANKS[-1]:
        raise ModelNotFound(
            f"adapters.{name}: {file} has the rank {max(ranks)}.", hint=f"vLLM applies ranks of at most {RANKS[-1]}."
        )
    shapes = _weights(name, folder)
    _refuse_other_weights(name, folder, shapes, ranks, suffixes)
    return _Adapter(folder, max(ranks), suffixes, _size(shapes))


def _weights(name: str, folder: Path) -> dict[str, tuple[int, int]]:
    """Return module → rank and width of its input, by the header of the weights. Empty where all are pickled.

    Raises ModelNotFound if weights are missing.
    """
    file = folder / "adapter_model.safetensors"  # which vLLM takes before all others
    if not file.is_file() and any((folder / f"adapter_model.{suffix}").is_file() for suffix in ("bin", "pt")):
        return {}  # left to vLLM
    try:
        with file.open("rb") as weights:
            (length,) = struct.unpack("<Q", weights.read(8))
            header = json.loads(weights.read(min(length, HEADER_BYTES)))
        there = {tensor.partition(".lora_A")[0]: entry for tensor, entry in header.items() if ".lora_A" in tensor}
        return {module: (int(entry["shape"][0]), int(entry["shape"][1])) for module, entry in there.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error) as trouble:
        raise _unreadable(name, file, trouble) from None


def _refuse_other_weights(
    name: str, folder: Path, shapes: Mapping[str, tuple[int, int]], ranks: Set[int], modules: Set[str]
) -> None:
    """Raise ModelNotFound unless the weights have these ranks, and no modules but these.

    vLLM would load and misscale the first, and leave out the second without a word; as another adapter may name them,
    what this one answers would depend on its neighbours.
    """
    mixed = "They are from different training runs: use the folder exactly as peft's save_pretrained wrote it."
    found = {rank for rank, _ in shapes.values()}
    if not found <= ranks:
        raise ModelNotFound(
            f"adapters.{name}: the weights in {folder} are of rank {_listed(found)}, adapter_config.json says "
            f"{_listed(ranks)}.",
            hint=mixed,
        )
    adapted = {module.rpartition(".")[2] for module in shapes}
    if not adapted <= modules:
        raise ModelNotFound(
            f"adapters.{name}: the weights in {folder} are for {', '.join(sorted(adapted))}, target_modules in its "
            f"adapter_config.json names {', '.join(sorted(modules))}.",
            hint=mixed,
        )


def _size(shapes: Mapping[str, tuple[int, int]]) -> _Size:
    layers = [found for module in shapes if (found := _LAYER.match(module))]
    parts = {found[1] for found in layers}
    widths = frozenset(width for module, (_, width) in shapes.items() if module.rpartition(".")[2] in AS_WIDE)
    return _Size(max(int(found[2]) for found in layers) + 1 if len(parts) == 1 else 0, widths)


def _refuse_for_another_model(name: str, size: _Size, file: Path) -> None:
    """Raise ModelNotFound if an adapter of this size is for another model than the one with this config.json.

    vLLM would find another width only when it has loaded the model, and leave out layers that this one lacks.
    """
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        layers, width = int(config["num_hidden_layers"]), int(config["hidden_size"])
    except (OSError, ValueError, KeyError, TypeError):
        return  # a hub's model, or one that says it in another way
    if "vision_config" in config or "audio_config" in config:
        return  # its parts differ
    other_width = bool(size.widths) and width not in size.widths
    if size.layers > layers or other_width:
        its = f"width {_listed(size.widths)}" if other_width else f"{size.layers} layers"
        raise ModelNotFound(
            f"adapters.{name}: it is for another model, of {its}; {file.parent.name} has the width {width} "
            f"and {layers} layers.",
            hint="Load the model that it was trained on (base_model_name_or_path in its adapter_config.json).",
        )


def _unreadable(name: str, file: Path, trouble: Exception) -> ModelNotFound:
    what = f"adapters.{name}: {file} cannot be read ({type(trouble).__name__}: {trouble})."
    return ModelNotFound(what, hint="Name a folder that peft's save_pretrained wrote.")


def _listed(ranks: Set[int]) -> str:
    return ", ".join(map(str, sorted(ranks)))
