"""Flower's pages in Chromium, as an operator reads them, beside what the ledger says."""

from __future__ import annotations

import json
import re
import socketserver
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from contract import RedisLedger, Run, Settings
from contract.priority import Priority
from contract.queue import make_celery, publish
from demo.valkey import free_port
from tests.browser import chromium, open_page
from tests.integration.runs import QUEUE, wait_finished
from tests.support import (
    PATIENCE_S,
    SIMULATED_MODEL,
    end,
    make_question,
    make_questions,
    open_run,
    process,
    wait_until,
    worker,
)

MESSAGE = 16


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@contextmanager
def flower(log: Path) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = ["-m", "celery", "-q", "-A", "workers.app", "flower", "--address=127.0.0.1", f"--port={port}"]
    environment = {"FLOWER_UNAUTHENTICATED_API": "true", "MCQUEUE_MODEL": SIMULATED_MODEL}
    with process(*command, environment=environment, log=log):
        wait_until(lambda: _answers(url), f"Flower to answer; its log: {log}")
        yield url


def test_flower_on_a_port_that_is_taken_says_so_in_one_line(tmp_path: Path) -> None:
    """It ended in a traceback."""
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as taken:
        port = taken.server_address[1]
        command = ["-m", "celery", "-q", "-A", "workers.app", "flower", "--address=127.0.0.1", f"--port={port}"]
        with process(*command, environment={}, log=tmp_path / "log") as flower:
            assert flower.wait(PATIENCE_S) == 1
    told = f"error: Flower cannot listen at 127.0.0.1, port {port}: Address already in use. Choose another --port or"
    assert told in (tmp_path / "log").read_text()
    assert "Traceback" not in (tmp_path / "log").read_text()


def _answers(url: str) -> bool:
    try:
        return bool(urllib.request.urlopen(f"{url}/healthcheck", timeout=5).read())
    except OSError:
        return False


def api(url: str, path: str) -> Any:
    with urllib.request.urlopen(url + path, timeout=60) as answer:
        return json.load(answer)


def send(settings: Settings, ledger: RedisLedger, run: Run, priority: Priority = Priority.NORMAL) -> int:
    return publish(make_celery(settings), QUEUE, run.run_id, ledger.unsettled(run.run_id), MESSAGE, priority)


def rows(page: Page, table: str) -> list[list[str]]:
    """Texts of the table's cells, the rows that Flower shows on one page."""
    page.locator(f"{table} tbody tr td").nth(1).wait_for()
    cells = "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    found: list[list[str]] = page.locator(f"{table} tbody tr").evaluate_all(cells)
    return found


