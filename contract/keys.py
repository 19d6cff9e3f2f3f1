"""All Redis keys: one function each, and a class for the keys of a run. No other module spells out a key.

mcqueue:runs                    sorted set  run id → creation time (s)
mcqueue:open                    set         ids of runs with unsettled questions that are not halted
mcqueue:weights                 hash        run id → its weight in fair sharing, if not 1
mcqueue:run:<id>:meta           string      Run as JSON; absent: purged, or never existed
mcqueue:run:<id>:questions      hash        question id → Question as JSON
mcqueue:run:<id>:order          list        question ids in file order
mcqueue:run:<id>:todo           set         question ids without a verdict
mcqueue:run:<id>:verdicts       hash        question id → Verdict as JSON; first write wins
mcqueue:run:<id>:counts         hash        outcome → number; updated atomically with `verdicts`
mcqueue:run:<id>:attempts       hash        question id → attempts to score it, and the last call that changed them
mcqueue:run:<id>:lookups        hash        question id → the same for finding its passages; until one succeeds
mcqueue:run:<id>:troubles       hash        question id → the last call, and why attempts of this stage failed, as JSON
mcqueue:run:<id>:passages       hash        question id → its passages as JSON; until settled
mcqueue:run:<id>:engines        hash        worker and digest of an engine that answered → EngineUsed as JSON
mcqueue:run:<id>:state          string      `paused` or `cancelled`; absent: running
mcqueue:run:<id>:aside          set         unsettled question ids whose message a worker dropped in that state
mcqueue:workers                 set         names of workers that may hold messages
mcqueue:worker:<name>           string      WorkerRecord as JSON; expires when the heartbeat stops
mcqueue:seen                    hash        worker → WorkerRecord of its last heartbeat, as JSON; until it ends cleanly
mcqueue:boots:<name>            string      number of engine boots under this name; expires
mcqueue:unbooted                hash        worker → queue and cause of its failed boot, as JSON; for a day at most
mcqueue:starting:<queue>        hash        worker of that queue → when it was started (s); until it joins; expires
mcqueue:wish:<name>             string      command to this worker: drain or restart; expires
mcqueue:restore:<name>          string      lock: restoring this dead worker's messages
mcqueue:audit:<id>              string      lock: this run was just audited for lost questions
mcqueue:sending:<id>            string      lock: sending questions of this run
mcqueue:levelled:<queue>        string      lock: this queue was just reordered
mcqueue:moving:<queue>          string      lock: reordering this queue, or preventing that
mcqueue:trial                   string      written to test whether Redis accepts writes; expires
retrieve.<index>[\\x06\\x16<n>]   list        Celery messages for workers that search that index (kombu's naming)
score.<model>[\\x06\\x16<n>]      list        Celery messages by priority step (kombu's naming)
unacked:<worker>                hash        delivery tag → message held by this worker (kombu)
unacked_index:<worker>          sorted set  delivery tag → delivery time (kombu)
unacked_mutex:<worker>          string      lock: restoring this worker's messages (kombu)
"""

from __future__ import annotations

from contract.names import distinct_slug, slug
from contract.spec import RunSpec, Stage

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
    "retriever_name",
    "route",
    "runs",
    "score_queue",
    "seen",
    "sending",
    "starting",
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

    def attempts_at(self, stage: Stage) -> str:
        """Hash of the attempts at `stage`."""
        return self.attempts if stage is Stage.SCORE else self.lookups

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


def seen() -> str:
    """Hash of the last heartbeats of workers, without those that have ended cleanly."""
    return f"{PREFIX}:seen"


def boots(name: str) -> str:
    """Number of engine boots of worker `name`."""
    return f"{PREFIX}:boots:{name}"


def unbooted() -> str:
    """Why workers failed to boot."""
    return f"{PREFIX}:unbooted"


def starting(queue: str) -> str:
    """When workers of `queue` were started that have not joined yet."""
    return f"{PREFIX}:starting:{queue}"


def wish(name: str) -> str:
    """Pending command to worker `name`."""
    return f"{PREFIX}:wish:{name}"


def restore_lock(name: str) -> str:
    """Lock around restoring the messages of worker `name`."""
    return f"{PREFIX}:restore:{name}"


def audit_lock(run_id: str) -> str:
    """Lock that limits how often run `run_id` is audited."""
    return f"{PREFIX}:audit:{run_id}"


def levelled(queue: str) -> str:
    """Lock that limits how often `queue` is reordered."""
    return f"{PREFIX}:levelled:{queue}"


def moving(queue: str) -> str:
    """Lock around reordering `queue`, and around reading it where no message may be missed."""
    return f"{PREFIX}:moving:{queue}"


def sending(run_id: str) -> str:
    """Lock around sending questions of run `run_id`."""
    return f"{PREFIX}:sending:{run_id}"


def trial() -> str:
    """Key written to test whether Redis accepts writes."""
    return f"{PREFIX}:trial"


def score_queue(model: str) -> str:
    """Celery queue of the workers that serve `model`."""
    return f"{Stage.SCORE}.{distinct_slug(model)}"


def is_score_queue(queue: str) -> bool:
    """Whether `queue` is for a model rather than an index."""
    return queue.startswith(f"{Stage.SCORE}.")


def retrieve_queue(index: str) -> str:
    """Celery queue of the workers that search `index`."""
    return f"{Stage.RETRIEVE}.{distinct_slug(index)}"


def index_of(queue: str) -> str:
    """Name of the index in the queue's name; empty if it is not a retrieval queue."""
    stage, _, index = queue.partition(".")
    return index if stage == Stage.RETRIEVE else ""


def retriever_name(index: str) -> str:
    """Name, on its host, of the worker that searches the index of that name."""
    return f"retrieve-{slug(index)}"


def queue_of(stage: Stage, spec: RunSpec) -> str:
    """The queue of `stage` for runs of `spec`. Raises ValueError if they have no such stage."""
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
    """kombu transport options that give worker `name` its own unacked keys."""
    return {
        "unacked_key": unacked(name),
        "unacked_index_key": f"unacked_index:{name}",
        "unacked_mutex_key": f"unacked_mutex:{name}",
    }
