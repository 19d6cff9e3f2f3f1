"""The HTTP door as callers see it: a real server, a real worker with the simulated engine.

A door and a worker serve most of the tests, which leave nothing behind. Where it matters that there is no worker, or
which, a test has a server of its own.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from contract import RedisLedger, load_settings
from contract.names import request_id
from demo.valkey import free_port
from tests.support import (
    PATIENCE_S,
    SIMULATED_MODEL,
    make_questions,
    open_run,
    process,
    settle,
    url_of,
    valkey,
    wait_until,
    worker,
)
from tests.unit.workers.engines.openai.reasoner import Reasoner
from tests.unit.workers.engines.openai.server import serving

KEY = "s3cret"
QUESTION: dict[str, Any] = {"question": "What is two plus two?", "choices": ["3", "4", "5"], "answer": "B"}


class Answer(NamedTuple):
    status: int
    body: Any


def page(url: str) -> str:
    request = urllib.request.Request(url, headers={"X-API-Key": KEY})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


class Caller:
    """Somebody who talks to the door."""

    def __init__(self, url: str, key: str = KEY) -> None:
        self.url, self._key = url, key

    def get(self, path: str, key: str | None = None) -> Answer:
        return self._ask(path, None, key)

    def post(self, path: str, key: str | None = None, **body: Any) -> Answer:
        return self._ask(path, json.dumps(body).encode(), key)

    def send(self, path: str, content: bytes, called: str) -> Answer:
        return self._ask(path, content, None, called)

    def _ask(self, path: str, content: bytes | None, key: str | None, called: str = "application/json") -> Answer:
        shown = self._key if key is None else key
        headers = {"Content-Type": called, **({"Authorization": f"Bearer {shown}"} if shown else {})}
        request = urllib.request.Request(self.url + path, content, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return Answer(answer.status, json.load(answer))
        except urllib.error.HTTPError as refusal:
            with refusal:
                return Answer(refusal.code, json.load(refusal))


@contextmanager
def served(folder: Path, *more: str, redis_url: str, model: str = SIMULATED_MODEL) -> Iterator[Caller]:
    with started(folder, *more, redis_url=redis_url, model=model) as (caller, _):
        yield caller


@contextmanager
def started(
    folder: Path, *more: str, redis_url: str, model: str = SIMULATED_MODEL
) -> Iterator[tuple[Caller, subprocess.Popen[bytes]]]:
    port, log = free_port(), folder / "serve.log"
    environment = {
        "MCQUEUE_REDIS_URL": redis_url,
        "MCQUEUE_MODEL": model,
        "MCQUEUE_HTTP__API_KEY": KEY,
        "MCQUEUE_HTTP__MAX_PROMPTS": "4",
        "MCQUEUE_HTTP__MAX_BODY_BYTES": "100000",
        "MCQUEUE_HTTP__DEADLINE_S": "30",
    }
    with process("-m", "producer", "serve", "--port", str(port), *more, environment=environment, log=log) as child:
        wait_until(lambda: child.poll() is not None or "Uvicorn running" in log.read_text(), f"the door; log {log}")
        assert child.poll() is None, log.read_text()
        yield Caller(f"http://127.0.0.1:{port}"), child
    assert KEY not in log.read_text()
    assert "Traceback" not in log.read_text()


@dataclass(frozen=True)
class Open:
    """A door, the worker behind it, and the test's own look into their Redis."""

    door: Caller
    redis_url: str
    ledger: RedisLedger


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    folder = tmp_path_factory.mktemp("open")
    batches: dict[str, Any] = {"batch_size": 64, "batch_timeout": 0.2, "simulated": {"call_ms": 50}}
    with (
        valkey(folder / "valkey") as server,
        worker(folder / "worker.log", redis_url=url_of(server), **batches),
        served(folder, redis_url=url_of(server)) as door,
    ):
        ledger = RedisLedger.connect(load_settings(None, [f"redis_url={url_of(server)}"]))
        yield Open(door, url_of(server), ledger)
        ledger.client.close()


@pytest.fixture
def door(opened: Open) -> Caller:
    """With a worker behind it, and nothing left of who called before."""
    wait_until(lambda: opened.ledger.runs() == [], "the door to have forgotten all runs")
    return opened.door


@pytest.fixture
def alone(redis_url: str, tmp_path: Path) -> Iterator[Caller]:
    """A door on the test's own server, with no worker but the test's."""
    with served(tmp_path, redis_url=redis_url) as caller:
        yield caller


