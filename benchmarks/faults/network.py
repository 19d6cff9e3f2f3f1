"""Lines that break, and lines that say nothing any more."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from benchmarks.faults.case import Found
from benchmarks.faults.proxy import Proxy
from benchmarks.faults.stage import Fault, Stage

__all__ = ["FAULTS", "left_out"]

QUESTIONS = 320
#: Both ends of the pair of virtual interfaces; other processes of the programme have others.
HERE, THERE = (f"10.231.{os.getpid() % 250}.{end}" for end in (1, 2))


def cut(stage: Stage, rng: random.Random) -> Found:
    """All connections of one worker are reset in mid-run."""
    victim = stage.victim(rng)
    case = stage.enqueue(QUESTIONS)
    concerned = case.taken_by(victim)
    since = time.monotonic()
    victim.proxy.cut()
    return case.found(case.went_on_s(concerned, since))


def black_hole(stage: Stage, rng: random.Random) -> Found:
    """Nothing gets through between the workers and Redis for some seconds, and nobody is told."""
    victim = stage.victim(rng)
    case = stage.enqueue(QUESTIONS)
    case.taken_by(victim)
    for worker in stage.workers:
        worker.proxy.black_hole()
    time.sleep(rng.uniform(1.0, 8.0))
    for worker in stage.workers:
        worker.proxy.heal()
    since = time.monotonic()
    return case.found(case.went_on_s(case.ids, since))


def link_down(stage: Stage, rng: random.Random) -> Found:
    """A worker in a network namespace whose interface goes down for 5 to 20 s: its questions must not wait for it."""
    with _namespace() as space:
        proxy = Proxy(stage.upstream, HERE)
        try:
            with stage.special_worker("chaos", prefix=("ip", "netns", "exec", space), url=proxy.url) as victim:
                case = stage.enqueue(QUESTIONS * 2)
                concerned = case.taken_by(victim)
                since = time.monotonic()
                _ip("link", "set", f"{space}0", "down")
                went_on_s = case.went_on_s(concerned, since)
                time.sleep(max(0.0, rng.uniform(5.0, 20.0) - (time.monotonic() - since)))
                _ip("link", "set", f"{space}0", "up")
                late = stage.enqueue(40)
                late.found()
                return case.found(went_on_s)
        finally:
            proxy.close()


def host_gone(stage: Stage, rng: random.Random) -> Found:
    """Kill -9 of a worker whose process nobody here can see, as on another host: only its lease tells."""
    prefix = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    with stage.special_worker("chaos", prefix=prefix) as victim:
        case = stage.enqueue(QUESTIONS * 2)
        concerned = case.taken_by(victim)
        time.sleep(rng.uniform(0.0, 0.2))
        concerned = case.held_by(victim) - case.settled() or concerned
        since = time.monotonic()
        victim.end()
        stage.workers.remove(victim)  # it does not come back
        try:
            return case.found(case.went_on_s(concerned, since))
        finally:
            stage.workers.append(victim)


@contextmanager
def _namespace() -> Iterator[str]:
    """A network namespace with one way out: to HERE."""
    name = f"chaos{os.getpid() % 10**6}"
    _ip("netns", "add", name)
    try:
        _ip("link", "add", f"{name}0", "type", "veth", "peer", "name", f"{name}1", "netns", name)
        _ip("addr", "add", f"{HERE}/30", "dev", f"{name}0")
        _ip("link", "set", f"{name}0", "up")
        for words in (("addr", "add", f"{THERE}/30", "dev", f"{name}1"), ("link", "set", f"{name}1", "up")):
            _ip("-n", name, *words)
        yield name
    finally:
        subprocess.run(["ip", "link", "del", f"{name}0"], check=False, capture_output=True)  # at once, and the pair
        _ip("netns", "del", name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _may_make_namespaces() -> bool:
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
        return False
    try:
        with _namespace():
            return True
    except subprocess.CalledProcessError:
        return False


#: What needs rights that not everybody has.
_PRIVILEGED: Mapping[str, tuple[int, Fault]] = {
    "network interface down, 5 to 20 s": (2, link_down),
    "worker on another host gone": (3, host_gone),
}
FAULTS: Mapping[str, tuple[int, Fault]] = {
    "connections reset": (12, cut),
    "black hole, 1 to 8 s": (6, black_hole),
    **_PRIVILEGED,
}


def left_out() -> dict[str, str]:
    """Fault → why it cannot be played here. To know it, a network namespace is made, and gone again."""
    if _may_make_namespaces():
        return {}
    return dict.fromkeys(_PRIVILEGED, "needs root, `ip` and `unshare`, for namespaces")
