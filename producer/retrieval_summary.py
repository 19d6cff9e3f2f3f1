"""Output lines on retrieval: its quality in one run, and its effect compared with another run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contract.verdict import ContextSource
from contract.wording import number
from producer.output import Lines, labelled
from producer.result_lines import difference, interval, p_value
from producer.stats import Mean, Pairs, RetrievalTally, Share
from producer.stats.effect import RecallPairs, RetrievalEffect, Shown

__all__ = [
    "effect_lines",
    "recall_lines",
    "retrieval_extent",
    "retrieval_figures",
    "retrieval_in_short",
    "retrieval_lines",
]

_SHOWN = {
    Shown.RIGHT: "with a relevant passage shown",
    Shown.OTHERS: "without one",
    Shown.UNKNOWN: "for questions that name no source",
}


def retrieval_lines(found: RetrievalTally | None) -> Lines:
    """Return the retrieval figures; empty for a run without retrieval. Figures over zero questions are omitted."""
    if found is None:
        return []
    lines = [("retrieval", retrieval_extent(found))]
    if any_within := found.recall_any():
        depth = "the first k, shown or not" if found.cut else "the first k"
        what = f"a relevant passage among {depth}, of {number(found.sourced, 'question')}"
        lines.append(("recall", f"{_by_depth(any_within)}  {what}"))
    if share_within := found.recall_share():
        of = number(next(iter(share_within.values())).of, "question")
        lines.append(("", f"{_by_depth(share_within)}  mean share of the relevant passages found there, of {of}"))
    return lines + [(label, f"{interval(figure)} {what}") for label, figure, what in retrieval_figures(found)]


def retrieval_figures(found: RetrievalTally) -> list[tuple[str, Share | Mean, str]]:
    """Return the figures besides recall, each between its label and what it says; those over zero questions are
    omitted."""
    figures = (
        (f"MRR@{found.depths[-1]}", found.mrr(), "reciprocal rank of the first relevant passage"),
        ("precision", found.context_precision(), "of the context: relevant passages ranked before others"),
        ("hit", found.accuracy(hit=True), "accuracy with a relevant passage shown"),
        ("miss", found.accuracy(hit=False), "accuracy without one shown"),
        ("in context", found.answer_in_context(), "a shown passage contains the right choice's text"),
        ("", found.wrong_choice_in_context(), "share of the wrong choices whose text a shown passage contains"),
    )
    return [(label, figure, what) for label, figure, what in figures if figure]


def retrieval_in_short(found: RetrievalTally) -> str:
    """Return whether relevant passages were found and helped, for a table of many runs; empty if nothing tells."""
    if recall := found.recall_any():
        by_shown = {Shown.RIGHT: found.accuracy(hit=True), Shown.OTHERS: found.accuracy(hit=False)}
        accuracies = ", ".join(f"{each.value:.3f} {_SHOWN[shown]}" for shown, each in by_shown.items() if each)
        return f"recall {_by_depth(recall)}" + (f" · accuracy {accuracies}" if accuracies else "")
    in_context = found.answer_in_context()
    return f"a shown passage contains the right choice's text for {in_context.value:.3f}" if in_context else ""


def retrieval_extent(found: RetrievalTally) -> str:
    """Return how many passages were searched for and shown, and why not more."""
    parts = [f"passages for {number(found.searched, 'question')}"]
    if found.searched:
        parts.append(f"{found.shown / found.searched:.1f} shown each")
    if found.cut:
        parts.append(f"not all fit in {found.cut:,}")
    if own := found.context_sources[ContextSource.QUESTION]:
        parts.append(f"{own:,} with their own context")
    none, threshold = found.context_sources[ContextSource.NONE], found.rag.retrieval_score_threshold
    if threshold is not None and found.found_none:
        parts.append(f"none reached rag.retrieval_score_threshold={threshold:g} for {found.found_none:,}")
        none -= found.found_none
    if none:
        parts.append(f"none shown for {none:,}")
    if found.failed:
        parts.append(f"{found.failed:,} failed without passages")
    return " · ".join(parts)


def _by_depth(figures: Mapping[int, Share | Mean]) -> str:
    return " · ".join(f"@{depth} {figure.value:.3f}" for depth, figure in figures.items())


def effect_lines(found: RetrievalEffect, without: str, retrieved: str, besides: Sequence[str]) -> Lines:
    """Return what passages changed between the run called `without` and the one called `retrieved`.

    `besides` lists further differences between the runs: with another model, for example, the effect of the passages
    cannot be isolated.
    """
    everything = found.pairs(*Shown)
    if everything is None:
        return [("retrieval", f"{retrieved} used it, but no pair can be compared{_excluded(found)}")]
    kinds = {shown: pairs for shown in Shown if (pairs := found.pairs(shown))}
    missed, held = everything.neither + everything.only_b, everything.both + everything.only_a
    repaired = _split({shown: pairs.only_b for shown, pairs in kinds.items()})
    broken = _split({shown: pairs.only_a for shown, pairs in kinds.items()})
    apart = [_change(pairs, shown) for shown, pairs in kinds.items()] if len(kinds) > 1 else []
    extent = number(everything.of, "pair")
    if found.nothing_shown:
        extent = f"{everything.of - found.nothing_shown:,} of {extent}"
    also = f"the runs also differ in {', '.join(besides)}: the changes are not due to the passages alone"
    return [
        ("retrieval", f"{retrieved} was shown passages in {extent}{_excluded(found)}"),
        *([("", also)] if besides else []),
        ("repaired", f"{everything.only_b:,} of {missed:,} incorrect in {without}, correct in {retrieved}{repaired}"),
        ("broken", f"{everything.only_a:,} of {held:,} correct in {without}, incorrect in {retrieved}{broken}"),
        *labelled("apart", apart),
    ]


def _excluded(found: RetrievalEffect) -> str:
    parts = ((found.failed, "where A or B failed"), (found.own_context, "with their own context"))
    return "".join(f" · excluded {count:,} {why}" for count, why in parts if count)


def _split(counts: Mapping[Shown, int]) -> str:
    parts = [f"{count:,} {_SHOWN[shown]}" for shown, count in counts.items() if count]
    return f": {', '.join(parts)}" if parts and counts.keys() != {Shown.UNKNOWN} else ""


def _change(pairs: Pairs, shown: Shown) -> str:
    change = f"{pairs.accuracy_a.value:.3f} → {pairs.accuracy_b.value:.3f}, {difference(pairs)}"
    return f"{number(pairs.of, 'pair')} {_SHOWN[shown]}: accuracy {change}, {p_value(pairs.p_value())}"


def recall_lines(found: RecallPairs) -> Lines:
    """Return how often each of two runs with retrieval found a relevant passage."""
    pairs = found.pairs()
    if pairs is None:
        return []
    a, b = pairs.accuracy_a.value, pairs.accuracy_b.value
    apart = f"only A found it {pairs.only_a:,} · only B {pairs.only_b:,} · neither {pairs.neither:,}"
    return [
        (f"recall@{found.depth}", f"A {a:.3f} · B {b:.3f}  relevant passage found, of {number(pairs.of, 'question')}"),
        ("", f"{difference(pairs)} (B minus A), {p_value(pairs.p_value())}: {apart}"),
    ]
