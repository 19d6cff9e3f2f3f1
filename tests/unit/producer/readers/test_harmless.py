"""Content that means harm, on its way to terminal, files and file system."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from contract.ledger import MemoryLedger
from contract.sanitize import for_cell, for_cells, for_json, for_terminal
from contract.verdict import Outcome, Verdict
from tests.unit.producer.conftest import Producer, WriteRows

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp.exe\x7f\x08"
FORMULAS = ["=cmd|' /C calc'!A0", "@SUM(1)", "+1+cmd", "-2+3", "\t=1", "\r=1"]


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_is_text_in_a_cell(formula: str) -> None:
    assert for_cell(formula) == f"'{formula}"


@pytest.mark.parametrize("cell", ["-5", "+3.2e1", "-inf", "", "a=b", "5-3", "{}"])
def test_numbers_and_plain_text_stay_as_they_are(cell: str) -> None:
    assert for_cell(cell) == cell


@pytest.mark.parametrize("plain", [["a", None, ""], [None], []])
def test_a_column_is_changed_only_where_it_has_a_formula(plain: list[str | None]) -> None:
    assert list(for_cells(plain)) == plain
    assert list(for_cells([*plain, "-5", *FORMULAS])) == [*plain, "-5", *(f"'{each}" for each in FORMULAS)]


def test_a_terminal_is_shown_what_would_steer_it() -> None:
    assert for_terminal(f"a{ESCAPES}b\n\tc é") == (r"a\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp.exe\x7f\x08b" + "\n\tc é")


def test_no_mark_of_unicode_changes_the_direction_in_which_a_terminal_writes() -> None:
    """Those that have its property Bidi_Control."""
    marks = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    assert for_terminal(marks).isascii()
    assert json.loads(for_json(f'"{marks}"')) == marks
    assert for_json(f'"{marks}"').isascii()


def test_half_a_surrogate_pair_is_shown_as_its_escape() -> None:
    assert for_terminal("a\ud800b") == r"a\ud800b"
    assert json.loads(for_json('{"a": "\udfff"}')) == {"a": "\udfff"}
    for_json('{"a": "\udfff"}').encode()


def hostile_row(text: str) -> dict[str, object]:
    return {"id": "q0", "question": text, "choices": ["=1+1", text], "answer": "A", "subject": "=subject"}


def test_no_view_of_a_question_steers_the_terminal(
    producer: Producer, write_rows: WriteRows, ledger: MemoryLedger
) -> None:
    run_id = producer.json("enqueue", write_rows(hostile_row(f"Why? {ESCAPES}")))["run_id"]
    verdict = Verdict(question_id="q0", outcome=Outcome.WRONG, choice="B", raw_text=ESCAPES)
    ledger.commit(run_id, [verdict])
    shown = [producer(*words).output for words in (["show", "last", "q0"], ["status"], ["runs"], ["watch"])]
    shown.append(producer("show", "last", "q0", "--json").output)
    for each in shown:
        assert not any(control in each for control in "\x1b\x07\x9b\u202e\x7f\x08")
    assert json.loads(shown[-1])["question"]["question"] == f"Why? {ESCAPES}", "JSON says the same, escaped"


def test_results_open_as_text_in_a_spreadsheet(producer: Producer, write_rows: WriteRows, ledger: MemoryLedger) -> None:
    run_id = producer.json("enqueue", write_rows(hostile_row("<script>alert(1)</script>")))["run_id"]
    ledger.commit(run_id, [Verdict(question_id="q0", outcome=Outcome.WRONG, choice="A", raw_text="=HYPERLINK(1)")])
    (path, _) = producer.json("export")["files"]
    (row,) = csv.DictReader(Path(path).read_text().splitlines())
    assert (row["subject"], row["choice_text"], row["raw_text"]) == ("'=subject", "'=1+1", "'=HYPERLINK(1)")


def test_a_question_of_a_million_characters_goes_through(producer: Producer, write_rows: WriteRows) -> None:
    run_id = producer.json("enqueue", write_rows(hostile_row("long " * 200_000)))["run_id"]
    assert len(producer("show", run_id, "q0").stdout) > 1_000_000


@pytest.mark.parametrize(
    "name", ["../../../etc/passwd", "/etc/passwd", "..", "a/../../b", "con\x00\n\x1b[2J", "x" * 5000]
)
def test_a_runs_name_stays_inside_the_results_folder(producer: Producer, five: Path, tmp_path: Path, name: str) -> None:
    run_id = producer.json("enqueue", five, "--run", name)["run_id"]
    assert set(run_id) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")
    producer("export", run_id, "--out", "results")
    (folder,) = (tmp_path / "results").iterdir()
    assert folder.name == run_id
