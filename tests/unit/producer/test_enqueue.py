"""`enqueue` as a person meets it: what is sent, what is said about it, and what is refused."""

from __future__ import annotations

import csv
import json
import re
import shlex
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import yaml
from click.testing import CliRunner

from benchmarks.stand import set_words
from contract.errors import WritesRefused
from contract.fleet import WorkerRecord
from contract.ledger import MemoryLedger
from producer.broker import MemoryBroker
from producer.cli import main
from producer.runs.planning import Plan, afresh
from producer.runs.submit import submit
from tests.support import build_test_index
from tests.unit.producer.conftest import Producer, WriteRows, live_worker, settle_whole


def test_enqueue_says_what_it_did_and_what_to_do_next(producer: Producer, five: Path) -> None:
    result = producer("enqueue", five)

    assert "new: 5 questions sent in 3 messages" in result.stdout
    assert "5 read + 0 skipped = 5 rows" in result.stdout
    assert "5, 1 without a key; chance 0.500" in result.stdout
    assert "score.smollm2-135m-instruct: 3 messages waiting" in result.stdout
    assert "none live; start one: python -m workers up" in result.stdout
    assert "next" in result.stdout
    assert "python -m producer watch questions-" in result.stdout
    assert "5 questions checked" in result.stderr


def test_who_enqueues_a_run_that_is_purged_at_once_is_not_told_of_a_wrong_name(
    producer: Producer, five: Path, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def purging() -> list[WorkerRecord]:
        for run_id in ledger.run_ids():
            ledger.purge(run_id)
        return []

    monkeypatch.setattr(broker, "all_workers", purging)

    told = producer("enqueue", five, "--run", "mine", exit_code=1).stderr

    assert re.search(r"error: No longer in the ledger: mine-\w{8}. During this command, it was purged, or Redis", told)
    assert told.endswith("To ask its questions, run the same command again.\n")


def test_workers_of_another_model_are_not_said_to_be_none(producer: Producer, five: Path, broker: MemoryBroker) -> None:
    broker.live = [live_worker("score.another")]
    told = producer("enqueue", five).stdout
    assert "none that serves it; start one: python -m workers up with a deploy file that serves smollm2" in told
    assert "(live workers serve another;" in told


def test_while_a_worker_is_starting_nobody_is_told_to_start_one(
    producer: Producer, five: Path, broker: MemoryBroker
) -> None:
    broker.announced = ["cpu0@here"]
    assert "none live; 1 worker is starting: cpu0@here\n" in producer("enqueue", five).stdout
    assert "none live; 1 worker is starting: cpu0@here\n" in producer("status", "last").stdout
    broker.announced = ["cpu0@here", "cpu1@here"]
    assert "none live; 2 workers are starting: cpu0@here, cpu1@here\n" in producer("status", "last").stdout


def test_where_redis_takes_no_writes_nobody_is_told_to_start_a_worker(
    producer: Producer, five: Path, broker: MemoryBroker
) -> None:
    broker.refused = WritesRefused("It refuses writes.", hint="Mend it.")
    assert "none live; It refuses writes. Mend it." in producer("enqueue", five).stdout


def test_enqueue_again_resumes(producer: Producer, five: Path, broker: MemoryBroker) -> None:
    producer("enqueue", five)
    broker.messages.pop()

    assert "resumed: 5 of 5 unsettled, 1 re-sent in 1 message" in producer("enqueue", five).stdout


def test_enqueue_again_after_the_end_says_so(producer: Producer, run_id: str, five: Path, ledger: MemoryLedger) -> None:
    settle_whole(ledger, run_id)

    result = producer("enqueue", five)

    assert "already settled: nothing was sent" in result.stdout
    assert f"python -m producer export {run_id}" in result.stdout


def test_enqueue_as_json(producer: Producer, five: Path) -> None:
    found = producer.json("enqueue", five, "--limit", 3, "--run", "mine")

    assert found["run_id"].startswith("mine-")
    assert (found["state"], found["questions"], found["sent"], found["messages"]) == ("new", 3, 3, 2)


def test_a_dry_run_shows_the_first_prompt_and_writes_nothing(
    producer: Producer, five: Path, ledger: MemoryLedger
) -> None:
    result = producer("enqueue", five, "--dry-run", "--set", "mode=letter")

    assert "nothing was written" in result.stdout
    assert "A. no\n" in result.stdout
    assert ledger.runs() == []
    assert producer.json("enqueue", five, "--dry-run")["prompt"] == "Question: Question 0?\nAnswer:"


def test_a_dry_run_of_a_chat_shows_who_says_what(producer: Producer, five: Path, write_rows: WriteRows) -> None:
    write_rows({"id": "e", "question": "Sure?", "choices": ["no", "yes"], "answer": "B"}, name="dev.jsonl")
    shots, system = "few_shot={k: 1, file: dev.jsonl}", "description=Say yes or no."
    words = ("enqueue", five, "--dry-run", "--set", "chat_template=turns", "--set", shots, "--set", system)

    assert "chat template turns" in producer(*words).stdout
    assert producer.json(*words)["prompt"] == (
        "‹system›\nSay yes or no.\n\n‹user›\nQuestion: Sure?\nAnswer:\n\n‹assistant›\nyes\n\n"
        "‹user›\nQuestion: Question 0?\nAnswer:"
    )


def test_enqueue_says_what_stands_around_the_questions(producer: Producer, five: Path, write_rows: WriteRows) -> None:
    plain = r"asked +likelihood · model smollm2-135m-instruct · prompt question, version \w+ · chat template never\n"
    assert re.search(plain, producer("enqueue", five).stdout)

    told = producer("enqueue", five, "--set", "mode=vote", "--set", "sampling.max_tokens=64").stdout
    assert re.search(r"asked +vote · .* · chat template auto · 5 texts of up to 64 tokens, temperature 0\.7\n", told)

    told = producer("enqueue", five, *set_words(["mode=letter", 'answer_prefix="So:\\nit is"'])).stdout
    assert re.search(r'asked +letter · .* · chat template never · answers begin with "So:\\nit is"\n', told)

    write_rows({"id": "e", "question": "Sure?", "choices": ["no", "yes"], "answer": "B"}, name="dev.jsonl")
    around = ("few_shot={k: 1, file: dev.jsonl}", "description=Say yes or no.", "shuffle=true", "mode=letter")
    told = producer("enqueue", five, *set_words(around)).stdout
    assert "chat template never · a description · 1 example, fixed · choices shuffled\n" in told


def test_variables_of_the_chat_template_are_told_and_need_a_template(producer: Producer, five: Path) -> None:
    off = "chat_template_kwargs.enable_thinking=false"
    refused = producer("enqueue", five, "--set", "mode=letter", "--set", off, exit_code=1).stderr
    assert "chat_template_kwargs has no effect with chat_template never; set chat_template to always" in refused
    told = producer("enqueue", five, "--set", "mode=letter", "--set", off, "--set", "chat_template=always").stdout
    assert "chat template always (enable_thinking false)\n" in told
    assert "enable_thinking" in producer("enqueue", five, "--set", "mode=generate", "--set", off).stdout, "auto there"


def test_examples_are_said_to_be_read_as_they_were(producer: Producer, five: Path) -> None:
    words = ("enqueue", five, "--set", "few_shot={k: 1, file: -}", "--dry-run")
    printed = producer(*words, text="question,A,B,answer\nTwo and two?,three,four,1\nOne and one?,two,one,0\n").stdout

    assert "One and one?" not in printed
    assert "Answer: four" in printed
    assert "- as MMLU CSV, answers by index from 0\n" in printed, "standard input can be read only once"


def test_many_examples_are_told_to_travel_with_the_run(
    producer: Producer, five: Path, write_rows: WriteRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"question": f"Sure of {n}?", "choices": ["no", "yes"], "answer": "B"} for n in range(3)]
    write_rows(*rows, name="dev.jsonl")
    words = ("enqueue", five, "--dry-run", "--set", "few_shot={k: 1, file: dev.jsonl}")

    assert "stored with the run" not in producer(*words).stderr
    monkeypatch.setattr("producer.runs.plan_warnings.MANY_EXAMPLES", 3)
    assert "few_shot.file has 3 examples. All of them are stored with the run" in producer(*words).stderr


