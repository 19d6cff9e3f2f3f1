"""Essential checks on a machine with an NVIDIA GPU, in a few minutes, with the results in one JSON file.

| check | passes if |
|---|---|
| boot | the worker becomes ready |
| modes | every mode scores all demo questions; `judge` some, as a small model writes hardly any usable grades |
| parity | in float32, letters and likelihoods choose what transformers chooses on this machine's CPU, near-ties aside |
| whole path | at least 0.90, 0.98, 0.93 of `LLM.generate` for letter, likelihood, generate (benchmarks.whole_path) |
| one at a time | in `generate`, the whole path is at least 20 times as fast |
| GPU utilisation | in `generate`, a mean of 80 % from the first batch to the last verdict, as reported by the driver |

Every check is made, regardless of the results of others; one that cannot be made has failed, and the file says why. It
is written after every check, with those still `pending`, so that a limit on time leaves what was found before it.
Three engines boot: one without compilation for the answers, as compiling takes longer than answering; after it has
ended, side by side on one GPU, `LLM` and the worker that is compared with it, whose utilisation is then measured too.

Nothing is downloaded. The answers are those of a small model that is installed as a package. Its speed would be limited
by Python, so the speed checks use a model of random weights instead, with the largest shape that fits on the GPU twice:
that of a 7B model on 80 GB (benchmarks.random_model, which also says what such a model does not show). With `--model`,
both kinds of checks use that model.

Only `generate` is compared with one at a time, where every step reads all weights for a single token. By an H100's data
sheet, computing a prompt of 60 tokens takes a fifth of the time that it takes to read the weights of a 7B model, so
modes that only prefill gain about 5 times, not 20. `speeds` in the file has the ratios of all modes.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from benchmarks.asking import MODES_ASKED, Asking, pin, speed_settings, whole_path
from benchmarks.command import Parser, existing_file, positive, run
from benchmarks.cpu_truth import IEEE, differing, scoring_apart
from benchmarks.made_up import made_up_file
from benchmarks.random_model import RANDOM_WEIGHTS, largest_fitting, write_model
from benchmarks.raw import Raw, beside_raw
from benchmarks.record import print_table, write
from benchmarks.sides import Bench, row
from benchmarks.stand import Stand, asked_between, newest, stand, worker
from contract.errors import EngineError
from contract.verdict import Outcome, Verdict
from producer.readers import Source
from workers.check import free_memory, installed_build
from workers.engines.installed import is_cpu_build, require_vllm
from workers.engines.packaged import prepare, resolve
from workers.gpus.nvidia import visible_gpus
from workers.host.diagnostics import check_free_memory
from workers.monitoring.hardware import Hardware

PACKAGED_MODEL = "smollm2-135m-instruct"
DEMO = Path("demo/questions.jsonl")
COMPARED = ("letter", "likelihood")
#: Mode → its settings.
MODES: Mapping[str, Sequence[str]] = {
    "letter": [],
    "likelihood": [],
    "generate": ["sampling.max_tokens=48"],
    "vote": ["sampling.max_tokens=48", "sampling.samples=3", "sampling.temperature=0.8"],
    "judge": ["sampling.max_tokens=48"],
}
DEMO_QUESTIONS = 160
#: The mark with which the prompts of the answer checks begin.
MARK = "of the check"
COMPARED_QUESTIONS = 40
#: Minimum ratio to `LLM.generate`, which has its first prompt in the engine at once. Ours is there some 0.25 s after
#: `enqueue`: by calculation, 5 to 10 % of what a 7B takes for the letters of 2,048 questions on an H100.
TO_RAW = {"letter": 0.9, "likelihood": 0.98, "generate": 0.93}
#: Minimum ratio of `generate` to one request at a time.
TO_ALONE = {"generate": 20.0}
#: Questions asked one at a time.
ALONE = 8
UTILISATION = 80.0
#: The utilisation run has so many times the texts of a timed run, as the driver averages over up to a second.
WATCHED = 2
#: Batches of the round that is not counted: with a few, each engine has run every kernel that the others use.
WARM_UP_BATCHES = 2
LOOK_EVERY_S = 0.1
#: Share of the GPU's memory for each of two engines.
SHARE = 0.4
HALF_A_GPU = {"gpu_memory_utilization": SHARE}
#: Limits that a machine exceeds with the models that need no network only if something hangs; the checks that follow
#: are then made all the same. The limit of a call is for `QUESTIONS`.
BOOT_WITHIN_S = 240.0
CALL_WITHIN_S = 120.0
STALLED_AFTER_S = 90.0
#: Whole batches of configs/deploy/gpu.yaml, as a last one that is not full would wait for batch_timeout.
QUESTIONS = 2048
#: Mode → how many times the questions it is timed with. By `likelihood`, `LLM.generate` reads a question per choice. Of
#: texts, as many as fit into the engine end together, and the last ones are read while it has nothing left to do.
TIMES_ASKED = {"likelihood": 0.5, "generate": 2.0}
BOOT, BOOT_BESIDE, BUSY = "boot, s", "boot beside raw, s", "GPU utilisation, %"


@dataclass
class Checks:
    """The results of the checks."""

    #: The checks to be made.
    names: Sequence[str] = ()
    #: Called after each result, so that no result of a long run is lost.
    keep: Callable[[Checks], object] = lambda _: None
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def pending(self) -> list[str]:
        """The checks without a result."""
        made = {row["check"] for row in self.rows}
        return [name for name in self.names if name not in made]

    def add(self, check: str, found: float, wanted: float, *, most: bool = False) -> None:
        """Add a result; `wanted` is the minimum that passes, or the maximum with `most`."""
        passed = found <= wanted if most else found >= wanted
        self._tell({"check": check, "found": found, "wanted": wanted, "passed": passed})

    @contextmanager
    def making(self, *checks: str) -> Iterator[None]:
        """Record those of `checks` without a result as failed if the block raises, with the exception as reason."""
        try:
            yield
        except Exception as trouble:  # noqa: BLE001 - a check that cannot be made has failed
            traceback.print_exc()
            made = {row["check"] for row in self.rows}
            why = f"{type(trouble).__name__}: {trouble}"
            for each in checks:
                if each not in made:
                    self._tell({"check": each, "passed": False, "why": why})

    def _tell(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        self.keep(self)
        print(", ".join(f"{name} {value}" for name, value in row.items()), file=sys.stderr)


def main() -> int:
    parser = Parser(__doc__)
    parser.option("--config", existing_file, Path("configs/deploy/gpu.yaml"), "deploy file")
    parser.option("--model", str, None, "model for answers and speed (default: two that need no network)")
    parser.option(
        "--questions",
        positive,
        QUESTIONS,
        "questions of the timed runs; half as many by likelihood, twice as many texts",
    )
    parser.option("--rounds", positive, 1, "rounds that count, after a warm-up round")
    options = parser.parse_args()
    refuse_unfit()
    started = time.monotonic()
    answers = options.model or PACKAGED_MODEL
    more: dict[str, Any] = {"model": answers, "deploy": str(options.config)}

    def keep(checks: Checks) -> Path:
        took_s = round(time.monotonic() - started)
        return write("gpu_check", checks.rows, options, took_s=took_s, pending=checks.pending, **more)

    speed = [BOOT_BESIDE, *(name for mode in TO_RAW for name in speed_checks(mode)), BUSY]
    checks = Checks([*answer_checks(), *speed], keep)
    keep(checks)
    try:
        with checks.making(*answer_checks()), stand(options.config, **exact(options.model)) as at:
            check_answers(impatient(at, options.model), checks)
        with (
            checks.making(*speed),
            timed_model(options.model) as timed,
            stand(options.config, **timed) as at,
        ):
            name = options.model or Path(timed["hf_model_id"]).name
            more |= {"settings": {**speed_settings(at.settings), "hf_model_id": name}, "speeds": []}
            limit_s = None if options.model else CALL_WITHIN_S * max(1.0, options.questions / QUESTIONS)
            check_speed(
                impatient(at, options.model), checks, options.questions, options.rounds, limit_s, more["speeds"]
            )
    finally:  # after an interruption, the results so far are kept
        print_table(f"GPU check, {time.monotonic() - started:.0f} s", checks.rows)
        print(keep(checks))
    return 0 if all(row["passed"] for row in checks.rows) and not checks.pending else 1


def refuse_unfit() -> None:
    """Raise EngineError, with the remedy, for what would make every check fail."""
    gpus = visible_gpus()
    if not gpus:
        raise EngineError("No NVIDIA GPU found.", hint="python -m workers check says why.")
    require_vllm()
    if is_cpu_build():
        raise EngineError("vLLM's CPU build is installed here.", hint="make setup VARIANT=gpu")
    if "mcqueue" not in {each.name for each in entry_points(group="vllm.general_plugins")}:
        told = "pip install --no-deps --editable . : without its plugin, vLLM's processes outlive a killed worker."
        raise EngineError("mcqueue is not installed in this environment.", hint=told)
    first = gpus[0]
    unfit = [*installed_build(len(gpus)), *check_free_memory(free_memory([first]), {first.name: 2 * SHARE})]
    for each in unfit:
        raise EngineError(f"{each.found}.", hint=each.remedy)


def exact(model: str | None) -> dict[str, Any]:
    """Return settings for answers that can be compared with a CPU's, and no compilation."""
    arguments = {"dtype": "float32", "enforce_eager": True, **HALF_A_GPU}
    if model:
        return {"hf_model_id": model, "vllm_args": arguments}
    return {"hf_model_id": PACKAGED_MODEL, "vllm_args": arguments, "server_startup_timeout": BOOT_WITHIN_S}