def test_a_question_gets_its_verdict_and_leaves_nothing_behind(opened: Open) -> None:
    status, verdict = opened.door.post("/score", **QUESTION)
    assert status == 200
    assert verdict["outcome"] == ("correct" if verdict["choice"] == "B" else "wrong")
    assert verdict["choice_text"] == dict(zip("ABC", QUESTION["choices"], strict=True))[verdict["choice"]]
    assert set(verdict["choice_scores"]) == set("ABC")
    assert (verdict["model"], verdict["batch_size"], verdict["error"]) == (SIMULATED_MODEL, 1, None)
    assert verdict["left_to_model"] == []
    wait_until(lambda: opened.ledger.runs() == [], "the run to be forgotten")
    assert opened.ledger.client.keys("mcqueue:run:*") == []


def test_an_answer_says_which_values_of_its_request_a_reasoning_model_did_not_take(
    redis_url: str, tmp_path: Path
) -> None:
    with serving(Reasoner()) as server:
        answered_by: dict[str, Any] = {
            "engine": "openai",
            "model": "grader",
            "openai": {"url": server, "model": "grader"},
        }
        with (
            worker(tmp_path / "worker.log", **answered_by),
            served(tmp_path, redis_url=redis_url, model="grader") as door,
        ):
            asked: dict[str, Any] = {"max_tokens": 500, "prompt": "Write."}
            found = [door.post("/generate", **asked, temperature=given).body for given in (0, 1)]
            (scored,) = door.post("/score/batch", questions=[QUESTION], mode="generate").body["results"]
    assert [each["left_to_model"] for each in (*found, scored)] == [
        ["temperature", "top_p"],
        ["top_p"],
        ["temperature", "top_p"],
    ]
    assert [each["text"] for each in found] == ["The answer is B."] * 2


def test_an_answer_may_be_written_in_every_way_that_a_file_knows(door: Caller) -> None:
    questions = [{**QUESTION, "id": f"q{n}", "answer": each} for n, each in enumerate(("b", 1, "4", ["A", "B", "C"]))]
    status, found = door.post("/score/batch", questions=questions)
    assert status == 200
    *one_right, all_right = found["results"]
    assert all((each["outcome"] == "correct") is (each["choice"] == "B") for each in one_right)
    assert all_right["outcome"] == "correct"


def test_questions_of_a_batch_may_differ_in_their_context_alone(door: Caller) -> None:
    """They were refused as one question asked twice."""
    questions = [{**QUESTION, "context": context} for context in ("One.", "Two.", "One.")]
    status, found = door.post("/score/batch", questions=questions, use_context_field=True)
    assert status == 200
    first, *others = (each["id"] for each in found["results"])
    assert others == [f"{first}-2", f"{first}-3"]


def test_a_batch_comes_back_in_order_and_asked_as_the_request_says(door: Caller) -> None:
    questions = [{**QUESTION, "question": f"What is {n} plus {n}?", "id": f"q{n}"} for n in range(4)]
    status, answer = door.post("/score/batch", questions=questions, mode="letter")
    assert status == 200
    assert [each["id"] for each in answer["results"]] == ["q0", "q1", "q2", "q3"]
    _, other = door.post("/score/batch", questions=questions, mode="likelihood")
    assert [each["choice_scores"] for each in answer["results"]] != [each["choice_scores"] for each in other["results"]]
    _, text = door.post("/score", **QUESTION, mode="generate")
    assert text["raw_text"].startswith("The answer is ")


@pytest.fixture
def of_two(opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Caller]:
    """A door of a host with two models, started for one of them; the other one has no worker."""
    file = tmp_path / "two.yaml"
    file.write_text(f"models: [{{model: {SIMULATED_MODEL}}}, {{model: other}}]\n")
    monkeypatch.setenv("MCQUEUE_CONFIG", str(file))
    with served(tmp_path, "--set", f"model={SIMULATED_MODEL}", redis_url=opened.redis_url, model="") as caller:
        yield caller


def test_the_model_that_the_door_was_started_for_answers_unless_a_request_names_another(of_two: Caller) -> None:
    status, verdict = of_two.post("/score", **QUESTION)
    assert (status, verdict["model"]) == (200, SIMULATED_MODEL)
    assert of_two.post("/score", **QUESTION, mode="generate").body["model"] == SIMULATED_MODEL
    assert of_two.post("/generate", prompt="Once").status == 200
    for path, asked in (("/score", QUESTION), ("/generate", {"prompt": "Once"})):
        refused = of_two.post(path, **asked, model="other")
        assert refused.status == 503
        assert "'other'" in refused.body["detail"]


