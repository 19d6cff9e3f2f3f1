"""The whole path against the engine alone: enqueue, queue, worker, ledger beside one `LLM.generate` over all prompts.

All sides have the same model, engine arguments, prompts (except for one side, the very same token ids) and sampling,
and are up at the same time; every round asks every side in turn, every other round in reverse order, and the ratios are
taken within a round. The median over the rounds counts. Every mode has fresh processes: earlier calls change how the C
library allocates memory in the offline class, which generates texts a tenth faster once it has computed
log-likelihoods. Of processes that do the same, some are 3 % faster than others from start to end, so `--boots` takes
rounds from that many pairs of processes for each mode.

| side | seconds |
|---|---|
| raw | `vllm.LLM.generate` over all prompts at once, token ids ready: no reading, no tokenising, no verdicts |
| raw, choices in full | the same with a prompt per choice, including the question: the usual way to get `likelihood` \
from vLLM's own interface |
| one at a time | the same `LLM`, one request after another (the first `--alone` questions; compared by questions/s) |
| mcqueue | from the call that enqueues the file to the last verdict in the ledger: reading, validating, writing, \
publishing, gathering, prompts, tokenising, inference, reading, committing |

`letter`: one prefill per question with the log-probabilities of the labels. `likelihood`: raw gets the very prefills
that mcqueue planned, which are fewer and shorter than a prompt per choice, and computes those with `prompt_logprobs` in
full, as vLLM does. `generate`: greedy text to its own end, at most 48 tokens.
Every prompt begins with the number of its round, so that no side finds an earlier round's prompts in its cache.
Use whole batches, and several of them: a last batch that is not full waits for `batch_timeout`.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from benchmarks.asking import Asking, add_questions, chosen_model, pin, shared_gpu, speed_settings, whole_path
from benchmarks.command import Parser, from_zero, positive, run
from benchmarks.record import bars, print_table, without, write
from benchmarks.stand import Stand, stand, worker
from contract.errors import EngineError, RequestRejected
from contract.settings import Settings
from contract.wording import number
from producer.readers import Source
from workers.engines.base import Request
from workers.engines.encoding import Encoded, PromptEncoder
from workers.engines.model_files import tokenizer_of
from workers.engines.packaged import resolve
from workers.engines.prefill_plan import make_plan
from workers.engines.sampling_params import sampling_params
from workers.engines.vllm import engine_arguments, prepare_environment
from workers.parent import follow_parent
from workers.scoring import requests_of

#: Mode → overrides of the run's defaults.
MODES_ASKED: Mapping[str, Sequence[str]] = {
    "letter": ["mode=letter"],
    "likelihood": ["mode=likelihood"],
    "generate": ["mode=generate", "prompt=lettered", "sampling.max_tokens=48"],
}
#: The round's mark and the number of questions → seconds for them.
Measure = Callable[[str, int], float]
#: Token ids and sampling parameters in vLLM's format.
Prompt: TypeAlias = tuple[dict[str, list[int]], Any]
Answer = TypeVar("Answer")
#: How long the raw side's engine may take to end before its process is killed.
END_WITHIN_S = 60.0
#: Side → seconds for all questions in each round.
Times = dict[str, list[float]]


@dataclass(frozen=True)
class Bench:
    """What is asked, and where."""

    at: Stand
    source: Source
    limit: int
    rounds: int
    alone: int = 0
    boots: int = 1
    #: Whether to measure `raw, choices in full` too.
    in_full: bool = True
    #: Questions of the round that is not counted; 0: as many as in the others.
    warm_up: int = 0
    #: Time limits of the raw side's boot and of each of its calls; None: none.
    boot_within_s: float | None = None
    call_within_s: float | None = None

    def asking(self, mode: str) -> Asking:
        """Return the questions, asked in that mode."""
        return Asking(self.source, MODES_ASKED[mode], self.limit)

    def whole_path(self, mode: str, served: Settings, mark: str, count: int) -> float:
        """Return the seconds for the first `count` questions through queue, worker and ledger."""
        return whole_path(self.at, replace(self.asking(mode), limit=count), served, mark)


def main() -> None:
    parser = Parser(__doc__)
    add_questions(parser)
    parser.option("--alone", from_zero, 8, "questions asked one at a time; 0: none")
    parser.option("--boots", positive, 1, "fresh pairs of processes per mode")
    parser.option("--rounds", positive, 5, "rounds that count with each pair, after a warm-up round")
    parser.option("--modes", str, tuple(MODES_ASKED), "modes", choices=list(MODES_ASKED))
    parser.option("--dtype", str, None, "data type of the model, instead of the deploy file's")
    parser.add_argument(
        "--two-sides", action="store_true", help="omit `raw, choices in full`, to get more rounds per hour"
    )
    options = parser.parse_args()
    source = Source(options.questions, str(options.questions))
    dtype = {"dtype": options.dtype} if options.dtype else {}
    with stand(options.config, **chosen_model(options), vllm_args={**shared_gpu(2), **dtype}) as at:
        count = questions_of(at, source, options.limit)
        alone, in_full = min(options.alone, count), not options.two_sides
        bench = Bench(at, source, count, options.rounds, alone, options.boots, in_full)
        more: dict[str, Any] = {"deploy": str(options.config), "settings": speed_settings(at.settings)}
        for rows in against_raw(bench, options.modes):
            path = write("whole_path", rows, options, **more)  # each time, so that nothing of a long run is lost
    print_table("whole path", [without(each, "rounds") for each in rows])
    print(path, draw_ratios(path, rows))


def questions_of(at: Stand, source: Source, limit: int) -> int:
    """Return how many questions are asked. Raises InputError for what cannot be asked, before anything boots."""
    count, size = Asking(source, MODES_ASKED["letter"], limit).count(at.settings), at.settings.batch_size
    if count % size:
        waits = f"the last one waits for batch_timeout, {at.settings.batch_timeout:g} s"
        print(f"note: {number(count, 'question')}, not in whole batches of {size}: {waits}", file=sys.stderr)
    return count


def against_raw(bench: Bench, modes: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
    """Yield a row per mode, over all boots so far, after each boot."""
    pin(bench.at)
    times: dict[str, Times] = {mode: {} for mode in modes}
    for boot in range(bench.boots):
        for mode in modes:
            with closing(Raw(bench)) as raw, worker(bench.at):
                for name, seconds in beside_raw(bench, raw, mode, boot).items():
                    times[mode].setdefault(name, []).extend(seconds)
        yield [row(mode, bench.limit, of_mode, base="mcqueue") for mode, of_mode in times.items()]


def beside_raw(bench: Bench, raw: Raw, mode: str, boot: int = 0) -> Times:
    """Return the times of all sides in one mode, with the worker that is up."""
    sides: dict[str, Measure] = {
        "raw": partial(raw.all_at_once, mode),
        "mcqueue": partial(bench.whole_path, mode, bench.at.settings),
    }
    if mode == "likelihood" and bench.in_full:
        sides["raw, choices in full"] = raw.whole_choices
    if bench.alone:
        sides["one at a time"] = partial(raw.one_at_a_time, mode)
    return interleaved(sides, bench, boot)


def interleaved(sides: Mapping[str, Measure], bench: Bench, boot: int = 0) -> Times:
    """Return the seconds of every side in every round, every other one in reverse order; a first round is not counted.

    Each side is also asked a batch just before it is timed: an engine that runs right after another process' engine is
    2 to 3 % slower than one that runs after itself.
    """
    times: Times = {name: [] for name in sides}
    batch = min(bench.limit, bench.at.settings.batch_size)
    for turn in range(bench.rounds + 1):
        count = bench.limit if turn else bench.warm_up or bench.limit
        for name, measure in list(sides.items())[:: -1 if (boot + turn) % 2 else 1]:
            measure(f"{boot}.{turn}, to warm up", batch)
            seconds = measure(f"{boot}.{turn}", count)
            print(f"round {boot}.{turn}: {name} {seconds:.2f} s", file=sys.stderr)
            if turn:
                times[name].append(seconds)
    return times


def row(mode: str, count: int, times: Times, base: str, *, inverse: bool = False) -> dict[str, Any]:
    """Return medians, and the speed of `base` relative to the others (inverse: of the others relative to `base`)."""
    found: dict[str, Any] = {"mode": mode, "questions": count}
    found |= {f"{name} questions/s": count / statistics.median(seconds) for name, seconds in times.items()}
    for name, seconds in times.items():
        if name == base:
            continue
        ratios = [theirs / ours for ours, theirs in zip(times[base], seconds, strict=True)]
        ratios = [1 / each for each in ratios] if inverse else ratios
        shown = f"{name} to {base}" if inverse else f"{base} to {name}"
        found |= {shown: statistics.median(ratios), f"{shown}, rounds": [round(each, 3) for each in ratios]}
    return found


def draw_ratios(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path | str:
    """Draw the ratios of `row` as bars next to the JSON file `path`; return the chart's path, or why there is none."""
    ratios = {f"{each['mode']}, {key}": each[key] for each in rows for key in without(each, "rounds") if " to " in key}
    return bars(path, "Times as fast, medians", "ratio", ratios)


