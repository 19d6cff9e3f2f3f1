"""Which field of a file says what is right: the key is right, or the file is refused with what to say."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.layout_files import lines
from contract.errors import QuestionFileError
from producer.readers import HowToRead, QuestionFile, Source, understand

METALS = ["Ir", "Fe", "In", "F"]
ASKED = "Which is iron?"


def understood(folder: Path, content: str, like: QuestionFile | None = None, **mapping: str) -> QuestionFile:
    path = folder / "q"
    path.write_text(content)
    return understand(Source(path, "q", HowToRead(mapping=mapping)), like)


def keys(folder: Path, content: str, like: QuestionFile | None = None, **mapping: str) -> list[str]:
    """The right labels of each row, or what is said against it."""
    return [
        "".join(row.question.right) if row.question else str(row.trouble)
        for row in understood(folder, content, like, **mapping).rows()
    ]


def rows(*answers: dict[str, Any], choices: str = "options") -> str:
    return lines(*({"question": f"{ASKED} {at}", choices: METALS, **each} for at, each in enumerate(answers)))


def refusal(folder: Path, content: str) -> str:
    with pytest.raises(QuestionFileError) as caught:
        understood(folder, content)
    return str(caught.value)


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


def test_a_key_under_an_unknown_name_is_not_overlooked(tmp_path: Path) -> None:
    """The file was read as one without a key: a whole run without an accuracy."""
    table = "stem,opt_1,opt_2,level,gold_solution_letter\none?,x,y,1,A\ntwo?,u,v,1,B\nthree?,s,t,2,B\n"
    without = table.replace(",A\n", ",?\n").replace(",B\n", ",?\n")

    told = refusal(tmp_path, table)

    assert "no field has a usual name of the key, but 'gold_solution_letter' names a choice" in told
    assert "--map answer=gold_solution_letter if it is the key, --map answer= if there is none" in told
    assert keys(tmp_path, table, answer="gold_solution_letter") == ["A", "B", "B"]
    assert keys(tmp_path, table, answer="") == keys(tmp_path, without) == ["", "", ""]


@pytest.mark.parametrize("choices", ["choices", "options"])
@pytest.mark.parametrize(
    ("name", "numbers", "remedies"),
    [
        ("gold_idx", (2, 0, 3), {"": "CAD"}),
        ("correct_option_number", (2, 1, 4), {"": "BAD"}),
        ("golden_number", (2, 1, 3), {"base=0": "CBD", "base=1": "BAC"}),
        ("true_answer_no", ("2", "1", "4"), {"": "BAD"}),
    ],
)
def test_a_key_of_numbers_under_an_unknown_name_is_not_overlooked(
    tmp_path: Path, choices: str, name: str, numbers: tuple[object, ...], remedies: dict[str, str]
) -> None:
    """It was only listed as not used, and the run had no accuracy."""
    content = rows(*({name: each, "level": at} for at, each in enumerate(numbers)), choices=choices)

    told = refusal(tmp_path, content)

    assert f"no field has a usual name of the key, but the numbers in '{name}' may be positions of choices" in told
    options = " or ".join(f"--map answer={name}{base and ','}{base}" for base in remedies)
    assert f"Use {options} if it is the key, --map answer= if there is none" in told
    for base, right in remedies.items():
        more: dict[str, Any] = {"base": base[-1]} if base else {}
        assert keys(tmp_path, content, answer=name, **more) == list(right)
    assert keys(tmp_path, content, answer="") == ["", "", ""]


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        ((1, 2, 3) * 3, "--map answer=level,base=0 or --map answer=level,base=1"),
        ((0, 2, 3) * 3, "--map answer=level"),
        ((1, 2, 3), ""),
        ((1,) * 9, ""),
        ((0, 1, 1) * 3, ""),
        ((3, 4, 5) * 3, ""),
        ((True, False, True) * 3, ""),
        ((0.5, 1.5, 2) * 3, ""),
    ],
    ids=["either", "from 0", "few rows", "constant", "flags", "too large", "truths", "fractions"],
)
def test_other_numbers_that_may_be_the_key_are_pointed_out_where_no_question_has_one(
    tmp_path: Path, values: tuple[object, ...], remedy: str
) -> None:
    content = rows(*({"level": each} for each in values))
    keyed = rows(*({"level": each, "answer": "ABC"[at % 3]} for at, each in enumerate(values)))

    told = understood(tmp_path, content).doubt

    expected = f"warning: no question has a key, but these numbers may be one: {remedy}." if remedy else ""
    assert told == expected
    assert understood(tmp_path, content, answer="").doubt == ""
    assert understood(tmp_path, keyed).doubt == ""


def test_the_unused_fields_are_told_if_no_field_was_found_for_the_key(tmp_path: Path) -> None:
    table = "stem,opt_1,opt_2,number,{}\none?,x,y,n1,0\ntwo?,u,v,n2,1\nthree?,s,t,n3,1\n"

    assert understood(tmp_path, table.format("marked")).fields.describe().endswith(" · not used: number, marked")
    assert "not used" not in understood(tmp_path, table.format("key")).fields.describe()


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


@pytest.mark.parametrize(
    ("columns", "name", "answers"),
    [
        ("premise,choice1,choice2", "label", ("choice2", "choice1")),
        ("question,option_a,option_b", "answer", ("option_b", "option_a")),
        ("question,option1,option2", "answer_index", ("option2", "option1")),
    ],
)
def test_an_answer_may_be_the_name_of_a_choices_column(
    tmp_path: Path, columns: str, name: str, answers: tuple[str, str]
) -> None:
    """As in COPA, whose classes are called so: each row was refused, as naming no choice."""
    first, second = answers

    assert keys(tmp_path, f"{columns},{name}\nq,x,y,{first}\nr,x,y,{second}\n") == ["B", "A"]


def test_the_name_of_a_column_that_a_row_leaves_empty_is_no_answer(tmp_path: Path) -> None:
    _, empty = keys(tmp_path, "question,option1,option2,option3,answer\nq,x,y,z,option1\nr,x,y,,option3\n")

    assert "'option3' names no choice" in empty


def test_an_index_that_is_mapped_by_hand_is_no_number_of_a_column_either(tmp_path: Path) -> None:
    table = "stem,option1,option2,option3,answer_index\nq,x,y,z,1\nr,x,y,z,2\n"

    with pytest.raises(QuestionFileError, match="may count from 0 or from 1"):
        understood(tmp_path, table, question="stem", answer="answer_index")


@pytest.mark.parametrize("beside", [lambda at: {"answer": METALS[at - 1]}, lambda at: {"answer": "ABCD"[at - 1]}])
def test_a_text_or_letter_beside_an_index_shows_what_it_counts_from(tmp_path: Path, beside: Any) -> None:
    assert keys(tmp_path, rows(*({"answer_index": at, **beside(at)} for at in (1, 2, 3)))) == ["A", "B", "C"]


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


@pytest.mark.parametrize("options", [[2.0, 4.0, 1.0, 3.0], [2, 4, 1, 3]])
@pytest.mark.parametrize("as_answer", [float, int])
def test_numbers_among_choices_that_are_numbers_are_no_sure_indices(
    tmp_path: Path, options: list[float], as_answer: Callable[[int], float]
) -> None:
    """2.0 was taken for the third choice, 1.0, as its text was compared without the decimal point."""
    content = lines(*({"question": f"q{at}", "options": options, "answer": as_answer(at)} for at in (2, 1, 3)))

    assert all("ambiguous" in each for each in keys(tmp_path, content))
    assert keys(tmp_path, content, base="0") == ["C", "B", "D"]


def test_several_right_ones_contradict_none_that_is_among_them(tmp_path: Path) -> None:
    assert keys(tmp_path, rows({"answer": "B", "answers": ["Fe", "In"]})) == ["B"]


@pytest.mark.parametrize(
    ("name", "numbers", "key"),
    [
        ("correct", (1, 0, 1), {"gold": "C"}),
        ("key", (1, 2, 3), {"gold": "C"}),
        ("label", (0, 1, 0), {"correct_answer": "In"}),
        ("answer_id", (17, 18, 19), {"answer": "C"}),
        ("correct", (True, False, True), {"gold": "C"}),
    ],
)
def test_flags_and_row_numbers_are_no_key_where_another_field_is(
    tmp_path: Path, name: str, numbers: tuple[int, ...], key: dict[str, str]
) -> None:
    file = understood(tmp_path, rows(*({name: number, **key} for number in numbers)))

    assert [row.question.right for row in file.rows() if row.question] == [("C",)] * 3
    assert file.fields.answer == (*key,)


def test_a_list_of_all_labels_is_no_key(tmp_path: Path) -> None:
    assert keys(tmp_path, rows({"labels": ["A", "B", "C", "D"], "gold": "C"})) == ["C"]


def test_a_number_in_a_column_of_flags_is_kept_beside_the_key(tmp_path: Path) -> None:
    row, _ = understood(tmp_path, "question,A,B,correct,gold\nq,x,y,1,A\nr,x,y,0,B\n").rows()

    assert row.question
    assert row.question.metadata == {"correct": "1"}


def test_answers_beside_choices_are_the_right_ones(tmp_path: Path) -> None:
    columns = "question,option_a,option_b,option_c,answers\nq,x,y,z,\"['A', 'C']\"\n"

    assert keys(tmp_path, rows({"answers": ["Fe"]})) == ["B"]
    assert keys(tmp_path, columns) == ["AC"]


@pytest.mark.parametrize("flag", ["isCorrect", "is_key", "gold"])
def test_choices_that_are_marked_as_right_are_the_key(tmp_path: Path, flag: str) -> None:
    marked = [{"text": each, flag: each == "Fe"} for each in METALS]

    assert keys(tmp_path, lines({"question": "q", "options": marked})) == ["B"]
    (told,) = keys(tmp_path, lines({"question": "q", "options": marked, "answer": "A"}))
    assert "'answer' says 'A', but B is marked as right" in told


@pytest.mark.parametrize(
    ("flags", "right"),
    [
        ([{}, {"correct": True}, {}, {}], "B"),
        ([{}, {"isRight": 1}, {"isRight": None}, {"isRight": 0}], "B"),
        ([{"correct": True}, {}, {"correct": True}, {}], "AC"),
        ([{"correct": False}, {}, {}, {}], ""),
        ([{"correct": "no"}, {"correct": True}, {}, {}], ""),
    ],
)
def test_a_choice_without_a_mark_is_wrong_where_another_is_marked_as_right(
    tmp_path: Path, flags: list[dict[str, Any]], right: str
) -> None:
    marked = [{"text": each, **flag} for each, flag in zip(METALS, flags, strict=True)]

    assert keys(tmp_path, lines({"question": "q", "options": marked})) == [right]


def test_minus_one_may_be_a_choice(tmp_path: Path) -> None:
    marks = [{"text": each, "correct": each == "-1"} for each in ("1", "-1")]
    file = understood(tmp_path, lines({"question": "q", "options": ["2", "-1"], "correct_answer": "-1"}))

    assert [row.question.right for row in file.rows() if row.question] == [("B",)]
    assert file.fields.answer == ("correct_answer",)
    assert keys(tmp_path, "question,A,B,answer\nq,x,-1,-1\nr,5,-5,-5\n") == ["B", "B"]
    assert keys(tmp_path, lines({"question": "q", "correct_answer": "-1", "distractors": ["1"]})) != [""]
    assert keys(tmp_path, lines({"question": "q", "options": marks, "answer": -1})) == ["B"]


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


def test_marks_are_what_choices_are_called_in_whatever_order(tmp_path: Path) -> None:
    assert keys(tmp_path, lines({"question": "q", "options": ["(B) red", "(A) blue"], "answer": "A"})) == ["B"]
    numbered = ["1. red", "2. blue", "3. green"]
    assert keys(tmp_path, lines(*({"question": f"q{at}", "options": numbered, "answer": at} for at in (1, 2)))) == [
        "A",
        "B",
    ]


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({"text": ["w", "x", "y"], "label": ["A", "B", "B"]}, "'B' names no choice.*Two choices are labelled B"),
        ({"text": ["w", "x", "y"], "label": ["A", "B"]}, "found 2 labels for 3 choices. Label all choices"),
        ([{"label": "A", "text": "w"}, {"text": "x"}, {"label": "B", "text": "y"}], "choice 2 of 3 has no label"),
    ],
)
def test_labels_that_do_not_tell_all_choices_apart_are_refused(tmp_path: Path, choices: Any, told: str) -> None:
    """The first choice that is called so was the key, or the one in the letter's place."""
    (row,) = keys(tmp_path, lines({"question": "q", "choices": choices, "answerKey": "B"}))

    assert re.search(told, row)


