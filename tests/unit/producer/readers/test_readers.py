"""Question files of every format, good and bad."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from contract.errors import QuestionFileError
from contract.question import Question, content_id
from producer.readers import HowToRead, Source, opened, understand
from producer.readers.stream import explaining
from tests.unit.producer.readers.reading import GOOD, questions_of, rows_of, write

#: Levels of lists that the json module reads, and our own functions do not.
DEEP = 2000 if sys.version_info >= (3, 13) else 600


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("q.json", json.dumps([GOOD])),
        ("q.json", json.dumps({"name": "a set", "questions": [GOOD], "licence": {"id": "CC0"}})),
        ("q.jsonl", json.dumps(GOOD) + "\n"),
        ("q.jsonl", "\n" + json.dumps(GOOD) + "\n\n"),
        ("q.jsonl", b"\xef\xbb\xbf" + json.dumps(GOOD).encode()),
        ("q.json", b"\xef\xbb\xbf" + json.dumps([GOOD]).encode()),
        ("q.csv", "question,choice_a,choice_b,answer\nWhich?,x,y,B\n"),
        ("q.csv", "question,choice0,choice1,answer\r\nWhich?,x,y,1\r\n"),
        ("q.csv", "Question,A,B,Answer\nWhich?,x,y,y\n"),
        ("q.csv", b'\xef\xbb\xbfquestion,choices,answer\nWhich?,"[""x"", ""y""]",b\n'),
        ("q.csv", "question,choice_b,choice_a,choice_c,answer\n\nWhich?,y,x,,B\n"),
    ],
)
def test_every_format_and_spelling_gives_the_same_question(tmp_path: Path, name: str, content: str | bytes) -> None:
    (question,) = questions_of(write(tmp_path, name, content))

    assert question == Question(id=content_id("Which?", ["x", "y"]), question="Which?", choices=("x", "y"), answer="B")


def test_other_fields_are_kept_as_metadata_and_lists_as_json(tmp_path: Path) -> None:
    row = {
        **GOOD,
        "id": 7,
        "subject": "s",
        "context": "c",
        "source": "web",
        "gold": ["p1", "p2"],
        "tags": ["a", "é"],
        "metadata": {"level": 3},
    }

    (question,) = questions_of(write(tmp_path, "q.jsonl", json.dumps(row)))

    assert question.id == "7"
    assert (question.subject, question.context) == ("s", "c")
    assert question.gold_passages == ("p1", "p2")
    assert question.metadata == {"source": "web", "tags": '["a","é"]', "level": 3}


def test_a_json_record_knows_the_line_it_starts_on(tmp_path: Path) -> None:
    text = "[\n" + json.dumps(GOOD, indent=1) + ",\n" + json.dumps(GOOD) + ", " + json.dumps(GOOD) + "\n]\n"

    assert [row.line for row in rows_of(write(tmp_path, "q.json", text))] == [2, 10, 10]


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("q.json", '[\n{"question": "a" "choices": []}]', ["q.json:2:", "',' delimiter", "column 18"]),
        ("q.json", "[" + json.dumps(GOOD), ["q.json:1:", "ends too early"]),
        ("q.json", json.dumps([GOOD], indent=1)[:30], ["q.json:4:", "ends too early", "column 2"]),
        ("q.json", json.dumps({"questions": [GOOD, GOOD]}, indent=1)[:-20], ["ends too early"]),
        ("q.json", "[" + json.dumps(GOOD) + "] x", ["more text after the end", "column"]),
        ("q.json", '{"title": "q"}', ["'title'", "list of questions"]),
        (
            "q.json",
            json.dumps({"data": {"version": 1, "sets": [{"name": "s", "questions": [GOOD]}]}}),
            [
                "q.json:1:",
                "found an object with 'data'",
                "with jq -c '.data.sets[].questions[]' FILE > questions.jsonl.",
            ],
        ),
        (
            "q.json",
            json.dumps({"data": {"math": [GOOD], "law": [GOOD]}}),
            ["q.json:1:", "There are questions at data.math[]: write those to a file of their own."],
        ),
        (
            "q.csv",
            "question,choice,is_correct\nq,x,1\nq,y,0\nr,x,1\nr,y,0\n",
            ["q.csv:2:", "successive rows repeat the question", "one row per question", "question,A,B,C,answer"],
        ),
        (
            "q.csv",
            "id,question,answer_text,label\n1,q,x,1\n1,q,y,0\n2,r,x,1\n2,r,y,0\n",
            ["q.csv:2:", "successive rows repeat the question", "question,A,B,C,answer"],
        ),
        (
            "q.jsonl",
            "".join(f'{{"question": "q", "choice": "{each}", "label": 0}}\n' for each in "xyz"),
            ["q.jsonl:1:", "successive rows repeat the question", '"choices": ["…", "…"]'],
        ),
        (
            "q.jsonl",
            "".join(f'{{"instruction": "Answer.", "input": "{n}? A. x B. y", "output": "A"}}\n' for n in range(30)),
            ["q.jsonl:1: field 'instruction': the first 30 rows have", "--map question=FIELD, such as input, output."],
        ),
        ("q.json", "3", ["found '3'", "list of questions"]),
        ("q.json", "[" * 100_000, ["malformed JSON", "while decoding a JSON array"]),
        ("q.json", '[{"n": Infinity}]', ["Infinity is not a JSON number"]),
        ("q.json", b'[\n"\xff"]', ["q.json:2:", "0xff", "offset 3", "UTF-8"]),
        ("q.csv", b"\xef\xbb\xbfquestion,\xe9", ["offset 12"]),
        ("q.csv", "first,second\nq,x\n", ["q.csv:1:", "no columns for question and choices among first, second"]),
        (
            "q.csv",
            "Nr;Frage;A1;A2;A3;Lösung\n1;Rot?;x;y;z;B\n2;Blau?;x;y;z;C\n",
            [
                "q.csv:1:",
                "columns for question and choices among Nr, Frage, A1",
                "--map question=NAME,choices=A1+A2+A3,",
            ],
        ),
        (
            "q.csv",
            "ID;Frage;Antwort A;Antwort B;Lösung\n1;Rot?;x;y;B\n2;Blau?;x;y;A\n",
            ["--map 'question=NAME,choices=Antwort A+Antwort B,answer=NAME'."],
        ),
        ("q.csv", "Frage,Wahl,Wahl,Richtig?\nq,x,y,x\n", ["--map question=NAME,choices=NAME+NAME+…,answer=NAME."]),
        (
            "q.csv",
            "Is it red?,x,x,y\nIs it blue?,y,x,y\n",
            ["q.csv:1:", "there is no header", "has a question, 'Is it red?'", "such as question,A,B,answer."],
        ),
        (
            "q.csv",
            f"Since {'so ' * 200}it is red or,x,y,x\n",
            ["q.csv:1:", "there is no header", "has a question, 'Since so", "such as question,A,B,answer."],
        ),
        (
            "q.csv",
            "It is,red,blue,0\nIt is not,red,blue,1\n",
            ["q.csv:1: there is no header: the first line has '0' in column 4, where", "such as question,A,B,answer."],
        ),
        (
            "q.csv",
            "b,It is,red,blue\na,It is not,red,blue\n",
            ["there is no header: the first line has 'b' in column 1, where", "with the names of the columns."],
        ),
        (
            "q.csv",
            "It is,red,blue,A,It shines.\nIt is not,red,blue,B,It does not.\n",
            ["there is no header: the first line has 'A' in column 4, where", "with the names of the columns."],
        ),
        *(
            ("q.csv", f"{header}\nIt is,{row}\nIt was,{row}\n", [f"no columns for question and choices among {shown}"])
            for header, row, shown in (
                ("Frage,A,B,C,Antwort", "A,B,E,1", "Frage, A, B, C"),
                ("Frage,1,2,3,Antwort", "7,8,9,1", "Frage, 1, 2, 3"),
                ("0,1,2,3", "red,blue,1", "0, 1, 2, 3"),
                ("Frage,K,Wahl,Falsch", "A,red,blue", "Frage, K, Wahl, Falsch"),
            )
        ),
        ("q.csv", "It is,red,blue,0\n", ["no columns for question and choices among It is, red"]),
        ("q.csv", "Frage,Wahl,Wahl,Richtig?\nq,x,y,x\n", ["no columns for question and choices among Frage, Wahl"]),
        ("q.txt", f"Dear {'all ' * 200}, who knows?", ["is not JSON", "starts with 'Dear all"]),
        ("q.tsv", "7\tIs it red?\tx\ty\tz\t1\n", ["q.tsv:1:", "such as id\tquestion\tA\tB\tC\tanswer."]),
        ("q.csv", "question,A,B,A\nq,x,y,z\n", ["there are two columns 'A'"]),
        ("q.csv", 'question,A,B\n"never closed,x,y\n', ["q.csv:2:", "never closed"]),
        ("q.txt", "hello", ["is not JSON", "starts with 'hello'"]),
        ("q.txt", b"\x00\x01\x02", ["is not JSON"]),
    ],
)
def test_a_file_that_cannot_be_taken_apart_is_refused(
    tmp_path: Path, name: str, content: str | bytes, wanted: list[str]
) -> None:
    with pytest.raises(QuestionFileError) as caught:
        rows_of(write(tmp_path, name, content))

    for each in wanted:
        assert each.lower() in str(caught.value).lower()


def test_a_missing_file_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    write(tmp_path, "questions.json", "[]")

    with pytest.raises(QuestionFileError, match=r"no such file\. Did you mean 'questions.json'"):
        rows_of(tmp_path / "question.json")


def test_a_quoted_pattern_is_refused_with_what_takes_several_files(tmp_path: Path) -> None:
    write(tmp_path, "law.jsonl", json.dumps(GOOD))

    with pytest.raises(QuestionFileError, match=r"no such file\. Patterns are not read: name the folder"):
        rows_of(tmp_path / "*.jsonl")
    with pytest.raises(QuestionFileError, match=r"no such file\. (Did you mean|Check the path)"):
        rows_of(tmp_path / "*.csv")


@pytest.mark.parametrize(
    ("how", "wanted"),
    [({"split": "test"}, "has no split 'test', nor any other"), ({"subset": "law"}, "JSONL has no subset 'law'")],
)
def test_a_part_of_a_file_that_has_no_parts_is_refused(tmp_path: Path, how: dict[str, str], wanted: str) -> None:
    with pytest.raises(QuestionFileError, match=wanted):
        rows_of(write(tmp_path, "q.jsonl", json.dumps(GOOD)), **how)


@pytest.mark.parametrize("content", [[GOOD, GOOD], {"q1": GOOD, "q2": GOOD}, GOOD], ids=["list", "by id", "one"])
def test_a_subset_of_json_that_has_none_is_refused_instead_of_ignored(tmp_path: Path, content: object) -> None:
    path = write(tmp_path, "q.json", json.dumps(content, indent=1))
    assert rows_of(path)

    with pytest.raises(QuestionFileError, match="no subset 'law': the file has no named lists of questions") as caught:
        rows_of(path, subset="law")

    assert "--subject NAME" in str(caught.value)


@pytest.mark.parametrize(
    ("row", "field", "wanted"),
    [
        ({"text": "q", "choices": ["x", "y"]}, "question", "missing; found 'text, choices'"),
        ({**GOOD, "question": " "}, "question", "found ' ', expected text"),
        ({**GOOD, "question": 5}, "question", "found 5, expected text"),
        ({**GOOD, "question": "\ud800", "answer": None}, "question", "surrogate"),
        ({"question": "q"}, "choices", "missing, expected a list"),
        ({**GOOD, "choices": {"A": "x"}}, "choices", "expected a list"),
        ({**GOOD, "choices": ["x"]}, "choices", "found 1, expected 2 to 26"),
        (
            {**GOOD, "choices": [str(n) for n in range(27)]},
            "choices",
            "found 27, expected 2 to 26. Choices are labelled A to Z",
        ),
        ({**GOOD, "choices": ["x", ""]}, "choices", "choice B is empty"),
        ({**GOOD, "choices": [None, "y"]}, "choices", "choice A is empty"),
        ({**GOOD, "choices": ["x", 3]}, "choices", "choice B is 3, expected text. Write it in quotes"),
        ({**GOOD, "answer": "Z"}, "answer", "'Z' names no choice"),
        ({**GOOD, "id": ""}, "id", "1 to 200 characters"),
        ({**GOOD, "id": "a\nb"}, "id", "control characters"),
        ({**GOOD, "id": 1.5}, "id", "found 1.5"),
        ({**GOOD, "subject": 3}, "subject", "found 3"),
        ({**GOOD, "context": json.loads("[" * DEEP + "]" * DEEP)}, "context", "the lists are nested too deeply"),
        ({**GOOD, "metadata": [1]}, "metadata", "found [1], expected an object"),
        ({**GOOD, "source": 1, "metadata": {"source": 2}}, "metadata", "'source' is both in metadata and outside it"),
        ({"question": "q", "choices": ["x", "y"], "anwser": "A"}, "answer", "missing, but there is 'anwser'"),
        ({"question": "q", "choices": ["x", "y"], "correct_answer": "A"}, "answer", "'correct_answer'"),
        (
            {"title": "t", "paragraphs": [{"context": "c", "qas": [GOOD]}]},
            "question",
            "missing; found 'title, paragraphs'. There are questions inside, at paragraphs[].qas[]: write those to a"
            " file of their own, for example with jq -c '.. | .paragraphs?[]?.qas?[]?' FILE > questions.jsonl.",
        ),
        (
            {"title": "t", "the parts": [GOOD]},
            "question",
            "There are questions inside, at the parts[]: write those to a file of their own.",
        ),
        ({"id": 1, "data": GOOD}, "question", "There is a question inside, at data: name its fields with --map"),
        ([1, 2], None, "found [1, 2], expected an object"),
        (
            '{"question": "b",, }',
            None,
            "malformed JSON: Expecting property name enclosed in double quotes at column 18",
        ),
        ('{"n": NaN}', None, "NaN is not a JSON number"),
    ],
)
def test_a_bad_row_says_line_field_and_what_was_found(
    tmp_path: Path, row: object, field: str | None, wanted: str
) -> None:
    text = row if isinstance(row, str) else json.dumps(row)

    _, bad, last = rows_of(write(tmp_path, "q.jsonl", f"{json.dumps(GOOD)}\n{text}\n{json.dumps(GOOD)}\n"))

    assert last.question is not None, "the rows after it are read"
    assert bad.trouble is not None
    assert (bad.trouble.line, bad.trouble.field) == (2, field)
    assert wanted in str(bad.trouble)
    assert bad.trouble.hint, "every trouble says what to do"


def test_a_row_without_a_question_counts_as_one_in_which_it_is_missing(tmp_path: Path) -> None:
    *_, row = rows_of(write(tmp_path, "q.csv", "question,A,B,answer\nq,x,y,A\n,x,y,A\n"))

    assert row.trouble
    assert row.trouble.kind == "missing"


def test_duplicate_choices_are_allowed_while_the_answer_is_clear(tmp_path: Path) -> None:
    (question,) = questions_of(write(tmp_path, "q.jsonl", json.dumps({**GOOD, "choices": ["x", "x"]})))

    assert question.answer == "B"


def test_questions_without_any_key_need_no_answer_field(tmp_path: Path) -> None:
    (question,) = questions_of(write(tmp_path, "q.jsonl", json.dumps({"question": "q", "choices": ["x", "y"]})))

    assert question.answer is None


def test_what_is_nested_too_deeply_is_not_called_packed() -> None:
    with pytest.raises(QuestionFileError, match=r"q\.json: contains values .* nested too deeply"), explaining("q.json"):
        raise RecursionError("maximum recursion depth exceeded")


def test_standard_input_can_be_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(json.dumps(GOOD).encode())))

    with opened("-") as source:
        first, second = list(understand(source).rows()), list(understand(source).rows())

    assert first == second
    assert (source.shown, source.stem) == ("<stdin>", "stdin")
    assert not source.path.exists(), "the copy is gone"


def test_a_pipe_can_be_read_twice() -> None:
    """As `enqueue <(zcat …)` passes it: it contained no questions, as looking at its format had emptied it."""
    reader, writer = os.pipe()
    os.write(writer, json.dumps(GOOD).encode())
    os.close(writer)
    try:
        with opened(f"/dev/fd/{reader}") as source:
            first, second = list(understand(source).rows()), list(understand(source).rows())
    finally:
        os.close(reader)

    assert len(first) == 1
    assert first == second
    assert (source.shown, source.stem) == (f"/dev/fd/{reader}", "pipe"), "a run of that name is found again"
    assert not source.path.exists(), "the copy is gone"


#: A question whose key depends on which of two fields with the same name counts.
TWICE = '{"question": "Which?", "choices": ["x", "y"], "answer": "A", "answer": "B"}'


def test_a_row_with_the_same_field_twice_is_refused_alone(tmp_path: Path) -> None:
    bad, good = rows_of(write(tmp_path, "q.jsonl", f"{TWICE}\n{json.dumps(GOOD)}\n"))

    assert str(bad.trouble) == "q.jsonl:1: field 'answer': is there twice in one object. Keep one of the two."
    assert good.question


def test_that_an_object_has_the_same_field_twice_is_found_among_very_many(tmp_path: Path) -> None:
    """Each was compared with all before it: among 40,000, over HTTP, all other requests waited for 17 seconds."""
    members = ", ".join(f'"a{n}": 1' for n in (*range(500_000), 499_999))

    (bad,) = rows_of(write(tmp_path, "q.jsonl", f"{{{members}}}\n"))

    assert "field 'a499999': is there twice in one object" in str(bad.trouble)


def test_a_json_file_with_the_same_field_twice_in_a_question_is_refused_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "q.json", f"[{json.dumps(GOOD)},\n {TWICE}]")

    with pytest.raises(QuestionFileError, match=r"q.json:2: 'answer' is there twice in one object, at column 2"):
        rows_of(path)


def test_a_cell_with_the_same_label_twice_is_refused(tmp_path: Path) -> None:
    cell = '{""A"": ""x"", ""B"": ""y"", ""B"": ""z""}'

    (row,) = rows_of(write(tmp_path, "q.csv", f'question,choices,answer\nWhich?,"{cell}",B\n'))

    assert "'B': is there twice in one object" in str(row.trouble)


def test_the_same_instruction_above_a_question_of_each_row_is_no_row_per_choice(tmp_path: Path) -> None:
    """As in ruMMLU: the file was refused as if each row had one choice, with advice on how to join them."""
    inside = {"text": "q", "option_a": "x", "option_b": "y"}
    row = json.dumps({"instruction": "Answer.", "inputs": inside, "outputs": "A"})
    other = row.replace('"q"', '"r"')

    told = [str(each.trouble) for each in rows_of(write(tmp_path, "q.jsonl", f"{row}\n{other}\n{row}\n"))]

    assert all(
        "a question inside, at inputs: name its fields with --map question=inputs.FIELD" in each for each in told
    )
    how = HowToRead(
        mapping={"question": "inputs.text", "choices": "inputs.option_a+inputs.option_b", "answer": "outputs"}
    )
    mapped = [each.question for each in understand(Source(tmp_path / "q.jsonl", "q.jsonl", how)).rows()]
    assert [(each.question, each.choices, each.right) for each in mapped if each] == [
        ("q", ("x", "y"), ("A",)),
        ("r", ("x", "y"), ("A",)),
        ("q", ("x", "y"), ("A",)),
    ]
