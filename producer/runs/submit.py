"""From a question file to a run in the ledger and messages in the queue.

First the whole file is checked, which gives the digest, from which the run's id follows; then what was checked is
written and sent. Killed anywhere in between and repeated, the same command completes the same run: bodies are written
once, and what is already queued is not sent again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from contract.errors import RunConfigError
from contract.ledger import Ledger, Run, RunState, Taken
from contract.priority import Priority
from contract.settings import Settings
from contract.spec import Mode, RunSpec, run_id_for, slug
from producer.broker import Broker
from producer.intake.qrels import Qrels
from producer.intake.selection import Selection
from producer.intake.survey import Survey, survey
from producer.output import number
from producer.readers import Source
from producer.runs.choice_references import ChoiceReferences
from producer.runs.few_shot import FewShotCheck
from producer.runs.prefix_order import PrefixOrder
from producer.runs.runconfig import RunConfig
from producer.runs.source_coverage import taken_of

__all__ = ["Plan", "State", "Submitted", "afresh", "asked_already", "asked_of", "plan", "submit"]


#: A run's folder is called after it, and file systems take 255 bytes.
LONGEST_NAME = 150


class State(StrEnum):
    """How a submission found its run."""

    NEW = "new"
    RESUMED = "resumed"
    #: It was cancelled, and goes on now.
    REVIVED = "revived"
    #: Nothing was sent: somebody wants it to wait.
    PAUSED = "paused"
    SETTLED = "settled"


_AGAIN = {State.RESUMED: "resumed", State.REVIVED: "was cancelled, goes on"}


@dataclass(frozen=True, slots=True)
class Plan:
    """A submission that is checked and ready; nothing is written yet."""

    name: str
    spec: RunSpec
    survey: Survey
    #: Which of its questions begin alike.
    prefix_order: PrefixOrder
    taken: Taken
    #: Which of its questions mean something else in other orders of their choices.
    choice_references: ChoiceReferences
    #: How many times the same thing is asked on purpose, this one included.
    repeat: int = 1

    @property
    def run_id(self) -> str:
        """The run's id."""
        return run_id_for(self.name, self.spec, self.repeat)

    def run(self, priority: Priority = Priority.NORMAL) -> Run:
        """The run as the ledger keeps it."""
        return Run(
            run_id=self.run_id,
            spec=self.spec,
            source=self.survey.source.title,
            questions=self.survey.digest.count,
            chance=self.survey.digest.keys.guessing.chance(self.spec),
            without_key=self.survey.digest.keys.without_key,
            created_at=time.time(),
            priority=priority,
            taken=self.taken,
        )


@dataclass(frozen=True, slots=True)
class Submitted:
    """What a submission did."""

    run: Run
    state: State
    unsettled: int
    #: Questions sent now, in `messages` messages.
    sent: int
    messages: int

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "run_id": self.run.run_id,
            "state": self.state.value,
            "source": self.run.source,
            "questions": self.run.questions,
            "unsettled": self.unsettled,
            "sent": self.sent,
            "messages": self.messages,
            "chance": self.run.chance,
        }

    def told(self) -> str:
        """In words: how it found the run, and what it sent."""
        if self.state is State.SETTLED:
            return "already settled: nothing was sent"
        if self.state is State.PAUSED:
            return f"paused: nothing was sent; let it go on with: python -m producer resume {self.run.run_id}"
        if self.state in _AGAIN:
            counted = f"{self.unsettled:,} of {self.run.questions:,} unsettled"
            return f"{_AGAIN[self.state]}: {counted}, {self.sent:,} sent again in {number(self.messages, 'message')}"
        return f"new: {number(self.sent, 'question')} sent in {number(self.messages, 'message')}"


