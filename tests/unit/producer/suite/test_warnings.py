"""What a suite's table warns of, beside the entry concerned."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contract.engine_info import EngineUsed
from contract.ledger import MemoryLedger
from contract.mode import Mode
from contract.spec import Sampling
from contract.verdict import Outcome, Verdict
from producer.export.summary import Summary
from producer.result_lines import doubt_lines, warning_lines
from producer.stats import Tally
from producer.stats.proportion import Sum
from producer.suite.render import figure_lines, markdown
from tests.support import make_questions, make_spec, settle
from tests.unit.producer.conftest import Producer, WriteRows
from tests.unit.producer.suite.conftest import cell, settle_all, table, write_suite


def test_made_up_answers_are_called_so(producer: Producer, two_by_two: Path, ledger: MemoryLedger) -> None:
    run_id = producer.json(two_by_two)["runs"][0]["run_id"]
    ledger.note_engine(run_id, EngineUsed(worker="w", since=0.0, engine={"engine": "simulated"}))

    assert f"the simulated engine answered {run_id}, whose" in producer(two_by_two).stdout
    assert [each["simulated"] for each in producer.json(two_by_two)["runs"]] == [True, False, False, False]
    settle_all(ledger)
    producer(two_by_two, "--watch")
    assert f"**the simulated engine answered {run_id}, whose" in Path("results/mine/suite.md").read_text()
    assert Path("results/mine/suite.csv").read_text().count(",true,likelihood,") == 1


def test_values_that_a_model_did_not_sample_with_are_told_with_the_entries_that_have_them(
    producer: Producer, sets: tuple[Path, Path], ledger: MemoryLedger
) -> None:
    entries = [
        {"name": path.stem, "file": path.name, "set": {"mode": "generate", "sampling.temperature": temperature}}
        for path, temperature in zip(sets, (0, 1), strict=True)
    ]
    path = write_suite(entries, models=["grader", "other"])
    run_ids = [each["run_id"] for each in producer.json(path)["runs"]]
    reasoner = {"engine": "openai", "left_to_model": ["seed", "temperature", "top_p"]}
    for run_id in (run_ids[0], run_ids[2]):
        ledger.note_engine(run_id, EngineUsed(worker="w", since=0.0, engine=reasoner))
    ledger.note_engine(run_ids[1], EngineUsed(worker="w", since=0.0, engine={"engine": "openai"}))

    effect = "it used its own, and may answer differently if asked again"
    told = [
        f"grader ({entry}): the model does not take {values}: {effect}"
        for entry, values in (("red", "a seed or temperature 0"), ("blue", "a seed"))
    ]
    said = " ".join(producer(path).stdout.split())
    assert all(each in said for each in told)
    found = [each["left_to_model"] for each in producer.json(path)["runs"]]
    assert found == [["seed", "temperature", "top_p"], [], ["seed", "top_p"], []]
    settle_all(ledger)
    producer(path, "--watch")
    text = Path("results/mine/suite.md").read_text()
    assert all(each in text for each in told)
    rows = list(csv.DictReader(io.StringIO(Path("results/mine/suite.csv").read_text())))
    assert [each["left_to_model"] for each in rows] == ["seed temperature top_p", "", "seed top_p", ""]


def test_a_model_whose_entries_all_have_the_same_values_is_told_once() -> None:
    reasoner = EngineUsed(worker="w", since=0.0, engine={"left_to_model": ["seed"]})
    writes = {"mode": Mode.GENERATE, "sampling": Sampling()}
    cells = [cell(entry, model, 1, 2, used=[reasoner], spec=writes) for entry in "ab" for model in ("m", "n")]
    text = markdown(table(*cells[:3]))
    assert text.count("does not take a seed") == 2
    assert "m: the model does not take a seed" in text
    assert "n: the model does not take a seed" in text


@pytest.mark.parametrize("watch", [(), ("--watch",)], ids=["looked at", "watched"])
def test_what_makes_an_accuracy_worthless_is_told_with_its_entry(
    producer: Producer, write_rows: WriteRows, ledger: MemoryLedger, watch: tuple[str, ...]
) -> None:
    rows = [
        {"question": f"{n}?", "choices": [f"{n} {each}" for each in "rgby"], "answer": "ABCD"[n % 4]} for n in range(40)
    ]
    file = write_rows(*rows, name="forty.jsonl").name
    modes = ("letter", "likelihood", "generate")
    path = write_suite([{"name": f"by {mode}", "file": file, "set": {"mode": mode}} for mode in modes])
    letter, likelihood, generate = (each["run_id"] for each in producer.json(path)["runs"])
    for question, _ in ledger.results(letter):
        outcome = Outcome.CORRECT if question.answer == "A" else Outcome.WRONG
        settle(ledger, letter, question.id, outcome=outcome, choice="A", label_mass=0.02)
        settle(ledger, likelihood, question.id, outcome=outcome, choice="A")
        settle(ledger, generate, question.id, outcome=Outcome.UNANSWERED, truncated=True)

    told = " ".join(producer(path, *watch).stdout.split())

    few = "by letter: label mass: 0.020 is the mean probability that a label comes next; at this level the letters are"
    one = "by letter: position: A is chosen in 40 of 40 answers and the key in 10; score by likelihood"
    unread = "by generate: unanswered: 40 of 40: most texts name no choice"
    cut_off = "by generate: truncated: 40 of 40: the text was cut off at max_tokens; raise sampling.max_tokens"
    assert [each for each in (few, one, unread, cut_off) if each not in told] == []
    assert "by likelihood:" not in told
    if watch:
        text = Path("results/mine/suite.md").read_text()
        assert [each for each in (few, one, unread, cut_off) if f"Warning for {each}" not in text] == []


def test_an_accuracy_that_a_constant_answer_reaches_is_told_with_its_entry(
    producer: Producer, write_rows: WriteRows, ledger: MemoryLedger
) -> None:
    rows = [{"question": f"{n}?", "choices": ["no", "yes"], "answer": "B" if n % 4 else "A"} for n in range(80)]
    path = write_suite([{"name": "boolean", "file": write_rows(*rows, name="boolean.jsonl").name}])
    (run,) = producer.json(path)["runs"]
    for question, _ in ledger.results(run["run_id"]):
        outcome = Outcome.CORRECT if question.answer == "B" else Outcome.WRONG
        settle(ledger, run["run_id"], question.id, outcome=outcome, choice="B")

    told = " ".join(producer(path).stdout.split())

    constant = "the accuracy is not distinguishable from always answering 'yes', which scores 0.750"
    assert f"warnings boolean: constant: {constant}" in told


def test_what_is_only_a_fact_is_no_warning() -> None:
    tally = Tally()
    for at, question in enumerate(make_questions(4)):
        mass = Verdict(question_id=question.id, outcome=Outcome.CORRECT, label_mass=0.9, truncated=at > 2)
        tally.add(question, mass)
    spec = make_spec(mode=Mode.LETTER)

    assert [name for name, _ in doubt_lines(spec, tally)] == ["label mass", "truncated"]
    assert warning_lines(spec, tally) == []


@pytest.mark.parametrize(
    ("full", "said"),
    [
        ((False, False), ["2 of 2: the text was cut off at max_tokens; raise sampling.max_tokens if that"]),
        (
            (True, True),
            ["2 of 2: the text was cut off before max_tokens, as the model's context was full; raise vllm_"],
        ),
        ((True, False), ["1 of 2: the text was cut off at max_tokens; raise", "1 of 2: the text was cut off before"]),
    ],
)
def test_texts_that_ended_where_the_context_was_full_are_told_from_those_that_reached_max_tokens(
    full: tuple[bool, ...], said: list[str]
) -> None:
    tally, other = Tally(), Tally()
    for question, is_full in zip(make_questions(2), full, strict=True):
        cut_off = Verdict(question_id=question.id, outcome=Outcome.UNANSWERED, truncated=True, context_full=is_full)
        (other if is_full else tally).add(question, cut_off)
    tally.include(other)
    sampling = Sampling(max_tokens=500)
    lines = warning_lines(make_spec(mode=Mode.GENERATE, sampling=sampling), tally)
    found = [text for name, text in lines if name == "truncated"]
    assert len(found) == len(said)
    assert all(text.startswith(each) for text, each in zip(found, said, strict=True))
    assert tally.rates()["context_full"] == sum(full) / 2
    longer = "larger sampling.max_tokens" in dict(lines)["unanswered"]
    assert longer == (not all(full)), "more tokens do not help where there is no room"


@pytest.mark.parametrize(
    "several",
    [
        {"mode": Mode.VOTE, "sampling": Sampling(samples=5, temperature=0.7)},
        {"mode": Mode.GENERATE, "sampling": Sampling(), "circular": True},
    ],
)
def test_of_several_texts_one_that_was_cut_off_is_not_told_as_all_of_them(several: dict[str, Any]) -> None:
    """`335 of 353: the text was cut off` was told where a fifth of the texts were."""
    tally = Tally()
    for question in make_questions(2):
        tally.add(question, Verdict(question_id=question.id, outcome=Outcome.WRONG, truncated=True))
    (line,) = doubt_lines(make_spec(**several), tally)
    assert line == ("truncated", "2 of 2: one of its texts, or more, was cut off at max_tokens")


def test_of_many_warnings_the_first_are_shown_and_the_rest_counted() -> None:
    cells = [cell(f"set {at}", "m", 1, 2) for at in range(10)]
    hardly_a_letter = Tally(label_mass=Sum(0.1, 10))
    many = [replace(each, summary=Summary(each.run, counted=hardly_a_letter)) for each in cells]

    told = [text for _, text in figure_lines(table(*many), "")]
    *shown, last = [text for text in told if "label mass" in text or "more, which" in text]

    assert shown[0].startswith("set 0: label mass: 0.010 is the mean probability")
    assert len(shown) == 8
    assert last == "and 2 more, which --watch writes to suite.md"
    assert markdown(table(*many)).count("\n- Warning for set ") == 10, "each in a line of its own"


def test_a_label_that_words_of_the_delimiter_come_before_is_not_called_noise() -> None:
    """The model need not have begun with them, and mode likelihood was recommended where it was sure of the label."""
    tally = Tally()
    for question in make_questions(4):
        tally.add(question, Verdict(question_id=question.id, outcome=Outcome.CORRECT, label_mass=0.001))
    spec = make_spec(mode=Mode.LETTER, delimiter="The best answer is ")

    said = "0.001 is the mean probability that the words of delimiter and a label come next"
    assert doubt_lines(spec, tally) == [("label mass", said)]
    assert warning_lines(spec, tally) == []


@pytest.mark.parametrize(("begun", "remedy"), [("", "mode likelihood, or answer_prefix"), ("So", "mode likelihood")])
def test_labels_that_are_not_likely_may_be_behind_words_that_the_answer_begins_with(begun: str, remedy: str) -> None:
    tally = Tally()
    tally.add(make_questions(1)[0], Verdict(question_id="q0", outcome=Outcome.CORRECT, label_mass=0.001))

    (_, said), *_ = doubt_lines(make_spec(mode=Mode.LETTER, answer_prefix=begun), tally)
    assert said.endswith(f"the letters are mostly noise: try {remedy}")
