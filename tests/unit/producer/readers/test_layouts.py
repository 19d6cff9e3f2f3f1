"""The layouts that the field's files have: each is recognised by its content and read as what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.layout_files import CASES, lines
from contract.errors import InputError, QuestionFileError
from contract.ledger import MemoryLedger
from contract.question import Question, question_hash
from contract.verdict import Outcome, Verdict
from producer.export.results import export
from tests.support import make_questions, open_run
from tests.unit.producer.readers.keyed import METALS, keys, refusal, understood
from tests.unit.producer.readers.reading import questions, read


@pytest.mark.parametrize("name", CASES)
def test_a_layout_is_recognised_by_its_content_and_read(tmp_path: Path, name: str) -> None:
    case = CASES[name]

    file = read(tmp_path, case.content)

    assert (file.layout.name, file.title) == (case.layout, case.title)
    found = [(each.question, list(each.choices), "".join(each.right)) for each in questions(file)]
    assert found == case.questions


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
    found = list(read(tmp_path, lines(row, row)).rows())
    assert [(each.question, each.trouble is not None) for each in found] == [(None, True)] * 2


def test_a_forced_layout_that_does_not_fit_is_refused_row_by_row(tmp_path: Path) -> None:
    (row, _) = read(tmp_path, CASES["own"].content, layout="medmcqa").rows()

    assert "field 'cop': missing" in str(row.trouble)


def test_a_premise_of_copa_is_asked_for_its_cause_or_effect(tmp_path: Path) -> None:
    beside = {"choice1": "I ate.", "choice2": "It rained."}
    cause = {"premise": "It fell.", **beside, "question": "cause", "label": 0}
    effect = {"premise": "I ran.", **beside, "question": "effect", "label": 1}

    file = read(tmp_path, lines(cause, effect))

    assert file.layout.name == "copa"
    assert [(each.question, each.right) for each in questions(file)] == [
        ("It fell. What was the cause of this?", ("A",)),
        ("I ran. What happened as a result?", ("B",)),
    ]


@pytest.mark.parametrize(
    ("prefix", "asked", "question"),
    [
        ("Calculate.\n", "What is two and two?", "Calculate.\nWhat is two and two?"),
        (" ", "What is two and two?", "What is two and two?"),
        ("Calculate: ", "", "Calculate:"),
        ("", "", "Which is the sum of two and two?"),
    ],
)
def test_what_a_file_of_big_bench_says_once_belongs_to_each_question(
    tmp_path: Path, prefix: str, asked: str, question: str
) -> None:
    task = {"description": "Which is the sum of two and two?", "task_prefix": prefix}
    content = json.dumps({**task, "examples": [{"input": asked, "target_scores": {"three": 0, "four": 1}}]})

    (found,) = questions(read(tmp_path, content))

    assert (found.question, found.right) == (question, ("B",))


def test_options_behind_bullets_are_choices_and_what_follows_them_is_not(tmp_path: Path) -> None:
    first = {"inputs": "What is it?\nOptions:\n- red\n- blue\nA: ", "target": "blue"}
    second = {"inputs": "Which is it?\nOptions:\n- red\n- blue", "target": "red"}

    file = read(tmp_path, lines(first, second))

    assert [(each.question, each.choices, each.right) for each in questions(file)] == [
        ("What is it?", ("red", "blue"), ("B",)),
        ("Which is it?", ("red", "blue"), ("A",)),
    ]


@pytest.mark.parametrize("how", [{}, {"mapping": {"question": "asked", "answer": "target"}}])
def test_yes_and_no_are_two_of_the_choices_that_a_question_lists(tmp_path: Path, how: dict[str, Any]) -> None:
    """The choices stayed in the question, and it was asked with yes and no alone: nobody could choose the third."""
    listed = {"asked": "Is it red? (A) Yes (B) No (C) Not stated", "target": "No"}
    other = {"asked": "Is (1) it red or (2) blue?", "target": "Yes"}
    named = [{"question": each["asked"], "answer": each["target"]} for each in (listed, other)]
    first, second = (lines(each) for each in ((listed, other) if how else named))

    (found,), (alone,) = questions(read(tmp_path, first, **how)), questions(read(tmp_path, second, **how))

    assert (found.question, found.choices, found.right) == ("Is it red?", ("Yes", "No", "Not stated"), ("B",))
    assert (alone.question, alone.choices, alone.right) == (other["asked"], ("yes", "no"), ("A",))


@pytest.mark.parametrize(
    ("answers", "right"),
    [
        ({"label": 0}, [("A",), ("B",)]),
        ({"answer": "Ann"}, [("A",), ("B",)]),
        ({"answer": "Yes"}, [("A",), ("B",)]),
        ({}, [(), ()]),
    ],
)
def test_a_question_about_a_passage_that_lists_its_choices_is_not_asked_for_yes_or_no(
    tmp_path: Path, answers: dict[str, Any], right: list[tuple[str, ...]]
) -> None:
    """It was read as BoolQ: `label: 0` meant no, whatever the first choice was."""
    one, other = ("Yes", "No") if "Yes" in answers.values() else ("Ann", "Bob")
    second = {name: 1 if value == 0 else other for name, value in answers.items()}
    rows = [
        {"passage": f"Text {at}.", "question": f"Who {at}? (A) {one} (B) {other}", **answer}
        for at, answer in enumerate((answers, second))
    ]

    found = questions(read(tmp_path, lines(*rows)))

    assert [(each.choices, each.context) for each in found] == [((one, other), "Text 0."), ((one, other), "Text 1.")]
    assert [each.right for each in found] == right


def test_a_final_decision_among_choices_of_their_own_is_not_one_of_yes_no_and_maybe(tmp_path: Path) -> None:
    """Any row with a question and a final decision was PubMedQA's, and refused, as its answer was none of the three."""
    row = {"question": "Which is red?", "options": ["rust", "snow"], "final_decision": "A"}

    (found,) = questions(read(tmp_path, lines(row)))

    assert (found.choices, found.right) == (("rust", "snow"), ("A",))


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


