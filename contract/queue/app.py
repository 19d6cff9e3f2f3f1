"""The Celery app of either side. Both create it here and nowhere else."""

from __future__ import annotations

from celery import Celery
from celery.backends.base import DisabledBackend

from contract import address, keys
from contract.priority import Priority
from contract.settings import Settings

__all__ = ["SOCKET_TIMEOUT_S", "make_celery"]

#: A server that has not answered for this long counts as gone; its host may have vanished silently. This is redis-py's
#: default, which kombu disables; a BRPOP waits for one second only.
SOCKET_TIMEOUT_S = 5.0


class _Celery(Celery):  # type: ignore[misc]  # celery ships no types
    """Celery without a result backend, which it would search for in all installed packages: 6 ms."""

    def _get_backend(self) -> DisabledBackend:
        return DisabledBackend(app=self)


def make_celery(settings: Settings) -> Celery:
    """Create the Celery app of either side. Reasons: docs/how-it-works.md, "How Celery is used"."""
    # A producer names the queue of each message; only workers read from this one, and they serve one model.
    queue = "celery" if settings.models else keys.score_queue(settings.served_model)
    url = settings.redis_url.get_secret_value()
    app = _Celery("mcqueue", broker=url, set_as_current=False)
    app.conf.update(
        broker_use_ssl=address.tls(url),
        task_serializer="json",
        result_serializer="json",
        event_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,  # verdicts go to the ledger, one Lua call a batch
        task_acks_late=True,
        task_default_queue=queue,
        task_default_priority=int(Priority.NORMAL),
        worker_pool="threads",  # prefork children are daemonic and cannot host vLLM; solo stops heartbeats
        worker_concurrency=settings.max_batches_in_flight,
        worker_prefetch_multiplier=0,  # the aggregator's gate counts questions instead
        worker_enable_prefetch_count_reduction=False,
        worker_hijack_root_logger=False,
        worker_send_task_events=True,  # for Celery's banner; workers/monitoring/events.py sends them
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "visibility_timeout": 600,  # only a backstop: dead workers' messages are restored long before
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
            "queue_order_strategy": "priority",
            "socket_timeout": SOCKET_TIMEOUT_S,
            "socket_keepalive": True,
            "health_check_interval": 10,
        },
    )
    return app
