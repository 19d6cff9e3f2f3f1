"""Which questions of a file are asked."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from contract.errors import QuestionFileError
from producer.intake.duplicates import Seen
from producer.intake.selection import Sampler, Selection, shares
from producer.intake.survey import survey
from producer.readers import Source
from tests.unit.producer.conftest import WriteRows


def rows(**subjects: int) -> list[dict[str, Any]]:
    return [
        {"question": f"{subject} {n}?", "choices": ["x", "y"], "answer": "A", "subject": subject}
        for subject, count in subjects.items()
        for n in range(count)
    ]


def asked(path: Path, **selection: Any) -> list[str]:
    return [question.question for question in survey(Source(path, path.name), Selection(**selection)).questions()]


@pytest.mark.parametrize(
    "content",
    [
        "question,A,B,answer,subject\n1?,x,y,A,law\n2?,x,y,A,law \n3?,x,y,A, law\n4?,x,y,A, \n",
        "".join(
            json.dumps({"question": f"{n}?", "choices": ["x", "y"], "answer": "A", "subject": subject}) + "\n"
            for n, subject in enumerate(("law", "law ", "\tlaw", " "), start=1)
        ),
    ],
)
def test_white_space_around_a_subject_makes_no_other_one(tmp_path: Path, content: str) -> None:
    path = tmp_path / "questions"
    path.write_text(content)

    assert asked(path, subjects=frozenset({"law"})) == ["1?", "2?", "3?"]
    assert {each.subject or "" for each in survey(Source(path, path.name)).questions()} == {"law", ""}


def test_a_limit_may_be_any_number(write_rows: WriteRows) -> None:
    assert len(asked(write_rows(*rows(red=3)), limit=10**30)) == 3


def test_a_sample_is_the_same_however_the_file_is_ordered(write_rows: WriteRows) -> None:
    original = rows(red=50, blue=50)
    shuffled = random.Random(3).sample(original, len(original))

    some = asked(write_rows(*original), sample=20, seed=1)
    others = asked(write_rows(*shuffled, name="other.jsonl"), sample=20, seed=1)

    assert sorted(some) == sorted(others)
    assert others == [row["question"] for row in shuffled if row["question"] in some], "in the file's order"


def test_a_smaller_sample_is_part_of_a_larger_one(write_rows: WriteRows) -> None:
    path = write_rows(*rows(red=100))

    assert set(asked(path, sample=10, seed=5)) < set(asked(path, sample=30, seed=5))
    assert set(asked(path, sample=10, seed=5)) != set(asked(path, sample=10, seed=6))


def test_a_file_that_shrinks_before_its_sample_is_read_is_refused(
    write_rows: WriteRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, draw = write_rows(*rows(red=20)), Sampler.places

    def shrinking(sampler: Sampler) -> frozenset[int]:
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:5]))
        return draw(sampler)

    monkeypatch.setattr(Sampler, "places", shrinking)

    with pytest.raises(QuestionFileError, match="changed while it was being read"):
        asked(path, sample=10)


def test_every_question_is_drawn_equally_often(write_rows: WriteRows) -> None:
    path = write_rows(*rows(red=20))

    drawn = Counter(each for seed in range(200) for each in asked(path, sample=5, seed=seed))

    assert len(drawn) == 20
    assert all(25 < count < 80 for count in drawn.values()), "50 each, within what chance does"


def test_a_stratified_sample_has_each_subjects_share(write_rows: WriteRows) -> None:
    path = write_rows(*rows(red=60, blue=30, green=10))

    found = Counter(each.split()[0] for each in asked(path, sample=10, seed=2, stratified=True))

    assert found == {"red": 6, "blue": 3, "green": 1}
    assert any("green" not in " ".join(asked(path, sample=10, seed=seed)) for seed in range(9)), "else by chance"


def test_a_subject_can_be_wanted_alone_and_sampled_from(write_rows: WriteRows) -> None:
    path = write_rows(*rows(red=5, blue=5))

    assert asked(path, subjects=frozenset({"blue"})) == [f"blue {n}?" for n in range(5)]
    assert len(asked(path, subjects=frozenset({"blue"}), sample=2)) == 2
    assert asked(path, subjects=frozenset({"blue"}), limit=1) == ["blue 0?"]
    with pytest.raises(QuestionFileError, match=r"no questions of subject blu\. Did you mean 'blue'"):
        asked(path, subjects=frozenset({"blu"}))


@pytest.mark.parametrize(
    ("sizes", "total", "expected"),
    [
        ({"a": 6, "b": 3, "c": 1}, 5, {"a": 3, "b": 2, "c": 0}),
        ({"a": 1, "b": 1, "c": 1}, 2, {"a": 1, "b": 1, "c": 0}),
        ({"a": 2, "b": 1}, 9, {"a": 2, "b": 1}),
        ({"a": 5}, 3, {"a": 3}),
    ],
)
def test_a_total_is_parted_by_largest_remainder(sizes: dict[str, int], total: int, expected: dict[str, int]) -> None:
    assert shares(sizes, total) == expected


def test_ids_are_remembered_beyond_what_is_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("producer.intake.duplicates.MOST_IN_MEMORY", 10)
    seen = Seen()
    for n in range(35):
        seen.add(f"id {n}", n % 20, f"file {n // 20}")

    found = [seen.place_of(f"id {n}") for n in (0, 9, 19, 20, 34)]
    assert found == [("file 0", 0), ("file 0", 9), ("file 0", 19), ("file 1", 0), ("file 1", 14)]
    assert seen.place_of("id 35") is None
    seen.close()
