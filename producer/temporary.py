"""The error for a temporary file that there is no room for."""

from __future__ import annotations

import sqlite3

from contract.errors import InputError

__all__ = ["no_room"]


def no_room(what: str, trouble: OSError | sqlite3.Error) -> InputError:
    """The error that says why `what` cannot be kept in a temporary file."""
    why = trouble.strerror if isinstance(trouble, OSError) else trouble
    message = f"{what} cannot be kept in a temporary file: {why}."
    return InputError(message, hint="Make room, or name another folder with TMPDIR.")
