"""A judge on an OpenAI-compatible server of its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from contract import Failure, Outcome, Prompt, Settings, load_settings
from contract.mode import Mode
from contract.settings import OpenAiSettings
from contract.spec import Judge, Sampling
from tests.support import make_questions, make_spec
from tests.unit.workers.engines.openai.server import Script, serving
from tests.unit.workers.writer import Writer
from workers.engines import JudgeEngines
from workers.engines.base import NotServed, UnexpectedFailure
from workers.pipeline import score_batch
from workers.scoring import Item

pytestmark = pytest.mark.usefixtures("short_pauses")


GRADED = '{"correct": true, "reason": "fine"}'


@pytest.fixture
def judged() -> Iterator[tuple[Script, Settings]]:
    script = Script(text=GRADED)
    with serving(script):
        yield script, load_settings(None, ["judge_api_key=s3cret"])


def verdicts_of(url: str, settings: Settings, count: int) -> tuple[list[Any], Writer]:
    judge = Judge(prompt=Prompt(name="grade", text="Grade: {{ response }}"), server=url, model="grader")
    spec = make_spec(mode=Mode.JUDGE, sampling=Sampling(), judge=judge)
    own, judges = Writer(lambda _: ["It is four."]), JudgeEngines(settings)
    try:
        return score_batch([Item(each, spec) for each in make_questions(count)], own, judges.engine_of), own
    finally:
        judges.close()


def test_another_servers_model_grades_what_this_one_answered(judged: tuple[Script, Settings]) -> None:
    script, settings = judged
    verdicts, own = verdicts_of(script.url, settings, 6)
    assert [verdict.outcome for verdict in verdicts] == [Outcome.CORRECT] * 6
    assert [len(call) for call in own.calls] == [6]
    assert {seen["messages"][0]["content"] for seen in script.asked} == {"Grade: It is four."}
    assert set(script.keys) == {"Bearer s3cret"}


def test_a_judge_whose_model_chooses_its_own_temperature_is_not_told_one(judged: tuple[Script, Settings]) -> None:
    """OpenAI's reasoning models take no other than their own, and their limit of tokens by another name."""
    script, settings = judged
    script.unsupported = {"max_tokens": "unsupported_parameter", "temperature": "unsupported_value"}
    verdicts, _ = verdicts_of(script.url, settings, 6)
    assert [verdict.outcome for verdict in verdicts] == [Outcome.CORRECT] * 6
    graded = [each for each in script.asked if "max_tokens" not in each and "temperature" not in each]
    assert [each["max_completion_tokens"] for each in graded] == [256] * 6


@pytest.mark.parametrize(
    "said", ["Unsupported parameter: 'response_format'", "This response_format type is unavailable now"]
)
def test_a_judge_whose_server_takes_no_schema_is_asked_without_one(said: str, judged: tuple[Script, Settings]) -> None:
    class NoSchemas(Script):
        def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
            if "response_format" in body:
                return 400, {"error": {"message": said, "type": "invalid_request_error", "param": None, "code": None}}
            return super().answer(path, body)

    script = NoSchemas(text=GRADED)
    with serving(script):
        verdicts, _ = verdicts_of(script.url, judged[1], 3)
    assert [verdict.outcome for verdict in verdicts] == [Outcome.CORRECT] * 3


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (401, "set MCQUEUE_JUDGE_API_KEY for the workers"),
        (403, "set MCQUEUE_JUDGE_API_KEY for the workers"),
        (404, "Check judge.server and judge.model"),
        (400, "This is what judge.server answers."),
    ],
)
def test_a_judge_that_refuses_is_told_with_the_setting_to_look_at(
    judged: tuple[Script, Settings], status: int, remedy: str
) -> None:
    """If it refuses this grading alone, the question is failed; if it refuses everybody, the question is put off."""
    script, settings = judged
    script.refusals = [status]
    (alone,), _ = verdicts_of(script.url, settings, 1)
    script.refusals = [status] * 100_000
    (everybody,), _ = verdicts_of(script.url, settings, 1)
    assert alone.outcome is Outcome.FAILED
    assert (type(alone.error), type(everybody.error)) == (Failure, NotServed)
    for error in (alone.error, everybody.error):
        assert remedy in error.message
        assert "s3cret" not in error.message


def test_a_judge_that_does_not_answer_is_told_with_the_setting_to_look_at() -> None:
    (verdict,), _ = verdicts_of("http://127.0.0.1:1", load_settings(None, []), 1)
    assert isinstance(verdict.error, NotServed)
    assert "127.0.0.1:1" in verdict.error.message
    assert "is judge.server correct, running, and reachable from the workers?" in verdict.error.message


@pytest.fixture
def swallows_packets() -> Iterator[str]:
    """An address at which nothing answers, nor refuses: Linux drops what comes to a server with its backlog full."""
    with socket.socket() as server, ExitStack() as waiting:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(2):
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


def test_a_judge_behind_an_address_that_swallows_packets_is_given_up_long_before_its_time_is_over(
    swallows_packets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt to connect took as long as an answer may, so a run's first batch was held up for minutes."""
    monkeypatch.setattr("workers.engines.openai.connection.CONNECT_S", 0.1)
    settings = load_settings(None, ["judge_timeout_s=3600"])
    (verdict,), _ = verdicts_of(swallows_packets, settings, 1)
    assert isinstance(verdict.error, NotServed)
    assert "is judge.server correct, running, and reachable from the workers?" in verdict.error.message


def test_a_judge_that_is_too_busy_for_one_grading_is_asked_for_it_again(judged: tuple[Script, Settings]) -> None:
    script, settings = judged
    script.refusals = [429] * (1 + OpenAiSettings().max_retries)
    (busy,), _ = verdicts_of(script.url, settings, 1)
    assert type(busy.error) is UnexpectedFailure


def test_a_grade_that_the_judges_server_broke_off_is_asked_for_again_and_no_fault_of_the_judge(
    judged: tuple[Script, Settings],
) -> None:
    script, settings = judged
    script.endings = ["abort"]
    (verdict,), _ = verdicts_of(script.url, settings, 1)
    assert isinstance(verdict.error, UnexpectedFailure)
    assert len(script.asked) == 1
