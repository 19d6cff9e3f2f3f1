"""The layouts that the field's files have: each is recognised by its content and read as what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.layout_files import CASES, lines
from contract.errors import InputError, QuestionFileError
from contract.question import Question, question_hash
from producer.intake.selection import Selection
from producer.intake.survey import survey
from producer.readers import HowToRead, QuestionFile, Source, understand


def read(folder: Path, content: str | bytes, name: str = "file", **how: Any) -> QuestionFile:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return understand(Source(path, name, HowToRead(**how)))


def questions(file: QuestionFile) -> list[Question]:
    rows = list(file.rows())
    assert [str(row.trouble) for row in rows if row.trouble] == []
    return [row.question for row in rows if row.question]


@pytest.mark.parametrize("name", CASES)
def test_a_layout_is_recognised_by_its_content_and_read(tmp_path: Path, name: str) -> None:
    case = CASES[name]

    file = read(tmp_path, case.content)

    assert (file.layout.name, file.title) == (case.layout, case.title)
    found = [(each.question, list(each.choices), "".join(each.right)) for each in questions(file)]
    assert found == case.questions


#: Case → what is told of its fields.
FIELDS = {
    "own": "question ← question · choices ← choices · answer ← answer · id ← none",
    "ARC": "question ← stem · choices ← choices · answer ← answerKey · id ← id",
    "CommonsenseQA, no key": "question ← stem · choices ← choices · answer ← none · id ← id",
    "CMMLU": "question ← Question · choices ← A, B, C, D · answer ← Answer · id ← none",
    "SciQ": "question ← question · choices ← correct_answer, distractor1, distractor2, distractor3"
    " · answer ← correct_answer · id ← none · context ← support",
    "MedQA": "question ← question · choices ← options · answer ← answer_idx (also there: answer) · id ← none",
    "PubMedQA": "question ← QUESTION · answer ← final_decision · id ← the key of each question · context ← CONTEXTS",
    "BoolQ": "question ← question · answer ← answer · id ← none · context ← passage",
    "TruthfulQA": "question ← question · choices ← mc1_targets · answer ← mc1_targets · id ← none",
    "TruthfulQA CSV": "question ← Question · choices ← Best Answer, Incorrect Answers · answer ← Best Answer"
    " · id ← none · subject ← Category",
    "BIG-bench on the hub": "question ← inputs · choices ← multiple_choice_targets · answer ← multiple_choice_scores"
    " · id ← none",
    "the predecessor's": "question ← question · choices ← question · answer ← answer · id ← none · context ← text",
    "instruction": "question ← instruction · choices ← instruction · answer ← answer · id ← none",
    "chat": "question ← input · choices ← input · answer ← ideal · id ← none",
}


@pytest.mark.parametrize("name", FIELDS)
def test_it_is_told_which_fields_were_taken_for_what(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, CASES[name].content).fields.describe() == FIELDS[name]


def test_mapped_fields_are_told_by_the_names_that_the_file_has_for_them(tmp_path: Path) -> None:
    mapping = {"question": "t", "choices": "one+two", "answer": "k", "base": "1"}

    file = read(tmp_path, "t,one,two,k,label\nq,x,y,2,A\n", mapping=mapping)

    assert file.fields.describe() == "question ← t · choices ← one, two · answer ← k (also there: label) · id ← none"


def test_the_fields_of_id_subject_and_context_are_told_as_the_file_spells_them(tmp_path: Path) -> None:
    own = {"subject": "s", "context": "c", "question": "q", "choices": ["x", "y"], "answer": "A"}
    usual = {"qid": 7, "Category": "s", "Passage": "p", "Query": "q", "options": ["x", "y"], "label": "A"}
    empty = {**own, "id": None, "subject": None, "context": None}

    told = {
        name: read(tmp_path, lines(row, row | {name: 9})).fields.describe().partition(" · id ← ")[2]
        for name, row in (("id", own | {"id": 8}), ("qid", usual), ("level", empty))
    }

    assert told == {
        "id": "id · subject ← subject · context ← context",
        "qid": "qid · subject ← Category · context ← Passage",
        "level": "none",
    }


def test_a_column_of_numbers_that_is_not_taken_as_id_is_seen_by_id_none_until_it_is_mapped(tmp_path: Path) -> None:
    table = "No.,unit,question,A,B,key,one,two\n1,u,q,x,y,B,a,b\n2,u,r,x,y,A,c,d\n"

    alone = read(tmp_path, table)
    mapped = read(tmp_path, table, mapping={"id": "No.", "subject": "unit", "context": "one+two"})

    assert alone.fields.describe().endswith(" · answer ← key · id ← none")
    assert mapped.fields.describe().endswith(" · answer ← key · id ← No. · subject ← unit · context ← one, two")
    assert [(each.id, each.context) for each in questions(mapped)] == [("1", "a\n\nb"), ("2", "c\n\nd")]


@pytest.mark.parametrize("name", CASES)
def test_every_layout_can_be_forced_by_its_name(tmp_path: Path, name: str) -> None:
    case = CASES[name]

    file = read(tmp_path, case.content, layout=case.layout)

    assert ["".join(each.right) for each in questions(file)] == [right for _, _, right in case.questions]


def test_our_own_names_in_capitals_are_understood_too(tmp_path: Path) -> None:
    (question,) = questions(read(tmp_path, 'Question,Choices,Answer\nq,"[""x"", ""y""]",B\n'))

    assert (question.choices, question.answer) == (("x", "y"), "B")


@pytest.mark.parametrize(
    "row",
    [
        {"question": "q\nA) x\nB) y", "answer": "\ud800"},
        {"inputs": "q", "multiple_choice_targets": [["x"], "y"], "multiple_choice_scores": [0, 1]},
        {"inputs": "q", "multiple_choice_targets": ["x", "y"], "multiple_choice_scores": [1]},
        {"input": 5, "ideal": "A"},
    ],
)
def test_nonsense_under_known_names_is_refused_row_by_row(tmp_path: Path, row: dict[str, Any]) -> None:
    assert all(each.trouble for each in read(tmp_path, lines(row, row)).rows())


def test_a_forced_layout_that_does_not_fit_is_refused_row_by_row(tmp_path: Path) -> None:
    (row, _) = read(tmp_path, CASES["own"].content, layout="medmcqa").rows()

    assert "field 'cop': missing" in str(row.trouble)


def test_every_question_of_an_article_has_the_article_and_an_id_of_its_own(tmp_path: Path) -> None:
    first, second = questions(read(tmp_path, CASES["RACE"].content))

    assert (first.id, second.id) == ("high7.txt-1", "high7.txt-2")
    assert first.context == second.context == "Red is a colour, and two and two is four."
    assert (first.subject, first.metadata) == (None, {})


def test_articles_stand_among_each_other_in_any_json(tmp_path: Path) -> None:
    article = json.loads(CASES["RACE"].content)
    other = {name: value for name, value in article.items() if name not in {"id", "answers"}}
    for content in (json.dumps([article, other], indent=1), lines(article, other)):
        found = questions(read(tmp_path, content))
        assert [each.answer for each in found] == ["A", "B", None, None]
        assert [each.id for each in found[:2]] == ["high7.txt-1", "high7.txt-2"]
    keyed = questions(read(tmp_path, json.dumps({"one": other, "two": other})))
    assert [each.id for each in keyed] == ["one-1", "one-2", "two-1", "two-2"]


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("options", [["x", "y"]], "field 'options': found 1 for 2 questions"),
        ("answers", ["A"], "field 'answers': found 1 for 2 questions"),
        ("answers", 5, "field 'answers': found 0 for 2 questions"),
    ],
)
def test_an_article_whose_lists_do_not_match_is_one_bad_row(
    tmp_path: Path, field: str, value: object, told: str
) -> None:
    article = json.loads(CASES["RACE"].content)

    *good, bad = read(tmp_path, lines(article, {**article, field: value})).rows()

    assert [row.trouble for row in good] == [None, None]
    assert (len(good), bad.line, bad.question) == (2, 2, None)
    assert told in str(bad.trouble)
    assert bad.raw == {**article, field: value}, "what rejected.jsonl has of it can be mended"


def test_a_bad_question_of_an_article_is_refused_alone(tmp_path: Path) -> None:
    article = json.loads(CASES["RACE"].content) | {"answers": ["A", "Z"]}

    good, bad = read(tmp_path, lines(article)).rows()

    assert good.question is not None
    assert "'Z' names no choice" in str(bad.trouble)
    assert bad.raw["question"] == "What is two and two?", "the question that is bad, and not its article's others"


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


def test_what_begins_a_choice_is_no_mark_if_without_it_two_choices_are_the_same(tmp_path: Path) -> None:
    row = {"question": "Which ratio?", "options": ["4: 1", "2: 1", "1: 2", "3: 1"], "answer": "2: 1"}

    (question,) = questions(read(tmp_path, lines(row)))

    assert (question.choices, question.answer) == (("4: 1", "2: 1", "1: 2", "3: 1"), "B")


def test_empty_choices_at_the_end_are_left_out_and_one_before_others_is_refused(tmp_path: Path) -> None:
    full = {"question": "p", "options": {"A": "1", "B": "2", "C": "3"}, "answer_idx": 0}
    three = {"question": "q", "options": {"A": "1", "B": "2", "C": "3", "D": None}, "answer_idx": 2}
    hole = {"question": "r", "options": {"A": "1", "B": None, "C": "3", "D": "4"}, "answer_idx": 2}

    _, good, bad = read(tmp_path, lines(full, three, hole), name="file.jsonl").rows()

    assert good.question is not None
    assert (good.question.choices, good.question.answer) == (("1", "2", "3"), "C")
    assert "choice B is empty" in str(bad.trouble), "with it left out, index 2 is another choice"


@pytest.mark.parametrize("options", ["a ) , b ) 4", "a ) 3", "3 , b ) 4 , c ) 5", "none"])
def test_a_text_that_is_no_list_of_choices_is_a_bad_row(tmp_path: Path, options: str) -> None:
    (row,) = read(tmp_path, lines({"Problem": "q", "options": options, "correct": "b"}), name="file.jsonl").rows()

    assert "'choices'" in str(row.trouble)


def test_an_unknown_layout_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Did you mean 'medmcqa'"):
        read(tmp_path, CASES["own"].content, layout="medmcq")


def test_truthfulqa_has_several_right_answers_if_asked_so(tmp_path: Path) -> None:
    (question,) = questions(read(tmp_path, CASES["TruthfulQA"].content, layout="truthfulqa-mc2"))

    assert {question.choice_text(label) for label in question.right} == {"four", "twice two"}


@pytest.mark.parametrize(
    "row",
    [
        {"inputs": "q", "multiple_choice_targets": ["x", "y", "x"], "multiple_choice_scores": [1, 0, 0]},
        {"question": "q", "mc1_targets": {"choices": ["x", "y", "x"], "labels": [1, 0, 0]}},
    ],
)
def test_a_choice_that_is_listed_as_right_and_as_wrong_is_refused(tmp_path: Path, row: dict[str, Any]) -> None:
    (found,) = read(tmp_path, lines(row)).rows()

    assert "'x' is listed twice, as 1 and as 0" in str(found.trouble)


def test_a_question_beside_a_chat_is_not_asked_instead_of_it(tmp_path: Path) -> None:
    asked = [{"role": "user", "content": "What?\nA) x\nB) y"}]

    (found,) = questions(read(tmp_path, lines({"input": asked, "ideal": "B", "question": "Why?\nA) z\nB) u"})))

    assert (found.question, found.choices) == ("What?", ("x", "y"))


@pytest.mark.parametrize("wrong", [["a; b", "c"], "['a; b' 'c']"])
def test_truthfulqas_wrong_answers_may_be_a_list(tmp_path: Path, wrong: object) -> None:
    row = {"question": "q", "best_answer": "r", "correct_answers": ["r"], "incorrect_answers": wrong}

    (question,) = questions(read(tmp_path, lines(row)))

    assert sorted(question.choices) == ["a; b", "c", "r"]
    assert question.choice_text(question.right[0]) == "r"


@pytest.mark.parametrize("name", ["incorrect_answers", "distractors", "Wrong Answers"])
@pytest.mark.parametrize(
    "cell", ["['Rome', 'Oslo', 'Bern']", ' [""Rome"", ""Oslo"", ""Bern"", """"]', "['Rome' 'Oslo'\n 'Bern']"]
)
def test_a_table_may_have_all_wrong_answers_as_a_list_in_one_cell(tmp_path: Path, name: str, cell: str) -> None:
    """As pandas writes them. The whole list became one wrong choice, and chance one half."""
    (question,) = questions(read(tmp_path, f'question,correct_answer,{name}\nCapital of France?,Paris,"{cell}"\n'))

    assert sorted(question.choices) == ["Bern", "Oslo", "Paris", "Rome"]
    assert question.choice_text(question.right[0]) == "Paris"


