"""Renders a suite's table for a terminal and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from contract.mode import Normalization
from contract.sanitize import for_terminal
from contract.wording import number
from producer.engine_differences import in_words
from producer.output import Lines, echo_table, fits, labelled, optional_line
from producer.result_lines import COMPARED, chance, p_value
from producer.retrieval_summary import retrieval_in_short
from producer.runs.source_coverage import part_asked
from producer.stats import Interval
from producer.suite.cell import Cell, Figure
from producer.suite.pairs import Paired
from producer.suite.table import MeanOver, Table
from producer.watching.summary_lines import summary_warnings

__all__ = ["echo_figures", "figure_lines", "first_and_more", "markdown"]

#: Maximum number of models shown as columns; more of them are shown as rows.
MOST_COLUMNS = 4
#: Shown if an entry is not asked of a model.
NONE = "-"
LONG = ("entry", "model", "accuracy", "95 % interval", "chance", "settled", "unanswered", "failed", "run")
WITHOUT_FAILED = "without failed"
BY_CONTEXTS = "intervals and tests are clustered by context where questions share contexts"
#: Comparisons shown on a terminal; suite.json and suite.md have all.
MOST_PAIRED = 12
#: Notes of one kind shown on a terminal; suite.md has all.
MOST_NOTES = 8


def echo_figures(table: Table) -> None:
    """Print the table: a column per model, or, if these do not fit, a row per entry and model.

    In a pipe the layout depends only on the number of models, so that it does not change from one call to the next.
    """
    wide = list(_wide(table))
    if len(table.models) <= MOST_COLUMNS and fits(wide):
        echo_table(wide[0], wide[1:])
    else:
        echo_table(LONG, _long(table))


def _wide(table: Table) -> Iterator[tuple[str, ...]]:
    yield ("entry", "chance", *table.models)
    for entry in table.entries:
        cells = (table.cell(entry, model) for model in table.models)
        yield (entry, chance(table.of_entry(entry)[0].run.chance), *map(_cell, cells))
    if means := table.means():
        yield (_mean_title(table), chance(table.mean_chance), *(_mean_cell(table, each) for each in means))


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return NONE
    return "\n".join(filter(None, (*_figures(cell.accuracy, cell.without_failed), _beside(cell)))) or NONE


def _figures(over_all: Figure | MeanOver | None, without_failed: Figure | MeanOver | None) -> tuple[str, str]:
    """Return both with their intervals; empty if there is none."""
    without = _figure(without_failed)
    return _figure(over_all), without and f"{without} {WITHOUT_FAILED}"


def _figure(found: Figure | MeanOver | None) -> str:
    if found is None:
        return ""
    return f"{found.value:.3f}" + (f" ({_bounds(found.interval)})" if found.interval else "")


def _bounds(interval: Interval | None) -> str:
    return f"{interval.low:.3f} to {interval.high:.3f}" if interval else NONE


def _beside(cell: Cell) -> str:
    """Return the numbers of unsettled, unanswered and failed questions; empty if all were answered."""
    counts = cell.counts
    settled = "" if counts.finished else f"{counts.settled:,}/{counts.total:,} settled"
    halted = counts.standing if counts.halted else ""
    return " · ".join(filter(None, (settled, halted, _without_choice(cell.unanswered, cell.failed))))


def _without_choice(unanswered: int, failed: int) -> str:
    parts = (f"{count:,} {what}" for count, what in ((unanswered, "unanswered"), (failed, "failed")) if count)
    return " · ".join(parts)


def _mean_title(table: Table) -> str:
    entries = len(table.in_the_mean)
    return f"mean of {entries}" if entries == len(table.entries) else f"mean of {entries} of {len(table.entries)}"


def _mean_cell(table: Table, mean: MeanOver) -> str:
    cells = [each for each in table.cells if each.model == mean.model and each.entry in table.in_the_mean]
    beside = _without_choice(sum(each.unanswered for each in cells), sum(each.failed for each in cells))
    return "\n".join(filter(None, (*_figures(mean, mean.without_failed), beside)))


def _share(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _long(table: Table) -> Iterator[tuple[str, ...]]:
    for each in table.cells:
        found, counts = each.accuracy, each.counts
        yield (
            each.entry,
            each.model,
            _share(found.value if found else None),
            _bounds(found.interval if found else None),
            chance(each.run.chance),
            f"{counts.settled:,}/{counts.total:,}",
            f"{each.unanswered:,}",
            f"{each.failed:,}",
            each.run.run_id,
        )
        if without := each.without_failed:
            bounds = _bounds(without.interval)
            yield (f"  {WITHOUT_FAILED}", each.model, _share(without.value), bounds, "", "", "", "", "")
    for mean in table.means():
        yield _long_mean(_mean_title(table), mean, table)
        if mean.without_failed:
            yield _long_mean(f"  {WITHOUT_FAILED}", mean.without_failed, table)


def _long_mean(title: str, mean: MeanOver, table: Table) -> tuple[str, ...]:
    guess = chance(table.mean_chance)
    return (title, mean.model, _share(mean.value), _bounds(mean.interval), guess, "", "", "", "")


def figure_lines(table: Table, out: str) -> Lines:
    """Return notes on the figures, and commands for further analysis; `out` are their options for where results are."""
    lines = optional_line("simulated", _made_up(table))
    lines += labelled("sampling", _sampling(table))
    lines += _first_of("otherwise", _otherwise(table))
    lines += _first_of("retrieval", _retrieval(table))
    lines += _first_of("warnings", _warnings(table))
    if table.means():
        lines.append(("mean", _mean_remark(table)))
    if table.clustered:
        lines.append(("contexts", BY_CONTEXTS))
    lines += [("taken", text) for text in _taken(table)]
    pairs = [f"{each.title}: {_paired(each)}" for each in table.comparisons]
    lines += labelled("in pairs", pairs[:MOST_PAIRED])
    if len(pairs) > MOST_PAIRED:
        lines.append(("", f"and {len(pairs) - MOST_PAIRED} more, listed by --json"))
    for group in table.comparable()[:1]:
        ids = [each.run.run_id for each in group]
        lines.append(("compare", f"python -m producer compare {ids[0]} {ids[1]}"))
        lines.append(
            ("", "compares question by question; overlapping intervals do not mean that there is no difference")
        )
        lines.append(("report", f"python -m producer report {' '.join(ids)}{out}"))
    return lines


def _first_of(label: str, texts: list[str]) -> Lines:
    more = [f"and {len(texts) - MOST_NOTES} more, which --watch writes to suite.md"] if len(texts) > MOST_NOTES else []
    return labelled(label, [*texts[:MOST_NOTES], *more])


def _taken(table: Table) -> list[str]:
    """Return which part of its source each entry asks, unless it asks all of it."""
    parts = {entry: part_asked(table.of_entry(entry)[0].run) for entry in table.entries}
    return [f"{entry}: {part}" for entry, part in parts.items() if part]


def _warnings(table: Table) -> list[str]:
    """Return, for each run, what can make its accuracy worthless, if anything does."""
    return [
        f"{_place(each, table)}: {what}: {text}"
        for each in table.cells
        for what, text in (summary_warnings(each.summary) if each.summary else ())
    ]


def _otherwise(table: Table) -> list[str]:
    """Return the accuracies of `likelihood` runs under the other normalizations, such as acc_norm.

    The one per byte is left out if it is the same as per character. Intervals, which are not clustered by context, are
    in suite.json only.
    """
    found: list[str] = []
    for each in table.cells:
        by = {how: of for how, of in each.by_normalization.items() if how is not each.run.spec.normalization}
        if Normalization.CHARACTER in by and by.get(Normalization.BYTE) == by[Normalization.CHARACTER]:
            del by[Normalization.BYTE]
        if by:
            figures = (f"{of.value:.3f} {COMPARED[how]}" for how, of in by.items())
            found.append(f"{_place(each, table)}: {' · '.join(figures)}")
    return found


def _retrieval(table: Table) -> list[str]:
    """Return whether the search of each run with retrieval found what its questions need, and whether it helped."""
    return [
        f"{_place(each, table)}: {said}"
        for each in table.cells
        if each.retrieval and (said := retrieval_in_short(each.retrieval))
    ]


def _place(cell: Cell, table: Table) -> str:
    """Return where in the table `cell` is; without the model if there is only one."""
    return f"{cell.entry} · {cell.model}" if len(table.models) > 1 else cell.entry


def _sampling(table: Table) -> list[str]:
    """Return which of a run's sampling values each model did not take, with the entries if not in all of them."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in table.cells:
        if said := in_words(each.left_to_model):
            found.setdefault((each.model, said), []).append(each.entry)
    asked = Counter(each.model for each in table.cells)
    return [
        f"{model}: {said}" if len(entries) == asked[model] else f"{model} ({', '.join(entries)}): {said}"
        for (model, said), entries in found.items()
    ]


