"""A suite's file: what it may say, what is asked, and what happens when it is asked again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.engine_info import EngineUsed
from contract.errors import RunConfigError, WritesRefused
from contract.fleet import WorkerRecord, WorkerState
from contract.keys import route
from contract.ledger import MemoryLedger
from contract.settings import Settings
from contract.verdict import Outcome
from producer.broker import MemoryBroker
from producer.readers import file as reading
from producer.suite.config import load_suite
from producer.suite.plan import planned
from tests.support import ROOT, build_test_index
from tests.unit.producer.conftest import Producer, WriteRows, settle_next
from tests.unit.producer.suite.conftest import settle_all, write_suite

SHIPPED = sorted((ROOT / "configs" / "suites").glob("*.yaml"))


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
        ({"entries": [{"name": "a\n", "file": "x"}]}, "name: a name is one line, as it labels a row of the table"),
        ({"entries": []}, "suite.yaml: entries: "),
        ({"entries": None}, "suite.yaml: entries: expected a list, found None."),
        ({"models": ["m", "m"]}, "suite.yaml: configuration: models: 'm' is listed twice"),
        ({"entries": [{"name": "a", "fle": "x"}]}, "entry 'a': unknown setting 'fle'. Did you mean 'file'?"),
        ({"entries": [{"file": "x"}]}, "suite.yaml: entry 1: name: Field required"),
        ({"entries": ["x"]}, "suite.yaml: entry 1: configuration: "),
        ({"entries": [{"name": "a", "file": "-"}]}, "entry 'a': file: standard input cannot be read again"),
        ({"entries": [{"name": "a", "file": "x", "limit": 0}]}, "entry 'a': limit: "),
        ({"entries": [{"name": "a", "file": "x", "map": {"answer": True}}]}, "map.answer: Input should be a valid str"),
        ({"entries": [{"name": "a", "file": "x", "map": {"answer": None}}]}, "map.answer: Input should be a valid str"),
        ({"entries": [{"name": "a", "file": "x", "mode": "letter"}]}, "put it under set, as in set: {mode: …}"),
        (
            {"entries": [{"name": "a b", "file": "x"}, {"name": "A-B", "file": "y"}]},
            "entries have the same name: 'a b', 'A-B'",
        ),
        (
            {"entries": [{"name": "数学 1", "file": "x"}, {"name": "物理 1", "file": "y"}]},
            "'数学 1', '物理 1'; only a to z, of either case, digits, dots and underscores count",
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


def test_each_entry_is_asked_of_each_model(producer: Producer, two_by_two: Path, ledger: MemoryLedger) -> None:
    result = producer(two_by_two)

    asked = [(run.source, run.spec.model) for run in reversed(ledger.runs())]
    assert sorted(asked) == [(f"{name}.jsonl", model) for name in ("blue", "red") for model in ("large", "small")]
    assert result.stdout.count("new: 4 questions sent in 2 messages") == 4
    assert "no worker serves score.small and score.large; start one: python -m workers up" in result.stdout
    assert f"next  python -m producer suite {two_by_two} --watch" in result.stdout


def test_while_workers_are_starting_nobody_is_told_to_start_them(
    producer: Producer, two_by_two: Path, broker: MemoryBroker
) -> None:
    broker.announced = ["cpu0@here"]
    assert "no worker serves score.small and score.large; 1 worker is starting: cpu0@here" in (
        producer(two_by_two).stdout
    )


def test_where_redis_takes_no_writes_nobody_is_told_to_start_workers(
    producer: Producer, two_by_two: Path, broker: MemoryBroker
) -> None:
    broker.refused = WritesRefused("It refuses writes.", hint="Mend it.")
    assert "no worker serves score.small and score.large; It refuses writes. Mend it." in (producer(two_by_two).stdout)


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
    rows = [{"stem": f"Number {n}?", "a": "no", "b": "yes", "key": 2, "subject": "xy"[n % 2]} for n in range(6)]
    write_rows(*rows, name="odd.jsonl")
    mapping = {"question": "stem", "choices": "a+b", "answer": "key", "base": 1}
    path = write_suite([{"name": "a", "file": "odd.jsonl", "map": mapping, "subjects": ["x"], "sample": 2, "seed": 7}])
    by_hand = ["--map", "question=stem,choices=a+b,answer=key,base=1", "--subject", "x", "--sample", "2", "--seed", "7"]

    (told,) = producer.json(path, "--dry-run")["runs"]
    same = Producer(producer.session).json("enqueue", "odd.jsonl", "--dry-run", *by_hand)

    assert told["questions"] == 2
    assert told["spec"] == same["spec"]


def test_an_entry_has_relevance_judgements_as_enqueue_does(
    producer: Producer, sets: tuple[Path, Path], ledger: MemoryLedger
) -> None:
    Path("qrels.tsv").write_text("q1 0 p7 1\nstranger 0 p8 1\n")
    Path("none.tsv").write_text("stranger 0 p8 1\n")

    result = producer(write_suite([{"name": "a", "file": sets[0].name, "qrels": "qrels.tsv"}], models=["small"]))
    refused = [{"name": name, "file": sets[1].name, "qrels": f"{name}.tsv"} for name in ("none", "nowhere")]
    told = producer(write_suite(refused), exit_code=1).stderr

    (run,) = ledger.runs()
    assert [question.gold_passages for question, _ in ledger.results(run.run_id)] == [(), ("p7",), (), ()]
    assert "a: qrels.tsv: judgements of 1 of 4 questions; no selected question has 1 of its ids" in result.stderr
    assert "entry 'none': none.tsv: none of its 1 id matches a question: the first is 'stranger'" in told
    assert "entry 'nowhere': nowhere.tsv: no such file." in told


def test_entries_that_only_their_judgements_keep_from_being_compared_are_named(
    producer: Producer, sets: tuple[Path, Path]
) -> None:
    Path("qrels.tsv").write_text("q1 0 p7 1\n")
    red, blue = (path.name for path in sets)
    rows = [json.loads(line) for line in Path(red).read_text().splitlines()]
    Path(red).write_text("".join(json.dumps({**row, "topic": "colours"}) + "\n" for row in rows))
    closed = {"name": "closed", "file": red}
    others: list[dict[str, Any]] = [{**closed, "name": "half", "limit": 2}, {"name": "blue", "file": blue}]
    judged = [{**closed, "name": name, "qrels": "qrels.tsv"} for name in ("b", "c")]

    told = producer(write_suite([closed, *judged, *others]), "--dry-run").stderr
    alike = producer(write_suite([{**closed, "qrels": "qrels.tsv"}, *judged]), "--dry-run").stderr

    assert "closed, b, c: the same questions with different qrels: only those with the same are compared" in told
    assert "different qrels" not in alike


def test_entries_that_search_different_indexes_of_one_name_are_named(
    producer: Producer, sets: tuple[Path, Path], tmp_path: Path
) -> None:
    folders = {name: tmp_path / name for name in ("a/facts", "b/facts", "copy/facts", "notes")}
    for name, folder in folders.items():
        build_test_index(folder, [f"The fact of {name.replace('copy', 'a')}."])
    entries = [
        {"name": name, "file": sets[0].name, "set": {"rag.enabled": True, "rag.index": str(folder)}}
        for name, folder in folders.items()
    ]
    clash = "different indexes called 'facts', of which a host's workers serve one"

    assert f"a/facts, b/facts, copy/facts: {clash}" in producer(write_suite(entries), "--dry-run").stderr
    assert clash not in producer(write_suite([entries[0], *entries[2:]]), "--dry-run").stderr


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


def test_that_a_suite_does_not_say_which_of_several_models_it_asks_names_the_field_that_does(
    producer: Producer, sets: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It named `--set`, which the command does not have."""
    Path("two.yaml").write_text("models: [{hf_model_id: large}, {hf_model_id: small}]")
    monkeypatch.setenv("MCQUEUE_CONFIG", "two.yaml")

    said = producer(write_suite([{"name": "a", "file": sets[0].name}]), exit_code=1).stderr

    assert "several models: large, small. Name one: --set model=large" in said
    assert "`models` in a suite's file" in said


