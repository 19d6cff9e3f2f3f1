"""What a planned run asks and how, as lines of output and as JSON."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from contract.errors import IndexUnusable
from contract.index import read_manifest
from contract.ledger import Run
from contract.wording import number
from producer.output import Lines, optional_line
from producer.result_lines import chance
from producer.runs.asked import how_asked
from producer.runs.gold_sources import Named, named_sources
from producer.runs.long_queries import LongQueries, long_queries
from producer.runs.planning import Plan

__all__ = ["plan_json", "plan_lines"]


def plan_lines(planned: Plan, run: Run, rejected: Path | None = None) -> Lines:
    """Return what `run` asks and how; `rejected` is the file with the rows that were skipped."""
    return [
        *_row_lines(planned, run, rejected),
        *(line for each in _retrieval(planned).values() for line in each.lines()),
        ("asked", how_asked(planned.spec)),
        *optional_line("examples", planned.examples_read),
    ]


def _row_lines(planned: Plan, run: Run, rejected: Path | None) -> Lines:
    found = planned.survey
    keys = found.digest.keys
    counted = [f"{run.questions:,}", *keys.remarks()]
    if repeated := planned.taken.repeated:
        counted.append(number(repeated, "duplicate"))
    # Every figure depends on how the key was read, and an index may be 0-based or 1-based.
    answers = f", answers {found.file.way.value}" if keys.keyed else ""
    lines = [
        ("file", f"{run.source}: {found.rows_shown()}"),
        ("read", found.file.describe(keys.choices) + answers),
        ("fields", found.file.fields.describe()),
        ("questions", f"{', '.join(counted)}; chance {chance(run.chance)}"),
    ]
    return lines + ([("skipped", f"{', '.join(found.troubles.by_kind())}; see {rejected}")] if rejected else [])


def plan_json(planned: Plan, run: Run) -> dict[str, Any]:
    """Return the same for `--json`."""
    keys = planned.survey.digest.keys
    return {
        "source": run.source,
        "questions": run.questions,
        "chance": run.chance,
        **planned.survey.rows_json(),
        "without_key": keys.without_key,
        "several_right": keys.several_right,
        "repeated": planned.taken.repeated,
        **{name: each.to_json() for name, each in _retrieval(planned).items()},
    }


def _retrieval(planned: Plan) -> dict[str, Named | LongQueries]:
    """Return what can be known of its searches before they are made, by name; empty for a closed book."""
    spec, survey = planned.spec, planned.survey
    if spec.rag is None:
        return {}
    index = Path(planned.index)
    named = named_sources(survey.questions(), index, by_hash=spec.rag.question_hashes)
    found: dict[str, Named | LongQueries] = {"sources": named}
    with suppress(IndexUnusable):  # replaced since the run was planned, which must not end a command that has sent it
        if long := long_queries(survey.questions(), spec, read_manifest(index).encoder):
            found["long_queries"] = long
    return found
