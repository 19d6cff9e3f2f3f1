"""`workers check` names what is wrong with Redis and its workers, and says nothing where all is well."""

from __future__ import annotations

from typing import Any

import pytest

from contract.fleet import BootFailure, WorkerRecord, WorkerState
from workers.host.fleet_diagnostics import (
    Queue,
    absent_workers,
    beside_trials,
    check_durability,
    clocks,
    differing_engines,
    fleet_at_work,
    leases,
    put_off,
    taken_names,
)

QUEUE = "score.m"
#: Questions without a verdict by the queues that they pass through: all are settled.
NOTHING: dict[tuple[str, ...], int] = {}
GIB = 2**30
VLLM = {"engine": "vllm", "vllm": "0.32.0", "model": "/m/1", "weights": "aa", "dtype": "bfloat16", "max_num_seqs": 64}


def worker(**changes: Any) -> WorkerRecord:
    fields = {"name": "gpu0@a", "model": "m", "queue": QUEUE, "state": WorkerState.READY, "batch_size": 64}
    return WorkerRecord.model_validate({**fields, "seen_at": 1000.0, "host": "a", **changes})


def test_clocks_apart_from_redis() -> None:
    assert list(clocks(1000.5, 1000.0, [worker()])) == []
    here, there = clocks(1010.0, 1000.0, [worker(seen_at=1007.0)])
    assert "+10.0 s" in here.found
    assert "a (gpu0@a) is +7.0 s" in there.found


def test_a_redis_without_room_and_one_that_could_not_write_its_file() -> None:
    well = {"used_memory": GIB, "maxmemory": 4 * GIB, "aof_last_write_status": "ok", "rdb_last_bgsave_status": "ok"}
    assert list(check_durability(well)) == list(check_durability({})) == []
    (full,) = check_durability({**well, "maxmemory": 1.05 * GIB})
    assert "1,024 of 1,075 MiB" in full.found
    for name in ("aof_last_write_status", "rdb_last_bgsave_status"):
        (unwritten,) = check_durability({**well, name: "err"})
        assert name in unwritten.found


def test_a_redis_without_a_memory_limit_is_no_error_and_it_is_said_what_becomes_of_it() -> None:
    (unlimited,) = check_durability({"used_memory": 9 * GIB, "maxmemory": 0})
    assert (unlimited.level, unlimited.what) == ("ok", "Redis")
    assert unlimited.found.startswith("no maxmemory: ")
    assert unlimited.remedy.startswith("Set maxmemory")


def test_a_redis_that_deletes_questions_or_loses_them_when_it_is_restarted() -> None:
    kept = {"maxmemory_policy": "noeviction", "aof_enabled": 1}
    assert list(check_durability(kept)) == []
    (deletes,) = check_durability({**kept, "maxmemory_policy": "allkeys-lru"})
    assert (deletes.level, deletes.found) == ("error", "maxmemory-policy is allkeys-lru")
    (forgets,) = check_durability({**kept, "aof_enabled": 0})
    assert (forgets.level, forgets.found) == ("warning", "no append-only file")


def test_a_dead_workers_messages_need_another_worker_only_where_none_is_alive() -> None:
    (alone,) = leases({"gone@b": 3, "clean@b": 0}, [])
    assert "gone@b is gone and holds 3 messages" in alone.found
    assert alone.remedy.startswith("Start a worker")
    (beside_others,) = leases({"gone@b": 3}, [worker()])
    assert beside_others.remedy == "Live workers requeue them within seconds."


def test_a_worker_that_could_not_boot_is_started_by_its_launcher_or_if_that_has_ended_by_another_one() -> None:
    """`restart` alone waited a minute for a launcher that had given up its only worker, and ended."""
    (told,) = absent_workers([], [BootFailure(worker="gpu0@a", queue=QUEUE, reason="No such model.", at=1000.0)])
    assert "python -m workers restart gpu0@a" in told.remedy
    assert told.remedy.endswith("If its launcher has ended, on its host: python -m workers up")


def test_batches_that_do_not_fill_beside_a_full_and_an_empty_queue() -> None:
    slack = worker(batches=20, begun=20 * 16)
    (beside_full,) = fleet_at_work([slack], [Queue(QUEUE, 50)], NOTHING)
    assert "25 % full" in beside_full.found
    assert "raise batch_timeout" in beside_full.remedy
    (starving,) = fleet_at_work([slack.model_copy(update={"running": 1})], [Queue(QUEUE, 0)], NOTHING)
    assert "enqueue more at a time" in starving.remedy


@pytest.mark.parametrize("changes", [{"batches": 20, "begun": 20 * 60, "running": 2}, {"batches": 2, "begun": 3}])
def test_a_fleet_at_work_or_just_begun_is_no_news(changes: dict[str, int]) -> None:
    assert list(fleet_at_work([worker(**changes)], [Queue(QUEUE, 40)], NOTHING)) == []


def test_messages_without_a_worker_and_questions_without_a_message() -> None:
    (unserved,) = fleet_at_work([worker(state=WorkerState.BOOTING)], [Queue(QUEUE, 5)], NOTHING)
    assert "no worker is ready" in unserved.found
    (lost,) = fleet_at_work([worker()], [Queue(QUEUE, 0)], {(QUEUE,): 80})
    assert lost.found == f"{QUEUE} is empty and its workers are idle, despite 80 questions without a verdict"
    assert list(fleet_at_work([worker()], [Queue(QUEUE, 0, held=True)], {(QUEUE,): 80})) == []


