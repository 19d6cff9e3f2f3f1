"""LoRA adapters of a deployment: their folders, and the engine arguments that vLLM needs for them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.errors import ModelNotFound

__all__ = ["adapter_arguments", "adapter_folders"]

#: Values that vLLM accepts for max_lora_rank.
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
#: Modules whose adapters vLLM applies to sampled tokens only: its CPU build dies at a prompt's log-probabilities.
OUTPUT = frozenset({"lm_head", "embed_tokens"})
#: Upper bound on the header of any safetensors file.
HEADER_BYTES = 100_000_000


@dataclass(frozen=True, slots=True)
class _Adapter:
    folder: Path
    rank: int
    modules: frozenset[str]


def adapter_folders(adapters: Mapping[str, str]) -> dict[str, Path]:
    """Return adapter name → absolute folder in peft's format. Raises ModelNotFound."""
    return {name: _read(name, path).folder for name, path in adapters.items()}


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
        "max_lora_rank": next((rank for rank in RANKS if rank >= highest), highest),
        "lora_target_modules": sorted(frozenset[str]().union(*(each.modules for each in found))),
    }


def _read(name: str, path: str) -> _Adapter:
    folder = Path(path).expanduser().resolve()
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
    _refuse_other_weights(name, folder, ranks)
    return _Adapter(folder, max(ranks), suffixes)


def _refuse_other_weights(name: str, folder: Path, ranks: Set[int]) -> None:
    """Raise ModelNotFound if weights are missing or their rank is not in `ranks`: vLLM would load and misscale them."""
    if any((folder / f"adapter_model.{suffix}").is_file() for suffix in ("bin", "pt")):
        return  # pickled: left to vLLM
    file = folder / "adapter_model.safetensors"
    try:
        with file.open("rb") as weights:
            (length,) = struct.unpack("<Q", weights.read(8))
            header = json.loads(weights.read(min(length, HEADER_BYTES)))
        found = {int(entry["shape"][0]) for tensor, entry in header.items() if "lora_A" in tensor}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error) as trouble:
        raise _unreadable(name, file, trouble) from None
    if not found <= ranks:
        raise ModelNotFound(
            f"adapters.{name}: {file} has weights of rank {_listed(found)}, adapter_config.json says {_listed(ranks)}.",
            hint="They are from different training runs: use the folder exactly as peft's save_pretrained wrote it.",
        )


def _unreadable(name: str, file: Path, trouble: Exception) -> ModelNotFound:
    what = f"adapters.{name}: {file} cannot be read ({type(trouble).__name__}: {trouble})."
    return ModelNotFound(what, hint="Name a folder that peft's save_pretrained wrote.")


def _listed(ranks: Set[int]) -> str:
    return ", ".join(map(str, sorted(ranks)))
