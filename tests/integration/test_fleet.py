"""Who is at work, and whose name may be taken."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import redis
from celery import Celery

from contract import Settings, keys
from contract.errors import NameTaken
from contract.fleet import (
    LEASE_S,
    MISSING_S,
    STARTING_S,
    UNBOOTED_S,
    BootFailure,
    Fleet,
    Wish,
    WorkerRecord,
    WorkerState,
)
from contract.ledger import RedisLedger
from contract.metrics import RedisMetrics, scrape_targets
from contract.process import process_start
from tests.support import wait_until
from workers.janitor import Janitor


@pytest.fixture
def fleet(client: redis.Redis) -> Fleet:
    """The fleet on the test's server."""
    return Fleet(client)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """Another process on this host, alive until it is told to end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as made:
        yield made
        made.kill()


def record(name: str, **more: object) -> WorkerRecord:
    """What a worker in this very process would say of itself."""
    return WorkerRecord.model_validate({"name": name, "model": "m", "state": WorkerState.READY, **more})


def record_of(child: subprocess.Popen[bytes]) -> WorkerRecord:
    """What a worker in `child` would say of itself."""
    return record("gpu0", pid=child.pid, process_started=process_start(child.pid))


def names(fleet: Fleet) -> list[str]:
    return [each.name for each in fleet.alive()]


def test_a_worker_that_joins_is_alive_and_tells_what_it_is(fleet: Fleet) -> None:
    before = time.time()
    fleet.join(record("gpu0", gpus="0,1", engine={"version": "1", "blocks": 7}, done=3))
    (found,) = fleet.alive()
    assert found.model_copy(update={"seen_at": 0.0}) == record(
        "gpu0", gpus="0,1", engine={"version": "1", "blocks": 7}, done=3
    )
    assert before <= found.seen_at <= time.time()
    assert (found.pid, fleet.names(), fleet.dead()) == (os.getpid(), ["gpu0"], [])


def test_a_worker_shares_its_queue_with_those_that_are_ready_to_take_from_it(
    fleet: Fleet, settings: Settings, app: Celery
) -> None:
    ready, draining = WorkerState.READY, WorkerState.DRAINING
    for name, queue, state in (
        ("gpu0", "score.m", ready),
        ("gpu1", "score.m", ready),
        ("gpu2", "score.m", ready),
        ("gpu3", "score.m", draining),
        ("gpu4", "score.other", ready),
    ):
        fleet.join(record(name, queue=queue, state=state))
    janitor = Janitor(settings, app, "gpu0", "score.m")
    janitor.round()
    assert janitor.others == 2


def test_a_worker_that_was_announced_is_starting_until_it_joins(fleet: Fleet) -> None:
    fleet.announce({"gpu0": "score.m", "gpu1": "score.m", "cpu0": "retrieve.i"})
    assert (fleet.starting("score.m"), fleet.starting("retrieve.i")) == (["gpu0", "gpu1"], ["cpu0"])
    fleet.join(record("gpu0", queue="score.m"))
    assert (fleet.starting("score.m"), fleet.starting("score.n")) == (["gpu1"], [])


def test_a_start_or_a_count_of_boots_that_is_no_number_is_none(fleet: Fleet, client: redis.Redis) -> None:
    """Somebody wrote it with `redis-cli`."""
    fleet.announce({"gpu0": "score.m"})
    for strange in ("soon", "nan", "inf"):
        client.hset(keys.starting("score.m"), "gpu1", strange)
        client.set(keys.boots("gpu1"), strange)
        assert (fleet.starting("score.m"), fleet.boots("gpu1")) == (["gpu0"], 0)


def test_a_worker_that_never_comes_is_not_starting_for_ever(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.announce({"gpu0": "score.m"})
    now = time.time()
    monkeypatch.setattr("contract.fleet.time.time", lambda: now + STARTING_S - 1)
    fleet.announce({"gpu1": "score.m"})
    assert fleet.starting("score.m") == ["gpu0", "gpu1"]
    monkeypatch.setattr("contract.fleet.time.time", lambda: now + STARTING_S + 1)
    assert fleet.starting("score.m") == ["gpu1"]


def test_a_beat_renews_the_record(fleet: Fleet) -> None:
    fleet.join(record("gpu0", state=WorkerState.BOOTING))
    fleet.beat(record("gpu0", state=WorkerState.READY, done=64))
    found = fleet.get("gpu0")
    assert found is not None
    assert (found.state, found.done) == (WorkerState.READY, 64)


def test_a_beat_renews_the_lease(fleet: Fleet, client: redis.Redis) -> None:
    fleet.join(record("gpu0"))
    client.pexpire(keys.worker("gpu0"), 500)
    fleet.beat(record("gpu0"))
    assert LEASE_S - 1 <= client.ttl(keys.worker("gpu0")) <= LEASE_S


def test_a_worker_that_leaves_gives_its_name_back_but_stays_listed_until_it_is_forgotten(fleet: Fleet) -> None:
    for name in ("gpu1", "gpu0"):
        fleet.join(record(name))
    fleet.leave(record("gpu0"))
    assert (names(fleet), fleet.dead(), fleet.names()) == (["gpu1"], ["gpu0"], ["gpu0", "gpu1"])
    assert fleet.get("gpu0") is None
    fleet.forget("gpu0")
    assert (fleet.dead(), fleet.names()) == ([], ["gpu1"])
    fleet.join(record("gpu0", host="elsewhere", place="elsewhere"))
    assert names(fleet) == ["gpu0", "gpu1"]


def test_the_name_of_a_live_worker_is_refused_with_who_has_it(fleet: Fleet, child: subprocess.Popen[bytes]) -> None:
    fleet.join(record_of(child))
    with pytest.raises(NameTaken) as caught:
        fleet.join(record("gpu0"))
    assert str(caught.value).startswith(f"A worker named 'gpu0' is alive (ready, pid {child.pid} on ")
    assert "python -m workers run -n NAME" in str(caught.value)
    found = fleet.get("gpu0")
    assert found is not None
    assert found.pid == child.pid


def test_of_two_who_find_a_worker_dead_the_slower_one_does_not_get_its_name(
    fleet: Fleet, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would take each other's messages for their own."""
    fleet.join(record_of(child))
    found = fleet.get("gpu0")
    child.kill()
    child.wait()
    fleet.join(record("gpu0", host="elsewhere", place="elsewhere"))
    with monkeypatch.context() as earlier:
        earlier.setattr(fleet, "get", lambda _: found)
        with pytest.raises(NameTaken):
            fleet.join(record("gpu0"))
    taken = fleet.get("gpu0")
    assert taken is not None
    assert taken.host == "elsewhere"