def test_a_list_of_wrong_numbers_in_a_cell_becomes_texts(tmp_path: Path) -> None:
    (question,) = questions(read(tmp_path, 'question,correct_answer,distractors\n1+1?,2,"[3, 4]"\n'))

    assert sorted(question.choices) == ["2", "3", "4"]


@pytest.mark.parametrize("right", ["correct_answer", "best_answer"])
def test_marks_of_the_wrong_answers_in_a_cell_stay_as_those_of_the_right_one_do(tmp_path: Path, right: str) -> None:
    table = f"question,{right},incorrect_answers\nCapital of France?,C. Paris,\"['A. Rome', 'B. Oslo']\"\n"

    (question,) = questions(read(tmp_path, table))

    assert sorted(question.choices) == ["A. Rome", "B. Oslo", "C. Paris"]


@pytest.mark.parametrize("cell", ["Rome; Oslo; Bern", "Rome|Oslo", "Rome"])
def test_a_text_in_place_of_the_list_of_wrong_answers_is_refused_instead_of_taken_for_one(
    tmp_path: Path, cell: str
) -> None:
    for content in (
        f"question,correct_answer,incorrect_answers\nCapital of France?,Paris,{cell}\n",
        lines({"question": "Capital of France?", "correct_answer": "Paris", "incorrect_answers": cell}),
    ):
        (row,) = read(tmp_path, content).rows()

        assert f"field 'incorrect_answers': found {cell!r}, expected a list of texts." in str(row.trouble)
        assert 'For example ["red", "blue"]. Or give each wrong choice a field of its own' in str(row.trouble)


