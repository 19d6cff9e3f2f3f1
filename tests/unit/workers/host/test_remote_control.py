"""Restarting and draining workers by name, on a registry and a clock that are made up."""

from __future__ import annotations

from typing import Any, cast

import pytest

from contract import load_settings
from contract.errors import InputError, RedisUnreachable, WorkerStays
from contract.fleet import BootFailure, Fleet, Wish, WorkerRecord, WorkerState
from workers.host import remote_control
from workers.host.remote_control import drain, restart


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

    def __init__(self, clock: Clock, boot_s: float, may_boot_s: float | None = None) -> None:
        self._clock = clock
        self._boot_s = boot_s
        self._may_boot_s = may_boot_s
        self.kept_s = 0.0

    def ask(self, name: str, wish: Wish, boot_s: float = 0.0) -> Wish:  # noqa: ARG002 - there is one worker
        assert wish is Wish.RESTART
        self.kept_s = boot_s
        return wish

    def boot_failures(self) -> list[BootFailure]:
        return []

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
            name=name,
            model="m",
            state=state,
            place="elsewhere",
            pid=pid,
            process_started=pid,
            launched=True,
            startup_timeout_s=self._may_boot_s,
        )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(remote_control, "time", clock)
    return clock


def restarted(clock: Clock, boot_s: float, may_boot_s: float | None = None) -> list[str]:
    said: list[str] = []
    fleet = Booting(clock, boot_s, may_boot_s)
    settings = load_settings(None, ["drain_timeout_s=60", "server_startup_timeout=600"])
    restart(cast("Fleet", cast(Any, fleet)), settings, ["gpu0"], said.append)
    assert fleet.kept_s == (may_boot_s or 600)
    return said


def test_a_worker_that_is_booting_is_waited_for_until_it_has_booted_and_restarted(clock: Clock) -> None:
    asked, back = restarted(clock, boot_s=300)
    assert asked == "gpu0@host: asked to restart, which it does once it has booted"
    assert back.startswith("gpu0@host: ready again 10")


class Away(Booting):
    """The registry in a Redis that is away for a minute while it is waited for; all leases have expired meanwhile."""

    def get(self, name: str) -> WorkerRecord | None:
        if 100 < self._clock.now_s < 160:
            raise RedisUnreachable("No Redis answers.")
        return None if 160 < self._clock.now_s < 165 else super().get(name)


def test_a_redis_that_is_away_for_a_while_ends_no_restart(clock: Clock) -> None:
    """Of eight workers, those after the one that was just restarted were left as they were."""
    said: list[str] = []
    settings = load_settings(None, ["drain_timeout_s=60", "server_startup_timeout=600"])
    restart(cast("Fleet", cast(Any, Away(clock, boot_s=300))), settings, ["gpu0"], said.append)
    assert said[-1].startswith("gpu0@host: ready again 10")


class AwayInTheEnd(Booting):
    """The registry where the worker ends in time, while Redis is away, which is back shortly before the time is up."""

    def get(self, name: str) -> WorkerRecord | None:
        if 650 < self._clock.now_s < 675:
            raise RedisUnreachable("No Redis answers.")
        return super().get(name)


def test_a_worker_that_ended_in_time_while_redis_was_away_is_not_told_as_one_that_did_not_stop(clock: Clock) -> None:
    """The time was up before the workers had had the time to renew their leases, and nobody looked again."""
    said: list[str] = []
    settings = load_settings(None, ["drain_timeout_s=60", "server_startup_timeout=600"])
    restart(cast("Fleet", cast(Any, AwayInTheEnd(clock, boot_s=660))), settings, ["gpu0"], said.append)
    assert said[-1].startswith("gpu0@host: ready again")


class Shrinking(Booting):
    """The registry where gpu0 is being drained and gpu1 has just ended."""

    def boot_failures(self) -> list[BootFailure]:
        return []

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