WRAPPED = [{"question": f"q{at}", "options": ["x", "y"], "answer": "B"} for at in range(2)]


@pytest.mark.parametrize(
    "content",
    [
        lines(*({"doc_id": at, "doc": each, "target": "y", "acc": 1.0} for at, each in enumerate(WRAPPED))),
        json.dumps({"features": [{"name": "q"}], "rows": [{"row_idx": 0, "row": each} for each in WRAPPED]}),
    ],
)
def test_a_question_inside_a_log_or_the_hubs_rows_is_found(tmp_path: Path, content: str) -> None:
    found = questions(read(tmp_path, content))

    assert [(each.question, each.right) for each in found] == [("q0", ("B",)), ("q1", ("B",))]


@pytest.mark.parametrize("name", ["doc", "row"])
def test_a_log_or_a_page_of_one_question_is_read_like_those_of_several(tmp_path: Path, name: str) -> None:
    """A run of a single question had a log that was refused: its one line was taken for an object of many questions."""
    (found,) = questions(read(tmp_path, lines({"doc_id": 0, name: WRAPPED[0], "acc": 1.0})))

    assert (found.question, found.right) == ("q0", ("B",))


SEVERAL_RIGHT = Question(
    id="007",
    question="Which number is even?",
    choices=("3", "4", "6"),
    answer="B",
    also_right=("C",),
    subject="numbers",
    context="Numbers.",
    gold_passages=("p1",),
    metadata={"level": 3, "note": None},
)


@pytest.mark.parametrize("kind", ["jsonl", "lm-eval", "questions alone"])
def test_an_exported_question_is_read_as_it_was_also_with_several_right_choices(
    ledger: MemoryLedger, tmp_path: Path, kind: str
) -> None:
    asked = [SEVERAL_RIGHT, *make_questions(2)]
    run = open_run(ledger, asked)
    ledger.commit(run.run_id, [Verdict(question_id=each.id, outcome=Outcome.CORRECT, choice="B") for each in asked])
    export(ledger, run.run_id, tmp_path, ("jsonl", "lm-eval"))
    content = next(tmp_path.rglob("samples_*" if kind == "lm-eval" else "results.jsonl")).read_text()
    if kind == "questions alone":
        content = lines(*(json.loads(line)["question"] for line in content.splitlines()))

    assert questions(read(tmp_path, content)) == asked


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


def test_questions_for_yes_or_no_whose_answers_are_1_and_0_are_read_by_the_layout_that_the_refusal_names(
    tmp_path: Path,
) -> None:
    content = lines(*({"question": f"Is it {n}?", "paragraph": "It is 1.", "label": n} for n in (1, 0)))

    refused = [str(row.trouble) for row in read(tmp_path, content).rows()]
    assert all(
        "If the answers are yes and no, as words or as 1 and 0, use --layout yes-no." in each for each in refused
    )
    found = questions(read(tmp_path, content, layout="yes-no"))
    assert [(each.choice_text(each.right[0]), each.context) for each in found] == [
        ("yes", "It is 1."),
        ("no", "It is 1."),
    ]
