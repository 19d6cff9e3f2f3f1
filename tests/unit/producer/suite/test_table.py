"""A suite's table: accuracies, means over entries, and comparisons of models."""

from __future__ import annotations

import csv
import errno
import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contract.engine_info import EngineUsed
from contract.errors import InputError
from contract.ledger import MemoryLedger, RunState
from contract.spec import Mode, Sampling
from contract.verdict import ContextSource, Outcome, Passage, Verdict
from producer.export.summary import Summary
from producer.result_lines import doubt_lines, warning_lines
from producer.stats import Tally, share
from producer.stats.proportion import Sum
from producer.stats.subjects import macro_interval
from producer.suite.cell import Cell
from producer.suite.export import write_table
from producer.suite.pairs import paired
from producer.suite.render import echo_figures, figure_lines, markdown
from producer.suite.table import Table
from tests.support import build_test_index, make_questions, make_spec, open_run
from tests.unit.producer.conftest import Producer, WriteRows, settle_next
from tests.unit.producer.suite.conftest import cell, settle_all, write_suite


def table(*cells: Cell, shared: bool = False) -> Table:
    return Table("mine", cells, shared)


def test_the_mean_weighs_each_entry_the_same() -> None:
    (mean,) = table(cell("a", "m", 10, 10), cell("b", "m", 0, 1000)).means()

    assert mean.value == pytest.approx(0.5)
    assert mean.interval is not None
    assert mean.interval.low < 0.5 < mean.interval.high