def test_a_worker_is_waited_for_as_long_as_its_own_settings_let_it_boot(clock: Clock) -> None:
    _, back = restarted(clock, boot_s=3000, may_boot_s=3600)
    assert back.startswith("gpu0@host: ready again 10")


def test_a_worker_that_boots_longer_than_it_may_is_not_waited_for_any_longer(clock: Clock) -> None:
    with pytest.raises(WorkerStays, match="gpu0@host did not stop"):
        restarted(clock, boot_s=5000)


class StartedByHand(Booting):
    """The registry where one worker could not boot, and another has no launcher."""

    def boot_failures(self) -> list[BootFailure]:
        return [BootFailure(worker="gpu0@host", queue="score.m", reason="no room", at=0.0)]

    def alive(self) -> list[WorkerRecord]:
        return [self._record("gpu1@host", 1, WorkerState.READY).model_copy(update={"launched": False})]

    def ask(self, name: str, wish: Wish, boot_s: float = 0.0) -> Wish:
        raise AssertionError(f"{name} was asked to {wish} for {boot_s} s")


def test_nothing_is_restarted_if_one_of_the_named_workers_cannot_be(clock: Clock) -> None:
    """The one that could not boot had been started again before the other was refused."""
    said: list[str] = []
    with pytest.raises(InputError, match="gpu1@host cannot be restarted"):
        restart(cast("Fleet", cast(Any, StartedByHand(clock, 0))), load_settings(), ["gpu0", "gpu1"], said.append)
    assert said == []


class Returning(Booting):
    """The registry where one worker ends to restart, too late to read a wish, and is back 2 s later if it `returns`.

    Its successor reads the wish after 3 s more, and leaves.
    """

    def __init__(self, clock: Clock, *, launched: bool, returns: bool) -> None:
        super().__init__(clock, 0)
        self._launched = launched
        self._returns = returns

    def ask(self, name: str, wish: Wish, boot_s: float = 0.0) -> Wish:  # noqa: ARG002 - there is one worker
        assert wish is Wish.DRAIN
        return wish

    def wish(self, name: str) -> Wish | None:  # noqa: ARG002
        return None if self._returns and self._clock.now_s >= 6 else Wish.DRAIN

    def get(self, name: str) -> WorkerRecord | None:
        if self._clock.now_s < 1:
            record = self._record(name, 1, WorkerState.DRAINING)
        elif self._returns and 3 <= self._clock.now_s < 6:
            record = self._record(name, 2, WorkerState.BOOTING)
        else:
            return None
        return record.model_copy(update={"launched": self._launched})


@pytest.mark.parametrize(
    ("launched", "returns", "last", "after_s"),
    [
        (True, True, "drained", (6, 7)),
        (True, False, "has ended; if it is started within 10 minutes, it drains again", (30, 60)),
        (False, False, "drained", (1, 2)),
    ],
    ids=["started again", "its launcher is gone as well", "without a launcher"],
)
def test_a_worker_that_was_about_to_restart_is_drained_once_its_successor_is(
    clock: Clock, launched: bool, returns: bool, last: str, after_s: tuple[float, float]
) -> None:
    """It was told to be drained when it ended, and was there again a moment later."""
    said: list[str] = []
    fleet = Returning(clock, launched=launched, returns=returns)

    drain(cast("Fleet", cast(Any, fleet)), load_settings(None, []), ["gpu0"], said.append)

    assert said == ["gpu0@host: asked to drain", f"gpu0@host: {last}"]
    assert after_s[0] <= clock.now_s <= after_s[1]


