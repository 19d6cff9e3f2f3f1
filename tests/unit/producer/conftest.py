"""What the producer's tests share: small question files, and a ledger and a broker in memory."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from contract.fleet import WorkerRecord
from contract.ledger import Ledger, MemoryLedger
from producer.broker import Broker, MemoryBroker
from producer.cli import main
from producer.session import Session

WriteRows = Callable[..., Path]


class SessionInMemory(Session):
    """A session that needs no Redis, once it has a ledger and a broker."""

    def live_workers(self) -> list[WorkerRecord]:
        return self.broker.all_workers()


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


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test in its own folder, without settings from outside, and with the logging it found."""
    for name in [each for each in os.environ if each.startswith("MCQUEUE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


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
