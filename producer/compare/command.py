"""`python -m producer compare`: a paired comparison of two settled runs, as text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import takewhile

import click

from contract.ledger import Run
from contract.wording import number
from producer.compare.comparison import MANY, UNDECIDED, Comparison, Flip
from producer.compare.pairing import pair_up
from producer.options import as_json, shared_option
from producer.output import Lines, echo_json, echo_lines, echo_table, labelled, optional_line
from producer.result_lines import chance, difference, interval, p_value, shared_context, single_context
from producer.session import Session
from producer.stats import Pairs, Share
from producer.stats.paired import ALPHA, POWER

__all__ = ["compare"]

#: Characters shown of a spec's value; JSON output has all of it.
MOST_SHOWN = 60
#: Of these, the characters before the first that differs: two prompts often differ at their end only.
LEAD = 20
#: Largest number of subjects that are listed.
MOST_SUBJECTS = 12
#: Columns of the table of flipped questions; the last one only if exactly one of the runs used retrieval.
COLUMNS = ("question", "subject", "key", "A", "B", "retrieval")


@click.command()
@click.argument("name_a", metavar="A")
@click.argument("name_b", metavar="B")
@click.option(
    "--flips",
    type=click.IntRange(min=0),
    default=10,
    metavar="N",
    help="Flipped questions to list at most.  [default: 10]",
)
@shared_option
@as_json
@click.pass_obj
def compare(session: Session, name_a: str, name_b: str, flips: int, shared: bool, as_json: bool) -> None:
    """Compare the settled runs A and B over the same questions: is B better, and how certain is that?

    Differences are B minus A. Questions that failed in either run are excluded and counted separately. With --json, all
    flipped questions are listed. If one of the runs used retrieval, the comparison shows which answers the passages
    repaired and which they broke; if both did, which of them retrieved a relevant passage more often.
    """
    a, b = session.run(name_a), session.run(name_b)
    found = pair_up(session.ledger, a, b, None if as_json else flips, shared=shared)
    if as_json:
        echo_json(found.to_json())
        return
    echo_lines(_lines(found))
    if found.flips:
        click.echo()
        columns = COLUMNS if found.retrieval else COLUMNS[:-1]
        echo_table(columns, (_row(each)[: len(columns)] for each in found.flips))


def _lines(found: Comparison) -> Lines:
    pairs = found.pairs
    table = f"both right {pairs.both:,} · only A {pairs.only_a:,} · only B {pairs.only_b:,} · neither {pairs.neither:,}"
    lines = [
        ("A", _accuracy(found.a, pairs.accuracy_a)),
        ("B", _accuracy(found.b, pairs.accuracy_b)),
        ("chance", _chance(found)),
        ("differ in", "\n".join(_difference_lines(found)) or _no_differences(found)),
        *found.engines.lines(),
        ("pairs", f"{pairs.of:,}: {table}"),
        ("difference", f"{difference(pairs)} (B minus A)"),
        ("McNemar", f"{p_value(pairs.p_value())} (mid-p, two-sided, {number(pairs.discordant, 'discordant pair')})"),
        *_context_lines(found),
        *([("undecided", UNDECIDED)] if found.undecided else []),
        ("detectable", _detectable(found)),
    ]
    if found.left_out.of:
        lines.append(("left out", f"{found.left_out.describe()}; the figures are over the questions of both"))
    if any(found.unanswered):
        lines.append(("unanswered", f"{_by_run(found.unanswered)} of the pairs, counted as incorrect"))
    if any(found.simulated):
        lines.append(("simulated", f"{_by_run(found.simulated)} of the pairs, so these figures are meaningless"))
    lines += optional_line("reused", found.reused)
    if found.failed.of:
        lines.append(("failed", f"{found.failed.describe()}; excluded, as an error is not a wrong answer"))
    if found.without_key:
        lines.append(("no key", f"{number(found.without_key, 'question')}, excluded"))
    lines += found.retrieval_lines()
    lines += _subject_lines(found.by_subject)
    lines += optional_line("rotations", found.rotated)
    more = f"; all: --flips {pairs.discordant}" if pairs.discordant > len(found.flips) else ""
    return [*lines, ("flipped", f"{pairs.discordant:,}, shown {len(found.flips):,}{more}")]


def _subject_lines(by_subject: Mapping[str, Pairs]) -> Lines:
    """Return each subject's difference; one of many may well be due to chance."""
    if len(by_subject) > MOST_SUBJECTS:
        return [("by subject", f"{len(by_subject):,} subjects; --json lists them, `report` up to 1,000")]
    values = [
        f"{name or 'none named'}: {pairs.accuracy_a.value:.3f} → {pairs.accuracy_b.value:.3f}, "
        f"{difference(pairs)}, {number(pairs.of, 'pair')}"
        for name, pairs in by_subject.items()
    ]
    return labelled("by subject", [*values, MANY] if values else [])


def _by_run(counts: tuple[int, int]) -> str:
    return "A {:,} · B {:,}".format(*counts)


def _context_lines(found: Comparison) -> Lines:
    """Return the difference's interval and p-value clustered by context, if questions share contexts."""
    within = found.context_interval
    if within is None:
        return optional_line("contexts", single_context(found.contexts))
    clustered = shared_context(within, found.contexts, found.a, "+")
    independent = "McNemar's p and all other intervals assume independent questions"
    return [("contexts", f"{p_value(found.p_value)}  {clustered}; {independent}")]


def _chance(found: Comparison) -> str:
    """Return the chance level, of each run if they differ: guessing right in every rotation is harder."""
    a, b = map(chance, found.chances)
    return a if a == b else f"A {a} · B {b}"


def _accuracy(run: Run, accuracy: Share) -> str:
    return f"{interval(accuracy)}  {run.run_id}"


def _no_differences(found: Comparison) -> str:
    if found.left_out.of:
        return "nothing but the questions: those of both runs were asked in the same way"
    return "nothing: both runs asked the same thing"


def _difference_lines(found: Comparison) -> Iterator[str]:
    for name, (a, b) in found.differences.items():
        one, other = (json.dumps(each, ensure_ascii=False) for each in (a, b))  # as configurations and engines have it
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
        start = max(alike - LEAD, 0) if max(len(one), len(other)) > MOST_SHOWN else 0
        yield f"{name}: {_shown(one, start)} → {_shown(other, start)}"


def _shown(text: str, start: int) -> str:
    end = start + MOST_SHOWN
    return f"{'…' if start else ''}{text[start:end]}{'…' if text[end:] else ''}"


def _detectable(found: Comparison) -> str:
    smallest = found.pairs.detectable()
    if smallest is None:
        return "no difference: too few discordant pairs"
    power = f"about {100 * POWER:.0f} % power at level {ALPHA}"
    contexts = "; larger, as questions are not independent" if found.context_interval else ""
    return f"{smallest:.3f} or more ({power}, given these numbers of pairs and discordant pairs{contexts})"


def _row(flip: Flip) -> tuple[str, ...]:
    a, b = f"{flip.choice_a or '-'} {flip.outcome_a}", f"{flip.choice_b or '-'} {flip.outcome_b}"
    return flip.id, flip.subject or "", flip.answer or "", a, b, _effect_of_retrieval(flip)


def _effect_of_retrieval(flip: Flip) -> str:
    if flip.retrieval is None:
        return ""
    shown = {True: " · relevant passage shown", False: " · relevant passage not shown", None: ""}[flip.retrieval_hit]
    return f"{flip.retrieval}{shown}"
