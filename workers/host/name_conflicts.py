"""Check, before anything boots, that the names of a launcher's workers are free.

A worker whose name is taken exits with EXIT_RETRY, and its launcher restarts it, as the other one may just have died or
be about to stop. If the other one stays, that would go on forever, so the launcher checks first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from contract.errors import NameTaken
from contract.fleet import LEASE_S, Fleet, WorkerRecord, WorkerState
from contract.process import process_place

__all__ = ["refuse_taken"]

LOOK_S = 0.2


def refuse_taken(fleet: Fleet, names: Sequence[str], say: Callable[[str], object]) -> None:
    """Raise NameTaken if workers called `names` are alive and not about to stop; wait for those that are.

    A record alone may be that of a killed worker whose lease has not expired, so this waits for the next heartbeat. It
    may also be the child of a killed launcher, whose next heartbeat reports that it is draining.
    """
    found = [record for name in names if (record := fleet.get(name)) and not record.died_here()]
    if not found:
        return
    known = ", ".join(each.name for each in found)
    say(f"Redis already lists {known}: waiting up to {LEASE_S} s for a heartbeat")
    beating = _beating(fleet, found)
    staying = [record for record in beating if record.state is not WorkerState.DRAINING]
    if staying:
        raise NameTaken(f"Already running: {', '.join(map(_describe, staying))}.", hint=_remedy(staying, names))
    if beating:
        _await_end(fleet, beating, say)


def _beating(fleet: Fleet, found: Sequence[WorkerRecord]) -> list[WorkerRecord]:
    """Return the next heartbeats of the workers in `found`; those that are gone or silent have none."""
    silent, said = list(found), []
    until = time.monotonic() + LEASE_S
    while silent and time.monotonic() < until:
        time.sleep(LOOK_S)
        pairs = [(before, fleet.get(before.name)) for before in silent]
        said += [now for before, now in pairs if now and now.seen_at != before.seen_at]
        silent = [now for before, now in pairs if now and now.seen_at == before.seen_at and not now.died_here()]
    return said


def _await_end(fleet: Fleet, draining: Sequence[WorkerRecord], say: Callable[[str], object]) -> None:
    """Wait until workers that are draining have ended, or for as long as they may take."""
    within_s = LEASE_S + max(each.drain_timeout_s or 0.0 for each in draining)
    say(f"{', '.join(map(_describe, draining))}: waiting up to {within_s:g} s for the end")
    until, left = time.monotonic() + within_s, list(draining)
    while left and time.monotonic() < until:
        time.sleep(LOOK_S)
        left = [each for each in left if not each.has_ended(fleet.get(each.name))]


def _describe(record: WorkerRecord) -> str:
    return f"{record.name} ({record.state}, {record.model}, pid {record.pid})"


def _remedy(staying: Sequence[WorkerRecord], names: Sequence[str]) -> str:
    if elsewhere := [each.name for each in staying if each.place != process_place()]:
        where = "on another machine or in another container with the same host name"
        return f"{', '.join(elsewhere)}: {where}. Give each a host name of its own."
    taken = [each.name for each in staying]
    those = " ".join(taken)
    ways = [f"To restart: python -m workers restart {those}."] if all(each.launched for each in staying) else []
    ways.append(f"To stop: python -m workers drain {those}.")
    if free := [name.partition("@")[0] for name in names if name not in taken]:
        ways.append(f"To start only the others, add {' '.join(f'--only {name}' for name in free)} to this command.")
    ways.append("To add a worker under another name: python -m workers run -n NAME.")
    return " ".join(ways)
