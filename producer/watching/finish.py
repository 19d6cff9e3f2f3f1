"""Watches a run to its end, exports it and prints the results."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from contract.ledger import Counts, Run
from contract.verdict import Outcome
from contract.wording import number
from producer.bar import reading
from producer.engine_differences import engine_lines
from producer.export.results import export
from producer.export.summary import Summary
from producer.options import CANCELLED, FOLDER, INTERRUPTED, SOME_FAILED, note, progress_console
from producer.output import (
    COMPARED,
    Lines,
    chance,
    echo_json,
    echo_lines,
    interval,
    judge_lines,
    result_lines,
    shared_context,
)
from producer.retrieval_summary import retrieval_lines
from producer.runs.source_coverage import taken_lines
from producer.session import Session
from producer.stats import Share, SubjectMean, Tally
from producer.stats.denominators import HEARD
from producer.watching.failures import failed_lines
from producer.watching.progress import duration, screen_for
from producer.watching.status import workers_of
from producer.watching.watch import watch

__all__ = ["export_and_print", "finish", "print_results", "wait_for"]


def wait_for(session: Session, run: Run, export_to: Path | None = None) -> Counts:
    """Show the run's progress on stderr until it is settled or cancelled.

    Ctrl-C exits with 130 and does not affect the run. `export_to` is the folder to which the results would have been
    exported.
    """
    try:
        return watch(session.ledger, session.broker, run.run_id, screen_for(progress_console()))
    except KeyboardInterrupt:
        note(f"the run continues; rejoin with: python -m producer watch {run.run_id}{_export_options(export_to)}")
        raise click.exceptions.Exit(INTERRUPTED) from None


def finish(session: Session, run: Run, out: Path, *, as_json: bool) -> None:
    """Watch the run, export it to `out`/<run> and print the results."""
    counts = wait_for(session, run, out)
    export_and_print(session, run, out, ("csv",), as_json=as_json)
    _exit_if_cancelled(counts)


def _export_options(out: Path | None) -> str:
    """Return the options with which `watch` exports to `out`."""
    if out is None:
        return ""
    return " --export" if out == FOLDER else f" --export --out {shlex.quote(str(out))}"


def export_and_print(session: Session, run: Run, out: Path, formats: Sequence[str], *, as_json: bool) -> None:
    """Export the run's current results and print them; exit with 3 if it is finished with failed questions."""
    done = export(session.ledger, run.run_id, out / run.run_id, formats, workers_of(run, session.broker))
    for remark in done.remarks:
        note(remark)
    if as_json:
        echo_json({**done.summary, "files": [str(path) for path in done.files]})
    else:
        echo_lines(_lines(session, done.counted, done.files))
    _exit_if_failed(done.counted.tally)


def print_results(session: Session, run: Run, out: Path, counts: Counts, *, as_json: bool) -> None:
    """Print the run's results and its exported files, if any.

    Exits with 4 if the run was cancelled, with 3 if it is finished with failed questions.
    """
    with reading(session.ledger, run, "results") as results:
        summary = Summary.of(run, counts.state, results)
    found = summary.tally
    files = _exported(out / run.run_id, found)
    if as_json:
        content = {"run_id": run.run_id, "state": summary.standing, **found.to_json(), "chance": run.chance}
        echo_json(
            {
                **content,
                **summary.normalized_json(),
                **summary.rotations_json(),
                **summary.retrieval_json(),
                "files": [str(path) for path in files],
            }
        )
    else:
        echo_lines(_lines(session, summary, files))
        if not files:
            note(f"export the results with: python -m producer export {run.run_id}")
    _exit_if_cancelled(counts)
    _exit_if_failed(found)


def _exported(folder: Path, tally: Tally) -> list[Path]:
    """Return the files of an export in `folder`, if it is up to date with the ledger.

    An export made in mid-run, or before failed questions were asked again, has other verdicts.
    """
    try:
        there = json.loads((folder / "summary.json").read_bytes())
    except (OSError, ValueError):
        return []
    now = json.loads(json.dumps(tally.to_json()))  # as it would be read from the file
    if not isinstance(there, dict) or any(there.get(name) != now[name] for name in ("settled", "outcomes")):
        return []
    named = [folder / str(name) for name in there.get("files", ())]
    return [path for path in named if path.exists()]


