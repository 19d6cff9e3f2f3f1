"""The queue: one Celery message is a question batch, `(run id, [question ids])`; bodies stay in the ledger.

messages    the wire format;  app  the Celery app of either side
sending     publishes batches;  restoring  requeues those that a dead worker held
backlog     what waits and what is held, read without taking it
"""

from contract.queue.app import make_celery
from contract.queue.backlog import (
    by_priority,
    held_batches,
    held_question_ids,
    oldest_published_at,
    queue_length,
    queue_lengths,
    queued_batches,
    queued_runs,
)
from contract.queue.messages import (
    MESSAGE_VERSION,
    UNREADABLE,
    QuestionBatch,
    ReceivedBatch,
    shown_arguments,
    task_name,
)
from contract.queue.restoring import restore_held
from contract.queue.sending import publish, send

__all__ = [
    "MESSAGE_VERSION",
    "UNREADABLE",
    "QuestionBatch",
    "ReceivedBatch",
    "by_priority",
    "held_batches",
    "held_question_ids",
    "make_celery",
    "oldest_published_at",
    "publish",
    "queue_length",
    "queue_lengths",
    "queued_batches",
    "queued_runs",
    "restore_held",
    "send",
    "shown_arguments",
    "task_name",
]
