"""What the tests of ledgers share: verdicts, and every method that takes a run."""

from __future__ import annotations

from collections.abc import Callable

from contract import Ledger, Outcome, Verdict
from contract.engine_info import EngineUsed
from contract.ledger import RunState
from tests.support import make_questions


def verdict(question_id: str, outcome: Outcome = Outcome.CORRECT, **more: object) -> Verdict:
    return Verdict.model_validate({"question_id": question_id, "outcome": outcome, **more})


def verdicts(count: int, outcome: Outcome = Outcome.CORRECT) -> list[Verdict]:
    return [verdict(f"q{number}", outcome) for number in range(count)]


QUESTIONS = make_questions(1)
ENGINE = EngineUsed(worker="w", since=1.0, engine={"dtype": "float32"})
ASKED: dict[str, Callable[[Ledger, str], object]] = {
    "add_questions": lambda ledger, run_id: ledger.add_questions(run_id, QUESTIONS),
    "run": lambda ledger, run_id: ledger.run(run_id),
    "counts": lambda ledger, run_id: ledger.counts(run_id),
    "unsettled": lambda ledger, run_id: list(ledger.unsettled(run_id)),
    "begin": lambda ledger, run_id: ledger.begin(run_id, ["q0"]),
    "uncount": lambda ledger, run_id: ledger.uncount(run_id, ["q0"]),
    "note_trouble": lambda ledger, run_id: ledger.note_trouble(run_id, ["q0"], "odd"),
    "attach": lambda ledger, run_id: ledger.attach(run_id, {"q0": ()}),
    "note_engine": lambda ledger, run_id: ledger.note_engine(run_id, ENGINE),
    "engines": lambda ledger, run_id: ledger.engines(run_id),
    "commit": lambda ledger, run_id: ledger.commit(run_id, [verdict("q0")]),
    "results": lambda ledger, run_id: list(ledger.results(run_id)),
    "result": lambda ledger, run_id: ledger.result(run_id, "q0"),
    "halt": lambda ledger, run_id: ledger.halt(run_id, RunState.PAUSED),
    "resume": lambda ledger, run_id: ledger.resume(run_id),
    "take_aside": lambda ledger, run_id: list(ledger.take_aside(run_id)),
    "reopen_failed": lambda ledger, run_id: ledger.reopen_failed(run_id),
    "purge": lambda ledger, run_id: ledger.purge(run_id),
}
