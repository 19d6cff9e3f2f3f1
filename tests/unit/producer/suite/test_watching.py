"""Following a suite's runs until all are over, and what is written then."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from contract.errors import RedisUnreachable, UnknownRun
from contract.fleet import WorkerRecord, WorkerState
from contract.ledger import Counts, MemoryLedger, RunState
from contract.verdict import Outcome
from producer.broker import MemoryBroker
from producer.export.results import export
from producer.suite import running
from producer.suite.progress import Board
from producer.suite.watching import watch_suite, watchers_of
from producer.watching.outage import Clock
from producer.watching.pace import Rates
from producer.watching.progress import Snapshot
from producer.watching.screens import BarScreen, LineScreen
from producer.watching.worker_status import Member
from tests.docs import blocks
from tests.support import ROOT, needed_package
from tests.unit.producer.conftest import Producer, WriteRows, settle_next
from tests.unit.producer.suite.conftest import cell, settle_all, write_suite


def ready(model: str) -> WorkerRecord:
    """A worker that serves `model`."""
    return WorkerRecord(name="w", model="m", state=WorkerState.READY, queue=f"score.{model}")


def away(run_id: str) -> Counts:
    """What a ledger answers whose Redis is away."""
    raise RedisUnreachable("No Redis answers at redis://here (refused).")


class Script:
    """A clock that runs through its sleeps, and does what is due at each time."""

    def __init__(self, events: dict[float, Callable[[], object]]) -> None:
        self.time = 0.0
        self._events = dict(events)

    def clock(self) -> Clock:
        return Clock(now=lambda: self.time, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        assert self.time < 300, "the watch does not end"
        for due in [each for each in self._events if each <= self.time]:
            self._events.pop(due)()


def watched(
    ledger: MemoryLedger, broker: MemoryBroker, events: dict[float, Callable[[], object]]
) -> tuple[dict[str, Counts], str]:
    text = io.StringIO()
    runs = list(reversed(ledger.runs()))
    board = Board(LineScreen(Console(file=text, width=200)), "mine", [(run.run_id, run) for run in runs])
    watch_suite(watchers_of(runs, ledger, broker, board), board, clock=Script(events).clock())
    return {run.run_id: ledger.counts(run.run_id) for run in runs}, text.getvalue()


def test_a_watch_ends_when_all_runs_are_settled_or_cancelled(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    ids = [each["run_id"] for each in producer.json(two_by_two)["runs"]]
    broker.live += [ready("small")]

    counts, said = watched(
        ledger,
        broker,
        {
            2: lambda: settle_next(ledger, ids[0], *[Outcome.CORRECT] * 4),
            4: lambda: ledger.halt(ids[1], RunState.CANCELLED),
            9: lambda: settle_next(ledger, ids[2], *[Outcome.CORRECT] * 4),
            30: lambda: settle_next(ledger, ids[3], *[Outcome.CORRECT] * 4),
        },
    )

    assert [counts[each].standing for each in ids] == ["settled", "cancelled", "settled", "settled"]
    assert "mine: 12/16 · 4 of 4 runs done" in said.splitlines()[-1]


def test_a_run_that_goes_on_after_it_was_over_is_watched_to_its_end(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    first, *others = [each["run_id"] for each in producer.json(two_by_two)["runs"]]
    broker.live += [ready("small"), ready("large")]

    counts, said = watched(
        ledger,
        broker,
        {
            2: lambda: settle_next(ledger, first, Outcome.FAILED, *[Outcome.CORRECT] * 3),
            4: lambda: ledger.reopen_failed(first),
            5: lambda: settle_next(ledger, others[0], *[Outcome.CORRECT] * 4),
            6: lambda: settle_next(ledger, others[1], *[Outcome.CORRECT] * 4),
            7: lambda: settle_next(ledger, others[2], *[Outcome.CORRECT] * 4),
            20: lambda: settle_next(ledger, first, Outcome.CORRECT),
        },
    )

    assert [each.standing for each in counts.values()] == ["settled"] * 4
    assert "mine: 16/16 · 4 of 4 runs done" in said.splitlines()[-1]


def test_a_run_that_is_purged_after_it_was_over_is_missed(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    first = producer.json(two_by_two)["runs"][0]["run_id"]
    done: dict[float, Callable[[], object]] = {
        2: lambda: settle_next(ledger, first, *[Outcome.CORRECT] * 4),
        4: lambda: ledger.purge(first),
    }
    with pytest.raises(UnknownRun, match=f"{first} is no longer in the ledger; last seen with 4 of 4 questions"):
        watched(ledger, broker, done)


def test_what_concerns_several_runs_is_said_once(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    producer(two_by_two)

    _, said = watched(ledger, broker, {15: lambda: settle_all(ledger)})

    assert said.count("No worker has served score.small for 10 s.") == 1
    assert said.count("No worker has served score.large for 10 s.") == 1


def test_a_redis_that_goes_away_is_waited_for_and_told_once(
    producer: Producer,
    two_by_two: Path,
    ledger: MemoryLedger,
    broker: MemoryBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer(two_by_two)
    broker.live += [ready("small"), ready("large")]
    there = ledger.counts

    counts, said = watched(
        ledger,
        broker,
        {
            2: lambda: monkeypatch.setattr(ledger, "counts", away),
            7: lambda: monkeypatch.setattr(ledger, "counts", there),
            9: lambda: settle_all(ledger),
        },
    )

    assert [each.standing for each in counts.values()] == ["settled"] * 4
    assert said.count("No Redis answers at redis://here") == 1
    assert said.count("Redis is back after 5 s.") == 1


def test_a_suite_that_nobody_could_look_at_was_no_faster_afterwards(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer(two_by_two)
    broker.live += [ready("small"), ready("large")]
    there = ledger.counts

    def back() -> None:
        monkeypatch.setattr(ledger, "counts", there)
        settle_all(ledger)

    _, said = watched(ledger, broker, {2: lambda: monkeypatch.setattr(ledger, "counts", away), 42: back})

    assert "mine: 16/16 · 4 of 4 runs done · 0.4/s over 0:42" in said, "and none in the last ten seconds"


def test_what_got_lost_of_a_run_is_sent_again_and_the_run_is_named(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    ids = [each["run_id"] for each in producer.json(two_by_two)["runs"]]
    queue = "score.small"
    broker.live += [ready("small"), ready("large")]
    for each in ids[1:]:
        settle_next(ledger, each, *[Outcome.CORRECT] * 4)
    broker.messages.clear()

    _, said = watched(ledger, broker, {9: lambda: settle_all(ledger)})

    assert f"{ids[0]} was stalled: 4 lost questions re-sent in 2 messages." in said
    assert [message[:2] for message in broker.messages] == [(queue, ids[0])] * 2


def test_a_terminal_gets_a_bar_for_each_run_under_way() -> None:
    text = io.StringIO()
    console = Console(file=text, width=120, height=40, force_terminal=True)
    cells = [cell("a", "m", 1, 4, unsettled=2), cell("b", "m", 4, 4)]
    board = Board(BarScreen(console), "mine", [(f"m {each.entry}", each.run) for each in cells])

    with board.screen:
        for each in cells:
            board.put(Snapshot(each.run.run_id, each.counts, Rates(1.0, 1.0, 1.0, 1.0)))
        board.tell("a-m", "Something.")
        board.draw(1.0)

    said = text.getvalue()
    assert "a-m: Something." in said
    assert "mine: 6/8 · 1 of 2 runs done" in said
    assert "m a" in said
    assert "2/4" in said
    assert "4/4" not in said


def test_the_boot_of_the_first_worker_does_not_slow_the_mean_pace() -> None:
    text = io.StringIO()
    waiting, done = cell("a", "m", 0, 60, unsettled=60), cell("a", "m", 20, 60, unsettled=40)
    board = Board(LineScreen(Console(file=text, width=200)), "mine", [("a", waiting.run)])

    for second, state in ((0, "booting"), (30, "booting"), (40, "ready")):
        member = Member("w", state, "score.m", None, None, None, on_gpu=False)
        counts = done.counts if second == 40 else waiting.counts
        board.put(Snapshot(waiting.run.run_id, counts, Rates(1.0, 1.0, 1.0, 1.0), [member]))
        board.draw(second)

    assert "mine: 20/60" in board.line()
    assert "2.0/s over 0:10" in board.line()


def test_the_time_left_of_a_suite_is_as_short_after_a_pause_as_before() -> None:
    run = cell("a", "m", 0, 60, unsettled=60).run
    board = Board(LineScreen(Console(file=io.StringIO())), "mine", [("a", run)])
    member = Member("w", "ready", "score.m", None, None, None, on_gpu=False)
    settled = {0: 0, 10: 20, 11: 20, 1000: 20, 1001: 20, 1010: 40}

    for second, count in settled.items():
        state = RunState.PAUSED if 10 < second <= 1000 else RunState.RUNNING
        counts = Counts(total=60, todo=60 - count, outcomes={Outcome.CORRECT: count}, state=state)
        board.put(Snapshot(run.run_id, counts, Rates(0.0, 0.0, 0.0, 1.0), [member]))
        board.draw(second)
        assert board.line().endswith("paused") == (state is RunState.PAUSED)

    assert "2.0/s over 0:20" in board.line()
    assert "0:10 left" in board.line()


@pytest.mark.parametrize(
    ("state", "left"), [(RunState.CANCELLED, "0:10 left"), (RunState.PAUSED, "0:10 left, 1 run paused")]
)
def test_questions_that_nobody_begins_are_not_in_the_time_left_of_a_suite(state: RunState, left: str) -> None:
    cells = [cell(entry, "m", 0, 60, unsettled=60) for entry in ("a", "b")]
    board = Board(LineScreen(Console(file=io.StringIO())), "mine", [(each.entry, each.run) for each in cells])
    member = Member("w", "ready", "score.m", None, None, None, on_gpu=False)

    for second, settled in ((0, 0), (20, 40)):
        for each, how in zip(cells, (RunState.RUNNING, state), strict=True):
            of_run = settled if how is RunState.RUNNING else 0
            counts = Counts(total=60, todo=60 - of_run, outcomes={Outcome.CORRECT: of_run}, state=how)
            board.put(Snapshot(each.run.run_id, counts, Rates(0.0, 0.0, 0.0, 1.0), [member]))
        board.draw(second)

    assert board.line().endswith(f" · {left}")


@pytest.mark.parametrize(
    ("put_off", "left"),
    [([True, True], "2 runs put off"), ([False, True], "0:10 left, 1 run put off"), ([False, False], "0:40 left")],
)
def test_runs_that_workers_put_off_are_not_in_the_time_left_of_a_suite(put_off: list[bool], left: str) -> None:
    cells = [cell(entry, "m", 0, 60, unsettled=60) for entry in ("a", "b")]
    board = Board(LineScreen(Console(file=io.StringIO())), "mine", [(each.entry, each.run) for each in cells])
    member = Member("w", "ready", "score.m", None, None, None, on_gpu=False)

    for second, settled in ((0, 0), (20, 40)):
        for each, off, of_run in zip(cells, put_off, (settled, 0), strict=True):
            counts = Counts(total=60, todo=60 - of_run, outcomes={Outcome.CORRECT: of_run})
            board.put(Snapshot(each.run.run_id, counts, Rates(0.0, 0.0, 0.0, 1.0), [member], put_off=off))
        board.draw(second)

    assert board.line().endswith(f" · {left}")


def test_the_mean_of_a_suite_leaves_out_its_pause_but_not_the_work_before_it() -> None:
    found = cell("a", "m", 0, 60, unsettled=60)
    board = Board(LineScreen(Console(file=io.StringIO(), width=200)), "mine", [("a", found.run)])
    member = Member("w", "ready", "score.m", None, None, None, on_gpu=False)

    running, paused = RunState.RUNNING, RunState.PAUSED
    for second, settled, state in ((0, 0, running), (10, 0, running), (70, 0, paused), (80, 20, running)):
        counts = Counts(total=60, todo=60 - settled, outcomes={Outcome.CORRECT: settled}, state=state)
        board.put(Snapshot(found.run.run_id, counts, Rates(0.0, 0.0, 0.0, 1.0), [member]))
        board.draw(second)

    assert "1.0/s over 0:20" in board.line()


def test_a_cancelled_suite_is_not_done_while_workers_finish_what_they_have_begun() -> None:
    found = cell("a", "m", 0, 60, unsettled=60, state=RunState.CANCELLED)
    board = Board(LineScreen(Console(file=io.StringIO(), width=200)), "mine", [("a", found.run)])

    for in_flight, told in ((True, "0 of 1 run done"), (False, "1 of 1 run done")):
        rates = Rates(0.0, 0.0, 0.0, 1.0)
        board.put(Snapshot(found.run.run_id, found.counts, rates, in_flight=in_flight))
        board.draw(1.0)
        assert told in board.line()
        assert board.over is not in_flight
        assert board.line().endswith("cancelled") is in_flight


@pytest.mark.parametrize(
    ("served", "left"),
    [([False, False], "no worker for 2 runs"), ([True, False], "no worker for 1 run"), ([True, True], "0:04 left")],
)
def test_a_suite_with_a_run_that_no_worker_serves_shows_no_time_left(served: list[bool], left: str) -> None:
    cells = [cell(entry, "m", 2, 4, unsettled=2) for entry in ("a", "b")]
    board = Board(LineScreen(Console(file=io.StringIO())), "mine", [(each.entry, each.run) for each in cells])
    member = Member("w", "ready", "score.m", None, None, None, on_gpu=False)

    for second, settled in ((0, 0), (4, 2)):
        for each, there in zip(cells, served, strict=True):
            counts = Counts(total=4, todo=4 - settled, outcomes={Outcome.CORRECT: settled})
            board.put(Snapshot(each.run.run_id, counts, Rates(0.0, 0.0, 0.0, 1.0), [member], served=there))
        board.draw(second)

    assert board.line().endswith(f" · {left}")


def test_more_bars_than_a_screen_holds_are_counted() -> None:
    text = io.StringIO()
    cells = [cell(f"a{n}", "m", 1, 4, unsettled=2) for n in range(17)]
    console = Console(file=text, width=120, height=40, force_terminal=True)
    board = Board(BarScreen(console), "mine", [(each.entry, each.run) for each in cells])

    with board.screen:
        for each in cells:
            board.put(Snapshot(each.run.run_id, each.counts, Rates(1.0, 1.0, 1.0, 1.0)))
        board.draw(1.0)

    assert "and 2 more runs" in text.getvalue()
    assert "a14" in text.getvalue()
    assert "a15" not in text.getvalue()


def test_watch_exports_every_run_and_writes_the_table(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    ids = [each["run_id"] for each in producer.json(two_by_two)["runs"]]
    settle_all(ledger)

    result = producer(two_by_two, "--watch")

    assert [path.exists() for each in ids for path in (Path("results", each, "results.csv"),)] == [True] * 4
    assert {path.name for path in Path("results/mine").iterdir()} == {"suite.csv", "suite.json", "suite.md"}
    for name in ("suite.csv", "suite.json", "suite.md"):
        assert f"results/mine/{name}" in result.stdout
    with Path("results/mine/suite.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["entry"], row["model"], row["run_id"]) for row in rows] == [
        (entry, model, run_id)
        for (entry, model), run_id in zip(
            [("red", "small"), ("red", "large"), ("blue", "small"), ("blue", "large")], ids, strict=True
        )
    ]
    assert {(row["accuracy"], row["right"], row["of"], row["failed"]) for row in rows} == {("0.75", "3", "4", "0")}
    content = json.loads(Path("results/mine/suite.json").read_text())
    assert (content["suite"], content["state"], content["file"]) == ("mine", "settled", "suite.yaml")
    assert [each["value"] for each in content["means"]] == [0.75, 0.75]


def test_a_notebook_reads_all_runs_of_a_suite_as_the_documentation_says(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    for run in producer.json(two_by_two)["runs"]:
        first = Outcome.WRONG if run["entry"] == "red" else Outcome.CORRECT
        settle_next(ledger, run["run_id"], first, Outcome.CORRECT, Outcome.CORRECT, Outcome.WRONG)
    producer(two_by_two, "--watch", "--format", "parquet", "--format", "jsonl")
    needed_package("pandas")
    (block,) = (each for each in blocks(ROOT / "docs" / "statistics.md") if "never_right" in each)
    found: dict[str, Any] = {}

    exec(block.replace("results/exams/", "results/mine/"), found)

    assert sorted(found["never_right"].index) == [("blue", "q3"), ("red", "q0"), ("red", "q3")]
    assert found["pandas"].read_parquet("all.parquet")["run_id"].nunique() == 4
    assert len(found["pyarrow"].parquet.read_table("all.parquet")) == 16
    for run in ledger.runs():
        written = {path.name for path in Path("results", run.run_id).iterdir()}
        assert written == {"results.parquet", "results.jsonl", "summary.json"}


def test_a_carriage_return_in_a_file_s_name_does_not_end_a_row_of_the_table(
    producer: Producer, sets: tuple[Path, Path], ledger: MemoryLedger
) -> None:
    sets[0].rename("odd\rname.jsonl")
    path = write_suite([{"name": "a", "file": "odd\rname.jsonl"}])
    producer(path)
    settle_all(ledger)

    producer(path, "--watch")

    with Path("results/mine/suite.csv").open(newline="") as file:
        assert [row["source"] for row in csv.DictReader(file)] == ["odd\rname.jsonl"]


def test_watch_as_json_is_one_document(producer: Producer, two_by_two: Path, ledger: MemoryLedger) -> None:
    producer(two_by_two)
    settle_all(ledger)

    found = producer.json(two_by_two, "--watch")

    assert found["state"] == "settled"
    assert "results/mine/suite.csv" in found["files"]


def test_a_run_that_was_cancelled_meanwhile_is_exported_and_exits_with_4(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [each["run_id"] for each in producer.json(two_by_two)["runs"]]

    def cancelled(*given: Any) -> None:
        settle_next(ledger, ids[0], Outcome.FAILED)
        ledger.halt(ids[0], RunState.CANCELLED)
        for each in ids[1:]:
            settle_next(ledger, each, *[Outcome.CORRECT] * 4)
        watch_suite(*given)

    monkeypatch.setattr(running, "watch_suite", cancelled)
    said = producer(two_by_two, "--watch", exit_code=4).stdout

    assert "1/4 settled · cancelled · 1 failed" in said
    assert Path("results", ids[0], "results.csv").exists()
    assert json.loads(Path("results/mine/suite.json").read_text())["state"] == "not settled"


def test_the_table_knows_which_questions_of_a_cancelled_run_have_a_key(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed = [{"question": f"Red {n}?", "choices": ["no", "yes"], "answer": "B"} for n in range(3)]
    write_rows({"question": "Blue?", "choices": ["no", "yes"]}, *keyed, name="red.jsonl")
    path = write_suite([{"name": "red", "file": "red.jsonl"}])

    def cancelled(*given: Any) -> None:
        (run,) = ledger.runs()
        settle_next(ledger, run.run_id, Outcome.UNANSWERED, Outcome.CORRECT, Outcome.CORRECT)
        ledger.halt(run.run_id, RunState.CANCELLED)
        watch_suite(*given)

    monkeypatch.setattr(running, "watch_suite", cancelled)
    producer(path, "--watch", exit_code=4)

    (found,) = json.loads(Path("results/mine/suite.json").read_text())["runs"]
    assert (found["accuracy_all"]["right"], found["accuracy_all"]["of"], found["without_key"]) == (2, 2, 1)


def test_ctrl_c_ends_the_watching_and_says_how_to_rejoin(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "watch_suite", partial(watch_suite, clock=Clock(sleep=interrupted)))
    rejoin = f"rejoin with: python -m producer suite {two_by_two} --watch"

    assert f"the runs continue; {rejoin}" in producer(two_by_two, "--watch", exit_code=130).stderr

    paused = ledger.runs()[0].run_id
    ledger.halt(paused, RunState.PAUSED)
    told = producer(two_by_two, "--watch", exit_code=130).stderr
    ledger.resume(paused)

    but = f"but these stay paused until python -m producer resume RUN: {paused}"
    assert f"the runs continue, {but}; {rejoin}" in told
    assert {ledger.counts(run.run_id).state for run in ledger.runs()} == {RunState.RUNNING}
    assert not Path("results").exists()

    elsewhere = f"{rejoin} --format parquet --out 'my results'\n"
    words = ("--watch", "--format", "parquet", "--out", "my results")
    assert elsewhere in producer(two_by_two, *words, exit_code=130).stderr


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_sent(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    Path("results").mkdir()
    Path("results/mine").write_text("a file is in the way")

    assert "the results cannot be written" in producer(two_by_two, "--watch", exit_code=1).stderr
    assert ledger.runs() == []


def test_what_is_settled_between_the_export_and_the_table_is_in_neither(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [each["run_id"] for each in producer.json(two_by_two)["runs"]]

    def cancelled(*given: Any) -> None:
        for each in ids:
            settle_next(ledger, each, Outcome.CORRECT, Outcome.FAILED)
            ledger.halt(each, RunState.CANCELLED)
        watch_suite(*given)

    def then_settled(*given: Any, **more: Any) -> Any:
        done = export(*given, **more)
        settle_all(ledger)
        return done

    monkeypatch.setattr(running, "watch_suite", cancelled)
    monkeypatch.setattr(running, "export", then_settled)
    producer(two_by_two, "--watch", exit_code=4)

    with Path("results/mine/suite.csv").open(newline="") as file:
        first, *others = csv.DictReader(file)
    assert [first[name] for name in ("state", "settled", "correct", "failed", "right", "of")] == [
        *("cancelled", "2", "1", "1", "1", "2")
    ]
    assert {each["state"] for each in others} == {"settled"}
    (in_json, *_) = json.loads(Path("results/mine/suite.json").read_text())["runs"]
    assert (in_json["state"], in_json["settled"], in_json["outcomes"]["correct"]) == ("cancelled", 2, 1)
