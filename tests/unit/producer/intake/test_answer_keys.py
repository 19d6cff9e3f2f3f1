"""Which choices are right in a whole file: their places, what a constant answer scores, rows that contradict others."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.producer.conftest import Producer, WriteRows
from tests.unit.producer.intake.inspected import yes_or_no


def test_a_question_repeated_with_another_key_is_warned_of_with_both_rows(
    write_rows: WriteRows, producer: Producer
) -> None:
    sky = {"question": "Sky?", "choices": ["blue", "red"], "answer": "A"}
    path = write_rows(
        sky,
        {**sky, "choices": ["red", "blue"], "answer": "B"},
        {**sky, "answer": None},
        {**sky, "context": "On Mars.", "answer": "B"},
        {**sky, "id": "mars", "answer": "B"},
        {**sky, "answer": ["A", "B"]},
    )

    for command in (("inspect",), ("enqueue", "--dry-run")):
        said = producer(*command, path).stderr
        assert "warning: 1 question repeated with another key for the same choices: one of the keys must be" in said
        assert "questions.jsonl:1 says 'blue', " in said
        assert "questions.jsonl:5 (mars) says 'red': 'Sky?'\n" in said
        assert "more.\n" not in said
    assert producer.json("inspect", path)["contradicted"] == 1
    assert "another key" not in producer("enqueue", "--dry-run", "--limit", "4", path).stderr


def test_contradicting_keys_on_one_line_of_json_are_told_apart_by_the_records_number(
    tmp_path: Path, producer: Producer
) -> None:
    sky = {"question": "Sky?", "choices": ["blue", "red"]}
    rows = [{**sky, "answer": "A"}, {**sky, "question": "Sea?", "answer": "A"}, {**sky, "answer": "B"}]
    (tmp_path / "q.json").write_text(json.dumps(rows))

    said = producer("inspect", str(tmp_path / "q.json")).stderr

    assert "q.json:1, record 1 says 'blue', " in said
    assert "q.json:1, record 3 says 'red': 'Sky?'\n" in said


def test_of_many_contradicting_keys_the_first_are_named(write_rows: WriteRows, producer: Producer) -> None:
    rows = [{"question": f"q{n}", "choices": ["x", "y"], "answer": key} for n in range(7) for key in "ABB"]

    said = producer("inspect", write_rows(*rows)).stderr

    assert "warning: 7 questions repeated with another key" in said
    assert [said.count(f": 'q{n}'") for n in range(7)] == [1] * 5 + [0] * 2
    assert "… and 2 more.\n" in said


def test_it_warns_where_the_right_answers_place_tells(write_rows: WriteRows, producer: Producer) -> None:
    even = [{"question": f"q{n}", "choices": list("wxyz"), "answer": n % 4} for n in range(400)]
    skewed = [{**row, "answer": 2 if n % 2 else n % 4} for n, row in enumerate(even)]

    quiet = producer("inspect", write_rows(*even))
    warned = producer("inspect", write_rows(*skewed))

    assert "warning" not in quiet.stderr
    assert "the right answer is C in 75.0 % of the questions, 25.0 % would be expected" in warned.stderr
    assert "a prompt that shows the choices rewards a model that prefers that position" in warned.stderr
    assert "--set shuffle=true" in warned.stderr
    skew = producer.json("inspect", write_rows(*skewed))["skew"]
    assert (skew["label"], skew["share"], skew["expected"]) == ("C", 0.75, 0.25)


def test_what_always_saying_yes_scores_is_told_where_all_questions_have_the_same_choices(
    write_rows: WriteRows, producer: Producer
) -> None:
    path = str(write_rows(*yes_or_no(300 * "A" + 100 * "B")))
    always = "Always answering 'yes' scores 0.750: compare accuracies with that, not with chance."

    assert always in producer("inspect", path).stderr
    asked = producer("enqueue", path, "--dry-run").stderr
    assert always in asked
    assert "shuffle" not in asked, "the model is not shown where they stand"
    lettered = ("--set", "mode=letter")
    assert "--set shuffle=true" in producer("enqueue", path, "--dry-run", *lettered).stderr
    assert always in producer("enqueue", path, "--dry-run", *lettered, "--set", "circular=true").stderr
    even = str(write_rows(*yes_or_no(210 * "A" + 190 * "B")))
    assert "warning" not in producer("enqueue", even, "--dry-run").stderr


def test_a_warning_does_not_round_a_share_in_two_ways(write_rows: WriteRows, producer: Producer) -> None:
    """63 of 80 are 0.7875: it said that 'yes' was right in 78.8%, and that saying so scores 0.787."""
    path = str(write_rows(*yes_or_no(63 * "A" + 17 * "B")))

    found = producer("inspect", path)

    assert "the right answer is A in 78.7 % of the questions" in found.stderr
    assert "Always answering 'yes' scores 0.787" in found.stderr
    assert "A 78.7 % · B 21.2 %" in found.stdout


def test_what_always_saying_yes_scores_is_told_where_it_stands_at_another_place_in_each_question(
    write_rows: WriteRows, producer: Producer
) -> None:
    said = yes_or_no(300 * "A" + 100 * "B")
    moved = [
        row if n % 2 else {**row, "choices": ["no", "yes"], "answer": "BA"["AB".index(str(row["answer"]))]}
        for n, row in enumerate(said)
    ]
    path = str(write_rows(*moved))

    for words in (
        ("inspect", path),
        ("enqueue", path, "--dry-run"),
        ("enqueue", path, "--dry-run", "--set", "mode=letter"),
    ):
        told = producer(*words).stderr
        assert "the right answer is 'yes' in 75.0 % of the questions, 50.0 % would be expected" in told
        assert "Always answering 'yes' scores 0.750: compare accuracies with that, not with chance." in told
        assert "shuffle" not in told, "no place is right more often than another"


def test_the_place_that_is_told_of_is_one_that_a_model_may_like(write_rows: WriteRows, producer: Producer) -> None:
    """Not the one that most right answers lack."""
    rows = [{"question": f"q{n}", "choices": list("wxyz"), "answer": "BCD"[n % 3]} for n in range(400)]

    assert "the right answer is B in 33.5 % of the questions" in producer("inspect", write_rows(*rows)).stderr
