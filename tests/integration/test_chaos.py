"""A short piece of `benchmarks/chaos.py`: each fault that takes a second or two, once, by a fixed seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks.chaos import FAULTS, filling, one_round, schedule
from benchmarks.faults.stage import Stage

QUICK = (
    "kill -9 while it waits",
    "kill -9 while it takes a message",
    "kill -9 while it takes more",
    "kill -9 while it gathers",
    "kill -9 while it begins",
    "kill -9 while it generates",
    "kill -9 before it writes",
    "kill -9 while it writes",
    "kill -9 before it acknowledges",
    "kill -9 while it acknowledges",
    "SIGINT twice",
    "SIGQUIT",
    "message delivered twice",
    "message of an unknown run",
    "run purged while it is asked",
    "message of a newer version",
    "message that is rubbish",
    "question for another model",
    "question that makes calls fail",
    "engine out of memory",
    "connections reset",
    "failover to an empty Redis",
    "Redis full",
    "clock that jumps",
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("chaos"), workers=2)
    yield made
    made.close()


@pytest.mark.parametrize("fault", QUICK)
def test_every_question_ends_in_one_verdict_and_every_message_is_acknowledged(stage: Stage, fault: str) -> None:
    for attempt in range(4):
        found = one_round(stage, fault, f"tests/{fault}/{attempt}")
        if "missed" not in found:  # such a round does not count: the run was over, or its worker got nothing of it
            break
    assert "broken" not in found, found
    assert "missed" not in found, found
    assert (found["lost"], found["doubled"], found["left_over"]) == (0, 0, 0)


def test_a_seed_decides_the_schedule_and_a_long_one_has_every_fault() -> None:
    names = list(FAULTS)
    assert schedule(names, 520, seed=1) == schedule(names, 520, seed=1)
    assert schedule(names, 520, seed=1) != schedule(names, 520, seed=2)
    assert set(schedule(names, 520, seed=1)) == set(names)
    assert len(schedule(names, 7, seed=1)) == 7


def test_further_rounds_fill_up_what_a_schedule_has_little_of() -> None:
    plan = ["SIGTERM", "Redis full", "SIGTERM"]
    more = filling(plan, ["SIGTERM", "Redis full", "Redis away for 60 s"], least=4, seed=1)
    assert Counter(plan + more) == {"SIGTERM": 4, "Redis full": 4, "Redis away for 60 s": 3}
