"""Several fields that may say what is right: they agree, or the row is refused."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.layout_files import lines
from tests.unit.producer.readers.keyed import ASKED, METALS, keys, rows


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"answer_idx": "A", "answer": "Fe"}, "'answer_idx' says 'A', which is A, but 'answer' says 'Fe', which is B"),
        ({"answer": "B", "correct_answer": "Ir"}, "'answer' says 'B', which is B, but 'correct_answer' says 'Ir'"),
        ({"answer": "B", "answers": ["A", "C"]}, "'answer' says 'B', which is B, but 'answers' says ['A', 'C']"),
        ({"answer_index": 3, "answer": "Ir"}, "but 'answer' says 'Ir', which is A"),
    ],
)
def test_two_fields_that_name_different_choices_are_refused(tmp_path: Path, row: dict[str, Any], said: str) -> None:
    (told,) = keys(tmp_path, rows(row))

    assert said in told
    assert f"Use --map answer={[*row][1]} for the latter, --map answer={next(iter(row))} for the former" in told


#: Of 4 choices, in every order of a key, so that all numbers from 0 to 3 occur.
EIGHT = (0, 1, 2, 3, 2, 3, 0, 1)


def numbered(second: str, numbers: Iterable[object], choices: str = "options") -> str:
    """Rows with a key in `answer`, which counts from 0, and other numbers beside it."""
    both = ({"answer": at, second: number} for at, number in zip(EIGHT, numbers, strict=True))
    return rows(*both, choices=choices)


@pytest.mark.parametrize("choices", ["options", "choices"])
@pytest.mark.parametrize("second", ["gold_label", "label"])
def test_two_fields_of_numbers_that_name_different_choices_are_refused(
    tmp_path: Path, second: str, choices: str
) -> None:
    """Every row contradicted itself, and the one field was taken without a word."""
    told = keys(tmp_path, numbered(second, ((at + 1) % 4 for at in EIGHT), choices))

    assert all("which is" in each for each in told)
    assert f"'answer' says 0, which is A, but '{second}' says 1, which is B" in told[0]
    assert f"Use --map answer={second} for the latter, --map answer=answer for the former" in told[0]
    assert keys(tmp_path, numbered(second, ((at + 1) % 4 for at in EIGHT), choices), answer="answer")[:2] == ["A", "B"]


@pytest.mark.parametrize("choices", ["options", "choices"])
@pytest.mark.parametrize("second", ["gold_label", "label", "key"])
@pytest.mark.parametrize("base", [0, 1])
def test_the_one_row_in_which_a_second_key_differs_is_refused_whatever_it_counts_from(
    tmp_path: Path, second: str, choices: str, base: int
) -> None:
    both = [{"answer": at, second: at + base} for at in EIGHT * 4]
    both[3][second] = base

    told = keys(tmp_path, rows(*both, choices=choices))

    assert f"'answer' says 3, which is D, but '{second}' says {base}, which is A" in told[3]
    assert [each for at, each in enumerate(told) if at != 3] == ["ABCD"[at] for at in (EIGHT * 4)[:3] + (EIGHT * 4)[4:]]


@pytest.mark.parametrize("choices", ["options", "choices"])
@pytest.mark.parametrize(
    ("second", "numbers"),
    [
        ("level", (0, 3, 1, 2, 3, 0, 2, 1)),
        ("label", (0, 3, 1, 2, 3, 0, 2, 1)),
        ("label", (1, 4, 2, 3, 4, 1, 3, 2)),
        ("target", (1, 2, 3, 1, 2, 3, 1, 2)),
        ("target", (1, 1, 1, 1, 1, 1, 1, 1)),
        ("key", (0, 1, 2, 3, 4, 5, 6, 7)),
        ("correct", (1, 0, 0, 1, 0, 1, 1, 0)),
        ("correct_answers", (1, 2, 1, 1, 2, 1, 4, 1)),
        ("answers", (0, 2, 1, 3, 0, 1, 3, 0)),
        ("solution", (12, 2, 31, 1, 2, 5, 0, 3)),
        ("gold_label", (5, 12, 7, 3, 9, 4, 11, 8)),
        ("gold_label", (4, 4, 4, 4, 4, 4, 4, 4)),
        ("correct_answer", (1, 0, 0, 1, 0, 1, 1, 0)),
        ("gold", (0, 2, 1, 3, 0, 1, 3, 0)),
        ("answer_text", (1, 3, 2, 1, 3, 2, 1, 3)),
        ("label", ([1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]) * 2),
        ("gold_label", (True, False) * 4),
    ],
)
def test_numbers_that_are_no_second_key_do_not_contradict_the_first(
    tmp_path: Path, second: str, numbers: tuple[object, ...], choices: str
) -> None:
    assert keys(tmp_path, numbered(second, numbers, choices)) == ["ABCD"[at] for at in EIGHT]


def test_yes_and_no_as_1_and_0_do_not_contradict_which_of_the_two_is_right(tmp_path: Path) -> None:
    content = lines(
        *(
            {"question": f"{ASKED} {at}", "choices": ["yes", "no"], "answer": number, "label": 1 - number}
            for at, number in enumerate((0, 1, 1, 0, 1, 0, 0, 1))
        )
    )

    assert keys(tmp_path, content) == ["A", "B", "B", "A", "B", "A", "A", "B"]


def test_a_few_rows_do_not_show_whether_numbers_under_an_unsure_name_are_a_second_key(tmp_path: Path) -> None:
    assert keys(tmp_path, rows({"answer": 0, "label": 2}, {"answer": 2, "label": 1})) == ["A", "C"]
    assert (
        "'gold_label' says 2" in keys(tmp_path, rows({"answer": 0, "gold_label": 2}, {"answer": 2, "gold_label": 0}))[0]
    )


def test_a_number_beside_a_letter_is_compared_by_the_base_or_the_text_that_fits_best(tmp_path: Path) -> None:
    def of(second: str, numbers: Iterable[object], options: list[str]) -> list[str]:
        each = enumerate(zip(EIGHT, numbers, strict=True))
        return keys(
            tmp_path,
            lines(
                *(
                    {"question": f"{ASKED} {row}", "options": options, "answer": "ABCD"[at], second: number}
                    for row, (at, number) in each
                )
            ),
        )

    assert of("gold_label", (at + 1 for at in EIGHT), METALS) == ["ABCD"[at] for at in EIGHT]
    assert of("solution", (3 - at for at in EIGHT), ["3", "2", "1", "0"]) == ["ABCD"[at] for at in EIGHT]
    assert of("answer_text", (15 - at for at in EIGHT), ["15", "14", "13", "12"]) == ["ABCD"[at] for at in EIGHT]
    told = of("answer_text", (15, 14, 13, 12, 13, 12, 15, 15), ["15", "14", "13", "12"])
    assert "'answer' says 'B', which is B, but 'answer_text' says 15, which is A" in told[-1]
    told = of("gold_label", (1, 2, 3, 4, 3, 4, 1, 1), METALS)
    assert told[:-1] == ["ABCD"[at] for at in EIGHT[:-1]]
    assert "'answer' says 'B', which is B, but 'gold_label' says 1, which is A" in told[-1]


def test_several_right_ones_contradict_none_that_is_among_them(tmp_path: Path) -> None:
    assert keys(tmp_path, rows({"answer": "B", "answers": ["Fe", "In"]})) == ["B"]
