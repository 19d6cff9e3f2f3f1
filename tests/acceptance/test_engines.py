"""vLLM in the worker and vLLM as a server that the worker boots: the same questions, the same verdicts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from contract import Outcome, RedisLedger, Verdict, load_settings
from contract.errors import EXIT_RETRY
from tests.acceptance.conftest import BOOT_S
from tests.support import ROOT, booted_pids, command, process, processes_of_session, url_of, valkey, wait_until
from workers.engines.vllm_folder import vllm_folder
from workers.host.launcher import worker_command

#: vLLM's core in a process of its own, as on a GPU. With "1", it adds another one for the computing on a CPU.
CORE_APART = {"VLLM_ENABLE_V1_MULTIPROCESSING": "2"}
#: Both models are the same one; float32, so that what stands beside a question in a batch decides nothing. The engine
#: has room for one batch, which is settled in parts.
FLEET = """
engine: vllm
batch_size: 16
batches_in_flight: 1
batch_timeout: 0.2
settle_every_s: 0.5
server_startup_timeout: 600
vllm_args: {dtype: float32, max_model_len: 1024, max_num_seqs: 16, enforce_eager: true, block_size: 32,
  kv_cache_memory_bytes: 536870912}
models:
  - {model: inside}
  - {model: served, engine: openai, boot_local: true}
"""


@dataclass(frozen=True)
class Host:
    """Where it is, and what its commands find in their environment."""

    folder: Path
    environment: dict[str, str]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host that serves one model in both ways, from one file."""
    folder = tmp_path_factory.mktemp("engines")
    (folder / "fleet.yaml").write_text(FLEET)
    file, log = folder / "fleet.yaml", folder / "up.log"
    with valkey(folder / "valkey") as server:
        host = Host(folder, {"MCQUEUE_REDIS_URL": url_of(server), "MCQUEUE_CONFIG": str(file)})
        with process("-m", "workers", "up", "--logs", str(folder), environment=host.environment, log=log) as launcher:
            wait_until(
                lambda: launcher.poll() is not None or log.read_text().count("ready after") == 2,
                f"both workers; logs in {folder}",
                timeout_s=BOOT_S,
            )
            assert launcher.poll() is None, log.read_text()
            yield host


@dataclass(frozen=True)
class WithCore:
    """A worker whose vLLM has a core process of its own, as on a GPU."""

    process: subprocess.Popen[bytes]
    core: psutil.Process
    ledger: RedisLedger


@pytest.fixture
def laptop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server, and settings in the environment, for a worker that the test starts."""
    monkeypatch.setenv("MCQUEUE_CONFIG", str(ROOT / "configs/deploy/laptop.yaml"))
    with valkey(tmp_path / "valkey") as server:
        monkeypatch.setenv("MCQUEUE_REDIS_URL", url_of(server))
        yield


@contextmanager
def closing_ledger(*settings: str) -> Iterator[RedisLedger]:
    ledger = RedisLedger.connect(load_settings(None, settings))
    with closing(ledger.client):
        yield ledger


@contextmanager
def alone(log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker started by hand, ready."""
    with process(*worker_command("alone@test")[1:], log=log) as worker:
        wait_until(lambda: worker.poll() is not None or "ready: takes" in log.read_text(), f"it; see {log}", BOOT_S)
        assert worker.poll() is None, log.read_text()
        yield worker


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The temporary directory of the processes that this test starts."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # sockets' paths must be short
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


@pytest.fixture
def with_core(laptop: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WithCore]:
    for name, value in CORE_APART.items():
        monkeypatch.setenv(name, value)
    with alone(tmp_path / "log") as worker:
        cores = [each for each in processes_of_session(worker.pid) if "VLLM::EngineCore" in " ".join(each.cmdline())]
        assert len(cores) == 1, (tmp_path / "log").read_text()
        with closing_ledger() as ledger:
            yield WithCore(worker, cores[0], ledger)


NO_ROOM = {"MCQUEUE_VLLM_ARGS__MAX_MODEL_LEN": "8192", "MCQUEUE_VLLM_ARGS__KV_CACHE_MEMORY_BYTES": "16777216"}
SERVED = {"MCQUEUE_ENGINE": "openai", "MCQUEUE_BOOT_LOCAL": "true"}


@pytest.mark.parametrize(
    ("chosen", "cause"),
    [
        ({**NO_ROOM, **CORE_APART}, "KV cache is needed"),
        ({**NO_ROOM, **SERVED}, "KV cache is needed"),
    ],
    ids=["by its core process", "by a server's core process"],
)
def test_an_engine_that_cannot_boot_is_tried_once_and_its_cause_told_here_and_to_who_waits_for_it(
    laptop: None, tmp_path: Path, chosen: dict[str, str], cause: str
) -> None:
    asked = ("enqueue", "demo/questions.jsonl", "--config", "configs/runs/letter.yaml", "--limit", "4", "--json")
    run_id = json.loads(command("-m", "producer", *asked).stdout)["run_id"]
    up = command("-m", "workers", "up", "--logs", str(tmp_path), environment=chosen, exit_code=1)
    assert up.stderr.count("booting (pid") == 1
    (told,) = [line for line in up.stderr.splitlines() if "ended with exit code 78" in line]
    assert cause in told
    assert "See vllm_args in the deploy file" in told
    status = json.loads(command("-m", "producer", "status", run_id, "--json").stdout)
    (unbooted,) = status["unbooted"]
    assert cause in unbooted["reason"]