def test_a_broken_list_of_wrong_answers_is_refused_by_its_columns_name(tmp_path: Path) -> None:
    table = 'question,correct_answer,distractors\nCapital of France?,Paris,"[Rome, Oslo]"\n'

    (row,) = read(tmp_path, table).rows()

    assert "field 'distractors': malformed JSON in the cell" in str(row.trouble)


def test_a_wrong_answer_in_a_column_of_its_own_may_begin_with_a_bracket(tmp_path: Path) -> None:
    table = 'question,correct_answer,distractor1,distractor2\nWhich?,"[0, 2]","[0, 1]","[1, 2)"\n'

    (question,) = questions(read(tmp_path, table))

    assert sorted(question.choices) == ["[0, 1]", "[0, 2]", "[1, 2)"]


def test_boolq_may_say_1_and_0_in_a_table(tmp_path: Path) -> None:
    found = questions(read(tmp_path, "question,passage,label\nIs it?,p,1\nIs that?,p,0\n"))

    assert [each.right for each in found] == [("A",), ("B",)]


def test_the_place_of_the_right_choice_says_nothing_where_files_keep_it_apart(tmp_path: Path) -> None:
    rows = [
        {"question": f"q{n}", "correct_answer": "right", "distractor1": "a", "distractor2": "b", "distractor3": "c"}
        for n in range(400)
    ]

    found = questions(read(tmp_path, lines(*rows)))
    again = questions(read(tmp_path, lines(*reversed(rows))))

    assert {each.id: each for each in found} == {each.id: each for each in again}
    places = [each.answer for each in found]
    assert all(60 < places.count(label) < 140 for label in "ABCD"), "a quarter each, within what chance does"