def test_labels_that_are_null_are_none(tmp_path: Path) -> None:
    choices = [{"label": None, "text": "w"}, {"label": None, "text": "x"}]

    assert keys(tmp_path, lines({"question": "q", "choices": choices, "answerKey": "B"})) == ["B"]


def test_our_own_choices_whose_marks_are_in_another_order_are_refused(tmp_path: Path) -> None:
    content = lines({"question": "q", "choices": ["(B) red", "(A) blue"], "answer": "A"})

    (told,) = keys(tmp_path, content)

    assert "the choices are marked B, A" in told
    assert "--map choices=choices" in told
    assert keys(tmp_path, content, choices="choices") == ["B"]


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


def test_a_letter_among_choices_is_read_though_wrong_ones_stand_apart(tmp_path: Path) -> None:
    row = {"answer": "B", "distractors": ["Ir", "In", "F"]}

    assert keys(tmp_path, rows(row)) == ["B"]


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ("0,Which is iron?,Ir,Fe,B\n1,Which is gold?,Ag,Au,B\n", "id=1,question=2,choices=3+4,answer=5"),
        ("metals,Which is iron?,Ir,Fe,B\nmetals,Which is gold?,Ag,Au,B\n", "subject=1,question=2,choices=3+4,answer=5"),
        ("q-a,Which is iron?,Ir,Fe,B\nq-b,Which is gold?,Ag,Au,B\n", "id=1,question=2,choices=3+4,answer=5"),
    ],
)
def test_a_table_without_header_that_begins_with_an_id_or_a_subject_is_refused(
    tmp_path: Path, content: str, hint: str
) -> None:
    assert f"--map {hint}" in refusal(tmp_path, content)
    assert keys(tmp_path, content, None, **dict(pair.split("=") for pair in hint.split(","))) == ["B", "B"]


