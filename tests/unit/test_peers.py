"""The comparison with lm-evaluation-harness: what it asks, refuses and compares, without running it."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jinja2 import Environment

from benchmarks import peers
from benchmarks.jsonl import write_rows
from benchmarks.peer.agreement import Answers, apart, logged
from benchmarks.peer.lm_eval import TASKS, Case, Side
from benchmarks.peer.mc2 import compare_mc2, mc2_of
from benchmarks.peers import compare_exactly, read_questions
from contract.errors import InputError
from contract.mode import Mode
from contract.prompts import render
from contract.verdict import Outcome, Verdict
from producer.runs.templates import load_prompt
from tests.support import make_question


@pytest.mark.parametrize("mode", [Mode.LIKELIHOOD, Mode.LETTER])
def test_the_peer_is_asked_by_the_same_prompts_also_where_white_space_surrounds_a_question(mode: Mode) -> None:
    question = make_question(1, question="\n Why? ", choices=(" so", "thus"), answer="A")
    theirs = TASKS[mode.value].text

    asked = (
        Environment()
        .from_string(theirs)
        .render(question=question.question, choices=question.choices, labels=question.labels)
    )

    assert asked == render(load_prompt("", mode), question, None)


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (("--turns",), "--chat and --turns cannot be timed; add --rounds 0"),
        (
            ("--chat", "--rounds", "0", "--description", "On a."),
            "turns a description into a system message; use --turns",
        ),
        (("--description", "On a."), "--description is asked before examples only; add --shots and --examples"),
        (("a:letter=pyproject.toml",), "two sets have the same name and mode"),
    ],
)
def test_what_a_peer_would_not_be_asked_or_otherwise_is_refused(
    typed: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["peers.py", "a=pyproject.toml", *typed])
    with pytest.raises(SystemExit, match="2"):
        peers.parse()
    assert says in capsys.readouterr().err


def test_white_space_that_a_peer_counts_to_every_choice_is_taken_off_in_one_row_and_left_in_another() -> None:
    case, ours = Case("set", Path("file"), "letter"), Side({"q": [-1.0, -2.0]}, {"q": "p\n"}, seconds=0, tokens=0)
    theirs = Side({"q": [-1.5, -2.5]}, {"q": "p\n"}, seconds=0, tokens=0)
    answers, spaces = [Answers(case, "float32", theirs, ours)], {case.task: {"q": -0.5}}

    assert list(apart(answers, spaces)) == [(case, "float32", ours, ours)]
    assert logged(answers, spaces) == [(case, "as logged", theirs, ours)]
    assert (list(apart(answers, {})), logged(answers, {})) == (answers, [])


def test_the_right_choices_of_a_set_are_those_of_the_file_for_both_sides(tmp_path: Path) -> None:
    row = {"id": "q", "question": "?", "choices": ["x", "y", "z"]}
    several = write_rows(tmp_path / "rows.jsonl", [row | {"answer": each} for each in (1, "B", [2, "A"])])
    (one, same, two) = read_questions(several, None)
    assert one == same == row | {"labels": ["A", "B", "C"], "answer": 1, "mc2_targets": {"labels": [0, 1, 0]}}
    assert two["mc2_targets"] == {"labels": [1, 0, 1]}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"answer": "D"}, "answer 'D' is no index or label"),
        ({"answer": 3}, "answer 3 is no"),
        ({"answer": []}, r"answer \[\] is no"),
        ({"answer": ["A", {}]}, r"answer \['A', {}\] is no"),
        ({"choices": 3}, "choices are not a list"),
    ],
)
def test_a_row_that_no_peer_could_be_asked_is_refused_with_its_line(
    tmp_path: Path, changes: dict[str, object], says: str
) -> None:
    row = {"id": "q", "question": "?", "choices": ["x", "y", "z"], "answer": "A"}
    with pytest.raises(InputError, match=rf"rows\.jsonl:2: .*{says}"):
        read_questions(write_rows(tmp_path / "rows.jsonl", [row, row | changes]), None)


def test_answers_to_reuse_that_are_not_there_are_told(tmp_path: Path) -> None:
    bench: Any = SimpleNamespace(workdir=tmp_path, reuse=True, cases=[Case("set", Path("file"), "letter")])
    with pytest.raises(InputError, match=r"set_letter: .*/exact holds no answers to it"):
        compare_exactly(bench, Path("python"), {})


def test_the_probability_of_the_right_choices_is_compared_in_every_question_and_with_the_summary() -> None:
    question = make_question(1, choices=("x", "y", "z"), answer="A", also_right=("C",))
    scores = {"A": math.log(0.5), "B": math.log(0.3), "C": math.log(0.2)}
    pairs = [(question, Verdict(question_id=question.id, outcome=Outcome.CORRECT, choice="A", choice_scores=scores))]
    ours = mc2_of(pairs, {"calibration": {"key_probability": {"value": 0.7, "of": 1}}})
    assert ours == {question.id: pytest.approx(0.7)}
    found = compare_mc2({question.id: 0.6, "not asked": 0.0}, ours)
    assert found == {"mc2 lm_eval": 0.6, "mc2 mcqueue": pytest.approx(0.7), "mc2 max difference": pytest.approx(0.1)}
    with pytest.raises(AssertionError):
        mc2_of(pairs, {"calibration": {"key_probability": {"value": 0.6, "of": 1}}})
