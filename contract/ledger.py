"""The ledger: runs, question bodies, and the one verdict of each question. It is the truth; queues only carry ids.

`Ledger` is the agreement; `RedisLedger` keeps it in Redis (layout: `contract/keys.py`, atomic steps:
`contract/lua/`), `contract.memory.MemoryLedger` keeps the same one in memory.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from itertools import islice
from typing import NoReturn, TypeVar, cast

import redis
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from redis.backoff import ExponentialBackoff
from redis.commands.core import Script
from redis.retry import Retry

from contract import keys
from contract.errors import LedgerError, LedgerFull, RedisUnreachable, RunConflict, RunHalted, UnknownRun, nearest
from contract.priority import Priority
from contract.question import Body, Question
from contract.settings import Settings
from contract.spec import RunSpec, Stage
from contract.verdict import Outcome, Passage, Verdict

__all__ = [
    "Begun",
    "Committed",
    "Counts",
    "Ledger",
    "RedisLedger",
    "Run",
    "RunState",
    "chunks",
    "connect",
    "halted",
    "lua",
    "translating",
]

T = TypeVar("T")
#: Rows per round trip where many are read or written: a few hundred kilobytes at a time.
CHUNK = 500
_REASONS: TypeAdapter[list[str]] = TypeAdapter(list[str])
_PASSAGES: TypeAdapter[tuple[Passage, ...]] = TypeAdapter(tuple[Passage, ...])


class Run(BaseModel):
    """One RunSpec applied to one set of questions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    spec: RunSpec
    #: Where the questions came from, as the person named it.
    source: str
    questions: int = Field(ge=1)
    #: Mean over the questions of one in so many choices: what guessing scores.
    chance: float
    created_at: float
    #: At which its questions were first sent, and at which lost ones are sent again.
    priority: Priority = Priority.NORMAL


class RunState(StrEnum):
    """Whether a run's questions are begun. In any state, what was begun before is settled."""

    RUNNING = "running"
    #: Nothing is begun until somebody resumes it.
    PAUSED = "paused"
    #: The same, and nobody waits for it.
    CANCELLED = "cancelled"


class Counts(BaseModel):
    """How far a run is. `settled` is the sum of the outcomes."""

    model_config = ConfigDict(frozen=True)

    total: int
    todo: int
    outcomes: dict[Outcome, int] = Field(default_factory=dict)
    state: RunState = RunState.RUNNING

    def of(self, outcome: Outcome) -> int:
        """Questions that ended as `outcome`."""
        return self.outcomes.get(outcome, 0)

    @property
    def settled(self) -> int:
        """Questions with a verdict."""
        return sum(self.outcomes.values())

    @property
    def written(self) -> bool:
        """Whether the producer has written every question of the run."""
        return self.settled + self.todo >= self.total

    @property
    def finished(self) -> bool:
        """Whether every question of the run has its verdict."""
        return self.settled >= self.total and self.todo == 0

    @property
    def halted(self) -> bool:
        """Whether the run is paused or cancelled with questions left."""
        return self.state is not RunState.RUNNING and not self.finished

    @property
    def standing(self) -> str:
        """How the run stands, in one word: `settled`, or its state."""
        return "settled" if self.finished else self.state.value

    @property
    def over(self) -> bool:
        """Whether there is nothing to wait for: finished, or cancelled."""
        return self.finished or self.state is RunState.CANCELLED


