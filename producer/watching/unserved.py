"""What to do where nobody takes from a run's queues, or where those who do cannot serve it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from contract.fleet import WorkerRecord
from contract.keys import index_of, is_score_queue

__all__ = ["put_off_by", "start_workers"]

COMMAND = "python -m workers up"


def start_workers(unserved: Sequence[str], alive: Iterable[WorkerRecord]) -> str:
    """The command that starts workers for these queues.

    Where the workers there are serve another model, its name: that the producer was given no deploy file, or another
    one than they, is likelier than that they are missing.
    """
    indexes = [index for queue in unserved if (index := index_of(queue))]
    folders = ", ".join(f"FOLDER OF {name}" for name in indexes)
    command = f"{COMMAND} --set 'indexes=[{folders}]'" if indexes else COMMAND
    others = sorted({each.queue for each in alive if is_score_queue(each.queue)})
    if not others or len(indexes) == len(unserved):
        return command
    remedy = "python -m producer --deploy FILE enqueue …"
    return f"{command} (those alive take from {', '.join(others)}; if you mean their model: {remedy})"


def put_off_by(run_id: str, workers: Iterable[WorkerRecord]) -> list[str]:
    """Who of `workers` puts the run's questions back into the queue, and why: for another worker, or until it can."""
    return [f"{each.name}: {why}" for each in workers if (why := each.puts_off.get(run_id))]
