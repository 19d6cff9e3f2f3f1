"""Restarting workers by name, on a registry and a clock that are made up."""

from __future__ import annotations

from typing import Any, cast

import pytest

from contract import load_settings
from contract.errors import WorkerStays
from contract.fleet import Fleet, Wish, WorkerRecord, WorkerState
from workers.host import remote_control
from workers.host.remote_control import restart


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Booting:
    """The registry where one worker boots for `boot_s`, then ends at once if asked to restart, and is back in 10 s."""

    def __init__(self, clock: Clock, boot_s: float) -> None:
        self._clock = clock
        self._boot_s = boot_s
        self.kept_s = 0.0

    def ask(self, name: str, wish: Wish, boot_s: float = 0.0) -> Wish:  # noqa: ARG002 - there is one worker
        assert wish is Wish.RESTART
        self.kept_s = boot_s
        return wish

    def alive(self) -> list[WorkerRecord]:
        found = self.get("gpu0@host")
        return [found] if found else []

    def get(self, name: str) -> WorkerRecord | None:
        now_s = self._clock.now_s
        if now_s < self._boot_s:
            return self._record(name, 1, WorkerState.BOOTING)
        return self._record(name, 2, WorkerState.READY) if now_s > self._boot_s + 10 else None

    def _record(self, name: str, pid: int, state: WorkerState) -> WorkerRecord:
        return WorkerRecord(
            name=name, model="m", state=state, place="elsewhere", pid=pid, process_started=pid, launched=True
        )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(remote_control, "time", clock)
    return clock


def restarted(clock: Clock, boot_s: float) -> list[str]:
    said: list[str] = []
    fleet = Booting(clock, boot_s)
    settings = load_settings(None, ["drain_timeout_s=60", "server_startup_timeout=600"])
    restart(cast("Fleet", cast(Any, fleet)), settings, ["gpu0"], said.append)
    assert fleet.kept_s == 600
    return said


def test_a_worker_that_is_booting_is_waited_for_until_it_has_booted_and_restarted(clock: Clock) -> None:
    asked, back = restarted(clock, boot_s=300)
    assert asked == "gpu0@host: asked to restart, which it does once it has booted"
    assert back.startswith("gpu0@host: ready again 10")


class Shrinking(Booting):
    """The registry where gpu0 is being drained and gpu1 has just ended."""

    def alive(self) -> list[WorkerRecord]:
        return [self._record(f"gpu{number}@host", 1, WorkerState.READY) for number in range(2)]

    def ask(self, name: str, wish: Wish, boot_s: float = 0.0) -> Wish:
        super().ask(name, wish, boot_s)
        return Wish.DRAIN if name == "gpu0@host" else wish

    def get(self, name: str) -> WorkerRecord | None:
        return None if name == "gpu1@host" else self._record(name, 1, WorkerState.READY)


def test_workers_that_are_drained_meanwhile_do_not_hold_up_the_restart_of_the_others(clock: Clock) -> None:
    said: list[str] = []
    settings = load_settings(None, ["drain_timeout_s=60", "server_startup_timeout=600"])
    restart(cast("Fleet", cast(Any, Shrinking(clock, boot_s=0))), settings, ["gpu0", "gpu1"], said.append)
    assert said == [
        "gpu0@host: is being drained, and is not restarted",
        "gpu1@host: has ended meanwhile, and is not restarted",
    ]
    assert clock.now_s < 60


def test_a_worker_that_boots_longer_than_it_may_is_not_waited_for_any_longer(clock: Clock) -> None:
    with pytest.raises(WorkerStays, match="gpu0@host did not stop"):
        restarted(clock, boot_s=5000)
