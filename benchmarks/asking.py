"""The questions of a benchmark and how they are asked: shared options, and runs that no prefix cache knows."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.command import Parser, existing_file, positive
from benchmarks.stand import USERS_DEPLOY, Stand, verdicts, wait_until_settled
from contract.errors import RunConfigError
from contract.settings import PREFIX, Settings
from contract.spec import Prompt
from producer.broker import RedisBroker
from producer.intake.selection import Selection
from producer.readers import Source
from producer.runs.planning import Plan, plan
from producer.runs.runconfig import load_run_config
from producer.runs.submit import submit
from workers.engines import make_engine
from workers.engines.arguments import for_this_cpu
from workers.engines.base import Engine
from workers.engines.packaged import resolve
from workers.gpus.nvidia import visible_gpus
from workers.host.machine import this_machine
from workers.host.placement import plan_first
from workers.scoring import Item

__all__ = [
    "MODES_ASKED",
    "Asking",
    "add_asking",
    "add_modes",
    "add_questions",
    "asking_of",
    "chosen_model",
    "described",
    "engine_of",
    "pin",
    "require_whole_messages",
    "shared_gpu",
    "source_of",
    "speed_settings",
    "whole_path",
]

#: Mode → overrides of the run's defaults.
MODES_ASKED: Mapping[str, Sequence[str]] = {
    "letter": ["mode=letter"],
    "likelihood": ["mode=likelihood"],
    "generate": ["mode=generate", "prompt=lettered", "sampling.max_tokens=48"],
}
#: Long, because polling takes CPU from an engine that needs all cores.
POLL_S = 1.0
#: Share of a GPU's memory for all engines that are up at the same time; the rest is for what each needs besides.
GPU_SHARE = 0.8


@dataclass(frozen=True)
class Asking:
    """A question file and how its questions are asked."""

    source: Source
    #: In the format of `producer enqueue --set`.
    overrides: Sequence[str]
    #: Number of questions asked, from the start of the file.
    limit: int

    @property
    def shown(self) -> str:
        """Return the overrides for a title, each name with its last value."""
        last = dict(each.partition("=")[::2] for each in self.overrides)
        return ", ".join(f"{name}={value}" for name, value in last.items())

    def recorded(self, settings: Settings) -> dict[str, Any]:
        """Return what a record says of the questions and the settings."""
        return {"questions": self.source.shown, "asked": self.shown, "settings": speed_settings(settings)}

    def planned(self, settings: Settings, mark: str) -> Plan:
        """Return a run whose prompts begin with `mark`, so that no prefix of another mark's run is in the cache."""
        config = load_run_config(None, self.overrides)
        planned = plan(self.source, config, settings, Selection(limit=self.limit))
        prompt = planned.spec.prompt
        marked = Prompt(name=prompt.name, text=f"Set {mark}.\n{prompt.text}")
        return replace(planned, spec=planned.spec.model_copy(update={"prompt": marked}))

    def items(self, settings: Settings, mark: str) -> list[Item]:
        """Return the questions of `planned` for the pipeline."""
        planned = self.planned(settings, mark)
        return [Item(question, planned.spec) for question in planned.survey.questions()]

    def count(self, settings: Settings) -> int:
        """Return how many questions are asked: `limit`, or as many as the file has."""
        return self.planned(settings, "to count").survey.digest.count


def add_questions(parser: Parser) -> None:
    """Add `--config`, `--model`, `--questions` and `--limit`."""
    parser.option("--config", existing_file, USERS_DEPLOY, "deploy file")
    parser.option("--model", str, None, "which one, of a deploy file with several")
    parser.option("--questions", existing_file, Path("demo/questions.jsonl"), "question file")
    parser.option("--limit", positive, 64, "first N questions")


def add_modes(parser: Parser, default: Sequence[str] = tuple(MODES_ASKED)) -> None:
    """Add `--modes`, of MODES_ASKED."""
    parser.option("--modes", str, tuple(default), "modes", choices=list(MODES_ASKED))


