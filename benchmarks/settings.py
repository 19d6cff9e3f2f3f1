"""Which settings are faster on these questions, and do they change answers? Compares workers that differ in them.

    python -m benchmarks.settings vllm_args.dtype=float32 vllm_args.dtype=bfloat16
    python -m benchmarks.settings 'batch_size=16 batches_in_flight=1' 'batch_size=16 batches_in_flight=2'
    python -m benchmarks.settings GOMP_SPINCOUNT=300000 GOMP_SPINCOUNT=10000 --busy 1

Each argument is a side: the settings of its worker on top of the deploy file, in the format of `--set`, separated by
spaces; they are numbered in that order. What is in capitals is a variable of its environment. All workers are up at the
same time; every round asks each in turn, every other round in reverse order, with prompts that are in no cache. Time is
from the call that enqueues the questions to the last verdict. Speed is the median over the rounds; ratios to the first
side are taken within a round. A further round counts the answers that are the same as the first side's. With `--busy`,
so many other processes compute all the time.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from benchmarks.asking import add_modes, add_questions, pin, shared_gpu, source_of, speed_settings
from benchmarks.command import Parser, from_zero, positive, run
from benchmarks.record import print_table, without, write
from benchmarks.sides import Bench, draw_ratios, interleaved, questions_of, row
from benchmarks.stand import newest, stand, worker
from contract.errors import InputError
from contract.layers import parse_overrides
from contract.settings import Settings, load_settings
from contract.verdict import Verdict
from workers.parent import follower


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("sides", nargs="+", metavar="SIDE", help="settings of a worker: 'NAME=VALUE NAME=VALUE'")
    add_questions(parser)
    parser.option("--rounds", positive, 5, "rounds that count, after a warm-up round")
    add_modes(parser)
    parser.option("--busy", from_zero, 0, "other processes that are busy all the time")
    options = parser.parse_args()
    if len(set(options.sides)) < max(2, len(options.sides)):
        raise InputError("There is nothing to compare.", hint="Give at least two sides, all of them different.")
    if options.model or load_settings(options.config).models:
        raise InputError("Sides are workers of one model.", hint="Give a deploy file with that one alone, as --config.")
    for side in options.sides:
        settings, _ = split(side)
        load_settings(options.config, settings)  # so that errors are reported before anything boots
        if "model" in parse_overrides(settings, InputError):
            raise InputError("model: each side is served under a name of its own.", hint="hf_model_id is the model.")
    source = source_of(options)
    with stand(options.config, vllm_args=shared_gpu(len(options.sides))) as at, ExitStack() as stack:
        bench = Bench(at, source, questions_of(at, source, options.limit), options.rounds)
        pin(at)
        sides = {f"side {number}": side for number, side in enumerate(options.sides, start=1)}
        served = {}
        for name, side in sides.items():
            settings, environment = split(side)
            over = {**parse_overrides(settings, InputError), "model": name.replace(" ", "")}
            stack.enter_context(worker(at, over["model"], environment=environment, **over))
            served[name] = at.settings.model_copy(update=over)
        more: dict[str, Any] = {"deploy": str(options.config), "settings": speed_settings(at.settings), "sides": sides}
        stack.enter_context(busy(options.busy))
        rows: list[dict[str, Any]] = []
        for part, mode in enumerate(options.modes):
            rows.append(compared(bench, part, mode, served))
            path = write("settings", rows, options, **more)  # each time, so that nothing of a long run is lost
    for name, side in sides.items():
        print(f"{name}: {side}")
    print_table("settings", [without(each, "rounds") for each in rows])
    print(path, draw_ratios(path, rows))


def split(side: str) -> tuple[list[str], dict[str, str]]:
    """Return the settings of a side, and the variables of its environment."""
    words = side.split()
    variables = [word for word in words if "=" in word and word.partition("=")[0].isupper()]
    return [word for word in words if word not in variables], dict(word.split("=", 1) for word in variables)


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Let `count` other processes compute within the block, and no longer than this process lives."""
    command, follow = [sys.executable, "-c", "while True: pass"], follower()
    others = [subprocess.Popen(command, preexec_fn=follow) for _ in range(count)]
    try:
        yield
    finally:
        for each in others:
            each.kill()
            each.wait()


def compared(bench: Bench, part: int, mode: str, served: Mapping[str, Settings]) -> dict[str, Any]:
    """Return the speed of every side beside the first one, and how many of its answers are the first one's.

    `part` is as in `interleaved`.
    """
    first = next(iter(served))
    times = interleaved({side: partial(bench.whole_path, mode, own) for side, own in served.items()}, bench, part)
    found = row(mode, bench.limit, times, base=first, inverse=True)
    answers = {side: answered(bench, mode, own) for side, own in served.items()}
    found |= {f"answers of {side} as of {first}": alike(answers[first], answers[side]) for side in [*served][1:]}
    return found


def answered(bench: Bench, mode: str, served: Settings) -> list[Verdict]:
    """Return the verdicts of one side, with the same prompts for every side."""
    bench.whole_path(mode, served, "of answers", bench.limit)
    return newest(bench.at)


def alike(one: Sequence[Verdict], other: Sequence[Verdict]) -> int:
    """Return the number of questions for which the choice is the same, or missing from both."""
    return sum(a.choice == b.choice for a, b in zip(one, other, strict=True))


if __name__ == "__main__":
    run(main)
