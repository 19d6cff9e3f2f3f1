"""Engines that hang or die in a process of their own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from celery import Celery

from contract import Outcome, RedisLedger
from tests.integration.launching import attempts, begun, launched, names
from tests.integration.runs import send, sent, verdicts, wait_finished
from tests.support import (
    make_question,
    make_questions,
    open_run,
    processes_of_session,
    wait_until,
)
from workers.engines.simulated import CORE


def test_a_question_that_hangs_the_engine_is_convicted_and_its_company_scored(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    questions = make_questions(8)
    questions[5] = make_question(5, question="poison?")
    run = open_run(redis_ledger, questions)
    send(app, redis_ledger, run, 8)
    chosen = ("batch_size=8", "max_attempts=3", "simulated.hang_text=poison", "batch_deadline_s=1")
    with launched(tmp_path, *chosen):
        wait_finished(redis_ledger, run)
    settled = {each.question_id: each for each in verdicts(redis_ledger, run)}
    assert [each.question_id for each in settled.values() if each.outcome is Outcome.FAILED] == ["q5"]
    assert settled["q5"].error is not None
    assert settled["q5"].error.type == "TooManyAttempts"
    assert "the engine has not answered for 1 s" in (tmp_path / "cpu0.log").read_text()


def cores(worker_pid: int) -> list[int]:
    """Process ids of the simulated engine cores in the session of a worker, alive or not."""
    return [each.pid for each in processes_of_session(worker_pid) if CORE in each.cmdline()]


def test_an_engine_core_that_is_killed_ends_its_worker_and_the_batch_is_asked_again(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with launched(tmp_path, "simulated.core=true", "simulated.call_ms=2000", "batch_size=8") as up:
        up.wait_ready(1)
        (core,) = cores(up.pids()[0])
        run = sent(app, redis_ledger, 8)
        wait_until(lambda: begun(redis_ledger, run), "the call to begin")
        os.kill(core, signal.SIGKILL)
        wait_finished(redis_ledger, run)
        assert len(up.pids()) == 2
    assert attempts(redis_ledger, run) == [2] * 8


def test_a_worker_whose_engine_core_is_killed_while_it_has_nothing_to_do_is_replaced_before_it_is_asked(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with launched(tmp_path, "simulated.core=true") as up:
        up.wait_ready(1)
        (core,) = cores(up.pids()[0])
        os.kill(core, signal.SIGKILL)
        up.wait_ready(2)
        assert "core is gone. This worker stops" in up.said()
        assert names(redis_ledger) == ["cpu0"]


def test_an_engine_core_that_outlives_its_killed_worker_is_ended_by_the_launcher(
    redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with launched(tmp_path, "simulated.core=true") as up:
        up.wait_ready(1)
        (first,) = up.pids()
        assert len(cores(first)) == 1
        os.kill(first, signal.SIGKILL)
        up.wait_ready(2)
        assert processes_of_session(first) == []
        assert names(redis_ledger) == ["cpu0"]
