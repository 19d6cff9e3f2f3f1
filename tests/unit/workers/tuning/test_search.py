"""Which setting tuning takes for the best, and what ends its search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from contract import MemoryLedger
from contract.errors import EngineError, ModelNotFound
from contract.settings import load_settings
from tests.support import SIMULATED_MODEL, make_questions, make_spec, open_run
from tests.unit.workers.tuning.tuned import NEEDS
from workers.scoring import Item
from workers.tuning import search
from workers.tuning.engine_process import Measure
from workers.tuning.output import write_deploy_file
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


def test_a_proxys_page_that_a_judge_answered_with_is_one_line_of_the_deploy_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its other lines were no comments: the file that minutes of trials had led to could not be read."""

    @contextmanager
    def apart(*_: object) -> Iterator[Measure]:
        def measure(_: Sequence[Item], shape: Shape) -> Trial:
            if shape.batch_size == 16:
                raise EngineError("InternalServerError: <html>\n<h1>502: Bad Gateway</h1>\n</html>")
            return Trial(shape, {}, questions_per_s=5.0, batch_s=0.1)

        yield measure

    monkeypatch.setattr(search, "engine_in_process", apart)
    items = [Item(each, make_spec()) for each in make_questions(20)]
    found = tune(load_settings(None, ["engine=simulated"]), items, NEEDS, limit_s=60.0)
    assert "InternalServerError: <html> <h1>502: Bad Gateway</h1> </html>" in {each.failure for each in found.trials}
    write_deploy_file(tmp_path / "tuned.yaml", None, (), open_run(MemoryLedger(), make_questions(2)), found)
    assert load_settings(tmp_path / "tuned.yaml").batch_size == found.best.shape.batch_size


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_batches_are_tried_in_flight_than_the_deploy_file_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """The file with what had won could not be read: batches_in_flight 4 is more than max_batches_in_flight."""

    @contextmanager
    def faster_with_more(*_: object) -> Iterator[Measure]:
        yield lambda _, shape: Trial(shape, {}, questions_per_s=float(shape.batches_in_flight), batch_s=0.1)

    monkeypatch.setattr(search, "engine_in_process", faster_with_more)
    base = tmp_path / "base.yaml"
    base.write_text(f"max_batches_in_flight: {most}\nbatches_in_flight: 1\n")
    items = [Item(each, make_spec()) for each in make_questions(40)]
    found = tune(load_settings(base), items, NEEDS, limit_s=60.0)
    assert {(each.shape.batch_size, each.shape.batches_in_flight) for each in found.trials} >= {(16, most), (32, most)}
    write_deploy_file(tmp_path / "tuned.yaml", base, (), open_run(MemoryLedger(), make_questions(2)), found)
    assert load_settings(tmp_path / "tuned.yaml").batches_in_flight == most


def test_a_setting_that_a_person_must_mend_is_told_as_such_and_not_as_a_want_of_memory() -> None:
    settings = load_settings(None, ["hf_model_id=nowhere"])
    with pytest.raises(ModelNotFound, match="'nowhere' is neither a folder"):
        tune(settings, [Item(each, make_spec()) for each in make_questions(20)], NEEDS, limit_s=0.0)