def test_a_subset_can_be_chosen_and_ids_stay_the_same(tmp_path: Path) -> None:
    whole = questions(read(tmp_path, CASES["MIRAGE"].content))
    (chosen,) = questions(read(tmp_path, CASES["MIRAGE"].content, subset="sums"))

    assert [(each.id, each.subject) for each in whole] == [("colours-0", "colours"), ("sums-0", "sums")]
    assert chosen == whole[1]
    with pytest.raises(QuestionFileError, match=r"no subset 'sum' among colours, sums.*Did you mean 'sums'"):
        list(read(tmp_path, CASES["MIRAGE"].content, subset="sum").rows())


def numbered(start: int, count: int) -> list[dict[str, Any]]:
    return [{"question": f"q{n}", "choices": ["x", "y"], "answer": "B"} for n in range(start, start + count)]


@pytest.mark.parametrize(("usual", "other"), [("examples", "test"), ("questions", "bonus_questions")])
def test_a_list_of_questions_beside_one_with_a_usual_name_is_read_too(tmp_path: Path, usual: str, other: str) -> None:
    """Only the list with the usual name was read, and `--subset` knew no other."""
    content = json.dumps({"name": "n", usual: numbered(0, 2), other: numbered(2, 3)}, indent=1)

    whole = questions(read(tmp_path, content))

    assert [each.subject for each in whole] == [usual] * 2 + [other] * 3
    assert questions(read(tmp_path, content, subset=other)) == whole[2:]
    assert questions(read(tmp_path, content, subset=usual)) == whole[:2]


