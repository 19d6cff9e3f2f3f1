"""Every Redis key: a function each, and a class for those of a run. Nobody else spells a key.

mcqueue:runs                    sorted set  run id → creation time (s)
mcqueue:open                    set         ids of runs that have unsettled questions and go on
mcqueue:weights                 hash        run id → turns it gets where others get one; only what is not 1
mcqueue:run:<id>:meta           string      Run as JSON; its absence means: purged, or never there
mcqueue:run:<id>:questions      hash        question id → Question as JSON
mcqueue:run:<id>:order          list        question ids as the file had them
mcqueue:run:<id>:todo           set         question ids without a verdict
mcqueue:run:<id>:verdicts       hash        question id → Verdict as JSON; first write wins
mcqueue:run:<id>:counts         hash        outcome → number; moves with `verdicts`, atomically
mcqueue:run:<id>:attempts       hash        question id → how often a worker began to score it
mcqueue:run:<id>:lookups        hash        question id → how often a worker began to retrieve for it; until it has
mcqueue:run:<id>:troubles       hash        question id → why its attempts failed, as JSON; until it is settled
mcqueue:run:<id>:passages       hash        question id → its passages as JSON; until it is settled
mcqueue:run:<id>:engines        hash        worker and digest of an engine that answered → EngineUsed as JSON
mcqueue:run:<id>:state          string      `paused` or `cancelled`; its absence means: goes on
mcqueue:run:<id>:aside          set         unsettled question ids whose message a worker dropped in such a state
mcqueue:workers                 set         names of workers that may hold messages
mcqueue:worker:<name>           string      WorkerRecord as JSON; expires when the worker stops beating
mcqueue:boots:<name>            string      how often an engine was booted under this name; expires
mcqueue:unbooted:<queue>        hash        worker of that queue → why it did not boot, as JSON, until it has; expires
mcqueue:wish:<name>             string      what a person asked of this worker: drain or restart
mcqueue:restore:<name>          string      lock: who is putting this dead worker's messages back
mcqueue:audit:<id>              string      lock: this run was just looked through for lost questions
mcqueue:sending:<id>            string      lock: who is sending questions of this run
mcqueue:levelled:<queue>        string      lock: this queue was just put into the order of turns
mcqueue:moving:<queue>          string      lock: who is moving messages within this queue, or wants them to stay
mcqueue:trial                   string      written to see whether Redis takes writes; expires
retrieve.<index>[\\x06\\x16<n>]   list        Celery messages for those who search that index (kombu's naming)
score.<model>[\\x06\\x16<n>]      list        Celery messages by priority step (kombu's naming)
unacked:<worker>                hash        delivery tag → message that this worker holds (kombu)
unacked_index:<worker>          sorted set  delivery tag → delivery time (kombu)
unacked_mutex:<worker>          string      lock: who is restoring this worker's messages (kombu)
"""

from __future__ import annotations

from contract.spec import RunSpec, Stage, slug

__all__ = [
    "PRIORITY_STEPS",
    "RunKeys",
    "audit_lock",
    "boots",
    "broker_lists",
    "index_of",
    "is_score_queue",
    "levelled",
    "moving",
    "open_runs",
    "queue_of",
    "restore_lock",
    "retrieve_queue",
    "route",
    "runs",
    "score_queue",
    "sending",
    "trial",
    "unacked",
    "unacked_options",
    "unbooted",
    "weights",
    "wish",
    "worker",
    "workers",
]

PREFIX = "mcqueue"
#: kombu's steps for Redis; 0 is taken first.
PRIORITY_STEPS = (0, 3, 6, 9)


class RunKeys:
    """The keys of one run."""

    meta: str
    questions: str
    order: str
    todo: str
    verdicts: str
    counts: str
    attempts: str
    lookups: str
    troubles: str
    passages: str
    engines: str
    state: str
    aside: str

    def __init__(self, run_id: str) -> None:
        for name in RunKeys.__annotations__:
            setattr(self, name, f"{PREFIX}:run:{run_id}:{name}")

    def all(self) -> list[str]:
        """Every key of the run."""
        return list(vars(self).values())


