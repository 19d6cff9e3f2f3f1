"""A large run's results, made by two processes."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.errors import LedgerError, RedisUnreachable
from contract.ledger import MemoryLedger, Run, RunState
from contract.mode import Mode
from contract.question import Question
from contract.spec import IndexKind, Judge, Prompt, Retrieval, RunSpec, Sampling
from contract.verdict import ContextSource, Failure, Outcome, Passage, Verdict
from producer.export import parts
from producer.export.formats import FORMATS
from producer.export.parts import Part, pieces
from producer.export.results import export
from producer.export.summary import Summary
from producer.export.summary_json import summary_json

Results = Iterator[tuple[Question, Verdict | None]]
COUNT = 37
PROMPT = Prompt(name="question", text="{{ question }}")
RETRIEVAL = Retrieval(index="i", index_digest="0" * 64, kind=IndexKind.BM25)


@pytest.fixture
def filled(ledger: MemoryLedger) -> MemoryLedger:
    spec = RunSpec(
        questions_digest="0" * 64,
        model="m",
        mode=Mode.JUDGE,
        prompt=PROMPT,
        sampling=Sampling(),
        judge=Judge(prompt=PROMPT),
        rag=RETRIEVAL,
    )
    fill(ledger, spec)
    return ledger


def fill(ledger: MemoryLedger, spec: RunSpec) -> Run:
    run = Run(run_id="run-1", spec=spec, source="q.json", questions=COUNT, chance=0.5, created_at=1.0)
    ledger.open_run(run)
    ledger.add_questions(run.run_id, map(question, range(COUNT)))
    ledger.commit(run.run_id, [verdict(number) for number in range(COUNT) if number % 6])
    return run


def question(number: int) -> Question:
    return Question(
        id=f"q{number}",
        question="q",
        choices=("x", "yyy"),
        answer="AB"[number % 2] if number % 7 else None,
        subject=f"s{number % 3}",
        context=f"Text {number % 11}." if number % 2 else None,
        gold_passages=(f"p{number % 4}",),
    )


def verdict(number: int) -> Verdict:
    outcome = list(Outcome)[number % len(Outcome)]
    return Verdict(
        question_id=f"q{number}",
        outcome=outcome,
        error=Failure(type=f"Trouble{number}", message="again") if outcome is Outcome.FAILED else None,
        choice="A",
        choice_scores={"A": -0.1 * number, "B": -1.0},
        confidence=1 / (1 + number),
        context_source=list(ContextSource)[number % len(ContextSource)],
        passages=tuple(Passage(id=f"p{at}", score=at, text="x", shown=at < 2) for at in range(number % 4)),
        retrieval_hit=(True, False, None)[number % 3],
        margin=(0.0, 0.5)[number % 2],
        label_mass=number / 64,
        simulated=number % 4 == 1,
        truncated=number % 4 == 3,
        context_full=number % 8 == 7,
        rotations_right=(0, 1, 4)[number % 3],
        rotations=4,
        prompt_tokens=number,
        completion_tokens=2 * number,
        prefill_tokens=3 * number,
        cached_tokens=number // 2,
        worker=f"w{number}",
        reused_from="earlier" if number % 9 == 4 else "",
        latency_ms=number,
        settled_at=1_700_000_000 + (number + 23) % COUNT,  # from number 14 to 13, which the other one counts
    )


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small parts, shared out however small the run and the machine are."""
    monkeypatch.setattr(parts, "PART_QUESTIONS", 4)
    monkeypatch.setattr(parts, "MANY_QUESTIONS", 0)
    monkeypatch.setattr(parts, "_can_share", lambda: True)