def test_the_split_beside_a_list_of_examples_can_be_chosen(tmp_path: Path) -> None:
    content = json.dumps({"examples": numbered(0, 2), "test": numbered(2, 3)}, indent=1)

    found = questions(read(tmp_path, content, split="test"))

    assert [(each.question, each.subject) for each in found] == [("q2", None), ("q3", None), ("q4", None)]


def test_a_list_of_something_else_beside_the_questions_is_passed_over_unless_it_is_chosen(tmp_path: Path) -> None:
    content = json.dumps({"questions": numbered(0, 2), "references": [{"title": "t"}], "tags": ["a"]}, indent=1)

    assert [each.subject for each in questions(read(tmp_path, content))] == [None, None]
    (row,) = read(tmp_path, content, subset="references").rows()
    assert "question" in str(row.trouble)
    with pytest.raises(QuestionFileError, match=r"no subset 'refs' among questions, references"):
        list(read(tmp_path, content, subset="refs").rows())


def test_a_single_question_beside_a_list_of_them_is_not_passed_over(tmp_path: Path) -> None:
    content = json.dumps({"example": numbered(0, 1)[0], "questions": numbered(1, 2), "by": {"name": "n"}}, indent=1)

    with pytest.raises(QuestionFileError) as refused:
        questions(read(tmp_path, content))

    assert str(refused.value).startswith("file:2: 'example' is a question, but in none of the lists (questions)")
    assert "--subset questions reads only what is there" in str(refused.value)
    assert [each.question for each in questions(read(tmp_path, content, subset="questions"))] == ["q1", "q2"]


def test_a_group_of_questions_by_id_beside_the_usual_list_is_read_too(tmp_path: Path) -> None:
    content = json.dumps({"questions": numbered(0, 2), "more": {"a": numbered(2, 1)[0]}}, indent=1)

    assert [each.question for each in questions(read(tmp_path, content))] == ["q0", "q1", "q2"]


def test_a_list_beside_questions_by_id_is_an_entry_that_is_accounted_for(tmp_path: Path) -> None:
    """It was the only thing that was read."""
    first, second = numbered(0, 2)
    content = json.dumps({"a": first, "b": second, "references": [{"title": "t"}]}, indent=1)

    rows = list(read(tmp_path, content).rows())

    assert [bool(row.question) for row in rows] == [True, True, False]


@pytest.mark.parametrize(
    "choices",
    [
        [{"label": "A", "text": "red"}, {"label": "B", "text": "blue"}],
        [{"key": "A", "value": "red"}, {"key": "B", "value": "blue"}],
        [{"text": "red", "correct": False}, {"text": "blue", "correct": True}],
    ],
)
@pytest.mark.parametrize("name", ["choices", "options"])
def test_a_file_of_one_question_is_read_though_its_choices_are_objects(
    tmp_path: Path, name: str, choices: list[dict[str, Any]]
) -> None:
    """The choices were taken for the rows."""
    content = json.dumps({"id": "one", "question": "Which?", name: choices, "answer": "B"}, indent=1)

    (found,) = questions(read(tmp_path, content))

    assert (found.id, found.choices, found.right) == ("one", ("red", "blue"), ("B",))
    with pytest.raises(QuestionFileError, match=f"no subset '{name}': the file has no named lists"):
        list(read(tmp_path, content, subset=name).rows())


