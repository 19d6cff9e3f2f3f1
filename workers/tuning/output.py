"""Output of the trials: warnings, a table, the deploy file with that table in its header, a record and a chart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from contract.errors import SettingsError
from contract.ledger import Run
from contract.settings import Settings, as_file
from contract.wording import number
from workers.environment import environment
from workers.tuning.search import Tuned
from workers.tuning.trials import FIGURES, Trial

__all__ = [
    "draw_trials",
    "record_and_chart",
    "refuse_unwritable",
    "table",
    "trial_line",
    "warnings_of",
    "write_deploy_file",
    "write_record",
]

#: Column → its heading in the table, if shorter, so that a table of all columns fits a terminal of 80.
HEADINGS = {
    "batch_size": "batch",
    "batches_in_flight": "in_flight",
    "max_num_batched_tokens": "batched_tokens",
    "questions_per_s": "questions/s",
    "tokens_per_s": "tokens/s",
}


def warnings_of(found: Tuned) -> Iterator[str]:
    """Yield the caveats that a user should know before relying on the result."""
    needs = found.needs
    if sum(bool(each.questions_per_s) for each in found.trials) == 1:
        yield "only one setting was measured, so there is no comparison; a longer --time-limit tries others"
    best = found.best.shape.batch_size
    if found.asked < best:
        yield (
            f"a trial had {number(found.asked, 'question')}, too few to fill a batch of {best}; "
            "use a larger --sample or run for a more reliable result"
        )
    elif found.asked < 2 * best:
        yield (
            f"the best batch size, {best}, is the largest that {number(found.asked, 'question')} can fill; "
            "trying larger ones needs a larger --sample or run"
        )
    if needs.beyond:
        yield (
            f"max_model_len {needs.context} is too small for {needs.beyond:,} of "
            f"{number(needs.questions, 'question')}: they would fail, or be shown fewer passages if they have any; "
            f"all fit into {needs.longest}"
        )
    elif needs.context > needs.given:
        yield f"max_model_len {needs.context} fits this run; longer prompts, e.g. with examples or passages, fail"


def write_deploy_file(path: Path, base: Path | None, overrides: Sequence[str], run: Run, found: Tuned) -> None:
    """Write the best settings, merged over the deploy file `base` and `--set`, with the table. Raises SettingsError."""
    settings = as_file(base, overrides, run.spec.model, found.chosen())
    best, needs = found.best, found.needs
    lines = [
        f"python -m workers tune {run.run_id}, {datetime.now(UTC).date()}: {best.questions_per_s:.2f} questions/s",
        f"{number(needs.questions, 'question')}: 95th percentile {needs.p95} tokens, longest {needs.longest}",
        *(f"Warning: {each}." for each in warnings_of(found)),
        "batch_timeout is calculated: half the duration of a batch, as the next one fills meanwhile; at most 1 s.",
        "",
        *table(found),
    ]
    text = "".join(f"# {line}".rstrip() + "\n" for line in lines) + yaml.safe_dump(settings, sort_keys=False)
    _write(path, text)


def write_record(path: Path, settings: Settings, run: Run, found: Tuned) -> None:
    """Write the trials, with what they were measured with and on. Raises SettingsError."""
    content = {
        "run": run.run_id,
        **environment(),
        "model": settings.hf_model_id,
        "vllm_args": settings.vllm_args,
        "lengths": asdict(found.needs),
        "chosen": found.chosen(),
        "trials": [each.row() for each in found.trials],
    }
    _write(path, json.dumps(content, indent=2) + "\n")


def draw_trials(path: Path, found: Tuned) -> bool:
    """Draw the questions per second of every trial as a PNG. Return False without matplotlib, which is optional."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    names = [_setting(each) for each in found.trials]
    figure = Figure(figsize=(10, 1 + 0.35 * len(names)), layout="constrained")
    axes = figure.add_subplot(title="Questions per second by setting", xlabel="questions/s")
    colors = ["tab:orange" if each is found.best else "tab:blue" for each in found.trials]
    drawn = axes.barh(range(len(names)), [each.questions_per_s for each in found.trials], color=colors)
    axes.bar_label(drawn, fmt="%.3g")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.margins(x=0.15)  # room for the labels
    with _replacing(path) as draft:
        figure.savefig(draft, dpi=120, format="png")
    return True


def record_and_chart(deploy_file: Path) -> tuple[Path, Path]:
    """Return where the trials are written beside the deploy file, as JSON and as a chart."""
    return deploy_file.with_suffix(".json"), deploy_file.with_suffix(".png")


def refuse_unwritable(deploy_file: Path) -> None:
    """Raise SettingsError now if it, the record or the chart could not be written after minutes of trials."""
    if not deploy_file.name:  # of an unset variable
        raise SettingsError("--out is empty.", hint="Name a .yaml file.")
    beside = record_and_chart(deploy_file)
    if deploy_file in beside:
        hint = f"Name a .yaml file; {beside[0].name} and {beside[1].name} are written beside it."
        raise SettingsError(f"{deploy_file}: the trials would overwrite it.", hint=hint)
    for path in (deploy_file, *beside):
        with _writing(path), _draft(path):
            if path.exists():
                path.open("a").close()


def _write(path: Path, text: str) -> None:
    with _replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield a file that replaces `path` if the block succeeds, and is deleted if not. Raises SettingsError."""
    with _writing(path), _draft(path) as draft:
        yield draft
        draft.replace(path.resolve())


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """Yield an empty file beside that of `path`, also through a link; it is deleted at the end if it is still there."""
    place = path.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f".{place.name}.unfinished")
    try:
        draft.write_bytes(b"")  # also over that of a killed process
        yield draft
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn file system errors in the block into SettingsError."""
    try:
        yield
    except OSError as trouble:
        raise SettingsError(f"{path}: cannot be written: {trouble.strerror}.", hint="Choose another --out.") from None


def trial_line(trial: Trial) -> str:
    """Return one line about a trial, shown while the next one runs."""
    if trial.failure:
        return f"{_setting(trial)}: {trial.failure}"
    verb = "does" if trial.failed == 1 else "do"
    failed = f"; {number(trial.failed, 'question')} failed and {verb} not count" if trial.failed else ""
    return f"{_setting(trial)}: {trial.questions_per_s:.2f} questions/s, a batch takes {trial.batch_s:.2f} s{failed}"


def table(found: Tuned) -> list[str]:
    """Return the header and one line per trial, in the order in which they ran; a column that is empty is left out."""
    rows = [each.row() for each in found.trials]
    filled = dict.fromkeys(name for row in rows for name, value in row.items() if value != "")
    names = sorted(filled, key=FIGURES.__contains__)  # settings first
    cells = [
        [HEADINGS.get(name, name) for name in names],
        *([_cell(row.get(name, "")) for name in names] for row in rows),
    ]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]


def _setting(trial: Trial) -> str:
    shape = f"batch_size {trial.shape.batch_size}, {trial.shape.batches_in_flight} in flight"
    return shape + "".join(f", {name} {value}" for name, value in trial.engine.items())


def _cell(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
