"""Injects faults into real worker processes, and checks that every question gets exactly one verdict.

The schedule follows from a seed. Three workers with the simulated engine (two with vLLM), each behind a proxy that sees
its commands to Redis, so that a kill hits exactly the intended moment. One round is one fault and one run, all of whose
questions are accounted for at its end. A round whose fault found nothing to hit does not count, and is reported.
Finished rounds are kept in `--folder`; the same command continues where it stopped, and several with `--part` share the
rounds. The record, written once all rounds are finished, names the sittings that they were played in. Faults that need
root are left out without it, and the record says so. `--engine vllm` plays the kills, signals and broken connections
with vLLM.

"lost": questions without a verdict 90 s later, or without a row in results.csv. "doubled": verdicts that changed after
they were first seen, counts beyond the verdicts, rows of results.csv beyond the questions. "asked again": how often
questions were begun again, which does not count as doubled. "left over": messages still unacknowledged a minute after
the last verdict. "gone": questions that were lost with a server's data and were enqueued again. "broken": rounds in
which any other check failed.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
import time
import traceback
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.command import Parser, above_zero, command_line, from_zero, positive, run, writable_folder
from benchmarks.faults import brokers, deliveries, engines, kills, network, producers
from benchmarks.faults.case import Missed
from benchmarks.faults.stage import Fault, Stage
from benchmarks.record import commit, print_table, write
from benchmarks.stand import only_environment
from contract.errors import InputError
from contract.names import slug

MODULES = (kills, deliveries, brokers, engines, network, producers)
FAULTS: Mapping[str, tuple[int, Fault]] = {name: found for module in MODULES for name, found in module.FAULTS.items()}
#: Count of a round → its column.
SUMS: Mapping[str, str] = {
    "questions": "questions",
    "lost": "lost",
    "doubled": "doubled",
    "asked_again": "asked again",
    "left_over": "left over",
    "gone": "gone",
}
#: Faults that do not depend on the simulated engine.
WITH_VLLM = (
    *kills.FAULTS,
    "engine's process killed",
    "launcher killed",
    "launcher and workers killed",
    "connections reset",
    "black hole, 1 to 8 s",
)
#: Faults whose rounds take minutes → the number of rounds that `--least` requires of them.
LONG: Mapping[str, int] = {"Redis away for 60 s": 3}


def main() -> int:
    options = parse()
    left_out = {**network.left_out(), **producers.left_out()}
    names = faults_of(options, left_out)
    books = Books(options.folder, books_name(options))
    before = books.played()
    plan = schedule(names, options.rounds, options.seed)
    # A round keeps the fault that it was played with, though there may have been others to choose from then.
    plan = [before[number]["fault"] if number in before else name for number, name in enumerate(plan)]
    plan += filling(plan, names, options.least, options.seed)
    part, parts = options.part
    mine = [number for number in range(len(plan)) if number % parts == part - 1 and number not in before]
    play(plan, mine, books, options.engine, options.seed, until=time.monotonic() + 60 * options.minutes)
    played = list(books.played().values())
    rows = table([each for each in played if "missed" not in each])
    print_table(f"{rows[-1]['rounds']} faults; {len(plan) - len(played)} rounds to go", rows)
    if len(played) == len(plan):
        more = {
            "engine": options.engine,
            "sittings": sorted({each["sitting"] for each in played}),
            "missed": [f"{each['fault']}: {each['missed']}" for each in played if "missed" in each],
            "left_out": left_out,
        }
        name = record_name(options.engine, options.only)
        command = command_line(without=["--minutes", "--part", "--folder"])  # options of a sitting, not of the rounds
        print(write(name, rows, options, command=command, **more))
    return int(any(rows[-1][wrong] for wrong in ("lost", "doubled", "left over", "broken")))


def parse() -> Namespace:
    """Return the command line options."""
    parser = Parser(__doc__)
    parser.option("--rounds", positive, 520, "rounds of the schedule")
    parser.option("--least", from_zero, 0, "add rounds until each fault has N", metavar="N")
    parser.option("--seed", int, 1, "determines the schedule and each round's random choices")
    shown = "only this fault, by its name in the table; can be repeated"
    parser.add_argument("--only", action="append", choices=list(FAULTS), metavar="FAULT", help=shown)
    parser.option("--minutes", above_zero, float("inf"), "begin no further round after so many minutes")
    parser.option("--engine", str, "simulated", "engine of the workers", choices=["simulated", "vllm"])
    parser.option("--part", part_of, "1/1", "only every N-th round, with its own processes", metavar="K/N")
    parser.option("--folder", writable_folder, Path(".mcqueue/chaos"), "keeps the finished rounds")
    return parser.parse_args()


def faults_of(options: Namespace, left_out: Mapping[str, str]) -> list[str]:
    """Return the faults to inflict. Raises InputError for one that was asked for and is impossible here."""
    possible = WITH_VLLM if options.engine == "vllm" else FAULTS
    if simulated := [each for each in options.only or () if each not in possible]:
        raise InputError(f"These faults need the simulated engine: {', '.join(simulated)}.")
    names = options.only or [each for each in possible if each not in left_out]
    if missing := [f"{each}: {left_out[each]}" for each in names if each in left_out]:
        raise InputError(f"These faults cannot be injected here: {'; '.join(missing)}.")
    return list(names)


def record_name(engine: str, only: Sequence[str] | None) -> str:
    """Return the record's name; a selection of faults gets its own record instead of replacing the full one."""
    parts = ["chaos", *(["vllm"] if engine == "vllm" else []), *(slug(each.replace("'", "")) for each in only or ())]
    return "_".join(parts)


