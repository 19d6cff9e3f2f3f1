"""Malformed messages, in front of a real worker. A corner of `benchmarks.fuzz`."""

from __future__ import annotations

import base64
import contextlib
import json
import random
from pathlib import Path
from typing import Any

import redis

from benchmarks.made_up import made_up_question, made_up_run, made_up_spec
from benchmarks.rubbish import Result, mutated
from benchmarks.stand import stand, worker
from benchmarks.waiting import lives, wait_until
from contract import RedisLedger, keys
from contract.queue import make_celery, publish
from contract.verdict import Outcome

__all__ = ["fuzz_messages"]

#: Name of the worker.
NAME = "w0@bench"
MODEL = "fuzzed"
GOOD = 1000


def _bad_message(chance: random.Random, good: str) -> bytes:
    """Return a good message of the queue, corrupted in one or two places, or sometimes something else entirely."""
    if chance.random() < 0.1:
        return chance.choice((*NOTHING, chance.randbytes(chance.randint(1, 99))))
    if chance.random() < 0.1:
        return mutated(chance, good).encode("utf-8", "surrogatepass")
    message = json.loads(good)
    message["properties"]["delivery_tag"] = f"{chance.getrandbits(128):032x}"
    if chance.random() < 0.7:
        message["headers"]["id"] = f"{chance.getrandbits(128):032x}"
    for wound in chance.sample((_wound_body, _wound_headers, _wound_properties, _wound_type), chance.randint(1, 2)):
        wound(chance, message)
    return json.dumps(message).encode()


#: Contents that are no message.
NOTHING = (
    b"", b"null", b"[]", b"{}", b"7", b'"x"', b"\xff\xfe", b"{" * 2000, b"[" * 100_000, b"nan", b'{"a":nan}',
)  # fmt: skip
#: Values to put where others belong.
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1e308, 10**400, "", "x", [], {}, [[]], [None], {"a": 1}, "\x00\x1b[31m", "é" * 1000,
    float("nan"), float("inf"), {"__type__": "datetime", "__value__": "x"}, {"__type__": "Decimal", "__value__": []},
)  # fmt: skip


def _wound_body(chance: random.Random, message: dict[str, Any]) -> None:
    arguments, named, embedded = json.loads(base64.b64decode(message["body"]))
    kind = chance.randrange(8)
    if kind == 0:
        message["body"] = chance.choice((*ODD, "not base64!", "A", base64.b64encode(chance.randbytes(50)).decode()))
        return
    if kind == 1:
        content = chance.choice(ODD)
    elif kind == 2:
        content = [chance.choice(ODD), named, embedded]
    elif kind == 3:
        content = [[arguments[0], chance.choice((*ODD, ["q0"] * 5000, ["q0", 7], [["q0"]]))], named, embedded]
    elif kind == 4:
        content = [[chance.choice(ODD), arguments[1]], named, embedded]
    elif kind == 5:
        content = [arguments, {**named, chance.choice(["version", "published_at"]): chance.choice(ODD)}, embedded]
    elif kind == 6:
        content = [arguments, chance.choice(ODD), embedded]
    else:
        content = [[*arguments, *arguments], named, embedded]
    message["body"] = base64.b64encode(json.dumps(content).encode()).decode()


HEADERS = (
    "task", "id", "eta", "expires", "timelimit", "compression", "stamps", "lang", "root_id", "argsrepr", "retries",
)  # fmt: skip


def _wound_headers(chance: random.Random, message: dict[str, Any]) -> None:
    if chance.random() < 0.2:
        message["headers"] = chance.choice(ODD)
    elif isinstance(message["headers"], dict):
        strange = (*ODD, "mcqueue.retrieve", "celery.ping", "zlib", "os.system")
        message["headers"][chance.choice(HEADERS)] = chance.choice(strange)
        if chance.random() < 0.3:
            message["headers"].pop(chance.choice(HEADERS), None)


