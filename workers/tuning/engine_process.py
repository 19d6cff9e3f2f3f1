"""Runs each engine under trial in its own process, as vLLM frees everything only when its process ends."""

from __future__ import annotations

import logging
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import replace

from contract.errors import EngineError, McqueueError
from contract.settings import Settings
from workers import pipeline
from workers.engines import JudgeEngines, make_engine
from workers.engines.base import Engine
from workers.parent import follow_parent
from workers.retries import reason_of
from workers.scoring import Item
from workers.tuning.trials import SIZES, Shape, Trial, all_marked, score_repeatedly

__all__ = ["Measure", "engine_in_process"]

#: Batch sizes of an engine's warm-up calls, in which it compiles and allocates.
WARM_UP = (1, 2, 16)
#: Scores questions in batches of a shape on the engine in its process and measures it. Raises EngineError.
Measure = Callable[[Sequence[Item], Shape], Trial]


@contextmanager
def engine_in_process(settings: Settings, least_s: float) -> Iterator[Measure]:
    """Boot an engine with these settings in its own process; yield what measures it, at least `least_s` per trial."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_boot, initargs=(settings,)) as pool:

        def measure(items: Sequence[Item], shape: Shape) -> Trial:
            try:
                return pool.submit(_measure, list(items), shape, least_s).result()
            except BrokenProcessPool:
                raise EngineError("The engine's process was killed, possibly for lack of memory.") from None

        yield measure
        with suppress(BrokenProcessPool):
            pool.submit(_close).result()


# State of the engine's process: the engine, those of judges on other servers, whether it has been warmed up, and the
# error if it did not boot.
_engine: Engine | None = None
_judges: JudgeEngines | None = None
_is_warm = False
_trouble: McqueueError | None = None


def _boot(settings: Settings) -> None:
    global _engine, _judges, _trouble
    follow_parent()  # a killed tune would leave it behind, with all its memory
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # so that Ctrl-C ends this process too, without a traceback
    try:
        _engine, _judges = make_engine(settings), JudgeEngines(settings)
        _engine.start()
    except McqueueError as trouble:
        _trouble = trouble
    except Exception as trouble:  # noqa: BLE001 - raised here, it would look as if the process had been killed
        _trouble = EngineError(f"The engine did not boot: {reason_of(trouble)}.")


def _measure(items: list[Item], shape: Shape, least_s: float) -> Trial:
    global _is_warm
    if _trouble is not None or _engine is None or _judges is None:
        raise _trouble or EngineError("The engine did not boot.")
    if not _is_warm:
        for size in WARM_UP:
            pipeline.score_batch(all_marked(items[:size], f"Before, {size}."), _engine, _judges.engine_of)
        _is_warm = True
    sizes = {name: value for name, value in _engine.describe().items() if name in SIZES}
    with _told_of_no_question():
        return replace(score_repeatedly(_engine, items, shape, least_s, _judges.engine_of), engine=sizes)


@contextmanager
def _told_of_no_question() -> Iterator[None]:
    """Log no reasons why questions fail: the warm-up did, and a trial may ask them thousands of times."""
    log = logging.getLogger(pipeline.__name__)
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def _close() -> None:
    if _engine is not None:
        _engine.close()
    if _judges is not None:
        _judges.close()
