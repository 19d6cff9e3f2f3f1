"""Following a suite's runs until all are over."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from contract.errors import RedisUnreachable, UnknownRun
from contract.ledger import Counts, MemoryLedger, RunState
from contract.verdict import Outcome
from producer.broker import MemoryBroker
from producer.suite import running
from producer.suite.progress import Board
from producer.suite.watching import watch_suite, watchers_of
from producer.watching.outage import Clock
from producer.watching.screens import LineScreen
from tests.unit.producer.conftest import Producer, live_worker, settle_next
from tests.unit.producer.suite.conftest import settle_all
from tests.unit.producer.watching.looking import Script


def away(run_id: str) -> Counts:
    """What a ledger answers whose Redis is away."""
    raise RedisUnreachable("No Redis answers at redis://here (refused).")


def watched(
    ledger: MemoryLedger, broker: MemoryBroker, events: dict[float, Callable[[], object]]
) -> tuple[dict[str, Counts], str]:
    text = io.StringIO()
    runs = list(reversed(ledger.runs()))
    board = Board(LineScreen(Console(file=text, width=200)), "mine", [(run.run_id, run) for run in runs])
    watch_suite(watchers_of(runs, ledger, broker, board), board, clock=Script(events).clock())
    return {run.run_id: ledger.counts(run.run_id) for run in runs}, text.getvalue()


def test_a_watch_ends_when_all_runs_are_settled_or_cancelled(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    ids = [each["run_id"] for each in producer.json(two_by_two)["runs"]]
    broker.live += [live_worker("score.small")]

    counts, said = watched(
        ledger,
        broker,
        {
            2: lambda: settle_next(ledger, ids[0], *[Outcome.CORRECT] * 4),
            4: lambda: ledger.halt(ids[1], RunState.CANCELLED),
            9: lambda: settle_next(ledger, ids[2], *[Outcome.CORRECT] * 4),
            30: lambda: settle_next(ledger, ids[3], *[Outcome.CORRECT] * 4),
        },
    )

    assert [counts[each].standing for each in ids] == ["settled", "cancelled", "settled", "settled"]
    assert "mine: 12/16 · 4 of 4 runs done" in said.splitlines()[-1]


def test_a_run_that_goes_on_after_it_was_over_is_watched_to_its_end(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    first, *others = [each["run_id"] for each in producer.json(two_by_two)["runs"]]
    broker.live += [live_worker("score.small"), live_worker("score.large")]

    counts, said = watched(
        ledger,
        broker,
        {
            2: lambda: settle_next(ledger, first, Outcome.FAILED, *[Outcome.CORRECT] * 3),
            4: lambda: ledger.reopen_failed(first),
            5: lambda: settle_next(ledger, others[0], *[Outcome.CORRECT] * 4),
            6: lambda: settle_next(ledger, others[1], *[Outcome.CORRECT] * 4),
            7: lambda: settle_next(ledger, others[2], *[Outcome.CORRECT] * 4),
            20: lambda: settle_next(ledger, first, Outcome.CORRECT),
        },
    )

    assert [each.standing for each in counts.values()] == ["settled"] * 4
    assert "mine: 16/16 · 4 of 4 runs done" in said.splitlines()[-1]


def test_a_run_that_is_purged_after_it_was_over_is_missed(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    first = producer.json(two_by_two)["runs"][0]["run_id"]
    done: dict[float, Callable[[], object]] = {
        2: lambda: settle_next(ledger, first, *[Outcome.CORRECT] * 4),
        4: lambda: ledger.purge(first),
    }
    with pytest.raises(UnknownRun, match=f"{first} is no longer in the ledger; last seen with 4 of 4 questions"):
        watched(ledger, broker, done)


def test_what_concerns_several_runs_is_said_once(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    producer(two_by_two)

    _, said = watched(ledger, broker, {15: lambda: settle_all(ledger)})

    assert said.count("No worker has served score.small for 10 s.") == 1
    assert said.count("No worker has served score.large for 10 s.") == 1


def test_a_redis_that_goes_away_is_waited_for_and_told_once(
    producer: Producer,
    two_by_two: Path,
    ledger: MemoryLedger,
    broker: MemoryBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer(two_by_two)
    broker.live += [live_worker("score.small"), live_worker("score.large")]
    there = ledger.counts

    counts, said = watched(
        ledger,
        broker,
        {
            2: lambda: monkeypatch.setattr(ledger, "counts", away),
            7: lambda: monkeypatch.setattr(ledger, "counts", there),
            9: lambda: settle_all(ledger),
        },
    )

    assert [each.standing for each in counts.values()] == ["settled"] * 4
    assert said.count("No Redis answers at redis://here") == 1
    assert said.count("Redis is back after 5 s.") == 1


def test_a_suite_that_nobody_could_look_at_was_no_faster_afterwards(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer(two_by_two)
    broker.live += [live_worker("score.small"), live_worker("score.large")]
    there = ledger.counts

    def back() -> None:
        monkeypatch.setattr(ledger, "counts", there)
        settle_all(ledger)

    _, said = watched(ledger, broker, {2: lambda: monkeypatch.setattr(ledger, "counts", away), 42: back})

    assert "mine: 16/16 · 4 of 4 runs done · 0.4/s over 0:42" in said, "and none in the last ten seconds"


def test_what_got_lost_of_a_run_is_sent_again_and_the_run_is_named(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    ids = [each["run_id"] for each in producer.json(two_by_two)["runs"]]
    queue = "score.small"
    broker.live += [live_worker("score.small"), live_worker("score.large")]
    for each in ids[1:]:
        settle_next(ledger, each, *[Outcome.CORRECT] * 4)
    broker.messages.clear()

    _, said = watched(ledger, broker, {9: lambda: settle_all(ledger)})

    assert f"{ids[0]} was stalled: 4 lost questions re-sent in 2 messages." in said
    assert [message[:2] for message in broker.messages] == [(queue, ids[0])] * 2


def test_ctrl_c_ends_the_watching_and_says_how_to_rejoin(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "watch_suite", partial(watch_suite, clock=Clock(sleep=interrupted)))
    rejoin = f"rejoin with: python -m producer suite {two_by_two} --watch"

    assert f"the runs continue; {rejoin}" in producer(two_by_two, "--watch", exit_code=130).stderr

    paused = ledger.runs()[0].run_id
    ledger.halt(paused, RunState.PAUSED)
    told = producer(two_by_two, "--watch", exit_code=130).stderr
    ledger.resume(paused)

    but = f"but these stay paused until python -m producer resume RUN: {paused}"
    assert f"the runs continue, {but}; {rejoin}" in told
    assert {ledger.counts(run.run_id).state for run in ledger.runs()} == {RunState.RUNNING}
    assert not Path("results").exists()

    elsewhere = f"{rejoin} --format parquet --out 'my results'\n"
    words = ("--watch", "--format", "parquet", "--out", "my results")
    assert elsewhere in producer(two_by_two, *words, exit_code=130).stderr
