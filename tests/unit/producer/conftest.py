"""What the producer's tests share: small question files, and a ledger and a broker in memory."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from contract.fleet import WorkerRecord, WorkerState
from contract.ledger import Ledger, MemoryLedger, Run
from contract.mode import Mode
from contract.spec import Prompt, RunSpec, Sampling
from contract.verdict import Failure, Outcome, Verdict
from producer.broker import Broker, MemoryBroker
from producer.cli import main
from producer.session import Session
from tests.unit.producer.settled import QUESTIONS, VERDICTS

WriteRows = Callable[..., Path]


class SessionInMemory(Session):
    """A session that needs no Redis, once it has a ledger and a broker."""

    def live_workers(self) -> list[WorkerRecord]:
        return self.broker.all_workers()

    def weight(self, run_id: str) -> int:
        return self.broker.weight(run_id)


def session_on(ledger: Ledger, broker: Broker | None = None) -> Session:
    """Return a session that opens nothing; without a `broker`, it has one in memory."""
    session = SessionInMemory()
    session.ledger = ledger
    session.broker = broker or MemoryBroker(ledger)
    return session


class Producer:
    """Calls the command line on a ledger in memory, as `python -m producer` with the words `before` and those given."""

    def __init__(self, session: Session, *before: str) -> None:
        self.session = session
        self._before = before

    def __call__(self, *words: object, exit_code: int = 0, text: str | None = None) -> Result:
        # A session keeps what it opened, a process has one each: every call gets its own.
        session = session_on(self.session.ledger, self.session.broker)
        result = CliRunner().invoke(main, [*self._before, *map(str, words)], obj=session, input=text)
        assert result.exit_code == exit_code, result.output
        return result

    def json(self, *words: object, exit_code: int = 0) -> Any:
        return json.loads(self(*words, "--json", exit_code=exit_code).stdout)


def live_worker(queue: str, name: str = "w", **more: Any) -> WorkerRecord:
    """A worker that is ready to take messages from `queue`, unless `more` says otherwise."""
    given = {"name": name, "model": queue.partition(".")[2], "state": WorkerState.READY, "queue": queue, **more}
    return WorkerRecord.model_validate(given)


def settle_whole(
    ledger: MemoryLedger, run_id: str, outcome: Outcome = Outcome.CORRECT, but: Outcome | None = None
) -> None:
    """Settle all of the run, its first question as `but`; one without a key can be neither right nor wrong."""
    outcomes = chain([but or outcome], repeat(outcome))
    questions = [question for question, verdict in ledger.results(run_id) if verdict is None]
    verdicts = [
        Verdict(
            question_id=each.id,
            outcome=Outcome.ANSWERED if each.answer is None and came is Outcome.CORRECT else came,
            choice="B",
            choice_scores={"A": -2.0, "B": -1.0},
            rule="argmax",
        )
        for each, came in zip(questions, outcomes, strict=False)
    ]
    ledger.commit(run_id, verdicts)


def settle_next(ledger: MemoryLedger, run_id: str, *outcomes: Outcome) -> None:
    """Settle the next questions of the run, as many as there are outcomes."""
    ids = list(ledger.unsettled(run_id))
    verdicts = [
        Verdict(
            question_id=each,
            outcome=outcome,
            error=Failure(type="RequestRejected", message="too long") if outcome is Outcome.FAILED else None,
        )
        for each, outcome in zip(ids, outcomes, strict=False)
    ]
    ledger.commit(run_id, verdicts)


@contextmanager
def room_per_file(size_bytes: int) -> Iterator[None]:
    """The kernel refuses what goes beyond, as it does on a full disk, whoever the user is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def write_rows(tmp_path: Path) -> WriteRows:
    """Writes rows as JSON Lines; strings go in as they are."""

    def write(*rows: Any, name: str = "questions.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
        return path

    return write


@pytest.fixture
def five(write_rows: WriteRows) -> Path:
    """A file of five good questions, q0 to q4; B is always right, q4 has no key."""
    rows = [{"id": f"q{n}", "question": f"Question {n}?", "choices": ["no", "yes"], "answer": "B"} for n in range(4)]
    subjects = ["red", "red", "blue", None]
    keyed = [{**row, "subject": subject} for row, subject in zip(rows, subjects, strict=True)]
    return write_rows(*keyed, {"id": "q4", "question": "Question 4?", "choices": ["a", "b", "c", "d"], "answer": None})


@pytest.fixture
def ledger() -> MemoryLedger:
    return MemoryLedger()


@pytest.fixture
def broker(ledger: MemoryLedger) -> MemoryBroker:
    return MemoryBroker(ledger, batch_size=2)


@pytest.fixture
def session(ledger: MemoryLedger, broker: MemoryBroker) -> Session:
    return session_on(ledger, broker)


@pytest.fixture
def producer(session: Session) -> Producer:
    return Producer(session)


@pytest.fixture
def run_id(producer: Producer, five: Path) -> str:
    """The run over `five`, nothing of which is settled."""
    found: str = producer.json("enqueue", five)["run_id"]
    return found


@pytest.fixture
def filled(ledger: MemoryLedger) -> MemoryLedger:
    spec = RunSpec(
        questions_digest="0" * 64,
        model="m",
        mode=Mode.GENERATE,
        sampling=Sampling(),
        prompt=Prompt(name="question", text="{{ question }}"),
    )
    ledger.open_run(Run(run_id="run-1", spec=spec, source="q.json", questions=5, chance=0.5, created_at=1.0))
    ledger.add_questions("run-1", QUESTIONS)
    ledger.commit("run-1", VERDICTS)
    return ledger
