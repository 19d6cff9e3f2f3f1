"""The engine on an OpenAI-compatible server, against a server that speaks the protocol and fails as told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from contract import Outcome, Prompt, Settings, load_settings
from contract.spec import Judge, Mode, Sampling
from tests.support import make_questions, make_spec
from tests.unit.workers.test_modes import Writer
from workers.engines import JudgeEngines
from workers.engines.base import GenerateRequest, ScoreRequest
from workers.engines.openai import OpenAiEngine
from workers.pipeline import Item, score_batch

GRADED = '{"correct": true, "reason": "fine"}'


class Handler(BaseHTTPRequestHandler):
    """Answers with GRADED, after the statuses in `refusals`."""

    refusals: ClassVar[list[int]] = []
    seen: ClassVar[list[dict[str, Any]]] = []
    keys: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append({"path": self.path, **body})
        self.keys.append(self.headers["Authorization"])
        status = self.refusals.pop(0) if self.refusals else 200
        message = {"role": "assistant", "content": GRADED}
        answer = {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        }
        content = json.dumps(answer if status == 200 else {"error": {"message": "no"}}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After-Ms", "10")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the base class names it so


@pytest.fixture
def url() -> Iterator[str]:
    Handler.refusals, Handler.seen, Handler.keys = [], [], []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def settings() -> Settings:
    return load_settings(None, ["judge_api_key=s3cret"])


@pytest.fixture
def engine(url: str, settings: Settings) -> Iterator[OpenAiEngine]:
    made = OpenAiEngine(settings, url, "grader")
    made.start()
    yield made
    made.close()


REQUEST = GenerateRequest("Grade.", Sampling(max_tokens=9), seed=5, json_schema='{"type": "object"}')


def test_a_request_carries_what_decides_the_answer(engine: OpenAiEngine) -> None:
    (completion,) = engine.generate([REQUEST])
    assert [text.text for text in completion.texts] == [GRADED]
    assert completion.prompt_tokens == 7
    (seen,) = Handler.seen
    assert seen["path"] == "/v1/chat/completions"
    assert seen["messages"] == [{"role": "user", "content": "Grade."}]
    assert (seen["model"], seen["max_tokens"], seen["temperature"], seen["seed"]) == ("grader", 9, 0.0, 5)
    assert seen["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert Handler.keys == ["Bearer s3cret"]


def test_the_key_is_in_no_description(engine: OpenAiEngine, settings: Settings) -> None:
    assert "s3cret" not in f"{engine.describe()} {settings!r}"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_tried_again(engine: OpenAiEngine, status: int) -> None:
    Handler.refusals = [status, status]
    (completion,) = engine.generate([REQUEST])
    assert completion.error is None
    assert len(Handler.seen) == 3


def test_a_request_that_is_refused_fails_alone(engine: OpenAiEngine) -> None:
    Handler.refusals = [400]
    completions = engine.generate([REQUEST, REQUEST, REQUEST])
    assert sorted(each.error.type if each.error else "" for each in completions) == ["", "", "BadRequestError"]


def test_continuations_cannot_be_weighed_there(engine: OpenAiEngine) -> None:
    (completion,) = engine.generate([ScoreRequest("p", (" a", " b"))])
    assert completion.error is not None


def test_another_servers_model_grades_what_this_one_answered(url: str, settings: Settings) -> None:
    judge = Judge(prompt=Prompt(name="grade", text="Grade: {{ response }}"), server=url, model="grader")
    spec = make_spec(mode=Mode.JUDGE, sampling=Sampling(), judge=judge)
    own, judges = Writer(lambda _: ["It is four."]), JudgeEngines(settings)
    try:
        verdicts = score_batch([Item(each, spec) for each in make_questions(6)], own, judges.engine_of)
    finally:
        judges.close()
    assert [verdict.outcome for verdict in verdicts] == [Outcome.CORRECT] * 6
    assert [len(call) for call in own.calls] == [6]
    assert {seen["messages"][0]["content"] for seen in Handler.seen} == {"Grade: It is four."}


def test_a_judge_that_is_away_makes_questions_failed_and_not_wrong(settings: Settings, monkeypatch: Any) -> None:
    monkeypatch.setattr("workers.engines.openai.MAX_RETRIES", 0)
    judge = Judge(prompt=Prompt(name="grade", text="Grade."), server="http://127.0.0.1:1", model="grader")
    spec = make_spec(mode=Mode.JUDGE, sampling=Sampling(), judge=judge)
    judges = JudgeEngines(settings)
    try:
        own = Writer(lambda _: ["It is four."])
        (verdict,) = score_batch([Item(make_questions(1)[0], spec)], own, judges.engine_of)
    finally:
        judges.close()
    assert verdict.outcome is Outcome.FAILED
    assert verdict.error is not None
    assert (verdict.error.type, "127.0.0.1:1" in verdict.error.message) == ("APIConnectionError", True)
