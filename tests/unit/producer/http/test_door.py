"""What the HTTP door does with runs that nobody waits for any more, on a ledger and a broker in memory."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest

from benchmarks.stand import set_words
from contract.errors import (
    DeadlineMissed,
    InputError,
    LedgerError,
    NoWorker,
    RedisUnreachable,
    RunConfigError,
    SettingsError,
    TooBusy,
)
from contract.fleet import WorkerRecord
from contract.ledger import MemoryLedger, Run, RunState
from contract.mode import Normalization
from contract.names import request_id
from contract.priority import Priority
from contract.question import Question
from contract.settings import Settings
from contract.spec import ExampleSelection
from contract.verdict import ContextSource, Outcome, Passage, Verdict
from producer.broker import MemoryBroker
from producer.http import door, purging
from producer.http.bodies import ScoreOptions, ScoreOut
from producer.http.door import SOURCE, Door
from producer.http.purging import ABANDONED_AFTER_S
from producer.http.stopping import Server
from producer.runs.parts import FewShotConfig, RagConfig
from producer.runs.runconfig import RunConfig
from tests.support import PATIENCE_S, build_test_index, make_question, make_questions, open_run
from tests.unit.producer.conftest import Producer, WriteRows, live_worker

CONFIG = RunConfig(model="small")


class Away(MemoryLedger):
    """A ledger that forgets nothing while it is away."""

    def __init__(self) -> None:
        super().__init__()
        self.away = threading.Event()
        self.refused = threading.Event()

    def purge(self, *run_ids: str) -> None:
        if self.away.is_set():
            self.refused.set()
            raise RedisUnreachable("No Redis answers.")
        super().purge(*run_ids)


class Slow(MemoryBroker):
    """A broker with one worker, that sends nothing until it may."""

    def __init__(self, ledger: MemoryLedger) -> None:
        super().__init__(ledger, live=[live_worker("score.small", "gpu0")])
        self.sending, self.may_send = threading.Event(), threading.Event()

    def publish(self, run: Run, question_ids: Iterable[str], priority: Priority) -> int:
        self.sending.set()
        assert self.may_send.wait(PATIENCE_S)
        return super().publish(run, question_ids, priority)


@pytest.fixture
def ledger() -> Away:
    return Away()


@pytest.fixture
def broker(ledger: Away) -> Slow:
    return Slow(ledger)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.005)


def at(ledger: Away, broker: Slow, act: Callable[[Door], Awaitable[None]], base: RunConfig = CONFIG) -> None:
    """Do `act` at an open door."""

    async def through() -> None:
        opened = Door(Settings(), ledger, broker, base)
        async with opened.open():
            await act(opened)

    asyncio.run(through())


def test_a_question_without_examples_of_its_subject_is_refused_where_the_configuration_wants_them(
    ledger: Away, broker: Slow, write_rows: WriteRows
) -> None:
    shown = {"question": "Whose?", "choices": ["ours", "theirs"], "answer": "A", "subject": "law"}
    few_shot = FewShotConfig(k=1, file=str(write_rows(shown)), selection=ExampleSelection.SUBJECT)
    config = RunConfig(model="small", few_shot=few_shot)
    broker.may_send.set()

    async def act(opened: Door) -> None:
        with pytest.raises(RunConfigError, match="fewer than 1 example of the same subject"):
            await opened.ask([make_question(1, subject=None)], config, deadline_s=PATIENCE_S)
        with pytest.raises(DeadlineMissed):  # nobody answers here
            await opened.ask([make_question(1, subject="law")], config, deadline_s=1.5)
        assert [ids for _, _, ids in broker.messages] == [["q1"]]

    at(ledger, broker, act)


def test_a_door_asks_by_its_files_as_they_were_when_it_opened(
    ledger: Away, broker: Slow, tmp_path: Path, write_rows: WriteRows
) -> None:
    shown = {"question": "Whose?", "choices": ["ours", "theirs"], "answer": "A"}
    (template := tmp_path / "own.j2").write_text("First: {{ question }}")
    few_shot = FewShotConfig(k=1, file=str(write_rows(shown)))
    base = RunConfig(model="small", prompt=str(template), few_shot=few_shot)
    broker.may_send.set()

    async def act(opened: Door) -> None:
        template.write_text("Second: {{ question }}")
        write_rows({**shown, "question": "Whose now?"})
        asked = [
            opened.ask(make_questions(1), each, deadline_s=PATIENCE_S) for each in (base, ScoreOptions().over(base))
        ]
        asking = [asyncio.ensure_future(each) for each in asked]
        await until(lambda: len(ledger.runs()) == len(asking))
        for run in ledger.runs():
            assert run.spec.prompt.text == "First: {{ question }}"
            assert run.spec.few_shot is not None
            assert [each.question for each in run.spec.few_shot.pool] == ["Whose?"]
        for each in asking:
            each.cancel()
        await asyncio.wait(asking)

    at(ledger, broker, act, base)


def test_more_questions_than_may_ever_wait_are_refused_for_good(ledger: Away, broker: Slow) -> None:
    """It was told to try again later, which could never succeed."""

    async def act(opened: Door) -> None:
        with pytest.raises(
            InputError, match=r"4,097 questions; at most 4,096 may wait at a time \(http\.max_waiting\)"
        ):
            await opened.ask(make_questions(4097), CONFIG, deadline_s=PATIENCE_S)

    at(ledger, broker, act)


def test_no_more_questions_wait_than_may_until_others_are_no_longer_waited_for(ledger: Away, broker: Slow) -> None:
    broker.may_send.set()

    async def act(opened: Door) -> None:
        waiting = asyncio.ensure_future(opened.ask(make_questions(4095), CONFIG, deadline_s=PATIENCE_S))
        await until(lambda: opened.waiting == 4095)
        with pytest.raises(TooBusy, match=r"4,095 questions waiting already; the limit is 4,096\."):
            await opened.ask(make_questions(2), CONFIG, deadline_s=PATIENCE_S)
        waiting.cancel()
        await asyncio.wait([waiting])
        with pytest.raises(DeadlineMissed):
            await opened.ask(make_questions(2), CONFIG, deadline_s=0.001)
        assert opened.waiting == 0

    at(ledger, broker, act)


def test_an_answer_names_the_passages_that_were_retrieved_for_it_and_those_that_were_shown() -> None:
    """Nobody could find out: the run of a request is deleted once it is answered."""
    question = Question(id="q", question="Which?", choices=("a", "b"), answer="A")
    passages = (
        Passage(id="iron#2", score=2.5, text="Iron.", document="iron", path="metals.md"),
        Passage(id="tin", score=float("inf"), text="Tin.", rank=2, shown=False),
    )
    retrieved = Verdict(
        question_id="q",
        outcome=Outcome.CORRECT,
        choice="A",
        context_source=ContextSource.RETRIEVED,
        passages=passages,
    )
    alone = Verdict(question_id="q", outcome=Outcome.CORRECT, choice="A")

    said, said_alone = (ScoreOut.of(question, each, "m", []).model_dump(mode="json") for each in (retrieved, alone))

    assert said["context_source"] == "retrieved"
    assert said["passages"] == [
        {"id": "iron#2", "rank": 1, "score": 2.5, "shown": True, "document": "iron", "path": "metals.md"},
        {"id": "tin", "rank": 2, "score": None, "shown": False, "document": "", "path": ""},
    ]
    assert (said_alone["context_source"], said_alone["passages"]) == ("none", [])


def test_a_request_with_a_normalization_of_its_own_leaves_the_prompt_that_belongs_to_the_servers() -> None:
    base = RunConfig(normalization=Normalization.MUTUAL_INFO, unconditional_prompt="Answer:", seed=3)
    assert ScoreOptions(normalization=Normalization.BYTE).over(base) == RunConfig(
        normalization=Normalization.BYTE, seed=3
    )
    assert ScoreOptions(normalization=Normalization.MUTUAL_INFO).over(base) == base


def test_what_no_question_could_be_asked_by_is_refused_before_the_door_opens(
    producer: Producer, write_rows: WriteRows
) -> None:
    alone = write_rows({"question": "Whose?", "choices": ["ours", "theirs"], "answer": "A"})
    for overrides, says in (
        (("few_shot.k=1", "few_shot.file=gone.jsonl"), "gone.jsonl"),
        (("few_shot.k=2", f"few_shot.file={alone}"), "a pool of 1 is too small for 2 examples"),
        (("mode=free",), "mode: free is for prompts, sent to /generate"),
        (("prompt=gone.j2",), "gone.j2: no such prompt template"),
        (("rag.enabled=true", "rag.index=gone"), "gone"),
    ):
        words = set_words(overrides)
        assert says in producer("serve", *words, exit_code=1).stderr


def test_a_server_waits_for_its_requests_also_if_none_may_last_a_second(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for none: the first Ctrl-C answered them all with 503."""
    waits_s: list[int | None] = []
    monkeypatch.setattr(Server, "run", lambda server: waits_s.append(server.config.timeout_graceful_shutdown))
    monkeypatch.setenv("MCQUEUE_HTTP__MAX_DEADLINE_S", "0.5")
    producer("serve", "--set", "model=small")
    assert waits_s == [1]


