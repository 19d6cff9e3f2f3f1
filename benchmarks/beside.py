"""What the queue takes beside a real engine: the CPU of every thread, counted while the whole path runs.

How fast the whole path is beside the engine alone (`whole_path`) moves by a tenth from process to process, because the
engine's own threads do. What everything else takes moves little, and is counted here as the kernel does
(`/proc/*/task/*/schedstat`): of the server, of this process, which enqueues and waits, and of the worker. A thread that
is busy for more than half of the time is taken for one that computes the model; the others are beside it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from benchmarks.asking import Asking, add_questions, pin, speed_settings, whole_path
from benchmarks.command import Parser, positive, run
from benchmarks.record import print_table, without, write
from benchmarks.stand import Stand, stand, worker
from benchmarks.whole_path import MODES_ASKED
from contract.errors import InputError
from producer.readers import Source

#: Share of the time from which on a thread is the model's.
BUSY = 0.5
#: (Process, thread) → seconds of CPU that it has used.
Threads: TypeAlias = Mapping[tuple[int, int], float]


def main() -> None:
    parser = Parser(__doc__)
    add_questions(parser)
    parser.option("--rounds", positive, 5, "whole paths of each mode, after one that warms up")
    parser.option("--modes", str, tuple(MODES_ASKED), "modes", choices=list(MODES_ASKED))
    options = parser.parse_args()
    if not Path("/proc/self/schedstat").exists():
        raise InputError("This kernel does not count the CPU of threads: /proc/self/schedstat is missing.")
    source = Source(options.questions, str(options.questions))
    with stand(options.config) as at:
        pin(at)
        with worker(at) as engine:
            families = families_of(engine.process)
            rows = [
                row(at, Asking(source, MODES_ASKED[mode], options.limit), mode, families, options.rounds)
                for mode in options.modes
            ]
        path = write("beside", rows, options.out, deploy=str(options.config), settings=speed_settings(at.settings))
    print_table("CPU beside the engine, medians", [without(each, "rounds") for each in rows])
    print(path)


def families_of(engine: psutil.Process) -> dict[str, list[psutil.Process]]:
    """The worker, on a GPU with vLLM's own process; and the server with this process, which is the producer."""
    own, of_worker = psutil.Process(), [engine, *engine.children(recursive=True)]
    rest = [each for each in own.children(recursive=True) if each not in of_worker]
    return {"worker": of_worker, "server and producer": [own, *rest]}


def row(
    at: Stand, asking: Asking, mode: str, families: Mapping[str, Sequence[psutil.Process]], rounds: int
) -> dict[str, Any]:
    """Medians over the rounds; `families` are the processes whose CPU is counted together."""
    count = len(asking.items(at.settings, f"{mode}, to count", at.folder))
    found = [measured(at, asking, f"{mode}, {number}", families) for number in range(rounds + 1)][1:]
    middle = {name: statistics.median(each[name] for each in found) for name in found[0]}
    beside_s = middle["beside"]
    return {
        "mode": mode,
        "questions": count,
        "seconds": middle["seconds"],
        "model CPU s": middle["model"],
        "beside it CPU s": beside_s,
        **{f"of it {name}": middle[name] for name in families},
        "beside it, ms per question": 1e3 * beside_s / count,
        "beside it, share of all": beside_s / (beside_s + middle["model"]),
        "beside it CPU s, rounds": [round(each["beside"], 3) for each in found],
    }


def measured(
    at: Stand, asking: Asking, mark: str, families: Mapping[str, Sequence[psutil.Process]]
) -> dict[str, float]:
    """Seconds of one whole path, and the CPU seconds of the model and of what is beside it."""
    before = {name: threads(family) for name, family in families.items()}
    seconds = whole_path(at, asking, at.settings, mark)
    split = {name: apart(before[name], threads(family), seconds) for name, family in families.items()}
    beside = {name: of_family for name, (_, of_family) in split.items()}
    return {
        "seconds": seconds,
        "model": sum(model for model, _ in split.values()),
        "beside": sum(beside.values()),
        **beside,
    }


def threads(family: Sequence[psutil.Process]) -> Threads:
    """What each thread of these processes has used so far."""
    return dict(used for process in family for used in _threads(process.pid))


def _threads(pid: int) -> Iterator[tuple[tuple[int, int], float]]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            nanoseconds = (task / "schedstat").read_text().split()[0]
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        yield (pid, int(task.name)), int(nanoseconds) / 1e9


def apart(before: Threads, after: Threads, seconds: float) -> tuple[float, float]:
    """CPU of the threads that compute the model, and of the others, in seconds.

    >>> apart({(1, 1): 1.0}, {(1, 1): 5.75, (1, 2): 0.25}, 5.0)
    (4.75, 0.25)
    """
    used = [spent - before.get(thread, 0.0) for thread, spent in after.items()]
    model = sum(each for each in used if each > BUSY * seconds)
    return model, sum(used) - model


if __name__ == "__main__":
    run(main)
