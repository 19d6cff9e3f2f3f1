"""Runs share workers by turns and weights, from beginning to end."""

from __future__ import annotations

import functools
import json
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from celery import Celery
from click.testing import CliRunner

from contract import RedisLedger, Run, fair_share, keys
from producer.cli import main
from tests.integration.runs import QUEUE, send, sent, verdicts, wait_finished
from tests.support import make_questions, open_run, wait_until, worker


def settled_in_order(ledger: RedisLedger, runs: Sequence[Run]) -> str:
    """First letters of the runs of all verdicts, as they were settled."""
    found = [(verdict.settled_at, run.run_id[0]) for run in runs for verdict in verdicts(ledger, run)]
    return "".join(letter for _, letter in sorted(found))


@contextmanager
def stopped(*workers: subprocess.Popen[bytes]) -> Iterator[None]:
    """They do nothing meanwhile, which must be for less than their leases."""
    for each in workers:
        each.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for each in workers:
            each.send_signal(signal.SIGCONT)


def test_a_short_run_behind_a_long_one_ends_after_about_twice_its_own_time(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    long, short = sent(app, redis_ledger, 2000, "long"), sent(app, redis_ledger, 160, "short")
    with worker(tmp_path / "log", batch_size=8, simulated={"call_ms": 40}):
        wait_finished(redis_ledger, short)
    order = settled_in_order(redis_ledger, [long, short])
    # As many of the other as its own 160, and what the worker had taken and committed around it.
    assert order[: order.rindex("s")].count("l") < 160 + 100


def test_a_run_that_comes_while_others_are_under_way_gets_its_turns_soon(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    long = sent(app, redis_ledger, 4000, "long")
    with worker(tmp_path / "log", batch_size=8, simulated={"call_ms": 50}):
        wait_until(lambda: redis_ledger.counts(long.run_id).settled > 0, "the long run to begin")
        short = sent(app, redis_ledger, 40, "short")
        wait_finished(redis_ledger, short)
        assert redis_ledger.counts(long.run_id).settled < 2000


def test_a_run_that_only_a_newer_worker_can_read_does_not_hold_up_what_was_sent_after_it(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    """Its messages went round in the queue, one batch a second, and the other run waited for each of them."""
    newer = sent(app, redis_ledger, 3200, "newer")
    meta = keys.RunKeys(newer.run_id).meta
    spec = json.loads(cast("str", redis_ledger.client.get(meta)))
    redis_ledger.client.set(meta, json.dumps({**spec, "a_later_field": 1}))
    mine = sent(app, redis_ledger, 40, "mine")
    with worker(tmp_path / "log", batch_size=4):
        wait_finished(redis_ledger, mine)
    assert "a_later_field cannot be read here" in (tmp_path / "log").read_text()
    assert len(list(redis_ledger.unsettled(newer.run_id))) == 3200


def test_three_runs_on_two_workers_go_on_by_their_weights(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with (
        worker(tmp_path / "w0", batch_size=8, simulated={"call_ms": 40}) as one,
        worker(tmp_path / "w1", name="w1", batch_size=8, simulated={"call_ms": 40}) as other,
    ):
        with stopped(one, other):  # both are there when it begins, and so is all of it
            runs = [sent(app, redis_ledger, 400, name, weight=of) for name, of in (("a", 1), ("b", 1), ("c", 3))]
            fair_share.level(redis_ledger, QUEUE)
        wait_finished(redis_ledger, *runs)
    assert {verdict.worker for run in runs for verdict in verdicts(redis_ledger, run)} == {"w0@test", "w1@test"}
    shares = Counter(settled_in_order(redis_ledger, runs)[100:500])
    assert {name: pytest.approx(share, abs=40) for name, share in (("a", 80), ("b", 80), ("c", 240))} == shares


def test_two_producers_that_send_at_the_same_time_share_from_the_beginning(
    app: Celery, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    runs = [open_run(redis_ledger, make_questions(600), name=name) for name in "ab"]

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(functools.partial(send, app, redis_ledger), runs)) == [150, 150]
    with worker(tmp_path / "log", batch_size=8, simulated={"call_ms": 30}):
        wait_finished(redis_ledger, *runs)
    order = settled_in_order(redis_ledger, runs)
    assert Counter(order) == {"a": 600, "b": 600}
    assert Counter(order[:400]) == {"a": pytest.approx(200, abs=40), "b": pytest.approx(200, abs=40)}


def test_a_weight_is_given_with_a_run_seen_in_its_status_and_changed(redis_url: str, tmp_path: Path) -> None:
    def said(*words: str) -> str:
        result = CliRunner().invoke(main, ["--redis", redis_url, *words])
        assert result.exit_code == 0, result.output
        return result.output

    file = tmp_path / "q.jsonl"
    file.write_text('{"id": "q", "question": "1 + 1?", "choices": ["1", "2"], "answer": "B"}\n')
    said("enqueue", str(file), "--weight", "3")
    assert "3 turns for each turn of other runs" in said("status")
    said("weight", "last", "1")
    assert "turns for each turn" not in said("status")
    assert CliRunner().invoke(main, ["--redis", redis_url, "weight", "last", "0"]).exit_code == 2
