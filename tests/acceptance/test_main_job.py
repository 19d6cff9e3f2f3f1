"""The main job as a person runs it: real commands, real vLLM, real weights, real questions."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import pytest

from contract.fleet import Fleet
from tests.acceptance.conftest import BOOT_S, Stack, rows_of, summary_of
from tests.metric_names import VLLM
from tests.support import ROOT, command, wait_until
from workers.engines.packaged import prepare

QUESTIONS = ROOT / "demo" / "questions.jsonl"
LIKELIHOOD = ("--config", "configs/runs/likelihood.yaml")


class Within(NamedTuple):
    """Largest differences of scores that the engine's precision explains, in nats."""

    each: float
    mean: float
    #: How many of twenty choices may be further off behind no prompt at all.
    strays: int


#: By vLLM's data type. With 16 bits, the demo's 640 scores are 0.09 apart on average, and a few over 0.5. Behind a lone
#: BOS, a choice of two tokens may be 3 nats off; which one it is depends on the kernels.
WITHIN_NATS = {
    "float32": Within(each=0.01, mean=0.001, strays=0),
    "bfloat16": Within(each=0.8, mean=0.2, strays=3),
}


@pytest.fixture(scope="module")
def demo(stack: Stack) -> Path:
    """Results of the whole demo set by likelihood."""
    return stack.run_to_results(str(QUESTIONS), *LIKELIHOOD, "--run", "demo")


def test_every_question_has_one_row_in_the_files_order(demo: Path) -> None:
    asked = [json.loads(line)["id"] for line in QUESTIONS.read_text().splitlines()]
    assert [row["question_id"] for row in rows_of(demo)] == asked


def test_the_model_is_clearly_above_chance_on_plain_facts(demo: Path) -> None:
    rows = rows_of(demo)
    correct = sum(row["outcome"] == "correct" for row in rows)
    assert {row["outcome"] for row in rows} == {"correct", "wrong"}
    # 0.38 of 160 is what guessing at one in four reaches once in 10,000 runs.
    assert correct / len(rows) > 0.38
    assert summary_of(demo)["outcomes"]["correct"] == correct


