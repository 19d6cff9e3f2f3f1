"""What to do where nobody takes from a run's queues, or where those who do cannot serve it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence

from contract.fleet import BootFailure, WorkerRecord
from contract.keys import index_of, is_score_queue

__all__ = ["put_off_by", "start_workers", "unbooted_by_reason", "unbooted_lines"]

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


def unbooted_by_reason(failures: Iterable[BootFailure]) -> dict[str, list[BootFailure]]:
    """Workers that did not boot, by why: eight of one deploy file have one reason."""
    of_reason: defaultdict[str, list[BootFailure]] = defaultdict(list)
    for each in failures:
        of_reason[each.reason].append(each)
    return of_reason


def unbooted_lines(failures: Iterable[BootFailure]) -> list[str]:
    """Each reason once: which workers did not boot for it, and when the last of them tried, in local time."""
    return [
        f"{', '.join(each.worker for each in found)}, at {_clock(max(each.at for each in found))}: {reason}"
        for reason, found in unbooted_by_reason(failures).items()
    ]


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
