"""Which batch and engine settings suit these questions, this model and this machine? Found by trying.

One setting at a time: first batches, on the engine as the deploy file has it; then the engine's own sizes, each with a
boot of its own. The best so far stays. Every trial scores the same questions, in prompts that begin with the trial's
number, so that none finds another's in the prefix cache; again and again, with another number each time, where an
engine is through with them before anything can be told of it.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import queue
import signal
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from contract.errors import EngineError, EngineOutOfMemory, InputError, McqueueError
from contract.settings import Settings
from contract.spec import ChatTemplate, Judge, Prompt, RunSpec
from contract.verdict import Outcome, Verdict
from workers.budget import capped
from workers.engines import JudgeEngines, make_engine
from workers.engines.base import Engine
from workers.engines.encoding import Encoded, PromptEncoder
from workers.gathering import Gathering
from workers.pipeline import Item, Unforeseen, no_judges, score_batch
from workers.scoring import requests_of
from workers.scoring.judge import grading_prompt

__all__ = [
    "FIGURES",
    "Lengths",
    "Shape",
    "Trial",
    "Tuned",
    "best_of",
    "lengths",
    "long_enough",
    "marked",
    "score_in_batches",
    "tune",
]

#: Batches that are tried; in flight only as many as keep the same number of questions under way, and more.
SHAPES = ((16, 2), (16, 4), (32, 2), (64, 2), (128, 2), (256, 2))
#: vLLM's own sizes, by the name of the argument.
SIZES = {"max_num_seqs": (64, 128, 256, 512), "max_num_batched_tokens": (2048, 4096, 8192, 16384)}
#: Token counts are rounded up to this, as caches are kept in blocks.
BLOCK = 64
#: Seconds of a trial that tell something, of which half are enough: a trial's first and last batches overlap with
#: nothing. Of a short time limit it is a sixtieth, so that all trials and their boots fit.
TRIAL_S = 5.0
TRIALS_OF_A_LIMIT = 60
#: Questions of a trial, however fast they are answered: they are all in memory at once.
MOST_ASKED = 50_000
#: As long as the longest mark that is put before a prompt.
LONGEST_MARK = "Again 99999.\nTrial 999."
#: Questions of the first calls of an engine, which compile and allocate for their number.
WARM_UP = (1, 2, 16)
#: What is less than this is within the noise of a trial.
WORTH_IT = 1.03
#: A failure of these is the engine's and ends a trial; any other is the question's, or its answer's.
ENGINE_TROUBLES = frozenset({EngineError.__name__, EngineOutOfMemory.__name__})
#: Tokens by which a judge is told, before it is asked again, what was wrong with its answer.
COMPLAINT_TOKENS = 64

JudgeEngine = Callable[[Judge], Engine]


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
        """For a table."""
        return {**asdict(self.shape), **self.engine, **{name: getattr(self, name) for name in FIGURES}}


#: What a trial came to, as columns.
FIGURES = ("questions_per_s", "tokens_per_s", "batch_s", "failure")


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens that questions need of the model's context: the longest prompt with its continuation, or its text."""

    questions: int
    median: int
    p95: int
    longest: int
    #: The context that is tried and chosen, and the questions that it does not hold with all their passages.
    context: int
    beyond: int


@dataclass(frozen=True, slots=True)
class Tuned:
    """The settings that won, with all that was tried."""

    needs: Lengths
    trials: list[Trial]
    best: Trial
    batch_timeout_s: float
    #: Questions of a trial, each counted once.
    asked: int

    def chosen(self) -> dict[str, Any]:
        """What a deploy file says of it."""
        return {
            "batch_size": self.best.shape.batch_size,
            "batches_in_flight": self.best.shape.batches_in_flight,
            "batch_timeout": self.batch_timeout_s,
            "vllm_args": {"max_model_len": self.needs.context, **self.best.engine},
        }


def tune(
    settings: Settings,
    items: Sequence[Item],
    needs: Lengths,
    limit_s: float,
    on_trial: Callable[[Trial], None] = lambda _: None,
) -> Tuned:
    """Try settings on `items` until everything was tried or `limit_s` is over, and return the best.

    A trial that has begun is finished; with Ctrl-C it is not, and those before it count. Raises InputError for a
    setting that a person must mend, EngineError if the deploy file's own settings cannot be tried for another reason,
    KeyboardInterrupt where nothing was measured yet.
    """
    trials: list[Trial] = []
    try:
        _try_settings(settings, items, needs.context, limit_s, trials, on_trial)
    except KeyboardInterrupt:
        if not any(each.questions_per_s for each in trials):
            raise
    best = best_of(trials)
    if not best.questions_per_s:
        raise EngineError(f"No setting could be tried: {trials[0].failure}")
    # While a batch runs, the next one gathers; to wait longer than half of that gains nothing.
    timeout_s = min(1.0, max(0.02, round(best.batch_s / 2, 2)))
    return Tuned(needs, trials, best, timeout_s, len(items))