def test_a_request_for_a_model_that_nobody_serves_names_those_that_are_served(ledger: Away, broker: Slow) -> None:
    async def act(opened: Door) -> None:
        with pytest.raises(NoWorker) as refused:
            await opened.ask(make_questions(1), RunConfig(model="smal"), deadline_s=PATIENCE_S)
        assert str(refused.value) == (
            "No worker serves 'smal'. Start one: python -m workers up with a deploy file that serves smal (live workers"
            " serve small; to ask theirs, name it as model in the request, or serve with --set model=NAME)"
        )
        assert ledger.runs() == []

    at(ledger, broker, act)


def test_a_request_that_names_none_of_several_models_is_told_how_a_request_names_one(
    ledger: Away, broker: Slow
) -> None:
    """It was told to use `--set`, or an environment variable."""
    settings = Settings.model_validate({"models": [{"model": "small"}, {"model": "large"}]})

    async def act() -> None:
        with pytest.raises(SettingsError) as refused:
            await Door(settings, ledger, broker, CONFIG).ask(make_questions(1), RunConfig(), deadline_s=PATIENCE_S)
        assert str(refused.value) == (
            "The settings have several models: small, large. For one of them, name it as model in the request, or serve"
            " with --set model=NAME."
        )

    asyncio.run(act())