def test_a_model_that_is_listed_under_two_of_its_names_is_refused(
    producer: Producer, sets: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It got one column, and nobody was told where the other had gone."""
    monkeypatch.setenv("MCQUEUE_MODEL", "small")
    monkeypatch.setenv("MCQUEUE_HF_MODEL_ID", "owner/small-7b")
    path = write_suite([{"name": "red", "file": sets[0].name}], models=["small", "large", "owner/Small-7B"])

    said = producer(path, "--dry-run", exit_code=1).stderr

    told = "models: 'small' and 'owner/Small-7B' are one model, which is served as 'small'. Leave one of them out."
    assert f"entry 'red': {told}" in said


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


@pytest.mark.parametrize("short", ["small", "large"])
def test_what_the_workers_of_any_of_its_models_lack_is_warned_of_once(
    producer: Producer, two_by_two: Path, broker: MemoryBroker, short: str
) -> None:
    """Only those of the last model were looked at."""
    broker.live += [
        WorkerRecord(
            name=model,
            model=model,
            state=WorkerState.READY,
            queue=f"score.{model}",
            engine={"max_model_len": 100 if model == short else 10_000},
        )
        for model in ("small", "large")
    ]
    suite = yaml.safe_load(two_by_two.read_text())
    two_by_two.write_text(yaml.safe_dump({**suite, "set": {"mode": "generate", "sampling.max_tokens": 100}}))

    said = producer(two_by_two).stderr

    warning = "sampling.max_tokens: 100 tokens are the whole context of 100 that a running worker has"
    assert [line.partition(": texts end")[0] for line in said.splitlines()[:-1]] == [
        f"red: {warning}",
        f"blue: {warning}",
    ]


def test_a_dry_run_names_the_runs_and_writes_nothing(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    said = producer(two_by_two, "--dry-run").stdout
    told = producer.json(two_by_two, "--dry-run")

    assert "dry run: nothing was written; 4 runs, 16 questions" in said
    assert ledger.runs() == []
    assert [each["run_id"] for each in told["runs"]] == [each["run_id"] for each in producer.json(two_by_two)["runs"]]


def test_a_dry_run_tells_entries_apart_that_ask_the_same_mode_otherwise(
    producer: Producer, sets: tuple[Path, Path]
) -> None:
    """Of a plain and a circular entry, it said `letter` twice."""
    ways: dict[str, dict[str, Any]] = {
        "plain": {},
        "rotated": {"circular": True},
        "shown": {"few_shot.k": 1, "few_shot.file": sets[1].name},
        "in turns": {"chat_template": "turns"},
    }
    entries = [{"name": name, "file": sets[0].name, "set": {"mode": "letter", **way}} for name, way in ways.items()]

    lines = [" ".join(line.split()) for line in producer(write_suite(entries), "--dry-run").stdout.splitlines()[1:]]

    told = {
        "plain": "letter · prompt lettered 4 questions",
        "rotated": "letter · prompt lettered · choices in every rotation 4 questions",
        "shown": "letter · prompt lettered · 1 example, fixed 4 questions",
        "in turns": "letter · prompt lettered · chat template turns 4 questions",
    }
    assert [each for (name, each), line in zip(told.items(), lines, strict=False) if each not in line] == []


def test_a_suite_goes_before_others_where_its_priority_says_so(
    producer: Producer, sets: tuple[Path, Path], broker: MemoryBroker
) -> None:
    producer(write_suite([{"name": "usual", "file": sets[0].name}]))
    producer(write_suite([{"name": "urgent", "file": sets[1].name}]), "--priority", "high")

    assert [run_id.split("-")[1] for _, run_id, _ in broker.messages] == ["urgent"] * 2 + ["usual"] * 2


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


def test_a_settled_suite_says_of_which_runs_the_answers_are_not_of_the_weights_that_run_now(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    producer(two_by_two)
    settle_all(ledger)
    runs = {run.run_id: run for run in ledger.runs()}
    for run in runs.values():
        ledger.note_engine(run.run_id, EngineUsed(worker="w", since=0.0, engine={"weights": "aa"}))
        if run.spec.model == "small":
            new = WorkerRecord(name="w", model="small", state=WorkerState.READY, queue=route(run.spec)[0])
            broker.live = [new.model_copy(update={"engine": {"weights": "bb"}})]

    told = " ".join(producer(two_by_two).stdout.split())
    found = producer.json(two_by_two)["runs"]

    (first, _) = [each["run_id"] for each in found if each["other_engines"] == {"weights": ["aa", "bb"]}]
    assert runs[first].spec.model == "small"
    assert f'those that answered {first} and 1 other run, in weights ("aa", "bb"); another name of the suite' in told


def test_what_was_asked_by_hand_under_another_name_is_told(
    producer: Producer, sets: tuple[Path, Path], ledger: MemoryLedger
) -> None:
    path = write_suite([{"name": "by hand", "file": "red.jsonl"}, {"name": "other", "file": "blue.jsonl"}])
    Producer(producer.session)("enqueue", "red.jsonl", "--run", "mine-alone")
    (first,) = ledger.runs()

    lines = [line for line in producer(path).stdout.splitlines() if line.startswith("already")]

    assert len(lines) == 1
    how = "; to take over those answers, repeat this command with --reuse"
    assert lines[0].endswith(f"in the same way as {first.run_id}{how}")


def test_a_set_that_was_changed_is_another_run_and_the_older_one_is_told(
    producer: Producer, two_by_two: Path, sets: tuple[Path, Path]
) -> None:
    old = [each["run_id"] for each in producer.json(two_by_two)["runs"]]
    sets[0].write_text(sets[0].read_text().replace("Red 3?", "Red 4?"))

    said = producer(two_by_two).stdout

    new = producer.json(two_by_two)["runs"][0]["run_id"]
    told = " ".join(said.split())
    assert f"{new}: in questions from {old[0]}, the last run of this name: all questions are asked" in told
    assert f"that one goes on as well, unless you end it: python -m producer cancel {old[0]}" in told
    assert f"in questions from {old[2]}" not in told


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
    settle_next(ledger, first, Outcome.FAILED, Outcome.UNANSWERED)
    settle_all(ledger)

    said = producer(two_by_two, exit_code=3).stdout

    assert "1 unanswered · 1 failed" in said
    assert "1 × RequestRejected, for example q0: too long" in said
    assert f"python -m producer requeue {first} --failed" in said


def test_of_many_runs_with_failed_questions_the_first_are_told_and_how_many_more_there_are(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    """The fourth run's failures were in the table, but nobody was told why, or how to ask them again."""
    runs = [each["run_id"] for each in producer.json(two_by_two)["runs"]]
    for run_id in runs:
        settle_next(ledger, run_id, Outcome.FAILED)
    settle_all(ledger)

    said = producer(two_by_two, exit_code=3).stdout

    assert [f"python -m producer requeue {each} --failed" in said for each in runs] == [True, True, True, False]
    assert "and 1 more run with failed questions; python -m producer export RUN says why" in said
