"""What the number of a choice counts from: 0, 1, or refused until the user says it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.layout_files import lines
from contract.errors import QuestionFileError
from tests.unit.producer.readers.keyed import METALS, keys, refusal, rows, understood


@pytest.mark.parametrize("field", ["answer", "correct", "key", "gold", "cop"])
def test_numbers_from_1_to_3_of_4_choices_are_refused_until_it_is_said_what_they_count_from(
    tmp_path: Path, field: str
) -> None:
    content = rows(*({field: at} for at in (1, 2, 3)))

    told = refusal(tmp_path, content)

    assert told.startswith("q:1: field 'answer': 1 may count from 0 or from 1")
    assert "--map base=0 or --map base=1" in told
    assert keys(tmp_path, content, base="0") == ["B", "C", "D"]
    assert keys(tmp_path, content, base="1") == ["A", "B", "C"]


def test_the_base_alone_and_a_part_that_no_column_holds_leave_a_tables_columns_as_they_are(tmp_path: Path) -> None:
    """The message said to add --map base=1 or id=, with which no column of a CSV was found any more."""
    numbers = "question,A,B,C,D,answer\nq one?,a,b,c,d,1\nq two?,e,f,g,h,2\n"
    letters = "q one?,a,b,c,d,B\nq two?,e,f,g,h,C\n"

    assert "--map base=0 or --map base=1" in refusal(tmp_path, numbers)
    assert keys(tmp_path, numbers, base="1") == ["A", "B"]
    assert keys(tmp_path, numbers, base="0", id="") == ["B", "C"]
    assert keys(tmp_path, letters, id="") == keys(tmp_path, letters, base="0") == ["B", "C"]


def test_an_index_by_its_name_counts_from_0_beside_a_list_and_is_refused_beside_columns(tmp_path: Path) -> None:
    assert keys(tmp_path, rows(*({"answer_index": at} for at in (1, 2, 3)))) == ["B", "C", "D"]
    assert keys(tmp_path, rows(*({"answer_index": at} for at in (1, 2, 4)))) == ["A", "B", "D"]
    assert "may count from 0 or from 1" in refusal(tmp_path, "question,A,B,C,label\nq,x,y,z,1\nr,x,y,z,2\n")


@pytest.mark.parametrize("name", ["answer_idx", "Answer Index", "correctIndex", "gold_index", "correct_answer_index"])
@pytest.mark.parametrize("columns", ["option1,option2,option3,option4", "choice_01,choice_02,choice_03,choice_04"])
def test_an_index_by_its_name_is_not_taken_for_the_number_of_a_column(tmp_path: Path, columns: str, name: str) -> None:
    """A file that counts from 0, in which no first choice happens to be right, had wrong keys without a warning."""
    table = f"question,{columns},{name}\n" + "q{},w,x,y,z,{}\n" * 3

    told = refusal(tmp_path, table.format(1, 1, 2, 2, 3, 3))

    assert "may count from 0 or from 1" in told
    assert keys(tmp_path, table.format(1, 1, 2, 2, 3, 3), base="0") == ["B", "C", "D"]
    assert keys(tmp_path, table.format(1, 1, 2, 2, 3, 3), base="1") == ["A", "B", "C"]
    assert keys(tmp_path, table.format(1, 1, 2, 2, 3, 0)) == ["B", "C", "A"]
    assert keys(tmp_path, table.format(1, 1, 2, 2, 3, 4)) == ["A", "B", "D"]


@pytest.mark.parametrize(("columns", "right"), [("option1,option2,option3", "AB"), ("option0,option1,option2", "BC")])
@pytest.mark.parametrize("name", ["label", "answer", "correct"])
def test_a_number_under_another_name_is_that_of_a_column(tmp_path: Path, name: str, columns: str, right: str) -> None:
    """As in WinoGrande and SocialIQA."""
    assert keys(tmp_path, f"question,{columns},{name}\nq,x,y,z,1\nr,x,y,z,2\n") == [*right]


@pytest.mark.parametrize("mapping", [{}, {"question": "question", "answer": "label"}])
def test_it_is_told_where_only_the_columns_say_what_a_number_counts_from(
    tmp_path: Path, mapping: dict[str, str]
) -> None:
    """KoBEST's HellaSwag has the columns 1 to 4 and labels from 0 to 3, so that a few rows were read one off."""
    table = "question,ending_1,ending_2,ending_3,label\nq,x,y,z,{}\nr,x,y,z,{}\n"

    told = understood(tmp_path, table.format(1, 2), None, **mapping).doubt

    assert "label is assumed to be the number of a column. If it counts from 0, add --map base=0." in told
    assert understood(tmp_path, table.format(1, 3), None, **mapping).doubt == ""
    assert understood(tmp_path, table.format(1, 0), None, **mapping).doubt == ""