def contents(directory: Path) -> dict[str, object]:
    """Of all files by name, without the time of the export."""
    found: dict[str, object] = {path.name: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    summary = json.loads((directory / "summary.json").read_text())
    return {**found, "summary.json": {**summary, "exported_at": None}}


def maker_of(_: Part) -> int:
    return os.getpid()


def more_than_a_pipe_holds(_: Part) -> str:
    return "x" * 1_000_000


def makers(ledger: MemoryLedger) -> list[int]:
    """Process ids, by part."""
    run = ledger.run("run-1")
    summary = Summary(run, RunState.RUNNING)
    found = [pid for (pid,) in pieces(ledger, run, [maker_of], summary)]
    assert summary.tally.total == COUNT
    return found


def test_a_small_run_is_left_to_one_process(filled: MemoryLedger) -> None:
    assert makers(filled) == [os.getpid()]


@pytest.mark.usefixtures("shared")
def test_of_a_large_run_every_other_part_is_made_by_a_second_process(filled: MemoryLedger) -> None:
    found = makers(filled)

    assert len(found) == 10
    assert set(found[0::2]) == {os.getpid()}
    assert len(set(found[1::2]) - {os.getpid()}) == 1
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("name", FORMATS)
def test_two_processes_write_the_very_files_that_one_writes(
    filled: MemoryLedger, tmp_path: Path, request: pytest.FixtureRequest, name: str
) -> None:
    export(filled, "run-1", tmp_path / "one", (name,))
    request.getfixturevalue("shared")
    export(filled, "run-1", tmp_path / "two", (name,))

    assert contents(tmp_path / "two") == contents(tmp_path / "one")


@pytest.mark.usefixtures("shared")
def test_two_processes_count_figures_of_likelihoods_as_one_does(ledger: MemoryLedger) -> None:
    spec = RunSpec(questions_digest="0" * 64, model="m", mode=Mode.LIKELIHOOD, prompt=PROMPT)
    run = fill(ledger, spec)
    whole, shared = Summary.of(run, RunState.RUNNING, ledger.results(run.run_id)), Summary(run, RunState.RUNNING)
    list(pieces(ledger, run, [maker_of], shared))

    figures, expected = summary_json(shared), summary_json(whole)
    assert {**figures, "exported_at": None} == {**expected, "exported_at": None}
    assert figures["positions"]["of"] > 2
    assert shared.failures.count == whole.failures.count
    assert shared.failures.examples.keys() == whole.failures.examples.keys()
    assert len(whole.failures.count) > 2
    assert len(set(whole.by_normalization().values())) > 1


@pytest.mark.usefixtures("shared")
def test_what_goes_wrong_in_the_second_process_is_raised_in_the_first(
    filled: MemoryLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = filled.results

    def broken(run_id: str, start: int, stop: int) -> Results:
        if multiprocessing.parent_process() is not None and start > 8:
            raise RedisUnreachable("gone", hint="Start one.")
        return results(run_id, start, stop)

    monkeypatch.setattr(filled, "results", broken)
    with pytest.raises(RedisUnreachable, match=r"gone Start one\."):
        export(filled, "run-1", tmp_path)

    assert (list(tmp_path.iterdir()), multiprocessing.active_children()) == ([], [])


@pytest.mark.usefixtures("shared")
def test_a_bug_in_the_second_process_is_raised_in_the_first_with_its_own_traceback(filled: MemoryLedger) -> None:
    def with_a_bug(_: Part) -> int:
        return 1 // (multiprocessing.parent_process() is None)

    run = filled.run("run-1")
    with pytest.raises(ZeroDivisionError) as raised:
        list(pieces(filled, run, [with_a_bug], Summary(run)))
    assert "return 1 // (multiprocessing.parent_process() is None)" in "".join(raised.value.__notes__)


@pytest.mark.usefixtures("shared")
def test_a_second_process_that_is_killed_is_one_clear_error(
    filled: MemoryLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(run_id: str, start: int, stop: int) -> Results:
        if multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return iter(())

    monkeypatch.setattr(filled, "results", killed)
    with pytest.raises(LedgerError, match=r"was killed\. Try again\."):
        export(filled, "run-1", tmp_path)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("shared")
def test_where_the_system_starts_no_further_process_the_first_one_makes_all_parts(
    filled: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was said of the results' folder that nothing can be written there, and another was to be named."""

    def no_process() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", no_process)
    assert set(makers(filled)) == {os.getpid()}


@pytest.mark.usefixtures("shared")
def test_the_second_process_ends_when_nobody_takes_its_parts(filled: MemoryLedger) -> None:
    run = filled.run("run-1")
    taken = pieces(filled, run, [more_than_a_pipe_holds], Summary(run))

    next(taken)
    assert len(multiprocessing.active_children()) == 1
    taken.close()

    assert multiprocessing.active_children() == []
