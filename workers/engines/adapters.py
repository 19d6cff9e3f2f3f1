"""LoRA adapters of a deployment: found, and what vLLM must be told to make room for them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.errors import ModelNotFound

__all__ = ["adapter_arguments", "adapter_folders"]

#: Ranks that vLLM makes room for.
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
#: Where vLLM would apply an adapter to sampled tokens only: its CPU build dies at a prompt's log-probabilities.
OUTPUT = frozenset({"lm_head", "embed_tokens"})
#: More than any safetensors file begins with.
HEADER_BYTES = 100_000_000


@dataclass(frozen=True, slots=True)
class _Adapter:
    folder: Path
    rank: int
    modules: frozenset[str]


def adapter_folders(adapters: Mapping[str, str]) -> dict[str, Path]:
    """Name → absolute folder in peft's format. Raises ModelNotFound."""
    return {name: _read(name, path).folder for name, path in adapters.items()}


def adapter_arguments(adapters: Mapping[str, str]) -> dict[str, Any]:
    """vLLM's engine arguments for `adapters`, all of them at a time; none without any. Raises ModelNotFound.

    There is room for one more, which stays empty: vLLM's CPU kernels give a request without an adapter, beside others
    with one, whatever is in the last place. Only the modules that some adapter changes are prepared; the model's head
    is not among them, or vLLM 0.32 could not give log-probabilities of prompts, which is how continuations are weighed.
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
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as trouble:
        raise _unreadable(name, file, trouble) from None
    suffixes = frozenset(str(each).rpartition(".")[2] for each in modules) if isinstance(modules, list) else OUTPUT
    if OUTPUT & suffixes:
        raise ModelNotFound(
            f"adapters.{name}: {file} has target_modules {modules!r}.",
            hint="Expected a list of a layer's modules, like q_proj; vLLM gives no scores with an adapted lm_head.",
        )
    _refuse_other_weights(name, folder, ranks)
    return _Adapter(folder, max(ranks), suffixes)


def _refuse_other_weights(name: str, folder: Path, ranks: Set[int]) -> None:
    """Raises ModelNotFound where there are no weights, or of other ranks: vLLM would take those, scaled for these."""
    if any((folder / f"adapter_model.{suffix}").is_file() for suffix in ("bin", "pt")):
        return  # pickled: only vLLM reads them
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
            hint="They are not of one training: name the folder as peft's save_pretrained wrote it.",
        )


def _unreadable(name: str, file: Path, trouble: Exception) -> ModelNotFound:
    what = f"adapters.{name}: {file} cannot be read ({type(trouble).__name__}: {trouble})."
    return ModelNotFound(what, hint="Name a folder that peft's save_pretrained wrote.")


def _listed(ranks: Set[int]) -> str:
    return ", ".join(map(str, sorted(ranks)))
