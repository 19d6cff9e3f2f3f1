"""A call that is too big is made smaller, and one that never ends is noticed."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from contract import load_settings
from contract.errors import EngineError, EngineOutOfMemory
from contract.turns import one_turn
from tests.support import PATIENCE_S, make_questions, wait_until
from tests.unit.workers.ready_engine import SlowTexts
from workers.engines import guarded as module
from workers.engines.base import Completion, Engine, Part, Request, ScoreRequest
from workers.engines.guarded import LOOK_S, SHARED_TRIES, GuardedEngine
from workers.engines.simulated import SimulatedEngine

DEADLINE_S = 60.0
DEADLINE = f"batch_deadline_s={DEADLINE_S}"


class Counting(SimulatedEngine):
    """The simulated engine, with the sizes of its calls; a request with `too_big` in it never fits."""

    def __init__(self, *overrides: str, too_big: str = "") -> None:
        super().__init__(load_settings(None, ["engine=simulated", *overrides]))
        self.calls: list[int] = []
        self._too_big = too_big

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        self.calls.append(len(requests))
        if self._too_big and any(self._too_big in each.prompt for each in requests):
            raise EngineOutOfMemory("too big by itself")
        return super().generate(requests)


def requests(count: int) -> list[ScoreRequest]:
    return [ScoreRequest(one_turn(each.question), each.choices) for each in make_questions(count)]


class Clock:
    """The time by which deadlines are judged: a busy machine does not move it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._now_s = 0.0
        patch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self._now_s))

    def pass_by(self, seconds: float) -> None:
        self._now_s += seconds

    def pass_until(self, event: threading.Event) -> None:
        """Let time pass until `event`: a call may not have begun yet."""

        def happens() -> bool:
            self.pass_by(10 * DEADLINE_S)
            return event.wait(LOOK_S)

        wait_until(happens, "the end of the time limit")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def guarded(engine: SimulatedEngine, on_hang: threading.Event | None = None) -> GuardedEngine:
    found = GuardedEngine(engine, (on_hang or threading.Event()).set)
    found.start()
    return found


def test_a_call_that_does_not_fit_is_halved_and_the_size_remembered() -> None:
    engine = Counting("simulated.room=5")
    door = guarded(engine)
    asked = requests(16)
    assert door.generate(asked) == [engine._complete(each) for each in asked]
    assert engine.calls == [16, 8, 4, 4, 4, 4]
    engine.calls.clear()
    door.generate(asked)
    assert engine.calls == [4, 4, 4, 4]
    door.close()


def test_a_request_that_never_fits_fails_alone_and_teaches_nothing_about_numbers() -> None:
    engine = Counting(too_big="What is 5 plus 5?")
    door = guarded(engine)
    completions = door.generate(requests(16))
    failed = [number for number, each in enumerate(completions) if each.error]
    assert failed == [5]
    assert completions[5].error is not None
    assert completions[5].error.type == "EngineOutOfMemory"
    assert engine.calls[-1] == 10, "what follows it goes in one call again"
    door.close()


def test_an_engine_that_gives_no_answer_is_not_asked_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Counting()
    monkeypatch.setattr(engine, "answers", lambda _: iter(()))
    door = guarded(engine)
    assert list(door.answers(requests(2))) == []
    door.close()


class Together(SimulatedEngine):
    """Calls that run together run out of memory together, as often as `times`."""

    def __init__(self, calls: int, times: int = 1) -> None:
        super().__init__(load_settings(None, ["engine=simulated"]))
        self._at_once = threading.Barrier(calls)
        self._times = times
        self.calls: list[int] = []

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        self.calls.append(len(requests))
        if self._times:
            if self._at_once.wait(PATIENCE_S) == 0:
                self._times -= 1
                self._shortage = EngineOutOfMemory("full", shared=True)
            self._at_once.wait(PATIENCE_S)
            raise self._shortage
        return super().generate(requests)


def at_once(door: GuardedEngine, *sizes: int) -> list[list[Completion]]:
    with ThreadPoolExecutor(len(sizes)) as pool:
        return list(pool.map(door.generate, map(requests, sizes)))


@pytest.mark.parametrize("sizes", [(16, 2), (2, 16), (1, 16)])
def test_of_calls_that_do_not_fit_together_the_largest_says_what_fits(sizes: tuple[int, int]) -> None:
    engine = Together(calls=2)
    door = guarded(engine)
    assert not any(each.error for completions in at_once(door, *sizes) for each in completions)
    engine.calls.clear()
    door.generate(requests(16))
    assert engine.calls == [8, 8]
    door.close()


