"""A suite's table on a screen, in Markdown and in CSV."""

from __future__ import annotations

import csv
import errno
import io
import sys
from pathlib import Path
from typing import Any

import pytest

from contract.errors import InputError
from contract.ledger import MemoryLedger, RunState
from contract.verdict import ContextSource, Outcome, Passage, Verdict
from producer.suite.export import write_table
from producer.suite.render import markdown
from tests.support import build_test_index
from tests.unit.producer.conftest import Producer, WriteRows
from tests.unit.producer.suite.conftest import cell, settle_all, shown, table, write_suite


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


def test_a_model_has_a_column_and_failures_stand_beside_the_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    cells = [cell("a", "m", 5, 10, failed=2), cell("a", "n", 1, 10, unsettled=4, state=RunState.PAUSED)]
    lines = shown(table(*cells), capsys).splitlines()

    assert lines[0].split() == ["entry", "chance", "m", "n"]
    assert lines[1].split("  ")[0] == "a"
    assert "0.500 (0.237 to 0.763)" in lines[1]
    assert "0.625 (0.306 to 0.863) without failed" in lines[2]
    assert "6/10 settled · paused" in lines[2]
    assert "2 failed" in lines[3]


def test_a_model_in_brackets_is_called_so_in_its_column(capsys: pytest.CaptureFixture[str]) -> None:
    """Brackets in a name were taken for colours: they were left out, and the second name ended the command."""
    header = shown(table(cell("a", "llama[instruct]", 5, 10), cell("a", "n[/b]\x1b[2J", 1, 10)), capsys).splitlines()[0]
    assert header.split() == ["entry", "chance", "llama[instruct]", "n[/b]\\x1b[2J"]


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


def test_markdown_is_a_table_whatever_the_names_are() -> None:
    lines = markdown(table(cell("a|b", "m<n", 5, 10, failed=1), cell("*law*", "m<n", 5, 10))).splitlines()

    assert lines[:3] == [
        "| entry | chance | m&lt;n |",
        "| --- | ---: | ---: |",
        "| a\\|b | 0.250 | 0.500 (0.237 to 0.763)<br>0.556 (0.267 to 0.811) without failed<br>1 failed |",
    ]
    assert lines[3].startswith("| \\*law\\* | "), "as a pattern of files, not in italics"
    assert lines[4].startswith("| mean of 2 | 0.250 | 0.500 (")


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
