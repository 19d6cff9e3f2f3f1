"""The essentials on a machine with an NVIDIA GPU, in a few minutes, and one JSON file that says how they went.

    python -m benchmarks.gpu_check [--config DEPLOY] [--model ID] [--questions N] [--rounds N] [--out FOLDER]

| check | passes when |
|---|---|
| boot | the worker gets ready |
| modes | every mode scores all demo questions; `judge` some, as a small model writes no usable grades |
| parity | in float32, letters and likelihoods choose what transformers chooses on this machine's CPU, near-ties aside |
| whole path | at least 1.00, 0.98, 0.97 of `LLM.generate` for letter, likelihood, generate (benchmarks.whole_path) |
| one at a time | the whole path is at least 20 times as fast |
| GPU utilisation | 80 % in the mean while questions are scored, as nvidia-smi counts it |

The model travels as a package, so that nothing is downloaded; with `--model` any other.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.asking import Asking, pin, whole_path
from benchmarks.cpu_truth import cpu_scores, differing
from benchmarks.record import add_out, print_table, write
from benchmarks.stand import Stand, made_up_questions, stand, worker
from benchmarks.whole_path import Bench, against_raw
from contract.verdict import Outcome, Verdict
from producer.readers import Source
from workers.engines.packaged import resolve
from workers.gpus import visible_gpus

MODEL = "smollm2-135m-instruct"
DEMO = Path("demo/questions.jsonl")
COMPARED = ("letter", "likelihood")
#: Mode → how it is asked.
MODES: Mapping[str, Sequence[str]] = {
    "letter": [],
    "likelihood": [],
    "generate": ["sampling.max_tokens=48"],
    "vote": ["sampling.max_tokens=48", "sampling.samples=3", "sampling.temperature=0.8"],
    "judge": ["sampling.max_tokens=48"],
}
DEMO_QUESTIONS = 160
#: What the prompts of the answers' check begin with.
MARK = "of the check"
COMPARED_QUESTIONS = 40
#: Least ratio to `LLM.generate`, and to one request at a time.
TO_RAW = {"letter": 1.0, "likelihood": 0.98, "generate": 0.97}
TO_ALONE = 20.0
UTILISATION = 80.0
#: Two engines at a time, each with its share of the GPU's memory.
HALF_A_GPU = {"gpu_memory_utilization": 0.4}


@dataclass
class Checks:
    """What was looked at."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, check: str, found: float, wanted: float, *, most: bool = False) -> None:
        """One more; `wanted` is the least that passes, or the most."""
        passed = found <= wanted if most else found >= wanted
        self.rows.append({"check": check, "found": found, "wanted": wanted, "passed": passed})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=Path("configs/deploy/gpu.yaml"), help="deploy file")
    parser.add_argument("--model", default=MODEL, help=f"what is served ({MODEL})")
    parser.add_argument("--questions", type=int, default=2000, help="questions of the timed runs (2000)")
    parser.add_argument("--rounds", type=int, default=3)
    add_out(parser)
    options = parser.parse_args()
    if not visible_gpus():
        print("error: no NVIDIA GPU here", file=sys.stderr)
        return 1
    checks = Checks()
    exact = {"hf_model_id": options.model, "vllm_args": {"dtype": "float32", **HALF_A_GPU}}
    with stand(options.config, **exact) as at:
        check_answers(at, checks)
    with stand(options.config, hf_model_id=options.model, vllm_args=HALF_A_GPU) as at:
        check_speed(at, checks, options.questions, options.rounds)
    print_table("GPU check", checks.rows)
    command = f"python -m benchmarks.gpu_check --model {options.model} --questions {options.questions}"
    gpus = [each.uuid for each in visible_gpus()]
    print(write("gpu_check", command, checks.rows, folder=options.out, gpus=len(gpus)))
    return 0 if all(row["passed"] for row in checks.rows) else 1


def check_answers(at: Stand, checks: Checks) -> None:
    """Boot, all modes, and the same choices as on a CPU."""
    pin(at.settings)
    started = time.monotonic()
    with worker(at):
        checks.add("boot, s", time.monotonic() - started, at.settings.server_startup_timeout, most=True)
        for mode in MODES:
            found = verdicts_of(at, mode)
            failed = sum(each.outcome is Outcome.FAILED for each in found)
            checks.add(f"{mode}: scored", len(found) - failed, DEMO_QUESTIONS if mode != "judge" else 1)
            if mode in COMPARED:
                some = asking_in(mode).items(at.settings, MARK, at.folder)[:COMPARED_QUESTIONS]
                truth = list(cpu_scores(resolve(at.settings.hf_model_id), some))
                others = differing([each.choice for each in found[:COMPARED_QUESTIONS]], truth)
                checks.add(f"{mode}: other choices than on a CPU", others, 0, most=True)


def check_speed(at: Stand, checks: Checks, count: int, rounds: int) -> None:
    """The whole path beside the engine alone, and how busy the GPU is meanwhile."""
    file = made_up_questions(at.folder / "questions.jsonl", count)
    source = Source(file, "made up")
    for row in against_raw(Bench(at, source, count, rounds, alone=32), list(TO_RAW)):
        checks.add(f"{row['mode']}: whole path to raw", row["mcqueue to raw"], TO_RAW[row["mode"]])
        checks.add(f"{row['mode']}: whole path to one at a time", row["mcqueue to one at a time"], TO_ALONE)
    with worker(at):
        asking = Asking(source, ["mode=generate", "prompt=lettered", "sampling.max_tokens=48"], count)
        whole_path(at, asking, at.settings, "to warm up")
        with utilisation() as seen:
            whole_path(at, asking, at.settings, "watched")
    checks.add("GPU utilisation, %", statistics.mean(seen), UTILISATION)


def asking_in(mode: str) -> Asking:
    """The demo questions in that mode."""
    return Asking(Source(DEMO, DEMO.name), [f"mode={mode}", *MODES[mode]], DEMO_QUESTIONS)


def verdicts_of(at: Stand, mode: str) -> list[Verdict]:
    """What the demo questions came to in that mode."""
    whole_path(at, asking_in(mode), at.settings, MARK)
    return [verdict for _, verdict in at.ledger.results(at.ledger.runs()[0].run_id) if verdict]


@contextmanager
def utilisation() -> Iterator[list[float]]:
    """Per cent of the time in which the first visible GPU computed, sampled ten times a second."""
    import pynvml

    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(int(visible_gpus()[0].name))
    seen: list[float] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.1):
            seen.append(pynvml.nvmlDeviceGetUtilizationRates(device).gpu)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
        pynvml.nvmlShutdown()


if __name__ == "__main__":
    sys.exit(main())