def test_of_many_requests_asked_alone_each_is_asked_again_where_others_took_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those before it in its call had used its tries up, and it was failed as too big by itself."""
    engine = Counting("simulated.room=1")
    door = guarded(engine)
    door.generate(requests(2))  # teaches that one fits
    answer, shortages = engine.generate, iter([True, False] * (SHARED_TRIES + 2))

    def beside_others(asked: Sequence[Request]) -> list[Completion]:
        if next(shortages):
            raise EngineOutOfMemory("full", shared=True)
        return answer(asked)

    monkeypatch.setattr(engine, "generate", beside_others)
    assert [each.error for each in door.generate(requests(SHARED_TRIES + 2))] == [None] * (SHARED_TRIES + 2)
    door.close()


def test_a_request_that_never_fits_beside_another_fails_in_the_end() -> None:
    door = guarded(Together(calls=2, times=1 + SHARED_TRIES))
    types = [each.error and each.error.type for completions in at_once(door, 1, 1) for each in completions]
    assert types == ["EngineOutOfMemory"] * 2
    assert not door.generate(requests(1))[0].error
    door.close()


def test_a_part_without_an_answer_gives_a_request_asked_alone_no_more_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's engine yields one whenever some seconds have passed: the request would be asked for ever."""
    engine = Counting()
    tries = 0

    def full(_: Sequence[Request]) -> Iterator[Part]:
        nonlocal tries
        tries += 1
        assert tries <= 1 + SHARED_TRIES
        yield []
        raise EngineOutOfMemory("full", shared=True)

    monkeypatch.setattr(engine, "answers", full)
    door = guarded(engine)
    (completion,) = door.generate(requests(1))
    assert completion.error is not None
    assert (completion.error.type, tries) == ("EngineOutOfMemory", 1 + SHARED_TRIES)
    door.close()


def test_other_troubles_of_a_call_pass_through() -> None:
    door = guarded(Counting("simulated.crash_text=plus"))
    with pytest.raises(EngineError, match="simulated fault"):
        door.generate(requests(2))
    door.close()


def test_a_call_that_never_ends_is_noticed_and_one_that_ends_is_not(clock: Clock) -> None:
    hung = threading.Event()
    door = guarded(Counting("simulated.hang_text=What is 3 plus", DEADLINE), hung)
    door.generate(requests(3))
    clock.pass_by(2 * DEADLINE_S)
    assert not hung.wait(3 * LOOK_S), "nothing is running"
    threading.Thread(target=door.generate, args=(requests(4),), daemon=True).start()
    clock.pass_until(hung)
    door.close()


def test_the_log_of_a_worker_whose_engine_hangs_ends_with_the_reason(
    clock: Clock, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.log, "handlers", [logging.StreamHandler(sys.stderr)])
    hung = threading.Event()
    door = guarded(Counting("simulated.hang_text=What is 3 plus", DEADLINE), hung)
    threading.Thread(target=door.generate, args=(requests(4),), daemon=True).start()
    clock.pass_until(hung)
    door.close()
    stacks, _, after = capfd.readouterr().err.rpartition("  File ")
    assert "most recent call first" in stacks
    assert f"the engine has not answered for {DEADLINE_S:g} s (batch_deadline_s)" in after


def test_of_a_call_that_does_not_fit_only_what_it_left_unanswered_is_asked_again() -> None:
    class Full(SlowTexts):
        def answers(self, requests: Sequence[Request]) -> Iterator[Part]:
            self._trouble = None if len(requests) <= 2 else EngineOutOfMemory("full")
            return super().answers(requests)

    engine = Full(load_settings(), "plus 1?")
    door = GuardedEngine(engine, on_hang=threading.Event().set)
    asked = requests(5)
    parts = [[i for i, _ in part] for part in door.answers(asked)]
    slow = [i for i, each in enumerate(asked) if "plus 1?" in each.prompt]
    assert sorted(i for part in parts for i in part) == list(range(5))
    assert parts[0] == [i for i in range(5) if i not in slow]
    assert engine.calls == [5, len(slow)]


def test_the_deadline_is_for_the_engine_and_begins_anew_with_every_part_of_a_call(clock: Clock) -> None:
    hung = threading.Event()

    class Stuck(SlowTexts):
        def answers(self, requests: Sequence[Request]) -> Iterator[Part]:
            yield from super().answers(requests)
            threading.Event().wait()

    door = GuardedEngine(Stuck(load_settings(None, [DEADLINE]), "plus 1?"), hung.set)
    door.start()
    parts = door.answers(requests(3))
    next(parts)
    clock.pass_by(2 * DEADLINE_S)
    assert not hung.wait(3 * LOOK_S), "whoever takes its time with a part, as while Redis is away, is not the engine"
    next(parts)
    threading.Thread(target=next, args=(parts,), daemon=True).start()
    clock.pass_until(hung)