def test_a_table_without_header_may_ask_with_one_word(tmp_path: Path) -> None:
    assert keys(tmp_path, "Iron,a metal,a noble gas,A\nNeon,a metal,a noble gas,B\n") == ["A", "B"]


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("Question,Text,A,B,answer\n1,What is x?,w,x,A\n2,What is y?,w,x,B\n", "--map question=Text"),
        (
            lines(
                *({"instruction": "Answer.", "input": f"q{at}", "options": METALS, "answer": "B"} for at in range(3))
            ),
            "--map question=input",
        ),
    ],
)
def test_a_field_that_is_hardly_the_question_is_refused(tmp_path: Path, content: str, wanted: str) -> None:
    assert wanted in refusal(tmp_path, content)


def test_one_question_of_many_contexts_is_one(tmp_path: Path) -> None:
    content = [{"question": "Is it?", "context": f"c{at}", "choices": ["x", "y"], "answer": "A"} for at in range(3)]

    assert keys(tmp_path, json.dumps(content)) == ["A"] * 3


def test_columns_called_choice_or_option_go_before_others(tmp_path: Path) -> None:
    content = "question,option1,option2,answer,ans1,ans2,ans3\nq,x,y,2,1,1,2\n"

    (row,) = understood(tmp_path, content).rows()

    assert row.question
    assert (row.question.choices, row.question.right) == (("x", "y"), ("B",))