def impatient(at: Stand, model: str | None) -> Stand:
    """Return `at` with a shorter wait for a verdict, unless the user named a `model`, which may take long."""
    return at if model else replace(at, stalled_after_s=STALLED_AFTER_S)


@contextmanager
def timed_model(model: str | None) -> Iterator[dict[str, Any]]:
    """Yield settings that serve the model of the speed checks, twice on one GPU: `model`, or random weights."""
    if model:
        yield {"hf_model_id": model, "vllm_args": HALF_A_GPU}
        return
    tokenizer = prepare(PACKAGED_MODEL)
    with tempfile.TemporaryDirectory(prefix="mcqueue-model-") as folder:
        shape = largest_fitting(SHARE * gpu_memory_bytes(), tokenizer)
        written = write_model(Path(folder), shape, tokenizer)
        arguments = {**RANDOM_WEIGHTS, **HALF_A_GPU}
        yield {"hf_model_id": str(written), "vllm_args": arguments, "server_startup_timeout": BOOT_WITHIN_S}


def gpu_memory_bytes() -> int:
    """Return the total memory of the first visible GPU."""
    (gpu,) = Hardware([visible_gpus()[0].name]).gpus()
    return gpu.memory_total_bytes


def answer_checks() -> list[str]:
    """Return the names of the checks of answers."""
    return [BOOT, *map(scored, MODES), *map(others, COMPARED)]


