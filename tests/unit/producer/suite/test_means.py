"""Means over a suite's entries and their intervals, also where questions share contexts."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from contract.ledger import MemoryLedger
from contract.verdict import Outcome
from producer.stats import share
from producer.stats.subjects import macro_interval
from producer.suite.cell import Cell
from producer.suite.render import markdown
from producer.suite.table import Table
from tests.unit.producer.conftest import Producer, WriteRows, settle_next
from tests.unit.producer.suite.conftest import cell, settle_all, shown, table, write_suite


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


def test_whether_an_entry_is_in_the_mean_is_not_asked_anew_for_each_entry_that_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table of 400 entries and four models took over a minute."""
    of_entry, looks = Table.of_entry, Counter[str]()

    def counted(found: Table, entry: str) -> list[Cell]:
        looks[entry] += 1
        return of_entry(found, entry)

    monkeypatch.setattr(Table, "of_entry", counted)
    found = table(*(cell(f"entry {n}", "m", 5, 10) for n in range(40)))
    markdown(found)

    assert max(looks.values()) < 10


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
