"""What `workers tune` refuses before minutes of trials, and what it says after them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from contract import MemoryLedger, load_settings
from tests.support import make_questions, open_run
from tests.unit.workers.tuning.tuned import NEEDS
from workers.cli import main
from workers.commands import tune
from workers.tuning.search import Tuned
from workers.tuning.trials import Shape, Trial


def test_no_batches_are_tuned_for_workers_that_make_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best batch size was written beside `enable_batching: false`, with which it has no effect."""
    books = MemoryLedger()
    run, settings = open_run(books, make_questions(2)), load_settings(None, ["enable_batching=false"])
    monkeypatch.setattr(tune, "load_served_run", lambda *_: (settings, books, run))

    def begins(*_: object) -> None:
        raise AssertionError("a trial begins")

    monkeypatch.setattr(tune, "take_first_place", begins)
    done = CliRunner().invoke(main, ["tune", run.run_id, "-o", str(tmp_path / "tuned.yaml")])
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert "enable_batching: false; tune tries sizes of batches" in done.output


def test_the_last_line_has_what_was_chosen_by_the_names_that_may_be_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = MemoryLedger()
    run, settings = open_run(books, make_questions(2)), load_settings()
    best = Trial(Shape(32, 4), {"max_num_seqs": 64}, questions_per_s=12.5, batch_s=0.8)
    monkeypatch.setattr(tune, "load_served_run", lambda *_: (settings, books, run))
    monkeypatch.setattr(tune, "take_first_place", lambda _: None)
    monkeypatch.setattr(tune, "tune_by", lambda *_: Tuned(NEEDS, [best], best, 0.4, asked=64))
    monkeypatch.setattr(tune, "draw_trials", lambda *_: True)
    done = CliRunner().invoke(main, ["tune", run.run_id, "-o", str(tmp_path / "tuned.yaml")])
    file, _, chosen = done.stdout.splitlines()[-1].partition(": ")
    assert file == str(tmp_path / "tuned.yaml")
    set_by_hand = load_settings(None, [each.replace(" ", "=") for each in chosen.split(", ")])
    assert set_by_hand == load_settings(tmp_path / "tuned.yaml")