def test_a_model_that_waits_for_passages_misses_no_message() -> None:
    search = "retrieve.facts"
    route: dict[tuple[str, ...], int] = {(search, QUEUE): 80}
    model = worker()
    searching = worker(queue=search)
    (nobody_searches,) = fleet_at_work([model], [Queue(search, 5), Queue(QUEUE, 0)], route)
    assert "no worker is ready" in nobody_searches.found
    assert nobody_searches.remedy == (
        "Start one: python -m workers up --only retrieve-facts --set 'indexes=[FOLDER OF facts]'"
    )
    assert list(fleet_at_work([model, searching], [Queue(search, 0, held=True), Queue(QUEUE, 0)], route)) == []
    (lost,) = fleet_at_work([model, searching], [Queue(search, 0), Queue(QUEUE, 0)], route)
    assert lost.found.startswith(f"{search} and {QUEUE} are empty and their workers are idle, despite 80 questions")


def test_a_run_that_is_put_off_is_told_with_the_reason() -> None:
    (waiting,) = put_off([worker(puts_off={"exam-1": "the index was rebuilt"}), worker()])
    assert (waiting.level, waiting.what) == ("warning", "put off")
    assert waiting.found == f"exam-1 by {worker().name}: the index was rebuilt"


def test_messages_that_no_run_needs_ask_for_no_worker() -> None:
    (needless,) = fleet_at_work([], [Queue(QUEUE, 5, needless=5)], NOTHING)
    assert needless.level == "ok"
    assert needless.found == f"{QUEUE}: 5 messages of runs that are purged, settled, paused or cancelled"
    assert needless.remedy.endswith(f"celery -A workers.app purge -Q {QUEUE}")
    needed, beside = fleet_at_work([], [Queue(QUEUE, 5, needless=3)], NOTHING)
    assert needed.found == f"{QUEUE}: 2 messages waiting, but no worker is ready"
    assert "celery" not in beside.remedy, "it would delete the two as well"
    assert list(fleet_at_work([worker()], [Queue(QUEUE, 5, needless=3)], NOTHING)) == []


def test_workers_of_one_queue_whose_engines_may_answer_otherwise_are_told() -> None:
    others = [worker(name="gpu1@a", engine=VLLM | {"dtype": "float32", "weights": "bb"}), worker(name="new@a")]
    (found,) = differing_engines([worker(engine=VLLM), *others])
    assert found.found == (
        f'workers of {QUEUE} differ in weights ("aa", "bb"), dtype ("bfloat16", "float32"): gpu0@a, gpu1@a'
    )
    assert "a different `model` name" in found.remedy


def test_workers_that_answer_alike_at_another_speed_or_path_are_no_trouble() -> None:
    faster = worker(name="gpu1@b", engine=VLLM | {"model": "/elsewhere", "max_num_seqs": 256})
    other = worker(name="gpu2@b", queue="score.other", engine=VLLM | {"weights": "cc"})
    assert list(differing_engines([worker(engine=VLLM), faster, other])) == []


def test_where_weights_cannot_be_told_the_model_s_place_is_compared() -> None:
    here, there = (worker(name=name, engine=VLLM | {"weights": "", "model": name}) for name in ("a", "b"))
    (found,) = differing_engines([here, there])
    assert 'model ("a", "b")' in found.found


def test_trials_name_the_workers_that_share_their_cores() -> None:
    there = [worker(name="cpu0@a"), worker(name="cpu0@b", host="b")]
    (found,) = beside_trials(there, "a", ())
    assert found.found == "other workers use the same cores: cpu0@a"
    assert found.remedy.endswith("python -m workers drain cpu0@a")


def test_trials_on_a_gpu_mind_only_the_workers_that_hold_it() -> None:
    there = [worker(name="gpu0@a", gpus="0"), worker(name="gpu12@a", gpus="1,2"), worker(name="r0@a")]
    (found,) = beside_trials(there, "a", ("2", "3"))
    assert found.found == "other workers use the same GPUs: gpu12@a"
    assert not list(beside_trials(there, "a", ("3",)))


def test_a_planned_worker_whose_name_another_model_s_worker_has_is_pointed_out() -> None:
    """`check` found nothing wrong, and `up` refused to start."""
    there = [worker(name=name, model="m") for name in ("cpu0@a", "cpu1@a", "cpu0@b")]
    (found,) = taken_names(there, {"cpu0@a": "score.other", "cpu1@a": QUEUE, "cpu2@a": "score.other"}, there[0].place)
    assert found.level == "warning"
    assert found.found == "cpu0@a serves m, and a worker of these settings would have the same name"
    assert "python -m workers drain cpu0@a" in found.remedy


def test_a_planned_worker_whose_name_another_machine_s_worker_has_is_pointed_out() -> None:
    """Of two machines called alike, `check` found nothing wrong on the second, and `up` refused to start there."""
    there = [worker(name=name, place="a/other-boot") for name in ("cpu0@a", "cpu0@b")]
    (found,) = taken_names(there, {"cpu0@a": QUEUE, "cpu1@a": QUEUE}, "a/this-boot")
    assert found.level == "warning"
    assert found.found == "cpu0@a runs on another machine or in another container with the same host name"
    assert found.remedy == "Give each a host name of its own."
    assert not list(taken_names(there, {"cpu0@a": QUEUE}, "a/other-boot"))