def test_a_request_for_a_model_whose_worker_is_starting_is_told_to_come_again(ledger: Away, broker: Slow) -> None:
    broker.live.clear()
    broker.announced = ["gpu0@here"]

    async def act(opened: Door) -> None:
        with pytest.raises(NoWorker) as refused:
            await opened.ask(make_questions(1), RunConfig(model="small"), deadline_s=PATIENCE_S)
        assert str(refused.value) == "No worker serves 'small' yet. Try again: 1 worker is starting: gpu0@here."

    at(ledger, broker, act)


def test_whatever_models_requests_name_the_workers_are_read_at_most_once_a_second(
    ledger: Away, broker: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "WORKERS_FOR_S", PATIENCE_S)  # all requests are within the same second
    looks: list[list[WorkerRecord]] = []

    def look() -> list[WorkerRecord]:
        looks.append(broker.live)
        return broker.live

    monkeypatch.setattr(broker, "all_workers", look)

    async def act(opened: Door) -> None:
        for i in range(10):
            with pytest.raises(NoWorker):
                await opened.ask(make_questions(1), RunConfig(model=f"m{i}"), deadline_s=PATIENCE_S)
        assert len(looks) == 1

    at(ledger, broker, act)


def cancelled(ledger: Away, run_id: str) -> None:
    ledger.halt(run_id, RunState.CANCELLED)


def purged(ledger: Away, run_id: str) -> None:
    ledger.purge(run_id)


@pytest.mark.parametrize("end", [cancelled, purged])
def test_who_waits_for_a_request_that_a_user_ends_is_told_to_send_it_again(
    end: Callable[[Away, str], None], ledger: Away, broker: Slow
) -> None:
    """Of one that was purged, it was told how to list runs in a terminal."""
    broker.may_send.set()

    async def act(opened: Door) -> None:
        asking = asyncio.ensure_future(opened.ask(make_questions(2), CONFIG, deadline_s=PATIENCE_S))
        await until(lambda: len(broker.messages) == 1)
        (run_id,) = ledger.run_ids()
        end(ledger, run_id)
        with pytest.raises(LedgerError) as refused:
            await asking
        told = f"{run_id} was cancelled or deleted before it was answered. Send the request again."
        assert str(refused.value) == told

    at(ledger, broker, act)


@pytest.mark.parametrize(("served", "missing"), [("score.small", "'facts'"), ("retrieve.facts", "'small'")])
def test_with_retrieval_neither_the_index_nor_the_model_may_lack_a_worker(
    served: str, missing: str, ledger: Away, broker: Slow, tmp_path: Path
) -> None:
    index = build_test_index(tmp_path / "facts", ["A fact."])
    base = RunConfig(model="small", rag=RagConfig(enabled=True, index=str(index)))
    broker.live[:] = [live_worker(served, "gpu0")]

    async def act(opened: Door) -> None:
        with pytest.raises(NoWorker, match=f"No worker serves {missing}."):
            await opened.ask(make_questions(1), base, deadline_s=PATIENCE_S)

    at(ledger, broker, act, base)


async def miss_the_deadline(opened: Door, ledger: Away) -> None:
    """While Redis is away, which refuses to forget the run."""
    ledger.away.set()
    with pytest.raises(DeadlineMissed):
        await opened.ask(make_questions(1), CONFIG, deadline_s=1.5)
    await until(ledger.refused.is_set)


async def late(opened: Door) -> str:
    """What is said at the deadline of a question that nobody answers."""
    with pytest.raises(DeadlineMissed) as missed:
        await opened.ask(make_questions(1), CONFIG, deadline_s=1.5)
    return str(missed.value)