@pytest.mark.parametrize(
    ("answers", "settings", "warned"),
    [
        ("AAA", {"k": 3}, True),
        ("AAAB", {"k": 3}, True),  # the fourth is never shown
        ("AAAB", {"k": 3, "selection": "seeded"}, False),
        ("AAAA", {"k": 3, "selection": "seeded"}, True),
        ("ABA", {"k": 3}, False),
        ("AA", {"k": 2}, False),
    ],
)
def test_examples_whose_right_answers_are_all_in_one_place_are_warned_of(
    producer: Producer, five: Path, write_rows: WriteRows, answers: str, settings: dict[str, object], *, warned: bool
) -> None:
    rows = [{"question": f"Sure of {n}?", "choices": ["no", "yes"], "answer": each} for n, each in enumerate(answers)]
    few_shot = json.dumps({**settings, "file": str(write_rows(*rows, name="dev.jsonl"))})
    words = ("enqueue", five, "--dry-run", "--set", f"few_shot={few_shot}")

    said = producer(*words, "--set", "mode=letter").stderr
    assert ("examples, the right answer is A" in said) == warned
    assert "the right answer is A, which" not in producer(*words).stderr, "the prompt of this mode shows no choices"


@pytest.mark.parametrize(
    ("template", "settings", "warned"),
    [
        ("{{ question }}\nAnswer: ", ("delimiter=",), True),  # the space is meant, and is removed
        ("{{ question }}\nThe answer is", ("delimiter=",), True),
        ("{{ question }}\nAnswer: ", (), False),
        ("{{ question }}\nThe answer is (", ("delimiter=",), False),
        ("{{ question }}\n答案：", ("delimiter=",), False),
        ("{{ question }}\nAnswer: ", ("delimiter=", "chat_template=always"), False),  # the choice begins a turn
        ("{{ question }}\nAnswer: ", ("delimiter=", "mode=generate", "few_shot={k: 1, file: dev.jsonl}"), False),
    ],
)
def test_choices_that_would_follow_the_prompt_without_a_space_are_warned_of(
    producer: Producer, five: Path, write_rows: WriteRows, template: str, settings: tuple[str, ...], *, warned: bool
) -> None:
    write_rows({"question": "Sure?", "choices": ["no", "yes"], "answer": "B"}, name="dev.jsonl")
    Path("mine.j2").write_text(template, encoding="utf-8")
    words = set_words(["prompt=mine.j2", *settings])

    said = producer("enqueue", five, "--dry-run", *words).stderr
    assert ("a choice follows it without a space" in said) == warned


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        (["answer_prefix=The answer is"], ""),
        (["answer_prefix=The answer is", "delimiter="], "delimiter is empty and answer_prefix ends in 's', so a label"),
        (["answer_prefix=The answer is (", "delimiter="], ""),
        (["delimiter=' The answer is '"], "delimiter has words, so they are scored with each label"),
        (["delimiter=答案："], "delimiter has words, so they are scored with each label"),
        (["delimiter=' = '"], ""),
        (["delimiter=':'"], "delimiter ends in ':', so a label follows it without a space"),
    ],
)
@pytest.mark.parametrize("template", ["never", "always"])
def test_words_before_a_label_that_are_in_the_wrong_place_or_without_a_space_behind_them_are_warned_of(
    producer: Producer, five: Path, template: str, settings: list[str], warned: str
) -> None:
    words = set_words(["mode=letter", f"chat_template={template}", *settings])
    said = producer("enqueue", five, "--dry-run", *words).stderr
    assert (warned in said) if warned else ("delimiter" not in said)