@dataclass(frozen=True, slots=True)
class Begun:
    """An unsettled question handed to a worker, with the number of times it was begun.

    `counted` says whether this handing-out is one of them; a suspect is handed out without, to be begun alone.
    """

    question: Question
    attempts: int
    counted: bool


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit changed: verdicts that were the first for their question, and questions still unsettled."""

    new: int
    left: int


class Ledger(abc.ABC):
    """What both sides may ask of the ledger. Unknown runs raise UnknownRun unless the method says otherwise."""

    @abc.abstractmethod
    def open_run(self, run: Run) -> bool:
        """Write `run`, and say whether it is new. Raises RunConflict if the id belongs to another spec."""

    def add_questions(self, run_id: str, questions: Iterable[Question]) -> int:
        """Write the bodies of `questions`, each once, and return how many were new."""
        return self.add_bodies(run_id, (question.body() for question in questions))

    @abc.abstractmethod
    def add_bodies(self, run_id: str, bodies: Iterable[Body]) -> int:
        """Write question bodies, each once, and return how many were new."""

    @abc.abstractmethod
    def run(self, run_id: str) -> Run:
        """The run of that id."""

    @abc.abstractmethod
    def runs(self) -> list[Run]:
        """All runs, newest first."""

    @abc.abstractmethod
    def open_runs(self) -> list[str]:
        """Ids of the runs that have unsettled questions and are neither paused nor cancelled."""

    @abc.abstractmethod
    def counts(self, run_id: str) -> Counts:
        """How far the run is."""

    @abc.abstractmethod
    def unsettled(self, run_id: str) -> Iterator[str]:
        """Ids without a verdict, in input order."""

    @abc.abstractmethod
    def begin(
        self, run_id: str, question_ids: Sequence[str], suspect_from: int = 0, stage: Stage = Stage.SCORE
    ) -> list[Begun]:
        """Those of `question_ids` that are unsettled, each counted as begun once more in this stage.

        A question begun `suspect_from` times already (0: no limit) comes back uncounted, so that the caller can begin
        it alone: it may be what its earlier company died of.

        Raises RunHalted for a paused or cancelled run, having put aside the unsettled ones: drop their message.
        """

    @abc.abstractmethod
    def note_trouble(self, run_id: str, question_ids: Sequence[str], reason: str) -> list[int]:
        """Keep why an attempt at each of `question_ids` failed, until it is settled; return how many reasons each has.

        0 for a question that is settled already.
        """

    @abc.abstractmethod
    def troubles(self, run_id: str, question_id: str) -> list[str]:
        """Why earlier attempts at an unsettled question failed, as far as anybody lived to say."""

    @abc.abstractmethod
    def attach(self, run_id: str, passages: Mapping[str, Sequence[Passage]]) -> None:
        """Keep what was retrieved, by question id, until the question is settled."""

    @abc.abstractmethod
    def passages(self, run_id: str, question_ids: Sequence[str]) -> dict[str, tuple[Passage, ...]]:
        """What was attached, by question id; a question that nothing was retrieved for yet is not in it."""

    @abc.abstractmethod
    def commit(self, run_id: str, verdicts: Sequence[Verdict]) -> Committed:
        """Settle questions in one atomic step; a verdict that came second changes nothing."""

    @abc.abstractmethod
    def results(self, run_id: str) -> Iterator[tuple[Question, Verdict | None]]:
        """Every question of the run in input order, with its verdict if it has one."""

    @abc.abstractmethod
    def result(self, run_id: str, question_id: str) -> tuple[Question, Verdict | None]:
        """One question with its verdict if it has one. Raises UnknownRun if the run lacks it."""

    @abc.abstractmethod
    def halt(self, run_id: str, state: RunState) -> RunState:
        """Pause or cancel the run and return what it was; a cancelled run stays cancelled."""

    @abc.abstractmethod
    def resume(self, run_id: str) -> RunState:
        """Let the run go on and return what it was. What is in no message for that is left to `take_aside`."""

    @abc.abstractmethod
    def take_aside(self, run_id: str) -> Iterator[str]:
        """Unsettled ids that were put aside, in input order, each given out once: send them."""

    @abc.abstractmethod
    def reopen_failed(self, run_id: str) -> int:
        """Take failed verdicts back and return how many; their questions are as if never begun. Raises RunHalted."""

    @abc.abstractmethod
    def purge(self, run_id: str) -> None:
        """Forget the run; messages of it that are still under way will be dropped."""


def halted(run_id: str, state: str) -> RunHalted:
    """What is raised where a run in `state` is asked to go on."""
    return RunHalted(
        f"Run {run_id} is {state}.", state=state, hint=f"Let it go on with: python -m producer resume {run_id}"
    )


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """`items` in lists of `size`, the last one shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def connect(settings: Settings) -> redis.Redis:
    """A Redis client that has been answered once. Raises RedisUnreachable."""
    client = redis.Redis.from_url(
        settings.redis_url.get_secret_value(),
        decode_responses=True,
        encoding_errors="replace",  # what we write is UTF-8; what somebody else put there must not end who reads
        socket_connect_timeout=5,
        socket_keepalive=True,
        health_check_interval=10,
        retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), retries=3),
    )
    try:
        with translating(settings.redis_place):
            client.ping()
    except LedgerError:
        client.close()
        raise
    return client