def test_values_that_are_letters_are_labels_and_their_labels_are_texts(tmp_path: Path) -> None:
    options = [{"label": "Paris", "value": "A"}, {"label": "Rome", "value": "B"}]

    (row,) = understood(tmp_path, lines({"question": "q", "options": options, "answer": "B"})).rows()

    assert row.question
    assert (row.question.choices, row.question.right) == (("Paris", "Rome"), ("B",))


@pytest.mark.parametrize(
    "options",
    [
        [{"option": "A", "answer": "Paris"}, {"option": "B", "answer": "Rome"}],
        [{"option": "A", "description": "Paris"}, {"option": "B", "description": "Rome"}],
        [{"choice": "A", "wording": "Paris", "is_correct": "no"}, {"choice": "B", "wording": "Rome"}],
    ],
)
def test_options_that_are_letters_are_labels_of_the_one_text_beside_them(
    tmp_path: Path, options: list[dict[str, str]]
) -> None:
    (row,) = understood(tmp_path, lines({"question": "q", "options": options, "answer": "B"})).rows()

    assert row.question
    assert (row.question.choices, row.question.right) == (("Paris", "Rome"), ("B",))


def test_choices_that_are_letters_stay_where_no_text_stands_beside_each(tmp_path: Path) -> None:
    options = [{"option": "A", "color": "red", "shape": "round"}, {"option": "B"}]

    (row,) = understood(tmp_path, lines({"question": "q", "options": options, "answer": "B"})).rows()

    assert row.question
    assert (row.question.choices, row.question.right) == (("A", "B"), ("B",))