@pytest.fixture(scope="module")
def log_likelihoods() -> Callable[[str, Sequence[str]], list[float]]:
    """Log-likelihood of each text after a prompt: transformers' log-softmax in float32, summed over its tokens."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = prepare("smollm2-135m-instruct")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def measured(prompt: str, continuations: Sequence[str]) -> list[float]:
        start = [] if prompt else [tokenizer.bos_token_id]
        given = len(start + tokenizer(prompt)["input_ids"])
        rows = [torch.tensor(start + tokenizer(prompt + each)["input_ids"]) for each in continuations]
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)  # no token sees those behind it
        with torch.no_grad():
            logprobs = model(padded).logits.log_softmax(-1)
        return [
            sum(float(of_row[i - 1, row[i]]) for i in range(given, len(row)))
            for row, of_row in zip(rows, logprobs, strict=True)
        ]

    return measured


def within_of(folder: Path) -> Within:
    """Largest differences for the engine that answered; vLLM has 16 bits on some CPUs."""
    return WITHIN_NATS[summary_of(folder)["environment"]["answered_by"][0]["engine"]["dtype"]]


def test_scores_agree_with_transformers_on_the_same_weights(
    demo: Path, log_likelihoods: Callable[[str, Sequence[str]], list[float]]
) -> None:
    within = within_of(demo)
    by_id = {row["question_id"]: row for row in rows_of(demo)}
    differences: list[float] = []
    disagreements = 0
    for line in QUESTIONS.read_text().splitlines()[:20]:
        question = json.loads(line)
        row = by_id[question["id"]]
        ours: dict[str, float] = json.loads(row["choice_scores"])
        prompt = f"Question: {question['question']}\nAnswer:"
        scores = log_likelihoods(prompt, [f" {choice}" for choice in question["choices"]])
        theirs = dict(zip("ABCD", scores, strict=True))
        differences += [abs(ours[label] - score) for label, score in theirs.items()]
        best = max(theirs, key=lambda label: theirs[label])
        # Choices closer than the precision may change places.
        near_tie = theirs[best] - theirs[row["choice"]] < within.each
        disagreements += row["choice"] != best
        assert row["choice"] == best or near_tie, question["id"]
    assert max(differences) < within.each
    assert mean(differences) < within.mean
    assert disagreements <= 1


def test_mutual_information_subtracts_what_transformers_finds_without_the_question(
    stack: Stack, log_likelihoods: Callable[[str, Sequence[str]], list[float]]
) -> None:
    folder = stack.run_to_results(
        str(QUESTIONS), "--config", "configs/runs/mutual-info.yaml", "--limit", "5", "--run", "informed"
    )
    behind_question: list[float] = []
    behind_nothing: list[float] = []
    for question, verdict in stack.ledger().results(folder.name):
        assert verdict is not None
        choices = [f" {choice}" for choice in question.choices]
        with_question = log_likelihoods(f"Question: {question.question}\nAnswer:", choices)
        with_nothing = log_likelihoods("", choices)
        for label, behind, alone in zip(question.labels, with_question, with_nothing, strict=True):
            without = verdict.unconditional_scores[label]
            behind_question.append(abs(verdict.choice_scores[label] + without - behind))
            behind_nothing.append(abs(without - alone))
    within = within_of(folder)
    assert len(behind_question) == len(behind_nothing) == 20
    assert max(behind_question) < within.each
    assert mean(behind_question) < within.mean
    assert median(behind_nothing) < 2 * within.mean
    assert sum(each >= within.each for each in behind_nothing) <= within.strays
    told = summary_of(folder)["accuracy_by_normalization"]
    assert set(told) == {"none", "character", "byte", "token", "mutual_info"}


def test_enqueuing_the_same_again_says_that_it_is_settled(stack: Stack, demo: Path) -> None:
    again = stack.producer("enqueue", str(QUESTIONS), *LIKELIHOOD, "--run", "demo", "--json")
    content = json.loads(again.stdout)
    assert (content["run_id"], content["unsettled"]) == (demo.name, 0)


def test_letters_cost_one_prefill_and_every_question_is_answered(stack: Stack) -> None:
    folder = stack.run_to_results(str(QUESTIONS), "--config", "configs/runs/letter.yaml", "--limit", "40")
    rows = rows_of(folder)
    assert len(rows) == 40
    assert {row["outcome"] for row in rows} <= {"correct", "wrong"}
    assert {row["rule"] for row in rows} == {"next-token"}


def test_flower_counts_exactly_the_question_batches_sent(stack: Stack) -> None:
    before = len(stack.flower("/api/tasks?limit=10000"))
    folder = stack.run_to_results(str(QUESTIONS), *LIKELIHOOD, "--run", "flower", "--limit", "18", "--fresh")

    def tasks() -> list[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = stack.flower("/api/tasks?limit=10000")
        return [task for task in found.values() if folder.name in str(task["args"])]

    wait_until(lambda: len(tasks()) == 2 and all(t["state"] == "SUCCESS" for t in tasks()), "Flower to see two tasks")
    assert len(stack.flower("/api/tasks?limit=10000")) == before + 2  # 16 + 2 questions
    for task in tasks():
        assert task["received"] <= task["started"] <= task["succeeded"]
        assert task["runtime"] > 0
    workers: dict[str, Any] = stack.flower("/api/workers?refresh=true")
    assert len(workers) == 1


def test_a_prompt_longer_than_the_context_fails_alone_and_is_counted_apart(stack: Stack, tmp_path: Path) -> None:
    questions = [json.loads(line) for line in QUESTIONS.read_text().splitlines()[:3]]
    questions[1]["question"] = "Why? " * 3000
    file = tmp_path / "long.jsonl"
    file.write_text("\n".join(map(json.dumps, questions)))
    folder = stack.run_to_results(str(file), *LIKELIHOOD, exit_code=3)
    rows = rows_of(folder)
    assert [row["outcome"] == "failed" for row in rows] == [False, True, False]
    assert rows[1]["error_type"] == "RequestRejected"
    assert "exceed the context of 2048" in rows[1]["error_message"]
    assert rows[1]["correct"] == ""
    assert summary_of(folder)["outcomes"]["failed"] == 1


def test_show_prints_the_prompt_and_the_scores(stack: Stack, demo: Path) -> None:
    shown = stack.producer("show", demo.name, "symbol-of-erbium").stdout
    assert "What is the chemical symbol of erbium?" in shown
    assert "Answer:" in shown


def test_a_model_that_writes_is_read_by_rules_or_left_unanswered(stack: Stack) -> None:
    quick = ("--limit", "12", "--set", "sampling.max_tokens=48")
    folder = stack.run_to_results(str(QUESTIONS), "--config", "configs/runs/generate.yaml", *quick)
    rows = rows_of(folder)
    assert {row["outcome"] for row in rows} <= {"correct", "wrong", "unanswered"}
    assert all(row["raw_text"] for row in rows)
    assert all((row["choice"] == "") == (row["outcome"] == "unanswered") for row in rows)
    again = command("-m", "workers", "rescore", folder.name, environment=stack.environment)
    assert "12 questions re-read, 0 changed" in again.stdout


@pytest.fixture(scope="module")
def few_shot_twice(stack: Stack) -> list[Path]:
    """Results of the same run, asked twice."""
    few_shot = ("--config", "configs/runs/few-shot.yaml", "--limit", "24", "--fresh", "--run", "cached")
    return [stack.run_to_results(str(QUESTIONS), *few_shot) for _ in range(2)]


def test_solved_examples_before_each_question_come_from_the_engines_cache(few_shot_twice: list[Path]) -> None:
    assert summary_of(few_shot_twice[0])["tokens"]["cache_hit_rate"] > 0.4


def test_scores_of_cached_prompts_equal_those_of_computed_ones(few_shot_twice: list[Path]) -> None:
    """The second run finds its prompts in the cache, and must not take leftovers for scores."""
    first, second = map(rows_of, few_shot_twice)
    for one, other in zip(first, second, strict=True):
        ours, theirs = json.loads(one["choice_scores"]), json.loads(other["choice_scores"])
        assert ours == pytest.approx(theirs, abs=WITHIN_NATS["bfloat16"].each), one["question_id"]


def test_the_tokens_that_the_engine_is_given_can_be_seen(stack: Stack, demo: Path) -> None:
    shown = command("-m", "workers", "tokens", demo.name, "symbol-of-erbium", environment=stack.environment)
    (request,) = json.loads(shown.stdout)
    assert request["text"] == "Question: What is the chemical symbol of erbium?\nAnswer:"
    assert len(request["continuations"]) == 4
    assert all(each["text"].startswith(" ") and each["token_ids"] for each in request["continuations"])


def test_a_worker_killed_in_mid_run_costs_no_question_and_doubles_none(stack: Stack) -> None:
    asked = (str(QUESTIONS), *LIKELIHOOD, "--limit", "64", "--run", "killed", "--fresh", "--json")
    run_id = json.loads(stack.producer("enqueue", *asked).stdout)["run_id"]
    ledger = stack.ledger()
    wait_until(lambda: ledger.counts(run_id).settled >= 16, "a part of the run", BOOT_S)
    assert not ledger.counts(run_id).finished
    os.kill(stack.worker_pid(), signal.SIGKILL)
    wait_until(lambda: ledger.counts(run_id).finished, "the run to finish after the restart", BOOT_S)
    ledger.client.close()
    stack.producer("export", run_id, "--out", str(stack.results))
    ids = [row["question_id"] for row in rows_of(stack.results / run_id)]
    assert len(ids) == len(set(ids)) == 64
    assert sum(summary_of(stack.results / run_id)["outcomes"].values()) == 64


def test_the_workers_metrics_have_vllms_own_beside_ours(stack: Stack) -> None:
    stack.run_to_results("demo/questions.jsonl", "--limit", "8", "--run", "metrics")
    (found,) = Fleet(stack.ledger().client).alive()
    with urllib.request.urlopen(f"http://{found.metrics_at}/metrics", timeout=60) as answer:
        page = answer.read().decode()
    names = set(re.findall(r"^([\w:]+)", page, re.MULTILINE))
    assert names >= VLLM | {"mcqueue_questions_total", "mcqueue_prefill_tokens_total", "process_cpu_seconds_total"}
    settled = sum(float(each) for each in re.findall(r"^mcqueue_questions_total{.*} (.*)$", page, re.MULTILINE))
    assert settled >= 8
