"""What a suite asks of which models, and what is said of it before and while it is enqueued."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.errors import WritesRefused
from contract.ledger import MemoryLedger, Run
from contract.priority import Priority
from producer.broker import MemoryBroker
from producer.readers import file as reading
from tests.support import build_test_index
from tests.unit.producer.conftest import Producer, WriteRows, live_worker
from tests.unit.producer.suite.conftest import write_suite


def test_each_entry_is_asked_of_each_model(producer: Producer, two_by_two: Path, ledger: MemoryLedger) -> None:
    result = producer(two_by_two)

    asked = [(run.source, run.spec.model) for run in reversed(ledger.runs())]
    assert sorted(asked) == [(f"{name}.jsonl", model) for name in ("blue", "red") for model in ("large", "small")]
    assert result.stdout.count("new: 4 questions sent in 2 messages") == 4
    assert "no worker serves score.small and score.large; start one: python -m workers up" in result.stdout
    assert f"next  python -m producer suite {two_by_two} --watch" in result.stdout


def test_a_run_that_is_purged_while_others_are_enqueued_is_named_instead_of_one_that_may_have_been_meant(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Did you mean` another run of the suite? Nobody had typed a name."""
    send = broker.publish
    gone: list[str] = []

    def purging_the_first(run: Run, ids: Iterable[str], priority: Priority) -> int:
        if not gone and len(ledger.run_ids()) == 4:
            gone.append(ledger.run_ids()[-1])
            ledger.purge(gone[0])
        return send(run, ids, priority)

    monkeypatch.setattr(broker, "publish", purging_the_first)

    told = producer(two_by_two, exit_code=1).stderr

    assert f"error: No longer in the ledger: {gone[0]}. During this command, it was purged" in told
    assert len(ledger.run_ids()) == 3


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
        live_worker(f"score.{model}", model, engine={"max_model_len": 100 if model == short else 10_000})
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


def test_options_that_errors_and_warnings_name_are_said_to_be_fields_of_an_entry(
    producer: Producer, write_rows: WriteRows
) -> None:
    """They named `--skip-bad` and `--set`, which `suite` does not have."""
    how = "In a suite, options are fields of an entry: --split test is `split: test`"
    good = {"question": "q", "choices": ["x", "y"], "answer": "A"}

    rows = write_rows(good, {**good, "answer": "Z"})
    refused = producer(write_suite([{"name": "a", "file": str(rows)}]), "--dry-run", exit_code=1).stderr
    assert "--skip-bad leaves this one out" in refused
    assert how in refused

    rows = write_rows(*({**good, "question": f"q{at}", "choices": [f"x{at}", f"y{at}"]} for at in range(20)))
    shown = write_suite([{"name": "a", "file": str(rows), "set": {"mode": "letter"}}])
    warned = producer(shown, "--dry-run").stderr
    assert "Use --set shuffle=true" in warned
    assert warned.count(how) == 1


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