def lua(client: redis.Redis, name: str) -> Script:
    """The atomic step in `contract/lua/<name>.lua`."""
    text = resources.files("contract").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
    return client.register_script(text)


@contextmanager
def translating(place: str) -> Iterator[None]:
    """Raise redis-py's errors as ours."""
    try:
        yield
    except redis.AuthenticationError as trouble:
        raise LedgerError(
            f"Redis at {place} refuses the credentials: {trouble}.", hint="Check MCQUEUE_REDIS_URL."
        ) from None
    except (redis.ConnectionError, redis.TimeoutError, OSError) as trouble:
        hint = "Start one, or name another with --redis or MCQUEUE_REDIS_URL."
        raise RedisUnreachable(f"No Redis answers at {place} ({trouble}).", hint=hint) from None
    except redis.OutOfMemoryError as trouble:
        raise LedgerFull(f"Redis at {place} is full: {trouble}.") from None
    except redis.RedisError as trouble:
        raise LedgerError(f"Redis at {place} refuses: {trouble}.") from None


class RedisLedger(Ledger):
    """The ledger in Redis."""

    def __init__(self, client: redis.Redis, place: str = "redis") -> None:
        self._redis = client
        self._place = place
        self._add = lua(self._redis, "add")
        self._begin = lua(self._redis, "begin")
        self._trouble = lua(self._redis, "trouble")
        self._attach = lua(self._redis, "attach")
        self._commit = lua(self._redis, "commit")
        self._halt = lua(self._redis, "halt")
        self._resume = lua(self._redis, "resume")
        self._reopen = lua(self._redis, "reopen")

    @classmethod
    def connect(cls, settings: Settings) -> RedisLedger:
        """A ledger on the Redis that `settings` name. Raises RedisUnreachable."""
        return cls(connect(settings), settings.redis_place)

    @property
    def place(self) -> str:
        """Where it is kept, fit for a message."""
        return self._place

    @property
    def client(self) -> redis.Redis:
        """The connection, for the other books that live beside the ledger (`contract.fleet`, `contract.queue`)."""
        return self._redis

    def open_run(self, run: Run) -> bool:
        with translating(self._place):
            new = bool(self._redis.set(keys.run_keys(run.run_id).meta, run.model_dump_json(), nx=True))
            if not new and (there := self.run(run.run_id)).spec != run.spec:
                raise RunConflict(
                    f"Run {run.run_id} exists with another spec (fingerprint {there.spec.fingerprint()[:8]}).",
                    hint="Choose another --run name, or purge it.",
                )
            self._redis.zadd(keys.runs(), {run.run_id: run.created_at}, nx=True)
            return new

    def add_bodies(self, run_id: str, bodies: Iterable[Body]) -> int:
        names = keys.run_keys(run_id)
        books = [names.meta, names.questions, names.order, names.todo, keys.open_runs(), names.state]
        new = 0
        with translating(self._place):
            for chunk in chunks(bodies, CHUNK):
                arguments: list[str | bytes] = [run_id]
                for question_id, canonical in chunk:
                    arguments += (question_id, canonical)
                found = self._add(books, arguments)
                if found is None:
                    self._unknown(run_id)
                new += int(found)
        return new

    def run(self, run_id: str) -> Run:
        with translating(self._place):
            found = self._redis.get(keys.run_keys(run_id).meta)
            if found is None:
                self._unknown(run_id)
        return Run.model_validate_json(cast(str, found))

    def runs(self) -> list[Run]:
        with translating(self._place):
            ids = cast("list[str]", self._redis.zrevrange(keys.runs(), 0, -1))
            found = self._redis.mget([keys.run_keys(each).meta for each in ids]) if ids else []
        return [Run.model_validate_json(each) for each in cast("list[str | None]", found) if each is not None]

    def open_runs(self) -> list[str]:
        with translating(self._place):
            return sorted(cast("set[str]", self._redis.smembers(keys.open_runs())))

    def counts(self, run_id: str) -> Counts:
        names = keys.run_keys(run_id)
        total = self.run(run_id).questions
        with translating(self._place):
            pipeline = self._redis.pipeline(transaction=True)
            pipeline.scard(names.todo)
            pipeline.hgetall(names.counts)
            pipeline.get(names.state)
            todo, outcomes, state = pipeline.execute()
        by_outcome = {Outcome(name): int(n) for name, n in outcomes.items() if int(n)}
        return Counts(total=total, todo=todo, outcomes=by_outcome, state=_state(state))

    def unsettled(self, run_id: str) -> Iterator[str]:
        names = keys.run_keys(run_id)
        for ids in self._ids(run_id):
            with translating(self._place):
                open_here = cast("list[int]", self._redis.smismember(names.todo, ids))
            yield from (each for each, is_open in zip(ids, open_here, strict=True) if is_open)

    def begin(
        self, run_id: str, question_ids: Sequence[str], suspect_from: int = 0, stage: Stage = Stage.SCORE
    ) -> list[Begun]:
        names = keys.run_keys(run_id)
        attempts = names.attempts if stage is Stage.SCORE else names.lookups
        with translating(self._place):
            books = [names.meta, names.questions, names.todo, attempts, names.state, names.aside]
            found = self._begin(books, [suspect_from, *question_ids])
            if found is None:
                self._unknown(run_id)
        if isinstance(found, str):
            raise halted(run_id, found)
        return [
            Begun(Question.model_validate_json(body), int(attempts), counted=bool(int(counted)))
            for body, attempts, counted in zip(found[0::3], found[1::3], found[2::3], strict=True)
        ]

    def note_trouble(self, run_id: str, question_ids: Sequence[str], reason: str) -> list[int]:
        names = keys.run_keys(run_id)
        with translating(self._place):
            found = self._trouble([names.meta, names.todo, names.troubles], [reason, *question_ids])
            if found is None:
                self._unknown(run_id)
        return [int(each) for each in found]

    def troubles(self, run_id: str, question_id: str) -> list[str]:
        with translating(self._place):
            found = cast("str | None", self._redis.hget(keys.run_keys(run_id).troubles, question_id))
        return _REASONS.validate_json(found) if found else []

    def attach(self, run_id: str, passages: Mapping[str, Sequence[Passage]]) -> None:
        names = keys.run_keys(run_id)
        arguments: list[str] = []
        for question_id, found in passages.items():
            arguments += (question_id, _PASSAGES.dump_json(tuple(found), exclude_defaults=True).decode())
        with translating(self._place):
            if self._attach([names.meta, names.todo, names.passages, names.lookups], arguments) is None:
                self._unknown(run_id)

    def passages(self, run_id: str, question_ids: Sequence[str]) -> dict[str, tuple[Passage, ...]]:
        if not question_ids:
            return {}
        with translating(self._place):
            found = cast("list[str | None]", self._redis.hmget(keys.run_keys(run_id).passages, list(question_ids)))
        there = zip(question_ids, found, strict=True)
        return {each: _PASSAGES.validate_json(body) for each, body in there if body is not None}

    def commit(self, run_id: str, verdicts: Sequence[Verdict]) -> Committed:
        names = keys.run_keys(run_id)
        arguments: list[str] = [run_id]
        for verdict in verdicts:
            arguments += (verdict.question_id, verdict.model_dump_json(exclude_defaults=True), verdict.outcome.value)
        books = [
            names.meta,
            names.verdicts,
            names.todo,
            names.counts,
            names.attempts,
            keys.open_runs(),
            names.passages,
            names.lookups,
            names.troubles,
        ]
        with translating(self._place):
            found = self._commit(books, arguments)
            if found is None:
                self._unknown(run_id)
        return Committed(new=int(found[0]), left=int(found[1]))

    def results(self, run_id: str) -> Iterator[tuple[Question, Verdict | None]]:
        names = keys.run_keys(run_id)
        for ids in self._ids(run_id):
            with translating(self._place):
                pipeline = self._redis.pipeline(transaction=False)
                pipeline.hmget(names.questions, ids)
                pipeline.hmget(names.verdicts, ids)
                bodies, verdicts = pipeline.execute()
            for body, verdict in zip(bodies, verdicts, strict=True):
                yield Question.model_validate_json(body), _verdict(verdict)

    def result(self, run_id: str, question_id: str) -> tuple[Question, Verdict | None]:
        names = keys.run_keys(run_id)
        self.run(run_id)
        with translating(self._place):
            body = self._redis.hget(names.questions, question_id)
            verdict = self._redis.hget(names.verdicts, question_id)
        if body is None:
            raise UnknownRun(f"Run {run_id} has no question {question_id!r}.", hint="The ids stand in its results.csv.")
        return Question.model_validate_json(cast(str, body)), _verdict(cast("str | None", verdict))

    def halt(self, run_id: str, state: RunState) -> RunState:
        names = keys.run_keys(run_id)
        with translating(self._place):
            found = self._halt([names.meta, names.state, keys.open_runs()], [run_id, state.value])
            if found is None:
                self._unknown(run_id)
        return _state(found)

    def resume(self, run_id: str) -> RunState:
        names = keys.run_keys(run_id)
        with translating(self._place):
            found = self._resume([names.meta, names.state, names.todo, keys.open_runs()], [run_id])
            if found is None:
                self._unknown(run_id)
        return _state(found)

    def take_aside(self, run_id: str) -> Iterator[str]:
        names = keys.run_keys(run_id)
        for ids in self._ids(run_id):
            with translating(self._place):
                pipeline = self._redis.pipeline(transaction=True)
                pipeline.smismember(names.aside, ids)
                pipeline.smismember(names.todo, ids)
                pipeline.srem(names.aside, *ids)
                aside, unsettled, _ = pipeline.execute()
            yield from (each for each, *both in zip(ids, aside, unsettled, strict=True) if all(both))

    def reopen_failed(self, run_id: str) -> int:
        names = keys.run_keys(run_id)
        books = [
            names.meta,
            names.state,
            names.verdicts,
            names.todo,
            names.counts,
            names.attempts,
            keys.open_runs(),
        ]
        reopened = 0
        for ids in self._ids(run_id):
            with translating(self._place):
                bodies = cast("list[str | None]", self._redis.hmget(names.verdicts, ids))
                arguments = [run_id]
                for each, body in zip(ids, bodies, strict=True):
                    if body and Verdict.model_validate_json(body).outcome is Outcome.FAILED:
                        arguments += (each, body)
                found = self._reopen(books, arguments) if len(arguments) > 1 else 0
                if found is None:
                    self._unknown(run_id)
            if isinstance(found, str):
                raise halted(run_id, found)
            reopened += int(found)
        return reopened

    def purge(self, run_id: str) -> None:
        self.run(run_id)
        with translating(self._place):
            pipeline = self._redis.pipeline(transaction=True)
            pipeline.delete(*keys.run_keys(run_id).all())
            pipeline.zrem(keys.runs(), run_id)
            pipeline.srem(keys.open_runs(), run_id)
            pipeline.hdel(keys.weights(), run_id)
            pipeline.execute()

    def _ids(self, run_id: str) -> Iterator[list[str]]:
        self.run(run_id)
        order = keys.run_keys(run_id).order
        start = 0
        while True:
            with translating(self._place):
                ids = cast("list[str]", self._redis.lrange(order, start, start + CHUNK - 1))
            if not ids:
                return
            yield ids
            start += len(ids)

    def _unknown(self, run_id: str) -> NoReturn:
        known = cast("list[str]", self._redis.zrevrange(keys.runs(), 0, 99))
        hint = nearest(run_id, known) or "`python -m producer runs` lists them."
        raise UnknownRun(f"No run {run_id!r} in the ledger at {self._place}.", hint=hint)


def _state(word: str | None) -> RunState:
    return RunState(word) if word else RunState.RUNNING


def _verdict(body: str | None) -> Verdict | None:
    return None if body is None else Verdict.model_validate_json(body)