def test_a_missed_deadline_is_told_with_what_the_worker_waits_for(
    ledger: Away, broker: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More time and more workers were suggested whatever was the matter."""
    monkeypatch.setattr(door, "WORKERS_FOR_S", 0.0)
    broker.may_send.set()

    async def act(opened: Door) -> None:
        said = "No verdict after 1.5 s. "
        assert await late(opened) == f"{said}Raise deadline_s, or start more workers."
        asked = live_worker("score.small", "gpu0")
        broker.live[:] = [live_worker("score.other", "gpu0", waits_for="another server")]
        broker.live.append(asked.model_copy(update={"waits_for": "its server"}))
        assert await late(opened) == f"{said}gpu0 waits for its server"
        putting_off = asyncio.ensure_future(late(opened))
        await until(lambda: len(broker.messages) == 3)
        broker.live[:] = [asked.model_copy(update={"puts_off": {ledger.run_ids()[0]: "its judge is away"}})]
        assert await putting_off == f"{said}gpu0: its judge is away"
        left_alone = asyncio.ensure_future(late(opened))
        await until(lambda: len(broker.messages) == 4)
        broker.live.clear()
        assert await left_alone == f"{said}No worker serves 'small'. Start one: python -m workers up"

    at(ledger, broker, act)


def test_a_deadline_that_is_missed_because_redis_is_silent_or_away_is_told_so(
    ledger: Away, broker: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "WORKERS_FOR_S", 0.0)
    monkeypatch.setattr(door, "WHY_FOR_S", 0.1)
    silent, away = threading.Event(), RedisUnreachable("No Redis answers.", hint="Start one.")

    def refused() -> list[WorkerRecord]:
        raise away

    def looked_for() -> list[WorkerRecord]:
        silent.wait(PATIENCE_S)
        return []

    async def act(opened: Door) -> None:
        for look, told in ((looked_for, "Redis does not answer."), (refused, str(away))):
            broker.sending.clear()
            broker.may_send.clear()
            with monkeypatch.context() as patch:
                asking = asyncio.ensure_future(late(opened))
                await until(broker.sending.is_set)
                patch.setattr(broker, "all_workers", look)
                assert await asking == f"No verdict after 1.5 s. {told}"
            broker.may_send.set()
        silent.set()

    at(ledger, broker, act)


def test_a_run_whose_deadline_comes_while_redis_is_away_is_forgotten_once_it_is_back(
    ledger: Away, broker: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "AGAIN_S", 0.01)
    broker.may_send.set()

    async def act(opened: Door) -> None:
        await miss_the_deadline(opened, ledger)
        assert len(ledger.runs()) == 1
        ledger.away.clear()
        await until(lambda: ledger.runs() == [])

    at(ledger, broker, act)


def test_a_caller_who_leaves_after_the_deadline_leaves_no_run_behind_that_is_still_being_sent(
    ledger: Away, broker: Slow
) -> None:
    async def act(opened: Door) -> None:
        asking = asyncio.ensure_future(opened.ask(make_questions(1), CONFIG, deadline_s=60))
        await until(broker.sending.is_set)
        for _ in range(2):
            asking.cancel()
            await asyncio.sleep(0)
        broker.may_send.set()
        await asyncio.wait([asking])
        await until(lambda: len(broker.messages) == 1)
        await until(lambda: ledger.runs() == [])

    at(ledger, broker, act)


def test_a_run_that_is_still_kept_when_the_door_closes_is_forgotten_then(
    ledger: Away, broker: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "AGAIN_S", 3600)
    broker.may_send.set()

    async def act(opened: Door) -> None:
        await miss_the_deadline(opened, ledger)
        ledger.away.clear()

    at(ledger, broker, act)
    assert ledger.runs() == []


def test_a_run_that_is_still_being_sent_when_the_door_closes_is_forgotten_then(ledger: Away, broker: Slow) -> None:
    async def act(opened: Door) -> None:
        asking = asyncio.ensure_future(opened.ask(make_questions(1), CONFIG, deadline_s=60))
        await until(broker.sending.is_set)
        asking.cancel()
        await asyncio.wait([asking])
        asyncio.get_running_loop().call_later(0.05, broker.may_send.set)

    at(ledger, broker, act)
    assert len(broker.messages) == 1
    assert ledger.runs() == []


def test_what_another_door_leaves_behind_is_found_by_one_that_is_open_already(
    ledger: Away, broker: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "SWEEP_EVERY_S", 0.01)
    ours = open_run(MemoryLedger(), make_questions(1))
    young, old = request_id(), request_id()
    old_s = ABANDONED_AFTER_S + 60

    async def act(_: Door) -> None:
        for run_id, age_s in ((old, old_s), (ours.run_id, old_s), (young, 60)):  # ours asks a file called "http"
            left = {"run_id": run_id, "source": SOURCE, "created_at": time.time() - age_s}
            ledger.open_run(ours.model_copy(update=left))
        await until(lambda: ledger.run_ids() == [young, ours.run_id])

    at(ledger, broker, act)
