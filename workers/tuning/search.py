"""Which settings are tried, and which of them wins.

One setting at a time: first batches, on the engine as the deploy file has it; then the engine's own sizes, each with a
boot of its own. The best so far stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from contract.errors import EngineError
from contract.settings import Settings
from workers.pipeline import Item
from workers.tuning.engine_process import Measure, engine_apart
from workers.tuning.lengths import Lengths
from workers.tuning.trials import SHAPES, SIZES, Shape, Trial, all_marked

__all__ = ["Tuned", "best_of", "tune"]

#: Seconds of a trial that tell something, of which half are enough: a trial's first and last batches overlap with
#: nothing. Of a short time limit it is a sixtieth, so that all trials and their boots fit.
TRIAL_S = 5.0
TRIALS_OF_A_LIMIT = 60
#: What is less than this is within the noise of a trial.
WORTH_IT = 1.03


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
        """The settings that won, as a deploy file has them."""
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
        with engine_apart(settings.model_copy(update={"vllm_args": arguments}), least_s) as measure:
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


def _tried(measure: Measure, items: Sequence[Item], wanted: Trial, number: int) -> Trial:
    try:
        found = measure(all_marked(items, f"Trial {number}."), wanted.shape)
    except EngineError as trouble:
        return replace(wanted, failure=trouble.message)
    return replace(found, engine={**found.engine, **wanted.engine})