def chosen_model(options: Namespace) -> dict[str, str]:
    """Return the setting that `--model` stands for."""
    return {"model": options.model} if options.model else {}


def add_asking(parser: Parser) -> None:
    """Add the options of `add_questions`, and `--set`."""
    add_questions(parser)
    text = "run setting, as for `producer enqueue` (mode=letter)"
    parser.add_argument("--set", dest="overrides", action="append", default=["mode=letter"], metavar="X=Y", help=text)


def source_of(options: Namespace) -> Source:
    """Return the file of `--questions`."""
    return Source(options.questions, str(options.questions))


def asking_of(options: Namespace, settings: Settings) -> Asking:
    """Return the Asking of the options. Raises InputError for what cannot be asked, before anything boots."""
    asking = Asking(source_of(options), tuple(options.overrides), options.limit)
    if asking.planned(settings, "to see whether it can be asked").spec.rag:
        raise RunConfigError(
            "rag.enabled: benchmarks start no worker that searches, so no prompt would have a passage.",
            hint="Give the questions their passages as `context`, and set rag.use_context_field=true.",
        )
    return asking


def speed_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings of a deployment that determine its speed on this machine."""
    batching = {"batch_size", "batch_timeout", "batches_in_flight", "max_batches_in_flight", "question_batch_size"}
    if settings.engine == "simulated":
        changed = settings.simulated.model_dump(exclude_defaults=True)
        return settings.model_dump(include={"engine", *batching}) | {"simulated": changed}
    found = settings.model_dump(include={"engine", "hf_model_id", "vllm_args", *batching})
    if settings.engine == "vllm":
        found["vllm_args"] = for_this_cpu(settings.vllm_args, resolve(settings.hf_model_id))
    return found


def require_whole_messages(parser: Parser, settings: Settings) -> None:
    """Exit if `--batch-size`, which is in `settings`, is not a number of whole messages: batches would not be full."""
    if settings.batch_size % settings.question_batch_size:
        parser.error(f"--batch-size: must be a multiple of question_batch_size, {settings.question_batch_size}")


def shared_gpu(engines: int) -> dict[str, float]:
    """Return the `vllm_args` of `engines` that are up at the same time: they share a GPU; on a CPU there are none."""
    return {"gpu_memory_utilization": GPU_SHARE / engines} if visible_gpus() else {}


def pin(at: Stand) -> None:
    """Pin this process and the workers that it starts to where the first worker of a host would run."""
    at.environment.update(_pin(at.settings))


def _pin(settings: Settings) -> dict[str, str]:
    planned = plan_first(settings, this_machine())
    place = {name: value for name, value in planned.environment.items() if not name.startswith(PREFIX)}
    os.environ.update(place)
    return place


@contextmanager
def engine_of(settings: Settings) -> Iterator[Engine]:
    """Yield the engine that a worker would have, in this process."""
    _pin(settings)
    engine = make_engine(settings)
    engine.start()
    try:
        yield engine
    finally:
        engine.close()


def described(engine: Engine, settings: Settings) -> dict[str, Any]:
    """Return the engine's description, with the model's name instead of its local path."""
    return engine.describe() | {"model": settings.hf_model_id}


def whole_path(at: Stand, asking: Asking, served: Settings, mark: str, *, may_fail: bool = False) -> float:
    """Ask a run that was never asked before; return the seconds from enqueuing to the last verdict, by its timestamp.

    Raises EngineError if the worker ends, or a question failed, unless it `may_fail`.
    """
    with closing(RedisBroker(at.settings, at.ledger)) as broker:
        started_at = time.time()
        run = submit(asking.planned(served, mark), at.ledger, broker).run
        wait_until_settled(at, run.run_id, run.questions, POLL_S, may_fail=may_fail)
        return max(each.settled_at for each in verdicts(at, run.run_id)) - started_at
