"""Rubbish in, an answer out: configuration files, options, environment and messages as nobody should send them.

    python -m benchmarks.fuzz [--inputs 4000] [--seed 0] [--only CORNER]

Each corner makes `--inputs` inputs from a seed and hands them to the code that reads them in earnest. An input may be
accepted or refused with an expected error. Anything else is broken: another exception, a reading that takes more than
`SLOW_S` of the processor's time, a password in what is said. Messages go to a real worker (simulated engine) on a real
Valkey, among those of a good run: the worker must be the same process afterwards, hold and leave nothing, and have
scored the good run.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from benchmarks.record import print_table, write
from contract import RedisLedger, keys, load_settings
from contract.errors import McqueueError
from contract.queue import make_celery, publish
from contract.settings import PREFIX, Settings
from demo.valkey import serve
from producer.runconfig import RunConfig, load_run_config
from tests.support import SIMULATED_MODEL, make_questions, open_run, wait_until, worker

__all__ = ["CORNERS", "Result", "fuzz", "fuzz_messages"]

SLOW_S = 5.0
MEMORY_BYTES = 8 << 30
ROOT = Path(__file__).parent.parent
LEFT, RIGHT = "correcthorse", "batterystaple"

#: Values that somebody's YAML might have, whatever the setting.
HOSTILE = (
    "null", "~", "true", "[]", "{}", "''", "-1", "0", "1e999", "-.inf", ".nan", "0x_", "0b", "9" * 5000, "1_000",
    "2026-13-45", "2026-01-01", "12:30:45", "!!int x", "!!float ''", "!!python/object/apply:os.system ['x']",
    "!!binary zz", "!!timestamp x", "!!set {a, b}", "!!omap [a]", "&a [*a]", "*nothing", "<<: 1", "? [a]", "{1: 2}",
    "[" * 3000, "{a: " * 800, "a" * 100_000, "\x00", "\x1b[31m", "\u202e", "\ud800", "\ufeff", "'", '"', "\\",
    "%s {0} {{x}}",
    "../../../../etc/passwd", "/dev/zero", "/proc/self/environ", "C:\\CON", "$(id)", "=cmd|' /C calc'!A0",
    "<script>alert(1)</script>", "&a [1,1,1,1,1,1,1,1,1]", "redis://:x@y", "http://[::1", "file:///etc/passwd",
    '"\\0"', '"\\0.j2"', "a" * 5000 + ".j2", ".j2", "/.j2", '"\\ud800.j2"', '"x\\ud800"',
)  # fmt: skip
#: Run settings that name a file.
FILES = ("prompt", "few_shot.file", "rag.index", "judge.prompt", "sampling.stop")
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join(['*' + old] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@dataclass
class Result:
    """What became of the inputs of one corner."""

    corner: str
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    broken: list[str] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """For the table and the record."""
        counted = {"corner": self.corner, "inputs": self.inputs, "accepted": self.accepted, "refused": self.refused}
        return {**counted, "broken": len(self.broken), "slowest_s": round(self.slowest_s, 3)}


# Making inputs


def _mutated(chance: random.Random, text: str) -> str:
    """`text` with a few wounds."""
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(text) + 1)
        to = min(len(text), at + chance.randint(0, 30))
        kind = chance.randrange(6)
        if kind == 0:
            text = text[:at] + text[to:]
        elif kind == 1:
            text = text[:at] + text[at:to] * chance.randint(2, 5) + text[to:]
        elif kind == 2:
            text = text[:at] + chr(chance.choice((chance.randrange(32), chance.randrange(0x2FFF)))) + text[at:]
        elif kind == 3:
            text = text[:at] + chance.choice(HOSTILE) + text[to:]
        elif kind == 4:
            text = _with_value(chance, text)
        else:
            lines = text.splitlines(keepends=True)
            chance.shuffle(lines)
            text = "".join(lines)
    return text


def _with_value(chance: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at = chance.randrange(len(lines))
    lines[at] = f"{lines[at].partition(':')[0]}: {chance.choice(HOSTILE)}\n"
    return "".join(lines)


def _file_bytes(chance: random.Random, kind: str) -> bytes:
    if chance.random() < 0.03:
        return chance.randbytes(chance.randint(0, 400))
    if chance.random() < 0.03:
        return BOMB.encode()
    original = chance.choice(sorted((ROOT / "configs" / kind).glob("*.yaml"))).read_text()
    return _mutated(chance, original).encode("utf-8", "surrogatepass")


def _override(chance: random.Random, model: Any) -> str:
    name = chance.choice([*model.model_fields, "vllm_args.x", "simulated.call_ms", *FILES, "a.b.c", "", "."])
    if chance.random() < 0.3:
        name = _mutated(chance, name or "x")
    return f"{name}{chance.choice(['=', '=', '=', '', '=='])}{chance.choice(HOSTILE)}"


# Reading them


def _read_settings_file(chance: random.Random, folder: Path) -> None:
    path = folder / "deploy.yaml"
    path.write_bytes(_file_bytes(chance, "deploy"))
    load_settings(path).model_dump_json()


def _read_run_file(chance: random.Random, folder: Path) -> None:
    path = folder / "run.yaml"
    path.write_bytes(_file_bytes(chance, "runs"))
    load_run_config(path).to_spec("0" * 64, "model").fingerprint()


def _read_overrides(chance: random.Random, _: Path) -> None:
    if chance.random() < 0.5:
        load_settings(None, [_override(chance, Settings) for _ in range(chance.randint(1, 3))]).model_dump_json()
    else:
        needed = chance.choice(([], [], ["few_shot.k=1"], ["rag.enabled=true"], ["mode=judge"], ["mode=generate"]))
        overrides = [_override(chance, RunConfig) for _ in range(chance.randint(1, 3))]
        load_run_config(None, [*needed, *overrides]).to_spec("0" * 64, "m").fingerprint()


def _read_environment(chance: random.Random, _: Path) -> None:
    names = [f"{PREFIX}{each.upper()}" for each in Settings.model_fields]
    names += [
        f"{PREFIX}VLLM_ARGS__X",
        f"{PREFIX}SIMULATED__CALL_MS",
        f"{PREFIX}OVERRIDES",
        f"{PREFIX}CONFIG",
        f"{PREFIX}X",
    ]
    with _environment({_variable(chance.choice(names)): _variable(chance.choice(HOSTILE)) for _ in range(2)}):
        load_settings().model_dump_json()


def _variable(text: str) -> str:
    """As far as an environment can hold it: bytes that are no UTF-8 are such halves of surrogate pairs in Python."""
    return "".join(each if each < "\ud800" or each > "\udfff" else "\udcff" for each in text if each != "\0")


def _read_redis_url(chance: random.Random, _: Path) -> None:
    strange = "".join(chance.choices("/#?@:%[]&=;\\ \"'<>{}|^`~é\u202e1", k=chance.randint(1, 4)))
    user = chance.choice(["", "user", "us:er", "u@s"])
    password = chance.choice([f"{LEFT}{strange}{RIGHT}", f"12{strange}{RIGHT}", f"{LEFT}{strange}12"])
    rest = chance.choice(
        ["127.0.0.1:6379/0", "[::1]:6379", "h", "h:port/0", "h:99999/0", "/sock", "h:1/x", "h/0?a=b", "h/0#f"]
    )
    url = f"{chance.choice(['redis', 'rediss', 'redis', 'unix', 'http', ''])}://{user}:{password}@{rest}"
    with _environment({f"{PREFIX}REDIS_URL": url}):
        try:
            settings = load_settings()
        except McqueueError as trouble:
            said = str(trouble)
            _no_password_in(said)
            raise
        _no_password_in(f"{settings!r} {settings.redis_place} {settings.model_dump_json()}")


def _no_password_in(said: str) -> None:
    if LEFT in said or RIGHT in said:
        raise AssertionError(f"a password is shown: {said}")


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    for name in before:
        del os.environ[name]
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)


Read = Callable[[random.Random, Path], None]
CORNERS: dict[str, Read] = {
    "settings file": _read_settings_file,
    "run file": _read_run_file,
    "--set": _read_overrides,
    "environment": _read_environment,
    "Redis URL": _read_redis_url,
}


def fuzz(corner: str, inputs: int, seed: int = 0) -> Result:
    """Have `inputs` inputs read."""
    result = Result(corner)
    read = CORNERS[corner]
    with tempfile.TemporaryDirectory() as folder, _environment({}):
        for number in range(inputs):
            chance = random.Random(f"{corner} {seed} {number}")
            started = time.process_time()
            try:
                read(chance, Path(folder))
                result.accepted += 1
            except McqueueError as trouble:
                result.refused += 1
                if len(str(trouble)) > 20_000:
                    result.broken.append(f"{number}: a message of {len(str(trouble)):,} characters")
            except Exception as trouble:  # noqa: BLE001 - finding those is what this program is for
                result.broken.append(f"{number}: {type(trouble).__name__}: {trouble}"[:300])
            took_s = time.process_time() - started
            result.slowest_s = max(result.slowest_s, took_s)
            if took_s > SLOW_S:
                result.broken.append(f"{number}: took {took_s:.1f} s")
            result.inputs += 1
    return result


# Messages


def _bad_message(chance: random.Random, good: str) -> bytes:
    """A good message of the queue, wounded in one of many places; now and then no message at all."""
    if chance.random() < 0.1:
        nothing = (
            b"",
            b"null",
            b"[]",
            b"{}",
            b"7",
            b'"x"',
            b"\xff\xfe",
            b"{" * 2000,
            b"[" * 100_000,
            b"nan",
            b'{"a":nan}',
        )
        return chance.choice((*nothing, chance.randbytes(chance.randint(1, 99))))
    if chance.random() < 0.1:
        return _mutated(chance, good).encode("utf-8", "surrogatepass")
    message = json.loads(good)
    message["properties"]["delivery_tag"] = f"{chance.getrandbits(128):032x}"
    if chance.random() < 0.7:
        message["headers"]["id"] = f"{chance.getrandbits(128):032x}"
    for wound in chance.sample((_wound_body, _wound_headers, _wound_properties, _wound_type), chance.randint(1, 2)):
        wound(chance, message)
    return json.dumps(message).encode()


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


def _wound_headers(chance: random.Random, message: dict[str, Any]) -> None:
    if chance.random() < 0.2:
        message["headers"] = chance.choice(ODD)
    elif isinstance(message["headers"], dict):
        names = (
            "task",
            "id",
            "eta",
            "expires",
            "timelimit",
            "compression",
            "stamps",
            "lang",
            "root_id",
            "argsrepr",
            "retries",
        )
        message["headers"][chance.choice(names)] = chance.choice(
            (*ODD, "mcqueue.retrieve", "celery.ping", "zlib", "os.system")
        )
        if chance.random() < 0.3:
            message["headers"].pop(chance.choice(names), None)


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


def fuzz_messages(inputs: int, url: str, log: Path, seed: int = 0) -> Result:
    """Put `inputs` bad messages among those of a good run, in front of one worker."""
    result = Result("messages")
    with _environment({f"{PREFIX}REDIS_URL": url}):
        settings = load_settings(None, [f"model={SIMULATED_MODEL}"])
        ledger, app = RedisLedger.connect(settings), make_celery(settings)
        lists = keys.broker_lists(keys.score_queue(SIMULATED_MODEL))
        run = open_run(ledger, make_questions(1000))
        publish(app, keys.score_queue(SIMULATED_MODEL), run.run_id, ledger.unsettled(run.run_id), batch_size=4)
        _strew(ledger.client, lists, inputs, seed)
        started = time.monotonic()
        with worker(log, batch_size=16) as process:
            with contextlib.suppress(AssertionError):
                wait_until(lambda: _is_done(ledger, run.run_id, lists) or process.poll() is not None, "the end", 600)
            alive, left = process.poll() is None, sum(ledger.client.llen(name) for name in lists)
            held = ledger.client.hlen(keys.unacked("w0@test"))
        result.slowest_s = time.monotonic() - started
        counts = ledger.counts(run.run_id)
        app.close()
        ledger.client.close()
    result.inputs, result.refused = inputs, _dropped(log)
    result.accepted = inputs - result.refused
    facts = {"the worker died": not alive, f"{left} messages are left": left, f"{held} messages are held": held}
    facts[f"{counts.todo} good questions have no verdict"] = counts.todo
    result.broken = [what for what, is_so in facts.items() if is_so]
    return result


def _strew(client: redis.Redis, lists: list[str], inputs: int, seed: int) -> None:
    """Bad messages between the good ones, and in every list."""
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
    return not waiting and not ledger.client.hlen(keys.unacked("w0@test")) and ledger.counts(run_id).finished


def _dropped(log: Path) -> int:
    """Messages of which the worker's log says that they were refused."""
    said = ("something that is no message is dropped", "a message that cannot be read is dropped")
    celery_says = (
        "Received invalid task message",
        "Received unregistered task",
        "Can't decode message body",
        "Received and deleted",
    )
    return sum(
        any(each in line for each in (*said, *celery_says)) for line in log.read_text(errors="replace").splitlines()
    )


def main() -> int:
    """Fuzz every corner, print the table, write the record; 1 if anything broke."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=4000, help="for each corner")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[*CORNERS, "messages"])
    asked = parser.parse_args()
    # Whatever swallows memory shall end in this program.
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most if 0 < most < MEMORY_BYTES else MEMORY_BYTES, most))
    results = [fuzz(corner, asked.inputs, asked.seed) for corner in CORNERS if asked.only in (None, corner)]
    if asked.only in (None, "messages"):
        with tempfile.TemporaryDirectory() as folder, serve(Path(folder) / "valkey") as url:
            results.append(fuzz_messages(asked.inputs, url, Path(folder) / "worker.log", asked.seed))
    print_table("Rubbish in", [each.row() for each in results])
    for each in results:
        for line in each.broken[:20]:
            print(f"{each.corner}: {line}")
    if asked.only is None:
        command = f"python -m benchmarks.fuzz --inputs {asked.inputs} --seed {asked.seed}"
        total = sum(each.inputs for each in results)
        print(write("fuzz", command, [each.row() for each in results], inputs=total))
    return 1 if any(each.broken for each in results) else 0


if __name__ == "__main__":
    sys.exit(main())
