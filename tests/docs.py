"""The pages of docs/ and the blocks in them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support import ROOT

__all__ = ["DOCS", "blocks"]

DOCS = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, kind: str) -> list[str]:
    """Contents of the page's blocks that are fenced as `kind`."""
    return [text for each, text in BLOCK.findall(page.read_text(encoding="utf-8")) if each == kind]
