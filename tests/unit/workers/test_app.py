"""The worker's handlers of Celery's signals, in a process of its own: importing the app changes Celery's globals."""

from __future__ import annotations

import subprocess
import sys

from contract.errors import EXIT_RETRY
from tests.support import PATIENCE_S, ROOT

#: A worker that can neither boot nor free its engine. Celery goes on after any exception of a handler but an exit.
TROUBLED = """
from types import SimpleNamespace
import workers.app
from contract.errors import NameTaken
from workers.worker import Worker

def fail():
    raise RuntimeError("the engine cannot be freed")

class Troubled(Worker):
    def __init__(self, *_):
        self._job = SimpleNamespace(close=fail)
        self._events = self._exporter = SimpleNamespace(close=lambda: None)
        self._janitor = self._heart = SimpleNamespace(stop=lambda: None)
        self._fleet = SimpleNamespace(leave=lambda *_, **__: print("the name is released"))

    def record(self):
        return None

    def boot(self):
        raise NameTaken("the name is taken")

workers.app.Worker = Troubled
workers.app.Lifecycle().boot(SimpleNamespace(hostname="w@host", pool_cls="threads"))
"""


def test_a_worker_that_cannot_free_its_engine_after_a_failed_boot_ends_nevertheless_and_with_the_first_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TROUBLED], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == EXIT_RETRY, done.stderr
    assert "the name is taken" in done.stderr
    assert "the engine cannot be freed" in done.stderr
    assert "the name is released" in done.stdout


def test_a_worker_that_may_have_no_further_thread_says_so_in_one_line_and_is_tried_again() -> None:
    """In a container with a limit of processes it was a traceback, and given up after five of them."""
    refused = TROUBLED.replace('NameTaken("the name is taken")', 'RuntimeError("can\'t start new thread")')
    done = subprocess.run(
        [sys.executable, "-c", refused.replace("close=fail", "close=lambda: None")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == EXIT_RETRY, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "can't start new thread. Raise the limit of the user (ulimit -u) or container (pids)" in done.stderr
