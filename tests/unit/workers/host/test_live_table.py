"""What `workers up` shows of its workers."""

from __future__ import annotations

import io
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from contract.fleet import WorkerRecord, WorkerState
from contract.settings import load_settings
from tests.support import PATIENCE_S
from tests.unit.workers.gpus.hosts import EIGHT
from workers.host import live_table
from workers.host.child import Child
from workers.host.live_table import LiveScreen, Observer, Screen, screen_for
from workers.host.machine import Machine
from workers.host.placement import SettingsSources, plan_worker
from workers.host.rows import Row, row_of, state_of, table_of


def child(**changes: Any) -> Child:
    plan = plan_worker(load_settings(None, ["model=small"]), ("3",), Machine(EIGHT, [0]), SettingsSources())
    made = Child(plan, log_path=cast(Any, None), process=cast("subprocess.Popen[bytes]", object()), boots=2)
    for name, value in {"state": "ready", **changes}.items():
        setattr(made, name, value)
    return made


def record(**changes: Any) -> WorkerRecord:
    return WorkerRecord.model_validate({"name": "gpu3@h", "model": "small", "state": WorkerState.READY, **changes})


@pytest.mark.parametrize(
    ("launcher_says", "worker_says", "shown"),
    [
        ("killed", record(running=2), "killed"),
        ("ready", None, "ready"),
        ("ready", record(running=0), "ready"),
        ("ready", record(running=2), "busy"),
        ("ready", record(running=2, state=WorkerState.DRAINING), "draining"),
        ("draining", record(running=2), "draining"),
        ("waiting", record(running=2), "dead"),  # its record outlives it by some seconds
        ("stopped", None, "drained"),
        ("given up", None, "given up"),
    ],
)
def test_the_state_is_the_processes_where_it_lives(
    launcher_says: str, worker_says: WorkerRecord | None, shown: str
) -> None:
    assert state_of(child(state=launcher_says), worker_says) == shown


def test_a_worker_that_boots_shows_for_how_long() -> None:
    assert state_of(child(state="booting", started_at=time.monotonic() - 42), None) == "booting 42 s"


def test_the_last_picture_shows_how_it_ended_however_short_the_time_since_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = io.StringIO()
    console = Console(file=out, width=140, force_terminal=True)
    with LiveScreen(console, Observer(load_settings()), behind=lambda: False) as screen:
        worker = child()
        screen.show([worker])
        monkeypatch.setattr(live_table, "DRAW_EVERY_S", PATIENCE_S)
        worker.state = "stopped"
        screen.show([worker])
        assert "drained" not in out.getvalue(), "it is drawn at intervals"
    assert out.getvalue().rindex("drained") > out.getvalue().rindex("ready")


def test_a_row_says_how_fast_the_worker_was_lately_and_how_full_its_batches_were() -> None:
    before = record(done=100, seen_at=10.0, batches=2, begun=40, batch_size=32)
    now = record(done=180, seen_at=14.0, batches=4, begun=96, batch_size=32, running=1)
    row = row_of(child(), [before, now], memory_bytes=3 * 2**30)
    assert (row.name, row.place, row.serves, row.state, row.boots) == ("gpu3", "GPU 3", "small", "busy", 2)
    assert (row.questions_per_s, row.fill) == (20.0, 0.875)


def test_a_worker_of_which_redis_says_nothing_now_is_not_shown_with_what_it_did_before() -> None:
    observer, worker = Observer(load_settings()), child(process=SimpleNamespace(pid=os.getpid()))
    observer.look_at([worker])
    for second in (10.0, 14.0):
        observer.note({"gpu3": record(done=20 * second, seen_at=second, batches=1, begun=16, batch_size=16)})
    assert (observer.row(worker).questions_per_s, observer.row(worker).fill) == (20.0, 1.0)
    observer.note({})
    assert (observer.row(worker).questions_per_s, observer.row(worker).fill) == (None, None)


def test_a_worker_that_has_ended_has_no_memory() -> None:
    assert row_of(child(state="stopped", process=None), [record()], memory_bytes=3 * 2**30).memory_bytes is None


def test_a_worker_that_has_said_nothing_yet_has_no_figures() -> None:
    row = row_of(child(state="booting"))
    assert (row.questions_per_s, row.fill, row.memory_bytes) == (None, None, None)


def test_the_table_names_every_column_and_shows_what_is_not_known_as_such() -> None:
    out = io.StringIO()
    Console(file=out, width=140).print(table_of([row_of(child(), [record()], 5 * 2**29, 2**30)]))
    head, row = (" ".join(line.split()) for line in out.getvalue().splitlines())
    assert head == "worker state questions/s batch fill model place memory GPU memory boots"
    assert row == "gpu3 ready - - small GPU 3 2.5 GiB 1.0 GiB 2"


@pytest.mark.parametrize(
    ("width", "head"),
    [
        (110, "worker state questions/s batch fill model place memory GPU memory boots"),
        (80, "worker state questions/s batch fill model place memory GPU memory"),
        (60, "worker state questions/s batch fill model place"),
        (40, "worker state questions/s batch fill"),
    ],
)
def test_a_narrow_terminal_shows_fewer_columns_and_each_worker_with_its_state(width: int, head: str) -> None:
    model = "meta-llama/Llama-3.1-8B-Instruct"
    rows = [Row(f"gpu{n}", f"GPU {n}", model, "busy", 12, 1234.5, 0.98, 8 * 2**30, 75 * 2**30) for n in range(8)]
    out = io.StringIO()
    Console(file=out, width=width).print(table_of(rows))
    first, *others = (" ".join(line.split()) for line in out.getvalue().splitlines())
    assert first == head
    assert [line.split(" meta")[0] for line in others] == [f"gpu{n} busy 1234.5 98 %" for n in range(8)]


def test_elsewhere_than_on_a_terminal_there_are_plain_lines_of_any_length() -> None:
    out = io.StringIO()
    screen = Screen(Console(file=out, width=20))
    screen.say("gpu3: booting (pid 1, GPU 3, log [.mcqueue]/logs/gpu3.log)")
    screen.show([child()])
    (line,) = out.getvalue().splitlines()
    assert line.endswith("gpu3: booting (pid 1, GPU 3, log [.mcqueue]/logs/gpu3.log)")


@pytest.mark.parametrize("foreground", [True, False])
def test_a_table_is_drawn_on_a_terminal_of_its_own_and_not_over_what_others_show_there(
    monkeypatch: pytest.MonkeyPatch, foreground: bool, tmp_path: Path
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp() + (not foreground))
    with (tmp_path / "terminal").open("w") as stream, screen_for(stream, load_settings()) as screen:
        assert isinstance(screen, LiveScreen) is foreground
