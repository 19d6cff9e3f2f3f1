"""What a model's files say, read as vLLM would, without an engine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contract.errors import ModelNotFound, first_line
from contract.models import require_hub
from workers.engines.model_tokenizer import correct_vllm

__all__ = ["positions_of", "require_tokenizer", "tokenizer_of"]

#: In the name of each file that tokenizers are made of: by transformers, Mistral, SentencePiece or a model's own code.
_TOKENIZER_FILE = re.compile(r"token|vocab|merges|tekken|spiece|\.(model|bpe)$")


def require_tokenizer(model: str, vllm_args: Mapping[str, Any]) -> None:
    """Raise ModelNotFound if `model` is a folder with no tokenizer, as trainers leave it, and none is named besides."""
    try:
        files = [] if vllm_args.get("tokenizer") else [each.name for each in Path(model).iterdir()]
    except OSError:  # a hub id, or a folder whose files can only be opened by their names
        return
    if files and not any(_TOKENIZER_FILE.search(name.lower()) for name in files):
        hint = "Save the base model's tokenizer there, or name its folder or hub id: vllm_args.tokenizer."
        raise ModelNotFound(f"hf_model_id: {model} has no tokenizer.", hint=hint)


def tokenizer_of(model: str, vllm_args: Mapping[str, Any]) -> Any:
    """Return the tokenizer that an engine with `vllm_args` uses for `model` (a folder or a hub id).

    Not known here are the modes that vLLM chooses by a model's architecture (DeepSeek V3.2 and later, Kimi, Inkling):
    name them as `tokenizer_mode`. Raises ModelNotFound.
    """
    name = str(vllm_args.get("tokenizer") or model)
    revision = vllm_args.get("tokenizer_revision") or vllm_args.get("revision")
    if not Path(name).is_dir():
        require_hub(name, "tokenizer_config.json", revision)
    from vllm.tokenizers import get_tokenizer

    correct_vllm()
    try:
        return get_tokenizer(
            name,
            tokenizer_mode=str(vllm_args.get("tokenizer_mode", "auto")).lower(),
            trust_remote_code=bool(vllm_args.get("trust_remote_code")),
            revision=revision,
        )
    except (OSError, ValueError) as trouble:  # the hub became unreachable, or the folder is not a model's
        hint = "hf_model_id and vllm_args.tokenizer may also be a folder, which needs no network."
        raise ModelNotFound(f"No tokenizer for {name!r}: {first_line(trouble)}.", hint=hint) from None


def positions_of(model: str, vllm_args: Mapping[str, Any]) -> int | None:
    """Return the maximum context in tokens of `model` under `vllm_args`, or None if its config does not say."""
    from transformers import AutoConfig

    given = vllm_args.get("hf_overrides")
    overrides = {name: value for name, value in given.items() if not isinstance(value, dict)} if given else {}
    try:
        config = AutoConfig.from_pretrained(
            vllm_args.get("hf_config_path") or model,
            revision=vllm_args.get("revision") or "main",
            trust_remote_code=bool(vllm_args.get("trust_remote_code")),
            **overrides,
        ).get_text_config()
    except (OSError, ValueError):  # vLLM supports model types that transformers does not
        return None
    found: int | None = getattr(config, "max_position_embeddings", None)
    return found
