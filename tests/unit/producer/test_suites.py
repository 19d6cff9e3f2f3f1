"""Suites: several question sets and models, one command, one table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from rich.console import Console

from contract.engine_info import EngineUsed
from contract.errors import RedisUnreachable, RunConfigError
from contract.fleet import WorkerRecord, WorkerState
from contract.ledger import Counts, MemoryLedger, Run, RunState
from contract.settings import Settings
from contract.verdict import Failure, Outcome, Verdict
from producer.broker import MemoryBroker
from producer.cli import main
from producer.readers import file as reading
from producer.session import Session
from producer.stats import share
from producer.stats.subjects import macro_interval
from producer.suite import running
from producer.suite.cell import Cell
from producer.suite.config import load_suite
from producer.suite.pairs import paired
from producer.suite.plan import planned
from producer.suite.progress import Board
from producer.suite.render import echo_figures, markdown
from producer.suite.table import Table
from producer.suite.watching import watch_suite, watchers_of
from producer.watching.progress import BarScreen, LineScreen, Rates, Snapshot
from producer.watching.watch import Clock
from producer.watching.worker_status import Member
from tests.support import ROOT, build_test_index, make_questions, make_spec, open_run
from tests.unit.producer.conftest import Producer, WriteRows, session_on

SHIPPED = sorted((ROOT / "configs" / "suites").glob("*.yaml"))


@pytest.fixture
def producer(session: Session) -> Producer:
    """Calls `python -m producer suite`."""
    return Producer(session, "suite")


@pytest.fixture
def sets(write_rows: WriteRows) -> tuple[Path, Path]:
    """Two question sets of four questions, which have none in common; B is always right."""

    def rows(what: str) -> list[dict[str, Any]]:
        return [{"id": f"q{n}", "question": f"{what} {n}?", "choices": ["no", "yes"], "answer": "B"} for n in range(4)]

    return write_rows(*rows("Red"), name="red.jsonl"), write_rows(*rows("Blue"), name="blue.jsonl")


def write_suite(entries: Sequence[Mapping[str, Any]], **more: Any) -> Path:
    path = Path("suite.yaml")
    path.write_text(yaml.safe_dump({"name": "mine", **more, "entries": list(entries)}))
    return path


@pytest.fixture
def two_by_two(sets: tuple[Path, Path]) -> Path:
    """Both sets asked of two models."""
    entries = [{"name": path.stem, "file": path.name} for path in sets]
    return write_suite(entries, models=["small", "large"])


def settle(ledger: MemoryLedger, run_id: str, *outcomes: Outcome) -> None:
    """Settle as many questions of the run as there are outcomes."""
    ids = list(ledger.unsettled(run_id))
    verdicts = [
        Verdict(
            question_id=each,
            outcome=outcome,
            error=Failure(type="RequestRejected", message="too long") if outcome is Outcome.FAILED else None,
        )
        for each, outcome in zip(ids, outcomes, strict=False)
    ]
    ledger.commit(run_id, verdicts)


def settle_all(ledger: MemoryLedger, right: int = 3) -> None:
    """Settle every run, with so many of its questions right."""
    for run in ledger.runs():
        settle(ledger, run.run_id, *[Outcome.CORRECT] * right, *[Outcome.WRONG] * (run.questions - right))


# --- the file ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_suite_can_be_asked(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(ROOT)  # the paths in them count from there
    index = build_test_index(tmp_path / "demo", ["A fact."])
    suite = load_suite(path)
    moved = [
        each.model_copy(update={"set": {**each.set, "rag.index": str(index)}}) if "rag.index" in each.set else each
        for each in suite.entries
    ]

    with planned(suite.model_copy(update={"entries": moved}), path, Settings()) as runs:
        assert len({each.plan.run_id for each in runs}) == len(runs) >= len(suite.entries)


def test_there_is_a_suite_of_the_demo() -> None:
    assert "demo" in {path.stem for path in SHIPPED}


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"entires": []}, "suite.yaml: unknown setting 'entires'. Did you mean 'entries'?"),
        ({"name": "?"}, "suite.yaml: name: a name needs a letter a to z or a digit"),
        ({"entries": []}, "suite.yaml: entries: "),
        ({"models": ["m", "m"]}, "suite.yaml: configuration: models: 'm' is listed twice"),
        ({"entries": [{"name": "a", "fle": "x"}]}, "entry 'a': unknown setting 'fle'. Did you mean 'file'?"),
        ({"entries": [{"file": "x"}]}, "suite.yaml: entry 1: name: Field required"),
        ({"entries": ["x"]}, "suite.yaml: entry 1: configuration: "),
        ({"entries": [{"name": "a", "file": "-"}]}, "entry 'a': file: standard input cannot be read again"),
        ({"entries": [{"name": "a", "file": "x", "limit": 0}]}, "entry 'a': limit: "),
        ({"entries": [{"name": "a", "file": "x", "mode": "letter"}]}, "put it under set, as in set: {mode: …}"),
        (
            {"entries": [{"name": "a b", "file": "x"}, {"name": "A-B", "file": "y"}]},
            "entries have the same name: 'a b', 'A-B'",
        ),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_place(change: dict[str, Any], wanted: str) -> None:
    content = {"name": "mine", "entries": [{"name": "a", "file": "x"}], **change}
    Path("suite.yaml").write_text(yaml.safe_dump(content))

    with pytest.raises(RunConfigError) as caught:
        load_suite(Path("suite.yaml"))

    assert wanted in str(caught.value)


def test_mistakes_of_several_entries_are_told_together() -> None:
    path = write_suite([{"name": "a", "fle": "x"}, {"name": "b", "file": "x", "smaple": 3}])

    with pytest.raises(RunConfigError, match=r"(?s)entry 'a': .*'fle'.*\n.*entry 'b': .*Did you mean 'sample'"):
        load_suite(path)


def test_an_entrys_values_lie_over_the_suites_over_the_file() -> None:
    Path("run.yaml").write_text("mode: generate\nseed: 1\nsampling: {max_tokens: 9, temperature: 0.0}\n")
    entry: dict[str, Any] = {"name": "a", "file": "x", "set": {"sampling": {"temperature": 0.5}, "seed": 3}}
    suite = load_suite(write_suite([entry], config="run.yaml", set={"seed": 2, "sampling.max_tokens": 8}))

    config = suite.run_config(suite.entries[0])

    assert (config.seed, config.sampling.max_tokens, config.sampling.temperature) == (3, 8, 0.5)


# --- what is asked ----------------------------------------------------------------------------------------------------


def test_each_entry_is_asked_of_each_model(producer: Producer, two_by_two: Path, ledger: MemoryLedger) -> None:
    result = producer(two_by_two)

    asked = [(run.source, run.spec.model) for run in reversed(ledger.runs())]
    assert sorted(asked) == [(f"{name}.jsonl", model) for name in ("blue", "red") for model in ("large", "small")]
    assert result.stdout.count("new: 4 questions sent in 2 messages") == 4
    assert "no worker serves score.small and score.large, start one: python -m workers up" in result.stdout
    assert f"next  python -m producer suite {two_by_two} --watch" in result.stdout


def test_while_workers_are_starting_nobody_is_told_to_start_them(
    producer: Producer, two_by_two: Path, broker: MemoryBroker
) -> None:
    broker.announced = ["cpu0@here"]
    assert "no worker serves score.small and score.large yet; 1 worker is starting: cpu0@here" in (
        producer(two_by_two).stdout
    )


def test_without_models_an_entry_asks_that_of_its_configuration(producer: Producer, sets: tuple[Path, Path]) -> None:
    path = write_suite(
        [{"name": "a", "file": sets[0].name}, {"name": "b", "file": sets[1].name, "set": {"model": "m"}}]
    )

    assert [each["model"] for each in producer.json(path)["runs"]] == ["smollm2-135m-instruct", "m"]


def test_an_entry_may_name_models_of_its_own(producer: Producer, sets: tuple[Path, Path]) -> None:
    red, blue = (path.name for path in sets)
    entries: list[dict[str, Any]] = [{"name": "a", "file": red}, {"name": "b", "file": blue, "models": ["large"]}]
    path = write_suite(entries, models=["small", "large"])

    asked = [(each["entry"], each["model"]) for each in producer.json(path)["runs"]]

    assert asked == [("a", "small"), ("a", "large"), ("b", "large")]


def test_an_entry_is_read_and_chosen_from_as_enqueue_does(producer: Producer, write_rows: WriteRows) -> None:
    rows = [{"stem": f"Number {n}?", "a": "no", "b": "yes", "key": "B", "subject": "xy"[n % 2]} for n in range(6)]
    write_rows(*rows, name="odd.jsonl")
    mapping = {"question": "stem", "choices": "a+b", "answer": "key"}
    path = write_suite([{"name": "a", "file": "odd.jsonl", "map": mapping, "subjects": ["x"], "sample": 2, "seed": 7}])
    by_hand = ["--map", "question=stem,choices=a+b,answer=key", "--subject", "x", "--sample", "2", "--seed", "7"]

    (told,) = producer.json(path, "--dry-run")["runs"]
    session = session_on(producer.session.ledger, producer.session.broker)
    same = CliRunner().invoke(main, ["enqueue", "odd.jsonl", "--dry-run", "--json", *by_hand], obj=session)

    assert told["questions"] == 2
    assert told["spec"] == json.loads(same.stdout)["spec"]


def test_a_file_is_read_once_for_all_models(
    producer: Producer, two_by_two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    rows = reading.QuestionFile.rows

    def counted(file: reading.QuestionFile) -> Any:
        read.append(file.source.shown)
        return rows(file)

    monkeypatch.setattr(reading.QuestionFile, "rows", counted)
    producer(two_by_two)

    assert read == ["red.jsonl", "blue.jsonl"]


def test_a_bad_row_in_the_last_file_enqueues_nothing(
    producer: Producer, sets: tuple[Path, Path], write_rows: WriteRows, ledger: MemoryLedger
) -> None:
    bad = {"question": "q", "choices": ["a", "b"], "answer": "Z"}
    write_rows(bad, name="bad.jsonl")
    path = write_suite([{"name": "good", "file": sets[0].name}, {"name": "spoilt", "file": "bad.jsonl"}])

    result = producer(path, exit_code=1)

    assert "suite.yaml: entry 'spoilt': bad.jsonl:1: field 'answer': 'Z' names no choice" in result.stderr
    assert ledger.runs() == []


def test_what_is_wrong_with_several_entries_is_told_at_once(producer: Producer, sets: tuple[Path, Path]) -> None:
    red = sets[0].name
    path = write_suite(
        [
            {"name": "gone", "file": "nowhere.jsonl"},
            {"name": "misspelt", "file": red, "set": {"mod": "letter"}},
            {"name": "both", "file": red, "limit": 1, "sample": 1},
            {"name": "elsewhere", "file": red, "config": "nowhere.yaml"},
            {"name": "keyless", "file": red, "answers": "nowhere.txt"},
            {"name": "good", "file": red},
        ]
    )

    said = producer(path, exit_code=1).stderr

    assert "entry 'gone': nowhere.jsonl: no such file." in said
    assert "entry 'misspelt': set: unknown setting 'mod'. Did you mean 'mode'?" in said
    assert "entry 'both': --limit and --sample are mutually exclusive." in said
    assert "entry 'elsewhere': nowhere.yaml: no such configuration file." in said
    assert "entry 'keyless': answers: nowhere.txt: no such file. The path is relative to the current folder." in said
    assert "good" not in said


def test_a_model_that_is_set_beside_models_is_refused(producer: Producer, sets: tuple[Path, Path]) -> None:
    path = write_suite([{"name": "a", "file": sets[0].name, "set": {"model": "x"}}], models=["y"])

    assert "set.model and models are mutually exclusive" in producer(path, exit_code=1).stderr


def test_skipped_rows_are_told_and_kept(producer: Producer, write_rows: WriteRows) -> None:
    good = {"question": "q", "choices": ["a", "b"], "answer": "A"}
    write_rows(good, {**good, "answer": "Z"}, name="mixed.jsonl")

    result = producer(write_suite([{"name": "a", "file": "mixed.jsonl", "skip_bad": True}]))

    assert "a: 1 row skipped; see results/mine-a-" in result.stderr
    (path,) = Path("results").glob("*/rejected.jsonl")
    assert json.loads(path.read_text())["line"] == 2


def test_what_is_odd_in_a_set_is_warned_of_once_with_the_entries_that_ask_it(
    producer: Producer, write_rows: WriteRows
) -> None:
    sky = {"question": "Sky?", "choices": ["blue", "red"], "answer": "A"}
    write_rows(sky, {**sky, "answer": "B"}, name="odd.jsonl")
    write_rows({**sky, "question": "a &lt; b?"}, name="entity.jsonl")
    entries: list[dict[str, Any]] = [{"name": "plain", "file": "odd.jsonl"}, {"name": "html", "file": "entity.jsonl"}]
    letter = {"name": "letter", "file": "odd.jsonl", "set": {"mode": "letter"}}
    path = write_suite([*entries, letter], models=["small", "large"])

    for words in (("--dry-run",), (), ("--json",)):
        said = producer(path, *words).stderr
        assert said.count("warning: ") == 2
        assert "plain, letter: warning: 1 question repeated with another key for the same choices" in said
        assert "odd.jsonl:1 says 'blue', odd.jsonl:2 says 'red': 'Sky?'\n" in said
        assert "html: warning: 1 question with HTML entities" in said


def test_a_dry_run_names_the_runs_and_writes_nothing(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    said = producer(two_by_two, "--dry-run").stdout
    told = producer.json(two_by_two, "--dry-run")

    assert "dry run: nothing was written; 4 runs, 16 questions" in said
    assert ledger.runs() == []
    assert [each["run_id"] for each in told["runs"]] == [each["run_id"] for each in producer.json(two_by_two)["runs"]]


def test_a_suite_goes_before_others_where_its_priority_says_so(
    producer: Producer, sets: tuple[Path, Path], broker: MemoryBroker
) -> None:
    producer(write_suite([{"name": "usual", "file": sets[0].name}]))
    producer(write_suite([{"name": "urgent", "file": sets[1].name}]), "--priority", "high")

    assert [run_id.split("-")[1] for _, run_id, _ in broker.messages] == ["urgent"] * 2 + ["usual"] * 2


# --- asked again ------------------------------------------------------------------------------------------------------


def test_the_same_command_goes_on(producer: Producer, two_by_two: Path, broker: MemoryBroker) -> None:
    producer(two_by_two)
    broker.messages.pop()

    again = producer.json(two_by_two)["runs"]

    assert [each["submitted"] for each in again] == ["resumed"] * 4
    assert [each["sent"] for each in again] == [0, 0, 0, 2]


def test_a_settled_suite_is_printed_and_nothing_is_sent(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    producer(two_by_two)
    settle_all(ledger)
    broker.messages.clear()

    said = producer(two_by_two).stdout

    assert said.count("already settled: nothing was sent") == 4
    assert said.count("0.750 (0.301 to 0.954)") == 4
    assert broker.messages == []
    assert "exports the runs and writes the table" in said


def test_what_was_asked_by_hand_under_another_name_is_told(
    producer: Producer, sets: tuple[Path, Path], ledger: MemoryLedger
) -> None:
    path = write_suite([{"name": "by hand", "file": "red.jsonl"}, {"name": "other", "file": "blue.jsonl"}])
    session = session_on(producer.session.ledger, producer.session.broker)
    CliRunner().invoke(main, ["enqueue", "red.jsonl", "--run", "mine-alone"], obj=session)
    (first,) = ledger.runs()

    lines = [line for line in producer(path).stdout.splitlines() if line.startswith("already")]

    assert len(lines) == 1
    assert lines[0].endswith(f"in the same way as {first.run_id}")


def test_another_model_is_asked_beside_what_stands(
    producer: Producer, sets: tuple[Path, Path], ledger: MemoryLedger
) -> None:
    entry = {"name": "a", "file": sets[0].name}
    producer(write_suite([entry], models=["small"]))
    settle_all(ledger)

    again = producer.json(write_suite([entry], models=["small", "large"]))["runs"]

    assert [each["submitted"] for each in again] == ["settled", "new"]


def test_failed_questions_of_a_settled_suite_are_told_and_exit_with_3(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    producer(two_by_two)
    first = producer.json(two_by_two)["runs"][0]["run_id"]
    settle(ledger, first, Outcome.FAILED, Outcome.UNANSWERED)
    settle_all(ledger)

    said = producer(two_by_two, exit_code=3).stdout

    assert "1 unanswered · 1 failed" in said
    assert "1 × RequestRejected, for example q0: too long" in said
    assert f"python -m producer requeue {first} --failed" in said


# --- the table --------------------------------------------------------------------------------------------------------


def cell(entry: str, model: str, right: int, of: int, **more: Any) -> Cell:
    """A run with so many of `of` questions right, none `unsettled` or `failed` unless `more` says so."""
    unsettled, failed = more.pop("unsettled", 0), more.pop("failed", 0)
    spec = make_spec(model=model, questions_digest=more.pop("digest", entry[0].encode().hex()[:2] * 32))
    run = Run(run_id=f"{entry}-{model}", spec=spec, source="made up", questions=of, chance=0.25, created_at=0.0)
    outcomes = {Outcome.CORRECT: right, Outcome.FAILED: failed, Outcome.WRONG: of - unsettled - failed - right}
    counts = Counts(total=of, todo=unsettled, outcomes=outcomes, state=more.pop("state", RunState.RUNNING))
    return Cell(entry, run, counts, **more)


def table(*cells: Cell, shared: bool = False) -> Table:
    return Table("mine", cells, shared)


def test_the_mean_weighs_each_entry_the_same() -> None:
    (mean,) = table(cell("a", "m", 10, 10), cell("b", "m", 0, 1000)).means()

    assert mean.value == pytest.approx(0.5)
    assert mean.interval is not None
    assert mean.interval.low < 0.5 < mean.interval.high


def test_the_mean_is_over_entries_that_are_settled_for_every_model() -> None:
    cells = [cell(entry, model, 5, 10) for entry in "abc" for model in ("m", "n")]
    cells[-1] = cell("c", "n", 3, 10, unsettled=4)

    means = table(*cells, cell("d", "m", 10, 10)).means()

    assert [(each.model, each.entries) for each in means] == [("m", 2), ("n", 2)]
    assert [each.value for each in means] == [0.5, 0.5], "d was asked of one model alone"


def test_there_is_no_mean_of_a_single_entry() -> None:
    assert table(cell("a", "m", 5, 10)).means() == []


def test_entries_with_questions_in_common_have_a_mean_without_an_interval(
    producer: Producer, sets: tuple[Path, Path], ledger: MemoryLedger
) -> None:
    red, blue = (path.name for path in sets)
    path = write_suite([{"name": "all", "file": red}, {"name": "some", "file": red, "limit": 2}])
    producer(path)
    settle_all(ledger, right=1)
    assert producer.json(path)["means"][0]["low"] is None
    assert "no interval, as entries have questions or contexts in common" in producer(path).stdout

    path = write_suite([{"name": "all", "file": red}, {"name": "others", "file": blue}])
    producer(path)
    settle_all(ledger, right=1)

    (mean,) = producer.json(path)["means"]
    assert mean["value"] == 0.25
    assert mean["low"] < 0.25 < mean["high"]


@pytest.mark.parametrize(
    "common",
    [
        {"question": "Which?", "choices": ["b", "a"], "answer": "B"},
        {"question": "Who?", "choices": ["c", "d"], "answer": "A", "context": "A tale."},
    ],
    ids=["a question with its choices in another order", "a context with another question"],
)
def test_entries_go_together_by_what_they_ask_and_what_they_ask_it_about(
    producer: Producer, write_rows: WriteRows, ledger: MemoryLedger, common: dict[str, Any]
) -> None:
    one = [
        {"id": "1", "question": "Which?", "choices": ["a", "b"], "answer": "A"},
        {"id": "2", "question": "When?", "choices": ["a", "b"], "answer": "A", "context": "A tale."},
    ]
    write_rows(*one, name="one.jsonl")
    write_rows({"id": "3", **common}, {**one[0], "id": "4", "question": "Whose?"}, name="other.jsonl")
    path = write_suite([{"name": each, "file": f"{each}.jsonl"} for each in ("one", "other")])
    producer(path)
    settle_all(ledger, right=1)

    assert producer.json(path)["means"][0]["low"] is None


def shown(found: Table, capsys: pytest.CaptureFixture[str]) -> str:
    echo_figures(found)
    return capsys.readouterr().out


def test_a_model_has_a_column_and_failures_stand_beside_the_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    cells = [cell("a", "m", 5, 10, failed=2), cell("a", "n", 1, 10, unsettled=4, state=RunState.PAUSED)]
    lines = shown(table(*cells), capsys).splitlines()

    assert lines[0].split() == ["entry", "chance", "m", "n"]
    assert lines[1].split("  ")[0] == "a"
    assert "0.500 (0.237 to 0.763)" in lines[1]
    assert "0.625 (0.306 to 0.863) without failed" in lines[2]
    assert "6/10 settled · paused" in lines[2]
    assert "2 failed" in lines[3]


def test_what_is_not_asked_or_not_begun_has_no_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(table(cell("a", "m", 0, 10, unsettled=10), cell("b", "n", 1, 1)), capsys).splitlines()

    assert lines[1].split() == ["a", "0.250", "0/10", "settled", "-"]
    assert lines[2].split()[:3] == ["b", "0.250", "-"]


def test_many_models_have_rows(capsys: pytest.CaptureFixture[str]) -> None:
    models = [f"model-{n}" for n in range(5)]
    lines = shown(table(*(cell(entry, model, 5, 10) for entry in "ab" for model in models)), capsys).splitlines()

    assert lines[0].split()[:3] == ["entry", "model", "accuracy"]
    assert len(lines) == 1 + 10 + 5, "a row per run, and a mean per model"
    assert lines[1].split()[-1] == "a-model-0"


def test_a_narrow_terminal_has_rows_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cells = table(*(cell("a", model, 5, 10) for model in ("first-model", "second-model")))
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
    monkeypatch.setenv("COLUMNS", "60")
    assert "95 %" in shown(cells, capsys)
    monkeypatch.setenv("COLUMNS", "100")
    assert "95 %" not in shown(cells, capsys)


def test_runs_over_the_same_questions_are_named_for_compare_and_report(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    told = producer.json(two_by_two)
    assert told["comparable"] == [], "nothing is settled"
    settle_all(ledger)
    red, large = (each["run_id"] for each in told["runs"][:2])

    said = producer(two_by_two).stdout

    assert f"python -m producer compare {red} {large}" in said
    assert f"python -m producer report {red} {large}" in said
    assert producer.json(two_by_two)["comparable"][0] == [red, large]


def test_ways_of_asking_the_same_are_comparable() -> None:
    one, other = cell("a", "m", 1, 2, digest="0" * 64), cell("b", "m", 1, 2, digest="0" * 64)

    assert table(one, other, cell("c", "m", 1, 2)).comparable() == [[one, other]]


def test_made_up_answers_are_called_so(producer: Producer, two_by_two: Path, ledger: MemoryLedger) -> None:
    run_id = producer.json(two_by_two)["runs"][0]["run_id"]
    ledger.note_engine(run_id, EngineUsed(worker="w", since=0.0, engine={"engine": "simulated"}))

    assert f"the simulated engine answered {run_id}, whose" in producer(two_by_two).stdout
    assert [each["simulated"] for each in producer.json(two_by_two)["runs"]] == [True, False, False, False]
    settle_all(ledger)
    producer(two_by_two, "--watch")
    assert f"**the simulated engine answered {run_id}, whose" in Path("results/mine/suite.md").read_text()
    assert Path("results/mine/suite.csv").read_text().count(",True,likelihood,") == 1


def test_markdown_is_a_table_whatever_the_names_are() -> None:
    lines = markdown(table(cell("a|b", "m<n", 5, 10, failed=1), cell("c", "m<n", 5, 10))).splitlines()

    assert lines[:3] == [
        "| entry | chance | m&lt;n |",
        "| --- | ---: | ---: |",
        "| a\\|b | 0.250 | 0.500 (0.237 to 0.763)<br>0.556 (0.267 to 0.811) without failed<br>1 failed |",
    ]
    assert lines[4].startswith("| mean of 2 | 0.250 | 0.500 (")


def test_a_mean_over_entries_with_failed_questions_has_one_without_them_beside_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cells = [cell("a", "m", 4, 10, failed=2), cell("b", "m", 6, 10), cell("a", "n", 4, 10), cell("b", "n", 6, 10)]
    found = table(*cells)

    whole, spared = found.means()
    assert whole.value == pytest.approx(0.5)
    assert whole.without_failed is not None
    assert whole.without_failed.value == pytest.approx((4 / 8 + 6 / 10) / 2)
    assert spared.without_failed is None
    responded = [each for each in (share(4, 8), share(6, 10)) if each]
    assert whole.without_failed.interval == macro_interval(responded)
    assert "0.550 (" in next(line for line in shown(found, capsys).splitlines()[4:] if "without failed" in line)


def test_an_entry_that_failed_as_a_whole_is_no_wrong_answer_in_a_mean(capsys: pytest.CaptureFixture[str]) -> None:
    cells = [cell("a", "m", 0, 10, failed=10), cell("b", "m", 6, 10, failed=1), cell("c", "m", 4, 10)]
    found = table(*cells)

    assert (cells[0].accuracy, found.in_the_mean) == (None, ["b", "c"])
    assert [each.value for each in found.means()] == [pytest.approx(0.5)]
    assert "mean of 2 of 3" in shown(found, capsys)


def write_contexts(write_rows: WriteRows) -> None:
    """Two files of ten contexts of their own, each with four questions; A is always right."""
    for what in ("red", "blue"):
        rows = [
            {
                "id": f"q{n}",
                "context": f"Text {n // 4} of {what}.",
                "question": f"{what} {n}?",
                "choices": ["a", "b"],
                "answer": "A",
            }
            for n in range(40)
        ]
        write_rows(*rows, name=f"{what}.jsonl")


def test_a_suite_whose_questions_share_contexts_tells_the_wider_intervals(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows
) -> None:
    write_contexts(write_rows)
    path = write_suite([{"name": each, "file": f"{each}.jsonl"} for each in ("red", "blue")])
    producer(path)
    settle_all(ledger, right=20)

    said = producer(path).stdout
    told = producer.json(path)

    # Ten contexts, half of them all right: 2.262 · √(10/9 · 10 · 2²) / 40 = 0.377 to either side.
    assert "0.500 (0.123 to 0.877)" in said
    assert "0.500 (0.352 to 0.648)" not in said
    assert "intervals and tests are clustered by context where questions share contexts" in said
    found = told["runs"][0]["accuracy_context_interval"]
    assert (round(found["low"], 3), round(found["high"], 3)) == (0.123, 0.877)
    # Two entries of that, independent of each other: 0.377 / √2 to either side.
    assert (told["means"][0]["low"], told["means"][0]["high"]) == pytest.approx((0.2334, 0.7666), abs=1e-3)
    producer(path, "--watch")
    (first, _) = csv.DictReader(io.StringIO(Path("results/mine/suite.csv").read_text()))
    assert (first["context_low"], first["without_failed"]) == (str(found["low"]), "")


def test_a_settled_suite_says_whether_its_models_differ(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    runs = producer.json(two_by_two)["runs"]
    assert producer.json(two_by_two)["comparisons"] == []
    for run in runs:
        better = run["model"] == "large"
        settle(ledger, run["run_id"], *[Outcome.CORRECT if better else Outcome.WRONG] * 3, Outcome.FAILED)

    said = producer(two_by_two, exit_code=3).stdout
    found = producer.json(two_by_two, exit_code=3)["comparisons"]

    assert [(each["a"], each["b"]) for each in found] == [
        (runs[0]["run_id"], runs[1]["run_id"]),
        (runs[2]["run_id"], runs[3]["run_id"]),
    ]
    # Three discordant pairs, all for B: 2 · ½ / 2³, and twice that beside the other comparison.
    assert [(each["p_value"], each["p_value_together"]) for each in found] == [(0.125, 0.25), (0.125, 0.25)]
    assert (found[0]["pairs"], found[0]["either_failed"], found[0]["difference"]["value"]) == (3, 1, 1.0)
    told = "p = 0.12, p = 0.25 adjusted (Holm); 1 failed question excluded"
    assert "red: large vs. small: +1.000 (" in said
    assert told in said
    producer(two_by_two, "--watch", exit_code=3)
    assert f"{told} |" in Path("results/mine/suite.md").read_text()


def test_a_suite_keeps_none_of_the_questions_that_flipped_which_may_be_millions(ledger: MemoryLedger) -> None:
    runs = [open_run(ledger, make_questions(4), model=model) for model in ("small", "large")]
    settle(ledger, runs[0].run_id, *[Outcome.WRONG] * 4)
    settle(ledger, runs[1].run_id, *[Outcome.CORRECT] * 4)

    (found,) = paired(ledger, [[Cell("red", run, ledger.counts(run.run_id)) for run in runs]])

    assert (found.found.pairs.discordant, found.found.flips) == (4, [])


def test_a_settled_suite_knows_which_of_its_failed_questions_have_a_key(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows
) -> None:
    keyed = [{"question": f"Red {n}?", "choices": ["no", "yes"], "answer": "B"} for n in range(3)]
    write_rows(*keyed, {"question": "Blue?", "choices": ["no", "yes"]}, name="red.jsonl")
    path = write_suite([{"name": "red", "file": "red.jsonl"}])
    producer(path)
    outcomes = {"Red 0?": Outcome.FAILED, "Blue?": Outcome.UNANSWERED}
    (run,) = ledger.runs()
    for question, _ in ledger.results(run.run_id):
        outcome = outcomes.get(question.question, Outcome.CORRECT)
        ledger.commit(run.run_id, [Verdict(question_id=question.id, outcome=outcome)])

    (found,) = producer.json(path, exit_code=3)["runs"]

    assert (found["accuracy_all"]["right"], found["accuracy_all"]["of"]) == (2, 3)
    assert (found["accuracy_without_failed"]["right"], found["accuracy_without_failed"]["of"]) == (2, 2)


def test_a_suite_says_of_which_questions_an_entry_is(
    producer: Producer, sets: tuple[Path, Path], ledger: MemoryLedger
) -> None:
    red, blue = (path.name for path in sets)
    path = write_suite([{"name": "some", "file": red, "limit": 2}, {"name": "all", "file": blue}])
    producer(path)
    settle_all(ledger, right=1)

    assert "taken    some: the first 2, the rest was not read\n" in producer(path, "--watch").stdout
    assert "Taken from some: the first 2, the rest was not read." in Path("results/mine/suite.md").read_text()


# --- staying with it --------------------------------------------------------------------------------------------------


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
    broker.live += [WorkerRecord(name="w", model="m", state=WorkerState.READY, queue=f"score.{m}") for m in ("small",)]

    counts, said = watched(
        ledger,
        broker,
        {
            2: lambda: settle(ledger, ids[0], *[Outcome.CORRECT] * 4),
            4: lambda: ledger.halt(ids[1], RunState.CANCELLED),
            9: lambda: settle(ledger, ids[2], *[Outcome.CORRECT] * 4),
            30: lambda: settle(ledger, ids[3], *[Outcome.CORRECT] * 4),
        },
    )

    assert [counts[each].standing for each in ids] == ["settled", "cancelled", "settled", "settled"]
    assert "mine: 12/16 · 4 of 4 runs done" in said.splitlines()[-1]


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
    broker.live += [
        WorkerRecord(name="w", model="m", state=WorkerState.READY, queue=f"score.{name}") for name in ("small", "large")
    ]
    there = ledger.counts

    def away(run_id: str) -> Counts:
        raise RedisUnreachable("No Redis answers at redis://here (refused).")

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


def test_what_got_lost_of_a_run_is_sent_again_and_the_run_is_named(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    ids = [each["run_id"] for each in producer.json(two_by_two)["runs"]]
    queue = "score.small"
    broker.live += [
        WorkerRecord(name="w", model="m", state=WorkerState.READY, queue=f"score.{name}") for name in ("small", "large")
    ]
    for each in ids[1:]:
        settle(ledger, each, *[Outcome.CORRECT] * 4)
    broker.messages.clear()

    _, said = watched(ledger, broker, {9: lambda: settle_all(ledger)})

    assert f"{ids[0]}: The run was stalled: 4 lost questions re-sent in 2 messages." in said
    assert [message[:2] for message in broker.messages] == [(queue, ids[0])] * 2


def test_a_terminal_gets_a_bar_for_each_run_under_way() -> None:
    text = io.StringIO()
    console = Console(file=text, width=120, height=40, force_terminal=True)
    cells = [cell("a", "m", 1, 4, unsettled=2), cell("b", "m", 4, 4)]
    board = Board(BarScreen(console), "mine", [(f"m {each.entry}", each.run) for each in cells])

    with board.screen:
        for each in cells:
            board.put(Snapshot(each.run.run_id, each.counts, Rates(1.0, 1.0, 1.0)))
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
        board.put(Snapshot(waiting.run.run_id, counts, Rates(1.0, 1.0, 1.0), [member]))
        board.draw(second)

    assert "mine: 20/60" in board.line()
    assert "2.0/s mean" in board.line()


@pytest.mark.parametrize(
    ("served", "left"),
    [([False, False], "no worker"), ([True, False], "no worker for 1 run"), ([True, True], "0:04 left")],
)
def test_a_suite_with_a_run_that_no_worker_serves_shows_no_time_left(served: list[bool], left: str) -> None:
    cells = [cell(entry, "m", 2, 4, unsettled=2) for entry in ("a", "b")]
    board = Board(LineScreen(Console(file=io.StringIO())), "mine", [(each.entry, each.run) for each in cells])
    member = Member("w", "ready", "score.m", None, None, None, on_gpu=False)

    for second, settled in ((0, 0), (4, 2)):
        for each, there in zip(cells, served, strict=True):
            counts = Counts(total=4, todo=4 - settled, outcomes={Outcome.CORRECT: settled})
            board.put(Snapshot(each.run.run_id, counts, Rates(0.0, 0.0, 0.0), [member], served=there))
        board.draw(second)

    assert board.line().endswith(f" · {left}")


def test_more_bars_than_a_screen_holds_are_counted() -> None:
    text = io.StringIO()
    cells = [cell(f"a{n}", "m", 1, 4, unsettled=2) for n in range(17)]
    console = Console(file=text, width=120, height=40, force_terminal=True)
    board = Board(BarScreen(console), "mine", [(each.entry, each.run) for each in cells])

    with board.screen:
        for each in cells:
            board.put(Snapshot(each.run.run_id, each.counts, Rates(1.0, 1.0, 1.0)))
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
        settle(ledger, ids[0], Outcome.FAILED)
        ledger.halt(ids[0], RunState.CANCELLED)
        for each in ids[1:]:
            settle(ledger, each, *[Outcome.CORRECT] * 4)
        watch_suite(*given)

    monkeypatch.setattr(running, "watch_suite", cancelled)
    said = producer(two_by_two, "--watch", exit_code=4).stdout

    assert "1/4 settled · cancelled · 1 failed" in said
    assert Path("results", ids[0], "results.csv").exists()
    assert json.loads(Path("results/mine/suite.json").read_text())["state"] == "not settled"


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


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_sent(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    Path("results").mkdir()
    Path("results/mine").write_text("a file is in the way")

    assert "the results cannot be written" in producer(two_by_two, "--watch", exit_code=1).stderr
    assert ledger.runs() == []
