"""What the queue costs beside a real engine: the CPU time of every thread, measured while the whole path runs.

The speed of the whole path relative to the engine alone (`whole_path`) varies by a tenth from process to process,
because the engine's own threads do. The CPU time of everything else varies little. It is taken from the kernel
(`/proc/*/task/*/schedstat`) for the server, for this process, which enqueues and waits, and for the worker. A thread
that is busy more than half of the time is assumed to compute the model; all others count as beside it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from benchmarks.asking import (
    MODES_ASKED,
    Asking,
    add_modes,
    add_questions,
    chosen_model,
    pin,
    source_of,
    speed_settings,
    whole_path,
)
from benchmarks.command import Parser, positive, run
from benchmarks.record import print_table, without, write
from benchmarks.stand import Stand, stand, worker
from contract.errors import EngineError, InputError

#: A thread that is busy for more than this share of the time is assumed to compute the model.
BUSY = 0.5
#: (Process, thread) → CPU seconds used.
Threads: TypeAlias = Mapping[tuple[int, int], float]


def main() -> None:
    parser = Parser(__doc__)
    add_questions(parser)
    parser.option("--rounds", positive, 5, "measurements of each mode, after a warm-up")
    add_modes(parser)
    options = parser.parse_args()
    if not Path("/proc/self/schedstat").exists():
        raise InputError("This kernel does not account for the CPU time of threads: /proc/self/schedstat is missing.")
    source = source_of(options)
    with stand(options.config, **chosen_model(options)) as at:
        pin(at)
        with worker(at) as engine:
            families = families_of(engine.process)
            rows = [
                row(at, Asking(source, MODES_ASKED[mode], options.limit), mode, families, options.rounds)
                for mode in options.modes
            ]
        path = write("beside", rows, options, deploy=str(options.config), settings=speed_settings(at.settings))
    print_table("CPU beside the engine, medians", [without(each, "rounds") for each in rows])
    print(path)


def families_of(engine: psutil.Process) -> dict[str, list[psutil.Process]]:
    """Return the worker's processes (on a GPU, vLLM has its own), and the server's with this one, the producer."""
    own, of_worker = psutil.Process(), [engine, *engine.children(recursive=True)]
    rest = [each for each in own.children(recursive=True) if each not in of_worker]
    return {"worker": of_worker, "server and producer": [own, *rest]}


def row(
    at: Stand, asking: Asking, mode: str, families: Mapping[str, Sequence[psutil.Process]], rounds: int
) -> dict[str, Any]:
    """Return the medians over the rounds; `families` are the processes whose CPU time is summed."""
    count = asking.count(at.settings)
    found = [measured(at, asking, f"{mode}, {number}", families) for number in range(rounds + 1)][1:]
    if not all(each["model"] for each in found):
        raise EngineError(
            f"{mode}: in a round, no thread was busy for more than half of the time, so none is known as the model's.",
            hint="End what else runs on this machine.",
        )
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
    """Return the seconds of one whole path, and the CPU seconds of the model and of everything beside it."""
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
    """Return the CPU time used so far by each thread of these processes."""
    return dict(used for process in family for used in _threads(process.pid))


def _threads(pid: int) -> Iterator[tuple[tuple[int, int], float]]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            nanoseconds = (task / "schedstat").read_text().split()[0]
        except (FileNotFoundError, ProcessLookupError):  # the thread has just ended
            continue
        yield (pid, int(task.name)), int(nanoseconds) / 1e9


def apart(before: Threads, after: Threads, seconds: float) -> tuple[float, float]:
    """Return the CPU seconds of the threads that compute the model, and of the others.

    >>> apart({(1, 1): 1.0}, {(1, 1): 5.75, (1, 2): 0.25}, 5.0)
    (4.75, 0.25)
    """
    used = [spent - before.get(thread, 0.0) for thread, spent in after.items()]
    model = sum(each for each in used if each > BUSY * seconds)
    return model, sum(used) - model


if __name__ == "__main__":
    run(main)
