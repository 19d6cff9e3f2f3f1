"""The engine alone: vLLM's own offline class over all prompts, in a process of its own, beside the whole path."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

from benchmarks.sides import Bench, Measure, Times, interleaved
from contract.errors import EngineError, RequestRejected
from contract.settings import Settings
from workers.engines.base import Request
from workers.engines.encoding import Encoded, PromptEncoder
from workers.engines.model_files import tokenizer_of
from workers.engines.packaged import resolve
from workers.engines.prefill_plan import make_plan
from workers.engines.sampling_params import sampling_params
from workers.engines.vllm import engine_arguments, prepare_environment
from workers.parent import follow_parent
from workers.scoring import requests_of

__all__ = ["Raw", "beside_raw"]

#: Token ids and sampling parameters in vLLM's format.
Prompt: TypeAlias = tuple[dict[str, list[int]], Any]
Answer = TypeVar("Answer")
#: How long the engine may take to end before its process is killed.
END_WITHIN_S = 60.0


class Raw:
    """vLLM's own offline class, used as its documentation shows, in its own process."""

    def __init__(self, bench: Bench) -> None:
        settings = bench.at.settings
        model = resolve(settings.hf_model_id)
        prepare_environment(model, settings.vllm_args)  # here too, where the prompts are built
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
        return self._seconds([self._whole_choices(f"{mark}, in full", count)])

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
        items = self._bench.asking(mode, count).items(self._bench.at.settings, mark)
        requests = [request for item in items for request in requests_of(item)]
        for request, encoded in zip(requests, self._encoder.encode(requests), strict=True):
            if isinstance(encoded, RequestRejected):
                raise encoded
            yield request, encoded


def beside_raw(bench: Bench, raw: Raw, mode: str, part: int) -> Times:
    """Return the times of all sides in one mode, with the worker that is up; `part` is as in `interleaved`."""
    sides: dict[str, Measure] = {
        "raw": partial(raw.all_at_once, mode),
        "mcqueue": partial(bench.whole_path, mode, bench.at.settings),
    }
    if mode == "likelihood" and bench.in_full:
        sides["raw, choices in full"] = raw.whole_choices
    if bench.alone:
        sides["one at a time"] = partial(raw.one_at_a_time, mode)
    return interleaved(sides, bench, part)


def _kill_children() -> None:
    for process in multiprocessing.active_children():
        process.kill()


#: In the process of the raw side: its `LLM`.
_llm: Any = None


def _boot(settings: Settings) -> None:
    follow_parent()
    model = resolve(settings.hf_model_id)
    prepare_environment(model, settings.vllm_args)
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
