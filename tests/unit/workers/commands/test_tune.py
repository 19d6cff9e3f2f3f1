"""What `workers tune` refuses before minutes of trials."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from contract import MemoryLedger, load_settings
from tests.support import make_questions, open_run
from workers.cli import main
from workers.commands import tune


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
