"""What the benchmarks make of command lines, questions and failures, without running any."""

from __future__ import annotations

import doctest
import sys
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from benchmarks import command
from benchmarks.asking import Asking
from benchmarks.batch_size import optimal_size, row
from benchmarks.command import above_zero, command_line, counts, positive, run, seconds
from benchmarks.concurrency import repeated
from benchmarks.gpu_check import Checks
from benchmarks.whole_path import modes
from contract.errors import EngineError
from producer.readers import Source
from tests.support import make_questions
from workers.tuning import Shape, Trial


def test_the_numbers_of_a_command_line_are_read_as_their_examples_say() -> None:
    assert doctest.testmod(command).failed == 0


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (positive, "0"),
        (positive, "-1"),
        (positive, "1.5"),
        (counts, "1,,2"),
        (counts, "1,x"),
        (above_zero, "0"),
        (above_zero, "nan"),
        (above_zero, "inf"),
        (seconds, "0.1,"),
        (modes, "letter,lettr"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_before_anything_boots(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(ArgumentTypeError):
        read(text)


def test_an_expected_error_is_one_line_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> int:
        raise EngineError("No GPU has room.", hint="Free one.")

    with pytest.raises(SystemExit) as ended:
        run(main)
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: No GPU has room. Free one.\n"


def test_a_record_has_the_command_as_it_was_typed_but_for_where_it_went(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = ["load.py", "--rate", "2", "--out", "somewhere", "--questions", "my file.jsonl"]
    monkeypatch.setattr(sys, "argv", typed)
    assert command_line().endswith(" --rate 2 --questions 'my file.jsonl'")


def test_what_is_asked_is_shown_with_the_last_value_of_each_name() -> None:
    asking = Asking(Source(Path("q.jsonl"), "q.jsonl"), ("mode=letter", "mode=generate", "seed=3"), 4)
    assert asking.shown == "mode=generate, seed=3"


def test_the_optimal_batch_size_is_the_smallest_that_is_as_fast_as_the_fastest_but_for_noise() -> None:
    rates = {8: [30.0, 31.0, 20.0], 16: [36.5, 36.0, 37.0], 32: [36.9, 12.0, 37.1]}
    rows = [row(size, [Trial(Shape(size, 1), {}, each) for each in several]) for size, several in rates.items()]
    assert [each["questions_per_s"] for each in rows] == [30.0, 36.5, 36.9]
    assert optimal_size(rows) == 16


def test_a_question_that_is_asked_again_has_other_words_in_front_so_that_no_cache_has_it() -> None:
    file = make_questions(2)
    found = repeated(file, 5)
    assert [each.id for each in found] == ["0", "1", "2", "3", "4"]
    assert len({each.question for each in found}) == 5
    assert found[1].question == file[1].question
    assert found[4].question.endswith(file[0].question)


def worker_ends() -> None:
    raise EngineError("A worker ended:\nits last words")


def test_a_check_that_cannot_be_made_has_failed_and_says_why_and_those_after_it_are_made() -> None:
    checks = Checks()
    with checks.making("letter: scored", "letter: as on a CPU"):
        checks.add("letter: scored", 160, 160)
        worker_ends()
    with checks.making("utilisation"):
        checks.add("utilisation", 50.0, 80.0)
    assert checks.rows == [
        {"check": "letter: scored", "found": 160, "wanted": 160, "passed": True},
        {"check": "letter: as on a CPU", "passed": False, "why": "EngineError: A worker ended:"},
        {"check": "utilisation", "found": 50.0, "wanted": 80.0, "passed": False},
    ]
