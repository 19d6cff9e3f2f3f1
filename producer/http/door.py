"""Answers HTTP requests: each is a small high-priority run that goes through the same queue.

Workers batch whatever is waiting, so that requests of many clients share batches. A run is purged once its client has
the verdicts or has given up; questions of it that workers still hold are then dropped.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from contract import keys
from contract.errors import (
    DeadlineMissed,
    InputError,
    LedgerError,
    NoWorker,
    SettingsError,
    TooBusy,
    UnknownRun,
    WritesRefused,
)
from contract.fleet import WorkerRecord
from contract.ledger import Ledger, Run, now
from contract.names import request_id
from contract.priority import Priority
from contract.question import Question
from contract.settings import Settings
from contract.verdict import Verdict
from contract.wording import number
from producer.broker import Broker
from producer.engine_differences import untaken
from producer.http.purging import Purging
from producer.intake.survey import Digest
from producer.runs.few_shot import FewShotCheck
from producer.runs.runconfig import NO_QUESTIONS, RunConfig, Texts, refuse_free
from producer.watching.unserved import held_up, start_command, starting_words, unserved_queues, workers_of

__all__ = ["Answers", "Door"]

log = logging.getLogger(__name__)

#: Polling interval of the ledger for settled runs, in seconds, while requests are waiting.
LOOK_EVERY_S = 0.01
#: The same while Redis is unavailable.
LOOK_AGAIN_S = 0.5
#: Source of the server's runs, as `runs` shows it.
SOURCE = "http"
#: How a client asks the model that live workers serve.
BY_REQUEST = "name it as model in the request, or serve with --set model=NAME"
#: How a client gets answers that merely take long.
SOONER = "Raise deadline_s, or start more workers."
#: How long to look for the reason of a missed deadline, in seconds.
WHY_FOR_S = 1.0
#: How long the live workers are remembered, in seconds.
WORKERS_FOR_S = 1.0


class Answers(NamedTuple):
    """The verdicts of a request's questions, in order."""

    verdicts: list[Verdict]
    #: The model that was asked, by the name that it is served under.
    model: str
    #: Sampling parameters of which the model did not take the request's value.
    left_to_model: list[str]