@pytest.mark.parametrize(("counted", "right"), [((0, 2), ["B", "C"]), ((1, 3), ["A", "B"])])
def test_numbers_of_a_few_examples_beside_columns_count_as_those_of_the_questions(
    tmp_path: Path, counted: tuple[int, int], right: list[str]
) -> None:
    """Examples were shown with the answer before the right one."""
    table = "question,ending_1,ending_2,ending_3,label\nq,x,y,z,{}\nr,x,y,z,{}\n"
    asked = understood(tmp_path, table.format(*counted))

    assert keys(tmp_path, table.format(1, 2), like=asked) == right
    assert understood(tmp_path, table.format(1, 2), like=asked).doubt == ""


def test_an_index_beside_columns_that_count_from_0_is_that_of_a_column(tmp_path: Path) -> None:
    table = "question,option0,option1,option2,answer_index\nq,x,y,z,1\nr,x,y,z,2\n"

    assert keys(tmp_path, table) == ["B", "C"]


def test_an_index_that_is_mapped_by_hand_is_no_number_of_a_column_either(tmp_path: Path) -> None:
    table = "stem,option1,option2,option3,answer_index\nq,x,y,z,1\nr,x,y,z,2\n"

    with pytest.raises(QuestionFileError, match="may count from 0 or from 1"):
        understood(tmp_path, table, question="stem", answer="answer_index")


@pytest.mark.parametrize("beside", [lambda at: {"answer": METALS[at - 1]}, lambda at: {"answer": "ABCD"[at - 1]}])
def test_a_text_or_letter_beside_an_index_shows_what_it_counts_from(tmp_path: Path, beside: Any) -> None:
    assert keys(tmp_path, rows(*({"answer_index": at, **beside(at)} for at in (1, 2, 3)))) == ["A", "B", "C"]


@pytest.mark.parametrize("options", [[2.0, 4.0, 1.0, 3.0], [2, 4, 1, 3]])
@pytest.mark.parametrize("as_answer", [float, int])
def test_numbers_among_choices_that_are_numbers_are_no_sure_indices(
    tmp_path: Path, options: list[float], as_answer: Callable[[int], float]
) -> None:
    """2.0 was taken for the third choice, 1.0, as its text was compared without the decimal point."""
    content = lines(*({"question": f"q{at}", "options": options, "answer": as_answer(at)} for at in (2, 1, 3)))

    assert all("ambiguous" in each for each in keys(tmp_path, content))
    assert keys(tmp_path, content, base="0") == ["C", "B", "D"]


def test_our_own_layout_counts_from_0_and_is_refused_where_it_does_not(tmp_path: Path) -> None:
    assert keys(tmp_path, rows(*({"answer": at} for at in (1, 2, 3)), choices="choices")) == ["B", "C", "D"]

    told = refusal(tmp_path, rows(*({"answer": at} for at in (1, 2, 4)), choices="choices"))

    assert "do not count from 0. Add --map base=1." in told


def test_our_own_numbers_are_refused_if_it_is_improbable_that_none_is_0_and_doubted_if_it_is_unlikely(
    tmp_path: Path,
) -> None:
    def given(count: int, **more: object) -> str:
        answers = ({"id": f"q{number}", "answer": 1 + number % 3, **more} for number in range(count))
        return rows(*answers, choices="choices")

    told = refusal(tmp_path, given(33))
    assert "none of 33 numbers is 0: they may count from 1, or the first choice is never right." in told
    assert "Add --map base=0 or --map base=1" in told
    assert [understood(tmp_path, given(count)).doubt != "" for count in (10, 11, 32)] == [False, True, True]
    assert "answer is assumed to count from 0. If it counts from 1, add --map base=1." in (
        understood(tmp_path, given(32)).doubt
    )
    assert understood(tmp_path, given(32, choices=["x", "y", "z", "v", "w", "u", "t"])).doubt
    assert not understood(tmp_path, given(32) + given(1, answer=0)).doubt


