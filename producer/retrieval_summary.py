"""What retrieval did, in one run or beside a run without it, in lines for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contract.verdict import ContextSource
from producer.output import Lines, difference, interval, number, p_value
from producer.stats import Mean, Pairs, RetrievalTally, Share
from producer.stats.effect import RecallPairs, RetrievalEffect, Shown

__all__ = ["effect_lines", "recall_lines", "retrieval_lines"]

_SHOWN = {
    Shown.RIGHT: "with a right passage shown",
    Shown.OTHERS: "without one",
    Shown.UNKNOWN: "of a question that names no source",
}


def retrieval_lines(found: RetrievalTally | None) -> Lines:
    """How retrieval went; nothing for a run without it. Figures of no question at all are left out."""
    if found is None:
        return []
    lines = [("retrieval", _extent(found))]
    if any_within := found.recall_any():
        depth = "the first k, shown or not" if found.cut else "the first k"
        lines.append(("recall", f"{_by_depth(any_within)}  a right passage in {depth}, of {found.sourced:,}"))
    if share_within := found.recall_share():
        of = next(iter(share_within.values())).of
        lines.append(("", f"{_by_depth(share_within)}  mean share of the right passages there, of {of:,}"))
    figures = (
        (f"MRR@{found.depths[-1]}", found.mrr(), "of the first right passage"),
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
        parts.append(f"none to show for {none:,}")
    if found.failed:
        parts.append(f"{found.failed:,} failed without passages")
    return " · ".join(parts)


def _by_depth(figures: Mapping[int, Share | Mean]) -> str:
    return " · ".join(f"@{depth} {figure.value:.3f}" for depth, figure in figures.items())


def effect_lines(found: RetrievalEffect, without: str, retrieved: str, besides: Sequence[str]) -> Lines:
    """What passages changed between the run called `without` and the one called `retrieved`.

    `besides` is what these differ in, too: with another model, say, nobody knows what the passages did.
    """
    everything = found.pairs(*Shown)
    if everything is None:
        return [("retrieval", f"{retrieved} had it, but in no pair that can be compared{_left_out(found)}")]
    kinds = {shown: pairs for shown in Shown if (pairs := found.pairs(shown))}
    missed, held = everything.neither + everything.only_b, everything.both + everything.only_a
    repaired = _split({shown: pairs.only_b for shown, pairs in kinds.items()})
    broken = _split({shown: pairs.only_a for shown, pairs in kinds.items()})
    apart = [_change(pairs, shown) for shown, pairs in kinds.items()] if len(kinds) > 1 else []
    extent = number(everything.of, "pair")
    if found.nothing_shown:
        extent = f"{everything.of - found.nothing_shown:,} of {extent}"
    also = f"the runs differ in {', '.join(besides)}, too: this is not the work of the passages alone"
    return [
        ("retrieval", f"{retrieved} was shown passages in {extent}{_left_out(found)}"),
        *([("", also)] if besides else []),
        ("repaired", f"{everything.only_b:,} of {missed:,} not right in {without}, right in {retrieved}{repaired}"),
        ("broken", f"{everything.only_a:,} of {held:,} right in {without}, not right in {retrieved}{broken}"),
        *(("" if at else "apart", change) for at, change in enumerate(apart)),
    ]


def _left_out(found: RetrievalEffect) -> str:
    parts = ((found.failed, "where A or B failed"), (found.own_context, "with their own context"))
    return "".join(f" · left out {count:,} {why}" for count, why in parts if count)


def _split(counts: Mapping[Shown, int]) -> str:
    told = [f"{count:,} {_SHOWN[shown]}" for shown, count in counts.items() if count]
    return f": {', '.join(told)}" if told and counts.keys() != {Shown.UNKNOWN} else ""


def _change(pairs: Pairs, shown: Shown) -> str:
    change = f"{pairs.accuracy_a.value:.3f} → {pairs.accuracy_b.value:.3f}, {difference(pairs)}"
    return f"{number(pairs.of, 'pair')} {_SHOWN[shown]}: accuracy {change}, {p_value(pairs.p_value())}"


def recall_lines(found: RecallPairs) -> Lines:
    """Which of two runs with retrieval found what answers."""
    pairs = found.pairs()
    if pairs is None:
        return []
    a, b = pairs.accuracy_a.value, pairs.accuracy_b.value
    apart = f"only A found it {pairs.only_a:,} · only B {pairs.only_b:,} · neither {pairs.neither:,}"
    return [
        (f"recall@{found.depth}", f"A {a:.3f} · B {b:.3f}  a right passage, of {number(pairs.of, 'question')}"),
        ("", f"{difference(pairs)} (B minus A), {p_value(pairs.p_value())}: {apart}"),
    ]