class Door:
    """Asks questions and waits for their verdicts. Use it on one event loop, inside `open`.

    The templates and examples that `base` refers to are read once, at the start; later changes have no effect.
    """

    def __init__(self, settings: Settings, ledger: Ledger, broker: Broker, base: RunConfig) -> None:
        """Raises InputError if `base` is not a usable run configuration."""
        self._settings = settings
        self._ledger = ledger
        self._broker = broker
        self._texts: dict[tuple[Hashable, ...], Texts] = {}
        self._check(base)
        #: Number of questions that clients are currently waiting for.
        self._waiting = 0
        #: Run that a client waits for → set once none of its questions is unsettled.
        self._events: dict[str, asyncio.Event] = {}
        self._any_events = asyncio.Event()
        #: Runs that are being sent, or that clients wait for.
        self._sendings: set[asyncio.Future[None]] = set()
        self._purging = Purging(ledger, settings.http.max_deadline_s)
        #: When the live workers were last read, and who they were.
        self._workers_seen: tuple[float, Sequence[WorkerRecord]] = (-math.inf, ())

    @property
    def waiting(self) -> int:
        """Number of questions that clients are currently waiting for."""
        return self._waiting

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Run the background tasks: watch for verdicts, and purge abandoned runs, including those of killed servers."""
        background = (self._watch(), self._purging.keep_purging(), self._purging.keep_sweeping())
        tasks = [asyncio.create_task(each) for each in background]
        try:
            yield
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.wait([*tasks, *self._sendings])
            await self._purging.purge()

    async def ask(self, questions: Sequence[Question], config: RunConfig, deadline_s: float) -> Answers:
        """Return the answers to `questions`.

        Raises NoWorker if no worker serves the model or searches the index, TooBusy if too many questions are waiting
        already, DeadlineMissed after `deadline_s` seconds, InputError for invalid questions, LedgerError if Redis is
        unavailable.
        """
        limit = self._settings.http.max_waiting
        if len(questions) > limit:
            found = number(len(questions), "question")
            raise InputError(f"{found}; at most {limit:,} may wait at a time (http.max_waiting).")
        if self._waiting + len(questions) > limit:
            waiting = number(self._waiting, "question")
            raise TooBusy(f"{waiting} waiting already; the limit is {limit:,}.", hint="Try again later.")
        self._waiting += len(questions)
        run = None
        try:
            async with asyncio.timeout(deadline_s):
                run = await asyncio.to_thread(self._plan, questions, config)
                await self._refuse_without_worker(run)
                async with self._sent(run, questions):
                    await self._settled(run.run_id)
                    return await asyncio.to_thread(self._answers, run, questions)
        except TimeoutError:
            raise DeadlineMissed(f"No verdict after {deadline_s:g} s.", hint=await self._why_late(run)) from None
        finally:
            self._waiting -= len(questions)

    async def _why_late(self, run: Run | None) -> str:
        """Return what keeps workers from answering the run, if anything does, or else how answers come sooner."""
        try:
            async with asyncio.timeout(WHY_FOR_S):
                live = await self._live()
                unserved = await self._unserved_error(run, live) if run else None
        except TimeoutError:
            return "Redis does not answer."
        except LedgerError as trouble:
            return str(trouble)
        if unserved:
            return str(unserved)
        return " ".join(held_up(run.run_id, workers_of(run, live)) if run else ()) or SOONER

    async def _live(self) -> Sequence[WorkerRecord]:
        """Return all live workers, as they were at most a second ago."""
        seen_at, live = self._workers_seen
        if time.monotonic() - seen_at > WORKERS_FOR_S:
            live = await asyncio.to_thread(self._broker.all_workers)
            self._workers_seen = (time.monotonic(), live)
        return live

    async def _refuse_without_worker(self, run: Run) -> None:
        if trouble := await self._unserved_error(run, await self._live()):
            raise trouble

    async def _unserved_error(self, run: Run, live: Sequence[WorkerRecord]) -> NoWorker | WritesRefused | None:
        """Return the error that one of the run's queues has no worker, with what helps; None if each has one."""
        unserved = unserved_queues(run, live)
        if not unserved:
            return None
        if refused := await asyncio.to_thread(self._broker.why_no_writes):
            return refused
        missing = " and ".join(repr(keys.index_of(queue) or run.spec.model) for queue in unserved)
        if starting := await asyncio.to_thread(starting_words, unserved, self._broker):
            return NoWorker(f"No worker serves {missing} yet.", hint=f"Try again: {starting}.")
        return NoWorker(f"No worker serves {missing}.", hint=f"Start one: {start_command(unserved, live, BY_REQUEST)}")

    def _check(self, base: RunConfig) -> None:
        """Report errors in `base` at start-up rather than to every client. Its model may be left to the requests."""
        refuse_free(base)
        whose = base.model_copy(update={"model": base.model or "anyone's"})
        whose.to_spec(NO_QUESTIONS, self._settings, self._texts_of(base))

    def _texts_of(self, config: RunConfig) -> Texts:
        """Return the texts of `config`, read once: those of `base` at start-up, those of other modes on first use."""
        made_of = (config.mode, config.prompt, config.few_shot, config.judge)
        if made_of not in self._texts:
            self._texts[made_of] = config.texts()
        return self._texts[made_of]

    def _plan(self, questions: Sequence[Question], config: RunConfig) -> Run:
        digest = Digest()
        digest.add(questions)
        try:
            spec = config.to_spec(digest.hexdigest(), self._settings, self._texts_of(config))
        except SettingsError as trouble:  # its remedy is that of commands
            raise SettingsError(trouble.message, hint=f"For one of them, {BY_REQUEST}.") from None
        shots = FewShotCheck(spec.few_shot)
        for question in questions:
            shots.add(question)
        shots.refuse()
        # Equal questions of two clients are two runs, as one may give up while the other waits.
        return Run(
            run_id=request_id(),
            spec=spec,
            source=SOURCE,
            questions=len(questions),
            chance=digest.keys.guessing.chance(spec),
            without_key=digest.keys.without_key,
            created_at=now(),
            priority=Priority.HIGH,
        )

    @asynccontextmanager
    async def _sent(self, run: Run, questions: Sequence[Question]) -> AsyncIterator[None]:
        """Submit the run to ledger and queue, and mark it for purging afterwards, even if sending takes too long."""
        sending = asyncio.ensure_future(asyncio.to_thread(self._send, run, questions))
        self._sendings.add(sending)

        def abandon(_: object) -> None:
            self._sendings.discard(sending)
            self._purging.abandon([run.run_id])

        try:
            await asyncio.shield(sending)
            yield
        finally:
            # A running thread cannot be cancelled. Nothing is awaited here, as that would be cancelled too if the
            # client disconnects after the deadline.
            sending.add_done_callback(abandon)

    def _send(self, run: Run, questions: Sequence[Question]) -> None:
        self._ledger.open_run(run)
        self._ledger.add_questions(run.run_id, questions)
        self._broker.publish(run, [each.id for each in questions], Priority.HIGH)

    async def _settled(self, run_id: str) -> None:
        self._events[run_id] = asyncio.Event()
        self._any_events.set()
        try:
            await self._events[run_id].wait()
        finally:
            del self._events[run_id]

    def _answers(self, run: Run, questions: Sequence[Question]) -> Answers:
        try:
            found = {question.id: verdict for question, verdict in self._ledger.results(run.run_id)}
            used = self._ledger.engines(run.run_id) if run.spec.sampling else []
        except UnknownRun:
            found, used = {}, []
        verdicts = [each for each in map(found.get, [each.id for each in questions]) if each is not None]
        if len(verdicts) < len(questions):
            raise LedgerError(
                f"{run.run_id} was cancelled or deleted before it was answered.", hint="Send the request again."
            )
        return Answers(verdicts, run.spec.model, untaken(run, used))

    async def _watch(self) -> None:
        """Wake the requests whose runs have no unsettled questions any more, with one query for all of them."""
        while True:
            if not self._events:
                self._any_events.clear()
                await self._any_events.wait()
            asked = list(self._events.items())  # before the query, which misses runs that are sent in the meantime
            try:
                unsettled = set(await asyncio.to_thread(self._ledger.open_runs))
            except LedgerError as trouble:
                log.warning("cannot look for verdicts, retrying: %s", trouble)
                await asyncio.sleep(LOOK_AGAIN_S)
                continue
            for run_id, event in asked:
                if run_id not in unsettled:
                    event.set()
            await asyncio.sleep(LOOK_EVERY_S)