def scored(mode: str) -> str:
    """Return the name of the check whether a mode scores."""
    return f"{mode}: scored"


def others(mode: str) -> str:
    """Return the name of the check whether a mode's choices are right."""
    return f"{mode}: other choices than on a CPU"


def check_answers(at: Stand, checks: Checks) -> None:
    """Check the boot, all modes, and that the choices are those of a CPU, which are computed meanwhile."""
    at.environment.update(IEEE)
    truth: Mapping[str, Future[list[list[float]]]] = {}
    with ExitStack() as stack:
        with checks.making(*map(others, COMPARED)):
            some = {mode: asking_in(mode).items(at.settings, MARK)[:COMPARED_QUESTIONS] for mode in COMPARED}
            truth = stack.enter_context(scoring_apart(resolve(at.settings.hf_model_id), some))
        with checks.making(BOOT):
            pin(at)
            started = time.monotonic()
            stack.enter_context(worker(at))
            checks.add(BOOT, time.monotonic() - started, at.settings.server_startup_timeout, most=True)
        for mode in MODES:
            with checks.making(scored(mode), *([others(mode)] if mode in COMPARED else [])):
                found = verdicts_of(at, mode)
                failed = sum(each.outcome is Outcome.FAILED for each in found)
                checks.add(scored(mode), len(found) - failed, DEMO_QUESTIONS if mode != "judge" else 1)
                if mode in truth:
                    chosen = [each.choice for each in found[:COMPARED_QUESTIONS]]
                    scores = truth[mode].result(at.settings.server_startup_timeout)
                    checks.add(others(mode), differing(chosen, scores), 0, most=True)


