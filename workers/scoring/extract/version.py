"""Which rules these are."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

__all__ = ["rules_version"]

HERE = Path(__file__).parent
#: What counts the texts of a vote, and what cuts a text to what is read, are rules, too.
READERS = (HERE.parent / "generate.py", HERE.parent / "vote.py")


@cache
def rules_version() -> str:
    """First 8 hex digits of the SHA-256 over the rules' source: a changed rule is another version by itself."""
    found = hashlib.sha256()
    for path in (*sorted(HERE.glob("*.py")), *READERS):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:8]
