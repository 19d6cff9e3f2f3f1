"""The ledger in Redis: its keys, what it reads, and what Redis refuses or another version wrote."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from contract import Counts, Outcome, RedisLedger, Run, Settings, fair_share, keys, load_settings
from contract.engine_info import EngineUsed
from contract.errors import (
    LedgerError,
    RedisUnreachable,
    RunHalted,
    UnknownRun,
    UnreadableRun,
    WritesRefused,
)
from contract.ledger import RunState
from contract.ledger.redis import CHUNK
from contract.metrics import RedisMetrics
from contract.spec import FewShot, Stage
from contract.verdict import Passage
from tests.integration.ledgers import ASKED, verdict, verdicts
from tests.support import make_questions, open_run


def test_a_run_of_another_version_is_told_by_what_is_not_understood_and_hides_no_other(
    redis_ledger: RedisLedger, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = (
        open_run(redis_ledger, make_questions(1), "ours"),
        open_run(redis_ledger, make_questions(1), "theirs"),
    )
    body = json.loads(theirs.model_dump_json())
    body["spec"]["aura"] = "violet"
    redis_ledger.client.set(keys.RunKeys(theirs.run_id).meta, json.dumps(body))

    assert [run.run_id for run in redis_ledger.runs()] == [ours.run_id]
    assert "another version of mcqueue: spec.aura cannot be read here" in caplog.text
    with pytest.raises(UnreadableRun, match=r"spec\.aura.*Install the version"):
        redis_ledger.named(theirs.run_id)


def test_a_run_that_is_purged_while_runs_are_listed_is_left_out_without_a_warning(
    redis_ledger: RedisLedger, caplog: pytest.LogCaptureFixture
) -> None:
    there, gone = (open_run(redis_ledger, make_questions(1), name) for name in ("there", "gone"))
    redis_ledger.client.delete(keys.RunKeys(gone.run_id).meta)  # as seen while it is being purged

    assert redis_ledger.runs() == [there]
    assert caplog.messages == []


@pytest.mark.parametrize("run_id", ["../../elsewhere/theirs", "/theirs", "..", ""])
def test_a_run_whose_id_would_lead_its_results_to_another_folder_is_not_read(
    run_id: str, redis_ledger: RedisLedger
) -> None:
    ours = open_run(redis_ledger, make_questions(1), "ours")
    body = {**json.loads(ours.model_dump_json()), "run_id": run_id}
    redis_ledger.client.set(keys.RunKeys(run_id).meta, json.dumps(body))
    redis_ledger.client.zadd(keys.runs(), {run_id: 2e9})
    assert redis_ledger.runs() == [ours]
    with pytest.raises(UnreadableRun, match="run_id"):
        redis_ledger.run(run_id)


def test_to_find_a_run_by_name_or_to_read_its_results_no_other_run_is_read(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may hold a whole training split as examples."""
    run = open_run(redis_ledger, make_questions(3), "ours")
    open_run(redis_ledger, make_questions(1), "theirs")
    read: list[str] = []

    def reading(run_id: str, body: str) -> Run:
        read.append(run_id)
        return Run.model_validate_json(body)

    monkeypatch.setattr("contract.ledger.redis._run", reading)

    assert redis_ledger.named("ours").run_id == run.run_id
    assert read == [run.run_id]
    assert len(list(redis_ledger.results(run.run_id))) == 3
    assert redis_ledger.engines(run.run_id) == []
    assert redis_ledger.result(run.run_id, "q1")[1] is None
    redis_ledger.purge(run.run_id)
    assert read == [run.run_id], "not once more"


def test_an_entry_that_cannot_be_read_is_told_with_run_question_and_field(redis_ledger: RedisLedger) -> None:
    run = open_run(redis_ledger, make_questions(2))
    redis_ledger.commit(run.run_id, [verdict("q0"), verdict("q1")])
    redis_ledger.client.hset(keys.RunKeys(run.run_id).verdicts, "q1", '{"question_id":"q1","outcome":"right"}')
    read = redis_ledger.results(run.run_id)
    assert next(read)[0].id == "q0"
    with pytest.raises(LedgerError, match=f"Run {run.run_id}, question 'q1': .*Verdict.outcome: .* purge the run"):
        next(read)
    with pytest.raises(LedgerError, match=r"Verdict\.outcome"):
        redis_ledger.result(run.run_id, "q1")