def plan(
    source: Source,
    config: RunConfig,
    settings: Settings,
    selection: Selection,
    *,
    name: str = "",
    skip_bad: bool = False,
    qrels: Qrels | None = None,
) -> Plan:
    """Check template and file, and work out the spec. Raises InputError; neither reads nor writes the ledger.

    `name` is what the run is called; without one it is made of file, model and mode. `qrels` name passages that answer.
    """
    if config.mode is Mode.FREE:
        raise RunConfigError(
            "mode: free is for prompts, which `python -m producer serve` takes.", hint="For questions: generate."
        )
    # Templates and examples are checked before a long file is read; the digest is known only after.
    draft = config.to_spec("0" * 64, settings, source)
    prefix_order, few_shot = PrefixOrder(draft), FewShotCheck(draft.few_shot)
    choice_references = ChoiceReferences(draft)
    more = {"change": qrels.join} if qrels else {}
    lookers = [each.add for each in (prefix_order, few_shot, choice_references) if each.needed]
    found = survey(source, selection, skip_bad=skip_bad, lookers=lookers, **more)
    few_shot.refuse()
    spec = draft.model_copy(update={"questions_digest": found.digest.hexdigest()})
    called = slug(name or f"{source.stem}-{spec.model}-{spec.mode}")[:LONGEST_NAME]
    return Plan(called, spec, found, prefix_order, taken_of(found, selection), choice_references)


def asked_of(planned: Plan, model: str, name: str) -> Plan:
    """The same questions asked in the same way of another `model`, under another `name`; no file is read again."""
    return replace(planned, name=slug(name)[:LONGEST_NAME], spec=planned.spec.model_copy(update={"model": model}))


def afresh(planned: Plan, ledger: Ledger) -> Plan:
    """The same plan under the next number that the ledger has no run of."""
    there = {run.run_id for run in ledger.runs()}
    while planned.run_id in there:
        planned = replace(planned, repeat=planned.repeat + 1)
    return planned


def submit(
    planned: Plan,
    ledger: Ledger,
    broker: Broker,
    priority: Priority = Priority.NORMAL,
    weight: int | None = None,
) -> Submitted:
    """Write what the ledger lacks of the run, and send what the queue lacks of it.

    `weight` is how many turns it gets where others get one; None: what it was, 1 for a new run.
    Another producer or a worker that is sending the same run is waited for.
    """
    run = planned.run(priority)
    with broker.sole_sender(run.run_id) as sender:
        new = ledger.open_run(run)
        if weight is not None:
            broker.weigh(run.run_id, weight)
        counts = ledger.counts(run.run_id)
        if counts.finished:
            return Submitted(run, State.SETTLED, unsettled=0, sent=0, messages=0)
        if not counts.written:
            ledger.add_bodies(run.run_id, sender.passing(planned.survey.bodies))
        if counts.state is RunState.PAUSED:
            return Submitted(run, State.PAUSED, ledger.counts(run.run_id).todo, sent=0, messages=0)
        if new:
            asked = planned.prefix_order.grouped(body.question_id for body in planned.survey.bodies)
            messages = broker.publish(run, sender.passing(asked), priority)
            return Submitted(run, State.NEW, run.questions, run.questions, messages)
        unsettled = ledger.counts(run.run_id).todo
        if counts.state is RunState.CANCELLED:
            return Submitted(run, State.REVIVED, unsettled, *broker.go_on(run, priority))
        return Submitted(run, State.RESUMED, unsettled, *broker.send_missing(run, priority))


def asked_already(done: Iterable[Submitted], ledger: Ledger) -> dict[str, list[str]]:
    """Of the runs that are new, those whose questions were asked in the same way under another name, with these runs.

    Whoever did not mean to ask anew can cancel.
    """
    new = [each.run for each in done if each.state is State.NEW]
    by_fingerprint: dict[str, list[str]] = {}
    for run in ledger.runs() if new else ():
        by_fingerprint.setdefault(run.spec.fingerprint(), []).append(run.run_id)
    others = {
        run.run_id: [each for each in by_fingerprint[run.spec.fingerprint()] if each != run.run_id] for run in new
    }
    return {run_id: found for run_id, found in others.items() if found}