def check_speed(
    at: Stand, checks: Checks, count: int, rounds: int, limit_s: float | None, speeds: list[dict[str, Any]]
) -> None:
    """Compare the whole path with the engine alone, and measure the GPU's utilisation; add all figures to `speeds`.

    `limit_s` is the time limit of a call of the engine alone.
    """
    texts = timed_questions("generate", count)
    source = Source(made_up_file(at.folder / "questions.jsonl", WATCHED * texts), "made up")
    bench = Bench(
        at,
        source,
        count,
        rounds,
        alone=ALONE,
        in_full=False,
        warm_up=min(count, WARM_UP_BATCHES * at.settings.batch_size),
        boot_within_s=at.settings.server_startup_timeout,
        call_within_s=limit_s,
    )
    names = {mode: speed_checks(mode) for mode in TO_RAW}
    with ExitStack() as stack:
        raw = None
        with checks.making(*(name for each in names.values() for name in each)):
            pin(at)
            raw = stack.enter_context(closing(Raw(bench)))
        with checks.making(BOOT_BESIDE):
            started = time.monotonic()
            stack.enter_context(worker(at))
            checks.add(BOOT_BESIDE, time.monotonic() - started, at.settings.server_startup_timeout, most=True)
        for part, (mode, wanted) in enumerate(names.items() if raw else ()):
            with checks.making(*wanted):
                some = timed_questions(mode, count)
                times = beside_raw(replace(bench, limit=some), raw, mode, part)
                speeds.append(row(mode, some, times, base="mcqueue"))
                for name, (figure, least) in wanted.items():
                    checks.add(name, speeds[-1][figure], least)
        with checks.making(BUSY):
            checks.add(BUSY, utilisation(at, source, WATCHED * texts), UTILISATION)


def timed_questions(mode: str, count: int) -> int:
    """Return how many questions that mode is timed with."""
    return max(1, round(count * TIMES_ASKED.get(mode, 1)))


def speed_checks(mode: str) -> dict[str, tuple[str, float]]:
    """Return check → the figure in the mode's row of `speeds`, and the minimum that passes."""
    checks = {f"{mode}: whole path to raw": ("mcqueue to raw", TO_RAW[mode])}
    if mode in TO_ALONE:
        checks[f"{mode}: whole path to one at a time"] = ("mcqueue to one at a time", TO_ALONE[mode])
    return checks


def utilisation(at: Stand, source: Source, count: int) -> float:
    """Return the percentage of time that the first visible GPU was busy, from the first batch to the last verdict."""
    with watched() as seen:
        whole_path(at, Asking(source, MODES_ASKED["generate"], count), at.settings, "watched")
    began_at, ended_at = asked_between(newest(at))
    busy = [share for at_s, share in seen if began_at <= at_s <= ended_at]
    if not busy:
        raise EngineError("The driver tells no utilisation of this GPU, as for instances of one in MIG mode.")
    return 100 * statistics.mean(busy)


def asking_in(mode: str) -> Asking:
    """Return the demo questions, asked in that mode."""
    return Asking(Source(DEMO, DEMO.name), [f"mode={mode}", *MODES[mode]], DEMO_QUESTIONS)


def verdicts_of(at: Stand, mode: str) -> list[Verdict]:
    """Ask the demo questions in that mode, and return the verdicts."""
    whole_path(at, asking_in(mode), at.settings, MARK, may_fail=True)
    return newest(at)


@contextmanager
def watched() -> Iterator[list[tuple[float, float]]]:
    """Yield a list that grows by samples of the first visible GPU: the time, and its utilisation."""
    hardware = Hardware([visible_gpus()[0].name])
    seen: list[tuple[float, float]] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_EVERY_S):
            seen.extend((time.time(), each.utilization) for each in hardware.gpus() if each.utilization is not None)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    run(main)