@pytest.mark.parametrize("given", [")',", ')",', '"\\n:"'])
def test_a_delimiter_that_is_suggested_is_the_given_one_with_a_space_whatever_quotes_and_breaks_it_has(
    producer: Producer, five: Path, given: str
) -> None:
    command = ("enqueue", five, "--dry-run", "--set", "mode=letter", "--set")

    said = producer(*command, f"delimiter={given}").stderr
    (quoted,) = re.findall(r"it stays: --set (.*)\.$", said, re.MULTILINE)
    (suggested,) = shlex.split(quoted)

    assert yaml.safe_load(suggested.removeprefix("delimiter=")) == f"{yaml.safe_load(given)} "
    assert "delimiter" not in producer(*command, suggested).stderr


@pytest.mark.parametrize(
    ("shown", "mode", "warned"),
    [
        ("{{ choice.label }}. {{ choice.text }}", "letter", False),
        ("({{ choice.label }}) {{ choice.text }}", "letter", False),
        ("选项{{ choice.label }}：{{ choice.text }}", "letter", False),
        ("{{ loop.index }}. {{ choice.text }}", "letter", True),
        ("{{ choice.label | lower }}. {{ choice.text }}", "letter", True),
        ("{{ loop.index }}. {{ choice.text }}", "generate", False),  # a number is read as a place
        ("{{ loop.index }}. {{ choice.text }}", "likelihood", False),
    ],
)
def test_labels_that_are_scored_but_not_shown_are_warned_of(
    producer: Producer, write_rows: WriteRows, shown: str, mode: str, *, warned: bool
) -> None:
    path = write_rows({"question": "Is A a letter?", "choices": ["no", "yes"], "answer": "B"}, name="q.jsonl")
    loop = f"{{% for choice in choices %}}{shown}\n{{% endfor %}}"
    Path("mine.j2").write_text(f"{{{{ question }}}}\n{loop}Answer:", encoding="utf-8")

    said = producer("enqueue", path, "--dry-run", *set_words(["prompt=mine.j2", f"mode={mode}"])).stderr
    assert ("does not show the label" in said) == warned


