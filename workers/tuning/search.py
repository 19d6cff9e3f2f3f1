"""Search for the best settings.

One setting is varied at a time: first the batches, on the engine configured by the deploy file; then the engine's own
sizes, each of which takes a new boot. The best setting so far is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from contract.errors import EngineError
from contract.settings import Settings
from workers.retries import one_line
from workers.scoring import Item
from workers.tuning.engine_process import Measure, engine_in_process
from workers.tuning.lengths import Lengths
from workers.tuning.trials import SHAPES, SIZES, Shape, Trial, all_marked

__all__ = ["Tuned", "best_of", "tune"]

#: Seconds that a trial should take, as its first and last batches overlap with no others; half of that is enough. If
#: the time limit is short, it is a sixtieth of that limit, so that all trials and their boots fit.
TRIAL_S = 5.0
TRIALS_OF_A_LIMIT = 60
#: A speed-up below this factor is within the noise of a trial.
WORTH_IT = 1.03


@dataclass(frozen=True, slots=True)
class Tuned:
    """The best settings, with all trials."""

    needs: Lengths
    trials: list[Trial]
    best: Trial
    batch_timeout_s: float
    #: Number of distinct questions in a trial.
    asked: int

    def chosen(self) -> dict[str, Any]:
        """Return the best settings, as in a deploy file."""
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
    """Try settings on `items` until all have been tried or `limit_s` has passed, and return the best.

    A trial that has started is finished, except on Ctrl-C, when the trials before it count. Raises InputError for a
    setting that the user must fix, EngineError if the deploy file's own settings fail for another reason, and
    KeyboardInterrupt if nothing has been measured yet.
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
    # The next batch fills while one runs; waiting longer than half of a batch's duration gains nothing.
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
    """Make one trial after the other, and append each to `trials`, until `limit_s` has passed."""
    until, least_s = time.monotonic() + limit_s, min(TRIAL_S, limit_s / TRIALS_OF_A_LIMIT) / 2
    base = {name: settings.vllm_args[name] for name in SIZES if name in settings.vllm_args}
    shape = Shape(settings.batch_size, settings.batches_in_flight)
    most = settings.max_batches_in_flight
    shapes = [shape, *(Shape(size, min(batches, most)) for size, batches in SHAPES if size <= len(items))]
    for engine, shapes_to_try in _plan(base, list(dict.fromkeys(shapes)), trials):
        if time.monotonic() > until and trials:
            break
        arguments = {**settings.vllm_args, **engine, "max_model_len": context}
        with engine_in_process(settings.model_copy(update={"vllm_args": arguments}), least_s) as measure:
            for each in shapes_to_try:
                if time.monotonic() > until and trials:
                    break
                trials.append(_tried(measure, items, Trial(each, engine), len(trials)))
                on_trial(trials[-1])


def best_of(trials: Sequence[Trial]) -> Trial:
    """Return the fastest trial; an earlier one wins over those faster only within the noise."""
    best = trials[0]
    for trial in trials[1:]:
        if trial.questions_per_s > best.questions_per_s * WORTH_IT:
            best = trial
    return best


def _plan(
    base: Mapping[str, Any], shapes: Sequence[Shape], trials: Sequence[Trial]
) -> Iterator[tuple[dict[str, Any], Sequence[Shape]]]:
    """Yield engine sizes and the shapes to try with them; each step builds on the best of the `trials` so far."""
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
        return replace(wanted, failure=one_line(trouble.message))
    return replace(found, engine={**found.engine, **wanted.engine})
