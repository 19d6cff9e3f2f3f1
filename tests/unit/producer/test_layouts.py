"""The layouts that the field's files have: each is recognised by its content and read as what it says.

The questions are made up here; only the layouts are those of the published sets.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from contract.errors import InputError, QuestionFileError
from contract.question import Question, question_hash
from producer.readers import HowToRead, QuestionFile, Source, understand


class Case(NamedTuple):
    """A file, and what its questions are: (question, choices, right labels)."""

    layout: str
    title: str
    content: Any
    questions: list[tuple[str, list[str], str]]


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def labelled(texts: str, labels: str = "ABCDEFGH") -> list[dict[str, str]]:
    return [{"text": text, "label": label} for text, label in zip(texts.split(), labels, strict=False)]


RED = ("Which is a colour?", ["red", "seven", "loud"], "A")
SUM = ("What is two and two?", ["three", "four", "five"], "B")
SKY = ("Is the sky blue?", ["yes", "no"], "A")
SEA = ("Is the sea dry?", ["yes", "no"], "B")

CASES = {
    "own": Case(
        "own",
        "mcqueue's own JSONL",
        lines(
            {"question": RED[0], "choices": RED[1], "answer": "A"}, {"question": SUM[0], "choices": SUM[1], "answer": 1}
        ),
        [RED, SUM],
    ),
    "ARC": Case(
        "arc",
        "ARC-style JSONL",
        lines(
            {"id": "r", "question": {"stem": RED[0], "choices": labelled("red seven loud")}, "answerKey": "A"},
            {"id": "s", "question": {"stem": SUM[0], "choices": labelled("three four five", "123")}, "answerKey": "2"},
        ),
        [RED, SUM],
    ),
    "ARC on the hub": Case(
        "arc",
        "ARC-style JSONL",
        lines(
            {"id": "r", "question": RED[0], "choices": {"text": RED[1], "label": ["A", "B", "C"]}, "answerKey": "A"},
            {"id": "s", "question": SUM[0], "choices": {"text": SUM[1], "label": ["1", "2", "3"]}, "answerKey": "2"},
        ),
        [RED, SUM],
    ),
    "OpenBookQA on the hub": Case(
        "arc",
        "ARC-style JSONL",
        lines(
            {
                "id": "r",
                "question_stem": RED[0],
                "choices": {"text": RED[1], "label": ["A", "B", "C"]},
                "answerKey": "A",
                "fact1": "Red is a colour.",
            }
        ),
        [RED],
    ),
    "CommonsenseQA, no key": Case(
        "arc",
        "ARC-style JSONL",
        lines(
            {"id": "r", "question": {"stem": RED[0], "question_concept": "c", "choices": labelled("red seven loud")}}
        ),
        [(*RED[:2], "")],
    ),
    "OpenBookQA TSV": Case(
        "named",
        "plain TSV",
        "ID\tQuestion Stem\tChoices\tComplete Question\tAnswer Key\n"
        f'r\t{RED[0]}\t(A) red (B) seven (C) loud\t…\tA\ns\t"{SUM[0]}\t(A) three (B) four (C) five\t…\tB\n',
        [RED, ('"' + SUM[0], *SUM[1:])],
    ),
    "MMLU without header": Case(
        "mmlu",
        "MMLU CSV without header",
        f'{RED[0]},red,seven,loud,A\n"{SUM[0]}",three,four,five,B\n',
        [RED, SUM],
    ),
    "MMLU with header": Case(
        "mmlu",
        "MMLU CSV",
        f"question,A,B,C,answer\n{RED[0]},red,seven,loud,0\n{SUM[0]},three,four,five,1\n",
        [RED, SUM],
    ),
    "MMLU, columns by number": Case(
        "named",
        "plain CSV",
        f"question,choice0,choice1,choice2,answer\n{RED[0]},red,seven,loud,0\n{SUM[0]},three,four,five,1\n",
        [RED, SUM],
    ),
    "CMMLU": Case(
        "mmlu",
        "MMLU CSV",
        ",Question,A,B,C,D,Answer\n0,天空是什么颜色？,蓝,绿,黑,白,A\n1,二加二等于几？,三,四,五,六,B\n",
        [("天空是什么颜色？", ["蓝", "绿", "黑", "白"], "A"), ("二加二等于几？", ["三", "四", "五", "六"], "B")],
    ),
    "C-Eval, semicolons": Case(
        "mmlu",
        "MMLU CSV with semicolons",
        f"id;question;A;B;C;answer;explanation\n1;{RED[0]};red;seven;loud;A;\n",
        [RED],
    ),
    "SciQ": Case(
        "sciq",
        "SciQ-style JSON",
        json.dumps(
            [
                {
                    "question": RED[0],
                    "correct_answer": "red",
                    "distractor1": "loud",
                    "distractor2": "seven",
                    "distractor3": "",
                    "support": "Red is one.",
                }
            ]
        ),
        [("Which is a colour?", ["seven", "red", "loud"], "B")],
    ),
    "SciQ by number": Case(
        "named",
        "plain JSON",
        json.dumps(
            {
                "0": {"question": RED[0], "option1": "red", "option2": "seven", "option3": "loud", "answer_index": 1},
                "1": {"question": SUM[0], "option1": "three", "option2": "four", "option3": "five", "answer_index": 2},
            }
        ),
        [RED, SUM],
    ),
    "MedQA": Case(
        "medqa",
        "MedQA JSONL",
        lines(
            {
                "question": SUM[0],
                "answer": "four",
                "options": {"A": "three", "B": "four", "C": "five"},
                "answer_idx": "B",
                "meta_info": "step1",
            }
        ),
        [SUM],
    ),
    "MedMCQA": Case(
        "medmcqa",
        "MedMCQA JSONL",
        lines(
            {"question": SUM[0], "opa": "three", "opb": "four", "opc": "five", "cop": 2, "id": "s", "exp": None},
            {"question": SUM[0], "opa": "three", "opb": "five", "opc": "four", "cop": 3, "id": "t", "exp": "sums"},
        ),
        [SUM, (SUM[0], ["three", "five", "four"], "C")],
    ),
    "MedMCQA on the hub": Case(
        "medmcqa",
        "MedMCQA JSONL",
        lines(
            {"question": SUM[0], "opa": "three", "opb": "four", "opc": "five", "cop": 1, "id": "s"},
            {"question": RED[0], "opa": "red", "opb": "seven", "opc": "loud", "cop": 0, "id": "r"},
        ),
        [SUM, RED],
    ),
    "PubMedQA": Case(
        "pubmedqa",
        "PubMedQA JSON",
        json.dumps(
            {
                "101": {
                    "QUESTION": SKY[0],
                    "CONTEXTS": ["Look up.", "It is."],
                    "LABELS": ["BACKGROUND", "RESULTS"],
                    "final_decision": "maybe",
                    "LONG_ANSWER": "…",
                },
                "102": {"QUESTION": SEA[0], "CONTEXTS": ["Wet."], "final_decision": "no"},
            }
        ),
        [(SKY[0], ["yes", "no", "maybe"], "C"), (SEA[0], ["yes", "no", "maybe"], "B")],
    ),
    "MIRAGE": Case(
        "named",
        "plain JSON",
        json.dumps(
            {
                "colours": {"0": {"question": RED[0], "options": dict(zip("ABC", RED[1], strict=True)), "answer": "A"}},
                "sums": {"0": {"question": SUM[0], "options": dict(zip("ABC", SUM[1], strict=True)), "answer": "B"}},
            }
        ),
        [RED, SUM],
    ),
    "BoolQ": Case(
        "boolq",
        "BoolQ JSONL",
        lines(
            {"question": SKY[0], "passage": "Look up.", "title": "Sky", "answer": True},
            {"question": SEA[0], "passage": "Wet.", "title": "Sea", "answer": False},
        ),
        [SKY, SEA],
    ),
    "BoolQ, labels": Case(
        "boolq",
        "BoolQ JSONL",
        lines({"question": SKY[0], "passage": "p", "label": 1}, {"question": SEA[0], "passage": "p", "label": 0}),
        [SKY, SEA],
    ),
    "BoolQ, ERASER": Case(
        "boolq-eraser",
        "BoolQ (ERASER) JSONL",
        lines(
            {
                "annotation_id": 7,
                "classification": "True",
                "query": SKY[0],
                "evidences": [[{"docid": "d", "text": "Look up."}]],
            }
        ),
        [SKY],
    ),
    "StrategyQA": Case(
        "yes-no",
        "yes/no JSON",
        json.dumps([{"qid": "a", "question": SKY[0], "answer": True, "facts": ["Blue.", "Sky."]}]),
        [SKY],
    ),
    "yes/no CSV": Case("yes-no", "yes/no CSV", f"question,answer\n{SKY[0]},Yes\n{SEA[0]},No\n", [SKY, SEA]),
    "TruthfulQA": Case(
        "truthfulqa-mc1",
        "TruthfulQA (mc1) JSON",
        json.dumps(
            [
                {
                    "question": SUM[0],
                    "mc1_targets": {"four": 1, "three": 0, "five": 0},
                    "mc2_targets": {"four": 1, "twice two": 1, "five": 0},
                }
            ]
        ),
        [(SUM[0], ["four", "five", "three"], "A")],
    ),
    "TruthfulQA on the hub": Case(
        "truthfulqa-mc1",
        "TruthfulQA (mc1) JSONL",
        lines({"question": SUM[0], "mc1_targets": {"choices": ["four", "three", "five"], "labels": [1, 0, 0]}}),
        [(SUM[0], ["four", "five", "three"], "A")],
    ),
    "TruthfulQA CSV": Case(
        "truthfulqa-csv",
        "TruthfulQA CSV",
        "\ufeffType,Category,Question,Best Answer,Correct Answers,Incorrect Answers,Source\n"
        f"Adversarial,Sums,{SUM[0]},four,four; twice two,three; five,web\n",
        [(SUM[0], ["four", "five", "three"], "A")],
    ),
    "AGIEval": Case(
        "agieval",
        "AGIEval JSONL",
        lines(
            {"passage": "", "question": SUM[0], "options": ["(A)three", "(B)four", "(C)five"], "label": "B"},
            {"passage": None, "question": RED[0], "options": ["(A)red", "(B)seven", "(C)loud"], "label": ["A", "C"]},
        ),
        [SUM, (*RED[:2], "AC")],
    ),
    "BIG-bench": Case(
        "bigbench",
        "BIG-bench JSON",
        json.dumps(
            {
                "canary": "c",
                "keywords": ["k"],
                "examples": [
                    {"input": SUM[0], "target_scores": {"three": 0, "four": 1, "five": 0}},
                    {"input": RED[0], "target_scores": {"red": 1, "seven": 0, "loud": 1}},
                ],
            }
        ),
        [SUM, (*RED[:2], "AC")],
    ),
    "BIG-bench on the hub": Case(
        "bigbench-lists",
        "BIG-bench JSONL",
        lines({"inputs": SUM[0], "multiple_choice_targets": SUM[1], "multiple_choice_scores": [0, 1, 0], "idx": 3}),
        [SUM],
    ),
    "BIG-bench hard": Case(
        "inline",
        "predecessor-style (choices in the question) JSON",
        json.dumps(
            {
                "canary": "c",
                "examples": [{"input": f"{SUM[0]}\nOptions:\n(A) three\n(B) four\n(C) five", "target": "(B)"}],
            }
        ),
        [SUM],
    ),
    "the predecessor's": Case(
        "inline",
        "predecessor-style (choices in the question) JSON",
        json.dumps(
            [
                {"question": f"{RED[0]}\nA) red\nB) seven\nC) loud", "answer": "A", "text": "Red is one."},
                {"question": f"{SUM[0]}\n\n1. three\n2. four\n3. five", "answer": "The correct answer is 2. four"},
                {"question": f"{SUM[0]}\nA: three\nB: four\nC: five", "answer": "four"},
            ]
        ),
        [RED, SUM, SUM],
    ),
    "instruction": Case(
        "instruction",
        "instruction-tuning JSON",
        json.dumps(
            [
                {
                    "instruction": f"Please choose the correct answer to the question: {SUM[0]}\n\nAnswer1: three\n"
                    "Answer2: four\nAnswer3: five\n\nAnswer format: answer1/answer2/answer3",
                    "input": "",
                    "output": "the correct answer is answer2",
                    "answer": "answer2",
                },
                {
                    "instruction": f"Please answer the following question with true or false, question: {SKY[0]}"
                    "\n\nAnswer format: true/false",
                    "output": "the correct answer is true",
                    "answer": "true",
                },
            ]
        ),
        [SUM, (SKY[0], ["true", "false"], "A")],
    ),
    "chat": Case(
        "chat",
        "chat JSONL",
        lines(
            {
                "input": [
                    {"role": "system", "content": "Answer with the letter."},
                    {"role": "user", "content": f"{SUM[0]}\nA. three\nB. four\nC. five\n"},
                ],
                "ideal": "B",
            }
        ),
        [SUM],
    ),
    "choices as numpy prints them": Case(
        "named",
        "plain CSV",
        f"question,choices,answer\n{SUM[0]},\"['three'\n 'four'\n 'five']\",B\n",
        [SUM],
    ),
    "PIQA": Case(
        "piqa",
        "PIQA JSONL",
        lines({"goal": "To boil water", "sol1": "heat it", "sol2": "cool it", "label": 0}),
        [("To boil water", ["heat it", "cool it"], "A")],
    ),
    "answers counted from 1": Case(
        "mmlu",
        "MMLU CSV",
        f"question,A,B,C,answer\n{RED[0]},red,seven,loud,1\n{SUM[0]},three,four,five,2\n{SUM[0]},three,five,four,3\n",
        [RED, SUM, (SUM[0], ["three", "five", "four"], "C")],
    ),
    "several right answers": Case(
        "named",
        "plain JSON",
        json.dumps(
            [{"id": "a", "question": RED[0], "answers": {"a": "red", "b": "blue"}, "correct_answers": ["a", "b"]}]
        ),
        [(RED[0], ["red", "blue"], "AB")],
    ),
    "one JSON object": Case(
        "own", "mcqueue's own JSONL", json.dumps({"question": RED[0], "choices": RED[1], "answer": 0}), [RED]
    ),
    "questions in a member": Case(
        "named", "plain JSON", json.dumps({"questions": [{"stem": RED[0], "options": RED[1], "key": "red"}]}), [RED]
    ),
}


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


@pytest.mark.parametrize("name", CASES)
def test_every_layout_can_be_forced_by_its_name(tmp_path: Path, name: str) -> None:
    case = CASES[name]

    file = read(tmp_path, case.content, layout=case.layout)

    assert ["".join(each.right) for each in questions(file)] == [right for _, _, right in case.questions]


def test_a_forced_layout_that_does_not_fit_is_refused_row_by_row(tmp_path: Path) -> None:
    (row, _) = read(tmp_path, CASES["own"].content, layout="medmcqa").rows()

    assert "field 'cop': missing" in str(row.trouble)


def test_an_unknown_layout_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Did you mean 'medmcqa'"):
        read(tmp_path, CASES["own"].content, layout="medmcq")


def test_truthfulqa_has_several_right_answers_if_asked_so(tmp_path: Path) -> None:
    (question,) = questions(read(tmp_path, CASES["TruthfulQA"].content, layout="truthfulqa-mc2"))

    assert {question.choice_text(label) for label in question.right} == {"four", "twice two"}


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


def test_contexts_of_every_kind_become_the_context(tmp_path: Path) -> None:
    rows = [
        {"question": "q1", "choices": ["x", "y"], "answer": 0, "contexts": ["one", "two"], "text": "three"},
        {"question": "q2", "choices": ["x", "y"], "answer": 0, "context": " as it is ", "source_id": "s"},
    ]

    one, two = questions(read(tmp_path, lines(*rows)))

    assert (one.context, one.metadata) == ("one\n\ntwo\n\nthree", {})
    assert (two.context, two.metadata) == (" as it is ", {"source_id": "s"})


@pytest.mark.parametrize("name", ["gold", "gold_passages"])
def test_ids_of_passages_that_answer_are_kept_as_such(tmp_path: Path, name: str) -> None:
    row = {"question": "q", "choices": ["x", "y"], "answer": 0, name: ["p1", "p2"]}
    other = {"query": "q", "options": ["x", "y"], "answer": 0, name: ["p1", "p2"]}

    (own,), (named,) = questions(read(tmp_path, lines(row))), questions(read(tmp_path, lines(other)))

    assert own.gold_passages == named.gold_passages == ("p1", "p2")


def test_a_gold_list_of_numbers_is_the_answer(tmp_path: Path) -> None:
    rows = [{"query": "q", "choices": ["(A)x", "(B)y"], "gold": [n]} for n in (1, 0)]

    assert [each.right for each in questions(read(tmp_path, lines(*rows)))] == [("B",), ("A",)]


def test_the_predecessors_fields_stay_and_its_hash_is_computed_where_it_is_missing(tmp_path: Path) -> None:
    text = "Which?\nA) red\nB) seven"
    row = {"question": text, "answer": "A", "text": "Red.", "source_chunk_id": "c_0001", "source_path": "a.pdf"}

    plain, hashed = questions(read(tmp_path, json.dumps([row, {**row, "question_hash": "00ff"}])))

    assert plain.context == "Red."
    expected = {"source_chunk_id": "c_0001", "source_path": "a.pdf", "question_hash": question_hash(text, "A")}
    assert plain.metadata == expected
    assert hashed.metadata["question_hash"] == "00ff"


def test_an_open_question_among_them_is_refused_with_its_line(tmp_path: Path) -> None:
    rows = [{"question": "Which?\nA) red\nB) seven", "answer": "A"}, {"question": "And who?", "answer": "Ann"}]

    good, bad = read(tmp_path, json.dumps(rows, indent=1)).rows()

    assert good.question
    assert "file:6: field 'choices': no choices in the text 'And who?'" in str(bad.trouble)


def test_a_letter_and_a_text_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    row = {"question": "q", "options": {"A": "x", "B": "y"}, "answer_idx": "A", "answer": "y"}

    (bad,) = read(tmp_path, lines(row)).rows()

    assert "'answer_idx' says 'A', which is 'x', but 'answer' is 'y'" in str(bad.trouble)


@pytest.mark.parametrize(
    ("content", "mapping", "expected"),
    [
        (
            lines({"stem": "q", "opts": ["x", "y"], "k": "B"}),
            {"question": "stem", "choices": "opts", "answer": "k"},
            "B",
        ),
        (lines({"a": {"b": "q"}, "c": ["x", "y"], "k": 1}), {"question": "a.b", "choices": "c", "answer": "k"}, "B"),
        ("t,one,two,k\nq,x,y,2\n", {"question": "t", "choices": "one+two", "answer": "k", "base": "1"}, "B"),
        ("o\tq\tx\ty\t1\n", {"question": "2", "choices": "3+4", "answer": "5"}, "B"),
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
    with pytest.raises(QuestionFileError, match="fewer answers than questions: 2 of both"):
        list(read(tmp_path, rows + rows, answers=tmp_path / "labels.lst").rows())


def test_entries_of_a_keyed_file_that_are_no_questions_are_accounted_for(tmp_path: Path) -> None:
    content = json.dumps({"a": {"question": "q", "options": ["x", "y"], "answer": "x"}, "b": {"note": 1}}, indent=1)
    more = json.dumps({**json.loads(content), "c": {"question": "r", "options": ["x", "y"], "answer": "y"}})

    rows = list(read(tmp_path, more).rows())

    assert [bool(row.question) for row in rows] == [True, False, True]
    assert rows[0].question
    assert rows[0].question.id == "a"
