"""Hosts are updated one after the other: how this version takes what another one wrote into Redis."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

import pytest
import redis
from celery import Celery
from click.testing import CliRunner
from pydantic import ValidationError

from contract import Outcome, Run, Settings, keys, load_settings
from contract.errors import LedgerError, UnreadableRun
from contract.fleet import Fleet, Wish, WorkerRecord, WorkerState
from contract.ledger import RedisLedger
from contract.metrics import RedisMetrics
from contract.queue import MESSAGE_VERSION, QuestionBatch
from contract.spec import IndexKind, Retrieval, Stage
from contract.verdict import Passage
from producer.cli import main as producer
from producer.watching.worker_status import RunWorkers
from tests.integration.ledgers import verdict
from tests.support import SIMULATED_MODEL, make_questions, open_run
from tests.unit.producer.conftest import session_on
from tests.unit.workers.messages.batches import batch_of, message
from workers.engines.simulated import SimulatedEngine
from workers.host.fleet_diagnostics import clocks
from workers.janitor import Janitor
from workers.messages.batch import Settlement
from workers.stages.scoring import BatchScorer
from workers.stages.work import StageContext

QUEUE = keys.score_queue(SIMULATED_MODEL)
RETRIEVAL = Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25)
#: More often than any question may be attempted.
OFTEN = 8


def joined(client: redis.Redis, name: str) -> Fleet:
    fleet = Fleet(client)
    fleet.join(WorkerRecord(name=name, model=SIMULATED_MODEL, state=WorkerState.READY, queue=QUEUE, place="there"))
    return fleet


def with_changed(body: object, **changes: object) -> str:
    assert isinstance(body, str)
    return json.dumps({**json.loads(body), **changes})


def test_a_worker_in_a_state_of_a_newer_version_is_alive_and_shown_with_that_state(client: redis.Redis) -> None:
    fleet = joined(client, "gpu0@there")
    client.set(keys.worker("gpu0@there"), with_changed(client.get(keys.worker("gpu0@there")), state="asleep"))
    (found,) = fleet.alive()
    assert (found.name, found.state, found.queue, fleet.dead()) == ("gpu0@there", "asleep", QUEUE, [])
    (member,) = RunWorkers().look([found])
    assert member.state == "asleep"


@pytest.mark.parametrize("body", ['{"name": "gpu0@there", "busy": {"gpu": 1}}', "no record at all"])
def test_a_worker_whose_record_cannot_be_read_is_alive_but_serves_nobody_and_keeps_its_messages(
    client: redis.Redis, settings: Settings, app: Celery, body: str
) -> None:
    fleet = joined(client, "gpu0@there")
    client.set(keys.worker("gpu0@there"), body)
    client.hset(keys.seen(), "gpu0@there", body)
    client.hset(keys.unacked("gpu0@there"), "tag", "a message")
    Janitor(settings, app, "gpu1@here", QUEUE).round()
    (found,) = fleet.alive()
    assert (found.name, found.state, found.queue) == ("gpu0@there", "of another version of mcqueue", "")
    assert list(clocks(time.time(), time.time(), [found])) == []
    assert (fleet.dead(), fleet.missing(), client.hlen(keys.unacked("gpu0@there"))) == ([], [], 1)


def test_a_wish_of_a_newer_version_is_none_that_this_worker_could_grant(client: redis.Redis) -> None:
    fleet = joined(client, "gpu0@there")
    client.set(keys.wish("gpu0@there"), "hibernate")
    assert fleet.wish("gpu0@there") is None
    fleet.ask("gpu0@there", Wish.DRAIN)
    assert fleet.wish("gpu0@there") is Wish.DRAIN


def test_a_boot_failure_that_cannot_be_read_hides_no_other(client: redis.Redis) -> None:
    fleet = Fleet(client)
    fleet.boot_failed("gpu0", QUEUE, "no memory")
    client.hset(keys.unbooted(), "gpu1", '{"worker": "gpu1", "causes": ["no memory"]}')
    assert [(each.worker, each.reason) for each in fleet.boot_failures()] == [("gpu0", "no memory")]


@pytest.mark.parametrize("what", ["outcome", "state"])
def test_progress_that_cannot_be_read_is_told_of_its_run_and_hides_no_other(
    redis_ledger: RedisLedger, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    ours, theirs = (open_run(redis_ledger, make_questions(1), name) for name in ("ours", "theirs"))
    own = keys.RunKeys(theirs.run_id)
    if what == "outcome":
        redis_ledger.client.hset(own.counts, "skipped", 1)
    else:
        redis_ledger.client.set(own.state, "skipped")
    with pytest.raises(UnreadableRun, match=f"Run {theirs.run_id}: .* another version of mcqueue .*'skipped'"):
        redis_ledger.counts(theirs.run_id)
    assert [run.run_id for run, _ in redis_ledger.standings(redis_ledger.lean_runs())] == [ours.run_id]
    assert theirs.run_id in caplog.text
    metrics = {each.name: each.samples for each in RedisMetrics(redis_ledger, redis_ledger.client).collect()}
    assert [each.value for each in metrics["mcqueue_redis_up"]] == [1]


def test_a_janitor_says_of_progress_that_it_cannot_read_so_once_and_not_in_every_round(
    redis_ledger: RedisLedger, settings: Settings, app: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    run = open_run(redis_ledger, make_questions(1))
    redis_ledger.client.hset(keys.RunKeys(run.run_id).counts, "skipped", 1)
    janitor = Janitor(settings, app, "gpu1@here", QUEUE)
    for _ in range(3):
        janitor.round()
    (told,) = caplog.messages
    assert told.startswith(f"run {run.run_id}: audit skipped: Run {run.run_id}: its progress")


def test_an_engine_that_cannot_be_read_is_told_with_its_run_and_a_remedy(redis_ledger: RedisLedger) -> None:
    run = open_run(redis_ledger, make_questions(1))
    redis_ledger.client.hset(keys.RunKeys(run.run_id).engines, "gpu0 0a1b2c3d", '{"worker": "gpu0"}')
    with pytest.raises(
        LedgerError, match=f"Run {run.run_id}, an engine .*EngineUsed.since.*Another version of mcqueue"
    ):
        redis_ledger.engines(run.run_id)
    listed = CliRunner().invoke(producer, ["runs"], obj=session_on(redis_ledger))
    assert run.run_id in listed.stdout, "it hides no run"


class Scoring:
    """A worker of this version, and what it sends on."""

    def __init__(self, ledger: RedisLedger) -> None:
        settings = load_settings(None, ["engine=simulated", f"model={SIMULATED_MODEL}", "max_attempts=3"])
        engine = SimulatedEngine(settings)
        engine.start()
        self.sent: list[tuple[str, list[str]]] = []
        context = StageContext(settings, ledger, "w@host", self._send, stopping=lambda: True)
        self.scorer = BatchScorer(context, engine)

    def _send(self, queue: str, batches: Sequence[QuestionBatch]) -> None:
        self.sent += [(queue, each.question_ids) for each in batches]

    def takes(self, run: Run, *question_ids: str, version: int = MESSAGE_VERSION) -> Settlement | None:
        held = message(run, *question_ids, version=version)
        self.scorer.run(batch_of(held))
        return held.settlement


def newer_questions(ledger: RedisLedger, run: Run) -> Callable[[], object]:
    """Write a question as a newer producer would; return how to take it back."""
    return changed_question(ledger, run, picture="a.png")


def questions_of_another_type(ledger: RedisLedger, run: Run) -> Callable[[], object]:
    """The same of a field that had another type before."""
    return changed_question(ledger, run, question=["What is on", "a.png", "?"])


def changed_question(ledger: RedisLedger, run: Run, **changes: object) -> Callable[[], object]:
    questions = keys.RunKeys(run.run_id).questions
    body = ledger.client.hget(questions, "q1")
    ledger.client.hset(questions, "q1", with_changed(body, **changes))
    return lambda: ledger.client.hset(questions, "q1", body)


def newer_passages(ledger: RedisLedger, run: Run) -> Callable[[], object]:
    """The same of passages that a newer worker found."""
    passages = {f"q{n}": [Passage(id="p", score=1.0, text="Iron is Fe.")] for n in range(2)}
    ledger.attach(run.run_id, passages)
    newer = json.dumps([{"id": "p", "score": 1.0, "text": "Iron is Fe.", "language": "en"}])
    ledger.client.hset(keys.RunKeys(run.run_id).passages, "q1", newer)
    return lambda: ledger.attach(run.run_id, passages)


@pytest.mark.parametrize("write_newer", [newer_questions, questions_of_another_type, newer_passages])
def test_what_a_newer_version_wrote_of_a_question_waits_for_a_worker_that_can_read_it(
    redis_ledger: RedisLedger, write_newer: Callable[[RedisLedger, Run], Callable[[], object]]
) -> None:
    run = open_run(redis_ledger, make_questions(2), rag=RETRIEVAL if write_newer is newer_passages else None)
    as_this_version_reads_it = write_newer(redis_ledger, run)
    here = Scoring(redis_ledger)
    for _ in range(OFTEN):
        assert here.takes(run, "q0", "q1") is Settlement.REQUEUE
    (why,) = here.scorer.puts_off.values()
    assert "question" in why
    assert "another version of mcqueue" in why
    assert (redis_ledger.counts(run.run_id).settled, here.sent) == (0, [])

    as_this_version_reads_it()
    assert here.takes(run, "q0", "q1") is Settlement.ACKNOWLEDGE
    assert [found and found.attempts for _, found in redis_ledger.results(run.run_id)] == [1, 1]


def test_a_question_that_waits_for_another_worker_keeps_the_attempts_that_it_had(redis_ledger: RedisLedger) -> None:
    run = open_run(redis_ledger, make_questions(2))
    for _ in range(2):
        redis_ledger.begin(run.run_id, ["q1"])  # by workers that it killed
    as_this_version_reads_it = newer_questions(redis_ledger, run)
    here = Scoring(redis_ledger)
    for _ in range(OFTEN):
        here.takes(run, "q0", "q1")
    as_this_version_reads_it()
    here.takes(run, "q0", "q1")
    assert [found and found.attempts for _, found in redis_ledger.results(run.run_id)] == [1, 3]


@pytest.mark.parametrize("stage", Stage)
def test_of_questions_that_cannot_be_begun_together_no_attempt_of_any_stage_is_counted(
    redis_ledger: RedisLedger, stage: Stage
) -> None:
    run = open_run(redis_ledger, make_questions(2), rag=RETRIEVAL)
    for each in Stage:
        redis_ledger.begin(run.run_id, ["q0"], stage=each)
    as_this_version_reads_it = newer_questions(redis_ledger, run)
    with pytest.raises(UnreadableRun):
        redis_ledger.begin(run.run_id, ["q0", "q1"], stage=stage)
    as_this_version_reads_it()
    for each in Stage:
        assert [begun.attempts for begun in redis_ledger.begin(run.run_id, ["q0", "q1"], stage=each)] == [2, 1]


def test_a_damaged_question_costs_those_beside_it_no_attempt(redis_ledger: RedisLedger) -> None:
    run = open_run(redis_ledger, make_questions(2))
    redis_ledger.client.hset(keys.RunKeys(run.run_id).questions, "q1", "no question at all")
    with pytest.raises(ValidationError):
        redis_ledger.begin(run.run_id, ["q0", "q1"])
    assert [begun.attempts for begun in redis_ledger.begin(run.run_id, ["q0"])] == [1]


@pytest.mark.parametrize("damaged", ["no question at all", '{"id": "q1"}'])
def test_a_question_that_is_damaged_is_failed_as_no_version_could_read_it(
    redis_ledger: RedisLedger, damaged: str
) -> None:
    run = open_run(redis_ledger, make_questions(2))
    redis_ledger.client.hset(keys.RunKeys(run.run_id).questions, "q1", damaged)
    here = Scoring(redis_ledger)
    while here.takes(run, "q0", "q1") is Settlement.REQUEUE:
        pass
    counts = redis_ledger.counts(run.run_id)
    assert (counts.of(Outcome.FAILED), counts.settled) == (1, 2)


def test_messages_of_a_newer_version_wait_for_a_worker_that_understands_them(redis_ledger: RedisLedger) -> None:
    run = open_run(redis_ledger, make_questions(2))
    here = Scoring(redis_ledger)
    for _ in range(OFTEN):
        assert here.takes(run, "q0", "q1", version=MESSAGE_VERSION + 1) is Settlement.REQUEUE
    (why,) = here.scorer.puts_off.values()
    assert f"version {MESSAGE_VERSION + 1}, this worker reads up to {MESSAGE_VERSION}" in why
    assert redis_ledger.counts(run.run_id).settled == 0

    redis_ledger.commit(run.run_id, [verdict("q0"), verdict("q1")])  # by a newer worker
    assert here.takes(run, "q0", "q1", version=MESSAGE_VERSION + 1) is Settlement.ACKNOWLEDGE
