"""Builds the report page: reads each run in one pass, then renders the template."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from contract.commands import note
from contract.fleet import WorkerRecord
from contract.keys import score_queue
from contract.ledger import Ledger, Run
from contract.verdict import Outcome
from contract.wording import percent
from producer.bar import reading
from producer.compare.comparison import MANY, UNDECIDED
from producer.engine_differences import engine_lines
from producer.export.cells import iso
from producer.export.summary import Summary
from producer.export.summary_json import summary_json
from producer.report.comparison import RunComparison
from producer.report.measures import Measures
from producer.report.run_view import MOST_SUBJECTS, RunView
from producer.report.table import PER_PARCEL, Table
from producer.result_lines import difference, p_value, sharing, single_context
from producer.retrieval_summary import retrieval_extent
from producer.runs.asked import how_asked
from producer.stats.denominators import RESPONDED
from producer.stats.paired import ALPHA, POWER

__all__ = ["build"]


def build(
    ledger: Ledger,
    runs: Sequence[Run],
    live: Sequence[WorkerRecord] = (),
    *,
    questions: bool = True,
    shared: bool = False,
) -> Iterator[str]:
    """Return the page, piece by piece, with or without the table of all questions.

    If `shared`, runs that asked different questions are compared by those that they have in common.

    Each run is read once, all of them before the first piece is produced. The engines of those `live` workers that
    serve a run's model are described in its section.
    """
    table = Table() if questions else None
    compared = RunComparison(ledger, runs, shared=shared)
    views = [_view(ledger, run, table, compared, live) for run in runs]
    if table:
        table.close()
    comparisons = compared.comparisons()
    for each in comparisons:
        if each.refusal:
            note(f"{each.b.run_id} is not compared with {each.a.run_id}: {each.refusal}")
    script = _asset("table.js")
    environment = Environment(
        loader=PackageLoader("producer.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = _code
    return environment.get_template("report.html.j2").generate(
        views=views,
        comparisons=comparisons,
        table=table,
        per_parcel=PER_PARCEL,
        run_ids=[run.run_id for run in runs],
        style=_asset("style.css"),
        script=script,
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        outcomes=list(Outcome),
        alpha=ALPHA,
        power=POWER,
        many=MANY,
        most_subjects=MOST_SUBJECTS,
        undecided=UNDECIDED,
        responded_outcomes=RESPONDED,
        iso=iso,
        percent=percent,
        difference=difference,
        how_asked=how_asked,
        p_value=p_value,
        retrieval_extent=retrieval_extent,
        sharing=sharing,
        single_context=single_context,
        now=time.time(),
    )


def _code(text: str) -> Markup:
    """Return a line of the terminal as HTML, with `names` set as code, escaped like any other text."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _view(
    ledger: Ledger, run: Run, table: Table | None, compared: RunComparison, live: Sequence[WorkerRecord]
) -> RunView:
    if table:
        table.begin(run)
    summary, measures = Summary(run, ledger.counts(run.run_id).state), Measures(run)
    with reading(ledger, run, "report") as results:
        for question, verdict in compared.pairing(run, summary.counting(results)):
            measures.add(question, verdict)
            if table:
                table.add(question, verdict)
    here = [each for each in live if each.queue == score_queue(run.spec.model)]
    used = ledger.engines(run.run_id)
    return RunView(run, summary, measures, summary_json(summary, here, used), engine_lines(run, used))


def _asset(name: str) -> str:
    return resources.files("producer.report").joinpath("templates", name).read_text(encoding="utf-8")
