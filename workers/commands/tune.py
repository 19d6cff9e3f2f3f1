"""`tune`: trials of batch and engine sizes."""

from __future__ import annotations

from pathlib import Path

import click

from contract.commands import note, tell
from contract.errors import SettingsError
from workers.commands.options import load_served_run, settings_options
from workers.commands.place import take_first_place
from workers.recheck.serving import refuse_lacking_adapter
from workers.tuning.output import (
    draw_trials,
    record_and_chart,
    refuse_unwritable,
    table,
    write_deploy_file,
    write_record,
)
from workers.tuning.sample import Effort, tune_by

__all__ = ["tune_for_run"]


@click.command("tune")
@settings_options
@click.argument("name", metavar="RUN")
@click.option(
    "--time-limit",
    type=click.FloatRange(min=1),
    default=240,
    show_default=True,
    help="Time limit in seconds. At least one trial is made, and a trial that has begun is finished.",
)
@click.option(
    "--sample",
    type=click.IntRange(min=2),
    show_default="two batches of the deploy file, at least 64, on a GPU 512",
    help="Questions per trial, repeated if too fast to time. Larger batch sizes are skipped.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed of the sample.")
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("tuned.yaml"),
    show_default=True,
    help="Deploy file to write.",
)
def tune_for_run(
    config: Path | None,
    overrides: tuple[str, ...],
    name: str,
    time_limit: float,
    sample: int | None,
    seed: int,
    out: Path,
) -> None:
    """Try batch and engine settings on a sample of RUN's questions; write the best into a deploy file.

    RUN is any run in the ledger, settled or not: it determines the questions, the prompts and the model. The trials are
    listed in a comment above the settings, and next to the file as JSON and as a chart. Ctrl-C stops early and writes
    the best of the trials so far.
    """
    settings, ledger, run = load_served_run(name, config, overrides)
    if settings.engine != "vllm":
        raise SettingsError(
            f"engine: {settings.engine}; tune tries vLLM's own settings.", hint="Name a deploy file with engine: vllm."
        )
    if not settings.enable_batching:
        raise SettingsError(
            "enable_batching: false; tune tries sizes of batches, which have no effect then.",
            hint="Name a deploy file without it, or add --set enable_batching=true.",
        )
    refuse_lacking_adapter(settings, run)
    refuse_unwritable(out)
    take_first_place(settings)
    found = tune_by(settings, run, ledger, Effort(time_limit, sample, seed), note)
    write_deploy_file(out, config, overrides, run, found)
    record, chart = record_and_chart(out)
    write_record(record, settings, run, found)
    if not draw_trials(chart, found):
        note("no chart: matplotlib is not installed")
    tell("\n".join(table(found)))
    sizes = found.chosen()
    sizes |= {f"vllm_args.{name}": value for name, value in sizes.pop("vllm_args").items()}
    tell(f"{out}: " + ", ".join(f"{name} {value}" for name, value in sizes.items()))
