"""Choices inside a text: what belongs to a choice, and what only looks like the next one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.layout_files import lines
from producer.readers.inline import split_choices
from producer.readers.record import FieldTrouble
from tests.unit.producer.readers.reading import questions, read


def choices_of(text: str) -> tuple[str, ...] | None:
    found = split_choices(text)
    return found.choices if found else None


@pytest.mark.parametrize(
    "text",
    [
        "Which is a noble gas? (A) helium (B) neon (C) Both (A) and (B) (D) None of these",
        "Which is a noble gas? A) helium B) neon C) Both A) and B) D) None of these",
        "Which is a noble gas? (1) helium (2) neon (3) Both (1) and (2) (4) None of these",
    ],
)
def test_a_choice_that_names_others_on_the_same_line_is_one_choice(text: str) -> None:
    found = split_choices(text)
    assert found is not None
    assert found.stem == "Which is a noble gas?"
    assert [each.replace("(", "").replace(")", "") for each in found.choices][0::3] == ["helium", "None of these"]
    assert len(found.choices) == 4


def test_a_choice_may_begin_with_a_mark_of_its_own() -> None:
    assert choices_of("Which is heavier? A) 1) iron 2) gold B) 1) gold 2) iron") == (
        "1) iron 2) gold",
        "1) gold 2) iron",
    )


def test_a_stem_may_end_with_a_mark_of_its_own() -> None:
    assert choices_of("Find the slope in part (a) (A) 3 (B) 4") == ("3", "4")


def test_choices_in_two_columns_are_refused_rather_than_joined() -> None:
    assert split_choices("Best? (1) breeding (3) cloning (2) engineering (4) replication") is None


def test_a_choice_behind_a_bullet_may_have_several_lines_but_the_last_one_ends_where_the_prompt_goes_on() -> None:
    """Of a choice on two lines only the first was read, and the question was asked with half of it."""
    found = split_choices("Is it red?\nOptions:\n- Yes,\n  it is\n* No\n\nA: ")
    assert found is not None
    assert (found.stem, found.labels, found.choices) == ("Is it red?", ("1", "2"), ("Yes,\n  it is", "No"))
    assert split_choices("Is it red?\nOptions:\n- Yes") is None


@pytest.mark.parametrize("separator", ["; ", ", ", " | ", " / ", " - ", "； "])
def test_what_separates_choices_on_one_line_is_no_part_of_them(separator: str) -> None:
    assert choices_of(separator.join(["Which is a city? A) Lyon", "B) Paris", "C) Nice"])) == ("Lyon", "Paris", "Nice")


def test_what_also_ends_the_last_choice_or_not_all_others_is_part_of_them() -> None:
    assert choices_of("Which? A) x; B) y; C) z;") == ("x;", "y;", "z;")
    assert choices_of("Which? A) 1, B) 2 C) 3") == ("1,", "2", "3")


@pytest.mark.parametrize(
    "text",
    [
        "Which? A) see B) below B) x C) y",
        "Which? A) x B) see C) below C) y",
        "Who? A. George B. Shaw B. Yeats C. Joyce",
        "Who? A. Franklin D. Roosevelt B. Lyndon B. Johnson C. Nixon D. Ford",
        "It is called a: a: histone b: chromatin c: solenoid",
    ],
)
def test_choices_of_which_two_could_begin_with_the_same_mark_are_refused(text: str) -> None:
    """The first one was taken, and the choices were cut wrongly."""
    with pytest.raises(FieldTrouble, match="is there twice") as refused:
        split_choices(text)
    assert refused.value.field == "choices"
    assert "on a line of its own" in refused.value.hint


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ("\nA) red\nB) blue\nC. green\nD) grey", "'C.' comes after 'B)'"),
        ("\nA) red\nB) blue\nc) green\nD) grey", "'c)' comes after 'B)'"),
        ("\nA. red\nB. blue\nC.green", "'C.' comes after 'B.'"),
        ("\nA) red\nB) blue\nC ) green", "'C )' comes after 'B)'"),
        ("\nA. red\nB. blue\nD. grey", "'D.' comes after 'B.'"),
        ("\n1. red\n2. blue\n4. grey", "'4.' comes after '2.'"),
        (" A) red B) blue D) grey", "'D)' comes after 'B)'"),
        (" (A) red, (B) blue, (C) green, (E) grey", "'(E)' comes after '(C)'"),
        (" A. red B. blue C) green D. grey", "'C)' comes after 'B.'"),
    ],
)
def test_a_list_in_which_a_mark_is_missing_or_mistyped_is_refused(choices: str, told: str) -> None:
    """The choices behind it were taken for the end of the one before, and not scored."""
    with pytest.raises(FieldTrouble, match="cannot be told apart") as refused:
        split_choices(f"Which colour?{choices}")
    assert told in str(refused.value)


@pytest.mark.parametrize("last", ["E. coli", "vitamin K. Some", "both 4) and 5)", "I. and II."])
def test_the_last_choice_may_hold_marks_that_are_none_of_the_next(last: str) -> None:
    assert choices_of(f"Which? A) one B) two C) three D) {last}") == ("one", "two", "three", last)


def test_on_lines_of_their_own_such_choices_are_read() -> None:
    assert choices_of("Which?\nA) see B) below\nB) x\nC) y") == ("see B) below", "x", "y")


@pytest.mark.parametrize(
    "choices",
    [
        " A) both B) 1 only C) 2 only D) neither",
        " Which? 1) both 2) the first 3) the second",
        "\nWhich? 1) both 2) the first 3) the second",
        "\nWhich? 1. both 2. the first 3. the second",
    ],
)
def test_statements_above_choices_on_one_line_are_refused_rather_than_taken_for_choices(choices: str) -> None:
    """Where both were numbered, a key `1` or `2` named one of the statements."""
    with pytest.raises(FieldTrouble, match="choice 2 contains a list of its own"):
        split_choices(f"Are they true?\n1. Iron rusts.\n2. Gold rusts.{choices}")


def test_the_last_choice_may_be_followed_by_numbers_that_are_no_list() -> None:
    assert choices_of("How much?\nA) 2.5 g\nB) about\n1. 5 g") == ("2.5 g", "about\n1. 5 g")


@pytest.mark.parametrize("last", ["first 1) heat it 2) cool it", "both 1) and 2)", "a) and b)"])
def test_the_last_choice_may_number_what_it_consists_of(last: str) -> None:
    assert choices_of(f"What next?\nA) nothing\nB) {last}") == ("nothing", last)


@pytest.mark.parametrize("choice", ["P(A ∪ B) is 1", "x (see part B)", "f(x, C) and P(A | B)"])
def test_what_closes_a_bracket_is_no_mark(choice: str) -> None:
    assert choices_of(f"Which? A) {choice} B) y C) z") == (choice, "y", "z")


def test_a_bracket_that_is_left_open_hides_no_mark() -> None:
    assert choices_of("Is it balanced? ) ( ( A) yes B) no") == ("yes", "no")


def test_a_mark_that_may_be_in_brackets_or_not_is_refused() -> None:
    with pytest.raises(FieldTrouble, match="in brackets"):
        split_choices("Which? A) tired B) sad :( C) glad")


@pytest.mark.parametrize(
    ("options", "choices"),
    [
        ("a ) 38 , b ) 27.675 , c ) 30", ("38", "27.675", "30")),
        ("A ) x + y , B ) ( a ) or ( b )", ("x + y", "( a ) or ( b )")),
        ("a ) 3 , b ) 4 , c ) 5, d ) 6", ("3", "4", "5", "6")),
    ],
)
def test_choices_in_one_text_are_parted_at_marks_that_follow_a_comma(
    tmp_path: Path, options: str, choices: tuple[str, ...]
) -> None:
    (question,) = questions(read(tmp_path, lines({"Problem": "q", "options": options, "correct": "b"})))

    assert (question.choices, question.answer) == (choices, "B")


@pytest.mark.parametrize("options", ["a ) , b ) 4", "a ) 3", "3 , b ) 4 , c ) 5", "none"])
def test_a_text_that_is_no_list_of_choices_is_a_bad_row(tmp_path: Path, options: str) -> None:
    (row,) = read(tmp_path, lines({"Problem": "q", "options": options, "correct": "b"}), name="file.jsonl").rows()

    assert "'choices'" in str(row.trouble)


def test_choices_in_a_question_that_cannot_be_told_apart_are_refused_with_a_remedy(tmp_path: Path) -> None:
    rows = [{"question": text, "answer": "A"} for text in ("Which? A) x B) y", "Which? A) see B) below B) x C) y")]

    good, bad = read(tmp_path, lines(*rows)).rows()

    assert good.question is not None
    told = "file:2: field 'choices': they cannot be told apart: 'B)' is there twice in 'Which? A) see B) below"
    assert str(bad.trouble).startswith(told)
    assert "Put each choice on a line of its own, or all into a list." in str(bad.trouble)


@pytest.mark.parametrize(
    "end",
    [
        "\nAnswer:",
        "\n\n Answer : ",
        "\r\nANSWER: (",
        "\nThe answer is",
        "\nThe correct answer is: [",
        "\nCorrect answer:\n",
        "\nThe best option is:",
        "\n答案：",
        "\n答:",
        "\n正确答案是：（",
        "\nDie richtige Antwort lautet:",
        "\nRéponse\u00a0:",
        "\nLa respuesta correcta es:",
        "\nRisposta:",
        "\nA resposta correta é:",
        "\nOdpowiedź:",
        "\nОтвет:",
    ],
)
@pytest.mark.parametrize("choices", ["\nA) red\nB) seven", " (A) red (B) seven"])
def test_the_line_that_a_prompt_ends_with_is_none_of_its_last_choice(tmp_path: Path, choices: str, end: str) -> None:
    asked = {"input": [{"role": "user", "content": f"Which?{choices}{end}"}], "ideal": "B"}
    kept = {"question": f"Which?{choices}{end}", "answer": "B"}

    for row in (asked, kept):
        (question,) = questions(read(tmp_path, lines(row)))
        assert (question.question, question.choices, question.right) == ("Which?", ("red", "seven"), ("B",))


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ("\nA) red\nB) seven answer:", ("red", "seven answer:")),
        ("\nA) red\nB) seven\nThe answer: eight", ("red", "seven\nThe answer: eight")),
        ("\nA) red\nB) seven\nShe gave no answer:", ("red", "seven\nShe gave no answer:")),
        ("\nA) red\nB) seven\nAnswer", ("red", "seven\nAnswer")),
        ("\nA) Question:\nB) Answer:", ("Question:", "Answer:")),
        ("\nA) Question:\nB)\nAnswer:", ("Question:", "Answer:")),
        ("\nA) red\nAnswer:\nB) seven\nAnswer:", ("red\nAnswer:", "seven\nAnswer:")),
        ("\nA) red\nAnswer:\nB) seven", ("red\nAnswer:", "seven")),
    ],
)
def test_what_a_choice_itself_says_of_an_answer_stays(tmp_path: Path, choices: str, expected: tuple[str, ...]) -> None:
    (question,) = questions(read(tmp_path, lines({"question": f"Which?{choices}", "answer": "B"})))

    assert question.choices == expected


def test_an_open_question_among_them_is_refused_with_its_line(tmp_path: Path) -> None:
    rows = [{"question": "Which?\nA) red\nB) seven", "answer": "A"}, {"question": "And who?", "answer": "Ann"}]

    good, bad = read(tmp_path, json.dumps(rows, indent=1)).rows()

    assert good.question
    assert "file:6: field 'choices': no choices in the text 'And who?'" in str(bad.trouble)