def test_the_process_of_vllms_engine_dies_with_its_worker_and_what_both_leave_is_removed_by_the_next(
    temporary: Path, with_core: WithCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_core.process.kill()
    wait_until(lambda: not processes_of_session(with_core.process.pid), "everything that it started to end")
    (left,) = temporary.iterdir()
    assert any(each.name.startswith("vllm_dist_") for each in left.iterdir())
    assert any(each.is_socket() for each in left.iterdir())
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with vllm_folder():
        assert not left.exists()


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_worker_whose_engine_is_ended_ends_at_once_and_gives_its_questions_back(
    with_core: WithCore, ending: signal.Signals
) -> None:
    # So many that it still writes when it is seen to, however busy the machine is.
    asked = ("enqueue", "demo/questions.jsonl", "--config", "configs/runs/generate.yaml", "--limit", "160", "--json")
    run_id = json.loads(command("-m", "producer", *asked).stdout)["run_id"]
    wait_until(lambda: with_core.core.cpu_percent() > 50, "it to generate")
    with_core.core.send_signal(ending)
    wait_until(lambda: with_core.process.poll() is not None, "the worker to end")
    assert with_core.process.poll() == EXIT_RETRY
    counts = with_core.ledger.counts(run_id)
    assert (counts.todo + counts.settled, counts.outcomes.get(Outcome.FAILED, 0)) == (160, 0)
    assert counts.todo > 0
    status = json.loads(command("-m", "producer", "status", run_id, "--json").stdout)
    assert sum(status["queues"].values()) > 0


def verdicts(host: Host, model: str, config: str, *more: str) -> dict[str, Verdict]:
    """Eight questions asked of `model`."""
    asked = (str(ROOT / "demo" / "questions.jsonl"), "--config", f"configs/runs/{config}.yaml", "--limit", "8")
    words = (
        "enqueue",
        *asked,
        "--set",
        f"model={model}",
        *more,
        "--watch",
        "--json",
        "--out",
        str(host.folder / "out"),
    )
    done = command("-m", "producer", *words, environment=host.environment)
    run_id = json.loads(done.stdout)["run_id"]
    with closing_ledger(f"redis_url={host.environment['MCQUEUE_REDIS_URL']}") as ledger:
        return {question.id: verdict for question, verdict in ledger.results(run_id) if verdict}


@pytest.mark.parametrize(
    ("config", "more"),
    [
        ("mutual-info", ("--set", "unconditional_prompt=Answer:")),
        ("letter", ("--set", "chat_template=auto")),
        ("chat", ()),
        ("chat", ("--set", "mode=likelihood")),
        ("chat", ("--set", "answer_prefix=The best answer is")),
        ("generate", ("--set", "answer_prefix=The best answer is", "--set", "sampling.max_tokens=24")),
        ("generate", ("--set", "sampling={max_tokens: 24, presence_penalty: 0.5, repetition_penalty: 1.3}")),
    ],
)
def test_the_same_questions_get_the_same_verdicts(both: Host, config: str, more: tuple[str, ...]) -> None:
    inside, served = (verdicts(both, model, config, *more) for model in ("inside", "served"))
    assert len(inside) == 8
    assert {each: (verdict.outcome, verdict.choice, verdict.raw_text) for each, verdict in served.items()} == {
        each: (verdict.outcome, verdict.choice, verdict.raw_text) for each, verdict in inside.items()
    }
    for name, verdict in inside.items():
        assert served[name].choice_scores == pytest.approx(verdict.choice_scores, abs=1e-3)
        assert served[name].prompt_tokens == verdict.prompt_tokens


def test_a_batch_of_texts_is_settled_in_parts_and_followed_before_its_longest_text_ends(both: Host) -> None:
    asked = ("enqueue", "demo/questions.jsonl", "--config", "configs/runs/generate.yaml", "--limit", "32", "--json")
    words = ("-m", "producer", *asked, "--set", "model=inside", "--set", "sampling.max_tokens=128")
    run_id = json.loads(command(*words, environment=both.environment).stdout)["run_id"]
    with closing_ledger(f"redis_url={both.environment['MCQUEUE_REDIS_URL']}") as ledger:
        wait_until(lambda: ledger.counts(run_id).finished, "32 texts", BOOT_S)
        results = list(ledger.results(run_id))
    batches: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _, verdict in results:
        assert verdict is not None
        assert verdict.outcome is not Outcome.FAILED
        batches[verdict.batch_id].append((verdict.settled_at - verdict.latency_ms / 1000, verdict.settled_at))
    spans = sorted((min(began for began, _ in of), max(ended for _, ended in of)) for of in batches.values())
    assert len(spans) == 2
    assert all(next_began < ended for (_, ended), (next_began, _) in pairwise(spans)), spans
    assert any(min(ended for _, ended in of) < max(ended for _, ended in of) - 0.2 for of in batches.values())


def test_the_server_ends_with_its_killed_worker(both: Host) -> None:
    log = both.folder / "up.log"
    worker = psutil.Process(booted_pids(log.read_text(), "served-cpu")[0])
    family = worker.children(recursive=True)
    assert any("vllm.entrypoints" in " ".join(each.cmdline()) for each in family)
    os.kill(worker.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(_lives, family)), "the server and its core to end")
    wait_until(
        lambda: f"served-cpu1@{socket.gethostname()}: restarting" in log.read_text(), "the launcher to start the next"
    )


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
