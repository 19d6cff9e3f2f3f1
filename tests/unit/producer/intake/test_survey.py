"""A file is read to its end before anything is asked of it: what is counted, chosen and refused."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path

import pytest

from contract.errors import QuestionFileError
from producer.intake.selection import Selection
from producer.intake.survey import rejected_rows, survey
from producer.readers import Source
from tests.support import make_spec
from tests.unit.producer.conftest import WriteRows
from tests.unit.producer.planning import planned


def ids(path: Path, selection: Selection) -> list[str]:
    return [question.id for question in survey(Source(path, path.name), selection).questions()]


def test_a_survey_counts_what_it_found(five: Path) -> None:
    found = survey(Source(five, five.name))

    assert (found.rows, found.good, found.digest.count, found.digest.keys.without_key) == (5, 5, 5, 1)
    chance = found.digest.keys.guessing.chance(make_spec())
    assert chance == 0.5, "the one without a key, of four choices, does not count"


def test_several_right_choices_raise_chance(write_rows: WriteRows) -> None:
    path = write_rows({"question": "q", "choices": ["a", "b", "c", "d"], "answer": ["A", 2]})

    found = survey(Source(path, path.name))

    assert (found.digest.keys.several_right, found.digest.keys.guessing.chance(make_spec())) == (1, 0.5)
    assert next(found.questions()).right == ("A", "C")


def test_a_limit_takes_the_first_and_reads_no_further(write_rows: WriteRows) -> None:
    good = [{"id": f"q{n}", "question": "q", "choices": ["a", "b"], "answer": "A"} for n in range(3)]
    path = write_rows(*good, "not json at all")

    assert ids(path, Selection(limit=3)) == ["q0", "q1", "q2"]


def test_a_sample_keeps_the_order_and_follows_its_seed(five: Path) -> None:
    samples = {seed: ids(five, Selection(sample=3, seed=seed)) for seed in range(20)}

    assert all(len(set(each)) == 3 and each == sorted(each) for each in samples.values())
    assert ids(five, Selection(sample=3, seed=7)) == samples[7]
    assert len({tuple(each) for each in samples.values()}) > 1
    assert ids(five, Selection(sample=99)) == ["q0", "q1", "q2", "q3", "q4"]


def test_the_digest_is_of_the_selected_questions_only(five: Path) -> None:
    digests = {
        planned(five, selection).spec.questions_digest
        for selection in (Selection(), Selection(limit=3), Selection(sample=3, seed=1), Selection(limit=5))
    }

    assert len(digests) == 3, "all five, however asked for, are the same questions"


def test_a_duplicate_id_is_refused_with_both_lines(write_rows: WriteRows) -> None:
    row = {"id": "same", "question": "q", "choices": ["a", "b"], "answer": "A"}
    path = write_rows(row, {**row, "id": "other"}, row)

    with pytest.raises(QuestionFileError, match=r"jsonl:3: field 'id': 'same' is already used on line 1"):
        planned(path)


def test_a_question_repeated_without_ids_is_asked_again_under_an_id_of_its_own(write_rows: WriteRows) -> None:
    row = {"question": "q", "choices": ["a", "b"], "answer": "A"}
    other = {**row, "question": "another"}

    found = survey(source := Source(path := write_rows(row, other, row, row), path.name))
    first, _, second, third = found.questions()

    assert (second.id, third.id, found.digest.repeats.count()) == (f"{first.id}-2", f"{first.id}-3", 2)
    assert {each.id for each in survey(source).questions()} == {each.id for each in found.questions()}
    reordered = write_rows(row, row, other, row, name="reordered.jsonl")
    assert {each.id for each in survey(Source(reordered, "r")).questions()} == {each.id for each in found.questions()}


def test_all_troubles_are_told_at_once_up_to_twenty(write_rows: WriteRows) -> None:
    path = write_rows(*({"question": f"q{n}", "choices": ["a", "b"], "answer": f"none {n}"} for n in range(23)))

    with pytest.raises(QuestionFileError) as caught:
        planned(path)

    lines = str(caught.value).splitlines()
    assert "23 of 23 rows are bad" in lines[0]
    assert "--skip-bad" in lines[0]
    assert len(lines) == 23
    assert lines[-2].strip() == "… and 3 more."
    assert lines[-1].strip().startswith("by kind: 23 × answer: ")


def test_the_same_trouble_in_every_row_is_told_once_with_its_number_and_the_first_lines(write_rows: WriteRows) -> None:
    path = write_rows(*({"question": f"q{n}", "choices": ["a"]} for n in range(23)), {"question": "q", "choices": []})

    with pytest.raises(QuestionFileError) as caught:
        planned(path)

    _, same, other, kinds = str(caught.value).splitlines()
    assert same.startswith("  questions.jsonl:1: field 'choices': found 1, expected 2 to 26.")
    assert same.endswith(" The same in 22 more: lines 2, 3, 4, 5, 6, …")
    assert other.startswith("  questions.jsonl:24: field 'choices': ")
    assert "more" not in other + kinds, "all are told"


def test_what_stops_the_reading_is_told_after_the_troubles_before_it(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    path.write_text('[{"question": "a"},\n {"question": ]')

    with pytest.raises(QuestionFileError) as caught:
        planned(path, skip_bad=True)

    assert "reading stopped at line 2, after 1 bad row:" in str(caught.value)
    assert "field 'choices': missing" in str(caught.value)


def test_what_stops_the_reading_of_a_packed_file_is_on_no_line(tmp_path: Path) -> None:
    """It was said to be line None."""
    rows = [{"id": str(n), "question": f"{random.random()}", "choices": ["a"]} for n in range(9_999)]
    packed = gzip.compress("\n".join(map(json.dumps, rows)).encode())
    path = tmp_path / "q.jsonl.gz"
    path.write_bytes(packed[:-99])

    with pytest.raises(QuestionFileError) as caught:
        planned(path, skip_bad=True)

    assert re.match(r"q.jsonl.gz: reading stopped after \d,\d+ bad rows:\n", str(caught.value))
    assert str(caught.value).splitlines()[-1].startswith("  q.jsonl.gz: the compressed data is damaged or truncated: ")


@pytest.mark.parametrize("name", ["q.json", "q.jsonl", "q.csv"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("")

    with pytest.raises(QuestionFileError, match="contains no questions"):
        planned(path)


def test_skipped_rows_are_kept_with_line_field_and_reason(write_rows: WriteRows) -> None:
    good = {"id": "k", "question": "q", "choices": ["a", "b"], "answer": "A"}
    path = write_rows(good, {**good, "id": "l", "answer": "Z"}, good, "{broken", {**good, "id": "m"})

    found = survey(Source(path, path.name), skip_bad=True)

    assert [question.id for question in found.questions()] == ["k", "m"]
    assert (found.rows, found.good, found.troubles.count) == (5, 2, 3)
    rejected = list(rejected_rows(found))
    assert [(each["line"], each["field"]) for each in rejected] == [(2, "answer"), (3, "id"), (4, None)]
    assert [each["kind"] for each in rejected] == ["names no choice", "duplicate", "malformed JSON"]
    assert rejected[0]["row"]["answer"] == "Z"
    assert rejected[2]["row"] == "{broken"
    assert "is already used on line 1" in rejected[1]["reason"]


def test_only_bad_rows_are_refused_even_when_they_may_be_skipped(write_rows: WriteRows) -> None:
    with pytest.raises(QuestionFileError, match="All of its rows were skipped"):
        planned(write_rows("{broken"), skip_bad=True)
