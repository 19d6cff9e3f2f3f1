"""One trial: the same questions scored in batches of one shape on one engine, and how fast.

Prompts of a trial begin with its number, so that none finds another's in the prefix cache. Where an engine is through
with the questions before anything can be told of it, they are asked again and again, with another number each time.
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
from workers.engines.base import Engine
from workers.messages.batching import Gathering
from workers.pipeline import Item, JudgeEngine, UnexpectedFailure, no_judges, score_batch

__all__ = ["FIGURES", "SHAPES", "SIZES", "Shape", "Trial", "all_marked", "long_enough", "marked", "score_in_batches"]

#: Batches that are tried; in flight only as many as keep the same number of questions under way, and more.
SHAPES = ((16, 2), (16, 4), (32, 2), (64, 2), (128, 2), (256, 2))
#: vLLM's own sizes, by the name of the argument.
SIZES = {"max_num_seqs": (64, 128, 256, 512), "max_num_batched_tokens": (2048, 4096, 8192, 16384)}
#: Questions of a trial, however fast they are answered: they are all in memory at once.
MOST_ASKED = 50_000
#: A failure of these is the engine's and ends a trial; any other is the question's, or its answer's.
ENGINE_TROUBLES = frozenset({EngineError.__name__, EngineOutOfMemory.__name__})


@dataclass(frozen=True, slots=True)
class Shape:
    """How questions are cut into generate calls."""

    batch_size: int
    batches_in_flight: int


@dataclass(frozen=True, slots=True)
class Trial:
    """What one setting came to."""

    shape: Shape
    engine: Mapping[str, Any]
    questions_per_s: float = 0.0
    tokens_per_s: float = 0.0
    #: Median of what a batch, and so each question in it, took.
    batch_s: float = 0.0
    #: Why there are no figures, if so.
    failure: str = ""

    def row(self) -> dict[str, Any]:
        """Column → value, for a table."""
        return {**asdict(self.shape), **self.engine, **{name: getattr(self, name) for name in FIGURES}}


#: What a trial came to, as columns.
FIGURES = ("questions_per_s", "tokens_per_s", "batch_s", "failure")


def score_in_batches(
    engine: Engine, items: Sequence[Item], shape: Shape, judge_engine: JudgeEngine = no_judges
) -> Trial:
    """Score `items` in batches of that shape and say how fast.

    Raises EngineError where the engine fails, and where every question does: how fast they are refused says nothing.
    """
    seconds: list[float] = []
    started = time.monotonic()
    tokens = heard = 0
    for verdicts, took_s in _overlapping(engine, items, shape, judge_engine):
        seconds.append(took_s)
        for verdict in verdicts:
            failed = verdict.error if verdict.outcome is Outcome.FAILED else None
            heard += failed is None
            if failed and (isinstance(failed, UnexpectedFailure) or failed.type in ENGINE_TROUBLES):
                raise EngineError(f"{failed.type}: {failed.message}")
        tokens += sum(each.prefill_tokens + each.completion_tokens for each in verdicts)
    if not heard:
        raise EngineError(f"Every question failed, the last one so: {failed.message if failed else 'no reason'}")
    wall_s = time.monotonic() - started
    return Trial(shape, {}, len(items) / wall_s, tokens / wall_s, statistics.median(seconds))


def long_enough(
    engine: Engine, items: Sequence[Item], shape: Shape, least_s: float, judge_engine: JudgeEngine = no_judges
) -> Trial:
    """`score_in_batches`, with `items` repeated until that takes `least_s`, or asks MOST_ASKED questions."""
    times, most, numbers = 1, max(1, MOST_ASKED // len(items)), itertools.count(1)
    asked = list(items)
    while True:
        found = score_in_batches(engine, asked, shape, judge_engine)
        took_s = len(asked) / found.questions_per_s
        if took_s >= least_s or times == most:
            return found
        times = min(most, math.ceil(2 * times * least_s / took_s))
        asked = [each for _ in range(times) for each in all_marked(items, f"Again {next(numbers)}.")]


def _overlapping(
    engine: Engine, items: Sequence[Item], shape: Shape, judge_engine: JudgeEngine
) -> Iterator[tuple[list[Verdict], float]]:
    """The verdicts of each batch as it ends, and the seconds that it took; batches begin by a worker's own rule."""

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
    """`spec` with prompts that begin with `mark`: another prefix, and so nothing of it in the prefix cache.

    The description stands once before everything; the template stands before each example, too. But among the turns of
    a chat a description is the system's, which not every model has.
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
    """`items` with specs that are `marked`."""
    specs = {id(item.spec): item.spec for item in items}  # often one, which takes longer to change than to look up
    marks = {known: marked(spec, mark) for known, spec in specs.items()}
    return [item._replace(spec=marks[id(item.spec)]) for item in items]
