"""Fuzzing: malformed configuration files, options, environment variables and messages must be handled cleanly.

For each corner, `--inputs` inputs are generated from a seed and passed to the code that reads them in production. An
input may be accepted, or refused with an expected error. Anything else is broken: any other exception, more than 5 s of
CPU time to read it, or a password in a message. Messages go to a real worker (simulated engine) on a real Valkey, mixed
with those of a good run: afterwards the worker must be the same process, hold and leave no messages, and have scored
the good run.
"""

from __future__ import annotations

import random
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.command import Parser, positive, run
from benchmarks.fuzz_messages import fuzz_messages
from benchmarks.record import print_table, write
from benchmarks.rubbish import HOSTILE, Result, mutated
from benchmarks.stand import only_environment
from contract import load_settings
from contract.errors import McqueueError
from contract.names import slug
from contract.settings import PREFIX, Settings
from producer.intake.qrels import Qrels
from producer.runs.runconfig import RunConfig, load_run_config
from producer.suite.config import load_suite

__all__ = ["BOMB", "CORNERS", "fuzz"]

SLOW_S = 5.0
MEMORY_BYTES = 8 << 30
ROOT = Path(__file__).parent.parent
LEFT, RIGHT = "correcthorse", "batterystaple"

#: Run settings that name a file.
FILES = ("prompt", "few_shot.file", "rag.index", "judge.prompt", "sampling.stop")
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join(['*' + old] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
#: Relevance judgements as BEIR, TREC and JSON Lines have them.
JUDGEMENTS = (
    "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t0\n",
    "q1 0 d1 1\nq2 0 d2 2\n",
    '{"qid": "q1", "pids": ["a", "b"], "scores": [1, 0]}\n{"qid": "q2", "pids": ["a"]}\n',
)


# Generating inputs


def _file_bytes(chance: random.Random, kind: str) -> bytes:
    if chance.random() < 0.03:
        return chance.randbytes(chance.randint(0, 400))
    if chance.random() < 0.03:
        return BOMB.encode()
    original = chance.choice(sorted((ROOT / "configs" / kind).glob("*.yaml"))).read_text()
    return mutated(chance, original).encode("utf-8", "surrogatepass")


def _override(chance: random.Random, model: Any) -> str:
    name = chance.choice([*model.model_fields, "vllm_args.x", "simulated.call_ms", *FILES, "a.b.c", "", "."])
    if chance.random() < 0.3:
        name = mutated(chance, name or "x")
    return f"{name}{chance.choice(['=', '=', '=', '', '=='])}{chance.choice(HOSTILE)}"


# Reading inputs


def _read_settings_file(chance: random.Random, folder: Path) -> None:
    path = folder / "deploy.yaml"
    path.write_bytes(_file_bytes(chance, "deploy"))
    load_settings(path).model_dump_json()


def _read_run_file(chance: random.Random, folder: Path) -> None:
    path = folder / "run.yaml"
    path.write_bytes(_file_bytes(chance, "runs"))
    load_run_config(path).to_spec("0" * 64, Settings()).fingerprint()


def _read_suite(chance: random.Random, folder: Path) -> None:
    path = folder / "suite.yaml"
    path.write_bytes(_file_bytes(chance, "suites"))
    load_suite(path)


def _read_judgements(chance: random.Random, folder: Path) -> None:
    path = folder / "qrels"
    path.write_bytes(mutated(chance, chance.choice(JUDGEMENTS)).encode("utf-8", "surrogatepass"))
    Qrels.read(path)


def _read_overrides(chance: random.Random, _: Path) -> None:
    if chance.random() < 0.5:
        load_settings(None, [_override(chance, Settings) for _ in range(chance.randint(1, 3))]).model_dump_json()
    else:
        needed = chance.choice(([], [], ["few_shot.k=1"], ["rag.enabled=true"], ["mode=judge"], ["mode=generate"]))
        overrides = [_override(chance, RunConfig) for _ in range(chance.randint(1, 3))]
        load_run_config(None, [*needed, *overrides]).to_spec("0" * 64, Settings()).fingerprint()


def _read_environment(chance: random.Random, _: Path) -> None:
    names = [f"{PREFIX}{each.upper()}" for each in Settings.model_fields]
    names += [f"{PREFIX}{each}" for each in ("VLLM_ARGS__X", "SIMULATED__CALL_MS", "OVERRIDES", "CONFIG", "X")]
    with only_environment({_variable(chance.choice(names)): _variable(chance.choice(HOSTILE)) for _ in range(2)}):
        load_settings().model_dump_json()


def _variable(text: str) -> str:
    """Return `text` as an environment can hold it; Python represents bytes that are not UTF-8 as lone surrogates."""
    return "".join(each if each < "\ud800" or each > "\udfff" else "\udcff" for each in text if each != "\0")


def _read_redis_url(chance: random.Random, _: Path) -> None:
    strange = "".join(chance.choices("/#?@:%[]&=;\\ \"'<>{}|^`~é\u202e1", k=chance.randint(1, 4)))
    user = chance.choice(["", "user", "us:er", "u@s"])
    password = chance.choice([f"{LEFT}{strange}{RIGHT}", f"12{strange}{RIGHT}", f"{LEFT}{strange}12"])
    rest = chance.choice(
        ["127.0.0.1:6379/0", "[::1]:6379", "h", "h:port/0", "h:99999/0", "/sock", "h:1/x", "h/0?a=b", "h/0#f"]
    )
    url = f"{chance.choice(['redis', 'rediss', 'redis', 'unix', 'http', ''])}://{user}:{password}@{rest}"
    with only_environment({f"{PREFIX}REDIS_URL": url}):
        try:
            settings = load_settings()
        except McqueueError as trouble:
            _no_password_in(str(trouble))
            raise
        _no_password_in(f"{settings!r} {settings.redis_place} {settings.model_dump_json()}")


def _no_password_in(said: str) -> None:
    if LEFT in said or RIGHT in said:
        raise AssertionError(f"a password is shown: {said}")


Read = Callable[[random.Random, Path], None]
CORNERS: dict[str, Read] = {
    "settings file": _read_settings_file,
    "run file": _read_run_file,
    "suite file": _read_suite,
    "relevance judgements": _read_judgements,
    "--set": _read_overrides,
    "environment": _read_environment,
    "Redis URL": _read_redis_url,
}


def fuzz(corner: str, inputs: int, seed: int) -> Result:
    """Read `inputs` inputs of the corner."""
    result = Result(corner)
    read = CORNERS[corner]
    with tempfile.TemporaryDirectory() as folder, only_environment({}):
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
            except Exception as trouble:  # noqa: BLE001 - this program looks for exactly these
                result.broken.append(f"{number}: {type(trouble).__name__}: {trouble}"[:300])
            took_s = time.process_time() - started
            result.slowest_s = max(result.slowest_s or 0.0, took_s)
            if took_s > SLOW_S:
                result.broken.append(f"{number}: took {took_s:.1f} s")
            result.inputs += 1
    return result


def main() -> int:
    """Fuzz every corner, print the table, and write the record; return 1 if anything broke."""
    parser = Parser(__doc__)
    parser.option("--inputs", positive, 4000, "inputs for each corner")
    parser.option("--seed", int, 0, "determines the inputs")
    parser.option("--only", str, None, "only this corner", choices=[*CORNERS, "messages"])
    asked = parser.parse_args()
    # Runaway memory use should end within this program.
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most if 0 < most < MEMORY_BYTES else MEMORY_BYTES, most))
    results = [fuzz(corner, asked.inputs, asked.seed) for corner in CORNERS if asked.only in (None, corner)]
    if asked.only in (None, "messages"):
        results.append(fuzz_messages(asked.inputs, asked.seed))
    print_table("Malformed inputs", [each.row() for each in results])
    for each in results:
        for line in each.broken[:20]:
            print(f"{each.corner}: {line}")
    total = sum(each.inputs for each in results)
    name = slug(f"fuzz {asked.only}") if asked.only else "fuzz"
    print(write(name, [each.row() for each in results], asked, inputs=total))
    return 1 if any(each.broken for each in results) else 0


if __name__ == "__main__":
    run(main)
