"""The ledger in Redis. Keys are defined in `contract/keys.py`, atomic steps in `contract/lua/`."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NoReturn, cast

import redis
from pydantic import TypeAdapter, ValidationError

from contract import keys
from contract.chunks import TOGETHER, chunks
from contract.connection import connect, lua, place_of, translating
from contract.engine_info import EngineUsed
from contract.errors import LedgerError, RunConflict, UnreadableRun
from contract.explain import first_mistake
from contract.ledger.base import Begun, Ledger, new_call, unknown
from contract.ledger.run import Counts, Run, RunState, halted
from contract.question import Body, Question
from contract.settings import Settings
from contract.spec import Stage
from contract.verdict import Outcome, Passage, Verdict

__all__ = ["RedisLedger"]

#: The ledger's scripts in `contract/lua/`.
STEPS = (
    *("open", "add", "begin", "uncount", "trouble", "attach", "commit"),
    *("engine", "counts", "halt", "resume", "reopen", "purge"),
)
#: Rows per round trip of bulk reads and writes: a few hundred kilobytes.
CHUNK = 500
#: Number of runs whose question count is cached.
KNOWN_RUNS = 4096
_REASONS: TypeAdapter[list[str]] = TypeAdapter(list[str])
_PASSAGES: TypeAdapter[tuple[Passage, ...]] = TypeAdapter(tuple[Passage, ...])
_QUESTION: TypeAdapter[Question] = TypeAdapter(Question)
_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)
#: Pydantic's validators and serializer themselves: the methods around them take a sixth to a third longer, and every
#: question of a run passes through here.
_read_question = _QUESTION.validator.validate_json
_read_verdict = _VERDICT.validator.validate_json
_written = _VERDICT.serializer.to_json
_INSTALL = "Install the version of mcqueue that wrote it."
log = logging.getLogger(__name__)


def _run(run_id: str, body: str) -> Run:
    """Parse a stored run. Raises UnreadableRun that names the unreadable fields."""
    try:
        return Run.model_validate_json(body)
    except ValidationError as trouble:
        fields = ", ".join(".".join(map(str, each["loc"])) or "its record" for each in trouble.errors())
        raise UnreadableRun(
            f"Run {run_id} was written by another version of mcqueue: {fields} cannot be read here.", hint=_INSTALL
        ) from None


def _read_passages(run_id: str, question_id: str, body: str) -> tuple[Passage, ...]:
    """Parse the stored passages of a question. Raises UnreadableRun."""
    try:
        return _PASSAGES.validate_json(body)
    except ValidationError as trouble:
        raise _of_another_version(run_id, f"passages of question {question_id!r}", trouble) from None


def _of_another_version(run_id: str, what: str, trouble: ValidationError) -> UnreadableRun | ValidationError:
    """Return the error for a part of the run that does not fit our types: an UnreadableRun, or `trouble` itself.

    The latter if it is no JSON, or lacks what every version writes: it is damaged, and no version can read it.
    """
    if any(each["type"] in {"json_invalid", "missing"} for each in trouble.errors()):
        return trouble
    return UnreadableRun(
        f"Run {run_id}, {what}: written by another version of mcqueue ({_first(trouble)}).", hint=_INSTALL
    )


def _first(trouble: ValidationError) -> str:
    """Return the first field that does not fit, and why."""
    field, why = first_mistake(trouble)
    return f"{trouble.title}.{field}: {why}" if field else f"{trouble.title}: {why}"


class RedisLedger(Ledger):
    """The ledger in Redis."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client
        self._lua = {name: lua(client, name) for name in STEPS}
        #: Run id and creation time → the run's number of questions. Cached: counts are read all the time, and a run may
        #: hold thousands of examples.
        self._total: Callable[[str, str], int] = lru_cache(KNOWN_RUNS)(lambda run_id, _: self.run(run_id).questions)

    @classmethod
    def connect(cls, settings: Settings) -> RedisLedger:
        """Connect to the Redis named in `settings`. Raises LedgerError."""
        return cls(connect(settings))

    @property
    def client(self) -> redis.Redis:
        """The Redis client, for other data in the same Redis (`contract.fleet`, `contract.queue`)."""
        return self._redis

    def open_run(self, run: Run) -> Run:
        script_keys = [keys.RunKeys(run.run_id).meta, keys.runs(), keys.weights()]
        with translating(self._redis):
            is_new = self._lua["open"](script_keys, [run.run_id, run.model_dump_json()])
        there = run if is_new else self.run(run.run_id)
        if there.spec.fingerprint() != run.spec.fingerprint():
            raise RunConflict(
                f"Run {run.run_id} exists with another spec (fingerprint {there.spec.fingerprint()[:8]}).",
                hint="Choose another --run name, or purge it.",
            )
        return there

    def add_bodies(self, run_id: str, bodies: Iterable[Body]) -> None:
        own = keys.RunKeys(run_id)
        script_keys = [own.meta, own.questions, own.order, own.todo, keys.open_runs(), own.state]
        for chunk in chunks(bodies, CHUNK):
            arguments: list[str | bytes] = [run_id]
            for question_id, canonical in chunk:
                arguments += (question_id, canonical)
            self._step("add", run_id, script_keys, arguments)

    def run(self, run_id: str) -> Run:
        with translating(self._redis):
            found = self._redis.get(keys.RunKeys(run_id).meta)
            if found is None:
                self._unknown(run_id)
        return _run(run_id, cast(str, found))

    def run_ids(self) -> list[str]:
        with translating(self._redis):
            return cast("list[str]", self._redis.zrevrange(keys.runs(), 0, -1))

    def runs(self, among: Sequence[str] | None = None) -> list[Run]:
        ids = self.run_ids() if among is None else among
        with translating(self._redis):
            found = self._redis.mget([keys.RunKeys(each).meta for each in ids]) if ids else []
        runs: list[Run] = []
        for run_id, body in zip(ids, cast("list[str | None]", found), strict=True):
            if body is None:
                continue
            try:
                runs.append(_run(run_id, body))
            except UnreadableRun as trouble:
                log.warning("%s It is skipped.", trouble)
        return runs

    def open_runs(self) -> list[str]:
        with translating(self._redis):
            return sorted(cast("set[str]", self._redis.smembers(keys.open_runs())))

    def counts(self, run_id: str) -> Counts:
        own = keys.RunKeys(run_id)
        with translating(self._redis):
            script_keys = [keys.runs(), own.todo, own.counts, own.state]
            created_at, todo, outcomes, state = cast("list[Any]", self._lua["counts"](script_keys, [run_id]))
        total = self.run(run_id).questions if created_at is None else self._total(run_id, created_at)
        try:
            by_outcome = {Outcome(name): int(n) for name, n in chunks(outcomes, 2) if int(n)}
            return Counts(total=total, todo=todo, outcomes=by_outcome, state=RunState(state or RunState.RUNNING))
        except ValueError as trouble:
            raise UnreadableRun(
                f"Run {run_id}: its progress was written by another version of mcqueue ({trouble}).", hint=_INSTALL
            ) from None

    def unsettled(self, run_id: str) -> Iterator[str]:
        own = keys.RunKeys(run_id)
        for ids in self._ids(run_id):
            with translating(self._redis):
                open_here = cast("list[int]", self._redis.smismember(own.todo, ids))
            yield from (each for each, is_open in zip(ids, open_here, strict=True) if is_open)

    def questions(self, run_id: str, question_ids: Sequence[str]) -> dict[str, Question]:
        found: dict[str, Question] = {}
        for ids in chunks(question_ids, CHUNK):
            with translating(self._redis):
                bodies = cast("list[str | None]", self._redis.hmget(keys.RunKeys(run_id).questions, ids))
            for question_id, body in zip(ids, bodies, strict=True):
                if body is not None:
                    with suppress(ValidationError):
                        found[question_id] = _read_question(body)
        return found

    def begin(
        self,
        run_id: str,
        question_ids: Sequence[str],
        count_below: int | None = None,
        stage: Stage = Stage.SCORE,
        call: str = "",
    ) -> list[Begun]:
        own = keys.RunKeys(run_id)
        script_keys = [own.meta, own.questions, own.todo, own.attempts_at(stage), own.state, own.aside]
        call, limit = call or new_call(), "" if count_below is None else count_below
        found = self._step("begin", run_id, script_keys, [call, limit, *question_ids])
        if isinstance(found, str):
            raise halted(run_id, found)
        try:
            return [
                Begun(_read_question(body), int(attempts), counted=bool(int(counted)))
                for body, attempts, counted in zip(found[0::3], found[1::3], found[2::3], strict=True)
            ]
        except ValidationError as trouble:
            self._uncount_those_of(call, run_id, question_ids, stage)
            raise _of_another_version(run_id, "a question", trouble) from None

    def uncount(self, run_id: str, question_ids: Sequence[str], stage: Stage = Stage.SCORE) -> None:
        own = keys.RunKeys(run_id)
        script_keys = [own.meta, own.attempts_at(stage)]
        self._step("uncount", run_id, script_keys, [new_call(), *question_ids])

    def _uncount_those_of(self, call: str, run_id: str, question_ids: Sequence[str], stage: Stage) -> None:
        """Take back the attempts that this call of `begin` counted: suspects have been handed out uncounted."""
        attempts = keys.RunKeys(run_id).attempts_at(stage)
        with translating(self._redis):
            found = cast("list[str | None]", self._redis.hmget(attempts, list(question_ids)))
        counted = [each for each, said in zip(question_ids, found, strict=True) if said and said.endswith(f" {call}")]
        self.uncount(run_id, counted, stage)

    def note_trouble(self, run_id: str, question_ids: Sequence[str], reason: str, call: str = "") -> list[int]:
        own = keys.RunKeys(run_id)
        script_keys = [own.meta, own.todo, own.troubles]
        found = self._step("trouble", run_id, script_keys, [call or new_call(), reason, *question_ids])
        return [int(each) for each in found]

    def troubles(self, run_id: str, question_id: str) -> list[str]:
        with translating(self._redis):
            found = cast("str | None", self._redis.hget(keys.RunKeys(run_id).troubles, question_id))
        return _REASONS.validate_json(found[found.index("[") :]) if found else []

    def attach(self, run_id: str, passages: Mapping[str, Sequence[Passage]]) -> None:
        own = keys.RunKeys(run_id)
        arguments: list[str] = []
        for question_id, found in passages.items():
            arguments += (question_id, _PASSAGES.dump_json(tuple(found), exclude_defaults=True).decode())
        script_keys = [own.meta, own.todo, own.passages, own.lookups, own.troubles]
        self._step("attach", run_id, script_keys, arguments)

    def passages(self, run_id: str, question_ids: Sequence[str]) -> dict[str, tuple[Passage, ...]]:
        if not question_ids:
            return {}
        with translating(self._redis):
            found = cast("list[str | None]", self._redis.hmget(keys.RunKeys(run_id).passages, list(question_ids)))
        there = zip(question_ids, found, strict=True)
        return {each: _read_passages(run_id, each, body) for each, body in there if body is not None}

    def commit(self, run_id: str, verdicts: Sequence[Verdict], engine: EngineUsed | None = None) -> list[Verdict]:
        own = keys.RunKeys(run_id)
        arguments: list[str | bytes] = [run_id, *(_noted(engine) if engine else ("", ""))]
        for verdict in verdicts:
            arguments += (verdict.question_id, _written(verdict, exclude_defaults=True), verdict.outcome)
        script_keys = [
            own.meta,
            own.verdicts,
            own.todo,
            own.counts,
            own.attempts,
            keys.open_runs(),
            own.passages,
            own.lookups,
            own.troubles,
            own.engines,
        ]
        ignored = set(self._step("commit", run_id, script_keys, arguments))
        return [verdict for position, verdict in enumerate(verdicts) if position not in ignored]

    def note_engine(self, run_id: str, used: EngineUsed) -> None:
        own = keys.RunKeys(run_id)
        self._step("engine", run_id, [own.meta, own.engines], _noted(used))

    def engines(self, run_id: str) -> list[EngineUsed]:
        self._refuse_unknown(run_id)
        with translating(self._redis):
            found = cast("list[str]", self._redis.hvals(keys.RunKeys(run_id).engines))
        try:
            return sorted((EngineUsed.model_validate_json(each) for each in found), key=lambda each: each.since)
        except ValidationError as trouble:
            raise self._unreadable(run_id, "an engine that answered it", trouble) from None

    def results(
        self, run_id: str, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[Question, Verdict | None]]:
        for ids in self._ids(run_id, start, stop):
            for chunk in chunks(self._stored(run_id, ids), TOGETHER):
                yield from self._read_together(run_id, chunk)

    def results_of(self, run_id: str, question_ids: Sequence[str]) -> dict[str, tuple[Question, Verdict | None]]:
        self._refuse_unknown(run_id)
        found: dict[str, tuple[Question, Verdict | None]] = {}
        for ids in chunks(question_ids, CHUNK):
            there = [each for each in self._stored(run_id, ids) if each[1] is not None]
            found |= {question.id: (question, verdict) for question, verdict in self._read_together(run_id, there)}
        return found

    def _stored(self, run_id: str, ids: Sequence[str]) -> list[tuple[str, Any, str | None]]:
        """Return the ids, each with its stored question and verdict, if there are any."""
        own = keys.RunKeys(run_id)
        with translating(self._redis):
            pipeline = self._redis.pipeline(transaction=False)
            pipeline.hmget(own.questions, ids)
            pipeline.hmget(own.verdicts, ids)
            return list(zip(ids, *pipeline.execute(), strict=True))

    def halt(self, run_id: str, state: RunState) -> RunState:
        own = keys.RunKeys(run_id)
        script_keys = [own.meta, own.state, keys.open_runs(), own.aside]
        return RunState(self._step("halt", run_id, script_keys, [run_id, state.value]))

    def resume(self, run_id: str) -> None:
        own = keys.RunKeys(run_id)
        script_keys = [own.meta, own.state, own.todo, keys.open_runs()]
        self._step("resume", run_id, script_keys, [run_id])

    def take_aside(self, run_id: str) -> Iterator[str]:
        own = keys.RunKeys(run_id)
        for ids in self._ids(run_id):
            with translating(self._redis):
                pipeline = self._redis.pipeline(transaction=True)
                pipeline.smismember(own.aside, ids)
                pipeline.smismember(own.todo, ids)
                known = zip(ids, *pipeline.execute(), strict=True)
                aside = [(each, is_open) for each, is_aside, is_open in known if is_aside]
                if aside:  # removed in a second step: one that reads and removes could not be repeated
                    self._redis.srem(own.aside, *(each for each, _ in aside))
            yield from (each for each, is_open in aside if is_open)

    def reopen_failed(self, run_id: str) -> list[str]:
        own = keys.RunKeys(run_id)
        script_keys = [
            own.meta,
            own.state,
            own.verdicts,
            own.todo,
            own.counts,
            own.attempts,
            keys.open_runs(),
            own.engines,
        ]
        total = self.counts(run_id).total
        reopened: list[str] = []
        for ids in self._ids(run_id):
            with translating(self._redis):
                bodies = cast("list[str | None]", self._redis.hmget(own.verdicts, ids))
            arguments: list[str | bytes | int] = [new_call(), run_id, total]
            for each, body in zip(ids, bodies, strict=True):
                if body and self._failed(run_id, each, body):
                    arguments += (each, body)
            found = self._step("reopen", run_id, script_keys, arguments)
            if isinstance(found, str):
                raise halted(run_id, found)
            reopened += found
        return reopened

    def purge(self, *run_ids: str) -> None:
        script_keys = [keys.runs(), keys.open_runs(), keys.weights()]
        for run_id in run_ids:
            self._refuse_unknown(run_id)
            script_keys += keys.RunKeys(run_id).all()
        with translating(self._redis):
            self._lua["purge"](script_keys, run_ids)

    def _step(self, name: str, run_id: str, script_keys: Sequence[str], arguments: Sequence[str | bytes | int]) -> Any:
        """Run a Lua script and return its result. Raises UnknownRun."""
        with translating(self._redis):
            found = self._lua[name](script_keys, arguments)
            if found is None:
                self._unknown(run_id)
        return found

    def _read_together(
        self, run_id: str, found: Sequence[tuple[str, Any, str | None]]
    ) -> Iterable[tuple[Question, Verdict | None]]:
        """Parse some stored questions and their verdicts. Raises LedgerError at the first that cannot be parsed."""
        try:
            questions = [_read_question(body) for _, body, _ in found]
            verdicts = [None if verdict is None else _read_verdict(verdict) for _, _, verdict in found]
        except ValidationError:
            return (self._read(run_id, *each) for each in found)
        return zip(questions, verdicts, strict=True)

    def _read(
        self, run_id: str, question_id: str, body: str | None, verdict: str | None
    ) -> tuple[Question, Verdict | None]:
        """Parse a stored question and its verdict. Raises LedgerError if either cannot be parsed."""
        if body is None:
            self._refuse_unknown(run_id)  # purged since its ids were read
        try:
            question = _read_question(cast(str, body))
            return question, None if verdict is None else _read_verdict(verdict)
        except ValidationError as trouble:
            raise self._unreadable(run_id, f"question {question_id!r}", trouble) from None

    def _failed(self, run_id: str, question_id: str, verdict: str) -> bool:
        try:
            return _read_verdict(verdict).outcome is Outcome.FAILED
        except ValidationError as trouble:
            raise self._unreadable(run_id, f"question {question_id!r}", trouble) from None

    def _unreadable(self, run_id: str, of: str, trouble: ValidationError) -> LedgerError:
        return LedgerError(
            f"Run {run_id}, {of}: cannot be read from the ledger at {place_of(self._redis)} ({_first(trouble)}).",
            hint="Another version of mcqueue wrote it, or it is damaged: use that version, or purge the run.",
        )

    def _ids(self, run_id: str, start: int = 0, stop: int | None = None) -> Iterator[list[str]]:
        self._refuse_unknown(run_id)
        order = keys.RunKeys(run_id).order
        while stop is None or start < stop:
            end = start + CHUNK if stop is None else min(start + CHUNK, stop)
            with translating(self._redis):
                ids = cast("list[str]", self._redis.lrange(order, start, end - 1))
            if not ids:
                self._refuse_unknown(run_id)  # what was purged meanwhile must not pass for a run that ends here
                return
            yield ids
            start += len(ids)

    def _refuse_unknown(self, run_id: str) -> None:
        """Raise UnknownRun without reading the run: its spec may hold a whole training split as examples."""
        with translating(self._redis):
            if not self._redis.exists(keys.RunKeys(run_id).meta):
                self._unknown(run_id)

    def _unknown(self, run_id: str) -> NoReturn:
        known = cast("list[str]", self._redis.zrevrange(keys.runs(), 0, 99))
        raise unknown(run_id, known, f"the ledger at {place_of(self._redis)}")


def _noted(used: EngineUsed) -> list[str | bytes]:
    """Return the field under which an engine is recorded, and the record."""
    canonical = json.dumps(used.engine, sort_keys=True).encode()
    return [f"{used.worker} {hashlib.sha256(canonical).hexdigest()[:8]}", used.model_dump_json()]
