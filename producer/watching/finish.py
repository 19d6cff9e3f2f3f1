"""Staying with a run to its end and saying how it came out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from contract.ledger import Counts, Run
from contract.verdict import Outcome
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
    number,
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

__all__ = ["export_and_tell", "finish", "stay", "tell"]


def stay(session: Session, run: Run, export_to: Path | None = None) -> Counts:
    """Watch the run on stderr until it is settled or cancelled; Ctrl-C ends the watching with 130, and nothing else.

    `export_to` is the folder that the run's results were to go to then.
    """
    try:
        return watch(session.ledger, session.broker, run.run_id, screen_for(progress_console()))
    except KeyboardInterrupt:
        note(f"the run goes on; rejoin with: python -m producer watch {run.run_id}{_export_options(export_to)}")
        raise click.exceptions.Exit(INTERRUPTED) from None


def finish(session: Session, run: Run, out: Path, *, as_json: bool) -> None:
    """Watch the run, export it to `out`/<run> and print how it came out."""
    counts = stay(session, run, out)
    export_and_tell(session, run, out, ("csv",), as_json=as_json)
    _exit_if_cancelled(counts)


def _export_options(out: Path | None) -> str:
    """The options with which `watch` exports to `out`."""
    if out is None:
        return ""
    return " --export" if out == FOLDER else f" --export --out {shlex.quote(str(out))}"


def export_and_tell(session: Session, run: Run, out: Path, formats: Sequence[str], *, as_json: bool) -> None:
    """Export the run as it stands and print how it came out; exit with 3 if it is finished with failed questions."""
    done = export(session.ledger, run.run_id, out / run.run_id, formats, workers_of(run, session.broker))
    for remark in done.remarks:
        note(remark)
    if as_json:
        echo_json({**done.summary, "files": [str(path) for path in done.files]})
    else:
        echo_lines(_lines(session, done.counted, done.files))
    _exit_if_failed(done.counted.tally)


def tell(session: Session, run: Run, out: Path, counts: Counts, *, as_json: bool) -> None:
    """Print how the run came out, with its exported files if there are any; the same exit codes, and that of `stay`."""
    summary = Summary.of(run, counts.state, session.ledger.results(run.run_id))
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
            note(f"write its results with: python -m producer export {run.run_id}")
    _exit_if_cancelled(counts)
    _exit_if_failed(found)


def _exported(folder: Path, tally: Tally) -> list[Path]:
    """The files of an export to `folder` that has what the ledger has; one that was made earlier, in mid-run or before
    failed questions were asked again, has other verdicts."""
    try:
        there = json.loads((folder / "summary.json").read_bytes())
    except (OSError, ValueError):
        return []
    now = json.loads(json.dumps(tally.to_json()))  # as it would be read back
    if not isinstance(there, dict) or any(there.get(name) != now[name] for name in ("settled", "outcomes")):
        return []
    named = [folder / str(name) for name in there.get("files", ())]
    return [path for path in named if path.exists()]


def _lines(session: Session, summary: Summary, files: Sequence[Path]) -> Lines:
    """How the run came out."""
    run, tally = summary.run, summary.tally
    why = failed_lines(run.run_id, summary.failures)
    judge = judge_lines(run.spec.judge, summary.judge_agrees, summary.judged_and_read)
    more = [*judge, *retrieval_lines(summary.retrieval), *why, *_speed_lines(summary)]
    more += engine_lines(session.ledger, run)
    beside = [*_normalized_lines(summary), *taken_lines(run), *_context_lines(summary)]
    beside += [*_subject_lines(summary), *_rotation_lines(summary)]
    return result_lines(run, tally, summary.standing, files, beside=beside, more=more)


def _speed_lines(summary: Summary) -> Lines:
    """How fast it went: of a sample, what tells how long the whole file will take."""
    wall_s = summary.wall_s
    if wall_s is None or wall_s <= 0:
        return []
    settled = summary.tally.settled
    took = f"{number(settled, 'question')} in {duration(wall_s)}, from the first call to the last verdict"
    return [("speed", f"{settled / wall_s:,.1f} questions/s: {took}")]


def _normalized_lines(summary: Summary) -> Lines:
    """With `likelihood`: the accuracy if choices were compared otherwise, which needs no second run."""
    found = summary.otherwise_normalized().items()
    told = [f"{interval(accuracy)} had choices been compared {COMPARED[how]}" for how, accuracy in found]
    return [("" if at else "otherwise", line) for at, line in enumerate(told)]


def _context_lines(summary: Summary) -> Lines:
    """Where questions share contexts: the accuracy's interval with that taken into account."""
    lines: Lines = []
    if found := summary.context_interval():
        lines.append(("contexts", shared_context(found, summary.contexts(), summary.run)))
    if summary.tally.without_failed() and (found := summary.context_interval(HEARD)):
        lines.append(("", f"{shared_context(found, summary.contexts(HEARD), summary.run)}, without failed ones"))
    return lines


def _subject_lines(summary: Summary) -> Lines:
    """Where there are several subjects: their mean, and the worst and the best one."""
    found = summary.accuracies()
    if len(found) < 2:
        return []
    ranked = sorted(found, key=lambda name: found[name].value)
    ends = [_subject(name, found[name]) for name in (ranked[0], ranked[-1])]
    return [
        *_mean_lines("subjects", summary.over_subjects(), summary.run),
        ("", f"from {' to '.join(ends)}"),
        *_mean_lines("", summary.over_subjects_without_failed(), summary.run, " without failed ones"),
    ]


def _mean_lines(label: str, found: SubjectMean | None, run: Run, which: str = "") -> Lines:
    """The mean over subjects, with what guessing scores in it where that is not what it scores in the run."""
    if found is None:
        return []
    guess = f"{found.chance:.3f}" if found.chance is not None and run.chance is not None else chance(run)
    beside = f", where guessing scores {guess}" if guess != chance(run) else ""
    reach = f"{found.interval.low:.3f} to {found.interval.high:.3f}"
    return [(label, f"{found.value:.3f}  95 % interval {reach} (mean of {found.subjects:,}){which}{beside}")]


def _subject(name: str, accuracy: Share) -> str:
    counted = f"{accuracy.low:.3f} to {accuracy.high:.3f}, {accuracy.of:,}"
    return f"{accuracy.value:.3f} of {name or 'none named'} ({counted})"


def _rotation_lines(summary: Summary) -> Lines:
    """With `circular`: the accuracy over single rotations, where one guess may be right."""
    found, guess = summary.rotations.mean(), summary.rotation_chance
    beside = "" if guess is None else f", where one guess scores {guess:.3f}"
    return [("rotations", f"{interval(found)} of single rotations{beside}")] if found else []


def _exit_if_cancelled(counts: Counts) -> None:
    if not counts.finished:
        raise click.exceptions.Exit(CANCELLED)


def _exit_if_failed(tally: Tally) -> None:
    if tally.count(Outcome.FAILED) and not tally.unsettled:
        raise click.exceptions.Exit(SOME_FAILED)