def _wound_properties(chance: random.Random, message: dict[str, Any]) -> None:
    properties = message["properties"]
    if chance.random() < 0.1 or not isinstance(properties, dict):
        message["properties"] = chance.choice(ODD)
        return
    name = chance.choice(("delivery_tag", "delivery_info", "body_encoding", "priority", "reply_to", "correlation_id"))
    properties[name] = chance.choice(
        (*ODD, {"exchange": None, "routing_key": 1}, {"exchange": "", "routing_key": "elsewhere"})
    )
    if chance.random() < 0.3:
        properties.pop(name)


def _wound_type(chance: random.Random, message: dict[str, Any]) -> None:
    kinds = ("application/x-python-serialize", "application/x-yaml", "application/data", "text/plain", "x/y")
    message[chance.choice(("content-type", "content-encoding"))] = chance.choice((*kinds, "binary", "utf-99", *ODD))


def fuzz_messages(inputs: int, seed: int) -> Result:
    """Mix `inputs` bad messages with those of a good run, in front of one worker."""
    result = Result("messages")
    with stand(engine="simulated", model=MODEL, batch_timeout=0.1, batch_size=16) as at:
        ledger, app = at.ledger, make_celery(at.settings)
        lists = keys.broker_lists(keys.score_queue(MODEL))
        questions = [made_up_question(number) for number in range(GOOD)]
        run = made_up_run("fuzz", questions, made_up_spec(questions, MODEL))
        ledger.open_run(run)
        ledger.add_questions(run.run_id, questions)
        publish(app, keys.score_queue(MODEL), run.run_id, ledger.unsettled(run.run_id), batch_size=4)
        _strew(ledger.client, lists, inputs, seed)
        with worker(at) as ours:
            with contextlib.suppress(TimeoutError):
                wait_until(lambda: _is_done(ledger, run.run_id, lists) or not lives(ours.process), 600)
            alive, left = lives(ours.process), sum(ledger.client.llen(name) for name in lists)
            held = ledger.client.hlen(keys.unacked(NAME))
        counts = ledger.counts(run.run_id)
        result.inputs, result.refused = inputs, _dropped(ours.log)
        app.close()
    result.accepted = inputs - result.refused
    facts = {"the worker died": not alive, f"messages left: {left}": left, f"messages held: {held}": held}
    facts[f"good questions without a verdict: {counts.todo}"] = counts.todo
    facts[f"good questions that failed: {counts.of(Outcome.FAILED)}"] = counts.of(Outcome.FAILED)
    result.broken = [what for what, is_so in facts.items() if is_so]
    return result


def _strew(client: redis.Redis, lists: list[str], inputs: int, seed: int) -> None:
    """Put bad messages between the good ones, and into every list."""
    good = [str(each) for each in client.lrange(lists[2], 0, -1)]
    everything = [(lists[2], each.encode()) for each in good]
    for number in range(inputs):
        chance = random.Random(f"message {seed} {number}")
        everything.append((chance.choice(lists), _bad_message(chance, chance.choice(good))))
    random.Random(seed).shuffle(everything)
    client.delete(lists[2])
    for start in range(0, len(everything), 500):
        pipeline = client.pipeline(transaction=False)
        for name, message in everything[start : start + 500]:
            pipeline.lpush(name, message)
        pipeline.execute()


def _is_done(ledger: RedisLedger, run_id: str, lists: list[str]) -> bool:
    waiting = sum(ledger.client.llen(name) for name in lists)
    return not waiting and not ledger.client.hlen(keys.unacked(NAME)) and ledger.counts(run_id).finished


def _dropped(log: Path) -> int:
    """Return the number of messages that the worker refused according to its log."""
    said = ("something that is not a message was dropped", "an unreadable message was dropped")
    celery_says = (
        "Received invalid task message",
        "Received unregistered task",
        "Can't decode message body",
        "Received and deleted",
    )
    return sum(
        any(each in line for each in (*said, *celery_says)) for line in log.read_text(errors="replace").splitlines()
    )