def test_where_a_file_of_the_table_cannot_be_replaced_no_json_stands_beside_files_of_two_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new CSV stood beside the old JSON, and it was said that nothing had changed."""
    written = write_table(table(cell("a", "m", 5, 10)), tmp_path, Path("suite.yaml"))
    replace = Path.replace

    def failing(path: Path, target: Path) -> Path:
        if target.name == "suite.md":
            raise OSError(errno.EIO, "Input/output error")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(InputError, match=r"replaced: suite\.csv.* There is no suite\.json until all files belong"):
        write_table(table(cell("a", "m", 6, 10)), tmp_path, Path("suite.yaml"))
    assert [path.name for path in written if path.exists()] == ["suite.csv", "suite.md"]

    monkeypatch.undo()
    write_table(table(cell("a", "m", 6, 10)), tmp_path, Path("suite.yaml"))
    assert all(path.exists() for path in written)


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
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
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
    assert f"python -m producer report {red} {large}\n" in said
    assert f"python -m producer report {red} {large} --out there\n" in producer(two_by_two, "--out", "there").stdout
    assert producer.json(two_by_two)["comparable"][0] == [red, large]


def test_a_pair_that_different_engines_answered_says_in_what_they_differ(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    for run, dtype in zip(
        producer.json(two_by_two)["runs"], ("float32", "bfloat16", "float32", "float32"), strict=True
    ):
        ledger.note_engine(run["run_id"], EngineUsed(worker="w", since=0.0, engine={"dtype": dtype}))
    settle_all(ledger)

    lines = producer(two_by_two).stdout.splitlines()

    assert [line.endswith("; engines differ in dtype") for line in lines if " vs. " in line] == [True, False]


def test_a_pair_of_which_one_is_harder_to_guess_right_says_the_chance_levels(
    producer: Producer, sets: tuple[Path, Path], ledger: MemoryLedger
) -> None:
    """Two guessing runs differed by -0.250, p = 3.1e-05, as one was asked in every rotation."""
    ways: dict[str, dict[str, Any]] = {"plain": {}, "seeded": {"seed": 1}, "rotated": {"circular": True}}
    entries = [{"name": name, "file": sets[0].name, "set": {"mode": "letter", **way}} for name, way in ways.items()]
    path = write_suite(entries)
    producer(path)
    settle_all(ledger)

    lines = producer(path, "--watch").stdout.splitlines()

    told = [line.partition("; ")[2] for line in lines if " vs. plain" in line]
    assert told == ["", "chance 0.250 vs. 0.500"]
    assert "; chance 0.250 vs. 0.500 |" in Path("results/mine/suite.md").read_text()


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
        commit(ledger, letter, question.id, outcome, choice="A", label_mass=0.02)
        commit(ledger, likelihood, question.id, outcome, choice="A")
        commit(ledger, generate, question.id, Outcome.UNANSWERED, truncated=True)

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
        commit(ledger, run["run_id"], question.id, outcome, choice="B")

    told = " ".join(producer(path).stdout.split())

    constant = "the accuracy is not distinguishable from always answering 'yes', which scores 0.750"
    assert f"warnings boolean: constant: {constant}" in told


def commit(ledger: MemoryLedger, run_id: str, question_id: str, outcome: Outcome, **more: Any) -> None:
    ledger.commit(run_id, [Verdict(question_id=question_id, outcome=outcome, **more)])


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


def test_markdown_is_a_table_whatever_the_names_are() -> None:
    lines = markdown(table(cell("a|b", "m<n", 5, 10, failed=1), cell("*law*", "m<n", 5, 10))).splitlines()

    assert lines[:3] == [
        "| entry | chance | m&lt;n |",
        "| --- | ---: | ---: |",
        "| a\\|b | 0.250 | 0.500 (0.237 to 0.763)<br>0.556 (0.267 to 0.811) without failed<br>1 failed |",
    ]
    assert lines[3].startswith("| \\*law\\* | "), "as a pattern of files, not in italics"
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
    assert "only entries that are settled, and have an accuracy, for every model" in markdown(found)


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


def test_a_suite_says_of_which_entry_all_questions_share_one_context(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows
) -> None:
    """Its interval for independent questions stood in the table as if it were about other contexts, too."""
    rows = [{"context": "One.", "question": f"{n}?", "choices": ["a", "b"], "answer": "A"} for n in range(40)]
    file = write_rows(*rows, name="one.jsonl").name
    path = write_suite([{"name": "one text", "file": file}])
    producer(path)
    settle_all(ledger, right=20)

    told = producer.json(path, "--watch")["runs"][0]

    said = "all 40 questions share one context: intervals and tests say nothing of others"
    assert f"one text: contexts: {said}" in producer(path).stdout
    assert f"Warning for one text: contexts: {said}." in Path("results/mine/suite.md").read_text()
    none = {"low": None, "high": None, "note": said, "shared": 1, "sharing": 40}
    assert told["accuracy_context_interval"] == none


def test_the_csv_has_both_kinds_of_interval_under_names_of_their_own_also_without_failed_questions(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows
) -> None:
    """`without_failed_low` was clustered by context, although `low` beside it is for independent questions."""
    write_contexts(write_rows)
    path = write_suite([{"name": "red", "file": "red.jsonl"}])
    producer(path)
    (run,) = ledger.runs()
    settle_next(ledger, run.run_id, *[Outcome.CORRECT] * 20, *[Outcome.WRONG] * 18, *[Outcome.FAILED] * 2)

    told = producer.json(path, "--watch", exit_code=3)["runs"][0]

    (row,) = csv.DictReader(io.StringIO(Path("results/mine/suite.csv").read_text()))
    named = {
        "": "accuracy_all",
        "context_": "accuracy_context_interval",
        "without_failed_": "accuracy_without_failed",
        "without_failed_context_": "accuracy_without_failed_context_interval",
    }
    for start, name in named.items():
        found = float(row[f"{start}low"]), float(row[f"{start}high"])
        assert found == (told[name]["low"], told[name]["high"])


def test_a_suite_tells_the_accuracy_per_character_of_its_likelihood_runs(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows
) -> None:
    """For a table with `acc_norm`, every run's summary.json had to be read."""
    rows = [{"id": f"q{n}", "question": f"{n}?", "choices": ["é" * 4, "no"], "answer": "B"} for n in range(4)]
    write_rows(*rows, name="red.jsonl")
    entries = [{"name": name, "file": "red.jsonl"} for name in ("by likelihood", "by letter")]
    path = write_suite([entries[0], {**entries[1], "set": {"mode": "letter"}}])
    for run in producer.json(path)["runs"]:
        for question, _ in ledger.results(run["run_id"]):  # -1.5 and -2 per character, -0.75 and -2 per byte
            first = question.id == "q0"
            scores = {"A": -6.0, "B": -2.0 if first else -4.0}
            verdict = Verdict(question_id=question.id, outcome=Outcome.CORRECT, choice="B", choice_scores=scores)
            ledger.commit(run["run_id"], [verdict])

    told = producer(path, "--watch").stdout

    lines = [" ".join(line.split()) for line in told.splitlines()]
    said = "by likelihood: 0.250 per character (acc_norm) · 0.000 per byte (acc_bytes)"
    assert f"otherwise {said}" in lines
    assert "by letter: 0" not in told
    assert f"- Compared otherwise, {said}.\n" in Path("results/mine/suite.md").read_text()
    by_likelihood, by_letter = csv.DictReader(io.StringIO(Path("results/mine/suite.csv").read_text()))
    assert by_likelihood["normalization"] == "none"
    names = ("accuracy_none", "accuracy_character", "accuracy_byte", "accuracy_mutual_info")
    assert [by_likelihood[each] for each in names] == ["1.0", "0.25", "0.0", ""]
    assert {by_letter[each] for each in ("normalization", *names)} == {""}
    found = producer.json(path)["runs"]
    assert found[0]["accuracy_by_normalization"]["character"]["right"] == 1
    assert "accuracy_by_normalization" not in found[1]