def _try_settings(
    settings: Settings,
    items: Sequence[Item],
    context: int,
    limit_s: float,
    trials: list[Trial],
    on_trial: Callable[[Trial], None],
) -> None:
    """Add to `trials` one by one, until `limit_s` is over."""
    until, least_s = time.monotonic() + limit_s, min(TRIAL_S, limit_s / TRIALS_OF_A_LIMIT) / 2
    base = {name: settings.vllm_args[name] for name in SIZES if name in settings.vllm_args}
    shape = Shape(settings.batch_size, settings.batches_in_flight)
    shapes = [shape, *(Shape(*each) for each in SHAPES if each[0] <= len(items))]
    for engine, asked in _plan(base, list(dict.fromkeys(shapes)), trials):
        if time.monotonic() > until and trials:
            break
        arguments = {**settings.vllm_args, **engine, "max_model_len": context}
        with _engine_apart(settings.model_copy(update={"vllm_args": arguments}), least_s) as measure:
            for each in asked:
                if time.monotonic() > until and trials:
                    break
                trials.append(_tried(measure, items, Trial(each, engine), len(trials)))
                on_trial(trials[-1])


def best_of(trials: Sequence[Trial]) -> Trial:
    """The fastest; an earlier one wins what is within the noise of a trial."""
    best = trials[0]
    for trial in trials[1:]:
        if trial.questions_per_s > best.questions_per_s * WORTH_IT:
            best = trial
    return best