def test_contexts_of_every_kind_become_the_context(tmp_path: Path) -> None:
    rows = [
        {"question": "q1", "choices": ["x", "y"], "answer": 0, "contexts": ["one", "two"], "text": "three"},
        {"question": "q2", "choices": ["x", "y"], "answer": 0, "context": " as it is ", "source_id": "s"},
    ]

    one, two = questions(read(tmp_path, lines(*rows)))

    assert (one.context, one.metadata) == ("one\n\ntwo\n\nthree", {})
    assert (two.context, two.metadata) == (" as it is ", {"source_id": "s"})


def test_choices_in_a_question_that_cannot_be_told_apart_are_refused_with_a_remedy(tmp_path: Path) -> None:
    rows = [{"question": text, "answer": "A"} for text in ("Which? A) x B) y", "Which? A) see B) below B) x C) y")]

    good, bad = read(tmp_path, lines(*rows)).rows()

    assert good.question is not None
    told = "file:2: field 'choices': they cannot be told apart: 'B)' is there twice in 'Which? A) see B) below"
    assert str(bad.trouble).startswith(told)
    assert "Put each choice on a line of its own, or all into a list." in str(bad.trouble)


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


def test_gold_passages_in_a_table_are_taken(tmp_path: Path) -> None:
    table = 'question,A,B,answer,gold_passages\nq,x,y,A,p1\nr,x,y,B,"[""p1"", ""p2""]"\ns,x,y,B,\nt,x,y,B,59\n'
    found = [each.gold_passages for each in questions(read(tmp_path, table, "q.csv"))]
    assert found == [("p1",), ("p1", "p2"), (), ("59",)]


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


def test_a_gold_list_of_passages_is_no_answer(tmp_path: Path) -> None:
    rows = [{"question": f"q{at}", "options": ["x", "y"], "gold": gold} for at, gold in enumerate((["p1"], ["1", "0"]))]

    found = questions(read(tmp_path, lines(*rows)))

    assert [(each.right, each.gold_passages) for each in found] == [((), ("p1",)), ((), ("1", "0"))]


def test_a_query_with_choices_is_no_yes_no_question_though_it_has_a_classification(tmp_path: Path) -> None:
    """It was asked with yes and no, and the index 1 meant yes."""
    rows = [
        {"query": f"q{at}", "options": ["x", "y"], "answer": at, "classification": "True" if at else "False"}
        for at in (0, 1)
    ]

    file = read(tmp_path, lines(*rows))

    assert file.layout.name == "named"
    assert [(each.choices, each.right) for each in questions(file)] == [(("x", "y"), ("A",)), (("x", "y"), ("B",))]


def test_the_predecessors_fields_stay_and_its_hash_is_computed_where_it_is_missing(tmp_path: Path) -> None:
    text = "Which?\nA) red\nB) seven"
    row = {"question": text, "answer": "A", "text": "Red.", "source_chunk_id": "c_0001", "source_path": "a.pdf"}

    plain, hashed = questions(read(tmp_path, json.dumps([row, {**row, "question_hash": "00ff"}])))

    assert plain.context == "Red."
    expected = {"source_chunk_id": "c_0001", "source_path": "a.pdf", "question_hash": question_hash(text, "A")}
    assert plain.metadata == expected
    assert hashed.metadata["question_hash"] == "00ff"


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