def test_how_far_a_run_is_is_told_without_reading_its_examples_each_time(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(redis_ledger, make_questions(2))
    read = reads_of_runs(monkeypatch)
    assert {redis_ledger.counts(run.run_id).todo for _ in range(3)} == {2}
    assert read == [run.run_id]


def test_the_size_of_a_run_that_is_being_opened_is_not_taken_for_that_of_one_made_anew(
    redis_ledger: RedisLedger,
) -> None:
    run = open_run(redis_ledger, make_questions(2))
    for questions in (2, 3):
        redis_ledger.open_run(run.model_copy(update={"questions": questions}))
        redis_ledger.client.zrem(keys.runs(), run.run_id)  # as seen before it is listed
        assert redis_ledger.counts(run.run_id).total == questions
        redis_ledger.purge(run.run_id)


def test_a_run_that_is_purged_while_it_is_opened_again_is_not_listed(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id stayed on the list for ever: `last` was this run, which was not there, and could not be purged."""
    run = open_run(redis_ledger, make_questions(2))
    read = redis_ledger.run

    def purged_at_once(run_id: str) -> Run:
        found = read(run_id)
        redis_ledger.purge(run_id)
        return found

    monkeypatch.setattr(redis_ledger, "run", purged_at_once)
    redis_ledger.open_run(run)
    assert redis_ledger.run_ids() == []


def test_a_run_that_was_purged_is_given_no_weight(redis_ledger: RedisLedger) -> None:
    """`weight` said that it had been, and what it wrote stayed for ever."""
    run = open_run(redis_ledger, make_questions(2))
    redis_ledger.purge(run.run_id)
    for weight in (3, 1):
        with pytest.raises(UnknownRun, match="No run"):
            fair_share.weigh(redis_ledger, run.run_id, weight)
    assert not redis_ledger.client.exists(keys.weights())


def test_a_weight_that_an_older_version_left_behind_is_not_that_of_a_run_made_anew(redis_ledger: RedisLedger) -> None:
    run = open_run(redis_ledger, make_questions(2))
    redis_ledger.purge(run.run_id)
    redis_ledger.client.hset(keys.weights(), run.run_id, "3")
    redis_ledger.open_run(run)
    assert fair_share.weight_of(redis_ledger, run.run_id) == 1
    fair_share.weigh(redis_ledger, run.run_id, 3)
    redis_ledger.open_run(run)
    assert fair_share.weight_of(redis_ledger, run.run_id) == 3


def reads_of_runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that are read from Redis from now on."""
    read: list[str] = []
    real = RedisLedger.run

    def noting(ledger: RedisLedger, run_id: str) -> Run:
        read.append(run_id)
        return real(ledger, run_id)

    monkeypatch.setattr(RedisLedger, "run", noting)
    return read


def keys_of(ledger: RedisLedger, run_id: str) -> set[str]:
    return {str(each) for each in ledger.client.scan_iter(f"mcqueue:run:{run_id}*")}


def search_and_ask(redis_ledger: RedisLedger, run: Run) -> None:
    """Search for all questions, find something for `q1` alone, and ask all in vain."""
    ids = list(redis_ledger.unsettled(run.run_id))
    redis_ledger.begin(run.run_id, ids, stage=Stage.RETRIEVE)
    redis_ledger.attach(run.run_id, {"q1": [Passage(id="p", score=1.0, text="found")]})
    redis_ledger.begin(run.run_id, ids)
    redis_ledger.note_trouble(run.run_id, ids, "in vain")


def test_a_purge_leaves_no_key_behind_and_nobody_writes_one_again(redis_ledger: RedisLedger) -> None:
    run = open_run(redis_ledger, make_questions(3))
    search_and_ask(redis_ledger, run)
    redis_ledger.commit(run.run_id, verdicts(1))
    redis_ledger.note_engine(run.run_id, EngineUsed(worker="w", since=1.0, engine={"dtype": "float32"}))
    fair_share.weigh(redis_ledger, run.run_id, 3)
    redis_ledger.halt(run.run_id, RunState.PAUSED)
    with pytest.raises(RunHalted):
        redis_ledger.begin(run.run_id, ["q2"])
    assert keys_of(redis_ledger, run.run_id) == set(keys.RunKeys(run.run_id).all())
    redis_ledger.purge(run.run_id)
    assert keys_of(redis_ledger, run.run_id) == set()
    for method in ("add_questions", "begin", "commit"):
        with pytest.raises(UnknownRun):
            ASKED[method](redis_ledger, run.run_id)
    assert list(redis_ledger.client.scan_iter("mcqueue:*")) == []


def test_results_of_a_run_that_is_purged_meanwhile_do_not_pass_for_those_of_a_shorter_run(
    redis_ledger: RedisLedger,
) -> None:
    run = open_run(redis_ledger, make_questions(CHUNK + 1))
    results = redis_ledger.results(run.run_id)
    next(results)
    redis_ledger.purge(run.run_id)
    with pytest.raises(UnknownRun):
        list(results)


def test_a_run_that_is_purged_while_its_results_are_read_is_not_called_damaged(
    redis_ledger: RedisLedger, settings: Settings
) -> None:
    class PurgedAfterItsIds(RedisLedger):
        def _ids(self, run_id: str, start: int = 0, stop: int | None = None) -> Iterator[list[str]]:
            for ids in super()._ids(run_id, start, stop):
                self.purge(run_id)
                yield ids

    run = open_run(redis_ledger, make_questions(2))
    with pytest.raises(UnknownRun):
        list(PurgedAfterItsIds.connect(settings).results(run.run_id))


@pytest.mark.parametrize("settled", [1, 2])
def test_a_failure_that_another_process_took_back_and_settled_meanwhile_is_left_alone(
    redis_ledger: RedisLedger, settings: Settings, settled: int
) -> None:
    class Slow(RedisLedger):
        def _failed(self, run_id: str, question_id: str, verdict: str) -> bool:
            found = super()._failed(run_id, question_id, verdict)
            if question_id == "q1":  # the last that is read
                assert redis_ledger.reopen_failed(run_id) == ["q0", "q1"]
                redis_ledger.commit(run_id, verdicts(settled, Outcome.CORRECT))
            return found

    run = open_run(redis_ledger, make_questions(2))
    redis_ledger.commit(run.run_id, verdicts(2, Outcome.FAILED))
    assert Slow.connect(settings).reopen_failed(run.run_id) == []
    assert redis_ledger.result(run.run_id, "q0")[1] == verdict("q0", Outcome.CORRECT)
    assert redis_ledger.counts(run.run_id) == Counts(total=2, todo=2 - settled, outcomes={Outcome.CORRECT: settled})
    assert redis_ledger.open_runs() == ([run.run_id] if settled < 2 else [])


def test_an_unknown_run_is_told_with_the_nearest_of_the_newest_or_else_how_runs_are_listed(
    redis_ledger: RedisLedger,
) -> None:
    run = open_run(redis_ledger, make_questions(1), "chemistry")
    with pytest.raises(UnknownRun, match=r"`python -m producer runs` lists them\."):
        redis_ledger.run("zzz")
    redis_ledger.client.zadd(keys.runs(), {f"older-{number}": number for number in range(100)})
    with pytest.raises(UnknownRun, match=f"Did you mean {run.run_id!r}"):
        redis_ledger.run(run.run_id.replace("chemistry", "chemstry"))


def test_a_finished_run_keeps_no_books_of_its_attempts(redis_ledger: RedisLedger) -> None:
    run = open_run(redis_ledger, make_questions(2))
    search_and_ask(redis_ledger, run)
    redis_ledger.commit(run.run_id, verdicts(2))
    for stage in Stage:  # by a worker that broke off what another one has settled
        redis_ledger.uncount(run.run_id, ["q0", "q1"], stage)
    there = {name.rpartition(":")[2] for name in keys_of(redis_ledger, run.run_id)}
    assert there == {"meta", "questions", "order", "verdicts", "counts"}


def test_what_one_process_wrote_another_reads(redis_ledger: RedisLedger, settings: Settings) -> None:
    run = open_run(redis_ledger, make_questions(2))
    redis_ledger.commit(run.run_id, verdicts(1))
    other = RedisLedger.connect(settings)
    try:
        assert other.runs() == [run]
        assert list(other.results(run.run_id)) == list(redis_ledger.results(run.run_id))
    finally:
        other.client.close()


@contextmanager
def full(client: redis.Redis) -> Iterator[None]:
    """The server takes no more writes; the next test finds it as it was."""
    client.config_set("maxmemory", 1)
    try:
        yield
    finally:
        client.config_set("maxmemory", 0)


@pytest.mark.parametrize("method", ["add_questions", "begin", "commit"])
def test_a_full_redis_is_told_with_the_remedy_and_settles_nothing(redis_ledger: RedisLedger, method: str) -> None:
    run = open_run(redis_ledger, make_questions(2))
    with full(redis_ledger.client), pytest.raises(WritesRefused) as caught:
        ASKED[method](redis_ledger, run.run_id)
    assert caught.value.retryable
    assert "Raise maxmemory" in str(caught.value)
    assert redis_ledger.counts(run.run_id) == Counts(total=2, todo=2)


def test_a_connection_is_made_without_opening_a_file_beside_its_socket(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each that failed at that, as too many were open, took a place of redis-py's pool, until there was none."""

    def version(_name: str) -> str:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("redis.utils.metadata.version", version)
    assert redis_ledger.client.connection_pool.make_connection()


def test_a_redis_that_does_not_answer_is_told_with_its_place() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(RedisUnreachable) as caught:
            RedisLedger.connect(load_settings(None, [f"redis_url=redis://:hunter2@127.0.0.1:{port}/0"]))
    assert caught.value.retryable
    assert f"No Redis answers at redis://127.0.0.1:{port}/0" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_refused_credentials_are_no_outage_and_are_not_shown(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCQUEUE_REDIS_URL", redis_url.replace("redis://", "redis://nobody:hunter2@"))
    with pytest.raises(LedgerError) as caught:
        RedisLedger.connect(load_settings())
    assert not caught.value.retryable
    assert "refuses the credentials" in str(caught.value)
    assert "hunter2" not in str(caught.value)


class Forgetful(RedisLedger):
    """A ledger that a run is purged from right after somebody asked which runs are open, as the HTTP door may do."""

    def open_runs(self) -> list[str]:
        found = super().open_runs()
        self.purge(found[0])
        return found


def test_open_runs_are_read_once_without_examples_and_those_of_another_version_are_told(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_shot = FewShot(k=1, pool=tuple(make_questions(1)))
    ours, gone, theirs = (
        open_run(redis_ledger, make_questions(1), name, few_shot=few_shot) for name in ("ours", "gone", "theirs")
    )
    redis_ledger.client.set(keys.RunKeys(theirs.run_id).meta, '{"spec": {"mode": "telepathy"}}')
    redis_ledger.client.delete(keys.RunKeys(gone.run_id).meta)  # as seen while it is being purged
    found, unreadable = redis_ledger.read_open_runs()
    assert (list(found), list(unreadable)) == ([ours.run_id], [theirs.run_id])
    chosen = found[ours.run_id].spec.few_shot
    assert chosen is not None
    assert (chosen.k, chosen.pool) == (1, ()), "how they are chosen, for the order of what is sent again"

    monkeypatch.setattr(RedisLedger, "run", lambda _, run_id: theirs if run_id != ours.run_id else pytest.fail("again"))
    assert redis_ledger.read_open_runs(found).runs[ours.run_id] is found[ours.run_id]


def test_a_scrape_does_not_read_what_an_open_run_asks_again(
    redis_ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(redis_ledger, make_questions(1))
    metrics = RedisMetrics(redis_ledger, redis_ledger.client)
    before = [each.name for each in metrics.collect()]
    monkeypatch.setattr(RedisLedger, "run", lambda *_: pytest.fail(f"{run.run_id} is read again"))
    assert [each.name for each in metrics.collect()] == before


def test_redis_is_not_reported_away_because_a_run_was_purged_during_a_scrape(redis_ledger: RedisLedger) -> None:
    _, there = (open_run(redis_ledger, make_questions(1), name) for name in ("gone", "there"))
    ledger = Forgetful(redis_ledger.client)

    found = {each.name: each.samples for each in RedisMetrics(ledger, redis_ledger.client).collect()}

    assert [each.value for each in found["mcqueue_redis_up"]] == [1]
    assert {each.labels["run"] for each in found["mcqueue_run_questions"]} == {there.run_id}


def test_a_verdict_of_another_version_is_told_with_a_remedy_by_all_who_read_it(redis_ledger: RedisLedger) -> None:
    run = open_run(redis_ledger, make_questions(1))
    newer = json.dumps({"question_id": "q0", "outcome": "failed", "aura": 1})
    redis_ledger.commit(run.run_id, [verdict("q0", Outcome.FAILED)])
    redis_ledger.client.hset(keys.RunKeys(run.run_id).verdicts, "q0", newer)
    for read in (redis_ledger.reopen_failed, lambda run_id: list(redis_ledger.results(run_id))):
        with pytest.raises(LedgerError, match=r"question 'q0': cannot be read .*aura.* Another version of mcqueue"):
            read(run.run_id)
