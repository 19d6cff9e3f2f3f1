"""`purge` as a person meets it: what it asks, what it deletes, and what it says of queued messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from contract.errors import LedgerError
from contract.fleet import WorkerRecord, WorkerState
from contract.ledger import MemoryLedger
from producer.broker import MemoryBroker
from tests.support import settle
from tests.unit.producer.conftest import Producer, live_worker


def test_purge_asks_and_takes_no_for_an_answer(
    producer: Producer, run_id: str, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.live = [WorkerRecord(name="w", model="m", state=WorkerState.BOOTING, queue=broker.messages[0][0])]
    monkeypatch.setattr("producer.control.someone_to_ask", lambda: True)
    settle(ledger, run_id, "q0")
    refused = producer("purge", run_id, exit_code=1, text="n\n")
    assert f"Delete {run_id} with 1 of 5 verdicts? [y/N]" in refused.stderr
    assert refused.stderr.endswith("nothing was deleted\n")
    assert [run.run_id for run in ledger.runs()] == [run_id]
    queued = "3 messages of it are still queued, to be dropped by workers"
    assert f"deleted {run_id}; {queued}\n" in producer("purge", run_id, text="y\n").stdout
    assert ledger.runs() == []
    assert "No run" in producer("purge", run_id, "--yes", exit_code=1).stderr


def test_purge_asks_nobody_where_there_is_nobody(
    producer: Producer, run_id: str, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    broker.messages.clear()
    assert "pass --yes" in producer("purge", run_id, exit_code=2).stderr
    assert ledger.run_ids() == [run_id]
    assert producer("purge", run_id, "--yes").stdout == f"deleted {run_id}\n"
    assert ledger.runs() == []


def test_a_name_of_which_ids_show_nothing_purges_no_other_run(producer: Producer, five: Path) -> None:
    run_id = producer.json("enqueue", five, "--run", "物理")["run_id"]
    assert "No run '数学'" in producer("purge", "数学", "--yes", exit_code=1).stderr
    assert f"deleted {run_id}" in producer("purge", run_id, "--yes").stdout


def test_messages_that_no_worker_would_drop_are_deleted_with_the_last_run_of_their_queue(
    producer: Producer, five: Path, broker: MemoryBroker
) -> None:
    one, two = (producer.json("enqueue", five, "--run", name, "--model", "typo")["run_id"] for name in ("one", "two"))
    producer("enqueue", five, "--run", "kept")

    assert "3 messages of it are still queued" in producer("purge", one, "--yes").stdout
    assert f"deleted {two}, and 6 queued messages that no worker would take\n" in producer("purge", two, "--yes").stdout
    assert [queue for queue, _, _ in broker.messages] == 3 * ["score.smollm2-135m-instruct"]


def test_of_several_purged_runs_the_messages_are_looked_for_once(
    producer: Producer, five: Path, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole queue was read for each of them: for 100 runs with 313 messages each, that took a minute."""
    ids = [producer.json("enqueue", five, "--run", name)["run_id"] for name in ("one", "two", "three")]
    looks = []

    def counted(name: str) -> Callable[..., Any]:
        real = getattr(MemoryBroker, name)

        def look(self: MemoryBroker, *at: Any) -> Any:
            looks.append(name)
            return real(self, *at)

        return look

    for name in ("drop_leftovers", "messages_of"):
        monkeypatch.setattr(MemoryBroker, name, counted(name))

    said = producer("purge", *ids, "--yes").stdout.splitlines()

    assert looks == ["drop_leftovers", "messages_of"]
    last = f"deleted {ids[2]}, and 9 queued messages that no worker would take"
    assert said == [f"deleted {ids[0]}", f"deleted {ids[1]}", last]
    assert broker.messages == []


def test_of_several_purged_runs_each_says_how_many_messages_workers_will_drop(
    producer: Producer, five: Path, broker: MemoryBroker
) -> None:
    one, two, _ = (producer.json("enqueue", five, "--run", name)["run_id"] for name in ("one", "two", "kept"))
    del broker.messages[0]

    said = producer("purge", one, two, "--yes").stdout.splitlines()

    assert said == [
        f"deleted {one}; 2 messages of it are still queued, to be dropped by workers",
        f"deleted {two}; 3 messages of it are still queued, to be dropped by workers",
    ]