@pytest.mark.parametrize(
    ("content", "mapping", "expected"),
    [
        (
            lines({"stem": "q", "opts": ["x", "y"], "k": "B"}),
            {"question": "stem", "choices": "opts", "answer": "k"},
            "B",
        ),
        (lines({"a": {"b": "q"}, "c": ["x", "y"], "k": 0}), {"question": "a.b", "choices": "c", "answer": "k"}, "A"),
        ("t,one,two,k\nq,x,y,2\n", {"question": "t", "choices": "one+two", "answer": "k", "base": "1"}, "B"),
        ("o\tq\tx\ty\t1\n", {"question": "2", "choices": "3+4", "answer": "5", "base": "0"}, "B"),
        ("q,option1,option2,n\nq,x,y,1\n", {"question": "q", "answer": "n", "base": "0"}, "B"),
        (lines({"question": "q", "choices": ["x", "y"], "label": 0, "guess": "B"}), {"answer": "guess"}, "B"),
        (lines({"question": "q", "choices": ["x", "y"], "answer": 0, "id": 3}), {"id": ""}, "A"),
        (lines({"prose": "q\nA) x\nB) y", "k": "b"}), {"question": "prose", "answer": "k"}, "B"),
    ],
)
def test_fields_can_be_mapped_by_hand(tmp_path: Path, content: str, mapping: dict[str, str], expected: str) -> None:
    (question,) = questions(read(tmp_path, content, mapping=mapping))

    assert (question.question, question.choices, question.right) == ("q", ("x", "y"), (expected,))


def test_a_mapped_field_that_is_missing_is_named(tmp_path: Path) -> None:
    rows = lines({"stem": "q", "choices": ["x", "y"]}, {"stem": "r", "choices": ["x", "y"]})
    row, _ = read(tmp_path, rows, mapping={"question": "sten"}).rows()

    assert "field 'sten': there is no such field. Did you mean 'stem'?" in str(row.trouble)


def test_answers_can_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "labels.lst").write_text("1\n0\n")
    rows = lines(*({"goal": "g", "sol1": "x", "sol2": str(n)} for n in range(2)))

    file = read(tmp_path, rows, answers=tmp_path / "labels.lst")

    assert [each.right for each in questions(file)] == [("B",), ("A",)]
    with pytest.raises(QuestionFileError, match="fewer answers than questions: 2 for 4"):
        list(read(tmp_path, rows + rows, answers=tmp_path / "labels.lst").rows())


@pytest.mark.parametrize("own", [{}, {"answerKey": "D"}, {"label": 3}, {"answer": "D"}])
def test_a_blank_line_in_a_file_of_answers_is_a_question_without_a_key(tmp_path: Path, own: dict[str, Any]) -> None:
    """Every later question got the answer of the next one."""
    (tmp_path / "answers.txt").write_text("A\n\nC\n \nA\n\n\n")
    rows = lines(*({"question": f"q{n}", "options": ["x", "y", "z", "w"], **own} for n in range(5)))

    found = questions(read(tmp_path, rows, answers=tmp_path / "answers.txt"))

    assert ["".join(each.right) for each in found] == ["A", "", "C", "", "A"]


def test_a_blank_line_is_no_key_even_where_minus_one_is_a_choice(tmp_path: Path) -> None:
    (tmp_path / "answers.txt").write_text("up\n\n-1\n")
    rows = lines(*({"question": f"q{n}", "options": ["up", "-1"]} for n in range(3)))

    found = questions(read(tmp_path, rows, answers=tmp_path / "answers.txt"))

    assert ["".join(each.right) for each in found] == ["A", "", "B"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("answer\nA\nB\nC\n", "more answers than questions: 4 for 3"),
        ("A\n\nB\n\nC\n", "more answers than questions: 5 for 3"),
        ("A\nB\n\n", "fewer answers than questions: 2 for 3"),
        ("", "fewer answers than questions: 0 for 3"),
    ],
)
def test_another_number_of_answers_is_refused_before_any_row_is_used(tmp_path: Path, text: str, told: str) -> None:
    """With --limit, the end of neither file was reached, and the answers were those of other questions."""
    (tmp_path / "answers.txt").write_text(text)
    (tmp_path / "file").write_text(lines(*({"question": f"q{n}", "options": ["x", "y", "z"]} for n in range(3))))
    source = Source(tmp_path / "file", "file", HowToRead(answers=tmp_path / "answers.txt"))

    with pytest.raises(QuestionFileError, match=told) as caught:
        survey(source, Selection(limit=1))

    assert "in the order of file, without a header. A blank line is a question without a key" in str(caught.value)


