"""The pages of docs/ and the blocks in them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support import ROOT

__all__ = ["BLOCK", "DOCS", "blocks"]

DOCS = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, kind: str | None = None) -> list[str]:
    """Contents of the page's blocks, or of those that are fenced as `kind`."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [text for each, text in found if kind is None or each == kind]