def tasks(url: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = api(url, "/api/tasks?limit=1000")
    return found


def test_pages_show_every_question_batch_and_what_became_of_it(
    settings: Settings, redis_ledger: RedisLedger, browser: Browser, tmp_path: Path
) -> None:
    questions = [*make_questions(141), *(make_question(number, question="REJECT this") for number in range(141, 161))]
    with (
        flower(tmp_path / "flower.log") as url,
        worker(tmp_path / "w0.log", "w0", batch_size=32, simulated={"call_ms": 50, "reject_text": "REJECT"}),
        open_page(browser) as page,
    ):
        wait_until(lambda: api(url, "/api/workers?status=true").get("w0@test"), "Flower to know the worker")
        run = open_run(redis_ledger, questions)
        messages = send(settings, redis_ledger, run)
        wait_finished(redis_ledger, run)
        wait_until(
            lambda: [each["state"] for each in tasks(url).values()] == ["SUCCESS"] * messages,
            "Flower to see every question batch done",
        )

        page.goto(f"{url}/tasks")
        shown = [row for row in rows(page, "#tasks-table") if run.run_id in " ".join(row)]
        assert len(shown) == messages == 11
        for row in shown:
            line = " | ".join(row)
            assert f"{run.run_id}: {MESSAGE} questions" in line or f"{run.run_id}: 1 question " in line
            assert "SUCCESS" in line
            assert "w0@test" in line

        results: Counter[str] = Counter()
        for each in tasks(url).values():
            for number, outcome in re.findall(r"(\d+) (\w+)", each["result"]):
                results[outcome] += int(number)
            assert each["runtime"] >= 0.05
        counts = redis_ledger.counts(run.run_id)
        assert results == {outcome.value: number for outcome, number in counts.outcomes.items()}
        assert results["failed"] == 20

        page.goto(f"{url}/workers")
        (found,) = [row for row in rows(page, "#workers-table") if row[0] == "w0@test"]
        assert found[1] in ("Online", "True")
        assert (found[3], found[5]) == (str(messages), str(messages)), "processed, succeeded"


def test_the_broker_page_tells_what_waits_per_model_and_priority(
    settings: Settings, redis_ledger: RedisLedger, browser: Browser, tmp_path: Path
) -> None:
    with flower(tmp_path / "flower.log") as url, open_page(browser) as page:
        run = open_run(redis_ledger, make_questions(96))
        assert send(settings, redis_ledger, run) == 6
        urgent = open_run(redis_ledger, make_questions(32), "urgent")
        assert send(settings, redis_ledger, urgent, Priority.HIGH) == 2
        page.goto(f"{url}/broker")
        found = {row[0]: row[1] for row in rows(page, "table")}
        assert found == {QUEUE: "8", f"{QUEUE} · high": "2", f"{QUEUE} · normal": "6", f"{QUEUE} · low": "0"}


def test_the_broker_page_lists_the_queue_of_a_worker_that_came_after_flower(
    settings: Settings, redis_ledger: RedisLedger, browser: Browser, tmp_path: Path
) -> None:
    with (
        flower(tmp_path / "flower.log") as url,
        worker(tmp_path / "w0.log", "w0", model="another", hf_model_id="another"),
        open_page(browser) as page,
    ):
        page.goto(f"{url}/broker")
        assert "score.another · normal" in {row[0] for row in rows(page, "table")}


def test_a_worker_stays_online_while_a_long_batch_runs(
    settings: Settings, redis_ledger: RedisLedger, browser: Browser, tmp_path: Path
) -> None:
    with (
        flower(tmp_path / "flower.log") as url,
        worker(tmp_path / "w0.log", "w0", simulated={"call_ms": 9000}),
        open_page(browser) as page,
    ):
        wait_until(lambda: api(url, "/api/workers?status=true").get("w0@test"), "Flower to know the worker")
        run = open_run(redis_ledger, make_questions(MESSAGE))
        send(settings, redis_ledger, run)
        wait_until(lambda: [each["state"] for each in tasks(url).values()] == ["STARTED"], "the batch to begin")
        seen = set()
        while not redis_ledger.counts(run.run_id).finished:
            page.goto(f"{url}/workers")
            seen |= {row[1] for row in rows(page, "#workers-table") if row[0] == "w0@test"}
            page.wait_for_timeout(250)  # one that is taken for offline stays so for seconds
        assert len(seen) == 1
        assert seen <= {"Online", "True"}


def test_nothing_stays_pending_after_a_worker_was_killed(
    settings: Settings, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    slow: dict[str, Any] = {"batch_size": 32, "simulated": {"call_ms": 1500}}
    with flower(tmp_path / "flower.log") as url, worker(tmp_path / "w0.log", "w0", **slow) as first:
        wait_until(lambda: api(url, "/api/workers?status=true").get("w0@test"), "Flower to know the worker")
        run = open_run(redis_ledger, make_questions(96))
        send(settings, redis_ledger, run)
        wait_until(lambda: any(each["state"] == "STARTED" for each in tasks(url).values()), "a batch to begin")
        first.kill()
        end(first)
        with worker(tmp_path / "w1.log", "w1", **slow):
            wait_finished(redis_ledger, run)
            # A message that was lost with the worker came again under an id of its own: the number may differ.
            wait_until(
                lambda: {each["state"] for each in tasks(url).values()} == {"SUCCESS"},
                "every question batch to be done in Flower's eyes too",
            )
