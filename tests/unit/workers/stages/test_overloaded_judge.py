"""A judge on another server that refuses everybody, or is away: its questions are put off, and all others go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from contract import MemoryLedger, Prompt, Run, Settings, load_settings
from contract.mode import Mode
from contract.spec import Judge, Sampling
from tests.support import SIMULATED_MODEL, make_questions, open_run, wait_until
from tests.unit.workers.engines.openai.server import Script, serving
from tests.unit.workers.messages.batches import batch_of, message
from tests.unit.workers.ready_engine import ReadyEngine
from tests.unit.workers.writer import Writer
from workers.engines import JudgeEngines
from workers.engines.base import Completion, NotServed, Request
from workers.messages.batch import Batch, Settlement
from workers.stages.scoring import BatchScorer
from workers.stages.work import StageContext

pytestmark = pytest.mark.usefixtures("short_pauses")

GRADED = '{"correct": true, "reason": "fine"}'
IDS = ("q0", "q1", "q2", "q3")
#: For as long as a test lasts.
ALWAYS = 100_000


@dataclass
class Court:
    """A worker with a model of its own, and the server of a judge."""

    script: Script
    settings: Settings
    books: MemoryLedger = field(default_factory=MemoryLedger)
    model: Writer = field(default_factory=lambda: Writer(lambda _: ["It is four."]))

    def __post_init__(self) -> None:
        self.judges = JudgeEngines(self.settings)
        self.context = StageContext(self.settings, self.books, "w@host", lambda *_: None, lambda: True)
        self.scorer = BatchScorer(self.context, self.model, self.judges.engine_of, self.judges.waits_for)
        self.judge = Judge(
            prompt=Prompt(name="grade", text="{{ question }} {{ response }}"), server=self.script.url, model="grader"
        )
        self.run = self.judged_run("judged")

    def judged_run(self, name: str) -> Run:
        return open_run(self.books, make_questions(4), name, mode=Mode.JUDGE, sampling=Sampling(), judge=self.judge)

    def score(self, *runs: Run) -> Batch:
        batch = batch_of(*[message(run, *IDS) for run in runs])
        self.scorer.run(batch)
        return batch

    def serves_again(self) -> None:
        self.script.refusals, self.script.hangs_up = [], False
        wait_until(lambda: not self.judges.waits_for(self.judge), "the end of the refusals")


@contextmanager
def holding(script: Script) -> Iterator[Court]:
    with serving(script):
        found = Court(script, load_settings(None, ["engine=simulated", f"model={SIMULATED_MODEL}", "max_attempts=2"]))
        yield found
        found.judges.close()


@pytest.fixture
def court() -> Iterator[Court]:
    with holding(Script(text=GRADED)) as found:
        yield found


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422, 429, 500, 503])
def test_a_judge_that_refuses_everybody_costs_no_question_an_attempt_however_long_it_does(
    court: Court, status: int
) -> None:
    court.script.refusals = [status] * ALWAYS
    for _ in range(court.settings.max_attempts + 2):
        (held,) = court.score(court.run).held
        assert held.settlement is Settlement.REQUEUE
    assert not any(court.books.troubles(court.run.run_id, each) for each in IDS)
    court.serves_again()
    court.score(court.run)
    verdicts = [verdict for _, verdict in court.books.results(court.run.run_id) if verdict]
    assert [(each.rule, each.attempts) for each in verdicts] == [("judge", 1)] * 4


def test_while_a_judge_refuses_everybody_no_more_answers_are_generated_for_it(court: Court) -> None:
    court.script.refusals = [429] * ALWAYS
    for _ in range(5):
        court.score(court.run)
    assert len(court.model.calls) == 1


def test_a_judge_that_refuses_everybody_does_not_hold_up_other_runs(court: Court, no_pauses: list[float]) -> None:
    other = open_run(court.books, make_questions(4), "other")
    court.script.refusals = [429] * ALWAYS
    court.score(court.run)
    batch = court.score(court.run, other)
    assert court.books.counts(other.run_id).finished
    assert [each.settlement for each in batch.held] == [Settlement.REQUEUE, Settlement.ACKNOWLEDGE]
    court.score(court.run)
    assert [pause_s > 0 for pause_s in no_pauses[1:]] == [False, True], (
        "it would be redelivered at once, again and again"
    )


def test_what_a_judge_says_that_refuses_everybody_is_why_its_run_is_put_off(court: Court) -> None:
    court.script.refusals = [429] * ALWAYS
    court.score(court.run)
    said = f"its judge serves nobody for now: {court.script.url}/v1: Error code: 429 - "
    assert court.scorer.puts_off[court.run.run_id].startswith(said)
    court.serves_again()
    court.score(court.run)
    assert court.scorer.puts_off == {}


@pytest.mark.parametrize("has_answered", [True, False])
def test_a_judge_that_is_away_and_comes_costs_nothing_either(court: Court, has_answered: bool) -> None:
    if has_answered:
        court.score(court.run)
    court.script.hangs_up = True
    later = court.judged_run("later")
    for _ in range(court.settings.max_attempts + 1):
        court.score(later)
    assert court.books.counts(later.run_id).settled == 0
    assert "is judge.server correct" in court.scorer.puts_off[later.run_id]
    court.serves_again()
    court.score(later)
    assert court.books.counts(later.run_id).finished


def test_a_judge_that_reasons_too_long_for_a_small_request_serves_nevertheless() -> None:
    spent = "Could not finish the message because max_tokens or model output limit was reached."

    class Reasoning(Script):
        def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
            return (400, {"error": {"message": spent}}) if body["max_tokens"] == 1 else super().answer(path, body)

    with holding(Reasoning(text=GRADED, unwanted={"What is 0 plus": 403})) as court:
        court.score(court.run)
        assert court.books.counts(court.run.run_id).finished
        assert court.scorer.puts_off == {}


class WantsSixteen(Script):
    """As OpenAI's models through OpenRouter, for which a limit of one token is too small."""

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if body["max_tokens"] < 16 and not self.refusals:
            said = "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 1."
            return 400, {"error": {"message": said, "code": 400}}
        return super().answer(path, body)