def test_a_live_worker_on_another_host_keeps_its_name(fleet: Fleet) -> None:
    fleet.join(record("gpu0", host="elsewhere", place="elsewhere", pid=1))
    with pytest.raises(NameTaken, match=r"pid 1 on elsewhere"):
        fleet.join(record("gpu0"))


def test_a_worker_may_join_again_under_its_own_name(fleet: Fleet) -> None:
    fleet.join(record("gpu0"))
    fleet.join(record("gpu0", done=1))
    assert names(fleet) == ["gpu0"]


def test_a_worker_whose_process_died_on_this_host_is_dead_at_once_and_its_name_free(
    fleet: Fleet, child: subprocess.Popen[bytes]
) -> None:
    fleet.join(record_of(child))
    assert names(fleet) == ["gpu0"]
    child.kill()
    child.wait()
    assert (names(fleet), fleet.dead()) == ([], ["gpu0"])
    assert fleet.get("gpu0") is not None, "its lease is still running"
    fleet.join(record("gpu0"))
    assert names(fleet) == ["gpu0"]


def test_a_worker_that_was_killed_and_not_yet_buried_is_dead_too(fleet: Fleet, child: subprocess.Popen[bytes]) -> None:
    fleet.join(record_of(child))
    os.kill(child.pid, signal.SIGKILL)
    wait_until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE, "the process to die")
    assert fleet.dead() == ["gpu0"]