def books_name(options: Namespace) -> str:
    """Return the name of a schedule's books: rounds of another one are not continued."""
    only = [slug(each) for each in options.only or ()]
    return "-".join([options.engine, str(options.seed), str(options.rounds), str(options.least), *only])


def part_of(text: str) -> tuple[int, int]:
    """Parse K/N for argparse."""
    part, parts = (positive(each) for each in text.partition("/")[::2])
    if part > parts:
        raise ArgumentTypeError(f"{text!r} is not a part K/N")
    return part, parts


def schedule(names: Sequence[str], rounds: int, seed: int) -> list[str]:
    """Return `rounds` faults by weight, shuffled by `seed`, with each of `names` at least once if there is room."""
    rng = random.Random(seed)
    weights = [FAULTS[name][0] for name in names]
    whole = sum(weights)
    plan = [name for name, weight in zip(names, weights, strict=True) for _ in range(max(1, weight * rounds // whole))]
    rng.shuffle(plan)
    plan += rng.choices(names, weights, k=max(0, rounds - len(plan)))
    return plan[:rounds]


def filling(plan: Sequence[str], names: Sequence[str], least: int, seed: int) -> list[str]:
    """Return the rounds to add to `plan` until each of `names` occurs `least` times, or as often as LONG requires."""
    more = [name for name in names for _ in range(min(least, LONG.get(name, least)) - plan.count(name))]
    random.Random(f"{seed}/{least}").shuffle(more)
    return more


class Books:
    """The finished rounds, in one file per process."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._name = folder, name

    def played(self) -> dict[int, dict[str, Any]]:
        """Return round → result."""
        lines = [
            line
            for path in sorted(self._folder.glob(f"{self._name}.*.jsonl"))
            for line in path.read_text().splitlines()
        ]
        return {found["round"]: found for found in map(json.loads, lines)}

    def add(self, found: Mapping[str, Any]) -> None:
        """Record a round of this process."""
        with (self._folder / f"{self._name}.{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(found) + "\n")


def play(plan: Sequence[str], mine: Sequence[int], books: Books, engine: str, seed: int, until: float) -> None:
    """Play the rounds `mine` of `plan`, and record each when it is finished."""
    sitting = f"{datetime.now(UTC).isoformat(timespec='minutes')} {commit()}"
    with only_environment({}), tempfile.TemporaryDirectory(prefix="chaos-") as folder, ExitStack() as stack:
        stage: Stage | None = None
        for number in mine:
            if time.monotonic() > until:
                break
            if stage is None:
                place = Path(folder) / f"from-{number}"
                workers = 3 if engine == "simulated" else 2
                stage = stack.enter_context(closing(Stage(place, workers, engine)))
            found = one_round(stage, plan[number], f"{seed}/{number}")
            result = {"round": number, "fault": plan[number], "sitting": sitting, **found}
            books.add(result)
            _tell(result)
            if "broken" in found:  # possibly the stage too
                stage.close()
                stage = None


def one_round(stage: Stage, name: str, seed: str) -> dict[str, Any]:
    """Return the results of the round, or why its fault hit nothing, or which check failed."""
    try:
        return asdict(FAULTS[name][1](stage, random.Random(seed)))
    except Missed as reason:
        return {"missed": str(reason)}
    except Exception as trouble:  # noqa: BLE001 - a failed round is a finding, not the end
        traceback.print_exc()
        return {"broken": f"{type(trouble).__name__}: {trouble}"}


def table(played: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per fault, and one for all."""
    by_fault: dict[str, list[Mapping[str, Any]]] = {}
    for each in played:
        by_fault.setdefault(each["fault"], []).append(each)
    rows = [_row(name, by_fault[name]) for name in FAULTS if name in by_fault]
    return [*rows, _row("all", [each for found in by_fault.values() for each in found])]


def _row(name: str, rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    whole = [each for each in rounds if "broken" not in each]
    times = [each["went_on_s"] for each in whole if each["went_on_s"] is not None]
    return {
        "fault": name,
        "rounds": len(rounds),
        **{shown: sum(each[column] for each in whole) for column, shown in SUMS.items()},
        "broken": len(rounds) - len(whole),
        "goes on after s, median": round(statistics.median(times), 2) if times else None,
        "worst": round(max(times), 2) if times else None,
    }


def _tell(result: Mapping[str, Any]) -> None:
    what = (
        result.get("missed")
        or result.get("broken")
        or ", ".join(f"{name} {result[name]}" for name in ("questions", "lost", "doubled", "left_over", "went_on_s"))
    )
    print(f"{result['round']:4} {result['fault']}: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(main)