def lengths(items: Iterable[Item], encoder: PromptEncoder, most: int | None = None) -> Lengths:
    """How long the questions are in tokens, passages and answer included. Raises InputError where none can be asked.

    The context holds all of them, for a larger one costs an engine nothing and a smaller one fails questions; but it
    has no more than `most` tokens.
    """
    measured = [(_length(item, encoder), item) for item in items]
    if not measured:
        raise InputError("There is no question to tune by.")
    found = sorted(length for length, _ in measured)
    _, longest = max(measured, key=lambda each: each[0])
    wanted = _rounded_up(max(_length(each, encoder) for each in _all_marked([longest], LONGEST_MARK)))
    context = wanted if most is None else min(wanted, most)
    return Lengths(
        questions=len(found),
        median=found[len(found) // 2],
        p95=found[math.ceil(0.95 * len(found)) - 1],
        longest=found[-1],
        context=context,
        beyond=sum(each > context for each in found),
    )


def score_in_batches(
    engine: Engine, items: Sequence[Item], shape: Shape, judge_engine: JudgeEngine = no_judges
) -> Trial:
    """Score `items` in batches of that shape and say how fast.

    EngineError where the engine fails, and where every question does: how fast they are refused says nothing.
    """
    seconds: list[float] = []
    started = time.monotonic()
    tokens = heard = 0
    for verdicts, took_s in _overlapping(engine, items, shape, judge_engine):
        seconds.append(took_s)
        for verdict in verdicts:
            failed = verdict.error if verdict.outcome is Outcome.FAILED else None
            heard += failed is None
            if failed and (isinstance(failed, Unforeseen) or failed.type in ENGINE_TROUBLES):
                raise EngineError(f"{failed.type}: {failed.message}")
        tokens += sum(each.prefill_tokens + each.completion_tokens for each in verdicts)
    if not heard:
        raise EngineError(f"Every question failed, the last one so: {failed.message if failed else 'no reason'}")
    wall_s = time.monotonic() - started
    return Trial(shape, {}, len(items) / wall_s, tokens / wall_s, statistics.median(seconds))


def long_enough(
    engine: Engine, items: Sequence[Item], shape: Shape, least_s: float, judge_engine: JudgeEngine = no_judges
) -> Trial:
    """The same over `items` as often as it takes to ask for `least_s`, or MOST_ASKED questions. Raises EngineError."""
    times, most, numbers = 1, max(1, MOST_ASKED // len(items)), itertools.count(1)
    asked = list(items)
    while True:
        found = score_in_batches(engine, asked, shape, judge_engine)
        took_s = len(asked) / found.questions_per_s
        if took_s >= least_s or times == most:
            return found
        times = min(most, math.ceil(2 * times * least_s / took_s))
        asked = [each for _ in range(times) for each in _all_marked(items, f"Again {next(numbers)}.")]


def _overlapping(
    engine: Engine, items: Sequence[Item], shape: Shape, judge_engine: JudgeEngine
) -> Iterator[tuple[list[Verdict], float]]:
    """The verdicts of each batch, and its seconds, as they end: begun by the rule that a worker begins them by."""

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


def _plan(
    base: Mapping[str, Any], shapes: Sequence[Shape], trials: Sequence[Trial]
) -> Iterator[tuple[dict[str, Any], Sequence[Shape]]]:
    """Engine sizes and the shapes to try on them; each step builds on the best of the `trials` so far."""
    yield dict(base), shapes
    for name, values in SIZES.items():
        settled = best_of(trials)
        for value in values:
            if value != settled.engine.get(name):
                yield {**settled.engine, name: value}, [settled.shape]


Measure = Callable[[Sequence[Item], Shape], Trial]


def _tried(measure: Measure, items: Sequence[Item], wanted: Trial, number: int) -> Trial:
    try:
        found = measure(_all_marked(items, f"Trial {number}."), wanted.shape)
    except EngineError as trouble:
        return replace(wanted, failure=trouble.message)
    return replace(found, engine={**found.engine, **wanted.engine})


def _all_marked(items: Sequence[Item], mark: str) -> list[Item]:
    specs = {id(item.spec): item.spec for item in items}  # often one, which takes longer to change than to look up
    marks = {known: marked(spec, mark) for known, spec in specs.items()}
    return [item._replace(spec=marks[id(item.spec)]) for item in items]


@contextmanager
def _engine_apart(settings: Settings, least_s: float) -> Iterator[Measure]:
    """An engine in a process of its own, as vLLM frees everything only when its process ends."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_boot, initargs=(settings,)) as pool:

        def measure(items: Sequence[Item], shape: Shape) -> Trial:
            try:
                return pool.submit(_measure, list(items), shape, least_s).result()
            except BrokenProcessPool:
                raise EngineError("The engine's process was killed; for want of memory, perhaps.") from None

        yield measure
        with suppress(BrokenProcessPool):
            pool.submit(_close).result()


_engine: Engine | None = None
_is_warm = False
_trouble: McqueueError | None = None


def _boot(settings: Settings) -> None:
    global _engine, _trouble
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends this process, too: without a traceback
    try:
        _engine = make_engine(settings)
        _engine.start()
    except McqueueError as trouble:
        _trouble = trouble


def _measure(items: list[Item], shape: Shape, least_s: float) -> Trial:
    global _is_warm
    if _trouble is not None or _engine is None:
        raise _trouble or EngineError("The engine did not boot.")
    judge_engine = JudgeEngines(_engine.settings).engine_of
    if not _is_warm:
        for size in WARM_UP:
            score_batch(_all_marked(items[:size], f"Before, {size}."), _engine, judge_engine)
        _is_warm = True
    sizes = {name: value for name, value in _engine.describe().items() if name in SIZES}
    return replace(long_enough(_engine, items, shape, least_s, judge_engine), engine=sizes)


def _close() -> None:
    if _engine is not None:
        _engine.close()


def _length(item: Item, encoder: PromptEncoder) -> int:
    item = capped(item, encoder.count)
    longest, spec = 0, item.spec
    for encoded in encoder.encode(list(requests_of(item))):
        if not isinstance(encoded, Encoded):
            raise InputError(f"question {item.question.id}: {encoded}")
        answer = spec.sampling.max_tokens if spec.sampling else max(map(len, encoded.tails), default=0) + 1
        longest = max(longest, len(encoded.prompt) + answer)
    return max(longest, _grading_length(item, encoder))


def _grading_length(item: Item, encoder: PromptEncoder) -> int:
    """Where the model grades itself: the answer in the grading prompt, and as many grades as it may be asked for."""
    spec, judge = item.spec, item.spec.judge
    if judge is None or judge.server or spec.sampling is None or item.question.answer is None:
        return 0
    (shown,) = encoder.count([grading_prompt(item.question, judge, "")])
    return shown + spec.sampling.max_tokens + judge.max_tokens * (judge.retries + 1) + COMPLAINT_TOKENS * judge.retries


def _rounded_up(tokens: int) -> int:
    return -(-tokens // BLOCK) * BLOCK