def test_a_suite_tells_whether_the_search_found_what_the_questions_need(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, tmp_path: Path
) -> None:
    """With one index beside another, every run had to be exported to see which of them found more."""
    index = build_test_index(tmp_path / "facts", ["Yes is right.", "Another fact."])
    asked = {"question": "?", "choices": ["no", "yes"], "answer": "B"}
    rows = [{"id": f"q{n}", **asked, "gold_passages": ["p0"]} for n in range(4)]
    write_rows(*rows, name="named.jsonl")
    write_rows(*({"id": f"q{n}", **asked} for n in range(2)), name="plain.jsonl")
    rag = {"set": {"rag.enabled": True, "rag.index": str(index), "rag.retrieval_top_k": 2}}
    path = write_suite(
        [
            {"name": "closed book", "file": "plain.jsonl"},
            {"name": "named", "file": "named.jsonl", **rag},
            {"name": "plain", "file": "plain.jsonl", **rag},
        ]
    )
    first, second = (Passage(id=f"p{n}", score=2.0 - n, rank=1, text="Yes is right.") for n in range(2))
    for run in producer.json(path)["runs"]:
        for n, (question, _) in enumerate(ledger.results(run["run_id"])):
            hit = n < 3
            searched: dict[str, Any] = {
                "context_source": ContextSource.RETRIEVED,
                "passages": (first if hit else second,),
                "retrieval_hit": hit if question.gold_passages else None,
            }
            verdict = Verdict(
                question_id=question.id,
                outcome=Outcome.CORRECT if hit else Outcome.WRONG,
                choice="B" if hit else "A",
                **(searched if run["entry"] != "closed book" else {}),
            )
            ledger.commit(run["run_id"], [verdict])

    told = producer(path, "--watch").stdout

    shown = "accuracy 1.000 with a relevant passage shown, 0.000 without one"
    named = f"named: recall @1 0.750 · @2 0.750 · {shown}"
    plain = "plain: a shown passage contains the right choice's text for 1.000"
    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert lines[lines.index(f"retrieval {named}") + 1] == plain
    noted = Path("results/mine/suite.md").read_text()
    assert f"- Retrieval, {named}.\n- Retrieval, {plain}.\n" in noted
    rows_of = list(csv.DictReader(io.StringIO(Path("results/mine/suite.csv").read_text())))
    columns = ("retrieval_top_k", "recall", "accuracy_hit", "accuracy_miss", "answer_in_context")
    assert [[row[each] for each in columns] for row in rows_of] == [
        ["", "", "", "", ""],
        ["2", "0.75", "1.0", "0.0", "1.0"],
        ["2", "", "", "", "1.0"],
    ]
    closed, with_sources, _ = producer.json(path)["runs"]
    assert "retrieval" not in closed
    assert with_sources["retrieval"]["recall_any"]["1"]["right"] == 3


def test_a_settled_suite_says_whether_its_models_differ(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    runs = producer.json(two_by_two)["runs"]
    assert producer.json(two_by_two)["comparisons"] == []
    for run in runs:
        better = run["model"] == "large"
        settle_next(ledger, run["run_id"], *[Outcome.CORRECT if better else Outcome.WRONG] * 3, Outcome.FAILED)

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
    settle_next(ledger, runs[0].run_id, *[Outcome.WRONG] * 4)
    settle_next(ledger, runs[1].run_id, *[Outcome.CORRECT] * 4)

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
