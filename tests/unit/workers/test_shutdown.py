"""How a worker is told to stop, and what it then says of itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from celery import signals
from celery.worker import state

from contract.errors import EXIT_RESTART, EXIT_RETRY
from contract.fleet import Wish
from workers import shutdown
from workers.shutdown import (
    EXIT_INTERRUPTED,
    StopSignals,
    drain_from_afar,
    grant,
    stop,
    stop_without_engine,
    stopping,
    stops_for_good,
)


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """With which exit codes the process has been told that its worker stops."""
    monkeypatch.setattr(state, "should_stop", None)
    monkeypatch.setattr(state, "should_terminate", None)
    exit_codes: list[int] = []

    def tell(exitcode: int, **_: Any) -> None:
        exit_codes.append(exitcode)

    signals.worker_shutting_down.connect(tell)
    yield exit_codes
    signals.worker_shutting_down.disconnect(tell)


@pytest.mark.parametrize("flag", ["should_stop", "should_terminate"])
@pytest.mark.parametrize(("code", "is_stopping"), [(None, False), (False, False), (0, True), (1, True), (True, True)])
def test_a_worker_is_stopping_whatever_its_exit_code_is_to_be(
    monkeypatch: pytest.MonkeyPatch, flag: str, code: int | None, is_stopping: bool
) -> None:
    monkeypatch.setattr(state, flag, code)
    assert stopping() is is_stopping


@pytest.mark.parametrize(("code", "for_good"), [(None, False), (False, False), (0, True), (EXIT_RESTART, False)])
def test_a_worker_stops_for_good_if_it_was_asked_to_end_and_not_if_it_is_to_come_again(
    monkeypatch: pytest.MonkeyPatch, code: int | None, for_good: bool
) -> None:
    monkeypatch.setattr(state, "should_stop", code)
    assert stops_for_good() is for_good


def test_a_worker_that_is_stopping_keeps_its_exit_code_and_is_told_once(told: list[int]) -> None:
    stop(EXIT_RESTART)
    stop(EXIT_RETRY)
    assert (state.should_stop, told) == (EXIT_RESTART, [EXIT_RESTART])


def test_a_worker_whose_engine_is_gone_says_so_once_and_is_to_come_again(
    told: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):  # by each of its batches
        stop_without_engine("The engine died.")
    assert (state.should_stop, told) == (EXIT_RETRY, [EXIT_RETRY])
    assert [each.message for each in caplog.records] == [
        "The engine died. This worker stops; its messages are requeued."
    ]


def test_a_wish_to_restart_ends_the_worker_so_that_it_comes_again() -> None:
    grant(Wish.RESTART)
    assert state.should_stop == EXIT_RESTART


@pytest.mark.parametrize("asked", [lambda: grant(Wish.DRAIN), lambda: drain_from_afar(None)])
def test_a_wish_to_drain_is_what_sigterm_is(monkeypatch: pytest.MonkeyPatch, asked: Any) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *arguments: sent.append(arguments))
    asked()
    assert sent == [(os.getpid(), signal.SIGTERM)]
    assert not stopping(), "until the signal arrives"


def test_ctrl_c_ends_a_worker_after_its_batches_and_only_the_third_time_at_once(
    monkeypatch: pytest.MonkeyPatch, told: list[int]
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(shutdown, "end_at_once", ended.append)
    interrupt = StopSignals()
    for _ in range(2):
        interrupt(signal.SIGINT, None)
    assert (state.should_stop, told, ended) == (EXIT_INTERRUPTED, [EXIT_INTERRUPTED], [])
    interrupt(signal.SIGINT, None)
    assert ended == [EXIT_INTERRUPTED]