def test_a_worker_that_joins_while_the_dead_are_looked_for_is_not_one_of_them(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def and_then_one_joins(of: Fleet) -> list[WorkerRecord]:
        found = alive(of)
        fleet.join(record("late"))
        return found

    alive = Fleet.alive
    fleet.join(record("gpu0"))
    monkeypatch.setattr(Fleet, "alive", and_then_one_joins)
    assert fleet.dead() == []


def test_a_reused_process_id_is_not_the_same_worker(fleet: Fleet) -> None:
    fleet.join(record("gpu0", process_started=1))
    assert fleet.dead() == ["gpu0"]


def test_a_wish_to_restart_does_not_replace_one_to_drain_but_is_replaced_by_it(fleet: Fleet) -> None:
    assert fleet.ask("gpu0", Wish.RESTART) is Wish.RESTART
    assert fleet.ask("gpu0", Wish.RESTART) is Wish.RESTART
    assert fleet.ask("gpu0", Wish.DRAIN) is Wish.DRAIN
    assert fleet.ask("gpu0", Wish.RESTART) is Wish.DRAIN
    assert fleet.wish("gpu0") is Wish.DRAIN


def test_a_beat_that_finds_the_name_taken_says_so_and_changes_nothing(fleet: Fleet, client: redis.Redis) -> None:
    fleet.join(record("gpu0"))
    client.delete(keys.worker("gpu0"))  # its lease ran out while it was stopped
    fleet.join(record("gpu0", place="elsewhere", pid=1))
    with pytest.raises(NameTaken, match="Another worker took the name"):
        fleet.beat(record("gpu0"))
    fleet.leave(record("gpu0"))
    found = fleet.get("gpu0")
    assert found is not None
    assert found.pid == 1
    client.delete(keys.worker("gpu0"))  # who has taken it is killed
    assert missing(fleet) == ["gpu0"]


def test_equal_process_ids_in_two_containers_are_two_workers(fleet: Fleet) -> None:
    fleet.join(record("gpu0", place="host/boot/pid:[1]"))
    with pytest.raises(NameTaken):
        fleet.join(record("gpu0", place="host/boot/pid:[2]"))
    assert names(fleet) == ["gpu0"]


def let_run_out(client: redis.Redis, lease: str) -> None:
    """Now, and not in the ten seconds that it has at most."""
    assert 0 < client.pttl(lease) <= 1000 * LEASE_S
    client.pexpire(lease, 1)


def test_a_worker_elsewhere_is_dead_when_its_lease_runs_out_and_its_name_free(
    fleet: Fleet, client: redis.Redis
) -> None:
    fleet.join(record("gpu0", host="elsewhere", place="elsewhere", pid=1))
    assert names(fleet) == ["gpu0"]
    let_run_out(client, keys.worker("gpu0"))
    wait_until(lambda: fleet.dead() == ["gpu0"], "the lease to run out")
    assert names(fleet) == []
    fleet.join(record("gpu0"))
    assert names(fleet) == ["gpu0"]


def missing(fleet: Fleet) -> list[str]:
    return [each.name for each in fleet.missing()]


def targets(fleet: Fleet) -> dict[str, list[str]]:
    return {each["labels"]["worker"]: each["targets"] for each in scrape_targets(fleet)}


def test_prometheus_still_asks_a_worker_that_vanished_and_is_told_that_it_is_missing(
    fleet: Fleet, redis_ledger: RedisLedger
) -> None:
    for name in ("gpu0", "gpu1"):
        fleet.join(record(name, queue="score.m", metrics_at=f"{name}:9400", host=name, place=name))
    assert (missing(fleet), set(targets(fleet))) == ([], {"gpu0", "gpu1"})
    let_run_out(redis_ledger.client, keys.worker("gpu0"))
    wait_until(lambda: missing(fleet) == ["gpu0"], "the lease to run out")
    fleet.forget("gpu0")  # its messages are back in the queue
    assert targets(fleet) == {"gpu0": ["gpu0:9400"], "gpu1": ["gpu1:9400"]}
    found = {each.name: each.samples for each in RedisMetrics(redis_ledger, redis_ledger.client).collect()}
    assert [(each.labels, each.value) for each in found["mcqueue_worker_missing"]] == [
        ({"worker": "gpu0", "queue": "score.m"}, 1)
    ]
    fleet.beat(record("gpu0", queue="score.m", metrics_at="gpu0:9401", host="gpu0", place="gpu0"))
    assert (missing(fleet), targets(fleet)) == ([], {"gpu0": ["gpu0:9401"], "gpu1": ["gpu1:9400"]})


def test_a_worker_at_the_address_of_one_that_vanished_is_not_scraped_under_both_names(
    fleet: Fleet, client: redis.Redis
) -> None:
    fleet.join(record("cpu0@4711", metrics_at="172.17.0.3:9400"))
    client.delete(keys.worker("cpu0@4711"))
    fleet.join(record("cpu0@4712", metrics_at="172.17.0.3:9400"))  # Docker gives the next container its address
    assert missing(fleet) == ["cpu0@4711"]
    assert targets(fleet) == {"cpu0@4712": ["172.17.0.3:9400"]}


@pytest.mark.parametrize("its_lease", ["valid", "run out"])
def test_a_worker_that_ends_in_order_is_not_missing(fleet: Fleet, client: redis.Redis, its_lease: str) -> None:
    fleet.join(record("gpu0", metrics_at="here:9400"))
    if its_lease == "run out":
        client.delete(keys.worker("gpu0"))  # Redis was away for a while
        assert missing(fleet) == ["gpu0"]
    fleet.leave(record("gpu0"))
    assert (missing(fleet), targets(fleet)) == ([], {})


def test_a_worker_that_is_killed_while_it_drains_is_not_missing(fleet: Fleet, client: redis.Redis) -> None:
    fleet.join(record("gpu0"))
    fleet.beat(record("gpu0", state=WorkerState.DRAINING))
    client.delete(keys.worker("gpu0"))
    assert missing(fleet) == []


def test_after_an_hour_a_worker_that_vanished_is_not_expected_back(fleet: Fleet, client: redis.Redis) -> None:
    for name, seen_at in (("old", time.time() - MISSING_S - 1), ("new", time.time() - MISSING_S + 60)):
        client.hset(keys.seen(), name, record(name, seen_at=seen_at).model_dump_json())
    assert missing(fleet) == ["new"]
    fleet.join(record("gpu0"))
    assert set(client.hkeys(keys.seen())) == {"new", "gpu0"}


def test_after_a_day_a_failed_boot_is_forgotten_though_others_fail_meanwhile(fleet: Fleet, client: redis.Redis) -> None:
    for name, at in (("old", time.time() - UNBOOTED_S - 1), ("new", time.time() - UNBOOTED_S + 60)):
        failure = BootFailure(worker=name, queue="score.m", reason="no memory", at=at)
        client.hset(keys.unbooted(), name, failure.model_dump_json())
    assert [each.worker for each in fleet.boot_failures()] == ["new"]
    fleet.boot_failed("gpu0", "score.m", "no memory")
    assert set(client.hkeys(keys.unbooted())) == {"new", "gpu0"}


def test_of_two_that_join_at_once_under_one_name_one_is_refused(fleet: Fleet) -> None:
    together = threading.Barrier(2)

    def joined(name: str, host: str) -> bool:
        together.wait()
        try:
            fleet.join(record(name, host=host, place=host))
        except NameTaken:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        for attempt in range(30):
            asked = [pool.submit(joined, f"gpu{attempt}", host) for host in ("here", "there")]
            assert sorted(each.result() for each in asked) == [False, True]
