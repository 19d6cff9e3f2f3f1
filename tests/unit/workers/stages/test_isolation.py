"""Who may ask the engine beside whom."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest

from contract.errors import EngineDead
from tests.support import PATIENCE_S, wait_until
from workers.stages.isolation import Isolation


class Stage:
    """Those who ask of one engine, each in a thread of its own until it is told to end; and who came in which order."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.isolation = Isolation()
        self.came: list[str] = []
        self.there: set[str] = set()
        self._pool = pool
        self._ends: dict[str, threading.Event] = {}
        self._asking: list[Future[None]] = []

    def ask(self, name: str, how: Callable[[], AbstractContextManager[None]]) -> None:
        self._ends[name] = threading.Event()

        def stay() -> None:
            with how():
                self.came.append(name)
                self.there.add(name)
                assert self._ends[name].wait(PATIENCE_S)
                self.there.remove(name)

        self._asking.append(self._pool.submit(stay))

    def end(self, name: str) -> None:
        self._ends[name].set()

    def end_all(self) -> None:
        """What was raised in a thread is raised here."""
        for name in self._ends:
            self.end(name)
        for each in self._asking:
            each.result(PATIENCE_S)

    def wait_for(self, *names: str) -> None:
        wait_until(lambda: self.there == set(names), f"{names} and no other to ask")


@pytest.fixture
def stage() -> Iterator[Stage]:
    with ThreadPoolExecutor() as pool:
        made = Stage(pool)
        yield made
        made.end_all()


def test_batches_ask_beside_each_other(stage: Stage) -> None:
    stage.ask("one", stage.isolation.shared)
    stage.ask("two", stage.isolation.shared)
    stage.wait_for("one", "two")
    assert not stage.isolation.wanted_alone
    stage.end("one")
    stage.end("two")


def test_a_suspect_waits_for_those_who_ask_and_goes_before_those_who_come_later(stage: Stage) -> None:
    stage.ask("batch", stage.isolation.shared)
    stage.wait_for("batch")
    stage.ask("suspect", stage.isolation.exclusive)
    wait_until(lambda: stage.isolation.wanted_alone, "the suspect to wait")
    stage.ask("later", stage.isolation.shared)
    wait_until(lambda: stage.isolation._batches_waiting == 1, "the later one to wait")
    assert stage.came == ["batch"]
    stage.end("batch")
    stage.wait_for("suspect")
    stage.end("suspect")
    stage.wait_for("later")
    stage.end("later")
    assert stage.came == ["batch", "suspect", "later"]


def test_suspects_ask_one_after_the_other_and_who_waits_has_its_turn_between_them(stage: Stage) -> None:
    stage.ask("first", stage.isolation.exclusive)
    stage.wait_for("first")
    stage.ask("one", stage.isolation.shared)
    stage.ask("second", stage.isolation.exclusive)
    stage.ask("two", stage.isolation.shared)
    wait_until(lambda: (stage.isolation._batches_waiting, stage.isolation._suspects) == (2, 2), "all of them to wait")
    assert stage.came == ["first"]
    stage.end("first")
    stage.wait_for("one", "two")
    stage.end("one")
    stage.wait_for("two")
    stage.end("two")
    stage.wait_for("second")
    stage.end("second")


@pytest.mark.parametrize("first", ["shared", "exclusive"])
def test_once_the_engine_died_nobody_begins_anything_here(first: str) -> None:
    isolation = Isolation()
    with pytest.raises(EngineDead, match="poisoned"), getattr(isolation, first)():
        raise EngineDead("poisoned")
    begun = []
    for how in (isolation.shared, isolation.exclusive):
        with pytest.raises(EngineDead, match="poisoned"), how():
            begun.append(how)
    assert begun == []
