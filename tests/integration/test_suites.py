"""A suite beside real workers: interrupted, its workers killed, and taken up again."""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from contract import RedisLedger
from producer.cli import main
from tests.support import PATIENCE_S, process, wait_until, worker

EACH = 60


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Two question sets, asked of two models."""
    names = ("red", "blue")
    for name in names:
        rows = (
            {"id": f"q{n}", "question": f"{name} {n}?", "choices": ["no", "yes"], "answer": "B"} for n in range(EACH)
        )
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    entries = [{"name": name, "file": str(tmp_path / f"{name}.jsonl")} for name in names]
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump({"name": "mine", "models": ["small", "large"], "entries": entries}))
    return path


def settled_by(ledger: RedisLedger, model: str) -> int:
    return sum(ledger.counts(run.run_id).settled for run in ledger.runs() if run.spec.model == model)


def producer(*words: object) -> Any:
    result = CliRunner().invoke(main, [*map(str, words), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_suite_survives_ctrl_c_and_a_killed_worker_and_comes_to_one_table(
    suite: Path, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    log, out = tmp_path / "suite.log", tmp_path / "results"
    # One message at a time, five seconds each: it has work for longer than anything here waits.
    slow: dict[str, Any] = {"batch_size": 16, "batches_in_flight": 1, "max_batches_in_flight": 1}
    with (
        worker(tmp_path / "small.log", "w0", model="small"),
        worker(tmp_path / "large.log", "w1", model="large", simulated={"call_ms": 5000}, **slow) as doomed,
        process("-m", "producer", "suite", str(suite), "--watch", "--out", str(out), log=log) as watching,
    ):
        wait_until(lambda: "of 4 runs done" in log.read_text(), "the watch to begin")
        wait_until(lambda: settled_by(redis_ledger, "large") > 0, "the first verdicts")
        watching.send_signal(signal.SIGINT)
        assert watching.wait(timeout=PATIENCE_S) == 130, log.read_text()
        assert f"rejoin with: python -m producer suite {suite} --watch" in log.read_text()
        doomed.kill()
        doomed.wait()
        assert settled_by(redis_ledger, "large") < 2 * EACH, "it was interrupted half-way"

        with worker(tmp_path / "other.log", "w2", model="large"):
            found = producer("suite", suite, "--watch", "--out", out)

    assert [(each["entry"], each["model"]) for each in found["runs"]] == [
        (entry, model) for entry in ("red", "blue") for model in ("small", "large")
    ]
    assert {(each["state"], each["settled"], each["outcomes"]["failed"]) for each in found["runs"]} == {
        ("settled", EACH, 0)
    }
    assert all(each["simulated"] for each in found["runs"])
    assert [(each["model"], each["entries"]) for each in found["means"]] == [("small", 2), ("large", 2)]
    with (out / "mine" / "suite.csv").open(newline="") as file:
        told = {row["run_id"]: float(row["accuracy"]) for row in csv.DictReader(file)}
    for run_id, accuracy in told.items():
        assert json.loads((out / run_id / "summary.json").read_text())["accuracy_all"]["value"] == accuracy

    again = producer("suite", suite)
    assert {(each["submitted"], each["sent"]) for each in again["runs"]} == {("settled", 0)}
    assert again["means"] == found["means"]