def _lines(session: Session, summary: Summary, files: Sequence[Path]) -> Lines:
    """Return the output lines for the run's results."""
    run, tally = summary.run, summary.tally
    why = failed_lines(run.run_id, summary.failures)
    judge = judge_lines(run.spec.judge, summary.judge_agrees, summary.judged_and_read)
    more = [*judge, *retrieval_lines(summary.retrieval), *why, *_speed_lines(summary)]
    more += engine_lines(session.ledger, run)
    beside = [*_normalized_lines(summary), *taken_lines(run), *_context_lines(summary)]
    beside += [*_subject_lines(summary), *_rotation_lines(summary)]
    return result_lines(run, tally, summary.standing, files, beside=beside, more=more)


def _speed_lines(summary: Summary) -> Lines:
    """Return the speed of the run; for a sample, it predicts how long the whole file will take."""
    wall_s = summary.wall_s
    if wall_s is None or wall_s <= 0:
        return []
    settled = summary.tally.settled
    took = f"{number(settled, 'question')} in {duration(wall_s)}, from the first call to the last verdict"
    return [("speed", f"{settled / wall_s:,.1f} questions/s: {took}")]


def _normalized_lines(summary: Summary) -> Lines:
    """Return the accuracy under the other normalizations (`likelihood`), which need no second run."""
    found = summary.otherwise_normalized().items()
    values = [f"{interval(accuracy)} if choices are compared {COMPARED[how]}" for how, accuracy in found]
    return [("" if at else "otherwise", line) for at, line in enumerate(values)]


def _context_lines(summary: Summary) -> Lines:
    """Return the accuracy's interval clustered by context, if questions share contexts."""
    lines: Lines = []
    if found := summary.context_interval():
        lines.append(("contexts", shared_context(found, summary.contexts(), summary.run)))
    if summary.tally.without_failed() and (found := summary.context_interval(HEARD)):
        lines.append(("", f"{shared_context(found, summary.contexts(HEARD), summary.run)}, excluding failed questions"))
    return lines


def _subject_lines(summary: Summary) -> Lines:
    """Return the mean over subjects with the worst and the best one, if there are several subjects."""
    found, failed = summary.accuracies(), summary.failed_subjects
    if not found or len(found) + failed < 2:
        return []
    ranked = sorted(found, key=lambda name: found[name].value)
    ends = [_subject(name, found[name]) for name in (ranked[0], ranked[-1])]
    left_out = f"{number(failed, 'subject')} left out, as all questions failed: an error is not a wrong answer"
    return [
        *_mean_lines("subjects", summary.over_subjects(), summary.run),
        ("", f"from {' to '.join(ends)}"),
        *_mean_lines("", summary.over_subjects_without_failed(), summary.run, " excluding failed questions"),
        *([("", left_out)] if failed else []),
    ]


def _mean_lines(label: str, found: SubjectMean | None, run: Run, which: str = "") -> Lines:
    """Return the mean over subjects, with its chance level if that differs from the run's."""
    if found is None:
        return []
    guess = f"{found.chance:.3f}" if found.chance is not None and run.chance is not None else chance(run)
    beside = f", chance {guess}" if guess != chance(run) else ""
    reach = f"{found.interval.low:.3f} to {found.interval.high:.3f}"
    return [(label, f"{found.value:.3f}  95 % interval {reach} (mean of {found.subjects:,}){which}{beside}")]


def _subject(name: str, accuracy: Share) -> str:
    counted = f"{accuracy.low:.3f} to {accuracy.high:.3f}, {accuracy.of:,}"
    return f"{accuracy.value:.3f} in {name or 'none named'} ({counted})"


def _rotation_lines(summary: Summary) -> Lines:
    """Return the accuracy over single rotations (`circular`), with its own chance level."""
    found, guess = summary.rotations.mean(), summary.rotation_chance
    beside = "" if guess is None else f", chance {guess:.3f}"
    return [("rotations", f"{interval(found)} over single rotations{beside}")] if found else []


def _exit_if_cancelled(counts: Counts) -> None:
    if not counts.finished:
        raise click.exceptions.Exit(CANCELLED)


def _exit_if_failed(tally: Tally) -> None:
    if tally.count(Outcome.FAILED) and not tally.unsettled:
        raise click.exceptions.Exit(SOME_FAILED)