def test_our_own_numbers_in_lists_count_from_0_and_are_refused_where_they_do_not(tmp_path: Path) -> None:
    """Only numbers outside lists were looked at: with --skip-bad, all rows but those with a 4 got another key."""

    def given(*answers: object) -> str:
        return rows(*({"id": f"q{at}", "answer": answer} for at, answer in enumerate(answers)), choices="choices")

    assert keys(tmp_path, given([0, 2], [1])) == ["AC", "B"]
    told = refusal(tmp_path, given([1, 2], [3], [2, 4]))
    assert "do not count from 0. Add --map base=1." in told
    assert keys(tmp_path, given([1, 2], [3], [2, 4]), base="1") == ["AB", "C", "BD"]
    assert "none of 34 numbers is 0" in refusal(tmp_path, given(*[[1, 3]] * 17))
    assert [understood(tmp_path, given(*[[1 + at % 3] for at in range(count)])).doubt != "" for count in (10, 11)] == [
        False,
        True,
    ]
    numbers = {"question": "q", "choices": ["1", "2", "3", "4"], "answer": [1, 2]}
    assert "1 is ambiguous" in refusal(tmp_path, lines(numbers))


def test_our_own_numbers_that_are_choices_too_are_refused_if_no_other_shows_that_they_are_indices(
    tmp_path: Path,
) -> None:
    numbers = [{"question": f"q{at}", "choices": ["1", "2", "3", "4"], "answer": at} for at in (1, 2)]

    assert "ambiguous" in refusal(tmp_path, lines(*numbers))
    quoted = {**numbers[1], "question": "q", "answer": "2"}
    assert ":2: field 'answer': 1 is ambiguous" in refusal(tmp_path, lines(quoted, *numbers))
    assert keys(tmp_path, lines(*numbers, {**numbers[0], "question": "q", "answer": 0})) == ["B", "C", "A"]
    assert keys(tmp_path, lines(*numbers), base="1") == ["A", "B"]
    floats = [{**row, "choices": [f"{each}.0" for each in range(1, 5)], "answer": 1.0} for row in numbers]
    assert "ambiguous" in refusal(tmp_path, lines(*floats))


def test_our_own_numbered_choices_and_numbers_may_not_mean_the_same(tmp_path: Path) -> None:
    content = lines({"question": "q", "choices": ["1. red", "2. blue", "3. green"], "answer": 1})

    assert "may be the number at the start of a choice" in refusal(tmp_path, content)
    assert keys(tmp_path, content, base="1") == ["A"]


def test_examples_count_as_the_questions_that_they_are_for(tmp_path: Path) -> None:
    undecided = rows({"answer": 1}, {"answer": 2})
    from_1 = understood(tmp_path, rows({"answer": 1}, {"answer": 4}))
    by_letter = understood(tmp_path, rows({"answer": "A"}))
    said = understood(tmp_path, rows({"gold": "A"}), base="1")

    assert keys(tmp_path, undecided, from_1) == ["A", "B"]
    assert keys(tmp_path, undecided, said) == ["A", "B"]
    with pytest.raises(QuestionFileError, match="may count from 0 or from 1"):
        understood(tmp_path, undecided, by_letter)


def test_numbers_beside_labelled_choices_may_be_positions_too(tmp_path: Path) -> None:
    def labelled(*texts: str) -> list[dict[str, str]]:
        return [{"label": label, "text": text} for label, text in zip("ABC", texts, strict=True)]

    words = lines(*({"question": f"q{at}", "choices": labelled("x", "y", "z"), "answer": at} for at in (0, 2, 1)))
    sums = lines(*({"question": f"q{at}", "choices": labelled("3", "1", "2"), "answer": at} for at in (1, 3)))

    assert keys(tmp_path, words) == ["A", "C", "B"]
    assert all("is ambiguous: by text it is" in each for each in keys(tmp_path, sums))