def test_choices_that_bring_their_own_space_need_none_in_the_delimiter(
    producer: Producer, write_rows: WriteRows
) -> None:
    path = write_rows({"question": "Sure?", "choices": [" no", " yes"], "answer": "B"}, name="q.jsonl")

    twice = producer("enqueue", path, "--dry-run").stderr
    assert "1 question with a choice that begins with white space" in twice
    assert "use --set delimiter=" in twice
    assert "white space" not in producer("enqueue", path, "--dry-run", "--set", "delimiter=").stderr
    begun = producer("enqueue", path, "--dry-run", *set_words(["chat_template=always", "answer_prefix=So"])).stderr
    assert "1 question with a choice that begins with white space" in begun
    assert "white space" not in producer("enqueue", path, "--dry-run", "--set", "chat_template=always").stderr


@pytest.mark.parametrize("name", ["last", "Last", "last!"])
def test_no_run_is_called_what_commands_take_as_the_newest_one(producer: Producer, five: Path, name: str) -> None:
    for command in (("enqueue", "--dry-run"), ("enqueue",)):
        said = producer(*command, five, "--run", name, exit_code=1).stderr
        assert f"--run {name}: no run can be called so: commands take 'last' as the newest run." in said
    assert list(producer.session.ledger.run_ids()) == []
    assert "last-one-" in producer("enqueue", five, "--run", "last one").stdout


def test_fresh_asks_once_more(producer: Producer, five: Path) -> None:
    first = producer.json("enqueue", five)["run_id"]

    assert producer.json("enqueue", five, "--fresh")["run_id"] == f"{first}-2"


