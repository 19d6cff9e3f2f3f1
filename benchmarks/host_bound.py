"""What a worker's processes can do beside a GPU that serves a small model, with and without `reading_processes`.

No GPU is needed, and none is measured: vLLM runs whole, but instead of a model's computation it waits for as long as a
GPU would take, by `--ms-per-1000-tokens` and `--least-ms`, and its tokens are random (benchmarks.timed_executor). The
defaults are calculated for a model of 1.5 billion parameters on an H100: 3 GFLOP per token at 550 TFLOP/s, and 3 GB of
weights at 3.35 TB/s, with as much again for what else a step does. Log-probabilities take no time.

The whole path, with the settings of `--config`, is compared with `LLM.generate` over the same prompts, as in
benchmarks.whole_path, for each number of reading processes in turn; only texts are read by them. With two cores, a
third process takes them from the other two, and shows less than on a machine with cores to spare: see the table's CPU
seconds.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.asking import add_modes, pin, speed_settings
from benchmarks.command import Parser, above_zero, existing_file, from_zero, positive, run
from benchmarks.made_up import made_up_file
from benchmarks.raw import Raw, beside_raw
from benchmarks.record import print_table, without, write
from benchmarks.sides import Bench, Times, row
from benchmarks.stand import Stand, stand, worker
from contract.errors import EngineError
from producer.readers import Source
from workers.engines.installed import is_cpu_build, require_vllm

MODEL = "smollm2-135m-instruct"
EXECUTOR = "benchmarks.timed_executor.TimedExecutor"
#: For 1,024 texts of a 135M, a third more than they need in 16 bits. Two engines have one each.
CACHE_BYTES = 4 * 1024**3
WARM_UP_BATCHES = 2


def main() -> None:
    parser = Parser(__doc__)
    parser.option("--config", existing_file, Path("configs/deploy/gpu.yaml"), "deploy file; its model is not used")
    add_modes(parser, ("generate",))
    parser.option("--limit", positive, 4096, "questions of a timed run")
    parser.option("--rounds", positive, 2, "rounds that count with each pair of processes, after a warm-up round")
    parser.option("--boots", positive, 2, "fresh pairs of processes for each number of reading processes")
    parser.option("--processes", from_zero, (0, 2), "different numbers of reading processes")
    parser.option("--ms-per-1000-tokens", above_zero, 5.5, "time of a step per 1,000 tokens, in milliseconds")
    parser.option("--least-ms", above_zero, 2.0, "least time of a step, in milliseconds")
    parser.option("--mean-tokens", positive, 24, "mean length of the texts, which end at 48 tokens at the latest")
    options = parser.parse_args()
    require_vllm()
    if not is_cpu_build():
        raise EngineError("This needs vLLM's CPU build.", hint="On a GPU, python -m benchmarks.gpu_check measures it.")
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1"  # as on a GPU: the core is a process of its own
    given = {
        "ms_per_1000_tokens": options.ms_per_1000_tokens,
        "least_ms": options.least_ms,
        "mean_tokens": options.mean_tokens,
    }
    arguments = {
        "distributed_executor_backend": EXECUTOR,
        "additional_config": given,
        "enforce_eager": True,
        "kv_cache_memory_bytes": CACHE_BYTES,
    }
    with stand(options.config, hf_model_id=MODEL, vllm_args=arguments) as at:
        rows = measure(at, options.modes, options.limit, options.boots, options.rounds, options.processes)
        more: dict[str, Any] = {"deploy": str(options.config), "settings": speed_settings(at.settings)}
    print_table("questions beside a GPU's waiting times", [without(each, "rounds") for each in rows])
    print(write("host_bound", rows, options, **more))


def measure(
    at: Stand, modes: Sequence[str], count: int, boots: int, rounds: int, processes: Sequence[int]
) -> list[dict[str, Any]]:
    """Return a row per mode and number of reading processes."""
    source = Source(made_up_file(at.folder / "questions.jsonl", count), "made up")
    batch = min(count, at.settings.batch_size)
    warm_up = min(count, WARM_UP_BATCHES * batch)
    bench = Bench(at, source, count, rounds, in_full=False, warm_up=warm_up)
    pin(at)
    asked = rounds * (count + batch) + warm_up + batch
    cases = [(mode, number) for mode in modes for number in processes]
    times: dict[tuple[str, int], Times] = {case: {} for case in cases}
    busy_s: dict[tuple[str, int], list[float]] = {case: [] for case in cases}
    for boot in range(boots):
        for mode, number in cases[:: -1 if boot % 2 else 1]:
            case = mode, number
            part = boot * len(cases) + cases.index(case)  # no two pairs ask the same
            with closing(Raw(bench)) as raw, worker(at, reading_processes=number) as served:
                before_s = sum(served.process.cpu_times()[:2])
                found = beside_raw(bench, raw, mode, part)
                busy_s[case].append((sum(served.process.cpu_times()[:2]) - before_s) / asked)
            for name, seconds in found.items():
                times[case].setdefault(name, []).extend(seconds)
    return [
        {
            "reading processes": number,
            **row(mode, count, times[mode, number], base="mcqueue"),
            "worker's own CPU per question, ms": 1000 * statistics.median(busy_s[mode, number]),
        }
        for mode, number in cases
    ]


if __name__ == "__main__":
    run(main)
