"""A trial: the throughput of one engine on the same questions, in batches of one shape.

Prompts of a trial begin with its number, so that none is found in the prefix cache of another. If the engine finishes
before the measurement is meaningful, the questions are repeated, with a different number each time.
"""

from __future__ import annotations

import itertools
import math
import queue
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from contract.errors import EngineError, EngineOutOfMemory
from contract.spec import ChatTemplate, Prompt, RunSpec
from contract.verdict import Outcome, Verdict
from workers.engines.base import Engine, UnexpectedFailure
from workers.messages.batching import Gathering
from workers.pipeline import JudgeEngine, no_judges, score_batch
from workers.scoring import Item

__all__ = [
    "FIGURES",
    "SHAPES",
    "SIZES",
    "Shape",
    "Trial",
    "all_marked",
    "marked",
    "score_in_batches",
    "score_repeatedly",
]

#: Shapes that are tried: batch size and number of batches in flight.
SHAPES = ((16, 2), (16, 4), (32, 2), (64, 2), (128, 2), (256, 2))
#: Values tried for vLLM's own arguments.
SIZES = {"max_num_seqs": (64, 128, 256, 512), "max_num_batched_tokens": (2048, 4096, 8192, 16384)}
#: Maximum number of questions in a trial, however fast they are answered, as all are in memory at once.
MOST_ASKED = 50_000
#: Failures of these types are the engine's, and end a trial. Any other concerns only its question.
ENGINE_TROUBLES = frozenset({EngineError.__name__, EngineOutOfMemory.__name__})


@dataclass(frozen=True, slots=True)
class Shape:
    """How questions are divided into generate calls."""

    batch_size: int
    batches_in_flight: int


@dataclass(frozen=True, slots=True)
class Trial:
    """A setting and its measured figures."""

    shape: Shape
    engine: Mapping[str, Any]
    questions_per_s: float = 0.0
    tokens_per_s: float = 0.0
    #: Median duration of a batch, and so of each question in it.
    batch_s: float = 0.0
    #: Questions that failed, which `questions_per_s` does not count.
    failed: int = 0
    #: The reason, in one line, if there are no figures.
    failure: str = ""

    def row(self) -> dict[str, Any]:
        """Return column → value, for a table."""
        return {**asdict(self.shape), **self.engine, **{name: getattr(self, name) for name in FIGURES}}


#: Columns with the figures of a trial.
FIGURES = ("questions_per_s", "tokens_per_s", "batch_s", "failure")


def score_in_batches(
    engine: Engine, items: Sequence[Item], shape: Shape, judge_engine: JudgeEngine = no_judges
) -> Trial:
    """Score `items` in batches of that shape, and measure the throughput.

    Questions that fail are counted apart: how fast they fail says nothing about throughput. Raises EngineError if the
    engine fails, or if every question does.
    """
    seconds: list[float] = []
    started = time.monotonic()
    tokens = answered = 0
    for verdicts, took_s in _overlapping(engine, items, shape, judge_engine):
        seconds.append(took_s)
        for verdict in verdicts:
            failed = verdict.error if verdict.outcome is Outcome.FAILED else None
            answered += failed is None
            if failed and (isinstance(failed, UnexpectedFailure) or failed.type in ENGINE_TROUBLES):
                raise EngineError(f"{failed.type}: {failed.message}")
        tokens += sum(each.prefill_tokens + each.completion_tokens for each in verdicts)
    if not answered:
        raise EngineError(f"Every question failed; the last error: {failed.message if failed else 'unknown'}")
    wall_s = time.monotonic() - started
    failures = len(items) - answered
    return Trial(shape, {}, answered / wall_s, tokens / wall_s, statistics.median(seconds), failures)


def score_repeatedly(
    engine: Engine, items: Sequence[Item], shape: Shape, least_s: float, judge_engine: JudgeEngine = no_judges
) -> Trial:
    """`score_in_batches`, with `items` repeated until that takes `least_s`, or MOST_ASKED questions are asked."""
    times, most, numbers = 1, max(1, MOST_ASKED // len(items)), itertools.count(1)
    asked = list(items)
    while True:
        started = time.monotonic()
        found = score_in_batches(engine, asked, shape, judge_engine)
        took_s = time.monotonic() - started
        if took_s >= least_s or times == most:
            return found
        times = min(most, math.ceil(2 * times * least_s / took_s))
        asked = [each for _ in range(times) for each in all_marked(items, f"Again {next(numbers)}.")]


def _overlapping(
    engine: Engine, items: Sequence[Item], shape: Shape, judge_engine: JudgeEngine
) -> Iterator[tuple[list[Verdict], float]]:
    """Yield the verdicts of each batch as it ends, with its duration; batches start by the same rule as in a worker."""

    def run(batch: list[Item]) -> tuple[list[Verdict], float]:
        started = time.monotonic()
        return score_batch(batch, engine, judge_engine), time.monotonic() - started

    most = engine.settings.max_batches_in_flight
    gathering: Gathering[Item] = Gathering(shape.batch_size, 0.0, shape.batches_in_flight, most)
    for item in items:
        gathering.add(item, 1, now_s=0.0)
    news: queue.SimpleQueue[Future[tuple[list[Verdict], float]] | None] = queue.SimpleQueue()
    engine.room_came = lambda: news.put(None)
    left = len(items)
    with ThreadPoolExecutor(most) as pool:
        while left:
            while batch := gathering.take(now_s=0.0):
                pool.submit(run, batch.items).add_done_callback(news.put)
            ended = news.get()
            if ended is None:
                gathering.room_came()
                continue
            verdicts, took_s = ended.result()
            gathering.done(len(verdicts))
            left -= len(verdicts)
            yield verdicts, took_s


def marked(spec: RunSpec, mark: str) -> RunSpec:
    """Return `spec` with prompts that begin with `mark`, so that none of their prefixes is in the prefix cache.

    The mark is prepended to the description, which stands once before everything, whereas the template is repeated for
    each example. In a chat with turns, however, a description becomes a system message, which not every model supports.
    """
    judge = spec.judge and spec.judge.model_copy(
        update={"prompt": Prompt(name=spec.judge.prompt.name, text=f"{mark}\n{spec.judge.prompt.text}")}
    )
    if spec.chat_template is ChatTemplate.TURNS and not spec.description:
        prompt = Prompt(name=spec.prompt.name, text=f"{mark}\n{spec.prompt.text}")
        return spec.model_copy(update={"prompt": prompt, "judge": judge})
    description = f"{mark}\n{spec.description}" if spec.description else mark
    return spec.model_copy(update={"description": description, "judge": judge})


def all_marked(items: Sequence[Item], mark: str) -> list[Item]:
    """Return `items` with their specs replaced by `marked` ones."""
    specs = {id(item.spec): item.spec for item in items}  # often one, and costlier to copy than to look up
    marks = {known: marked(spec, mark) for known, spec in specs.items()}
    return [item._replace(spec=marks[id(item.spec)]) for item in items]
