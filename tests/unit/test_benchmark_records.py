"""What benchmarks write: records, their tables and charts, and the documents that name them."""

from __future__ import annotations

import json
import re
import sys
from argparse import Namespace
from fnmatch import fnmatch
from pathlib import Path

import pytest

from benchmarks.command import Parser, command_line
from benchmarks.record import bars, commit, plot, print_table, write
from tests.support import ROOT


def test_a_record_is_named_like_its_program_or_as_its_command_says(tmp_path: Path) -> None:
    parser = Parser("What it measures.")
    for typed, named in (([], "load.json"), (["--name", "load_2"], "load_2.json")):
        asked = parser.parse_args(["--out", str(tmp_path), *typed])
        assert write("load", [{"rate": 2}], asked) == tmp_path / named
    with pytest.raises(SystemExit):
        parser.parse_args(["--name", "../load"])


def test_a_record_says_what_was_measured_where_and_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("load", [{"rate": 2}], Namespace(out=tmp_path, name=None), command="python -m load", settings={"a": 1})
    record = json.loads(path.read_text())
    assert record["command"] == "python -m load"
    assert {"measured_at", "machine", "versions"} < record.keys()
    assert record.get("commit", "") == commit(), "a checkout has one"
    monkeypatch.setattr("benchmarks.record._git", lambda *_: "of a later commit")
    assert json.loads(write("load", [], Namespace(out=tmp_path, name=None)).read_text()).get("commit") != commit()
    assert (record["settings"], record["rows"]) == ({"a": 1}, [{"rate": 2}])


def test_a_table_has_every_column_of_its_rows_and_readable_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("speed", [{"mode": "letter", "rate": 12345.678}, {"mode": "generate", "share": 0.123456}])
    said = capsys.readouterr().out
    for shown in ("speed", "mode", "rate", "share", "letter", "12,346", "0.1235"):
        assert shown in said
    print_table("speed", [{"mode": "letter", "rate": 2}], ["rate"])
    assert "mode" not in capsys.readouterr().out


def test_charts_lie_next_to_their_record_as_pictures(tmp_path: Path) -> None:
    lines = {"measured": [(1.0, 2.0), (2.0, 4.0)], "ideal": [(1.0, 2.5), (2.0, 5.0)]}
    drawn = [
        plot(tmp_path / "load.json", "Load", "workers", "questions/s", lines, log_x=True),
        bars(tmp_path / "speed.json", "Speed", "ratio", {"letter": 1.0, "generate": 2.0}),
    ]
    assert drawn == [tmp_path / "load.png", tmp_path / "speed.png"]
    assert all(Path(path).read_bytes().startswith(b"\x89PNG") for path in drawn)


def test_without_matplotlib_there_is_no_chart_and_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "matplotlib is not installed" in str(bars(tmp_path / "speed.json", "Speed", "ratio", {"letter": 1.0}))
    assert not list(tmp_path.iterdir())


PAGES = [ROOT / "README.md", *(page for folder in ("docs", "configs") for page in (ROOT / folder).rglob("*.md"))]
MADE_BY = re.compile(r"`benchmarks/recorded/([\w-]+)\.json`, (?:made by )?`python -m benchmarks\.(\w+)([^`]*)`")
#: Programs that name a record after the sets, parts or faults that were asked for.
BY_CONTENT = ("chaos", "rag_sets", "retrieval_recall", "retrieval_speed")


def test_the_command_next_to_a_record_writes_that_record() -> None:
    found = [each for page in PAGES for each in MADE_BY.findall(" ".join(page.read_text(encoding="utf-8").split()))]
    assert len(found) > 20
    for record, program, words in found:
        named = re.search(r"--name (\S+)", words)
        by_content = program in BY_CONTENT and record.startswith(program)
        assert by_content or record == (named.group(1) if named else program), f"{program}{words}"


def test_every_record_is_named_in_a_document() -> None:
    named = {name for page in PAGES for name in re.findall(r"[\w*-]+\.json\b", page.read_text(encoding="utf-8"))}
    records = [path.name for path in (ROOT / "benchmarks" / "recorded").iterdir()]
    assert [each for each in records if not any(fnmatch(each, name) for name in named)] == []


def test_a_record_has_the_command_as_it_was_typed_but_for_where_it_went(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = ["load.py", "--rate", "2", "--out", "somewhere", "--questions", "my file.jsonl"]
    monkeypatch.setattr(sys, "argv", typed)
    assert command_line().endswith(" --rate 2 --questions 'my file.jsonl'")
    monkeypatch.setattr(sys, "argv", ["peers.py", "a:letter=/my/a.jsonl", "--workdir", "w", "--out=o", "--limit", "2"])
    assert command_line(["--workdir"], {Path("/my/a.jsonl"): "FILE"}).endswith(" a:letter=FILE --limit 2")


def test_no_path_of_those_who_measure_is_in_a_record_also_with_an_equals_sign_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {Path("/my/a=1.jsonl"): "FILE", Path("/my/b=2.jsonl"): "EXAMPLES"}
    typed = ["peers.py", "a:letter=/my/a=1.jsonl", "--examples", "/my/b=2.jsonl", "--out=x=y", "--workdir=w=v"]
    monkeypatch.setattr(sys, "argv", typed)
    assert command_line(["--workdir"], files).endswith(" a:letter=FILE --examples EXAMPLES")
    monkeypatch.setattr(sys, "argv", ["published_texts.py", ".", "--texts", "6000"])
    assert command_line(hidden={Path(): "FOLDER"}).endswith(" FOLDER --texts 6000")


def test_a_record_is_never_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = Namespace(out=tmp_path, name=None)
    path = write("check", [{"n": 1}], options)

    def killed(self: Path, text: str) -> None:
        with self.open("w") as file:
            file.write(text[:10])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", killed)
    with pytest.raises(KeyboardInterrupt):
        write("check", [{"n": 2}], options)
    assert json.loads(path.read_text())["rows"] == [{"n": 1}]
