"""Counting tokens as a model does, with its tokenizer alone: no weights, no engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from contract.errors import InputError, ModelNotFound
from contract.models import prepared_models, require_hub

__all__ = ["token_counter"]

TOKENIZER = "tokenizer.json"


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
    if file is None and Path(model).expanduser().is_dir():
        raise ModelNotFound(
            f"--model: the folder {model} holds no {TOKENIZER}.", hint="Name a Hugging Face model folder."
        )
    if file is None:
        require_hub(model, TOKENIZER)
    try:
        tokenizer = Tokenizer.from_file(str(file)) if file else Tokenizer.from_pretrained(model)
    except Exception as trouble:  # noqa: BLE001 - the library raises Exception itself, for files and for the network
        hint = f"Name a folder with a {TOKENIZER}; a packaged model is prepared by python -m workers prepare."
        raise ModelNotFound(f"--model: no tokenizer for {model!r}: {trouble}.", hint=hint) from None
    return lambda text: len(tokenizer.encode(text).ids)


def _tokenizer_file(model: str) -> Path | None:
    """The tokenizer of a folder, or of a packaged model in the user's cache."""
    for folder in (Path(model).expanduser(), prepared_models() / model):
        if (folder / TOKENIZER).is_file():
            return folder / TOKENIZER
    return None