def test_a_question_s_context_is_shown_where_the_request_says_so(door: Caller) -> None:
    asked = {**QUESTION, "context": "Two and two make four."}
    answers = [
        door.post("/score", **asked, **how)
        for how in ({}, {"use_context_field": True}, {"use_context_field": True, "mode": "letter"})
    ]
    assert [answer.status for answer in answers] == [200, 200, 200]
    plain, shown, _ = [answer.body["choice_scores"] for answer in answers]
    assert plain == door.post("/score", **QUESTION).body["choice_scores"]
    assert plain != shown


def test_a_request_that_sends_too_much_is_refused_unread(door: Caller) -> None:
    status, answer = door.post("/score", **{**QUESTION, "question": "?" * 100_000})
    assert (status, answer["detail"]) == (413, "More than 100000 bytes in one request (http.max_body_bytes).")


def test_what_a_killed_door_left_behind_is_forgotten_by_the_next(
    redis_ledger: RedisLedger, redis_url: str, tmp_path: Path
) -> None:
    ours = open_run(redis_ledger, make_questions(1))
    young, old = request_id(), request_id()
    for run_id, age_s in ((young, 60), (old, 25 * 3600)):
        left = {"run_id": run_id, "source": "http", "created_at": ours.created_at - age_s}
        redis_ledger.open_run(ours.model_copy(update=left))
    kept = [young, ours.run_id]
    with served(tmp_path, redis_url=redis_url):
        wait_until(lambda: [run.run_id for run in redis_ledger.runs()] == kept, "the old run to be forgotten")


def test_prompts_get_texts_and_the_time_they_took(door: Caller) -> None:
    status, answer = door.post("/generate/batch", prompts=["Name a metal.", "Name a gas."], max_tokens=8)
    assert status == 200
    assert [each["text"][:14] for each in answer["results"]] == ["The answer is ", "The answer is "]
    assert (answer["total_prompts"], answer["total_time_seconds"] > 0) == (2, True)
    assert answer["avg_time_per_prompt"] == pytest.approx(answer["total_time_seconds"] / 2, abs=1e-5)
    status, one = door.post("/generate", prompt="Name a metal.")
    assert (status, one["text"]) == (200, answer["results"][0]["text"])


def test_fifty_callers_with_one_question_each_share_batches(door: Caller) -> None:
    def ask(n: int) -> Answer:
        return door.post("/score", **{**QUESTION, "question": f"What is {n} plus {n}?"})

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(ask, range(50)))
    assert {answer.status for answer in answers} == {200}
    sizes = sorted(answer.body["batch_size"] for answer in answers)
    assert sum(1 / size for size in sizes) <= 25, f"two in a batch on average; sizes {sizes}"


def test_without_a_worker_nobody_waits(alone: Caller) -> None:
    status, answer = alone.post("/score", **QUESTION)
    assert (status, f"No worker serves '{SIMULATED_MODEL}'" in answer["detail"]) == (503, True)
    assert alone.get("/health") == Answer(200, {"status": "no workers", "workers": {}, "indexes": {}})


def test_where_redis_takes_no_writes_nobody_is_told_that_workers_are_missing(
    alone: Caller, redis_ledger: RedisLedger
) -> None:
    redis_ledger.client.config_set("maxmemory", 1)
    try:
        status, answer = alone.post("/score", **QUESTION)
    finally:
        redis_ledger.client.config_set("maxmemory", 0)
    assert (status, "refuses writes: it is at its memory limit" in answer["detail"]) == (503, True)


@contextmanager
def hanging(log: Path) -> Iterator[None]:
    """A worker that never answers QUESTION."""
    with worker(log, drain_timeout_s=1, simulated={"hang_text": QUESTION["question"]}):
        yield


