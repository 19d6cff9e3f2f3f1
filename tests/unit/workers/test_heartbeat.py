"""What a worker's heartbeat does beside renewing its lease."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from contract import Settings
from contract.errors import EXIT_RETRY, NameTaken
from contract.fleet import Wish, WorkerRecord, WorkerState
from workers.heartbeat import Heartbeat

BOOTING, READY = WorkerState.BOOTING, WorkerState.READY


class Stand:
    """A heartbeat, and the fleet that it reports to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = READY
        self.beats: list[WorkerRecord] = []
        self.wish: Wish | None = None
        self.is_taken = False
        self.granted: list[Wish] = []
        self.stops: list[int] = []
        self.after_beats = 0
        fleet = SimpleNamespace(beat=self._beat, wish=lambda name: self.wish if name == "gpu0@host" else None)
        monkeypatch.setattr("workers.heartbeat.Fleet", SimpleNamespace(connect=lambda _: fleet))
        monkeypatch.setattr("workers.heartbeat.grant", self.granted.append)
        monkeypatch.setattr("workers.heartbeat.stop", self.stops.append)
        self.heart = Heartbeat(Settings(), self._record, self._after_beat)

    def _record(self) -> WorkerRecord:
        return WorkerRecord(name="gpu0@host", model="m", queue="score.m", state=self.state)

    def _beat(self, record: WorkerRecord) -> None:
        if self.is_taken:
            raise NameTaken("gpu0@host is taken.")
        self.beats.append(record)

    def _after_beat(self) -> None:
        assert self.beats, "it is told of a lease that was renewed"
        self.after_beats += 1


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Stand:
    return Stand(monkeypatch)


def test_each_round_renews_the_lease_with_what_the_worker_is_now(stand: Stand) -> None:
    for state in (BOOTING, READY):
        stand.state = state
        stand.heart.round()
    assert [each.state for each in stand.beats] == [BOOTING, READY]
    assert (stand.after_beats, stand.granted, stand.stops) == (2, [], [])


def test_a_worker_whose_name_another_one_took_stops_beats_no_more_and_heeds_no_wish_to_the_other(
    stand: Stand, caplog: pytest.LogCaptureFixture
) -> None:
    stand.is_taken, stand.wish = True, Wish.DRAIN
    stand.heart.round()
    assert (stand.stops, stand.granted, stand.after_beats) == ([EXIT_RETRY], [], 0)
    assert "gpu0@host is taken. This worker stops." in caplog.text
    stand.heart.run()  # ends at once


def test_a_wish_that_stays_is_granted_once_and_another_one_after_it_as_well(stand: Stand) -> None:
    for wish in (None, Wish.RESTART, Wish.RESTART, None, Wish.DRAIN, Wish.DRAIN, None):
        stand.wish = wish
        stand.heart.round()
    assert stand.granted == [Wish.RESTART, Wish.DRAIN]


def test_a_worker_that_boots_is_drained_at_once_but_restarts_only_when_it_is_up(stand: Stand) -> None:
    stand.state, stand.wish = BOOTING, Wish.RESTART
    stand.heart.round()
    assert stand.granted == [], "it would boot for nothing, and never come up if asked often"
    stand.state = READY
    stand.heart.round()
    assert stand.granted == [Wish.RESTART]
    stand.state, stand.wish = BOOTING, Wish.DRAIN
    stand.heart.round()
    assert stand.granted == [Wish.RESTART, Wish.DRAIN]