@pytest.mark.parametrize("status", [400, 403, 429])
def test_a_judge_that_takes_no_small_request_serves_nevertheless(status: int) -> None:
    """Its runs were put off for ever once it had refused a single grading."""
    with holding(WantsSixteen(text=GRADED, unwanted={"What is 0 plus": status})) as court:
        court.score(court.run)
        assert court.books.counts(court.run.run_id).settled >= 3
        assert court.scorer.puts_off == {}


def test_a_judge_that_takes_no_small_request_is_noticed_when_it_serves_again() -> None:
    with holding(WantsSixteen(text=GRADED, refusals=[503] * ALWAYS)) as court:
        court.score(court.run)
        assert court.scorer.puts_off
        court.serves_again()
        court.score(court.run)
        assert court.books.counts(court.run.run_id).finished


@pytest.mark.parametrize("message", ["Budget has been exceeded! Current cost: {n}, Max budget: 3", "No connected db."])
def test_a_judge_that_calls_every_request_a_bad_one_puts_its_runs_off(message: str) -> None:
    class Spent(Script):
        def answer(self, _: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
            self.asked.append(body)
            return 400, {"error": {"message": message.format(n=len(self.asked)), "code": "400"}}

    with holding(Spent()) as court:
        court.score(court.run)
        assert court.scorer.puts_off
        assert court.books.counts(court.run.run_id).settled == 0


def test_an_answer_that_the_judge_alone_refuses_costs_its_question_an_attempt(court: Court) -> None:
    court.script.unwanted = {"What is 0 plus": 429}
    court.score(court.run)
    assert len(court.books.troubles(court.run.run_id, "q0")) == 1
    assert court.books.counts(court.run.run_id).settled == 3
    assert court.scorer.puts_off == {}


class Absent(ReadyEngine):
    """A judge that serves nobody."""

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        return [Completion(error=NotServed(type="NotServed", message="busy"))] * len(requests)


def test_the_questions_of_a_batch_that_no_judge_serves_are_taken_back_run_by_run_and_not_one_by_one(
    court: Court, monkeypatch: pytest.MonkeyPatch
) -> None:
    court.scorer = BatchScorer(court.context, court.model, lambda _: Absent(court.settings))
    taken_back: list[tuple[str, int]] = []
    monkeypatch.setattr(court.books, "uncount", lambda run_id, ids, _: taken_back.append((run_id, len(ids))))
    other = court.judged_run("other")
    batch = court.score(court.run, other)
    assert [each.settlement for each in batch.held] == [Settlement.REQUEUE] * 2
    assert taken_back == [(court.run.run_id, 4), (other.run_id, 4)]


def test_a_judge_is_asked_no_more_once_the_worker_ends(court: Court) -> None:
    court.script.refusals = [429] * ALWAYS
    court.score(court.run)
    court.judges.close()
    wait_until(lambda: "judge" not in [each.name for each in threading.enumerate()], "the end of the watch")