def _paired(each: Paired) -> str:
    found, bounds = each.found, each.found.interval
    text = f"{found.pairs.difference:+.3f} ({bounds.low:+.3f} to {bounds.high:+.3f}), {p_value(found.p_value)}"
    if each.adjusted_p != found.p_value:
        text += f", {p_value(each.adjusted_p)} adjusted (Holm)"
    if found.undecided:
        text += ", undecided"
    a, b = map(chance, found.chances)
    if a != b:  # guessing right in every rotation is harder
        text += f"; chance {b} vs. {a}"
    if found.engines:
        text += f"; engines differ in {', '.join(found.engines.properties)}"
    return text + (f"; {number(found.failed.of, 'failed question')} excluded" if found.failed.of else "")


def _made_up(table: Table) -> str:
    found = [each.run.run_id for each in table.cells if each.simulated]
    return f"the simulated engine answered {first_and_more(found)}, whose figures are meaningless" if found else ""


def first_and_more(runs: Sequence[str]) -> str:
    """Return the first of these runs, and how many more there are.

    >>> first_and_more(["a", "b", "c"])
    'a and 2 other runs'
    """
    return runs[0] + (f" and {number(len(runs) - 1, 'other run')}" if len(runs) > 1 else "")


def _mean_remark(table: Table) -> str:
    over = "entries are weighted equally"
    if len(table.in_the_mean) < len(table.entries):
        over += "; only entries that are settled, and have an accuracy, for every model"
    if table.shared:
        return f"{over}; no interval, as entries have questions or contexts in common"
    return f"{over}; the interval is for these entries and does not generalise to others"