def runs() -> str:
    """Sorted set of all runs."""
    return f"{PREFIX}:runs"


def open_runs() -> str:
    """Set of runs with unsettled questions that are neither paused nor cancelled."""
    return f"{PREFIX}:open"


def weights() -> str:
    """Hash of the runs whose weight is not 1."""
    return f"{PREFIX}:weights"


def workers() -> str:
    """Set of workers that may hold messages."""
    return f"{PREFIX}:workers"


def worker(name: str) -> str:
    """Record and lease of one worker."""
    return f"{PREFIX}:worker:{name}"


def boots(name: str) -> str:
    """How often worker `name` booted its engine."""
    return f"{PREFIX}:boots:{name}"


def unbooted(queue: str) -> str:
    """Why workers of `queue` did not boot."""
    return f"{PREFIX}:unbooted:{queue}"


def wish(name: str) -> str:
    """What a person asked of worker `name`."""
    return f"{PREFIX}:wish:{name}"


def restore_lock(name: str) -> str:
    """Lock around putting back the messages of worker `name`."""
    return f"{PREFIX}:restore:{name}"


def audit_lock(run_id: str) -> str:
    """Lock that spaces the looks for what run `run_id` has in no message."""
    return f"{PREFIX}:audit:{run_id}"


def levelled(queue: str) -> str:
    """Lock that spaces the looks at whose turn it is in `queue`."""
    return f"{PREFIX}:levelled:{queue}"


def moving(queue: str) -> str:
    """Lock around moving messages within `queue`, and around reading it where none may be missed."""
    return f"{PREFIX}:moving:{queue}"


def sending(run_id: str) -> str:
    """Lock around sending questions of run `run_id`."""
    return f"{PREFIX}:sending:{run_id}"


def trial() -> str:
    """What is written to see whether Redis takes writes."""
    return f"{PREFIX}:trial"


def score_queue(model: str) -> str:
    """Celery queue of the workers that serve `model`."""
    return f"{Stage.SCORE}.{slug(model)}"


def is_score_queue(queue: str) -> bool:
    """Whether models, and not indexes, are asked of `queue`."""
    return queue.startswith(f"{Stage.SCORE}.")


def retrieve_queue(index: str) -> str:
    """Celery queue of the workers that search `index`."""
    return f"{Stage.RETRIEVE}.{slug(index)}"


def index_of(queue: str) -> str:
    """The index that is searched for `queue`, as its name stands there; empty where none is."""
    stage, _, index = queue.partition(".")
    return index if stage == Stage.RETRIEVE else ""


def queue_of(stage: Stage, spec: RunSpec) -> str:
    """The queue where `stage` is done for runs of `spec`. Raises ValueError for a stage that they do not have."""
    if stage is Stage.SCORE:
        return score_queue(spec.model)
    if spec.rag is None:
        raise ValueError("a run without retrieval has no queue for it")
    return retrieve_queue(spec.rag.index)


def route(spec: RunSpec) -> tuple[str, ...]:
    """The queues that each question of a run passes through, in order."""
    stages = (Stage.RETRIEVE, Stage.SCORE) if spec.rag else (Stage.SCORE,)
    return tuple(queue_of(stage, spec) for stage in stages)


def broker_lists(queue: str) -> list[str]:
    """The Redis lists that kombu keeps for `queue`, most urgent first."""
    return [queue if step == 0 else f"{queue}\x06\x16{step}" for step in PRIORITY_STEPS]


def unacked(name: str) -> str:
    """Hash of the messages that worker `name` holds."""
    return f"unacked:{name}"


def unacked_options(name: str) -> dict[str, str]:
    """kombu transport options that give worker `name` its own books of held messages."""
    return {
        "unacked_key": unacked(name),
        "unacked_index_key": f"unacked_index:{name}",
        "unacked_mutex_key": f"unacked_mutex:{name}",
    }
