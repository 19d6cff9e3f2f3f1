"""Which choices an answer means, and when nobody can know."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from producer.http.bodies import QuestionIn
from producer.readers.answer_fields import Key
from producer.readers.answers import Given, Way, right_labels, settle
from producer.readers.fields import to_row
from producer.readers.layouts import OWN
from producer.readers.own_answers import IN_FILE, IN_REQUEST, answer_label
from producer.readers.record import FieldTrouble, Record


@pytest.mark.parametrize(
    ("found", "choices", "label"),
    [
        (None, ["x", "y"], None),
        ("B", ["x", "y"], "B"),
        ("b", ["x", "y"], "B"),
        (" b ", ["x", "y"], "B"),
        (0, ["x", "y"], "A"),
        (1, ["4", "0"], "B"),
        (1.0, ["x", "y"], "B"),
        ("y", ["x", "y"], "B"),
        ("y ", ["x", "y"], "B"),
        ("A", ["A", "B"], "A"),
        ("a", ["a", "an"], "A"),
        ("2", ["1", "2"], "B"),
        ("Ｂ", ["x", "y"], "B"),
        ("ｂ", ["x", "y"], "B"),
        ("Ａ", ["Ｂ", "Ａ"], "B"),
    ],
)
def test_an_answer_is_a_label_an_index_or_a_text(found: object, choices: list[str], label: str | None) -> None:
    assert answer_label(found, choices) == label


@pytest.mark.parametrize(
    ("found", "choices", "wanted"),
    [
        ("C", ["x", "y"], "'C' names no choice. "),
        ("z", ["x", "y"], "'z' names no choice"),
        ("", ["x", "y"], "'' names no choice"),
        (2, ["x", "y"], "found index 2, expected 0 to 1"),
        (-1, ["x", "y"], "found index -1, expected 0 to 1. If there is no key, remove the field"),
        ("1", ["x", "y"], "a 0-based index, or the exact text of a choice. Write an index without quotes."),
        (True, ["x", "y"], "True names no choice"),
        (["B"], ["x", "y"], "['B'] names no choice"),
        ("B", ["B", "x"], "'B' is ambiguous: it is a label (B) and the text of choice A (A)"),
        ("x", ["x", "x"], "ambiguous"),
    ],
)
def test_an_answer_that_names_no_choice_or_several_is_refused(found: object, choices: list[str], wanted: str) -> None:
    with pytest.raises(FieldTrouble) as caught:
        answer_label(found, choices)

    assert wanted in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.field == "answer"


@pytest.mark.parametrize(
    ("found", "choices", "indices"),
    [
        ("A", ["C", "A", "D", "K"], {0: "A", 1: "B"}),
        ("a", ["a", "a", "b"], {0: "A", 1: "B"}),
        ("x", ["y", "x", "x"], {1: "B", 2: "C"}),
    ],
)
def test_an_answer_whose_label_is_itself_ambiguous_is_refused_with_the_indices_that_are_not(
    found: str, choices: list[str], indices: dict[int, str]
) -> None:
    with pytest.raises(FieldTrouble) as caught:
        answer_label(found, choices)

    told = " or ".join(f"{at} for choice {label}" for at, label in indices.items())
    assert caught.value.hint == f"Write the right choice's index, without quotes: {told}."
    assert {at: answer_label(at, choices) for at in indices} == indices


def test_a_cell_that_is_a_label_and_a_text_is_refused_with_what_is_only_one_of_them() -> None:
    vitamins, ways = Given("A", ["C", "A", "D", "K"]), (Way.LABEL, Way.TEXT)
    with pytest.raises(FieldTrouble) as caught:
        right_labels(vitamins, settle([vitamins], ways))
    assert caught.value.hint == "Write the right choice's label and text, for example 'B. A'."

    for written, label in (("B. A", "B"), ("A. C", "A")):
        told = vitamins._replace(answer=written)
        assert right_labels(told, settle([told], ways)) == (label,)
        assert right_labels(told, Way.ANY) == (label,), "where others are given otherwise"


@pytest.mark.parametrize("found", ["A,C", "A and C", "AC", "a; c"])
def test_several_labels_in_one_text_are_refused_with_the_list_to_write_instead(found: str) -> None:
    with pytest.raises(FieldTrouble, match="are several labels") as caught:
        answer_label(found, ["x", "y", "z"])

    assert caught.value.hint == 'If each of them is right, write them as a list: ["A", "C"].'


COLORS = ["red", "green", "blue"]
ALL = (Way.LABEL, Way.TEXT, Way.INDEX_0, Way.INDEX_1)


@pytest.mark.parametrize(
    ("answers", "way"),
    [
        (["A", "b", "(C)", "B.", "The answer is B"], Way.LABEL),
        (["red", "Blue.", " green"], Way.TEXT),
        (["0", "2", "1"], Way.INDEX_0),
        ([0, 2, 1], Way.INDEX_0),
        (["1", "3"], Way.INDEX_1),
        ([3, 1, 2, None, -1], Way.INDEX_1),
        (["1", "3", "?", "n/a", "unknown"], Way.INDEX_1),
        (["A", "B", 0, 2], Way.ANY_0),
        (["A", "B", 1, 3], Way.ANY_1),
        (["A", "B", 1, 2], Way.ANY),
        (["A", "B", 0, 3], Way.ANY),
        (["2.0", 0.0], Way.INDEX_0),
        (["A", "green", "B", "blue"], Way.ANY),
        ([None, "", -1], Way.ANY),
        ([[0, 2], [1]], Way.INDEX_0),
        ([[0, 2], [0, 1, 2]], Way.INDEX_0),
        ([[0, 1, 0], [1, 0, 0]], Way.FLAGS),
        ([["0", "1", "0"], [0.0, 0.0, 1.0], [True, False, True]], Way.FLAGS),
        (["A,C", "B"], Way.LABEL),
    ],
)
def test_a_files_answers_show_together_how_they_are_meant(answers: list[object], way: Way) -> None:
    assert settle([Given(each, COLORS) for each in answers], ALL) is way


def test_one_bad_answer_does_not_change_how_the_others_are_meant() -> None:
    given = [Given(str(n % 3), COLORS) for n in range(30)] + [Given("3", COLORS)]

    assert settle(given, ALL) is Way.INDEX_0


def test_numbers_that_may_count_from_0_or_from_1_are_refused_unless_it_is_usual_where_they_stand() -> None:
    given = [Given(each, COLORS) for each in (1, 2)]

    with pytest.raises(FieldTrouble, match="may count from 0 or from 1") as caught:
        settle(given, ALL)

    assert "--map base=0 or --map base=1" in caught.value.hint
    assert settle(given, ALL, Way.INDEX_0) is Way.INDEX_0
    assert settle(given, (Way.INDEX_0, Way.INDEX_1)) is Way.INDEX_0
    assert settle(given, (Way.INDEX_1, Way.LABEL, Way.TEXT)) is Way.INDEX_1


def test_what_the_numbers_among_letters_count_from_is_as_the_person_says() -> None:
    given = [Given(each, COLORS) for each in ("A", "B", "C", "A", 1)]

    way = settle(given, (Way.INDEX_1, Way.LABEL, Way.TEXT))

    assert way is Way.ANY_1
    assert [right_labels(each, way) for each in given[-2:]] == [("A",), ("A",)]


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_number_among_letters_is_refused_where_nothing_shows_what_it_counts_from(number: int) -> None:
    with pytest.raises(FieldTrouble, match=r"ambiguous: by index from 0 .* and by index from 1") as caught:
        right_labels(Given(number, COLORS), Way.ANY)

    assert "--map base=0 or --map base=1" in caught.value.hint


@pytest.mark.parametrize("way", [Way.LABEL, Way.ANY])
def test_capitals_that_are_a_choice_are_that_choice_and_no_list_of_labels(way: Way) -> None:
    assert right_labels(Given("AB", ["A", "B", "AB", "O"]), way) == ("C",)
    assert right_labels(Given("AB", ["AA", "AB", "BB", "AC"]), way) == ("B",)


def test_a_letter_names_a_choice_that_is_numbered() -> None:
    assert right_labels(Given("B", COLORS, ["1", "2", "3"]), Way.LABEL) == ("B",)
    assert right_labels(Given("3", COLORS, ["1", "2", "3"]), Way.LABEL) == ("C",)


def test_numbers_that_are_choices_and_indices_are_neither() -> None:
    given = [Given("1", ["1", "0"]), Given("0", ["1", "0"])]

    assert settle(given, ALL) is Way.ANY
    with pytest.raises(FieldTrouble, match="ambiguous"):
        right_labels(given[0], Way.ANY)


@pytest.mark.parametrize(
    ("answers", "choices"),
    [
        ([2.0, 0.0], ["2.0", "0.0", "1.0", "3.0"]),
        (["2", "0"], ["2.0", "0.0", "1.0", "3.0"]),
        ([2.0, 0.0], ["2", "0", "1", "3"]),
        ([2, 0], ["2", "0", "1", "3"]),
    ],
)
def test_numbers_that_are_choices_and_indices_are_neither_with_or_without_a_decimal_point(
    answers: list[object], choices: list[str]
) -> None:
    given = [Given(each, choices) for each in answers]

    assert settle(given, ALL) is Way.ANY
    with pytest.raises(FieldTrouble, match="ambiguous"):
        right_labels(given[0], Way.ANY)


def test_a_number_is_the_choice_that_reads_so_however_many_decimals_it_has() -> None:
    choices = ["2", "2.0", "2.5"]

    assert [right_labels(Given(each, choices), Way.TEXT) for each in (2, 2.0, 2.5)] == [("A",), ("B",), ("C",)]
    assert settle([Given(2.5, choices), Given(2.0, choices)], ALL) is Way.TEXT


def test_numbers_count_as_their_columns_do() -> None:
    options = [Given(2, COLORS, ["1", "2", "3"]), Given(1, COLORS, ["1", "2", "3"])]

    assert settle(options, ALL) is Way.LABEL
    assert right_labels(options[0], Way.LABEL) == ("B",)


@pytest.mark.parametrize(
    ("answer", "labels", "way", "right"),
    [
        ("B", None, Way.LABEL, ("B",)),
        ("3", ["1", "2", "3"], Way.LABEL, ("C",)),
        ("c) blue", None, Way.LABEL, ("C",)),
        ("Ｃ", None, Way.LABEL, ("C",)),
        ("１", ["1", "2", "3"], Way.LABEL, ("A",)),
        ("The correct answer is 2) green.", ["1", "2", "3"], Way.LABEL, ("B",)),
        ("A and C", None, Way.LABEL, ("A", "C")),
        ("AC", None, Way.LABEL, ("A", "C")),
        ("['A', 'C']", None, Way.LABEL, ("A", "C")),
        (["c", "a"], None, Way.LABEL, ("A", "C")),
        (["red", "blue"], None, Way.TEXT, ("A", "C")),
        (["red", "blue"], None, Way.ANY, ("A", "C")),
        ([0, 1, 0], ["0", "1", "2"], Way.FLAGS, ("B",)),
        ([1, 0, True], None, Way.FLAGS, ("A", "C")),
        ("RED", None, Way.ANY, ("A",)),
        ("blue", None, Way.LABEL, ("C",)),
        (1, None, Way.INDEX_1, ("A",)),
        ([], None, Way.LABEL, ()),
        ("", None, Way.INDEX_0, ()),
        (float("nan"), None, Way.INDEX_0, ()),
    ],
)
def test_an_answer_names_one_choice_or_several(
    answer: object, labels: list[str] | None, way: Way, right: tuple[str, ...]
) -> None:
    assert right_labels(Given(answer, COLORS, labels), way) == right


SIGNED = [" -1 ", "5", "x"]


@pytest.mark.parametrize(
    ("answers", "right"),
    [
        (["-1", "5", "x"], [("A",), ("B",), ("C",)]),
        ([-1, 5], [("A",), ("B",)]),
        (["-1", "-1"], [("A",), ("A",)]),
        (["0", "2", "1", "-1"], [("A",), ("C",), ("B",), ()]),
        ([0, 2, 1, -1], [("A",), ("C",), ("B",), ()]),
    ],
)
def test_minus_one_is_the_choice_that_reads_so_unless_the_others_are_indices(
    answers: list[object], right: list[tuple[str, ...]]
) -> None:
    given = [Given(each, SIGNED) for each in answers]

    way = settle(given, ALL)

    assert [right_labels(each, way) for each in given] == right


def test_minus_one_is_no_key_where_no_choice_reads_so() -> None:
    given = [Given("-1", SIGNED), Given("-1", COLORS), Given("green", COLORS)]

    way = settle(given, ALL)

    assert [right_labels(each, way) for each in given] == [("A",), (), ("B",)]


@pytest.mark.parametrize(
    ("answer", "way"),
    [
        ("D", Way.LABEL),
        ("C) red", Way.LABEL),
        ("0", Way.INDEX_1),
        (4, Way.ANY_0),
        (3, Way.INDEX_0),
        ("CA", Way.LABEL),
        (["A", "Z"], Way.LABEL),
        (True, Way.INDEX_0),
        ({"a": 1}, Way.ANY),
        ("yellow", Way.ANY),
        (float("inf"), Way.ANY),
    ],
)
def test_an_answer_that_the_files_way_does_not_explain_is_refused(answer: object, way: Way) -> None:
    with pytest.raises(FieldTrouble, match="names no choice"):
        right_labels(Given(answer, COLORS), way)


@pytest.mark.parametrize(
    ("letter", "called"),
    [("А", "CYRILLIC CAPITAL LETTER A"), ("В", "CYRILLIC CAPITAL LETTER VE"), ("Α", "GREEK CAPITAL LETTER ALPHA")],
)
def test_a_letter_that_only_looks_like_a_label_is_refused_by_its_name(letter: str, called: str) -> None:
    with pytest.raises(FieldTrouble) as in_a_table:
        right_labels(Given(letter, COLORS), Way.LABEL)
    with pytest.raises(FieldTrouble) as in_ours:
        answer_label(letter, COLORS)

    assert in_a_table.value.message == in_ours.value.message == f"'{letter}' ({called}) names no choice."


#: A question of our own layout, for files and the HTTP door.
CHOICES = ["red", "green", "1"]


def in_a_file(answer: object) -> tuple[str, ...] | str:
    """Labels of the right choices, or what is said against the answer."""
    fields = {"question": "Which?", "choices": CHOICES, "answer": answer}
    row = to_row(Record(1, fields, fields), OWN, Key(Way.ANY), "q.jsonl")
    return row.question.right if row.question else str(row.trouble)


def over_http(answer: Any) -> tuple[str, ...] | str:
    try:
        return QuestionIn(question="Which?", choices=CHOICES, answer=answer).to_question().right
    except FieldTrouble as trouble:
        return f"q.jsonl:1: field {trouble.field!r}: {trouble.message} {trouble.hint}".rstrip()


@pytest.mark.parametrize("answer", [None, "B", "b", 0, 2, "green", "1", " red ", ["A", "green"], ["A", 2]])
def test_over_http_an_answer_means_what_it_means_in_a_file(answer: object) -> None:
    assert over_http(answer) == in_a_file(answer)
    assert isinstance(in_a_file(answer), tuple)


@pytest.mark.parametrize("answer", ["D", "2", "", 3, -1, ["A", "Z"], ["A", "A"], [0, 1, 0]])
def test_what_names_no_choice_is_refused_over_http_in_the_words_that_a_file_is_refused_in(answer: object) -> None:
    told = in_a_file(answer)
    assert isinstance(told, str)
    for of_file, of_request in zip(IN_FILE, IN_REQUEST, strict=True):  # a request has no options
        told = told.replace(of_file, of_request)
    assert over_http(answer) == told


def test_over_http_true_is_no_index() -> None:
    with pytest.raises(ValidationError):
        over_http(answer=True)