def test_two_commands_that_ask_afresh_at_the_same_time_make_two_runs(
    producer: Producer,
    write_rows: WriteRows,
    ledger: MemoryLedger,
    broker: MemoryBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The slower one gave its weight to the other's run, and wrote its skipped rows into the other's folder."""
    good = {"question": "q", "choices": ["x", "y"], "answer": "A"}
    asking = ("enqueue", write_rows(good, {**good, "answer": "Z"}), "--skip-bad")
    first = producer.json(*asking)["run_id"]

    def afresh_at_once(planned: Plan, ledger: MemoryLedger) -> Plan:
        found = afresh(planned, ledger)
        monkeypatch.setattr("producer.enqueue.afresh", afresh)
        submit(found, ledger, broker)
        return found

    monkeypatch.setattr("producer.enqueue.afresh", afresh_at_once)
    done = producer.json(*asking, "--fresh", "--weight", "3")

    assert (done["run_id"], done["state"], done["sent"]) == (f"{first}-3", "new", 1)
    assert sorted(ledger.run_ids()) == [first, f"{first}-2", f"{first}-3"]
    assert (broker.weight(f"{first}-2"), broker.weight(f"{first}-3")) == (1, 3)
    assert sorted(each.parent.name for each in Path("results").glob("*/rejected.jsonl")) == [first, f"{first}-3"]


def test_a_dry_run_of_a_fresh_one_does_not_promise_the_id_of_an_older_one(producer: Producer, five: Path) -> None:
    first = producer.json("enqueue", five)["run_id"]

    told = producer("enqueue", five, "--fresh", "--dry-run").stdout

    assert f"{first}, or {first}-2 and so on if there is one already" in told
    assert producer.json("enqueue", five, "--fresh", "--dry-run")["run_id"] is None
    assert producer.json("enqueue", five, "--dry-run")["run_id"] == first


def test_no_rag_is_closed_book_also_for_questions_with_a_context_of_their_own(
    producer: Producer, write_rows: WriteRows, tmp_path: Path
) -> None:
    row = {"question": "Sure?", "choices": ["no", "yes"], "answer": "B", "context": "Be sure."}
    path = write_rows(row, name="q.jsonl")
    (tmp_path / "run.yaml").write_text("rag: {enabled: true, index: nowhere, use_context_field: true}")
    words = ("enqueue", path, "--config", tmp_path / "run.yaml", "--no-rag", "--dry-run")

    assert "Be sure." not in producer(*words).stdout
    assert "Be sure." in producer(*words, "--set", "rag.use_context_field=true").stdout, "asked for by itself"


def test_a_bad_row_enqueues_nothing_and_may_be_skipped_where_others_are_good(
    producer: Producer, write_rows: WriteRows, ledger: MemoryLedger
) -> None:
    good = {"question": "q", "choices": ["a", "b"], "answer": "A"}
    bad = {**good, "answer": "Z"}

    result = producer("enqueue", write_rows(good, bad), exit_code=1)

    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert "questions.jsonl:2: field 'answer': 'Z' names no choice" in result.stderr
    assert "The other rows are good: --skip-bad leaves this one out." in result.stderr
    assert ledger.runs() == []
    assert "other rows" not in producer("enqueue", write_rows(bad), exit_code=1).stderr


def test_without_any_key_it_is_said_how_to_give_one(producer: Producer, write_rows: WriteRows) -> None:
    rows = [{"goal": f"Do {at}.", "sol1": "this", "sol2": "that"} for at in range(3)]
    told = "no question has a key, so there will be no accuracy: --map answer=FIELD"
    enqueued = producer("enqueue", write_rows(*rows), "--dry-run")
    assert told in enqueued.stdout + enqueued.stderr


def test_skipped_rows_are_counted_and_kept(producer: Producer, write_rows: WriteRows) -> None:
    good = {"question": "q", "choices": ["a", "b"], "answer": "A"}

    result = producer("enqueue", write_rows(good, {**good, "answer": "Z"}), "--skip-bad")

    assert "1 read + 1 skipped = 2 rows" in result.stdout
    (path,) = Path("results").glob("*/rejected.jsonl")
    assert str(path) in result.stdout
    assert json.loads(path.read_text())["line"] == 2


def test_a_file_that_goes_away_while_its_run_is_sent_is_not_missed(
    producer: Producer, write_rows: WriteRows, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run was sent, and then the command ended with an error, without the run's id and without watching it."""
    good = {"question": "q", "choices": ["a", "b"], "answer": "A"}
    file = write_rows(good, {**good, "answer": "Z"})

    def publish(*sent: Any) -> int:
        file.unlink()
        return MemoryBroker.publish(broker, *sent)

    monkeypatch.setattr(broker, "publish", publish)
    told = producer.json("enqueue", file, "--skip-bad")
    assert (told["state"], told["sent"]) == ("new", 1)
    assert json.loads(Path(told["rejected"]).read_text())["line"] == 2


def test_an_index_that_is_replaced_while_a_run_is_sent_is_not_missed(
    producer: Producer, five: Path, tmp_path: Path, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above: for a moment an index that is built anew is not there."""
    index = build_test_index(tmp_path / "facts", ["Iron is a metal."])

    def publish(*sent: Any) -> int:
        if index.exists():
            index.rename(tmp_path / "away")
        return MemoryBroker.publish(broker, *sent)

    monkeypatch.setattr(broker, "publish", publish)
    told = producer.json("enqueue", five, "--set", "rag.enabled=true", "--set", f"rag.index={index}")
    assert (told["state"], told["sent"], told["sources"]["not_in_index"]) == ("new", 5, None)


def test_skipped_rows_of_parquet_keep_times_and_decimals_but_not_the_bytes(producer: Producer, tmp_path: Path) -> None:
    good = {"question": "q", "choices": ["a", "b"], "answer": "A"}
    odd = {"made": datetime(2026, 1, 2, tzinfo=UTC), "price": Decimal("1.50"), "image": {"bytes": b"\x89PNG" * 500}}
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist([good | odd, good | odd | {"answer": "Z"}]), tmp_path / "q.parquet"
    )

    result = producer("enqueue", tmp_path / "q.parquet", "--skip-bad")

    assert "1 read + 1 skipped = 2 rows" in result.stdout
    (path,) = Path("results").glob("*/rejected.jsonl")
    row = json.loads(path.read_text())["row"]
    assert (row["made"], row["price"]) == ("2026-01-02 00:00:00+00:00", "1.50")
    assert row["image"] == {"bytes": "<2,000 bytes>"}


def test_a_new_run_says_that_its_questions_were_asked_so_under_another_name(producer: Producer, five: Path) -> None:
    first = producer.json("enqueue", five, "--run", "one")["run_id"]

    assert f"already    {first}: the same questions" in producer("enqueue", five, "--run", "two").stdout
    assert "already" not in producer("enqueue", five, "--run", "two").stdout, "it goes on"
    assert "already" not in producer("enqueue", five, "--run", "one", "--fresh").stdout, "asked for"
    assert "already" not in producer("enqueue", five, "--run", "letters", "--set", "mode=letter").stdout


def test_a_new_run_says_in_what_it_differs_from_the_last_one_of_its_name(
    producer: Producer, five: Path, tmp_path: Path
) -> None:
    """Somebody who added questions, or changed a prompt, wondered why the run did not go on."""
    grown = tmp_path / "grown.jsonl"
    grown.write_text(five.read_text() + json.dumps({"question": "q", "choices": ["a", "b"], "answer": "A"}) + "\n")
    first = producer("enqueue", five, "--run", "one")
    run = producer.json("runs")[0]["run_id"]

    second = producer("enqueue", grown, "--run", "one", "--set", "shuffle=true")

    assert f"differs    in questions, shuffle from {run}, the last run of this name" in second.stdout
    for again in (first, producer("enqueue", five, "--run", "one"), producer("enqueue", five, "--run", "o", "--fresh")):
        assert "differs" not in again.stdout
    told = producer.json("enqueue", grown, "--run", "one", "--set", "mode=letter")["differs"]
    assert told.startswith("in mode, prompt, shuffle from one-")
    assert producer.json("enqueue", grown, "--run", "one", "--set", "mode=letter")["differs"] is None


def test_another_way_to_compare_the_same_scores_is_told_to_be_known_already(
    producer: Producer, five: Path, ledger: MemoryLedger
) -> None:
    """Thousands of questions were asked again for an accuracy that the first run had told."""
    run = producer.json("enqueue", five, "--run", "one")["run_id"]
    settle_whole(ledger, run)

    told = producer("enqueue", five, "--run", "one", "--set", "normalization=character").stdout

    assert f"in normalization from {run}, the last run of this name: all questions are asked, although" in told
    assert f"python -m producer export {run}" in told


def test_of_a_part_with_settings_the_one_that_differs_is_named(producer: Producer, five: Path) -> None:
    generate = ("enqueue", five, "--run", "one", "--set", "mode=generate")
    producer(*generate)
    assert "differs    in sampling.max_tokens from one-" in producer(*generate, "--set", "sampling.max_tokens=7").stdout
    told = producer(*generate, "--set", "sampling.max_tokens=7", "--set", "rag.use_context_field=true").stdout
    assert "differs    in rag.use_context_field from one-" in told


@pytest.mark.parametrize("command", ["enqueue", "suite"])
def test_that_no_redis_answers_is_said_before_a_long_file_is_read(command: str, tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl").write_text("{\n")
    (tmp_path / "suite.yaml").write_text("{name: s, entries: [{name: e, file: broken.jsonl}]}")
    file = {"enqueue": "broken.jsonl", "suite": "suite.yaml"}[command]

    asked = CliRunner().invoke(main, ["--redis", "redis://127.0.0.1:1/0", command, file])
    dry = CliRunner().invoke(main, ["--redis", "redis://127.0.0.1:1/0", command, file, "--dry-run"])

    assert "No Redis answers" in asked.stderr
    assert "broken.jsonl:1" in dry.stderr


def test_that_a_file_is_missing_is_said_before_that_no_redis_answers(five: Path) -> None:
    asked = CliRunner().invoke(main, ["--redis", "redis://127.0.0.1:1/0", "enqueue", "question.jsonl"])

    assert asked.stderr == f"error: question.jsonl: no such file. Did you mean {five.name!r}?\n"


@pytest.mark.parametrize("file", ["-", "hf:owner/name"])
def test_what_is_no_file_is_not_looked_for_beside_the_others(file: str) -> None:
    asked = CliRunner().invoke(main, ["--redis", "redis://127.0.0.1:1/0", "enqueue", file])

    assert "No Redis answers" in asked.stderr


def test_a_model_that_is_named_by_its_id_is_asked_by_the_name_that_workers_have(producer: Producer, five: Path) -> None:
    Path("deploy.yaml").write_text("hf_model_id: Owner/Large-7B\n")

    producer("--deploy", "deploy.yaml", "enqueue", five, "--model", "Owner/Large-7B")

    assert producer.json("status")["model"] == "large-7b"


def test_the_model_that_is_asked_may_be_named_as_an_option(producer: Producer, five: Path) -> None:
    named = producer.json("enqueue", five, "--model", "large")["run_id"]

    assert named == producer.json("enqueue", five, "--set", "model=large")["run_id"]
    producer("enqueue", five, "--model", "1e3")
    assert producer.json("status")["model"] == "1e3"


def test_enqueue_with_watch_exports_and_prints_the_table(
    producer: Producer, run_id: str, five: Path, ledger: MemoryLedger
) -> None:
    settle_whole(ledger, run_id)

    result = producer("enqueue", five, "--watch", "--out", "here")

    assert "accuracy     1.000  95 %" in result.stdout
    # Scores -2 and -1 are probabilities 0.269 and 0.731: (0.269² + 0.269²) = 0.145 for each of the four with a key.
    # Without confidences there is no ECE.
    assert "calibration  Brier 0.145 · probability of the key 0.731\n" in result.stdout
    assert f"here/{run_id}/results.csv" in result.stdout
    with Path("here", run_id, "results.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 5
    assert producer.json("enqueue", five, "--watch", "--out", "here")["run_id"] == run_id


def test_an_interrupted_enqueue_says_that_it_can_be_repeated(
    producer: Producer, five: Path, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger, "add_bodies", interrupt)

    assert "run the same command again to continue" in producer("enqueue", five, exit_code=130).stderr


@pytest.mark.parametrize(("retrieves", "because"), [(False, ""), (True, ", as the run retrieves")])
def test_a_context_that_the_model_is_not_shown_is_pointed_out(
    producer: Producer, write_rows: WriteRows, tmp_path: Path, retrieves: bool, because: str
) -> None:
    """Where a run retrieves, the questions' own contexts were left out without a word."""
    asked = {"choices": ["tea", "salt"], "answer": "A", "context": "It is a red box."}
    file = write_rows(*({"question": f"What is in box {n}?", **asked} for n in range(4)))
    index = build_test_index(tmp_path / "facts", ["Iron is a metal."])
    settings = ["rag.enabled=true", f"rag.index={index}"] if retrieves else []
    words = ("enqueue", file, "--dry-run", *set_words(settings))

    warning = f"4 questions with a context, which the model is not shown{because}: --set rag.use_context_field=true"
    assert warning in producer(*words).stderr
    assert "with a context" not in producer(*words, "--set", "rag.use_context_field=true").stderr


@pytest.mark.parametrize(
    ("more", "mapping", "told"),
    [
        ({"documents": "It is a red box.", "level": 1}, (), "not used: documents, level"),
        ({}, (), "--map context=FIELD"),
        ({"documents": "It is a red box."}, ("--map", "context=documents"), ""),
        ({"context": "It is a red box."}, (), ""),
    ],
    ids=["unknown name", "nowhere", "named", "there"],
)
def test_that_no_question_has_the_context_that_is_to_be_shown_is_pointed_out(
    producer: Producer, write_rows: WriteRows, more: dict[str, object], mapping: tuple[str, ...], told: str
) -> None:
    """All questions were asked without it."""
    asked = {"question": "What is in the box?", "choices": ["tea", "salt"], "answer": "A"}
    file = write_rows({**asked, **more}, {**asked, **more, "question": "And in this one?"})

    result = producer("enqueue", file, "--set", "rag.use_context_field=true", "--dry-run", *mapping)

    warning = (
        "no question has a context, which rag.use_context_field=true would show: --map context=FIELD names its field"
    )
    assert (warning in result.stderr) is bool(told)
    assert told in result.stderr
