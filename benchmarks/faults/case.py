"""One run under observation, and what a round found of it."""

from __future__ import annotations

import contextlib
import csv
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import redis

from benchmarks.faults.worker import WorkerProcess
from benchmarks.waiting import wait_until
from contract import Run, Verdict, keys
from contract.queue import held_question_ids
from producer.export.results import export

if TYPE_CHECKING:
    from benchmarks.faults.stage import Stage

__all__ = ["LOST_AFTER_S", "MOMENT_S", "Case", "Found", "Missed"]

#: After this time a question counts as lost.
LOST_AFTER_S = 90.0
#: How long a round waits for its moment, such as a worker's next message; then the fault has missed.
MOMENT_S = 15.0
#: How long messages may stay unacknowledged after the last verdict. Those of a dead worker may wait for the ten seconds
#: in which one worker alone may restore them, and then for another's round; on a busy machine all that takes longer.
BOOKS_S = 60.0


class Missed(Exception):
    """The fault did not hit what it was meant for: the round does not count."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a round found."""

    questions: int
    #: Without a verdict at the end of all patience, or without a row in results.csv.
    lost: int
    #: Verdicts that changed, counts beyond the verdicts, rows of results.csv beyond the questions.
    doubled: int
    #: Times that a question was begun after its first: asked of the engine again, at most so often.
    asked_again: int
    #: Messages that nobody acknowledged in the end.
    left_over: int
    #: From the fault (or from its end, where it has one) until work that it concerned went on.
    went_on_s: float | None
    #: Questions that went with a server's data; they are in `questions` again once they were enqueued again.
    gone: int


@dataclass
class Case:
    """One run under observation."""

    stage: Stage
    run: Run
    ids: list[str]
    _first: dict[str, str] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)

    def settled(self) -> set[str]:
        """Ids with a verdict now; remembers every verdict as it was first seen."""
        with contextlib.suppress(redis.RedisError):
            found = cast("dict[str, str]", self.stage.client.hgetall(keys.RunKeys(self.run.run_id).verdicts))
            for each, verdict in found.items():
                if self._first.setdefault(each, verdict) != verdict:
                    self._changed.add(each)
            return set(found)
        return set()

    def wait_settled(self, among: Iterable[str], since: float) -> float:
        """Seconds from `since` until the first of `among` has a verdict. Raises Missed if all had one before."""
        open_ones = set(among) - self.settled()
        if not open_ones:
            raise Missed("nothing was left to do")
        self.stage.wait(lambda: bool(open_ones & self.settled()), LOST_AFTER_S)
        return time.monotonic() - since

    def went_on_s(self, among: Iterable[str], since: float) -> float | None:
        """`wait_settled`, but None if all of `among` had a verdict before."""
        try:
            return self.wait_settled(among, since)
        except Missed:
            return None

    def wait_progress(self, since: float) -> float:
        """Seconds from `since` until any further question is settled."""
        return self.wait_settled(self.ids, since)

    def held_by(self, *workers: WorkerProcess) -> set[str]:
        """Ids in messages that these workers hold."""
        return held_question_ids(self.stage.client, [each.name for each in workers], self.run.run_id)

    def taken_by(self, worker: WorkerProcess) -> set[str]:
        """The same of one worker, as soon as it holds any. Raises Missed if it does not get there."""
        try:
            wait_until(lambda: bool(self.held_by(worker)), MOMENT_S)
        except TimeoutError:
            self.found()
            raise Missed("the worker got no message") from None
        return self.held_by(worker)

    def begun(self) -> bool:
        """Whether a question is begun and not settled."""
        return bool(self.stage.client.hlen(keys.RunKeys(self.run.run_id).attempts))

    def attempts(self, question_id: str) -> int:
        """How often a question without a verdict was begun."""
        known = self.stage.client.hget(keys.RunKeys(self.run.run_id).attempts, question_id)
        return int(cast("str", known or "0").split()[0])

    def wait_finished(self) -> None:
        """Return when every question is settled, or patience is over."""
        with contextlib.suppress(TimeoutError):
            self.stage.wait(lambda: len(self.settled()) == len(self.ids), LOST_AFTER_S)

    def found(self, went_on_s: float | None = None, gone: int = 0) -> Found:
        """Wait for the end, and account for everything."""
        self.wait_finished()
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: self._messages() == 0, BOOKS_S)
        verdicts = self.settled()
        counts = self.stage.ledger.counts(self.run.run_id)
        counted_twice = counts.settled - len(verdicts)
        rows = self._exported()
        parsed = [Verdict.model_validate_json(each) for each in self._first.values()]
        return Found(
            questions=len(self.ids),
            lost=len(set(self.ids) - (verdicts & set(rows))),
            doubled=len(self._changed) + abs(counted_twice) + len(rows) - len(set(rows)),
            asked_again=sum(max(0, each.attempts - 1) for each in parsed),
            left_over=self._messages(),
            went_on_s=went_on_s,
            gone=gone,
        )

    def verdict(self, question_id: str) -> Verdict:
        """The verdict of a question that has one."""
        return Verdict.model_validate_json(self._first[question_id])

    def _messages(self) -> int:
        """Messages that wait or are held, read in one step: one that goes to and fro is never in between."""
        names = self.stage.fleet.names()
        pipeline = self.stage.client.pipeline(transaction=True)
        for each in names:
            pipeline.hlen(keys.unacked(each))
        for each in keys.broker_lists(keys.score_queue(self.run.spec.model)):
            pipeline.llen(each)
        return sum(pipeline.execute())

    def _exported(self) -> list[str]:
        folder = self.stage.folder / "export"
        files = export(self.stage.ledger, self.run.run_id, folder).files
        with files[0].open(encoding="utf-8", newline="") as file:
            return [row["question_id"] for row in csv.DictReader(file) if row["outcome"]]