def markdown(table: Table) -> str:
    """Return the table for a paper or a README: a row per entry, a column per model."""
    rows = [tuple(each.replace("\n", "<br>") for each in map(_escaped, row)) for row in _wide(table)]
    rule = ("---", *("---:" for _ in rows[0][1:]))
    lines = [f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:])]
    remark = (
        "Accuracy with its 95 % interval; unanswered and failed questions count as incorrect, and are listed below it."
    )
    mean = f" Mean: {_mean_remark(table)}." if table.means() else ""
    made_up = f" **{_escaped(found)}.**" if (found := _made_up(table)) else ""
    contexts = f" {BY_CONTEXTS.capitalize()}." if table.clustered else ""
    told = [
        *(f"Taken from {text}." for text in _taken(table)),
        *(f"Sampling: {text}." for text in _sampling(table)),
        *(f"Compared otherwise, {text}." for text in _otherwise(table)),
        *(f"Retrieval, {text}." for text in _retrieval(table)),
        *(f"Warning for {text}." for text in _warnings(table)),
    ]
    notes = ["", *(f"- {_escaped(text)}" for text in told)] if told else []
    pairs = [f"| {_escaped(each.title)} | {_paired(each)} |" for each in table.comparisons]
    below = ["", "| in pairs | difference (95 % interval), p |", "|---|---|", *pairs] if pairs else []
    return "\n".join([*lines, "", f"{remark}{mean}{contexts}{made_up}", *notes, *below, ""])


def _escaped(text: str) -> str:
    return for_terminal(text).replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
