"""Redis executes a write and is away before it answers: at each write of each command that writes.

Such a command ends with an error in one line. Repeated, it completes what it began, with each question once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from click.testing import CliRunner, Result
from redis.connection import AbstractConnection

from contract import Counts, Outcome, RedisLedger, keys
from contract.audit import missing
from contract.errors import RunHalted
from producer.cli import main
from tests.support import make_questions, settle, write_questions

COUNT = 8
WRITES = {b"EVALSHA", b"SET", b"HSET", b"HDEL", b"SREM", b"LPUSH", b"DEL"}
#: A command as it is sent: the number of its words, and the first of them.
COMMAND = re.compile(rb"\*\d+\r\n\$\d+\r\n([A-Z]+)\r\n")


class Way:
    """The way to Redis of everything in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writes = 0
        self._lost: int | None = None
        self._is_away = False
        self._send: Any = AbstractConnection.send_packed_command
        self._connect: Any = AbstractConnection.connect_check_health
        for name, instead in (("send_packed_command", self._sent), ("connect_check_health", self._made)):
            monkeypatch.setattr(AbstractConnection, name, partialmethod(_called, instead))
        monkeypatch.setattr("redis.retry.sleep", lambda _: None)

    def go_away_at(self, write: int) -> None:
        """Answer no more from write number `write` on, which is executed."""
        self.writes, self._lost = 0, write

    def return_(self) -> None:
        """Answer again."""
        self.writes, self._lost, self._is_away = 0, None, False

    def _made(self, connection: Any, *rest: Any, **more: Any) -> None:
        if self._is_away:
            raise redis.ConnectionError("away")
        self._connect(connection, *rest, **more)

    def _sent(self, connection: Any, words: Any, *rest: Any, **more: Any) -> None:
        if self._is_away:
            connection.disconnect()
            raise redis.ConnectionError("away")
        self._send(connection, words, *rest, **more)
        names = COMMAND.findall(b"".join(words) if isinstance(words, list) else words)
        if WRITES.isdisjoint(names):
            return
        self.writes += 1
        if self.writes == self._lost:
            for _ in names:
                connection.read_response()
            self._is_away = True
            connection.disconnect()
            raise redis.ConnectionError("away")


def _called(connection: Any, instead: Callable[..., None], *given: Any, **more: Any) -> None:
    instead(connection, *given, **more)


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> Way:
    monkeypatch.setattr("contract.ledger.redis.CHUNK", 3)
    monkeypatch.setattr("contract.prefix_order.IN_ORDER", 4)
    monkeypatch.setattr("producer.runs.reuse.READ_TOGETHER", 3)
    monkeypatch.setattr("producer.load.TOGETHER", 3)
    monkeypatch.setenv("MCQUEUE_QUESTION_BATCH_SIZE", "2")
    return Way(monkeypatch)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_questions(tmp_path / "questions.jsonl", make_questions(COUNT))


