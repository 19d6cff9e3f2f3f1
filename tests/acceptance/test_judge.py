"""A judge elsewhere: vLLM's own OpenAI-compatible server grades what the worker's model answered."""

from __future__ import annotations

import csv
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.valkey import free_port
from tests.acceptance.conftest import BOOT_S, Stack
from tests.support import ROOT, process, wait_until
from workers.engines.arguments import as_flags, engine_environment, for_this_cpu
from workers.engines.packaged import prepare


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """`vllm serve` with the demo model, as `grader`."""
    port, log = free_port(), tmp_path / "serve.log"
    model = str(prepare("smollm2-135m-instruct"))
    vllm_args = for_this_cpu({"enforce_eager": True, "max_model_len": 1024, "kv_cache_memory_bytes": 2**29}, model)
    options = ("--served-model-name", "grader", *as_flags(vllm_args))
    address = ("--host", "127.0.0.1", "--port", str(port))
    serve = ("-m", "vllm.entrypoints.openai.api_server", "--model", model, *options, *address)
    quiet = {**engine_environment(model), "CUDA_VISIBLE_DEVICES": ""}

    def answers() -> bool:
        assert child.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    with process(*serve, environment=quiet, log=log) as child:
        wait_until(answers, f"vllm serve; its log: {log}", timeout_s=BOOT_S)
        yield f"http://127.0.0.1:{port}"


def test_another_servers_model_grades_the_free_answers(stack: Stack, server: str) -> None:
    judge = ("--set", f"judge.server={server}", "--set", "judge.model=grader", "--set", "judge.max_tokens=200")
    asked = (str(ROOT / "demo" / "questions.jsonl"), "--config", "configs/runs/judge.yaml", "--limit", "6")
    folder = stack.run_to_results(*asked, *judge, "--set", "sampling.max_tokens=24")
    with (folder / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert {row["outcome"] for row in rows} <= {"correct", "wrong"}
    assert {row["rule"] for row in rows} == {"judge"}
    assert all(row["raw_text"] for row in rows)
