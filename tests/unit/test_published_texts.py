"""The benchmark that counts which choices are read in published texts."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest

from benchmarks.published_texts import SOURCES, main
from contract.errors import InputError

METALS = ["Iron", "Oxygen", "Neon", "Argon"]
QUESTION = "Which of these rusts?"


def publish(folder: Path, *texts: str) -> None:
    """Write `texts` as MMLU-Pro does, as answers to a question with four choices."""
    rows = [{"question": QUESTION, "options": METALS, "generated_text": text} for text in texts]
    with zipfile.ZipFile(folder / "model_outputs_Some-7B_5shots.zip", "w") as archive:
        archive.writestr("model_outputs_Some-7B_5shots.json", json.dumps(rows))


def counted(folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> list[dict[str, object]]:
    monkeypatch.setattr(sys, "argv", ["published_texts", str(folder), "--out", str(folder / "out"), *options])
    assert main() == 0
    rows: list[dict[str, object]] = json.loads((folder / "out" / "published_texts.json").read_text())["rows"]
    return rows


def test_what_is_read_is_compared_with_the_only_letter_that_a_text_announces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(
        tmp_path,
        "Iron rusts. The answer is (A).",
        "The answer is (C). No, it must be iron, so I choose A.",
        "The answer is (B) if it is warm.",
        "The answer is (A) and (C).",
        "It is iron.",
        "The answer is (H).",
    )
    (row,) = counted(tmp_path, monkeypatch, "--show", "1")
    shown = {name: row[name] for name in ("source", "models", "texts", "clear", "as announced", "another", "not read")}
    assert shown == {
        "source": "MMLU-Pro",
        "models": 1,
        "texts": 6,
        "clear": 3,
        "as announced": 1,
        "another": 1,
        "not read": 1,
    }
    assert (row["others read"], row["others not read"]) == (1, 2)
    assert "Some-7B: C is read as A (answer-statement) in: … The answer is (C)." in capsys.readouterr().out


def test_no_more_texts_of_a_model_are_read_than_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tmp_path, *["The answer is (A)."] * 7)
    (row,) = counted(tmp_path, monkeypatch, "--texts", "5")
    assert (row["texts"], row["as announced"]) == (5, 5)


def test_answers_of_mirage_are_taken_from_the_field_that_its_prompt_asks_for(tmp_path: Path) -> None:
    asked = {"question": QUESTION, "options": dict(zip("ABCD", METALS, strict=True)), "answer": "A"}
    (tmp_path / "benchmark.json").write_text(json.dumps({"metals": {"17": asked}}))
    for model, choice in (("one", "A"), ("other", "A. Iron or B. Oxygen"), ("third", "A. Iron")):
        folder = tmp_path / "prediction" / "metals" / "cot" / "Someone" / model
        folder.mkdir(parents=True)
        (folder / "test_17.json").write_text(json.dumps([json.dumps({"reason": "Neon?", "answer_choice": choice})]))
    one, several, told = SOURCES["MIRAGE"](tmp_path)
    assert (one.model, one.question.choices) == ("one", tuple(METALS))
    assert (one.clear, several.clear, told.clear) == ("A", None, "A")


def test_chains_of_thought_of_big_bench_hard_are_read_up_to_the_question_that_they_make_up(tmp_path: Path) -> None:
    options = "\n".join(f"({label}) {text}" for label, text in zip("ABCD", METALS, strict=True))
    example = f"Q: An example?\nOptions:\n{options}\nA: So the answer is (D)."
    row = {
        "input": f"{example}\n\nQ: {QUESTION}\nOptions:\n{options}\nA: Let's think step by step.",
        "prediction": "Iron does. So the answer is (A).\n\nQ: Which is green?\nA: So the answer is (C).",
    }
    path = tmp_path / "code-davinci-002-cot" / "metals_few_shot_template_0-255000.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"outputs": [row, {**row, "input": "Q: True or False?\nA:"}]}))
    (found,) = SOURCES["BIG-Bench Hard"](tmp_path)
    assert (found.question.question, found.question.choices, found.clear) == (QUESTION, tuple(METALS), "A")


def test_of_gaokao_bench_questions_with_one_right_choice_are_taken(tmp_path: Path) -> None:
    row = {
        "question": "1．下列金属中会生锈的是\nA．铁 B．氧 C．氖 D．氩\n",
        "standard_answer": ["A"],
        "model_output": "【解析】铁会生锈。 <eoe>\n【答案】A <eoa>",
    }
    rows = [row, {**row, "standard_answer": ["AB"]}, {**row, "model_output": "【答案】A、B <eoa>"}]
    path = tmp_path / "some_obj" / "chemistry.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"model_name": "some", "example": rows}))
    one, several = SOURCES["GAOKAO-Bench"](tmp_path)
    assert (one.question.choices, one.clear, several.clear) == (("铁", "氧", "氖", "氩"), "A", None)


def test_a_folder_without_such_texts_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"has no texts of MMLU-Pro, MIRAGE, BIG-Bench Hard, GAOKAO-Bench"):
        counted(tmp_path, monkeypatch)
