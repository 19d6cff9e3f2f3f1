"""Temporary files: what was checked comes back as it was, and a full disk is told."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from contract.errors import InputError
from producer.intake import duplicates
from producer.intake.duplicates import Repeats, Seen, asked_hash
from producer.intake.spool import Spool
from producer.readers import opened
from tests.support import ROOT, make_question, make_questions
from tests.unit.producer.conftest import room_per_file


def test_bodies_come_back_in_order_as_often_as_they_are_wanted() -> None:
    asked = [*make_questions(3), make_question(9, id="ä:9 ✓", question="Line\nand\ttab\u2028?")]
    kept = Spool()
    kept.add(question.body() for question in asked[:2])
    kept.add(question.body() for question in asked[2:])

    assert list(kept) == list(kept) == [question.body() for question in asked]


def test_it_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = Spool()
    kept.add([make_question(1).body()])
    assert len(list(kept)) == 1

    del kept

    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w+b", buffering=0) as full:
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: full)
        with pytest.raises(InputError, match="No space left") as trouble:
            Spool().add([make_question(1).body()])

    assert "TMPDIR" in trouble.value.hint


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told_once_also_where_something_is_still_buffered_at_the_end() -> None:
    program = """
import tempfile
from contextlib import closing
from contract.errors import InputError
from producer.intake.spool import Spool
from tests.support import make_question
tempfile.TemporaryFile = lambda **_: open("/dev/full", "w+b")
kept = Spool()
kept.add([make_question(1).body()])
try:
    list(kept)
except InputError as trouble:
    print(trouble.message)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "No space left" in done.stdout


def test_no_place_for_a_temporary_file_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")

    with pytest.raises(InputError, match="No such file or directory") as trouble:
        Spool()

    assert "TMPDIR" in trouble.value.hint


@pytest.mark.parametrize("size_bytes", [100, 100_000])
def test_no_room_for_standard_input_is_an_error_with_a_remedy_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size_bytes: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x" * size_bytes)))

    with room_per_file(50), pytest.raises(InputError, match="standard input cannot be stored") as trouble, opened("-"):
        pass

    assert "TMPDIR" in trouble.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_copy_of_standard_input_that_cannot_be_closed_was_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a file server says at the end, of a file that nobody needs any more, was a traceback after the work."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"all of it")))

    with opened("-") as source:
        read = source.path.read_text()
        (copy,) = (each for each in Path("/proc/self/fd").iterdir() if each.resolve() == source.path)
        os.close(int(copy.name))  # so that closing it again fails

    assert read == "all of it"
    assert list(tmp_path.iterdir()) == []


def test_no_room_for_the_ids_of_a_large_file_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "MOST_IN_MEMORY", 100_000)  # more than SQLite's own cache has room for
    seen = Seen()
    for number in range(99_999):
        seen.add(f"{number:0200}", number)

    with closing(seen), room_per_file(50), pytest.raises(InputError, match="ids of the questions cannot") as trouble:
        seen.add("the last", 99_999)

    assert "TMPDIR" in trouble.value.hint


@pytest.mark.parametrize("most_in_memory", [1, 4, 7, 100])
def test_repeated_questions_are_found_wherever_their_hashes_are(
    most_in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "MOST_PAIRS_IN_MEMORY", most_in_memory)
    asked = make_questions(12)
    repeats = Repeats()
    for question in [*asked, asked[3], asked[11], asked[5].model_copy(update={"answer": "C"}), asked[7]]:
        repeats.add(question)
    repeats.add(asked[7].model_copy(update={"answer": None}))

    assert repeats.count() == 5
    assert repeats.contradicted() == {asked_hash(asked[5])}


def test_no_room_for_the_hashes_of_a_large_file_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "MOST_PAIRS_IN_MEMORY", 4)
    repeats = Repeats()
    for question in make_questions(4):
        repeats.add(question)

    with room_per_file(50), pytest.raises(InputError, match="hashes of the questions cannot") as trouble:
        repeats.count()

    assert "TMPDIR" in trouble.value.hint
