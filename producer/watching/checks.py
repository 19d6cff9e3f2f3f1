"""What a watcher looks for in a run that is not settled, each check with what it remembers between two looks.

`Say` prints a message that stays on the screen; `now` is the time by the watcher's clock, in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from contract.errors import LedgerError, WritesRefused
from contract.fleet import WorkerRecord
from contract.ledger import Counts, Run
from contract.wording import number
from producer.watching.status import unwritten_of, writer_of
from producer.watching.unserved import (
    held_up,
    refusal_of_writes,
    start_command,
    starting_words,
    time_since,
    unbooted_by_reason,
    vanished_of,
    vanished_words,
)

if TYPE_CHECKING:
    from producer.broker import Broker

__all__ = ["Missing", "PutOff", "Refused", "Stalled", "Unbooted", "Unserved", "Vanished"]

Say: TypeAlias = Callable[[str], object]

#: Interval between messages about something that lasts.
AGAIN_EVERY_S = 60.0
#: How long no worker may be present before a message says so.
NO_WORKER_AFTER_S = 10.0
#: How long a worker may be gone before a message says so: one that crashes is started again within this time.
GONE_AFTER_S = 60.0
#: Interval between looks for vanished workers, each of which asks Redis three times.
VANISHED_EVERY_S = 5.0
#: How long nothing may be settled before Redis is asked whether it refuses writes, and how often it is then asked.
UNSETTLED_AFTER_S, REFUSED_EVERY_S = 10.0, 2.0
#: Interval between checks for a stall. Only two positive checks in a row count, since a message on its way to a worker
#: is briefly neither in the queue nor with a worker.
STALL_EVERY_S = 2.0
#: How long question bodies may be missing without progress before the `enqueue` writing them is considered dead.
INCOMPLETE_AFTER_S = 30.0


class Refused:
    """Whether Redis refuses writes, so that nothing is settled."""

    def __init__(self, broker: Broker, say: Say) -> None:
        self._broker = broker
        self._say = say
        #: Whether it does, as last seen.
        self.lasts = False
        #: Number of settled questions when it last changed: then, Redis took verdicts.
        self._written = -1
        self._look_at = 0.0
        self._say_at = 0.0

    def look(self, now: float, settled: int, live: Sequence[WorkerRecord]) -> None:
        """Ask the workers and Redis, if nothing has been settled lately."""
        if settled != self._written:
            self._written, self.lasts, self._look_at = settled, False, now + UNSETTLED_AFTER_S
        if now >= self._look_at:
            self._look_at = now + REFUSED_EVERY_S
            why = refusal_of_writes(live, self._broker)
            self.lasts = bool(why)
            if why:
                self.tell(now, why)

    def tell(self, now: float, why: str) -> None:
        """Say so, unless it was just said."""
        if now >= self._say_at:
            self._say_at = now + AGAIN_EVERY_S
            self._say(f"Questions are waiting. {why}")


class Unserved:
    """Queues of the run that no worker serves."""

    def __init__(self, broker: Broker, say: Say) -> None:
        self._broker = broker
        self._say = say
        self._since: float | None = None
        self._say_at = 0.0

    def look(self, now: float, unserved: Sequence[str], live: Sequence[WorkerRecord]) -> None:
        """Say from time to time how long no worker has served the queues `unserved`, if there are any."""
        if not unserved:
            self._since = None
            return
        if self._since is None:
            self._since = now
            self._say_at = now + NO_WORKER_AFTER_S
        if now >= self._say_at:
            self._say_at = now + AGAIN_EVERY_S
            what_helps = starting_words(unserved, self._broker) or f"Start one: {start_command(unserved, live)}"
            self._say(f"No worker has served {' and '.join(unserved)} for {now - self._since:.0f} s. {what_helps}")


class PutOff:
    """Workers that put the run off, or wait for something themselves."""

    def __init__(self, run: Run, say: Say) -> None:
        self._run_id = run.run_id
        self._say = say
        self._seen: list[str] = []

    def look(self, workers: Sequence[WorkerRecord]) -> None:
        """Say what was not so at the last look."""
        before, self._seen = self._seen, held_up(self._run_id, workers)
        for each in self._seen:
            if each not in before:
                self._say(f"Questions are waiting. {each}")


class Unbooted:
    """Workers that failed to boot."""

    def __init__(self, run: Run, broker: Broker, say: Say) -> None:
        self._run = run
        self._broker = broker
        self._say = say
        self._said: set[str] = set()

    def look(self) -> None:
        """Say each reason once."""
        for reason, found in unbooted_by_reason(self._run, self._broker).items():
            if reason not in self._said:
                self._said.add(reason)
                names = ", ".join(each.worker for each in found)
                self._say(f"{names} failed to boot {time_since(found)} ago: {reason}")


class Vanished:
    """Workers that are gone though nobody had drained them, while others serve the run."""

    def __init__(self, run: Run, broker: Broker, say: Say) -> None:
        self._run = run
        self._broker = broker
        self._say = say
        #: Worker → since when it has been gone.
        self._since: dict[str, float] = {}
        self._said: set[str] = set()
        self._look_at = 0.0

    def look(self, now: float) -> None:
        """Say of each worker once that it is gone, and again if it came back in between."""
        if now < self._look_at:
            return
        self._look_at = now + VANISHED_EVERY_S
        gone = {each.name: each for each in vanished_of(self._run, self._broker)}
        self._since = {name: self._since.get(name, now) for name in gone}
        lasting = {name for name, since in self._since.items() if now - since >= GONE_AFTER_S}
        new, self._said = lasting - self._said, lasting
        if new:
            words = vanished_words([gone[name] for name in sorted(new)])
            self._say(f"Others go on without {words}")


class Stalled:
    """Questions that are neither settled nor with the broker."""

    def __init__(self, run: Run, broker: Broker, say: Say) -> None:
        self._run = run
        self._broker = broker
        self._say = say
        self._look_at = 0.0
        self._times = 0

    def look(self, now: float) -> str:
        """Send lost questions again; return why Redis does not take them, or an empty string."""
        if now < self._look_at:
            return ""
        self._look_at = now + STALL_EVERY_S
        self._times = self._times + 1 if self._broker.looks_stalled(self._run) else 0
        if self._times < 2:
            return ""
        self._times = 0
        try:
            questions, messages = self._broker.heal(self._run)
        except WritesRefused as trouble:
            return str(trouble)
        if questions:
            lost, sent = number(questions, "lost question"), number(messages, "message")
            self._say(f"{self._run.run_id} was stalled: {lost} re-sent in {sent}.")
        return ""


class Missing:
    """Questions that were never written, as the command that writes them died."""

    def __init__(self, run: Run) -> None:
        self._run = run
        #: Last counts while questions are missing, and since when they are unchanged.
        self._counts: Counts | None = None
        self._since = 0.0

    def look(self, now: float, counts: Counts) -> None:
        """Raise LedgerError if they have been missing for too long: while they are written, their number changes."""
        if counts != self._counts or not unwritten_of(self._run, counts):
            self._counts, self._since = counts, now
        elif now - self._since >= INCOMPLETE_AFTER_S:
            raise LedgerError(
                f"{self._run.run_id}: {unwritten_of(self._run, counts):,} of {number(counts.total, 'question')} never "
                "written.",
                hint=f"To continue, repeat {writer_of(self._run)}: it was interrupted.",
            )
