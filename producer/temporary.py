"""The error for a temporary file that cannot be written."""

from __future__ import annotations

import sqlite3

from contract.errors import InputError

__all__ = ["no_room"]


def no_room(what: str, trouble: OSError | sqlite3.Error) -> InputError:
    """Return an error that says why `what` cannot be stored in a temporary file."""
    why = trouble.strerror if isinstance(trouble, OSError) else trouble
    message = f"{what} cannot be stored in a temporary file: {why}."
    return InputError(message, hint="Free some space, or set TMPDIR to another folder.")
