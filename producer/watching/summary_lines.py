"""Output lines with all results of a run, for `watch` and `export`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from contract.engine_info import EngineUsed
from contract.wording import number
from producer.engine_differences import engine_lines
from producer.export.summary import Summary
from producer.output import Lines, labelled, optional_line
from producer.result_lines import (
    COMPARED,
    chance,
    interval,
    judge_lines,
    position_lines,
    result_lines,
    shared_context,
    single_context,
    warning_lines,
)
from producer.retrieval_summary import retrieval_lines
from producer.runs.source_coverage import part_asked
from producer.stats import Share, SubjectMean
from producer.stats.denominators import ALL, ANSWERED, RESPONDED
from producer.watching.failures import failed_lines
from producer.watching.progress import duration

__all__ = ["summary_lines", "summary_warnings"]


def summary_lines(summary: Summary, used: Sequence[EngineUsed], files: Sequence[Path]) -> Lines:
    """Return the results of the run that `summary` counts; `used` by which engines, `files` its export."""
    run = summary.run
    beside = [
        *_normalized_lines(summary),
        *optional_line("taken", part_asked(run)),
        *_context_lines(summary),
        *_subject_lines(summary),
        *_rotation_lines(summary),
    ]
    more = [
        *position_lines(summary.preferred_position, run.spec),
        *judge_lines(run.spec.judge, summary.agreement),
        *retrieval_lines(summary.retrieval),
        *failed_lines(run, summary.failures),
        *_reused_lines(summary),
        *_speed_lines(summary),
        *engine_lines(run, used),
    ]
    constant = _constant(summary)
    remark = constant and f"; {constant}"
    return result_lines(run, summary.tally, summary.standing, files, beside=beside, remark=remark, more=more)


def summary_warnings(summary: Summary) -> Lines:
    """Return what can make an accuracy or its interval worthless, for a table of many runs without room for more."""
    run = summary.run
    return [
        *warning_lines(run.spec, summary.tally),
        *position_lines(summary.preferred_position, run.spec),
        *optional_line("constant", _constant(summary)),
        *optional_line("contexts", single_context(summary.contexts())),
    ]


def _constant(summary: Summary) -> str:
    """Return the remark that an accuracy above chance is not above that of a constant answer, if so."""
    found, tally = summary.unbeaten, summary.tally
    if found is None:
        return ""
    which = "" if tally.accuracy(ANSWERED) == tally.accuracy(ALL) else " over answered questions"
    answer, value = found.constant
    return f"the accuracy{which} is {found.how} always answering {answer!r}, which scores {value:.3f}"


def _reused_lines(summary: Summary) -> Lines:
    """Return how many answers are those of earlier runs, if any."""
    return labelled("reused", [f"{number(n, 'answer')} of {run_id}" for run_id, n in sorted(summary.reused.items())])


def _speed_lines(summary: Summary) -> Lines:
    """Return the speed of the run; for a sample, it predicts how long the whole file will take."""
    wall_s, speed = summary.times.wall_s, summary.questions_per_s
    if wall_s is None or speed is None:
        return []
    took = f"{number(summary.asked, 'question')} in {duration(wall_s)}, from the first call to the last verdict"
    return [("speed", f"{speed:,.1f} questions/s: {took}")]


def _normalized_lines(summary: Summary) -> Lines:
    """Return the accuracy under the other normalizations (`likelihood`), which need no second run."""
    found = summary.otherwise_normalized().items()
    values = [f"{interval(accuracy)} if choices are compared {COMPARED[how]}" for how, accuracy in found]
    return labelled("otherwise", values)


def _context_lines(summary: Summary) -> Lines:
    """Return the accuracy's interval clustered by context, if questions share contexts."""
    lines = optional_line("contexts", single_context(summary.contexts()))
    if found := summary.context_interval():
        lines.append(("contexts", shared_context(found, summary.contexts(), summary.run)))
    if summary.tally.without_failed() and (found := summary.context_interval(RESPONDED)):
        lines.append(
            ("", f"{shared_context(found, summary.contexts(RESPONDED), summary.run)}, excluding failed questions")
        )
    return lines


def _subject_lines(summary: Summary) -> Lines:
    """Return the mean over subjects with the worst and the best one, if there are several subjects."""
    found, failed = summary.accuracies(), summary.failed_subjects
    if not found or len(found) + failed < 2:
        return []
    level = summary.tally.chance(summary.run)
    ranked = sorted(found, key=lambda name: found[name].value)
    ends = [_subject(name, found[name]) for name in dict.fromkeys((ranked[0], ranked[-1]))]
    left_out = f"{number(failed, 'subject')} left out, as all questions failed: an error is not a wrong answer"
    return [
        *_mean_lines("subjects", summary.over_subjects(), level),
        ("", f"from {' to '.join(ends)}" if len(ends) > 1 else ends[0]),
        *_mean_lines("", summary.over_subjects_without_failed(), level, " excluding failed questions"),
        *([("", left_out)] if failed else []),
    ]


def _mean_lines(label: str, found: SubjectMean | None, level: float | None, which: str = "") -> Lines:
    """Return the mean over subjects, with its chance level if that differs from `level`, the one over all."""
    if found is None:
        return []
    guess = chance(level if found.chance is None or level is None else found.chance)
    beside = f", chance {guess}" if guess != chance(level) else ""
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
