"""The backlog: messages that wait on a queue or are held by a worker. All is read here and nothing is taken."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import cast

import redis

from contract import keys
from contract.priority import Priority
from contract.queue.messages import arguments_in, published_at

__all__ = [
    "by_priority",
    "held_batches",
    "held_question_ids",
    "oldest_published_at",
    "queue_length",
    "queue_lengths",
    "queued_batches",
    "queued_runs",
]

#: Messages of a broker list read per round trip.
READ_CHUNK = 2000
#: Messages at the head of a broker list among which each run has a turn, even beside one of the largest weight.
TURNS = 100
#: The run of a message, as `shown_arguments` puts it into words.
_RUN = re.compile(r'"argsrepr": "([^"]*): \d+ ')


def queue_length(client: redis.Redis, queue: str) -> int:
    """Return the number of messages waiting on `queue`."""
    return sum(queue_lengths(client, queue).values())


def queue_lengths(client: redis.Redis, queue: str) -> dict[Priority, int]:
    """Return the number of messages waiting on `queue`, by priority."""
    pipeline = client.pipeline(transaction=False)  # Redis before 7.4 refuses any at its memory limit
    for name in keys.broker_lists(queue):
        pipeline.llen(name)
    return by_priority(pipeline.execute())


def by_priority(lengths: Iterable[int]) -> dict[Priority, int]:
    """Sum the lengths of a queue's broker lists, most urgent first, by priority: kombu has more steps than we do."""
    waiting = dict.fromkeys(Priority, 0)
    for step, length in zip(keys.PRIORITY_STEPS, lengths, strict=True):
        waiting[max(each for each in Priority if each <= step)] += length
    return waiting


def oldest_published_at(client: redis.Redis, queue: str) -> float | None:
    """Return when the oldest message waiting on `queue` was published, in seconds since the epoch; None if none waits.

    Only the next messages of each list are read. They are of all runs, as these take turns, and each run's first one is
    its oldest. A requeued message counts from its first publishing; malformed ones are ignored.
    """
    pipeline = client.pipeline(transaction=False)
    for name in keys.broker_lists(queue):
        pipeline.lrange(name, -TURNS, -1)
    published = [published_at(each) for messages in pipeline.execute() for each in _first_of_each_run(messages[::-1])]
    return min((each for each in published if each is not None), default=None)


def _first_of_each_run(messages: Iterable[str]) -> Iterator[str]:
    """Yield the first of `messages` of each run, and those that name none; decoding all would take milliseconds."""
    runs = set()
    for each in messages:
        run = _RUN.search(each)
        if run is None or run[1] not in runs:
            yield each
        if run is not None:
            runs.add(run[1])


def queued_batches(
    client: redis.Redis, queue: str, of: Collection[str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Yield the run id and the question ids of each message waiting on `queue`; with `of`, only of the runs so called.

    A malformed message has an empty run id and no questions.
    """
    return _batches(_waiting(client, queue), of)


def held_batches(
    client: redis.Redis, workers: Iterable[str], of: Collection[str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Yield the same of each unacknowledged message held by `workers`."""
    return _batches(_held(client, workers), of)


def queued_runs(client: redis.Redis, queue: str, of: Collection[str] | None = None) -> Counter[str]:
    """Return the number of messages in `queued_batches` by run id, which is empty for malformed ones."""
    return Counter(run_id for run_id, _ in queued_batches(client, queue, of))


def held_question_ids(client: redis.Redis, workers: Iterable[str], run_id: str) -> set[str]:
    """Return the question ids of `run_id` in unacknowledged messages held by `workers`."""
    return {each for _, ids in held_batches(client, workers, {run_id}) for each in ids}


def _held(client: redis.Redis, workers: Iterable[str]) -> Iterator[str]:
    """Yield the unacknowledged messages held by `workers`."""
    for name in workers:
        yield from cast("list[str]", client.hvals(keys.unacked(name)))


def _waiting(client: redis.Redis, queue: str) -> Iterator[str]:
    """Yield the messages waiting on `queue`, most urgent first."""
    for name in keys.broker_lists(queue):
        start = 0
        while items := cast("list[str]", client.lrange(name, start, start + READ_CHUNK - 1)):
            yield from items
            start += len(items)


def _batches(items: Iterable[str], of: Collection[str] | None) -> Iterator[tuple[str, list[str]]]:
    if of is None:
        return map(arguments_in, items)
    # By what they show: decoding the messages of all other runs would cost seconds.
    shown = (item for item in items if (run := _RUN.search(item)) and run[1] in of)
    return ((run_id, ids) for run_id, ids in map(arguments_in, shown) if run_id in of)
