"""Draining and restarting workers by name, from any host that reaches Redis.

A wish is stored in Redis until its worker reads it, so none is lost while a connection is broken. A worker that was
asked to drain exits with code 0, which its launcher treats as intended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from contract.errors import InputError, LedgerError, WorkerStays
from contract.fleet import LEASE_S, STARTING_S, WISH_S, BootFailure, Fleet, Wish, WorkerRecord, WorkerState
from contract.settings import Settings
from workers.host.restarts import GIVE_UP_AFTER, LONGEST_PAUSE_S

__all__ = ["drain", "restart"]

LOOK_S = 0.2
#: Added to a worker's time limits: it must first read the wish, and its lease must expire if it was killed meanwhile.
GRACE_S = 2.0 * LEASE_S
#: A launcher, or a worker that it is just starting, reads a wish within this time.
TAKEN_UP_S = 60.0
#: A worker whose boot has failed and that has not joined again after this long has been given up by its launcher.
GIVEN_UP_S = LONGEST_PAUSE_S + STARTING_S

Say = Callable[[str], object]


def _find(fleet: Fleet, name: str) -> WorkerRecord:
    """Return the live worker called `name`: `gpu0@host`, or `gpu0` if it is unique. Raises InputError."""
    alive = fleet.alive()
    meant = [each for each in alive if each.name == name] or [each for each in alive if _short(each.name) == name]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise InputError(f"{name!r} is on several hosts: {', '.join(each.name for each in meant)}.", hint="Name one.")
    # List all, not only the closest name: for a drained worker, that would be its neighbour.
    names, hosts = (", ".join(sorted(each)) for each in ({each.name for each in alive}, {each.host for each in alive}))
    known = f"Live workers: {names}. All of a host: @HOST, of {hosts}." if alive else "No worker is alive."
    ended = "To start one that was stopped, on its host: python -m workers up --only NAME"
    raise InputError(f"No live worker {name!r}.", hint=f"{known} {ended}")


def _find_all(fleet: Fleet, names: Sequence[str]) -> list[WorkerRecord]:
    """Return the live workers called `names`, each once; `@host` means all of that host. Raises InputError."""
    found: dict[str, WorkerRecord] = {}
    for name in names:
        of_host = [each for each in fleet.alive() if name == f"@{each.host}"]
        found |= {each.name: each for each in of_host or [_find(fleet, name)]}
    return list(found.values())


def drain(fleet: Fleet, settings: Settings, names: Sequence[str], say: Say) -> None:
    """Stop the named workers after their running batches. Raises WorkerStays for one that does not stop."""
    chosen = _find_all(fleet, names)
    for record in chosen:
        fleet.ask(record.name, Wish.DRAIN)
        say(f"{record.name}: asked to drain")
    for record in chosen:
        _await_end(fleet, settings, record)
        if _stays_down(fleet, record):
            say(f"{record.name}: drained")
        else:
            say(f"{record.name}: has ended; if it is started within {WISH_S // 60} minutes, it drains again")


def restart(fleet: Fleet, settings: Settings, names: Sequence[str], say: Say) -> None:
    """Restart the named workers, or all, one by one: each is ready again before the next one drains.

    A worker that somebody drains meanwhile is left out. Only workers with a launcher can be restarted: if one has none,
    InputError is raised before anything happens. A named worker that could not boot is started again by its launcher,
    even if that has given it up.
    """
    unbooted = _unbooted(fleet, names)
    chosen = _find_all(fleet, [each for each in names if each not in unbooted]) if names else fleet.alive()
    if not chosen and not unbooted:
        raise InputError("No worker is alive.", hint="Start some: python -m workers up")
    alone = [record.name for record in chosen if not record.launched]
    if alone:
        raise InputError(
            f"{', '.join(alone)} cannot be restarted: not started by `python -m workers up`.",
            hint="Drain and start it by hand.",
        )
    for failure in dict.fromkeys(unbooted.values()):
        _start_again(fleet, settings, failure, say)
    for before in chosen:
        record = _there_now(fleet, before)
        if record is None:
            say(f"{before.name}: has ended meanwhile, and is not restarted")
            continue
        boot_s = _startup_timeout_s(settings, record) if record.state is WorkerState.BOOTING else 0.0
        successors = _Successors(fleet, record, say)
        if fleet.ask(record.name, Wish.RESTART, boot_s) is Wish.DRAIN:
            say(f"{record.name}: is being drained, and is not restarted")
            continue
        say(f"{record.name}: asked to restart" + (", which it does once it has booted" if boot_s else ""))
        _await_end(fleet, settings, record, boot_s)
        ended = time.monotonic()
        _await_successor(settings, record, successors)
        say(f"{record.name}: ready again {time.monotonic() - ended:.1f} s after it stopped")


def _unbooted(fleet: Fleet, names: Sequence[str]) -> dict[str, BootFailure]:
    """Return name → failure for those of `names` that mean no live worker, but one that could not boot."""
    living = {each.name for each in fleet.alive()}
    failures = [each for each in fleet.boot_failures() if each.worker not in living]
    short = set(map(_short, living))
    found: dict[str, BootFailure] = {}
    for name in names:
        meant = [each for each in failures if each.worker == name] or [
            each for each in failures if _short(each.worker) == name and name not in short
        ]
        if len(meant) == 1:
            found[name] = meant[0]
    return found


def _start_again(fleet: Fleet, settings: Settings, failure: BootFailure, say: Say) -> None:
    """Have the launcher of a worker that could not boot start it again. Raises WorkerStays if it does not, or fails."""
    fleet.ask(failure.worker, Wish.RESTART)
    say(f"{failure.worker}: could not boot; its launcher is asked to start it again")
    _wait(
        lambda: fleet.wish(failure.worker) is None,
        TAKEN_UP_S,
        f"No launcher has taken that up. On its host: python -m workers up --only {_short(failure.worker)}",
    )

    def has_ended() -> bool:
        there = fleet.get(failure.worker)
        return _failure_of(fleet, failure.worker) != failure or (there is not None and there.state is WorkerState.READY)

    _wait(has_ended, settings.server_startup_timeout + GRACE_S, f"{failure.worker} is not ready yet. See its log.")
    if again := _failure_of(fleet, failure.worker):
        raise WorkerStays(f"{failure.worker} could not boot again: {again.reason}")
    say(f"{failure.worker}: booted")


def _failure_of(fleet: Fleet, name: str) -> BootFailure | None:
    return next((each for each in fleet.boot_failures() if each.worker == name), None)


def _there_now(fleet: Fleet, record: WorkerRecord) -> WorkerRecord | None:
    """Return what the worker of `record` reports now, as restarting others may have taken long; None if it has ended.

    If it has no record, it may be restarting by another command: so this waits for a while.
    """
    until = time.monotonic() + STARTING_S
    while (there := fleet.get(record.name)) is None and time.monotonic() < until:
        time.sleep(LOOK_S)
    return there


def _stays_down(fleet: Fleet, record: WorkerRecord) -> bool:
    """Whether the worker of `record`, which has ended, stays down: whether its wish to drain is fulfilled.

    It is not if the worker was killed, or was about to restart. The process that its launcher starts next then reads
    the wish, and ends as well; False if none has done so in time.
    """
    until = time.monotonic() + STARTING_S + GRACE_S
    while record.launched and fleet.wish(record.name) is Wish.DRAIN:
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_S)
    return True


def _await_end(fleet: Fleet, settings: Settings, record: WorkerRecord, boot_s: float = 0.0) -> None:
    """Wait until the process of `record` has ended, which may take `boot_s` longer. Raises WorkerStays."""
    drain_s = settings.drain_timeout_s if record.drain_timeout_s is None else record.drain_timeout_s
    _wait(
        lambda: record.has_ended(fleet.get(record.name)),
        boot_s + drain_s + GRACE_S,
        f"{record.name} did not stop. See its log; its process is {record.pid} on {record.host}.",
    )


def _await_successor(settings: Settings, record: WorkerRecord, successors: _Successors) -> None:
    """Wait until a successor of `record` is ready. Raises WorkerStays."""
    _wait(
        successors.is_ready,
        _startup_timeout_s(settings, record) + GRACE_S,
        f"{record.name} stopped but did not come back. See its log.",
    )


class _Successors:
    """The processes that a launcher starts after the one of a record has ended; says why they could not boot."""

    def __init__(self, fleet: Fleet, before: WorkerRecord, say: Say) -> None:
        self._fleet = fleet
        self._before = before
        self._say = say
        #: The last failure that is known. If the process of the record still boots, that is an earlier one's at first.
        self._last = _failure_of(fleet, before.name)
        self._failed = 0
        #: When one of them was seen alive, or its failure was noticed, or nothing could be seen as Redis was away.
        self._seen = 0.0

    def is_ready(self) -> bool:
        """Whether one of them is ready now. Raises WorkerStays if the launcher seems to start no other."""
        try:
            there = self._fleet.get(self._before.name)
            failure = _failure_of(self._fleet, self._before.name)
        except LedgerError:
            self._seen = time.monotonic()  # nobody can be seen
            raise
        if failure != self._last and failure is not None:
            self._failed += 1
            if self._last is None or failure.reason != self._last.reason:
                self._say(f"{failure.worker}: could not boot: {failure.reason}")
        if there is not None or failure != self._last:
            self._seen = time.monotonic()
        self._last = failure
        if failure is not None and (self._failed >= GIVE_UP_AFTER or time.monotonic() > self._seen + GIVEN_UP_S):
            reason = failure.reason if failure.reason.endswith((".", "?", "!")) else f"{failure.reason}."
            raise WorkerStays(
                f"{failure.worker} could not boot, and its launcher seems to have given it up: {reason}",
                hint=f"Fix that, then: {self._start_again()}",
            )
        return there is not None and there.owner != self._before.owner and there.state is WorkerState.READY

    def _start_again(self) -> str:
        """Return the command that starts it again: a launcher that has no other worker left has ended."""
        left = any(
            each.launched and each.host == self._before.host and each.name != self._before.name
            for each in self._fleet.alive()
        )
        return f"python -m workers restart {self._before.name}" if left else "on its host, python -m workers up"


def _startup_timeout_s(settings: Settings, record: WorkerRecord) -> float:
    """Return how long the worker may boot: as its own deploy file says, which need not be the caller's."""
    return settings.server_startup_timeout if record.startup_timeout_s is None else record.startup_timeout_s


def _wait(condition: Callable[[], bool], timeout_s: float, otherwise: str) -> None:
    """Wait until `condition` holds, also while Redis is away. Raises WorkerStays(otherwise) if that takes too long."""
    until, away = time.monotonic() + timeout_s, False
    while True:
        try:
            holds = condition()
        except LedgerError as trouble:
            if not trouble.retryable or time.monotonic() > until:
                raise
            away = True
        else:
            if away:  # no worker could renew its lease: all would seem to have ended
                away = False
                time.sleep(LEASE_S)
                continue
            if holds:
                return
            if time.monotonic() > until:
                raise WorkerStays(otherwise)
        time.sleep(LOOK_S)


def _short(name: str) -> str:
    """Return the name of a worker on its host."""
    return name.partition("@")[0]
