"""`enqueue --reuse RUN`: of a corrected or longer file, the model is asked only what it was not asked before."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from contract.engine_info import EngineUsed
from contract.errors import RedisUnreachable
from contract.ledger import MemoryLedger
from contract.question import Body
from contract.spec import RunSpec
from contract.verdict import Failure, Outcome
from producer.broker import MemoryBroker
from producer.runs.reuse import Earlier
from tests.docs import blocks
from tests.support import ROOT, make_question, open_run, settle
from tests.unit.producer.conftest import Producer, WriteRows

#: The answer to every question is its choice B.
CHOSEN: dict[str, Any] = {"choice": "B", "latency_ms": 100.0, "prompt_tokens": 9}
LOST = Failure(type="Lost", message="lost")
ROWS: list[dict[str, Any]] = [
    {"id": f"q{n}", "question": f"Question {n}?", "choices": ["no", "yes", "maybe"], "answer": "B", "subject": "red"}
    for n in range(6)
]


def answer(ledger: MemoryLedger, run_id: str, *failed: str, at: float = 1000.0) -> None:
    """Settle what is unsettled as a worker would at that time, but for those that `failed`."""
    for question, verdict in list(ledger.results(run_id)):
        if verdict is None and question.id in failed:
            settle(ledger, run_id, question.id, outcome=Outcome.FAILED, error=LOST)
        elif verdict is None:
            outcome = Outcome.CORRECT if "B" in question.right else Outcome.WRONG
            settle(ledger, run_id, question.id, outcome=outcome, worker="w0", settled_at=at, **CHOSEN)
    ledger.note_engine(run_id, EngineUsed(worker="w0", engine={"engine": "vllm"}, since=at))


def sent(broker: MemoryBroker, run_id: str) -> list[str]:
    return [each for _, run, ids in broker.messages if run == run_id for each in ids]


@pytest.fixture
def first(producer: Producer, ledger: MemoryLedger, write_rows: WriteRows) -> str:
    """The run over the six questions, of which the last one failed."""
    run_id: str = producer.json("enqueue", write_rows(*ROWS), "--run", "exam")["run_id"]
    answer(ledger, run_id, "q5")
    return run_id


def test_only_what_the_model_was_not_asked_is_sent_and_answers_are_marked_by_the_key_of_now(
    producer: Producer, ledger: MemoryLedger, broker: MemoryBroker, write_rows: WriteRows, first: str
) -> None:
    corrected = [
        ROWS[0],
        {**ROWS[1], "answer": "C"},
        {**ROWS[2], "question": "Question two?"},
        {**ROWS[3], "subject": "blue", "source": "page 3"},
        ROWS[5],
        {**ROWS[4], "id": "new"},
    ]

    told = producer("enqueue", write_rows(*corrected), "--run", "exam", "--reuse", first).stdout

    second = next(each for each in ledger.run_ids() if each != first)
    assert sent(broker, second) == ["q2", "q5", "new"]
    assert "new: 3 questions sent in 2 messages" in told
    reused = "to ask 3 questions: 1 not in it · 1 without an answer there · 1 not the same there"
    assert f"3 answers of {first}; {reused}" in " ".join(told.split())
    assert f"in questions from {first}, the last run of this name" in " ".join(told.split())
    assert "all questions are asked" not in told
    found = {question.id: verdict for question, verdict in ledger.results(second) if verdict}
    outcomes = {each: (verdict.outcome, verdict.choice, verdict.reused_from) for each, verdict in found.items()}
    assert outcomes == {
        "q0": (Outcome.CORRECT, "B", first),
        "q1": (Outcome.WRONG, "B", first),
        "q3": (Outcome.CORRECT, "B", first),
    }
    assert ledger.engines(second) == ledger.engines(first)
    kept = ledger.result(first, "q1")[1]
    assert kept is not None
    assert (kept.outcome, kept.reused_from) == (Outcome.CORRECT, "")


def test_questions_are_left_out_as_the_documentation_says_and_nothing_is_asked(
    producer: Producer, ledger: MemoryLedger, broker: MemoryBroker, first: str
) -> None:
    producer("export", first, "--format", "jsonl", exit_code=3)
    Path("contaminated.txt").write_text("q1\nq5\n")
    (block,) = (each for each in blocks(ROOT / "docs" / "questions.md") if "contaminated.txt" in each)

    exec(block.replace("exam-1a2b3c4d", first), {})

    rest = producer.json("enqueue", "clean.jsonl", "--run", "exam", "--reuse", first)
    assert (rest["questions"], rest["reused"], rest["sent"]) == (4, 4, 0)
    assert [question.id for question, _ in ledger.results(rest["run_id"])] == ["q0", "q2", "q3", "q4"]
    assert sent(broker, rest["run_id"]) == []


def test_a_sample_need_not_be_asked_again_as_a_part_of_the_whole_file(
    producer: Producer, ledger: MemoryLedger, broker: MemoryBroker, write_rows: WriteRows
) -> None:
    path = write_rows(*ROWS)
    sample = producer.json("enqueue", path, "--sample", 2)["run_id"]
    answer(ledger, sample)

    whole = producer.json("enqueue", path, "--reuse", "last")

    assert (whole["reused"], whole["sent"], whole["unsettled"]) == (2, 4, 4)
    assert not set(sent(broker, whole["run_id"])) & set(sent(broker, sample))


def test_what_was_enqueued_before_its_answers_were_taken_over_takes_them_over_when_it_is_enqueued_again(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, first: str
) -> None:
    path = write_rows(*ROWS[:4], {**ROWS[4], "id": "new"})
    told = " ".join(producer("enqueue", path, "--run", "exam").stdout.split())
    assert f"repeat this command with --reuse {first}, which takes over the answers to those in both" in told

    again = producer.json("enqueue", path, "--run", "exam", "--reuse", first)

    assert (again["state"], again["reused"], again["unsettled"]) == ("resumed", 4, 1)
    assert ledger.counts(again["run_id"]).todo == 1


def test_a_paused_run_that_got_all_its_answers_is_not_to_be_resumed(
    producer: Producer, write_rows: WriteRows, first: str
) -> None:
    path = write_rows(*ROWS[:5])
    second = producer.json("enqueue", path, "--run", "exam")["run_id"]
    producer("pause", second)
    told = producer("enqueue", path, "--run", "exam", "--reuse", first).stdout
    assert "resumed: 0 of 5 unsettled, 0 re-sent in 0 messages, 5 answers taken over" in " ".join(told.split())
    assert "settled" in producer("status", second).stdout


def test_a_dry_run_tells_how_many_answers_there_are_and_writes_none(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, first: str
) -> None:
    path = write_rows(*ROWS, {**ROWS[0], "id": "new"})
    told = " ".join(producer("enqueue", path, "--dry-run", "--reuse", first).stdout.split())
    assert f"5 answers of {first}; to ask 2 questions: 1 not in it · 1 without an answer there" in told
    assert producer.json("enqueue", path, "--dry-run", "--reuse", first)["reused"] == 5
    assert ledger.run_ids() == [first]


def test_what_is_still_to_be_answered_in_the_earlier_run_is_asked(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows
) -> None:
    going_on = producer.json("enqueue", write_rows(*ROWS), "--run", "exam")["run_id"]
    settle(ledger, going_on, "q0", **CHOSEN)
    told = " ".join(producer("enqueue", write_rows(*ROWS[:3]), "--reuse", going_on).stdout.split())
    assert f"1 answer of {going_on}; to ask 2 questions: 2 without an answer there" in told


def test_it_is_told_how_many_answers_were_taken_over_also_if_it_was_all_or_none(
    producer: Producer, write_rows: WriteRows, first: str
) -> None:
    told = " ".join(producer("enqueue", write_rows(*ROWS[:5]), "--reuse", first).stdout.split())
    assert f"5 answers of {first}" in told
    assert "to ask" not in told
    new = [{**each, "id": f"new-{each['id']}"} for each in ROWS[:2]]
    told = " ".join(producer("enqueue", write_rows(*new), "--reuse", first).stdout.split())
    assert f"0 answers of {first}; to ask 2 questions: 2 not in it" in told


def test_times_and_tokens_of_a_run_are_those_of_the_questions_that_it_asked_itself(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, first: str, tmp_path: Path
) -> None:
    path = write_rows(*ROWS, *({**ROWS[0], "id": f"new{n}"} for n in range(2)))
    second = producer.json("enqueue", path, "--run", "exam", "--reuse", first)["run_id"]
    answer(ledger, second, at=5000.0)

    producer("export", second, "--out", tmp_path / "out")
    producer("report", second, "--out", tmp_path / "out")

    summary = json.loads((tmp_path / "out" / second / "summary.json").read_text())
    assert (summary["settled"], summary["reused"]) == (8, {first: 5})
    assert (summary["wall_s"], summary["questions_per_s"], summary["tokens"]["prompt"]) == (0.1, 30.0, 3 * 9)
    assert summary["first_settled_at"].startswith("1970-01-01T01:23:20")
    shown = producer("watch", second).stdout
    assert "30.0 questions/s: 3 questions in" in shown
    assert f"5 answers of {first}" in shown
    rows = (tmp_path / "out" / second / "results.csv").read_text().splitlines()
    assert [row.rsplit(",", 1)[1] for row in rows[1:]] == [first] * 5 + [""] * 3
    page = (tmp_path / "out" / second / "report.html").read_text()
    assert f"5 answers of {first}; times and tokens are without them" in page
    assert f"the answer that {first} got" in producer("show", second, "q0").stdout


def test_a_run_that_asked_nothing_itself_is_settled_and_has_no_speed(
    producer: Producer, write_rows: WriteRows, first: str, tmp_path: Path
) -> None:
    corrected = write_rows(*({**row, "answer": "A"} for row in ROWS[:5]))
    out = ("--out", tmp_path / "out")
    told = producer("enqueue", corrected, "--run", "exam", "--reuse", first, "--watch", *out).stdout
    assert "new: 0 questions sent in 0 messages" in told
    assert "(0 of 5) over all questions" in told
    assert "questions/s" not in told
    second = next(each for each in producer.json("runs") if each["run_id"] != first)["run_id"]
    summary = json.loads((tmp_path / "out" / second / "summary.json").read_text())
    assert (summary["wall_s"], summary["reused"]) == (None, {first: 5})
    producer("report", second, *out)
    assert "Throughput" not in (tmp_path / "out" / second / "report.html").read_text()


def test_a_run_that_failed_on_all_that_it_asked_itself_has_no_speed_anywhere(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, first: str, tmp_path: Path
) -> None:
    """The terminal told none, but the report told how fast questions had failed."""
    second = producer.json("enqueue", write_rows(*ROWS, ROWS[0] | {"id": "q6"}), "--run", "exam", "--reuse", first)[
        "run_id"
    ]
    for at, each in enumerate(("q5", "q6"), 1001):
        settle(ledger, second, each, outcome=Outcome.FAILED, error=LOST, latency_ms=50.0, settled_at=at)
    assert "questions/s" not in producer("export", second, "--out", tmp_path, exit_code=3).stdout
    assert json.loads((tmp_path / second / "summary.json").read_text())["questions_per_s"] is None
    producer("report", second, "--out", tmp_path)
    page = (tmp_path / second / "report.html").read_text()
    assert "questions/s" not in page
    assert "Throughput" not in page


def test_answers_that_were_taken_over_twice_name_the_run_that_asked(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, first: str
) -> None:
    second = producer.json("enqueue", write_rows(*ROWS[:2]), "--run", "exam", "--reuse", first)["run_id"]
    third = producer.json("enqueue", write_rows(ROWS[0]), "--run", "exam", "--reuse", second)["run_id"]
    (verdict,) = [verdict for _, verdict in ledger.results(third)]
    assert verdict is not None
    assert verdict.reused_from == first


def test_pairs_that_are_one_answer_are_no_sign_that_two_runs_agree(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, first: str, tmp_path: Path
) -> None:
    """A corrected file was compared with the first: no difference, with an interval as if the model was asked twice."""
    path = write_rows(*ROWS[:4], {**ROWS[4], "question": "Another?"}, ROWS[5])
    second = producer.json("enqueue", path, "--run", "exam", "--reuse", first)["run_id"]
    third = producer.json("enqueue", path, "--run", "anew")["run_id"]
    answer(ledger, second)
    answer(ledger, third)
    said = "in 4 of 4 pairs, both runs have the same answer, taken over by `enqueue --reuse`: these cannot differ"
    assert f"reused      {said}" in producer("compare", first, second, "--shared").stdout
    assert producer.json("compare", first, second, "--shared")["same_answers"] == 4
    told = producer("compare", second, third)
    assert "reused" not in told.stdout
    producer("report", first, second, "--shared", "--out", tmp_path)
    (page,) = tmp_path.rglob("*.html")
    assert (
        "In 4 of 4 pairs, both runs have the same answer, taken over by <code>enqueue --reuse</code>"
        in page.read_text()
    )


@pytest.mark.parametrize(
    ("options", "differs"),
    [
        (["--set", "mode=letter"], "mode, prompt.name, prompt.text, prompt.version"),
        (["--set", "normalization=byte"], "normalization"),
        (["--model", "another"], "model"),
        (["--set", "description=Answer."], "description"),
        (["--set", "rag.use_context_field=true"], "rag.use_context_field"),
    ],
)
def test_answers_to_other_prompts_or_of_another_model_are_not_taken_over(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, first: str, options: list[str], differs: str
) -> None:
    told = producer("enqueue", write_rows(*ROWS[:5]), *options, "--reuse", first, exit_code=1).stderr
    assert f"--reuse {first}: it was asked in another way, which differs in {differs}." in told
    assert "Repeat its --config, --set and --model, or leave out --reuse" in told
    assert ledger.run_ids() == [first]


def test_a_run_cannot_reuse_itself_nor_ask_afresh(producer: Producer, write_rows: WriteRows, first: str) -> None:
    path = write_rows(*ROWS)
    told = producer("enqueue", path, "--run", "exam", "--reuse", "last", exit_code=1).stderr
    assert f"{first} is the run that this command asks for" in told
    assert "give one of the two" in producer("enqueue", path, "--fresh", "--reuse", first, exit_code=2).stderr
    assert "No run 'nothing'" in producer("enqueue", path, "--reuse", "nothing", exit_code=1).stderr


def test_with_an_unset_variable_for_the_earlier_run_nothing_is_asked(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, first: str
) -> None:
    assert "RUN is empty" in producer("enqueue", write_rows(*ROWS[:4]), "--reuse", "", exit_code=1).stderr
    assert ledger.run_ids() == [first]


def test_a_command_with_reuse_last_that_was_interrupted_can_be_repeated(
    producer: Producer, ledger: MemoryLedger, broker: MemoryBroker, write_rows: WriteRows, first: str
) -> None:
    path = write_rows(*ROWS, {**ROWS[0], "id": "new"})
    begun = producer.json("enqueue", path, "--run", "exam", "--reuse", "last")["run_id"]
    again = producer.json("enqueue", path, "--run", "exam", "--reuse", "last")
    assert (again["run_id"], again["state"], again["unsettled"]) == (begun, "resumed", 2)
    assert sent(broker, begun) == ["q5", "new"]


def test_a_command_that_is_killed_twice_leaves_workers_nothing_to_ask_that_is_answered(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers send what is unsettled of a run that is written: all was, the second time, before any was settled."""
    path = write_rows(*ROWS, {**ROWS[0], "id": "new"})
    monkeypatch.setattr("contract.prefix_order.IN_ORDER", 2)
    windows = iter(range(99))

    def killed_at(last: int) -> None:
        def write(run_id: str, bodies: Iterable[Body]) -> None:
            if next(windows) == last:
                raise RedisUnreachable("Redis is gone.", hint="Start it.")
            MemoryLedger.add_bodies(ledger, run_id, bodies)

        monkeypatch.setattr(ledger, "add_bodies", write)

    for last in (1, 4):
        killed_at(last)
        producer("enqueue", path, "--run", "exam", "--reuse", first, exit_code=1)
        second = next(each for each in ledger.run_ids() if each != first)
        assert not ledger.counts(second).written
        assert list(ledger.unsettled(second)) == []
    killed_at(-1)
    again = producer.json("enqueue", path, "--run", "exam", "--reuse", first)
    assert (again["reused"], again["unsettled"]) == (5, 2)


