"""Loading of the models of sentence-transformers: encoders of texts, and rerankers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from contract.errors import HubUnreachable, InputError, ModelNotFound, first_line
from contract.models import require_hub

__all__ = ["load_model"]

#: What the readers of missing or damaged files raise, besides safetensors'. Not a want of memory, which may pass.
DAMAGED = (OSError, ValueError, TypeError, LookupError, AttributeError, EOFError)


def load_model(
    kind: Literal["SentenceTransformer", "CrossEncoder"], model: str, *, setting: str, hint: str, device: str
) -> Any:
    """Load `model`, a folder or a hub id, as the library's class `kind`.

    Raises ModelNotFound, naming `setting`, if it is unavailable (with `hint` as the remedy for one of the hub's),
    HubUnreachable if that may be temporary, and InputError without the library.
    """
    at_hub = not Path(model).is_dir()
    if at_hub:
        require_hub(model, "config.json")
    library = _library()
    try:
        return getattr(library, kind)(model, device=device, local_files_only=not at_hub)
    except (*DAMAGED, _safetensor_error()) as trouble:
        # Both network errors and unreadable files are OSErrors. The hub answered a moment ago: assume the network.
        error = HubUnreachable if at_hub and isinstance(trouble, OSError) else ModelNotFound
        remedy = hint if at_hub else "It is damaged, incomplete or no such model: name another folder, or copy it anew."
        raise error(f"{setting}: {model} cannot be loaded: {first_line(trouble)}.", hint=remedy) from None


def _safetensor_error() -> type[Exception]:
    from safetensors import SafetensorError

    return SafetensorError


def _library() -> Any:
    """Import the library and turn its progress bars off. Raises InputError with a remedy if it is missing."""
    try:
        import sentence_transformers
        from transformers.utils import logging
    except ModuleNotFoundError as trouble:
        raise InputError(
            f"{trouble.name} is not installed; it is needed for vectors.",
            hint="make setup, or pip install --no-deps -r requirements/retrieval.txt beside torch and transformers.",
        ) from None
    logging.disable_progress_bar()
    return sentence_transformers
