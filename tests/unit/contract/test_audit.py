"""When a run looks stalled, and what is sent again of it, beside a broker that is made up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest
from celery import Celery

from contract import MemoryLedger, RedisLedger, Run, RunState, keys
from contract.audit import heal, looks_stalled, missing
from contract.priority import Priority
from contract.spec import IndexKind, Retrieval
from tests.support import interrupted_run, make_questions, open_run, settle

RAG = Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25)
Message = tuple[str, tuple[str, ...]]
#: The broker is made up, so that nothing is asked of it.
APP = cast(Celery, None)


@dataclass
class Broker:
    """Messages that wait on queues or are held by workers, and what the audit has sent."""

    waiting: dict[str, list[Message]] = field(default_factory=dict)
    held: dict[str, list[Message]] = field(default_factory=dict)
    sent: list[tuple[str, list[str], Priority]] = field(default_factory=list)
    audited_just_now: bool = False
    others_send: bool = False
    resting: Counter[str] = field(default_factory=Counter)

    def length(self, _: object, queue: str) -> int:
        return len(self.waiting.get(queue, []))

    def queued_batches(self, _: object, queue: str, of: Collection[str]) -> list[Message]:
        assert self.resting[queue], "a janitor could reorder it meanwhile"
        return [message for message in self.waiting.get(queue, []) if message[0] in of]

    def held_batches(self, _: object, workers: Iterable[str], of: Collection[str]) -> list[Message]:
        return [message for each in workers for message in self.held[each] if message[0] in of]

    def held_ids(self, _: object, workers: Iterable[str], run_id: str) -> set[str]:
        return {each for _, ids in self.held_batches(None, workers, {run_id}) for each in ids}

    @contextmanager
    def at_rest(self, _: object, queue: str) -> Iterator[None]:
        self.resting[queue] += 1
        yield
        self.resting[queue] -= 1

    def claim(self, *_: object) -> bool:
        free, self.audited_just_now = not self.audited_just_now, True
        return free

    @contextmanager
    def sole_sender(self, *_: object) -> Iterator[bool]:
        yield not self.others_send

    def publish(
        self, _: object, queue: str, run_id: str, ids: Iterable[str], batch_size: int, priority: Priority
    ) -> int:
        together = list(ids)
        messages: list[Message] = [
            (run_id, tuple(together[at : at + batch_size])) for at in range(0, len(together), batch_size)
        ]
        self.waiting.setdefault(queue, []).extend(messages)
        self.sent.append((queue, together, priority))
        return len(messages)


class Books(MemoryLedger):
    """The ledger in memory; its client is only handed on."""

    client = None


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()

    class Workers:
        def __init__(self, _: object) -> None:
            """Ask nobody."""

        def names(self) -> list[str]:
            return list(made.held)

    for name, instead in {
        "Fleet": Workers,
        "queue_length": made.length,
        "queued_batches": made.queued_batches,
        "held_batches": made.held_batches,
        "held_question_ids": made.held_ids,
        "at_rest": made.at_rest,
        "claim": made.claim,
        "sole_sender_if_free": made.sole_sender,
        "publish": made.publish,
    }.items():
        monkeypatch.setattr(f"contract.audit.{name}", instead)
    return made


@pytest.fixture
def books() -> RedisLedger:
    return cast(RedisLedger, Books())


def test_a_run_whose_questions_are_in_no_message_looks_stalled_whatever_workers_hold_of_other_runs(
    books: RedisLedger, broker: Broker
) -> None:
    run = open_run(books, make_questions(2), rag=RAG)
    broker.held = {"idle": [], "busy": [("another", ("q0", "q1"))]}
    assert looks_stalled(books, run)
    settle(books, run.run_id, "q0")
    assert looks_stalled(books, run), "also where a part of it is settled"


@pytest.mark.parametrize("stage", [0, 1], ids=["retrieve", "score"])
def test_no_run_looks_stalled_while_anything_waits_on_a_queue_of_its_route(
    books: RedisLedger, broker: Broker, stage: int
) -> None:
    """Its own lost message is found by other means: this is asked every second, and must not read the queue."""
    run = open_run(books, make_questions(2), rag=RAG)
    broker.waiting = {keys.route(run.spec)[stage]: [("another", ("q0",))]}
    assert not looks_stalled(books, run)
    broker.waiting = {"score.another-model": [("another", ("q0",))]}
    assert looks_stalled(books, run)


@pytest.mark.parametrize("holder", ["first", "last"])
def test_no_run_looks_stalled_while_any_worker_holds_a_part_of_it(
    books: RedisLedger, broker: Broker, holder: str
) -> None:
    run = open_run(books, make_questions(2))
    broker.held = {"first": [], "last": []}
    broker.held[holder] = [(run.run_id, ("q1",))]
    assert not looks_stalled(books, run)


def test_no_run_looks_stalled_that_is_settled_halted_rescored_or_still_being_written(
    books: RedisLedger, broker: Broker
) -> None:
    settled, halted = (open_run(books, make_questions(2), name) for name in ("settled", "halted"))
    rescored = open_run(books, make_questions(2), "rescored", rescored_from="another")
    half = interrupted_run(books, make_questions(4), 2, name="half")
    settle(books, settled.run_id, "q0", "q1")
    assert books.halt(halted.run_id, RunState.PAUSED) is RunState.PAUSED
    assert [looks_stalled(books, each) for each in (settled, halted, rescored, half)] == [False] * 4
    books.resume(halted.run_id)
    books.add_questions(half.run_id, make_questions(4))
    assert [looks_stalled(books, each) for each in (halted, half)] == [True, True]


def test_what_waits_at_either_stage_or_is_held_by_any_worker_is_not_missing(books: RedisLedger, broker: Broker) -> None:
    run = open_run(books, make_questions(6), rag=RAG)
    retrieve, score = keys.route(run.spec)
    broker.waiting = {retrieve: [(run.run_id, ("q0",))], score: [(run.run_id, ("q1",)), ("another", ("q4", "q5"))]}
    broker.held = {"one": [(run.run_id, ("q2",))], "two": [(run.run_id, ("q3",)), ("another", ("q4",))]}
    assert missing(books, run) == ["q4", "q5"]
    settle(books, run.run_id, "q4")
    assert missing(books, run) == ["q5"]


def test_what_is_lost_is_sent_to_the_first_stage_of_its_run_at_the_runs_own_priority_once(
    books: RedisLedger, broker: Broker
) -> None:
    run = open_run(books, make_questions(5), rag=RAG).model_copy(update={"priority": Priority.LOW})
    retrieve, score = keys.route(run.spec)
    broker.waiting = {score: [(run.run_id, ("q1",))]}
    assert heal(books, APP, run, batch_size=3) == (4, 2)
    assert broker.sent == [(retrieve, ["q0", "q2", "q3", "q4"], Priority.LOW)]
    broker.audited_just_now = False
    assert heal(books, APP, run, batch_size=3) == (0, 0)
    assert len(broker.sent) == 1


def halts(books: RedisLedger, _: Broker, run: Run) -> None:
    books.halt(run.run_id, RunState.CANCELLED)


def audited(_: RedisLedger, broker: Broker, __: Run) -> None:
    broker.audited_just_now = True


def sends(_: RedisLedger, broker: Broker, __: Run) -> None:
    broker.others_send = True


@pytest.mark.parametrize("happens", [halts, audited, sends])
def test_nothing_is_sent_again_of_a_run_that_is_halted_or_that_another_process_sends_or_has_just_audited(
    books: RedisLedger, broker: Broker, happens: Callable[[RedisLedger, Broker, Run], None]
) -> None:
    run = open_run(books, make_questions(2))
    happens(books, broker, run)
    assert heal(books, APP, run, batch_size=2) == (0, 0)
    assert broker.sent == []


def test_nothing_is_sent_again_of_a_run_that_is_still_being_written_as_its_producer_will_send_it(
    books: RedisLedger, broker: Broker
) -> None:
    half = interrupted_run(books, make_questions(4), 2)
    assert heal(books, APP, half, batch_size=2) == (0, 0)
    books.add_questions(half.run_id, make_questions(4))
    assert heal(books, APP, half, batch_size=2) == (4, 2), "it was not taken for audited before"