class Unbootable(Booting):
    """The registry where one worker restarts and cannot boot any more; each attempt takes a second.

    Its launcher makes `boots` attempts, twenty seconds apart, and the last succeeds if it is `repaired`.
    """

    def __init__(self, clock: Clock, boots: int, *, repaired: bool = False, others: bool = True) -> None:
        super().__init__(clock, 0)
        self._boots = boots
        self._repaired = repaired
        self._others = others

    def alive(self) -> list[WorkerRecord]:
        return [*super().alive(), *([self._record("gpu1@host", 1, WorkerState.READY)] if self._others else [])]

    def boot_failures(self) -> list[BootFailure]:
        ended = min(int((self._clock.now_s + 19) // 20), self._boots)
        failed = ended - (self._repaired and ended == self._boots)
        if not failed or failed < ended:
            return []
        return [BootFailure(worker="gpu0@host", queue="score.m", reason="no room", at=20.0 * failed)]

    def get(self, name: str) -> WorkerRecord | None:
        attempt, since_s = divmod(self._clock.now_s, 20)
        if self._clock.now_s == 0:
            return self._record(name, 1, WorkerState.READY)
        if self._repaired and attempt + 1 >= self._boots and since_s > 1:
            return self._record(name, 99, WorkerState.READY)
        return self._record(name, 2, WorkerState.BOOTING) if attempt < self._boots and since_s < 1 else None


@pytest.mark.parametrize(("boots", "after_s"), [(5, (80, 90)), (1, (60, 70))], ids=["five attempts", "one attempt"])
def test_a_worker_that_cannot_boot_after_its_restart_is_waited_for_until_its_launcher_gives_it_up(
    clock: Clock, boots: int, after_s: tuple[float, float]
) -> None:
    """The command was silent for the ten minutes that a boot may take, and did not say why."""
    said: list[str] = []
    fleet = cast("Fleet", cast(Any, Unbootable(clock, boots)))

    with pytest.raises(
        WorkerStays, match="gpu0@host could not boot, and its launcher seems to have given it up: no room"
    ) as why:
        restart(fleet, load_settings(None, ["server_startup_timeout=600"]), ["gpu0"], said.append)

    assert said == ["gpu0@host: asked to restart", "gpu0@host: could not boot: no room"]
    assert why.value.hint == "Fix that, then: python -m workers restart gpu0@host"
    assert after_s[0] <= clock.now_s <= after_s[1]


class AwayBetweenBoots(Booting):
    """The registry in a Redis that is away for a minute after a boot that failed; the next one begins 20 s later."""

    def boot_failures(self) -> list[BootFailure]:
        failed = 5 < self._clock.now_s < 90
        return [BootFailure(worker="gpu0@host", queue="score.m", reason="no room", at=5.0)] if failed else []

    def get(self, name: str) -> WorkerRecord | None:
        if 10 < self._clock.now_s < 70:
            raise RedisUnreachable("No Redis answers.")
        return None if 1 < self._clock.now_s < 90 else super().get(name)


def test_a_launcher_has_not_given_up_its_worker_because_redis_was_away_after_a_boot_that_failed(clock: Clock) -> None:
    """Nobody could be seen for longer than a launcher waits between two boots."""
    said: list[str] = []
    fleet = cast("Fleet", cast(Any, AwayBetweenBoots(clock, boot_s=1)))
    restart(fleet, load_settings(), ["gpu0"], said.append)
    assert said[1] == "gpu0@host: could not boot: no room"
    assert said[2].startswith("gpu0@host: ready again")


def test_the_only_worker_of_a_launcher_is_started_again_by_up_once_it_is_given_up(clock: Clock) -> None:
    """Its launcher has ended with it, so no launcher would take up a restart."""
    fleet = cast("Fleet", cast(Any, Unbootable(clock, 5, others=False)))

    with pytest.raises(WorkerStays) as why:
        restart(fleet, load_settings(), ["gpu0"], lambda _: None)

    assert why.value.hint == "Fix that, then: on its host, python -m workers up"


def test_a_worker_that_boots_at_its_third_attempt_is_restarted_and_what_kept_it_is_told(clock: Clock) -> None:
    said: list[str] = []
    fleet = cast("Fleet", cast(Any, Unbootable(clock, boots=3, repaired=True)))

    restart(fleet, load_settings(), ["gpu0"], said.append)

    assert said[:2] == ["gpu0@host: asked to restart", "gpu0@host: could not boot: no room"]
    assert said[2].startswith("gpu0@host: ready again 4")
    assert len(said) == 3
