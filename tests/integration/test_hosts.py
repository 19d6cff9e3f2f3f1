"""Five hosts: Redis, a producer, a retrieval worker and two scoring workers, one of which is cut off in mid-run.

Each has the packages, the address of Redis with its password, a configuration of its own and, of files, nothing else of
anybody: the corpus' index lies on the retrieval host, the questions and the index' manifest with the producer.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
import redis
import yaml

from contract import RedisLedger, keys
from contract.fleet import Fleet, WorkerState
from contract.index import MANIFEST
from contract.queue import held_question_ids
from tests.hosts import Host, connected_hosts
from tests.support import PATIENCE_S, SIMULATED_MODEL, build_test_index, make_question, wait_until, write_questions

QUESTIONS = 400
SCORING = {
    "engine": "simulated",
    "model": SIMULATED_MODEL,
    "batch_size": 16,
    "batch_timeout": 0.1,
    "simulated": {"call_ms": 400},
    "metrics_address": "0.0.0.0",
}
#: No group of GPUs: no worker for the model on this host.
RETRIEVING = {"gpu_groups": [], "indexes": ["facts"], "metrics_address": "0.0.0.0"}
ASKING = {"mode": "likelihood", "rag": {"enabled": True, "index": "facts", "retrieval_top_k": 2}}


def test_a_run_over_five_hosts_survives_that_one_is_cut_off_and_comes_back(tmp_path: Path) -> None:
    with connected_hosts(tmp_path, "store", "desk", "library", "gpu-a", "gpu-b") as (store, desk, library, *scorers):
        url = serve_redis(store)
        equip(desk, library, scorers, tmp_path)
        assert (library.files(library.folder), library.files(desk.folder)) == (["facts", "host.yaml"], [])
        for host in (library, *scorers):
            host.start("-m", "workers", "up", "--config", "host.yaml", environment={"MCQUEUE_REDIS_URL": url})
        with store.seat():
            ledger = RedisLedger(redis.Redis.from_url(url, decode_responses=True))
            fleet = Fleet(ledger.client)
            wait_until(lambda: ready(fleet) == {"retrieve-facts@library", "cpu0@gpu-a", "cpu0@gpu-b"}, "the workers")
        assert_exporters_are_reachable(fleet, desk)

        cut_off, other = scorers
        victim = f"cpu0@{cut_off.name}"
        asking = ask(desk, url)
        wait_until(lambda: settled(ledger) > 0 and bool(held(ledger, victim)), "the run to be under way")
        cut_off.pull_the_cable()
        since, lease_s = time.monotonic(), ledger.client.pttl(keys.worker(victim)) / 1000
        before = settled(ledger)
        wait_until(lambda: settled(ledger) > before, "the others to go on")
        lost = held(ledger, victim) & unsettled(ledger)
        assert lost, "it was cut off with questions in its hands"
        assert asking.wait(timeout=2 * PATIENCE_S) == 0, desk.said("producer")
        assert time.monotonic() - since > lease_s > 0, "its lease had to end first"
        rows = results(desk)
        assert sorted(rows) == sorted(f"q{number}" for number in range(QUESTIONS))
        assert {rows[each]["worker"] for each in lost} == {f"cpu0@{other.name}"}
        assert all(json.loads(each["retrieved_ids"]) for each in rows.values())

        cut_off.plug_the_cable_in()
        wait_until(lambda: victim in ready(fleet), "it to be back")
        # It beats on a connection of its own. Celery tries to have one for messages ever more seldom.
        wait_until(lambda: ledger.client.info("clients")["blocked_clients"] == 3, "all to wait for messages")
        again = ask(desk, url, "--fresh")
        assert again.wait(timeout=2 * PATIENCE_S) == 0, desk.said("producer")
        served = {row["worker"] for row in results(desk).values()}
        assert served == {f"cpu0@{host.name}" for host in scorers}


def serve_redis(store: Host) -> str:
    """The URL of a Valkey on `store`; nobody without it has more to say than PING."""
    store.start("-m", "demo.valkey", "--host", store.address, "--url-file", "url")
    wait_until((store.folder / "url").exists, "Valkey")
    url = (store.folder / "url").read_text()
    with store.seat():
        stranger = redis.Redis(host=store.address, port=int(url.rpartition(":")[2].partition("/")[0]))
        assert stranger.ping()
        with pytest.raises(redis.exceptions.NoPermissionError):
            stranger.keys("*")
        stranger.close()
    return url


def equip(desk: Host, library: Host, scorers: list[Host], tmp_path: Path) -> None:
    """Give each host the files that it needs, and no other."""
    texts = [f"The answer to question number{number} stands here." for number in range(QUESTIONS)]
    index = build_test_index(tmp_path / "built" / "facts", texts)
    shutil.copytree(index, library.folder / "facts")
    (library.folder / "host.yaml").write_text(yaml.safe_dump(RETRIEVING))
    for host in scorers:
        (host.folder / "host.yaml").write_text(yaml.safe_dump(SCORING))
    (desk.folder / "facts").mkdir()
    shutil.copy(index / MANIFEST, desk.folder / "facts")
    shutil.rmtree(tmp_path / "built")
    questions = (make_question(number, question=f"What is number{number} about?") for number in range(QUESTIONS))
    write_questions(desk.folder / "questions.jsonl", questions)
    (desk.folder / "host.yaml").write_text(yaml.safe_dump({"model": SIMULATED_MODEL}))
    (desk.folder / "rag.yaml").write_text(yaml.safe_dump(ASKING))


def ask(desk: Host, url: str, *more: str) -> subprocess.Popen[bytes]:
    """`python -m producer enqueue --watch` on `desk`."""
    command = ("-m", "producer", "--deploy", "host.yaml", "enqueue", "questions.jsonl", "--config", "rag.yaml")
    return desk.start(*command, "--watch", *more, environment={"MCQUEUE_REDIS_URL": url})


def ready(fleet: Fleet) -> set[str]:
    return {each.name for each in fleet.alive() if each.state is WorkerState.READY}


def newest(ledger: RedisLedger) -> str:
    runs = ledger.runs()
    return runs[0].run_id if runs else ""


def settled(ledger: RedisLedger) -> int:
    run_id = newest(ledger)
    return ledger.counts(run_id).settled if run_id else 0


def unsettled(ledger: RedisLedger) -> set[str]:
    return set(ledger.unsettled(newest(ledger)))


def held(ledger: RedisLedger, worker: str) -> set[str]:
    return held_question_ids(ledger.client, [worker], newest(ledger))


def results(desk: Host) -> dict[str, dict[str, str]]:
    """Rows of the newest results.csv by question; each question has one."""
    newest_file = max(desk.folder.glob("results/*/results.csv"), key=lambda path: path.stat().st_mtime_ns)
    with newest_file.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = {row["question_id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def assert_exporters_are_reachable(fleet: Fleet, desk: Host) -> None:
    """From another host, where Prometheus could be: each worker's page, and on it the list of all."""
    places = {each.name: each.metrics_at for each in fleet.alive()}
    with desk.seat():
        for name, place in places.items():
            with urllib.request.urlopen(f"http://{place}/metrics", timeout=60) as page:
                assert f'worker="{name}"' in page.read().decode()
        with urllib.request.urlopen(f"http://{place}/targets", timeout=60) as page:
            listed = json.loads(page.read())
    assert {each["labels"]["worker"]: each["targets"][0] for each in listed} == places
