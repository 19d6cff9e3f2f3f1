"""Which setting tuning takes for the best, and what ends its search."""

from __future__ import annotations

import pytest

from contract.errors import EngineError, ModelNotFound
from contract.settings import load_settings
from tests.support import SIMULATED_MODEL, make_questions, make_spec
from tests.unit.workers.tuning.tuned import NEEDS
from workers.scoring import Item
from workers.tuning.search import best_of, tune
from workers.tuning.trials import Shape, Trial


def test_what_is_faster_by_noise_alone_does_not_replace_an_earlier_setting() -> None:
    trials = [Trial(Shape(size, 2), {}, speed) for size, speed in ((16, 100.0), (32, 101.0), (64, 110.0), (128, 111.0))]
    assert best_of(trials).shape.batch_size == 64


def test_a_setting_that_failed_is_never_the_best() -> None:
    assert best_of([Trial(Shape(16, 2), {}, failure="no memory"), Trial(Shape(32, 2), {}, 5.0)]).shape.batch_size == 32


def test_who_interrupts_gets_the_best_of_the_trials_so_far() -> None:
    heard: list[Trial] = []

    def interrupt(trial: Trial) -> None:
        heard.append(trial)
        if len(heard) == 2:
            raise KeyboardInterrupt

    settings = load_settings(None, ["engine=simulated", f"model={SIMULATED_MODEL}"])
    items = [Item(each, make_spec()) for each in make_questions(20)]

    found = tune(settings, items, NEEDS, limit_s=6.0, on_trial=interrupt)

    assert found.trials == heard
    assert found.best in heard


def test_time_that_is_over_ends_the_trials_but_for_the_first() -> None:
    settings = load_settings(None, ["engine=simulated"])
    found = tune(settings, [Item(each, make_spec()) for each in make_questions(20)], NEEDS, limit_s=0.0)
    assert [each.shape for each in found.trials] == [Shape(settings.batch_size, settings.batches_in_flight)]
    assert found.chosen()["vllm_args"]["max_model_len"] == 64


def test_an_engine_that_does_not_boot_is_told_and_not_a_result() -> None:
    settings = load_settings(None, ["engine=simulated", "simulated.crash_text=Question"])
    with pytest.raises(EngineError, match="No setting could be tried: EngineError: simulated fault"):
        tune(settings, [Item(each, make_spec()) for each in make_questions(20)], NEEDS, limit_s=0.0)


def test_a_setting_that_a_person_must_mend_is_told_as_such_and_not_as_a_want_of_memory() -> None:
    settings = load_settings(None, ["hf_model_id=nowhere"])
    with pytest.raises(ModelNotFound, match="'nowhere' is neither a folder"):
        tune(settings, [Item(each, make_spec()) for each in make_questions(20)], NEEDS, limit_s=0.0)
