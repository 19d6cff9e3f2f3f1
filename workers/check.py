"""`python -m workers check`: what would go wrong, found before it does, each with its remedy."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from redis import Redis, RedisError

from contract import keys
from contract.errors import McqueueError
from contract.fleet import Fleet
from contract.ledger import connect
from contract.queue import queue_length
from contract.settings import Settings
from workers.engines.packaged import PACKAGED, cache_folder, resolve
from workers.gpus import visible_gpus
from workers.placing import Layers, plan_host

__all__ = ["Finding", "check", "check_batching"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    level: Literal["ok", "warning", "error"]
    what: str
    found: str
    remedy: str = ""


def check(fleet: Sequence[Settings], cores: Sequence[int]) -> Iterator[Finding]:
    """Look at settings, GPUs, engine, model and Redis, in this order, for the models of `fleet`."""
    for settings in fleet:
        yield from check_batching(settings)
    yield from _placing(fleet, cores)
    for settings in fleet:
        yield from _engine(settings)
    yield from _redis(fleet)


def check_batching(settings: Settings) -> Iterator[Finding]:
    """Whether messages make full batches."""
    sizes = f"batch_size {settings.batch_size}, question_batch_size {settings.question_batch_size}"
    if settings.question_batch_size > settings.batch_size:
        remedy = "Set question_batch_size to batch_size or less."
        yield Finding("warning", "batching", f"{sizes}: one message is more than a batch", remedy)
    elif settings.batch_size % settings.question_batch_size:
        remedy = "Choose a batch_size that question_batch_size divides."
        yield Finding("warning", "batching", f"{sizes}: batches can never be full", remedy)
    else:
        yield Finding("ok", "batching", f"{sizes}, {settings.batches_in_flight} in flight")


def _placing(fleet: Sequence[Settings], cores: Sequence[int]) -> Iterator[Finding]:
    try:
        plans, warnings = plan_host(fleet, visible_gpus(), cores, Layers())
    except McqueueError as trouble:
        yield Finding("error", "GPUs", trouble.message, trouble.hint)
        return
    yield from (Finding("warning", "GPUs", each) for each in warnings)
    yield Finding("ok", "GPUs", "; ".join(f"{each.name}: {each.place}" for each in plans))


def _engine(settings: Settings) -> Iterator[Finding]:
    if settings.engine == "simulated":
        yield Finding("warning", "engine", "simulated: its answers mean nothing", "Set engine: vllm for real scores.")
        return
    if not settings.runs_the_model:
        yield Finding(
            "ok", "engine", f"{settings.openai.model} of {settings.openai.base_url}; asked when a worker starts"
        )
        return
    if importlib.util.find_spec("vllm") is None:
        yield Finding("error", "engine", "vLLM is not installed", "make setup, or pip install 'mcqueue[gpu]'.")
    else:
        yield _libraries()
    if settings.hf_model_id in PACKAGED and not (cache_folder() / settings.hf_model_id).is_dir():
        yield Finding("ok", "model", f"{settings.hf_model_id}: will be prepared at the first start")
        return
    try:
        yield Finding("ok", "model", resolve(settings.hf_model_id))
    except McqueueError as trouble:
        yield Finding("error", "model", trouble.message, trouble.hint)


def _libraries() -> Finding:
    """vLLM's CPU build links libnuma, which a minimal system may lack."""
    try:
        ctypes.CDLL("libnuma.so.1")
    except OSError:
        remedy = "Install it, e.g. apt-get install libnuma1."
        return Finding(
            "warning", "engine", "vLLM is installed; libnuma.so.1 is missing (its CPU build needs it)", remedy
        )
    return Finding("ok", "engine", "vLLM is installed")


def _redis(fleet: Sequence[Settings]) -> Iterator[Finding]:
    settings = fleet[0]
    try:
        client = connect(settings)
        yield Finding("ok", "Redis", f"{settings.redis_place} answers")
        yield from _redis_configuration(client)
        workers = [f"{each.name} ({each.state}, {each.model})" for each in Fleet(client, settings.redis_place).alive()]
        yield Finding("ok", "workers", ", ".join(workers) or "none alive")
        for each in fleet:
            waiting = queue_length(client, keys.score_queue(each.served_model))
            yield Finding("ok", "queue", f"{waiting} messages wait for {each.served_model}")
    except (McqueueError, RedisError) as trouble:
        yield Finding("error", "Redis", str(trouble))


def _redis_configuration(client: Redis) -> Iterator[Finding]:
    """Persistence and memory policy, where the server lets itself be asked."""
    try:
        found = cast("dict[str, str]", client.config_get("appendonly", "maxmemory-policy"))
    except RedisError:
        return
    if found.get("appendonly") == "no":
        remedy = "Set appendonly yes (appendfsync everysec): a restart of the server then loses nothing."
        yield Finding("warning", "Redis", "not persistent", remedy)
    if found.get("maxmemory-policy", "noeviction") != "noeviction":
        remedy = "Set maxmemory-policy noeviction: any other deletes questions when memory is short."
        yield Finding("error", "Redis", f"maxmemory-policy is {found['maxmemory-policy']}", remedy)