def test_a_run_that_was_purged_while_its_answers_were_taken_over_is_named(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_rows(*ROWS, {**ROWS[0], "id": "new"})

    def purged_by_then(run_id: str, bodies: Iterable[Body]) -> None:
        MemoryLedger.add_bodies(ledger, run_id, bodies)
        ledger.purge(first)

    monkeypatch.setattr(ledger, "add_bodies", purged_by_then)
    told = producer("enqueue", path, "--run", "exam", "--reuse", first, exit_code=1).stderr
    assert f"--reuse {first}: it is no longer in the ledger" in told
    assert "Leave out --reuse: then the command goes on" in told
    monkeypatch.undo()
    assert producer.json("enqueue", path, "--run", "exam")["unsettled"] == 7


def test_no_answer_is_taken_over_before_it_is_recorded_which_engine_gave_it(
    ledger: MemoryLedger, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ledger.run(first)
    second = ledger.open_run(run.model_copy(update={"run_id": "second"}))
    ledger.add_questions(second.run_id, [question for question, _ in ledger.results(first)])

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        Earlier(ledger, run, run.spec).settle(second.run_id, ["q0"])
    assert ledger.engines(second.run_id) == ledger.engines(first)


def test_a_rescored_run_names_the_one_whose_answers_it_has(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, first: str
) -> None:
    run = ledger.run(first)
    spec = run.spec.model_copy(update={"rescored_from": first, "rules_version": "0a1b2c3d"})
    ledger.open_run(run.model_copy(update={"run_id": "exam-rescored-0a1b2c3d", "spec": spec}))
    told = producer("enqueue", write_rows(*ROWS), "--reuse", "exam-rescored", exit_code=1).stderr
    assert f"it reads the texts of {first} again" in told
    assert f"Give --reuse {first}, and rescore the new run: python -m workers rescore RUN" in " ".join(told.split())


def test_enqueuing_beside_many_runs_is_not_slower_for_each_of_them(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All few-shot examples were hashed once for each other run in the ledger."""
    hashed: list[RunSpec] = []
    fingerprint = RunSpec.fingerprint

    def noting(spec: RunSpec) -> str:
        hashed.append(spec)
        return fingerprint(spec)

    monkeypatch.setattr(RunSpec, "fingerprint", noting)
    counts = []
    for n in range(2):
        hashed.clear()
        producer("enqueue", write_rows(*ROWS[n:]), "--run", f"exam {n}")
        counts.append(len(hashed))
        for each in range(50):
            open_run(ledger, [make_question(0)], f"other {each}")
    assert counts[0] == counts[1]


def test_a_suite_takes_over_the_answers_of_each_runs_namesake(
    producer: Producer, ledger: MemoryLedger, write_rows: WriteRows, tmp_path: Path
) -> None:
    suite = tmp_path / "two.yaml"
    entries = [{"name": mode, "file": "q.jsonl", "set": {"mode": mode}} for mode in ("likelihood", "letter")]
    suite.write_text(json.dumps({"name": "two", "entries": entries}))
    write_rows(*ROWS, name="q.jsonl")
    first = [each["run_id"] for each in producer.json("suite", suite)["runs"]]
    for run_id in first:
        answer(ledger, run_id)
    write_rows({**ROWS[0], "answer": "A"}, *ROWS[1:], {**ROWS[0], "id": "new"}, name="q.jsonl")
    dry = " ".join(producer("suite", suite, "--reuse", "--dry-run").stdout.split())
    assert all(f"6 answers of {run_id}; to ask 1 question: 1 not in it" in dry for run_id in first)
    assert [each["reused"] for each in producer.json("suite", suite, "--reuse", "--dry-run")["runs"]] == [6, 6]
    assert "--reuse, which takes over" in " ".join(producer("suite", suite).stdout.split())

    again = producer.json("suite", suite, "--reuse")

    assert [(each["submitted"], each["reused"], each["sent"]) for each in again["runs"]] == [("resumed", 6, 0)] * 2
    assert [ledger.counts(each["run_id"]).todo for each in again["runs"]] == [1, 1]
    reused = [
        {verdict.reused_from for _, verdict in ledger.results(each["run_id"]) if verdict} for each in again["runs"]
    ]
    assert reused == [{each} for each in first]


def test_an_entry_of_a_suite_that_was_renamed_takes_over_the_answers_that_it_had(
    producer: Producer, ledger: MemoryLedger, broker: MemoryBroker, write_rows: WriteRows, tmp_path: Path
) -> None:
    """All of its questions were asked again for another word in the table."""
    suite = tmp_path / "one.yaml"
    write_rows(*ROWS, name="q.jsonl")

    def ask(name: str, *options: str) -> dict[str, Any]:
        suite.write_text(json.dumps({"name": "one", "entries": [{"name": name, "file": "q.jsonl"}]}))
        (run,) = producer.json("suite", suite, *options)["runs"]
        return dict(run)

    first = ask("closed bok")["run_id"]
    answer(ledger, first)

    renamed = ask("closed book", "--reuse")

    assert (renamed["reused"], renamed["sent"]) == (len(ROWS), 0)
    assert renamed["run_id"] != first
    assert sent(broker, renamed["run_id"]) == []