class Raw:
    """vLLM's own offline class, used as its documentation shows, in its own process."""

    def __init__(self, bench: Bench) -> None:
        settings = bench.at.settings
        model = resolve(settings.hf_model_id)
        prepare_environment(model)  # here too, where the prompts are built
        self._bench = bench
        self._encoder = PromptEncoder(tokenizer_of(model, settings.vllm_args))
        spawn = multiprocessing.get_context("spawn")
        self._process = ProcessPoolExecutor(1, mp_context=spawn, initializer=_boot, initargs=(settings,))
        try:
            self._limit = self._answer(bench.boot_within_s, _max_model_len)
        except BaseException:  # also by a signal: Python would wait at its end until the boot is over
            _kill_children()
            raise

    def close(self) -> None:
        """End the process, after vLLM's own, for which it would wait."""
        with suppress(EngineError):
            self._answer(END_WITHIN_S, _end)
        self._process.shutdown()

    def _answer(self, within_s: float | None, asked: Callable[..., Answer], *arguments: Any) -> Answer:
        """Return what `asked` returns in the process; kill that if it takes longer. Raises EngineError."""
        try:
            return self._process.submit(asked, *arguments).result(within_s)
        except BrokenProcessPool:
            raise EngineError("vLLM's offline class has ended; see its output above.") from None
        except TimeoutError:
            _kill_children()
            raise EngineError(f"vLLM's offline class did not answer within {within_s:g} s.") from None

    def all_at_once(self, mode: str, mark: str, count: int) -> float:
        """Return the seconds of a single call for the first `count` questions."""
        return self._seconds([self._prompts(mode, mark, count)])

    def whole_choices(self, mark: str, count: int) -> float:
        """Return the seconds of a single call for every choice of the first `count` questions in full."""
        return self._seconds([self._whole_choices(mark, count)])

    def one_at_a_time(self, mode: str, mark: str, count: int) -> float:
        """Return the seconds of one call per prompt for some questions, extrapolated to the first `count`."""
        asked = min(self._bench.alone, count)
        prompts = self._prompts(mode, f"{mark}, alone", asked)
        return self._seconds([[each] for each in prompts]) * count / asked

    def _seconds(self, calls: Sequence[Sequence[Prompt]]) -> float:
        return self._answer(self._bench.call_within_s, _generate, calls)

    def _prompts(self, mode: str, mark: str, count: int) -> list[Prompt]:
        """Return all prefills that `count` questions need."""
        found = []
        for request, encoded in self._encoded(mode, mark, count):
            ways = make_plan(request, encoded, self._limit, caches=False)
            if isinstance(ways, RequestRejected):
                raise ways
            found += [
                ({"prompt_token_ids": each.token_ids}, sampling_params(replace(each, use_cache=not each.start)))
                for each in ways.prefills
            ]
        return found

    def _whole_choices(self, mark: str, count: int) -> list[Prompt]:
        """Return every choice of `count` questions after its question, as one would write it for vLLM alone."""
        from vllm import SamplingParams

        sampling = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False)
        found = [encoded for _, encoded in self._encoded("likelihood", mark, count)]
        return [({"prompt_token_ids": [*each.prompt, *tail]}, sampling) for each in found for tail in each.tails]

    def _encoded(self, mode: str, mark: str, count: int) -> Iterator[tuple[Request, Encoded]]:
        """Yield the requests of `count` questions, with their tokens."""
        asking = replace(self._bench.asking(mode), limit=count)
        requests: list[Request] = []
        for item in asking.items(self._bench.at.settings, mark):
            requests += requests_of(item)
        for request, encoded in zip(requests, self._encoder.encode(requests), strict=True):
            if isinstance(encoded, RequestRejected):
                raise encoded
            yield request, encoded


def _kill_children() -> None:
    for process in multiprocessing.active_children():
        process.kill()


#: In the process of the raw side: its `LLM`.
_llm: Any = None


def _boot(settings: Settings) -> None:
    follow_parent()
    model = resolve(settings.hf_model_id)
    prepare_environment(model)
    from vllm import LLM

    global _llm
    # Without the statistics that a worker's /metrics needs: `LLM` collects none by default.
    _llm = LLM(**{**engine_arguments(settings, model), "disable_log_stats": True})


def _max_model_len() -> int:
    return int(_llm.llm_engine.model_config.max_model_len)


def _end() -> None:
    _llm.llm_engine.engine_core.shutdown()


def _generate(calls: Sequence[Sequence[Prompt]]) -> float:
    """Return the seconds of the calls, made one after another."""
    started = time.monotonic()
    for prompts in calls:
        _llm.generate([each for each, _ in prompts], [each for _, each in prompts], use_tqdm=False)
    return time.monotonic() - started


if __name__ == "__main__":
    run(main)
