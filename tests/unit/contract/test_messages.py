"""What is read of a message on its way: by workers of any version, and by who looks for lost ones."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from contract.priority import Priority
from contract.queue import by_priority, shown_arguments, task_name
from contract.queue.messages import arguments_in, published_at

NO_TIMES: list[Any] = [None, "now", [], 10**400]


def waiting(content: Any) -> str:
    """A message with this content, as it waits on a queue."""
    return json.dumps({"body": base64.b64encode(json.dumps(content).encode()).decode()})


def test_tasks_are_called_what_workers_of_all_versions_call_them() -> None:
    assert task_name("score.org/Model-1.5") == "mcqueue.score"
    assert task_name("retrieve.facts") == "mcqueue.retrieve"


def test_an_onlooker_is_shown_the_run_and_the_number_of_its_questions() -> None:
    assert [shown_arguments("run", n) for n in (0, 1, 2)] == ["run: 0 questions", "run: 1 question", "run: 2 questions"]


def test_questions_are_found_in_a_message_that_waits_and_in_one_that_is_held() -> None:
    message = waiting([["run", ["q0", "q1"]], {"published_at": 7}, {}])
    assert arguments_in(message) == ("run", ["q0", "q1"])
    assert arguments_in(json.dumps([json.loads(message), "", "score.m"])) == ("run", ["q0", "q1"])
    assert published_at(message) == 7.0


@pytest.mark.parametrize(
    "message",
    [
        "",
        "no message",
        "[]",
        "7",
        "{}",
        '{"body": 7}',
        '{"body": "not base64!"}',
        "[" * 100_000,
        *map(waiting, (None, 7, [], [7], [[]], [["run"]], [["run", ["q0"], 7]])),
        *map(waiting, ([["run", 7]], [["run", "q0"]], [["run", {"q0": 1}]], [[7, ["q0"]]], [[None, ["q0"]]])),
    ],
)
def test_of_what_is_no_message_no_question_is_found_and_who_looks_goes_on(message: str) -> None:
    assert arguments_in(message) == ("", [])


def test_of_ids_only_those_are_found_that_questions_can_have() -> None:
    assert arguments_in(waiting([["run", ["q0", 7, ["q1"], None, "q2"]], {}, {}])) == ("run", ["q0", "q2"])


@pytest.mark.parametrize(
    "message",
    [
        "",
        "[]",
        '{"body": 7}',
        *map(waiting, (None, [], [[]], [[], 7], [[], {}, {}])),
        *(waiting([[], {"published_at": each}, {}]) for each in NO_TIMES),
    ],
)
def test_what_is_no_message_was_never_published(message: str) -> None:
    assert published_at(message) is None


def test_messages_of_a_priority_that_is_none_of_ours_count_as_the_next_more_urgent_one() -> None:
    assert by_priority([1, 2, 4, 8]) == {Priority.HIGH: 3, Priority.NORMAL: 4, Priority.LOW: 8}
    with pytest.raises(ValueError, match="shorter"):
        by_priority([1, 2])