@pytest.mark.parametrize(
    "own",
    [
        {"answer": "C"},
        {"answerKey": "B"},
        {"answer_key": "B"},
        {"Answer Key": "B"},
        {"answer_idx": 1, "answer": "y"},
        {"label": 1},
        {"correct_answer": "y"},
    ],
)
def test_a_file_of_answers_counts_whatever_answers_the_questions_have(tmp_path: Path, own: dict[str, Any]) -> None:
    labels = tmp_path / "labels.lst"
    labels.write_text("A\nB\n")
    rows = lines(*({"question": f"q{n}", "choices": ["x", "y"], **own} for n in range(2)))

    file = read(tmp_path, rows, answers=labels)

    assert [each.right for each in questions(file)] == [("A",), ("B",)]
    told = file.fields.describe().split(" (")[0].removesuffix(" · id ← none")
    assert told == f"question ← question · choices ← choices · answer ← {labels}"


@pytest.mark.parametrize("outer", [{"answerKey": "B"}, {}])
@pytest.mark.parametrize("inner", [{"answer_key": "B"}, {}])
def test_it_counts_beside_nested_questions_too(tmp_path: Path, outer: dict[str, str], inner: dict[str, str]) -> None:
    (tmp_path / "labels.lst").write_text("A\n")
    choices = [{"text": "x", "label": "A"}, {"text": "y", "label": "B"}]
    row = {"id": "r", "question": {"stem": "q", "choices": choices, **inner}, **outer}

    (question,) = questions(read(tmp_path, lines(row), answers=tmp_path / "labels.lst"))

    assert question.right == ("A",)


@pytest.mark.parametrize(("said", "right"), [("A", ("A",)), ("B", ("B",)), ("-1", ())])
def test_it_counts_whatever_the_choices_say_of_themselves(tmp_path: Path, said: str, right: tuple[str, ...]) -> None:
    (tmp_path / "labels.lst").write_text(f"{said}\nA\n")
    options = [{"text": "x", "correct": False}, {"text": "y", "correct": True}]
    rows = lines(*({"question": f"q{n}", "options": options} for n in range(2)))

    first, second = questions(read(tmp_path, rows, answers=tmp_path / "labels.lst"))

    assert (first.right, second.right) == (right, ("A",))


@pytest.mark.parametrize(
    "name",
    ["SciQ", "PubMedQA", "TruthfulQA", "TruthfulQA CSV", "BIG-bench", "BIG-bench on the hub", "instruction"],
)
def test_a_file_of_answers_is_refused_beside_a_layout_that_would_not_look_at_it(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    labels = tmp_path / "labels.lst"
    labels.write_text("A\n" * len(case.questions))

    with pytest.raises(QuestionFileError, match=r"file: read as .*, it contains its own answers: .*labels\.lst"):
        read(tmp_path, case.content, answers=labels)


def test_a_file_of_answers_is_refused_beside_a_layout_that_is_said_and_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "labels.lst").write_text("A\nB\n")

    with pytest.raises(QuestionFileError, match="it contains its own answers"):
        read(tmp_path, CASES["own"].content, layout="own", answers=tmp_path / "labels.lst")


def test_answers_are_mapped_or_given_apart_but_not_both(tmp_path: Path) -> None:
    (tmp_path / "labels.lst").write_text("A\n")
    row = lines({"question": "q", "choices": ["x", "y"], "label": 1})

    with pytest.raises(QuestionFileError, match=r"--map takes the answers from 'label', but --answers from .*labels"):
        read(tmp_path, row, answers=tmp_path / "labels.lst", mapping={"answer": "label"})
    (question,) = questions(read(tmp_path, row, answers=tmp_path / "labels.lst", mapping={"choices": "choices"}))
    assert question.right == ("A",)


def test_entries_of_a_keyed_file_that_are_no_questions_are_accounted_for(tmp_path: Path) -> None:
    content = json.dumps({"a": {"question": "q", "options": ["x", "y"], "answer": "x"}, "b": {"note": 1}}, indent=1)
    more = json.dumps({**json.loads(content), "c": {"question": "r", "options": ["x", "y"], "answer": "y"}})

    rows = list(read(tmp_path, more).rows())

    assert [bool(row.question) for row in rows] == [True, False, True]
    assert rows[0].question
    assert rows[0].question.id == "a"
