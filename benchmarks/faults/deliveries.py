"""Messages that a broker loses, repeats or makes up."""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from benchmarks.faults.case import Case, Found
from benchmarks.faults.stage import MESSAGE_QUESTIONS, Fault, Stage
from contract import keys
from contract.priority import Priority
from contract.queue import MESSAGE_VERSION, publish

__all__ = ["FAULTS"]

QUESTIONS = 60
#: Where messages of normal priority wait.
WAITING = keys.broker_lists(keys.score_queue("chaos"))[2]


def lost(stage: Stage, rng: random.Random) -> Found:
    """Two messages vanish on their way."""
    stage.victim(rng)
    case = stage.write(QUESTIONS)
    items = _composed(stage, case)
    vanished = {items.pop(rng.randrange(len(items))) for _ in range(2)}
    since = time.monotonic()
    stage.client.rpush(WAITING, *items)
    return case.found(case.wait_settled({each for item in vanished for each in _ids(item)}, since))


def delivered_twice(stage: Stage, rng: random.Random) -> Found:
    """Every message is on the queue twice."""
    stage.victim(rng)
    case = stage.write(QUESTIONS)
    items = _composed(stage, case)
    since = time.monotonic()
    stage.client.rpush(WAITING, *items, *items)
    return case.found(case.wait_progress(since))


def sent_twice(stage: Stage, rng: random.Random) -> Found:
    """The same questions in two sets of messages, as after an audit that came too early."""
    stage.victim(rng)
    case = stage.write(QUESTIONS)
    since = time.monotonic()
    stage.send(case)
    stage.send(case)
    return case.found(case.wait_progress(since))


def of_an_unknown_run(stage: Stage, rng: random.Random) -> Found:
    """Messages of a run that never was, before those of a real one."""
    stage.victim(rng)
    case = stage.write(QUESTIONS)
    since = time.monotonic()
    publish(stage.app, keys.score_queue("chaos"), "no-such-run", [f"q{n}" for n in range(40)], 4, Priority.HIGH)
    stage.send(case)
    return case.found(case.wait_progress(since))


def of_a_purged_run(stage: Stage, rng: random.Random) -> Found:
    """A run is purged while workers are at it; its neighbour must not notice."""
    stage.victim(rng)
    purged, case = stage.write(QUESTIONS), stage.write(QUESTIONS)
    stage.send(purged)
    stage.send(case)
    purged.wait_progress(time.monotonic())
    stage.ledger.purge(purged.run.run_id)
    found = case.found(case.wait_progress(time.monotonic()))
    if stage.client.exists(*keys.RunKeys(purged.run.run_id).all()):
        raise AssertionError(f"something of the purged run {purged.run.run_id} came back")
    return found


def of_a_newer_version(stage: Stage, rng: random.Random) -> Found:
    """Messages of tomorrow's producer: put off however often they come, dropped once their questions are settled."""
    stage.victim(rng)
    tomorrows, case = stage.write(8), stage.write(QUESTIONS)
    since = time.monotonic()
    stage.client.rpush(WAITING, *(_edited(each, _to_tomorrow) for each in _composed(stage, tomorrows)))
    stage.send(case)
    went_on_s = case.wait_progress(since)
    case.wait_finished()
    if settled := tomorrows.settled():
        raise AssertionError(f"{len(settled)} questions were settled by workers that cannot understand their message")
    stage.send(tomorrows)
    tomorrows.wait_finished()
    return case.found(went_on_s)


def that_are_rubbish(stage: Stage, rng: random.Random) -> Found:
    """Messages without version, with arguments of other types, and of no task at all."""
    stage.victim(rng)
    case = stage.write(QUESTIONS)
    items = _composed(stage, case)
    rubbish = [_edited(items[0], edit) for edit in (_to_nonsense, _to_no_version, _to_no_task)]
    since = time.monotonic()
    stage.client.rpush(WAITING, *items, *rubbish)
    return case.found(case.wait_progress(since))


def _composed(stage: Stage, case: Case) -> list[str]:
    """The messages of `case`, taken from a queue that nobody serves, as they would lie in the real one."""
    aside = keys.broker_lists(keys.score_queue("aside"))[2]
    publish(
        stage.app,
        keys.score_queue("aside"),
        case.run.run_id,
        stage.ledger.unsettled(case.run.run_id),
        MESSAGE_QUESTIONS,
    )
    items = cast("list[str]", stage.client.lrange(aside, 0, -1))
    stage.client.delete(aside)
    return [each.replace(keys.score_queue("aside"), keys.score_queue("chaos")) for each in items]


def _ids(item: str) -> list[str]:
    return cast("list[str]", json.loads(base64.b64decode(json.loads(item)["body"]))[0][1])


def _edited(item: str, edit: Callable[[dict[str, Any], list[Any]], None]) -> str:
    message = json.loads(item)
    body = json.loads(base64.b64decode(message["body"]))
    edit(message, body)
    message["body"] = base64.b64encode(json.dumps(body).encode()).decode()
    return json.dumps(message)


def _to_tomorrow(_: dict[str, Any], body: list[Any]) -> None:
    body[1]["version"] = MESSAGE_VERSION + 1


def _to_nonsense(_: dict[str, Any], body: list[Any]) -> None:
    body[0] = [7, None]


def _to_no_version(_: dict[str, Any], body: list[Any]) -> None:
    body[1] = {}


def _to_no_task(message: dict[str, Any], _: list[Any]) -> None:
    message["headers"]["task"] = "mcqueue.no_such_task"


FAULTS: Mapping[str, tuple[int, Fault]] = {
    "message lost by the broker": (10, lost),
    "message delivered twice": (12, delivered_twice),
    "question sent in two messages": (8, sent_twice),
    "message of an unknown run": (8, of_an_unknown_run),
    "run purged while it is asked": (8, of_a_purged_run),
    "message of a newer version": (6, of_a_newer_version),
    "message that is rubbish": (6, that_are_rubbish),
}
