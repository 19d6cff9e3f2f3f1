"""What retrieval did, in lines for a person."""

from __future__ import annotations

from collections.abc import Mapping

from contract.verdict import ContextSource
from producer.present import Lines, interval, number
from producer.stats import Mean, RetrievalTally, Share

__all__ = ["retrieval_lines"]


def retrieval_lines(found: RetrievalTally | None) -> Lines:
    """How retrieval went; nothing for a run without it. Figures of no question at all are left out."""
    if found is None:
        return []
    lines = [("retrieval", _extent(found))]
    if any_within := found.recall_any():
        lines.append(("recall", f"{_by_depth(any_within)}  a right passage in the first k, of {found.sourced:,}"))
    if share_within := found.recall_share():
        of = next(iter(share_within.values())).of
        lines.append(("", f"{_by_depth(share_within)}  mean share of the right passages there, of {of:,}"))
    figures = (
        ("MRR", found.mrr(), "of the first right passage"),
        ("precision", found.context_precision(), "of the context: right passages before others"),
        ("hit", found.accuracy(hit=True), "accuracy where a right passage was shown"),
        ("miss", found.accuracy(hit=False), "accuracy where none was"),
        ("in context", found.answer_in_context(), "the right choice's text stands in a passage shown"),
        ("", found.wrong_choice_in_context(), "a wrong choice's text does"),
    )
    return lines + [(label, f"{interval(figure)} {what}") for label, figure, what in figures if figure]


def _extent(found: RetrievalTally) -> str:
    parts = [f"passages for {number(found.searched, 'question')}"]
    if found.searched:
        parts.append(f"{found.shown / found.searched:.1f} shown each")
    if found.cut:
        parts.append(f"not room enough for all in {found.cut:,}")
    if own := found.context_sources[ContextSource.QUESTION]:
        parts.append(f"{own:,} with their own context")
    if none := found.context_sources[ContextSource.NONE]:
        parts.append(f"{none:,} without context")
    if found.failed:
        parts.append(f"failed for {found.failed:,}")
    return " · ".join(parts)


def _by_depth(figures: Mapping[int, Share | Mean]) -> str:
    return " · ".join(f"@{depth} {figure.value:.3f}" for depth, figure in figures.items())
