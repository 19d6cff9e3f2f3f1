"""`python -m workers tune RUN`: the sample it tries, the table it shows, and the deploy file it writes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from contract.errors import SettingsError
from contract.layers import merge, read_yaml
from contract.ledger import Ledger, Run
from contract.settings import Settings
from workers.engines.encoding import PromptEncoder
from workers.engines.packaged import resolve
from workers.engines.vllm import prepare_environment
from workers.tuning import Trial, Tuned, lengths, tune

__all__ = ["Effort", "tune_by", "write_deploy_file"]

#: Questions whose length in tokens is looked at.
MEASURED = 2000


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and on how many questions to try."""

    limit_s: float
    sample: int
    seed: int


def tune_by(settings: Settings, run: Run, ledger: Ledger, effort: Effort, say: Callable[[str], None]) -> Tuned:
    """The best settings for the run's questions. `say` hears of every trial."""
    draw = random.Random(effort.seed)
    questions = [question for question, _ in ledger.results(run.run_id)]
    measured = draw.sample(questions, min(MEASURED, len(questions)))
    model = resolve(settings.hf_model_id)
    prepare_environment(model)
    needs = lengths(run.spec, measured, PromptEncoder.of_model(model))
    say(
        f"{needs.questions:,} questions measured: {needs.median} tokens in the middle, {needs.p95} at the 95th "
        f"percentile, {needs.longest} at most, answer included"
    )
    sample = draw.sample(measured, min(effort.sample, len(measured)))
    found = tune(settings, run.spec, sample, needs, effort.limit_s, lambda trial: say(_line(trial)))
    if needs.beyond_p95:
        say(
            f"warning: {needs.beyond_p95} of {needs.questions} questions do not fit into max_model_len "
            f"{found.max_model_len} and would be failed; all fit into {needs.longest}"
        )
    return found


def write_deploy_file(path: Path, base: Path | None, run: Run, found: Tuned) -> None:
    """What won, laid over the deploy file `base`, with the table that led there. Raises SettingsError."""
    settings = merge(read_yaml(base, SettingsError) if base else {}, found.chosen())
    best = found.best
    lines = [
        f"python -m workers tune {run.run_id}, {datetime.now(UTC).date()}: {best.questions_per_s:.2f} questions/s",
        f"{found.needs.questions} questions: 95th percentile {found.needs.p95} tokens, longest {found.needs.longest}",
        "",
        *_table([each.row() for each in found.trials]),
    ]
    text = "".join(f"# {line}".rstrip() + "\n" for line in lines) + yaml.safe_dump(settings, sort_keys=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as trouble:
        raise SettingsError(f"{path}: cannot be written: {trouble.strerror}.", hint="Choose another --out.") from None


def _line(trial: Trial) -> str:
    shape = f"batch_size {trial.shape.batch_size}, {trial.shape.batches_in_flight} in flight"
    engine = "".join(f", {name} {value}" for name, value in trial.engine.items())
    if trial.failure:
        return f"{shape}{engine}: {trial.failure}"
    return f"{shape}{engine}: {trial.questions_per_s:.2f} questions/s, a batch takes {trial.batch_s:.2f} s"


def _table(rows: Sequence[dict[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names, *([_cell(row.get(name, "")) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]


def _cell(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
