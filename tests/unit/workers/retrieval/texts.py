"""Texts, and questions that some of them answer."""

from __future__ import annotations

from collections.abc import Sequence

from contract.verdict import Passage

__all__ = ["QUERIES", "TEXTS", "ids"]

TEXTS = [
    "Iron rusts when it meets water and air.",
    "Water boils at 100 degrees Celsius.",
    "Copper conducts electricity well.",
    "Plants turn sunlight into sugar.",
    "The heart pumps blood through the body.",
    "Birds build nests in spring.",
    "A magnet attracts iron.",
    "Sound travels faster in water than in air.",
]
QUERIES = ["Which organ moves blood?", "Why does metal corrode?", "photosynthesis"]


def ids(found: Sequence[Passage]) -> list[str]:
    return [each.id for each in found]