def test_nothing_is_said_of_the_messages_of_a_run_that_another_command_made_anew_meanwhile(
    producer: Producer, five: Path, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers were said to drop them, and answered them."""
    run_id = producer.json("enqueue", five)["run_id"]
    broker.live = [live_worker(broker.messages[0][0])]  # else the messages are deleted before the run
    purge = MemoryLedger.purge

    def enqueued_right_afterwards(self: MemoryLedger, run_id: str) -> None:
        purge(self, run_id)
        producer("enqueue", five)

    monkeypatch.setattr(MemoryLedger, "purge", enqueued_right_afterwards)
    assert producer("purge", run_id, "--yes").stdout == f"deleted {run_id}\n"
    assert ledger.counts(run_id).todo == 5


def test_a_purge_of_several_runs_that_breaks_off_has_deleted_all_of_them_or_none(
    producer: Producer, five: Path, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were deleted one after the other: killed in between, it refused to be repeated, as the first was unknown."""
    ids = [producer.json("enqueue", five, "--run", name)["run_id"] for name in ("one", "two", "three")]
    purge, calls = MemoryLedger.purge, []

    def breaks_off_after_it(self: MemoryLedger, *run_ids: str) -> None:
        calls.append(run_ids)
        purge(self, *run_ids)
        raise LedgerError("Redis is gone.")

    monkeypatch.setattr(MemoryLedger, "purge", breaks_off_after_it)

    told = producer("purge", *ids, "--yes", exit_code=1)

    assert told.stderr == "error: Redis is gone.\n"
    assert (ledger.run_ids(), calls) == ([], [tuple(ids)])


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("owner", "step"), [(MemoryBroker, "drop_leftovers"), (MemoryLedger, "purge"), (MemoryBroker, "messages_of")]
)
def test_a_purge_that_breaks_off_and_is_repeated_leaves_no_message_that_no_worker_would_take(
    producer: Producer,
    five: Path,
    ledger: MemoryLedger,
    broker: MemoryBroker,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    step: str,
    is_done: bool,
) -> None:
    """The run was gone, so the repeated command knew nothing of it, and its messages stayed in the queue."""
    run_id = producer.json("enqueue", five)["run_id"]
    real = getattr(owner, step)

    def breaks_off(*arguments: Any) -> None:
        if is_done:
            real(*arguments)
        raise LedgerError("Redis is gone.")

    with monkeypatch.context() as broken:
        broken.setattr(owner, step, breaks_off)
        producer("purge", run_id, "--yes", exit_code=1)
    if ledger.run_ids():
        producer("purge", run_id, "--yes")

    assert (ledger.run_ids(), broker.messages) == ([], [])


def test_a_purge_that_breaks_off_at_the_messages_says_that_all_runs_are_gone(
    producer: Producer, five: Path, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said nothing of them: only that Redis was gone."""
    ids = [producer.json("enqueue", five, "--run", name)["run_id"] for name in ("one", "two")]

    def breaks_off(*_: object) -> int:
        raise LedgerError("Redis is gone.")

    monkeypatch.setattr(type(broker), "messages_of", breaks_off)

    told = producer("purge", *ids, "--yes", exit_code=1)

    assert told.stderr == f"deleted before that: {ids[0]} {ids[1]}\nerror: Redis is gone.\n"
    assert ledger.run_ids() == []


def test_several_runs_are_deleted_after_one_question_that_names_them(
    producer: Producer, five: Path, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("producer.control.someone_to_ask", lambda: True)
    ids = [producer.json("enqueue", five, "--run", name)["run_id"] for name in ("one", "two", "kept")]

    result = producer("purge", ids[0], ids[1], ids[0], text="y\n")

    assert f"Delete {ids[0]} with 0 of 5 verdicts, {ids[1]} with 0 of 5 verdicts?" in result.stderr
    assert [line.split(";")[0] for line in result.stdout.splitlines()] == [f"deleted {each}" for each in ids[:2]]
    assert ledger.run_ids() == [ids[2]]


def test_purge_can_be_interrupted_where_it_asks(
    producer: Producer, run_id: str, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: str, **__: object) -> bool:
        raise click.Abort

    monkeypatch.setattr("producer.control.someone_to_ask", lambda: True)
    monkeypatch.setattr("click.confirm", interrupted)
    producer("purge", run_id, exit_code=130)
    assert [run.run_id for run in ledger.runs()] == [run_id]


def test_an_empty_name_deletes_nothing_even_if_there_is_only_one_run(
    producer: Producer, run_id: str, ledger: MemoryLedger
) -> None:
    assert "RUN is empty" in producer("purge", "", "--yes", exit_code=1).stderr
    assert [run.run_id for run in ledger.runs()] == [run_id]