def test_an_engine_that_is_only_looked_at_has_not_answered(clock: Clock) -> None:
    hung = threading.Event()

    class Silent(SlowTexts):
        def answers(self, requests: Sequence[Request]) -> Iterator[Part]:
            for _ in range(8):
                clock.pass_by(DEADLINE_S / 2)
                hung.wait(1.5 * LOOK_S)  # the watchdog looks
                yield []
            yield from super().answers(requests)

    door = GuardedEngine(Silent(load_settings(None, [DEADLINE]), "nothing is slow"), hung.set)
    door.start()
    door.generate(requests(1))
    assert hung.is_set()


def test_a_call_that_waits_behind_others_is_no_hung_one_while_these_are_answered(clock: Clock) -> None:
    hung, may_end = threading.Event(), threading.Event()

    class Busy(SlowTexts):
        def answers(self, requests: Sequence[Request]) -> Iterator[Part]:
            if len(requests) == 1:
                may_end.wait(PATIENCE_S)
            for part in super().answers(requests):
                for at in range(len(part)):
                    clock.pass_by(DEADLINE_S / 2)
                    time.sleep(1.5 * LOOK_S)  # the watchdog looks
                    yield part[at : at + 1]

    door = GuardedEngine(Busy(load_settings(None, [DEADLINE]), "nothing is slow"), hung.set)
    door.start()
    waits = threading.Thread(target=door.generate, args=(requests(1),), daemon=True)
    waits.start()
    door.generate(requests(6))
    assert not hung.is_set(), "one call had no answer for three deadlines, and the engine none for half of one at most"
    may_end.set()
    waits.join(PATIENCE_S)
    assert not waits.is_alive()
    door.close()


def test_an_engine_that_gets_answers_is_not_hung_while_it_finishes_no_request(clock: Clock) -> None:
    hung = threading.Event()

    class Piecemeal(SlowTexts):
        def answers(self, requests: Sequence[Request]) -> Iterator[Part]:
            for _ in range(4):
                clock.pass_by(DEADLINE_S / 2)
                self.answered()
                time.sleep(1.5 * LOOK_S)  # the watchdog looks
                yield []
            yield from super().answers(requests)

    door = GuardedEngine(Piecemeal(load_settings(None, [DEADLINE]), "nothing is slow"), hung.set)
    door.start()
    assert len(door.generate(requests(2))) == 2
    assert not hung.is_set()
    door.close()


def test_an_engine_that_waits_for_a_server_is_not_hung(clock: Clock) -> None:
    hung, may_end = threading.Event(), threading.Event()

    class Waiting(SlowTexts):
        @property
        def waits_for(self) -> str:
            return "" if may_end.is_set() else "the server"

        def answers(self, requests: Sequence[Request]) -> Iterator[Part]:
            may_end.wait(PATIENCE_S)
            yield from super().answers(requests)

    door = GuardedEngine(Waiting(load_settings(None, [DEADLINE]), "nothing is slow"), hung.set)
    door.start()
    waits = threading.Thread(target=door.generate, args=(requests(1),), daemon=True)
    waits.start()
    for _ in range(3):
        clock.pass_by(2 * DEADLINE_S)
        assert not hung.wait(2 * LOOK_S)
    may_end.set()
    waits.join(PATIENCE_S)
    assert not hung.is_set()
    door.close()


def test_nothing_that_an_engine_can_do_is_lost_behind_the_guard() -> None:
    own = {name for name, value in vars(GuardedEngine).items() if callable(value)}
    wanted = {name for name, value in vars(Engine).items() if callable(value) and not name.startswith("_")}
    assert wanted - {"generate"} <= own, "which is made of `answers`"


@pytest.mark.parametrize("counts", [True, False])
def test_a_guarded_engine_measures_and_is_described_as_the_engine_itself(
    monkeypatch: pytest.MonkeyPatch, counts: bool
) -> None:
    monkeypatch.setattr(SimulatedEngine, "counts_tokens", counts)
    engine, asked = Counting("vllm_args.max_model_len=4", "simulated.call_ms=1"), requests(2)
    door = GuardedEngine(engine, lambda: None)
    assert door.counts_tokens is counts
    assert door.describe() == engine.describe() != {}
    assert door.excess_tokens(asked) == engine.excess_tokens(asked) != [0, 0]
    assert door.count_tokens(["one two"]) == [2]
    assert door.count_prompt_tokens(asked) == engine.count_prompt_tokens(asked)
