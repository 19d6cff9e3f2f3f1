"""One small file in each layout that public question sets use, with the questions to be read from it.

The questions are made up; only the layouts are those of the published sets.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

__all__ = ["CASES", "Case", "lines"]


class Case(NamedTuple):
    """A file, and the questions in it: (question, choices, correct labels)."""

    layout: str
    title: str
    content: str
    questions: list[tuple[str, list[str], str]]


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def labelled(texts: str, labels: str = "ABCDEFGH") -> list[dict[str, str]]:
    return [{"text": text, "label": label} for text, label in zip(texts.split(), labels, strict=False)]


RED = ("Which is a colour?", ["red", "seven", "loud"], "A")
SUM = ("What is two and two?", ["three", "four", "five"], "B")
FIVE = ("What is two and three?", ["three", "four", "five"], "C")
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
                "2": {"question": FIVE[0], "option1": "three", "option2": "four", "option3": "five", "answer_index": 3},
            }
        ),
        [RED, SUM, FIVE],
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
            {
                "passage": None,
                "question": RED[0],
                "options": ["(A)red", "(B)seven", "(C)loud"],
                "label": ["A", "C"],
                "answer": None,
            },
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
                    {"role": "user", "content": f"{SUM[0]}\nA. three\nB. four\nC. five\nAnswer:"},
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
    "MathQA": Case(
        "mathqa",
        "MathQA JSON",
        json.dumps(
            [
                {
                    "Problem": "what is 1 , 200 divided by 4 ?",
                    "Rationale": "a quarter of 1 , 200 is 300",
                    "options": "a ) 1 , 200 , b ) 300 , c ) rs . 3 , d ) 2 : 1 , e ) none of these",
                    "correct": "b",
                    "category": "general",
                },
                {"Problem": "what is 2 + 2 ?", "options": "a ) 3 , b ) 4", "correct": "b", "category": "gain"},
            ]
        ),
        [
            ("what is 1 , 200 divided by 4 ?", ["1 , 200", "300", "rs . 3", "2 : 1", "none of these"], "B"),
            ("what is 2 + 2 ?", ["3", "4"], "B"),
        ],
    ),
    "RACE": Case(
        "named",
        "plain JSONL",
        json.dumps(
            {
                "answers": ["A", "B"],
                "options": [RED[1], SUM[1]],
                "questions": [RED[0], SUM[0]],
                "article": "Red is a colour, and two and two is four.",
                "id": "high7.txt",
            }
        ),
        [RED, SUM],
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
