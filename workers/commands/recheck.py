"""`tokens`, `rescore` and `stability`: looking again at a run."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

import click

from contract.commands import note, tell
from contract.ledger import RedisLedger
from contract.settings import load_settings
from contract.wording import number
from workers.commands.options import load_served_run, settings_options
from workers.commands.place import take_first_place
from workers.engines import JudgeEngines, make_engine
from workers.engines.encoding import PromptEncoder
from workers.engines.model_files import tokenizer_of
from workers.engines.packaged import resolve
from workers.engines.vllm import prepare_environment
from workers.recheck.rescoring import cut_short, rescore
from workers.recheck.serving import refuse_lacking_adapter
from workers.recheck.stability import Flip, answered, engine_differences, stability
from workers.recheck.tokens import as_asked, refuse_foreign_tokens, request_tokens

__all__ = ["check_stability", "rescore_run", "tokens"]

#: Interval at which `stability` tells how far it is; a long text alone takes a minute on a CPU.
TELL_EVERY_S = 10.0


@click.command()
@settings_options
@click.argument("name", metavar="RUN")
@click.argument("question_id")
def tokens(config: Path | None, overrides: tuple[str, ...], name: str, question_id: str) -> None:
    """Print as JSON what the engine receives for a question of RUN: text, token ids, continuations."""
    settings, ledger, run = load_served_run(name, config, overrides)
    refuse_foreign_tokens(settings)
    question, passages = as_asked(ledger, run, question_id)
    model = resolve(settings.hf_model_id)
    prepare_environment(model, settings.vllm_args)
    encoder = PromptEncoder(tokenizer_of(model, settings.vllm_args))
    click.echo(json.dumps(list(request_tokens(run, question, passages, encoder)), indent=2))


@click.command("rescore")
@settings_options
@click.argument("name", metavar="RUN")
def rescore_run(config: Path | None, overrides: tuple[str, ...], name: str) -> None:
    """Re-read the stored texts of RUN with the current rules, as a separate run; no model is asked."""
    ledger = RedisLedger.connect(load_settings(config, overrides))
    done = rescore(ledger, ledger.named(name))
    tell(f"{done.run.run_id}: {number(done.questions, 'question')} re-read, {done.changed:,} changed")
    note(f"compare them: python -m producer compare {done.run.spec.rescored_from} {done.run.run_id}")
    for other in cut_short(ledger, done):
        note(f"{other}, begun by other rules or on other texts, cannot be finished: python -m producer purge {other}")


@click.command("stability")
@settings_options
@click.argument("name", metavar="RUN")
@click.option("--sample", type=click.IntRange(min=1), default=20, show_default=True, help="Questions to ask again.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed of the sample.")
def check_stability(config: Path | None, overrides: tuple[str, ...], name: str, sample: int, seed: int) -> None:
    """Ask a sample of RUN again, one question at a time, and report the answers that change."""
    settings, ledger, run = load_served_run(name, config, overrides)
    refuse_lacking_adapter(settings, run)
    count = min(sample, answered(ledger, run))
    if settings.runs_the_model:
        take_first_place(settings)
    note(f"asking {number(count, 'question')} one at a time, once {run.spec.model} is up")
    asked = changed = 0
    told_at = time.monotonic()
    with closing(make_engine(settings)) as engine, closing(JudgeEngines(settings)) as judges:
        engine.start()
        if differs := engine_differences(ledger, run, engine):
            text = "this engine and those that answered the run are not identical: they differ in"
            note(f"warning: {text} {differs}")
        try:
            for flip in stability(ledger, run, engine, sample, seed, judges.engine_of):
                asked += 1
                if flip:
                    changed += 1
                    tell(_told(flip))
                if time.monotonic() - told_at > TELL_EVERY_S:
                    told_at = time.monotonic()
                    note(f"{asked:,} of {count:,} asked")
        finally:
            if asked:  # also after Ctrl-C, as a text may take a minute
                tell(f"{changed} of {number(asked, 'question')} changed when asked alone")


def _told(flip: Flip) -> str:
    in_batch, alone = flip.in_batch or "no choice", flip.alone or "no choice"
    margin = "" if flip.margin is None else f", margin {flip.margin:.4f}"
    return f"{flip.question_id}: {in_batch} in its batch, {alone} alone{margin}"