def test_a_deadline_that_is_missed_is_told_and_the_question_dropped(
    alone: Caller, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    with hanging(tmp_path / "hanging.log"):
        status, answer = alone.post("/score", **QUESTION, deadline_s=0.5)
        assert (status, "No verdict after 0.5 s" in answer["detail"]) == (504, True)
        wait_until(lambda: redis_ledger.runs() == [], "the run to be forgotten")


def test_a_caller_who_leaves_is_waited_for_no_longer_and_its_question_dropped(
    alone: Caller, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    def waiting(questions: int) -> bool:
        return f"mcqueue_http_waiting_questions {questions}.0" in page(f"{alone.url}/metrics")

    content = json.dumps(QUESTION).encode()
    head = f"POST /score HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\nContent-Type: application/json\r\n"
    with hanging(tmp_path / "hanging.log"):
        with socket.create_connection(("127.0.0.1", int(alone.url.rpartition(":")[2]))) as caller:
            caller.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            wait_until(lambda: waiting(1) and len(redis_ledger.runs()) == 1, "the question to be waited for")
        wait_until(lambda: waiting(0) and redis_ledger.runs() == [], "the door to forget it")
        assert alone.post("/score", **{**QUESTION, "question": "What is three plus three?"}).status == 200


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_door_that_was_told_to_end_has_exit_code_0(redis_url: str, tmp_path: Path, ending: signal.Signals) -> None:
    """At SIGTERM, as service managers send it, it ended as if killed."""
    with started(tmp_path, redis_url=redis_url) as (_, child):
        child.send_signal(ending)
        assert child.wait(timeout=PATIENCE_S) == 0


def test_a_second_ctrl_c_ends_the_door_at_once_and_whoever_waits_is_told(
    redis_url: str, redis_ledger: RedisLedger, tmp_path: Path
) -> None:
    """Tracebacks of each request, a bare "Internal Server Error", and a run that was left for a day."""
    with (
        hanging(tmp_path / "hanging.log"),
        started(tmp_path, redis_url=redis_url) as (door, child),
        ThreadPoolExecutor() as callers,
    ):
        asked = callers.submit(door.post, "/score", **QUESTION)
        wait_until(lambda: len(redis_ledger.runs()) == 1, "the question to be asked")
        child.send_signal(signal.SIGINT)
        log = tmp_path / "serve.log"
        wait_until(lambda: "Waiting for connections to close" in log.read_text(), "the door to wait for its caller")
        child.send_signal(signal.SIGINT)
        told = "The server stops, and does not wait for the answer. Send the request again."
        assert asked.result(timeout=PATIENCE_S) == Answer(503, {"detail": told})
        assert child.wait(timeout=PATIENCE_S) == 0
        assert redis_ledger.runs() == []


def test_the_key_is_asked_for_everywhere_but_at_health(door: Caller) -> None:
    for key in ("", "wrong"):
        assert door.post("/score", key=key, **QUESTION).status == 401
        assert door.get("/runs", key=key).status == 401
        assert door.get("/health", key=key) == Answer(
            200, {"status": "ok", "workers": {SIMULATED_MODEL: 1}, "indexes": {}}
        )
    assert door.get("/runs") == Answer(200, [])


#: Path, body, what the refusal says.
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("/score", {**QUESTION, "choices": ["only"]}, "choices: a question needs at least 2"),
    ("/score", {**QUESTION, "choices": []}, "To generate text from a prompt, use /generate"),
    (
        "/score",
        {**QUESTION, "choices": [f"choice {n}" for n in range(27)], "answer": "choice 26"},
        "choices: found 27, expected 2 to 26",
    ),
    ("/score", {**QUESTION, "answer": "Z"}, "answer: 'Z' names no choice. Expected a label (A to C)"),
    ("/score", {**QUESTION, "answer": 3}, "answer: found index 3, expected 0 to 2. Indices count from 0."),
    ("/score", {**QUESTION, "answer": True}, "answer"),
    ("/score", {**QUESTION, "mode": "judge"}, "Input should be 'likelihood', 'letter' or 'generate'"),
    (
        "/score",
        {**QUESTION, "mode": "letter", "normalization": "byte"},
        "has no effect in mode letter, only in likelihood",
    ),
    ("/score", {**QUESTION, "question": " "}, "question: found ' ', expected text."),
    ("/score", {**QUESTION, "choices": ["3", ""]}, "choices: found '', expected text."),
    ("/score", {**QUESTION, "id": ""}, "id: found ''. An id has 1 to 200 characters"),
    ("/score/batch", {"questions": [{**QUESTION, "id": "q"}] * 2}, "questions.1.id: 'q' is the same as questions.0.id"),
    ("/score/batch", {"questions": [QUESTION, {**QUESTION, "answer": "Z"}]}, "questions.1.answer: 'Z' names no choice"),
    (
        "/score/batch",
        {"questions": [QUESTION, {**QUESTION, "choices": ["3"]}]},
        "questions.1.choices: a question needs",
    ),
    ("/score/batch", {"questions": [QUESTION] * 5}, "5 questions; at most 4 are allowed in one request"),
    ("/generate/batch", {"prompts": ["p"] * 5}, "5 prompts; at most 4 are allowed in one request"),
    ("/generate", {"prompt": " "}, "Input should have more than white space"),
    ("/generate", {"prompt": "p", "stop": ["\ud800"]}, "unable to parse raw data as a unicode string"),
    ("/generate", {"prompt": "half a \ud800"}, "unable to parse raw data as a unicode string"),
    ("/score", {**QUESTION, "question": "half a \ud800?"}, "unable to parse raw data as a unicode string"),
    ("/score", {**QUESTION, "\ud800": 1}, "unable to parse raw data as a unicode string"),
    ("/score", {**QUESTION, "deadline_s": float("nan")}, "NaN is not a JSON number."),
    ("/score", {**QUESTION, "deadline_s": 10000}, "found 10000; at most 600 is allowed (http.max_deadline_s)"),
    ("/generate", {"prompt": "p", "deadline_s": 601}, "found 601; at most 600 is allowed (http.max_deadline_s)"),
    ("/generate", {"prompt": "p", "prompt_file": "/etc/passwd"}, "Extra inputs are not permitted"),
]


def test_what_cannot_be_asked_is_refused_with_the_reason(door: Caller) -> None:
    answers = [door.post(path, **body) for path, body, _ in REFUSED]
    assert {answer.status for answer in answers} == {422}
    for answer, (path, body, says) in zip(answers, REFUSED, strict=True):
        assert says in json.dumps(answer.body["detail"]), (path, body)


def test_a_body_that_is_no_json_or_is_not_called_so_is_refused_with_the_remedy(door: Caller) -> None:
    asked = json.dumps(QUESTION).encode()
    for content, called, says in (
        (asked, "application/x-www-form-urlencoded", "a JSON object, sent with Content-Type: application/json"),
        (b"[1]", "application/json", "Expected a JSON object"),
        (asked[:-1], "application/json", f"error at character {len(asked) - 1}: Expecting ',' delimiter"),
    ):
        status, answer = door.send("/score", content, called)
        assert (status, says in answer["detail"][0]["msg"]) == (422, True), answer


def test_prometheus_reads_requests_and_queues_from_the_door(door: Caller) -> None:
    def answered(metrics: str) -> float:
        series = r'^mcqueue_http_request_seconds_count{path="/score",status="200"} (.*)$'
        return sum(float(each) for each in re.findall(series, metrics, re.MULTILINE))

    before = answered(page(f"{door.url}/metrics"))
    door.post("/score", **QUESTION)
    found = page(f"{door.url}/metrics")
    assert answered(found) == before + 1
    assert "mcqueue_http_waiting_questions 0.0" in found
    assert "mcqueue_redis_up 1.0" in found


def test_prometheus_and_probes_are_told_that_redis_is_silent_while_others_still_wait_for_it(
    alone: Caller, redis_ledger: RedisLedger
) -> None:
    server = int(redis_ledger.client.info()["process_id"])
    with ThreadPoolExecutor(1) as pool:
        os.kill(server, signal.SIGSTOP)  # the kernel goes on to accept connections
        try:
            waiting = pool.submit(alone.get, "/runs")
            told = [page(f"{alone.url}/metrics") for _ in range(2)]
            healths = [alone.get("/health") for _ in range(2)]
            others_wait = not waiting.done()
        finally:
            os.kill(server, signal.SIGCONT)
        assert all("mcqueue_redis_up 0.0" in each for each in told)
        assert all(each.status == 503 and "No Redis answers at" in each.body["detail"] for each in healths)
        assert others_wait
        assert waiting.result().status == 200
    assert alone.get("/health") == Answer(200, {"status": "no workers", "workers": {}, "indexes": {}})


def test_the_door_describes_itself(door: Caller) -> None:
    _, described = door.get("/openapi.json", key="")
    assert {"/score", "/score/batch", "/generate", "/generate/batch", "/runs", "/health"} <= described["paths"].keys()


def test_a_run_of_which_every_question_is_settled_is_called_settled(alone: Caller, redis_ledger: RedisLedger) -> None:
    run = open_run(redis_ledger, make_questions(1), "done")
    assert [each["state"] for each in alone.get("/runs").body] == ["running"]
    settle(redis_ledger, run.run_id, "q0")
    assert [each["state"] for each in alone.get("/runs").body] == ["settled"]


@pytest.mark.usefixtures("redis_url")
def test_a_port_that_is_taken_ends_with_exit_code_1_and_the_remedy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port, log = other.getsockname()[1], tmp_path / "log"
        with process("-m", "producer", "serve", "--port", str(port), log=log) as door:
            assert door.wait(timeout=PATIENCE_S) == 1
    assert f"error: The server cannot listen on 127.0.0.1:{port}. Use another --host or --port." in log.read_text()
