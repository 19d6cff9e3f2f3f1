"""Threads of an engine that only look, again and again, whether something came."""

from __future__ import annotations

import ctypes
import sys
import threading

import pytest

from workers.engines.timer_slack import PR_GET_TIMERSLACK, SLACK_NS, rare_wakeups

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a means of Linux alone")


def slack_ns() -> int:
    """By how much the kernel may delay this thread's timed waits."""
    return ctypes.CDLL(None).prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)  # type: ignore[no-any-return]


def slack_ns_of_a_new_thread() -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(slack_ns()))
    thread.start()
    thread.join()
    return found[0]


def test_threads_of_a_booting_engine_may_wake_late_and_no_others() -> None:
    usual_ns = slack_ns()
    with rare_wakeups():
        assert slack_ns_of_a_new_thread() == SLACK_NS
    assert slack_ns() == usual_ns
    assert slack_ns_of_a_new_thread() == usual_ns


def test_a_boot_that_fails_leaves_its_own_thread_as_punctual_as_before() -> None:
    usual_ns = slack_ns()
    with pytest.raises(MemoryError), rare_wakeups():
        raise MemoryError
    assert slack_ns() == usual_ns