@pytest.mark.parametrize(
    "cell",
    [
        "['Ir' 'Fe' 'In' 'F']",
        "['Ir' 'Fe'\n 'In' 'F']",
        "{'text': array(['Ir', 'Fe', 'In', 'F'], dtype=object), 'label': array(['A', 'B', 'C', 'D'], dtype=object)}",
    ],
)
def test_lists_are_read_as_pandas_writes_them_into_csv(tmp_path: Path, cell: str) -> None:
    (row,) = understood(tmp_path, f'question,choices,answer\nq,"{cell}",B\n').rows()

    assert row.question
    assert row.question.choices == tuple(METALS)


@pytest.mark.parametrize("field", ["answer", "labels", "correct"])
@pytest.mark.parametrize("choices", ["options", "choices"])
def test_a_list_of_a_0_or_1_for_each_choice_marks_the_right_ones(tmp_path: Path, field: str, choices: str) -> None:
    marked = rows(*({field: flags} for flags in ([0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 1, 0])), choices=choices)
    of_two = lines(*({"question": f"q{at}", choices: ["x", "y"], field: [at, 1 - at]} for at in (0, 1)))

    assert keys(tmp_path, marked) == ["B", "D", "AC"]
    assert keys(tmp_path, of_two) == ["B", "A"]
    assert understood(tmp_path, marked).way.value == "by a 0 or 1 for each choice"


def test_a_list_of_zeros_among_such_lists_names_no_choice(tmp_path: Path) -> None:
    first, second = keys(tmp_path, rows({"labels": [0, 1, 0, 0]}, {"labels": [0, 0, 0, 0]}))

    assert first == "B"
    assert "[0, 0, 0, 0] names no choice. Expected a list with a 0 or 1 for each choice" in second


def test_indices_of_both_choices_among_other_lists_of_indices_stay_indices(tmp_path: Path) -> None:
    content = lines(
        {"question": "q1", "options": ["x", "y", "z"], "answer": [0, 2]},
        {"question": "q2", "options": ["x", "y"], "answer": [0, 1]},
    )

    assert keys(tmp_path, content) == ["AC", "AB"]


def test_a_0_or_1_for_each_choice_is_read_beside_a_text_that_says_the_same(tmp_path: Path) -> None:
    said = [{"label": [0, 1, 0, 0], "correct_answer": "Fe"}, {"label": [1, 0, 0, 0], "correct_answer": "Ir"}]

    assert keys(tmp_path, rows(*said)) == ["B", "A"]


@pytest.mark.parametrize(
    ("choices", "cells", "right"),
    [
        (["B and C", "A", "none"], ["['B and C']", '["A"]', "['none']"], ["A", "B", "C"]),
        (["a, b", "c;d", "x"], ["['a, b']", "['c;d']", "['a, b', 'x']"], ["A", "B", "AC"]),
        (["x", "y", "z"], ["['A', 'C']", "['b']", "[]"], ["AC", "B", ""]),
        (["x", "y", "z"], ["[0, 2]", "[1]", "[2]"], ["AC", "B", "C"]),
        (["x", "y", "z"], ["[0, 1, 0]", "[0, 0, 1]", "[1, 0, 0]"], ["B", "C", "A"]),
        (["[0]", "[1]", "[0, 1]"], ["[0, 1]", "[0, 1]", "[0, 1]"], ["C", "C", "C"]),
    ],
)
@pytest.mark.parametrize("names", ["A,B,C", "option0,option1,option2"])
def test_a_list_in_a_cell_names_what_its_items_name(
    tmp_path: Path, names: str, choices: list[str], cells: list[str], right: list[str]
) -> None:
    table = io.StringIO()
    csv.writer(table).writerows(
        [["question", *names.split(","), "answer"], *([f"q{at}", *choices, cell] for at, cell in enumerate(cells))]
    )

    assert keys(tmp_path, table.getvalue()) == right


def test_numbers_beside_labelled_choices_may_be_positions_too(tmp_path: Path) -> None:
    def labelled(*texts: str) -> list[dict[str, str]]:
        return [{"label": label, "text": text} for label, text in zip("ABC", texts, strict=True)]

    words = lines(*({"question": f"q{at}", "choices": labelled("x", "y", "z"), "answer": at} for at in (0, 2, 1)))
    sums = lines(*({"question": f"q{at}", "choices": labelled("3", "1", "2"), "answer": at} for at in (1, 3)))

    assert keys(tmp_path, words) == ["A", "C", "B"]
    assert all("is ambiguous: by text it is" in each for each in keys(tmp_path, sums))
