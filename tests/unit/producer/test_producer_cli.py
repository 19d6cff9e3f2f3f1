"""The command line as a person meets it: output, remarks, exit codes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from contract.engine_info import EngineUsed
from contract.ledger import MemoryLedger, RunState
from contract.mode import Mode
from contract.spec import Sampling
from contract.verdict import Outcome, Verdict
from producer.broker import MemoryBroker
from producer.cli import main
from producer.export.formats import FORMATS
from producer.question_view import verdict_facts
from producer.watching import finish
from producer.watching.outage import Clock
from producer.watching.watch import watch
from tests.support import make_questions, open_run, settle
from tests.unit.producer.conftest import Producer, WriteRows, live_worker, settle_whole
from workers.cli import main as workers


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["enqueue", "nowhere.json"], "nowhere.json: no such file."),
        (["enqueue", "{five}", "--set", "mod=letter"], "Did you mean 'mode'?"),
        (["enqueue", "{five}", "--config", "nowhere.yaml"], "nowhere.yaml: no such configuration file"),
        (["enqueue", "{five}", "--set", "prompt=nowhere.j2"], "no such prompt template"),
        (
            ["--redis", "http://here", "enqueue", "{five}"],
            "error: --redis: expected redis:// or rediss://, found another",
        ),
        (
            ["--redis", "sentinel://here:26379", "enqueue", "{five}"],
            "error: --redis: expected redis:// or rediss:// with the primary's address; Sentinels are not asked for it",
        ),
        (["--deploy", "nowhere.yaml", "enqueue", "{five}"], "nowhere.yaml: no such configuration file"),
        (["status"], "There are no runs yet. Create one with: python -m producer enqueue FILE"),
        (["status", "nothing"], "No run 'nothing'"),
        (["watch", "nothing"], "No run 'nothing'"),
        (["export", "nothing"], "No run 'nothing'"),
        (["purge", "nothing", "--yes"], "No run 'nothing'"),
        (["show", "nothing", "q1"], "No run 'nothing'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_1(
    producer: Producer, five: Path, words: list[str], wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCQUEUE_REDIS_URL", "redis://127.0.0.1:6379/0")  # so that --redis is undone afterwards

    result = producer(*(word.replace("{five}", str(five)) for word in words), exit_code=1)

    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    assert wanted in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("command", ["enqueue", "inspect"])
def test_several_files_are_refused_with_what_takes_several(producer: Producer, five: Path, command: str) -> None:
    told = producer(command, str(five), str(five), str(five), exit_code=2).stderr

    assert "FILE is one file or folder, not 3" in told
    assert "put them into a folder" in told
    assert "suite" in told


@pytest.mark.parametrize(
    "words",
    [
        ["enqueue"],
        ["enqueue", "x.json", "--limit", "0"],
        ["enqueue", "x.json", "--limit", "1", "--sample", "1"],
        ["enqueue", "x.json", "--priority", "urgent"],
        ["export", "--format", "xml"],
        ["show", "last"],
        *([verb] for verb in ("pause", "resume", "cancel", "requeue")),
        ["nonsense"],
    ],
)
def test_wrong_usage_is_exit_code_2(producer: Producer, words: list[str]) -> None:
    producer(*words, exit_code=2)


def test_a_redis_that_is_not_there_is_one_line(five: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCQUEUE_REDIS_URL", "")

    result = CliRunner().invoke(main, ["--redis", "redis://:secret@127.0.0.1:1/0", "enqueue", str(five)])

    assert result.exit_code == 1
    assert "No Redis answers at redis://127.0.0.1:1/0" in result.stderr
    assert "secret" not in result.stderr


def test_the_list_of_commands_says_of_each_a_whole_sentence(producer: Producer) -> None:
    for listed in (producer("--help").stdout, CliRunner().invoke(workers, ["--help"]).stdout):
        assert "..." not in listed.partition("Commands:")[2]


def test_a_watch_names_the_files_of_an_export_only_where_they_have_what_the_ledger_has(
    producer: Producer, run_id: str, ledger: MemoryLedger, tmp_path: Path
) -> None:
    producer("export")
    settle_whole(ledger, run_id)

    early = producer("watch")
    assert "results.csv" not in early.stdout
    assert f"export the results with: python -m producer export {run_id}" in early.stderr
    assert producer.json("watch")["files"] == []
    producer("export")
    now = producer("watch").stdout
    assert f"results/{run_id}/results.csv" in now
    assert f"results/{run_id}/summary.json" in now, "as the export itself lists it"
    (tmp_path / "results" / run_id / "results.csv").unlink()
    assert producer.json("watch")["files"] == [], "a summary alone is no export"


def test_commands_for_the_results_name_the_folder_that_was_named(
    producer: Producer, run_id: str, five: Path, ledger: MemoryLedger
) -> None:
    settle_whole(ledger, run_id)
    export = f"python -m producer export {run_id} --out 'my results'"

    assert export in producer("enqueue", five, "--out", "my results").stdout
    assert export in producer("watch", "--out", "my results").stderr


def test_the_end_of_a_run_says_how_fast_it_was(producer: Producer, run_id: str, ledger: MemoryLedger) -> None:
    for n in range(4):
        settle(ledger, run_id, f"q{n}", latency_ms=10_000, settled_at=1000 + 20 * n)
    settle(ledger, run_id, "q4", outcome=Outcome.ANSWERED, settled_at=1090)

    told = "0.1 questions/s: 5 questions in 1:40, from the first call to the last verdict"
    assert told in producer("watch").stdout
    assert told in producer("export").stdout


@pytest.mark.parametrize(("mass", "doubted"), [(0.02, True), (0.9, False)])
def test_letters_that_the_model_hardly_expected_are_doubted(
    producer: Producer, five: Path, ledger: MemoryLedger, mass: float, doubted: bool
) -> None:
    run_id = producer.json("enqueue", five, "--set", "mode=letter")["run_id"]
    settle(ledger, run_id, "q0", choice="B", label_mass=mass)

    told = producer("export").stdout
    assert f"{mass:.3f} is the mean probability that a label comes next" in told
    assert ("try mode likelihood" in told) == doubted


def test_an_option_of_all_commands_behind_one_is_told_its_place(producer: Producer, five: Path) -> None:
    told = producer("enqueue", five, "--deploy", "host.yaml", exit_code=2).stderr

    assert "--deploy must come before the command: " in told
    assert "--deploy … enqueue …" in told


def test_watch_ends_with_a_table_and_exit_code_3_if_some_failed(
    producer: Producer, run_id: str, ledger: MemoryLedger
) -> None:
    settle_whole(ledger, run_id, but=Outcome.FAILED)

    result = producer("watch", exit_code=3)

    assert f"{run_id}: 5/5" in result.stderr
    assert "failed 1" in result.stdout
    assert f"python -m producer export {run_id}" in result.stderr
    assert producer.json("watch", exit_code=3)["outcomes"]["failed"] == 1


def test_a_question_and_its_prompt_are_shown_as_they_are_also_where_they_look_like_a_command(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows
) -> None:
    text = "What does `python -m producer watch last` do?"
    file = write_rows({"id": "q", "question": text, "choices": ["it waits", "it ends"], "answer": "A"})
    somewhere = Producer(producer.session, "--deploy", str(Path("lab.yaml")))
    Path("lab.yaml").write_text("{}")

    assert somewhere("inspect", file).stdout.count(text) == 1
    assert text in somewhere("enqueue", file, "--dry-run").stdout
    assert "python -m producer --deploy lab.yaml watch" in somewhere("enqueue", file).stdout
    assert somewhere("show", "last", "q").stdout.count(text) == 2


def test_results_that_could_not_be_written_at_the_end_are_refused_at_the_beginning(
    producer: Producer, five: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    Path("file").write_text("")

    result = producer("enqueue", five, "--watch", "--out", "file/results", exit_code=1)
    assert "the results cannot be written: Not a directory" in result.stderr
    assert "file out of the way or choose another folder with --out" in result.stderr
    assert list(ledger.runs()) == []
    assert not broker.messages

    run_id = producer.json("enqueue", five)["run_id"]  # unsettled: a watch that begins would not end
    result = producer("watch", "--export", "--out", "file/results", exit_code=1)
    assert f"file/results/{run_id}: the results cannot be written" in result.stderr


def test_an_interrupted_watch_says_how_to_rejoin(
    producer: Producer, run_id: str, five: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(finish, "watch", interrupt)

    result = producer("watch", exit_code=130)
    assert f"the run continues; rejoin with: python -m producer watch {run_id}\n" in result.stderr

    for words, promised in (
        (("watch", "--export"), "--export"),
        (("enqueue", five, "--watch"), "--export"),
        (("enqueue", five, "--watch", "--out", "my results"), "--export --out 'my results'"),
        (("enqueue", five, "--watch", "--format", "jsonl"), "--export --format jsonl"),
    ):
        result = producer(*words, exit_code=130)
        assert f"rejoin with: python -m producer watch {run_id} {promised}\n" in result.stderr


def test_a_paused_run_does_not_continue_when_its_watch_is_interrupted(
    producer: Producer, five: Path, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(finish, "watch", partial(watch, clock=Clock(sleep=interrupt)))
    run_id = producer.json("enqueue", five)["run_id"]
    producer("pause", run_id)

    told = producer("watch", run_id, exit_code=130).stderr

    resume, rejoin = (f"python -m producer {command} {run_id}" for command in ("resume", "watch"))
    assert f"the run stays paused until: {resume}; rejoin with: {rejoin}\n" in told
    assert ledger.counts(run_id).state is RunState.PAUSED


def test_export_writes_the_formats_that_were_asked_for(producer: Producer, run_id: str, ledger: MemoryLedger) -> None:
    result = producer("export", "--format", "jsonl", "--format", "csv")

    assert "5 of 5" in result.stdout, "an unfinished run says so"
    assert sorted(path.name for path in Path("results", run_id).iterdir()) == [
        "results.csv",
        "results.jsonl",
        "summary.json",
    ]
    settle_whole(ledger, run_id, but=Outcome.FAILED)
    assert producer.json("export", exit_code=3)["files"] == [
        f"results/{run_id}/results.csv",
        f"results/{run_id}/summary.json",
    ]


@pytest.mark.parametrize("words", [("enqueue", "questions.jsonl", "--watch"), ("watch", "--export")])
def test_what_is_watched_is_exported_in_the_formats_that_were_asked_for(
    producer: Producer, run_id: str, ledger: MemoryLedger, words: tuple[str, ...]
) -> None:
    """It was CSV, and the formats took a second command."""
    settle_whole(ledger, run_id, but=Outcome.WRONG)

    producer(*words, "--format", "jsonl", "--format", "parquet")

    found = sorted(path.name for path in Path("results", run_id).iterdir())
    assert found == ["results.jsonl", "results.parquet", "summary.json"]


@pytest.mark.parametrize(
    ("words", "option"),
    [(("enqueue", "questions.jsonl"), "--watch"), (("watch",), "--export"), (("suite", "suite.yaml"), "--watch")],
)
def test_a_format_is_refused_where_nothing_would_be_exported(
    producer: Producer, five: Path, words: tuple[str, ...], option: str
) -> None:
    Path("suite.yaml").write_text(f"{{name: one, entries: [{{name: five, file: {five.name}}}]}}")
    result = producer(*words, "--format", "parquet", exit_code=2)
    assert f"--format says what {option} exports: add {option}." in result.stderr


def test_several_runs_are_exported_at_once_and_that_questions_of_one_failed_is_no_less_told(
    producer: Producer, five: Path, ledger: MemoryLedger
) -> None:
    ids = [producer.json("enqueue", five, "--run", name)["run_id"] for name in ("one", "two", "three")]
    for run_id, first in zip(ids, (Outcome.WRONG, Outcome.FAILED, Outcome.WRONG), strict=True):
        settle_whole(ledger, run_id, but=first)

    told = producer("export", *ids, ids[0], "--format", "parquet", exit_code=3).stdout
    found = producer.json("export", *ids, exit_code=3)

    assert [line.split()[1] for line in told.splitlines() if line.startswith("run ")] == ids, "none of them twice"
    assert all((Path("results") / each / "results.parquet").exists() for each in ids)
    assert [each["run_id"] for each in found] == ids
    assert producer.json("export", ids[0])["run_id"] == ids[0], "of a single one, no list"


def test_an_export_names_the_result_files_that_an_earlier_one_left_there(producer: Producer, run_id: str) -> None:
    every = [f"--format={each}" for each in FORMATS]
    (Path("results") / run_id).mkdir(parents=True)
    Path("results", run_id, "results.xlsx").write_text("the user's own")
    assert "earlier export" not in producer("export", *every).stderr

    said = producer("export").stderr

    *_, line = said.splitlines()
    named = line.removeprefix(f"{run_id}: left as they were by an earlier export: ").split(", ")
    folder = f"results/{run_id}"
    assert [each for each in named if "lm-eval" not in each] == [f"{folder}/results.jsonl", f"{folder}/results.parquet"]
    samples, results = (Path(each).name for each in named if each.startswith(f"{folder}/lm-eval/"))
    assert samples.startswith("samples_")
    assert results.startswith("results_")
    assert "earlier export" not in producer("export", *every).stderr, "none of them is older now"


def test_a_watch_does_not_name_the_files_of_a_purged_run_that_came_out_as_often_right(
    producer: Producer, five: Path, ledger: MemoryLedger
) -> None:
    def ask(*outcomes: Outcome, settled_at: float) -> str:
        run_id: str = producer.json("enqueue", five)["run_id"]
        for n, each in enumerate(outcomes):
            settle(ledger, run_id, f"q{n}", outcome=each, settled_at=settled_at)
        return run_id

    run_id = ask(Outcome.CORRECT, Outcome.WRONG, settled_at=1000.0)
    producer("export")
    producer("purge", run_id, "--yes")
    assert ask(Outcome.WRONG, Outcome.CORRECT, settled_at=2000.0) == run_id
    producer("cancel", run_id)

    assert producer.json("watch", exit_code=4)["files"] == []
    exported = producer.json("export")["files"]
    assert exported == [f"results/{run_id}/results.csv", f"results/{run_id}/summary.json"]
    assert producer.json("watch", exit_code=4)["files"] == exported


def test_show_lists_choices_by_score_and_the_prompt(producer: Producer, run_id: str, ledger: MemoryLedger) -> None:
    assert "unsettled" in producer("show", "last", "q0").stdout
    settle_whole(ledger, run_id)

    text = producer("show", "last", "q0").stdout

    (best,) = (line for line in text.splitlines() if line.startswith("choices"))
    assert best.endswith("B. yes  ← chosen  ← key")
    assert text.index(best) < text.index("A. no")
    assert "Question: Question 0?" in text
    assert producer.json("show", "last", "q0")["verdict"]["choice"] == "B"
    assert "has no question 'q9'" in producer("show", "last", "q9", exit_code=1).stderr


def test_the_version_is_told(producer: Producer) -> None:
    assert producer("--version").stdout.startswith("mcqueue, version ")


def test_show_tells_everything_that_the_report_tells_of_a_verdict(
    producer: Producer, run_id: str, ledger: MemoryLedger
) -> None:
    verdict = Verdict(
        question_id="q0",
        outcome=Outcome.WRONG,
        choice="A",
        margin=0.25,
        rule="per-byte",
        raw_text="It is",
        truncated=True,
        prompt_tokens=1200,
        completion_tokens=3,
    )
    ledger.commit(run_id, [verdict])

    lines = [" ".join(line.split()) for line in producer("show", "last", "q0").stdout.splitlines()]

    told = {f"{label} {said}" for label, said in verdict_facts(verdict).items()}
    assert {"margin 0.2500 nats per byte", "truncated yes", "tokens 1,200 prompt, 3 completion"} <= told <= {*lines}


def test_the_number_of_a_batch_is_not_told_as_a_part_of_its_size() -> None:
    """`batch w0/d0fc1a/78 of 60` was told of the 78th batch, which had 60 questions."""
    verdict = Verdict(
        question_id="q0", outcome=Outcome.WRONG, worker="w0", batch_id="w0/d0fc1a/78", batch_size=60, settled_at=1.0
    )
    assert verdict_facts(verdict)["by"] == "w0, batch w0/d0fc1a/78 with 60 questions"


def test_show_tells_a_circular_questions_rotations_apart(producer: Producer, ledger: MemoryLedger) -> None:
    run = open_run(ledger, make_questions(3), circular=True)
    rotated: dict[str, Any] = {"outcome": Outcome.WRONG, "choice": "A", "rotations": 4}
    settle(ledger, run.run_id, "q0", rotations_right=2, rotation_choices=("D", "A", None, "A"), **rotated)
    settle(ledger, run.run_id, "q1", rotations_right=3, **rotated)

    lines = [line.strip() for line in producer("show", "last", "q0").stdout.splitlines()]
    (at,) = (at for at, line in enumerate(lines) if line.startswith("rotations") and line.endswith("correct in 2 of 4"))
    assert lines[at + 1 : at + 5] == [
        "A B C D: D chosen, wrong",
        "B C D A: A chosen, correct  ← the scores above",
        "C D A B: none chosen",
        "D A B C: A chosen, correct",
    ]
    assert producer.json("show", "last", "q0")["verdict"]["rotation_choices"] == ["D", "A", None, "A"]
    older = producer("show", "last", "q1").stdout
    assert "correct in 3 of 4" in older, "a verdict from before each rotation was kept"
    assert " chosen," not in older


def test_of_a_circular_question_without_scores_show_tells_which_rotation_had_its_text(
    producer: Producer, ledger: MemoryLedger
) -> None:
    """It pointed at "the scores above", which neither `generate` nor `judge` has."""
    run = open_run(ledger, make_questions(1), circular=True, mode=Mode.GENERATE, sampling=Sampling())
    rotated: dict[str, Any] = {"outcome": Outcome.WRONG, "choice": "A", "rotations": 4, "raw_text": "It is A."}
    ledger.commit(run.run_id, [Verdict(question_id="q0", rotation_choices=("D", "A", "A", None), **rotated)])

    said = producer("show", "last", "q0").stdout

    assert "B C D A: A chosen, correct  ← the text above\n" in said
    assert "scores" not in said


def test_a_run_is_called_simulated_by_who_answered_it_and_not_by_who_is_there_now(
    producer: Producer, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    real, made_up = ({"model": "m", "engine": each} for each in ("vllm", "simulated"))
    for run_id, engine in (("real", real), ("made-up", made_up)):
        run = open_run(ledger, make_questions(2), run_id)
        ledger.note_engine(run.run_id, EngineUsed(worker="w", since=0.0, engine=engine))
        broker.live = [live_worker(f"score.{run.spec.model}")]
    assert not producer.json("status", "real")["simulated"]
    assert producer.json("status", "made-up")["simulated"]
    assert {each["run_id"].rpartition("-")[0]: each["simulated"] for each in producer.json("runs")} == {
        "real": False,
        "made-up": True,
    }
    accuracies = {line.split("-")[0]: line.split()[4] for line in producer("runs").stdout.splitlines()[1:]}
    assert accuracies == {"real": "-", "made": "simulated"}
    assert "made up answers, so the figures are meaningless" in producer("status", "made-up").stdout
    assert "meaningless" not in producer("status", "real").stdout