class Stage:
    """What the commands find."""

    def __init__(self, ledger: RedisLedger, file: Path) -> None:
        self.ledger = ledger
        self.file = file

    def call(self, *words: object) -> Result:
        return CliRunner().invoke(main, [*map(str, words)])

    def done(self, *words: object) -> None:
        result = self.call(*words)
        assert result.exit_code in (0, 3), result.output

    def enqueued(self, name: str = "one") -> str:
        self.done("enqueue", self.file, "--run", name)
        return self.ledger.run_ids()[0]

    def empty(self) -> None:
        self.ledger.client.flushdb()

    def state(self) -> tuple[list[tuple[str, Counts]], set[str]]:
        """How the runs stand, and which keys there are but for locks, which expire.

        What was put aside may still be listed there, though it was sent: it is then sent again when the run is resumed.
        """
        client = self.ledger.client
        lasting = {each for each in cast("list[str]", client.keys()) if client.ttl(each) == -1 and "aside" not in each}
        return [(each, self.ledger.counts(each)) for each in sorted(self.ledger.run_ids())], lasting

    def wait_for_locks(self) -> None:
        """Have the locks of a command that broke off, which this living process seems to hold, expire at once."""
        client = self.ledger.client
        for each in cast("list[str]", client.keys()):
            if client.ttl(each) > 0:
                client.delete(each)

    def nothing(self) -> None:
        """Start from an empty ledger."""

    def one(self) -> None:
        self.enqueued()

    def answered(self) -> None:
        run_id = self.enqueued()
        settle(self.ledger, run_id, "q0", "q1", "q2", "q3", "q4")
        settle(self.ledger, run_id, "q5", outcome=Outcome.FAILED)

    def cancelled(self) -> None:
        run_id = self.enqueued()
        self.done("cancel", run_id)
        with pytest.raises(RunHalted):
            self.ledger.begin(run_id, ["q0", "q1", "q4", "q5"])
        self._lose_messages()

    def lost(self) -> None:
        self.enqueued()
        self._lose_messages()

    def failed(self) -> None:
        run_id = self.enqueued()
        self._lose_messages()
        settle(self.ledger, run_id, "q0", "q7")
        settle(self.ledger, run_id, *(f"q{n}" for n in range(1, 7)), outcome=Outcome.FAILED)

    def exported(self) -> None:
        self.answered()
        self.done("export", "last", "--format", "jsonl", "--out", "kept")
        self.empty()

    def _lose_messages(self) -> None:
        self.ledger.client.delete(*keys.broker_lists(keys.score_queue(self.ledger.runs()[0].spec.model)))

    def check(self) -> None:
        """Every run has each question once, as its counts say, and what is open and not halted is in a message."""
        client = self.ledger.client
        for run in self.ledger.runs():
            own = keys.RunKeys(run.run_id)
            order = cast("list[str]", client.lrange(own.order, 0, -1))
            todo = cast("set[str]", client.smembers(own.todo))
            results = list(self.ledger.results(run.run_id))
            assert order == [f"q{n}" for n in range(COUNT)]
            assert todo == {question.id for question, verdict in results if verdict is None}
            counts = self.ledger.counts(run.run_id)
            assert counts.outcomes == Counter(verdict.outcome for _, verdict in results if verdict)
            assert (run.run_id in self.ledger.open_runs()) == (not counts.over and not counts.halted)
            if not counts.halted:
                assert missing(self.ledger, run) == []


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (Stage.nothing, "enqueue questions.jsonl --run one --weight 2"),
        (Stage.cancelled, "enqueue questions.jsonl --run one"),
        (Stage.answered, "enqueue questions.jsonl --run two --reuse one"),
        (Stage.one, "pause one"),
        (Stage.one, "cancel one"),
        (Stage.cancelled, "resume one"),
        (Stage.lost, "requeue one"),
        (Stage.failed, "requeue one --failed"),
        (Stage.exported, "load kept/last"),
        (Stage.one, "purge one --yes"),
    ],
    ids=lambda each: "" if callable(each) else str(each),
)
def test_a_command_whose_write_was_not_answered_is_completed_by_repeating_it(
    redis_ledger: RedisLedger, file: Path, way: Way, before: Callable[[Stage], None], words: str
) -> None:
    stage = Stage(redis_ledger, file)
    before(stage)
    way.return_()
    command = words.replace("kept/last", str(next(Path("kept").glob("*"), ""))).split()
    stage.done(*command)
    writes, expected = way.writes, stage.state()
    assert writes
    for write in range(1, writes + 1):
        stage.empty()
        before(stage)
        way.go_away_at(write)
        result = stage.call(*command)
        way.return_()
        stage.wait_for_locks()
        assert result.exit_code in (0, 1), result.output
        assert result.exit_code == 0 or result.stderr.splitlines()[-1].startswith("error: "), result.output
        if redis_ledger.run_ids() or words.startswith(("enqueue", "load")):
            stage.done(*command)
        stage.check()
        assert stage.state() == expected, f"write {write} of {writes}"
