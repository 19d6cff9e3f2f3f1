"""Fields named gold, which hold passages that answer in some files and the answer in others."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.layout_files import lines
from contract.errors import QuestionFileError
from tests.unit.producer.readers.reading import questions, read


@pytest.mark.parametrize("name", ["gold", "gold_passages"])
def test_ids_of_passages_that_answer_are_kept_as_such(tmp_path: Path, name: str) -> None:
    row = {"question": "q", "choices": ["x", "y"], "answer": 0, name: ["p1", "p2"]}
    other = {"query": "q", "options": ["x", "y"], "answer": 0, name: ["p1", "p2"]}

    (own,), (named,) = questions(read(tmp_path, lines(row))), questions(read(tmp_path, lines(other)))

    assert own.gold_passages == named.gold_passages == ("p1", "p2")


@pytest.mark.parametrize(
    ("found", "ids"),
    [("p1", ("p1",)), (59, ("59",)), ([1, "p2"], ("1", "p2")), ('["p1", 2]', ("p1", "2")), ("[draft", ("[draft",))],
)
def test_gold_passages_may_be_one_id_a_number_or_a_list_in_a_text(
    tmp_path: Path, found: object, ids: tuple[str, ...]
) -> None:
    row = {"question": "q", "choices": ["x", "y"], "answer": 0, "gold_passages": found}
    other = {"query": "q", "options": ["x", "y"], "answer": 0, "gold_passages": found}
    for read_row in (row, other):
        (question,) = questions(read(tmp_path, lines(read_row)))
        assert question.gold_passages == ids


@pytest.mark.parametrize(("found", "ids"), [(59.0, ("59",)), ([1.0, 2.0], ("1", "2"))])
def test_gold_passages_that_became_floats_are_the_numbers_that_they_were(
    tmp_path: Path, found: object, ids: tuple[str, ...]
) -> None:
    """As in a column of a data frame with an empty cell: they were metadata, and no question named its source."""
    for row in ({"question": "q", "choices": ["x", "y"]}, {"query": "q", "options": ["x", "y"]}):
        (question,) = questions(read(tmp_path, lines({**row, "answer": 0, "gold_passages": found})))
        assert (question.gold_passages, question.metadata) == (ids, {})


def test_gold_passages_in_a_table_are_taken(tmp_path: Path) -> None:
    cells = ["p1", '"[""p1"", ""p2""]"', "", "59", "\"['p1', 'p2']\"", "[p1]"]
    rows = "".join(f"q{at},x,y,A,{cell}\n" for at, cell in enumerate(cells))
    found = [
        each.gold_passages for each in questions(read(tmp_path, f"question,A,B,answer,gold_passages\n{rows}", "q"))
    ]
    assert found == [("p1",), ("p1", "p2"), (), ("59",), ("p1", "p2"), ("[p1]",)]


def test_a_gold_list_of_numbers_is_the_answer(tmp_path: Path) -> None:
    rows = [{"query": "q", "choices": ["(A)x", "(B)y"], "gold": [n]} for n in (1, 0)]

    assert [each.right for each in questions(read(tmp_path, lines(*rows)))] == [("B",), ("A",)]


@pytest.mark.parametrize("listed", [(["B"], ["A"]), (["y"], ["x"]), (["B", "C"], ["A"]), ("B", ["A"]), (["B"], "A")])
def test_gold_lists_that_name_choices_are_the_answer_where_there_is_no_other(
    tmp_path: Path, listed: tuple[list[str] | str, ...]
) -> None:
    """It was taken for passages, and the file had no key."""
    rows = [{"question": f"q{at}", "options": ["x", "y", "z"], "gold": gold} for at, gold in enumerate(listed)]
    file = read(tmp_path, lines(*rows))

    assert file.fields.answer == ("gold",)
    assert [each.right[0] for each in questions(file)] == ["B", "A"]
    assert [each.gold_passages for each in questions(file)] == [(), ()]


def test_a_gold_list_that_names_no_choice_is_refused_where_the_others_do(tmp_path: Path) -> None:
    rows = [{"question": f"q{at}", "options": ["x", "y"], "gold": ["B" if at else "p1"]} for at in range(20)]

    bad, *good = read(tmp_path, lines(*rows)).rows()

    assert "['p1'] names no choice" in str(bad.trouble)
    assert [row.question.right for row in good if row.question] == [("B",)] * 19


def test_gold_lists_of_which_only_some_name_choices_are_refused_until_the_user_says_what_they_are(
    tmp_path: Path,
) -> None:
    """One label too many in a file of two rows, and the lists were passages, and the file had no key."""
    rows = [{"question": f"q{at}", "options": ["x", "y"], "gold": gold} for at, gold in enumerate((["B"], ["C"]))]

    with pytest.raises(QuestionFileError, match="names choices in 1 of 2 rows") as refused:
        read(tmp_path, lines(*rows))
    assert (refused.value.line, refused.value.field) == (1, "gold")
    assert "--map answer=gold" in str(refused.value)
    assert "--map gold_passages=gold" in str(refused.value)

    one, two = read(tmp_path, lines(*rows), mapping={"answer": "gold"}).rows()
    assert one.question is not None
    assert one.question.right == ("B",)
    assert "['C'] names no choice" in str(two.trouble)
    passages = questions(read(tmp_path, lines(*rows), mapping={"gold_passages": "gold"}))
    assert [each.gold_passages for each in passages] == [("B",), ("C",)]


def test_passages_of_a_mapped_field_are_said_to_be_from_that_field(tmp_path: Path) -> None:
    """They were said to be from `gold_passages`, which no field of the file was called."""
    row = {"question": "q", "options": ["x", "y"], "answer": "x", "gold": ["p1"], "relevant": ["p2"]}

    file = read(tmp_path, lines(row), mapping={"gold_passages": "relevant"})

    assert [each.gold_passages for each in questions(file)] == [("p2",)]
    assert file.fields.gold_passages == ("relevant",)
    assert "gold passages ← relevant" in file.fields.describe()


def test_a_gold_list_of_passages_is_no_answer(tmp_path: Path) -> None:
    rows = [{"question": f"q{at}", "options": ["x", "y"], "gold": gold} for at, gold in enumerate((["p1"], ["1", "0"]))]

    found = questions(read(tmp_path, lines(*rows)))

    assert [(each.right, each.gold_passages) for each in found] == [((), ("p1",)), ((), ("1", "0"))]
