"""Refuses runs whose every question would fail, by what live workers report of their engines, and warns of doubts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from contract import keys
from contract.errors import RunConfigError
from contract.fleet import WorkerRecord
from contract.ledger import Ledger
from contract.names import distinct_slug
from contract.settings import Settings
from contract.spec import ChatTemplate, RunSpec
from producer.runs.planning import Plan

__all__ = ["refuse_unanswerable", "worker_doubts"]

#: What a server may offer of log-probabilities, as its worker names it.
LOGPROBS = ("chat_top", "plain_top", "chat_echo", "plain_echo")


def refuse_unanswerable(plans: Iterable[Plan], ledger: Ledger, live: Sequence[WorkerRecord]) -> None:
    """Raise RunConfigError for a new run that each `live` worker of its model would only record failures for.

    The worker would say so in every failed question; here it is said at once, before a long file is written to Redis.
    Without live workers nothing is known. A run that is already in the ledger is left to the workers.
    """
    there = set(ledger.run_ids())
    for each in plans:
        if each.run_id in there:
            continue
        workers = _scoring(each.spec, live)
        obstacles = [list(_obstacles(each.spec, worker)) for worker in workers]
        if obstacles and all(obstacles):
            what, hint = obstacles[0][0]
            raise RunConfigError(f"{each.name}: {workers[0].name} could answer no question: {what}.", hint=hint)


def worker_doubts(spec: RunSpec, settings: Settings, live: Sequence[WorkerRecord]) -> list[str]:
    """Return warnings about what the `live` workers, or those that these settings start, may lack for such a run."""
    workers = _scoring(spec, live)
    return [
        *_model_doubt(spec, settings, workers),
        *_adapter_doubt(spec, settings, workers),
        *_context_doubt(spec, workers),
        *_length_doubt(spec, workers),
    ]


def _scoring(spec: RunSpec, live: Sequence[WorkerRecord]) -> list[WorkerRecord]:
    return [each for each in live if each.queue == keys.route(spec)[-1]]


def _model_doubt(spec: RunSpec, settings: Settings, workers: Sequence[WorkerRecord]) -> list[str]:
    """Return a warning about a model that these settings do not name and no live worker serves: it may be misspelt."""
    named = settings.every_model
    if workers or distinct_slug(spec.model) in map(distinct_slug, named):
        return []
    return [
        f"model: {spec.model!r} is not among those of these settings ({_listed(named)}): the questions wait until a"
        " worker with another deploy file serves it"
    ]


def _adapter_doubt(spec: RunSpec, settings: Settings, workers: Sequence[WorkerRecord]) -> list[str]:
    """Return a warning about an adapter that these settings do not have and no live worker was asked for.

    It may exist where the workers are: these settings need not be theirs.
    """
    if not spec.adapter or spec.adapter in settings.every_adapter or workers:
        return []
    has = _listed(sorted(settings.every_adapter))
    return [
        f"adapter: {spec.adapter!r} is not among the `adapters` of these settings ({has}), and no running worker was"
        " asked for it: a worker that does not have it fails every question"
    ]


def _context_doubt(spec: RunSpec, workers: Sequence[WorkerRecord]) -> list[str]:
    """Return a warning about texts that may be as long as the whole context of a worker's model."""
    asked = spec.sampling.max_tokens if spec.sampling else 0
    shortest = min((tokens for each in workers if (tokens := _context(each.engine))), default=0)
    if not shortest or asked < shortest:
        return []
    return [
        f"sampling.max_tokens: {asked:,} tokens are the whole context of {shortest:,} that a running worker has: texts"
        " end where it is full. Raise vllm_args.max_model_len in the workers' deploy file if the model allows it"
    ]


def _length_doubt(spec: RunSpec, workers: Sequence[WorkerRecord]) -> list[str]:
    """Return a warning if some worker's server cannot score choices of several tokens."""
    for each in workers if spec.mode.scores_choices else ():
        offers = each.engine.get("offers")
        if offers is None:
            continue
        in_chat = spec.chat_template is not ChatTemplate.NEVER and offers.get("chat")
        if not offers.get("chat_echo" if in_chat else "plain_echo"):
            server = f"{each.engine.get('server')} ({each.engine.get('model')})"
            return [
                f"mode: {server} gives log-probabilities of single next tokens only, so questions with a"
                " longer choice fail. Mode letter asks for labels only, mode generate for a text"
            ]
    return []


def _context(engine: Mapping[str, Any]) -> int:
    """The model's context in tokens; 0 where it is unknown."""
    found = engine.get("max_model_len")
    return found if isinstance(found, int) else 0


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _obstacles(spec: RunSpec, worker: WorkerRecord) -> Iterator[tuple[str, str]]:
    """Yield each reason why `worker` would answer no question of such a run, with the remedy.

    What it does not report is no reason.
    """
    engine = worker.engine
    if spec.adapter and worker.adapters is not None and spec.adapter not in worker.adapters:
        remedy = "Correct adapter, or add it to `adapters` in the workers' deploy file and restart them."
        yield f"the run asks for the adapter {spec.adapter!r}, and it has {_listed(worker.adapters)}", remedy
    if spec.rag and not spec.use_context_field and spec.sampling and 0 < _context(engine) <= spec.sampling.max_tokens:
        room = f"sampling.max_tokens ({spec.sampling.max_tokens:,}) fills its context of {_context(engine):,} tokens"
        remedy = "Lower sampling.max_tokens, or raise vllm_args.max_model_len in the workers' deploy file."
        yield f"{room}, and no passage can be shown", remedy
    if "offers" in engine:
        yield from _of_server(spec, engine["offers"], f"{engine.get('server')} ({engine.get('model')})")
    if "chat_template_variables" in engine:
        yield from _of_template(spec, engine["chat_template_variables"])


def _of_server(spec: RunSpec, offers: Mapping[str, Any], server: str) -> Iterator[tuple[str, str]]:
    if not spec.mode.writes and not any(offers.get(each) for each in LOGPROBS):
        yield f"{server} returns no log-probabilities, which mode {spec.mode} needs", "Set mode: generate."
    if spec.sampling and spec.sampling.temperature and offers.get("only_greedy"):
        remedy = "Set mode: generate and sampling.temperature: 0, or do_sample in its model's generation_config.json."
        yield f"{server} writes the same text at any temperature", remedy
    if spec.chat_template is ChatTemplate.NEVER and not offers.get("plain"):
        yield f"{server} offers only chat completions", "Set chat_template: auto."
    if spec.chat_template in {ChatTemplate.ALWAYS, ChatTemplate.TURNS} and not offers.get("chat"):
        yield f"{server} offers no chat completions", "Set chat_template: never."


def _of_template(spec: RunSpec, variables: list[str] | None) -> Iterator[tuple[str, str]]:
    """`variables` are those of the model's chat template that a run may set; None: the model has no template."""
    optional = spec.chat_template in {ChatTemplate.NEVER, ChatTemplate.AUTO} and not spec.chat_template_kwargs
    if variables is None and not optional:
        more = ", and leave chat_template_kwargs out" if spec.chat_template_kwargs else ""
        yield "the model has no chat template", f"Set chat_template: never{more}."
    for name in spec.chat_template_kwargs:
        if variables is not None and name not in variables:
            has = ", ".join(variables) or "none that can be set"
            yield f"chat_template_kwargs: its chat template has no variable {name!r}", f"It has {has}."
