"""Relevance judgements in a file of their own."""

from __future__ import annotations

import gzip
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from contract.errors import QuestionFileError
from contract.ledger import MemoryLedger
from producer.intake.qrels import Qrels
from tests.support import make_question
from tests.unit.producer.conftest import Producer

FORMATS = {
    "BEIR": "query-id\tcorpus-id\tscore\nq0\tp1\t1\nq0\tp2\t2\nq1\tp3\t0\nq2\tp 4\t1\n",
    "TREC": "q0 0 p1 1\nq0 0 p2 3\nq1 0 p3 0\nq2 0 p4 1\n",
    "JSON Lines": '{"qid": "q0", "pids": ["p1", "p2"]}\n\n{"query-id": "q2", "corpus-id": 4, "score": 1}\n',
}


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(("form", "last"), [("BEIR", "p 4"), ("TREC", "p4"), ("JSON Lines", "4")])
def test_what_is_judged_above_0_answers(tmp_path: Path, form: str, last: str) -> None:
    for encoding in ("utf-8", "utf-8-sig"):
        (tmp_path / "qrels").write_text(FORMATS[form], encoding=encoding)
        assert Qrels.read(tmp_path / "qrels").passages == {"q0": ["p1", "p2"], "q2": [last]}


@pytest.mark.parametrize("header", ["question_id\tpassage_id\tscore", "QID pid rel", "topic iteration doc rel"])
def test_columns_may_be_named_as_fields_of_json_lines_are(tmp_path: Path, header: str) -> None:
    (tmp_path / "qrels").write_text(f"{header}\nq0 p1 1\n")
    assert Qrels.read(tmp_path / "qrels").passages == {"q0": ["p1"]}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("q0\tp1\t1\nq1\tp2\n", ":2: is not a relevance judgement"),
        ("q0 p1 much\n", ":1: is not a relevance judgement"),
        ("q0 0 p1 nan\n", ":1: is not a relevance judgement"),
        ('{"qid": "q0"}\n', ":1: is not a relevance judgement"),
        ('{"pid": "p1", "score": 1}\n', ":1: is not a relevance judgement"),
        ('{"qid": "q0", "pid": "p1", "score": NaN}\n', ":1: is not a relevance judgement"),
        ('{"qid": "q0", "pid": "p1", "pid": "p2"}\n', ":1: field 'pid': is there twice in one object. Keep one"),
        ('{"qid": "q0", "pids": ' + 100_000 * "[" + "\n", ":1: is not a relevance judgement"),
        ("query-id\tcorpus-id\tscore\n", "no judgement above 0"),
        ("q0\tp1\t1\nq0\t \t1\n", ":2: the passage's id is empty"),
        ('{"qid": "q0", "pids": ["p1", null]}\n', ":1: the passage's id is empty"),
        ('{"qid": "q0", "pids": ["\\ud800"]}\n', ":1: the passage's id contains half a surrogate pair"),
        ('{"qid": "q0", "pids": {"p1": 1, "p2": 0}}\n', ":1: is not a relevance judgement"),
        ('{"qid": "q0", "pids": ["p1", "p2"], "score": [1]}\n', ":1: is not a relevance judgement"),
        ('{"qid": "q0", "pid": "p1", "score": null}\n', ":1: is not a relevance judgement"),
        ('{"qid": "q0", "pid": "p1", "grading": 0}\n', r":1: 'grading' may say how relevant .* Name it score,"),
    ],
)
def test_a_row_that_is_no_judgement_is_told_with_its_line(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "qrels").write_text(content)
    with pytest.raises(QuestionFileError, match=says):
        Qrels.read(tmp_path / "qrels")


@pytest.mark.parametrize("name", ["score", "label", "grade", "relevances"])
def test_of_a_list_of_passages_each_has_its_own_judgement(tmp_path: Path, name: str) -> None:
    rows = ('"pids": ["p1", "p2", "p3"], "%s": [1, 0, 2]', '"pid": "p4", "%s": 0', '"pid": "p5", "%s": 1')
    (tmp_path / "qrels").write_text("".join(f'{{"qid": "q0", {row % name}}}\n' for row in rows))
    assert Qrels.read(tmp_path / "qrels").passages == {"q0": ["p1", "p3", "p5"]}


@pytest.mark.parametrize("scores", [(1, 0), (0, 2), (-1, 1)])
def test_judgements_that_contradict_each_other_are_refused(tmp_path: Path, scores: tuple[int, int]) -> None:
    (tmp_path / "qrels").write_text("".join(f"q0\tp1\t{score}\n" for score in scores))
    with pytest.raises(QuestionFileError, match=r"qrels:2: 'p1' is judged twice for 'q0': once above 0, once"):
        Qrels.read(tmp_path / "qrels")


def test_a_judgement_that_is_given_again_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q0\tp1\t1\nq0\tp2\t0\nq0\tp1\t2\nq0\tp2\t-1\nq1\tp2\t1\n")
    assert set(Qrels.read(tmp_path / "qrels").passages["q0"]) == {"p1"}


def test_an_empty_passage_of_no_relevance_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q0\tp1\t1\nq0\t\t0\n")
    assert Qrels.read(tmp_path / "qrels").passages == {"q0": ["p1"]}


def test_a_missing_file_is_told_without_a_hint_at_formats(tmp_path: Path) -> None:
    is_folder = r"cannot be read: Is a directory\. Check the path and its permissions\.$"
    for path, why in ((tmp_path / "none", r"none: no such file\. Check the path"), (tmp_path, is_folder)):
        with pytest.raises(QuestionFileError, match=why):
            Qrels.read(path)


def test_judgements_may_be_packed_or_come_through_a_pipe(tmp_path: Path) -> None:
    found = Qrels.read(write(tmp_path / "qrels", FORMATS["TREC"].encode())).passages
    assert Qrels.read(write(tmp_path / "qrels.gz", gzip.compress(FORMATS["TREC"].encode()))).passages == found
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as threads:
        threads.submit(write, tmp_path / "pipe", FORMATS["TREC"].encode())
        assert Qrels.read(tmp_path / "pipe").passages == found


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(QuestionFileError, match="the line is longer than 64 MiB"):
        Qrels.read(Path("/dev/zero"))


def test_judgements_are_enqueued_as_gold_passages_and_ids_of_no_question_are_counted(
    tmp_path: Path, producer: Producer, ledger: MemoryLedger
) -> None:
    questions = [make_question(0, gold_passages=("own",)), make_question(1)]
    (tmp_path / "q.jsonl").write_text("\n".join(each.model_dump_json() for each in questions))
    (tmp_path / "qrels").write_text(FORMATS["TREC"])

    def enqueue(qrels: str, exit_code: int = 0) -> str:
        return producer("enqueue", "q.jsonl", "--qrels", qrels, exit_code=exit_code).output

    said = "judgements of 1 of 2 questions; no selected question has 1 of its ids, the first is 'q2'"
    assert said in " ".join(enqueue("qrels").split())
    (run,) = ledger.runs()
    assert [each.gold_passages for each, _ in ledger.results(run.run_id)] == [("own", "p1", "p2"), ()]

    (tmp_path / "known").write_text("q0 0 p1 1\nq1 0 p1 1\n")
    told = enqueue("known")
    assert "judgements of 2 of 2 questions" in told
    assert "no selected question" not in told
    (tmp_path / "others").write_text("x7 0 p1 1\n")
    assert "none of its 1 id matches a question: the first is 'x7'" in " ".join(enqueue("others", exit_code=1).split())
    assert len(ledger.runs()) == 2
