"""Submits a question file as a run in the ledger and messages in the queue.

First the whole file is checked, which yields the digest that determines the run's id; then the checked questions are
written and sent, some thousands at a time, so that workers begin with the first ones while the last are being written.
If the command is killed at any point, repeating it completes the same run: bodies are written once, and questions that
are already queued are not sent again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Any

from contract.errors import RunConfigError, UnknownRun, UnreadableRun
from contract.ledger import Ledger, Run, RunState, Taken
from contract.names import LAST, has_fingerprint, is_called, run_id_for, run_name, slug
from contract.prefix_order import PrefixOrder
from contract.priority import Priority
from contract.question import Body
from contract.settings import Settings
from contract.spec import Mode, RunSpec
from contract.wording import number
from producer.broker import Broker
from producer.intake.qrels import Qrels
from producer.intake.selection import Selection
from producer.intake.survey import Survey, survey
from producer.readers import Source
from producer.runs.choice_references import ChoiceReferences
from producer.runs.few_shot import FewShotCheck
from producer.runs.reuse import Earlier
from producer.runs.runconfig import RunConfig
from producer.runs.source_coverage import taken_of

__all__ = [
    "Plan",
    "State",
    "Submitted",
    "about_namesake",
    "afresh",
    "asked_already",
    "asked_of",
    "plan",
    "submit",
]


class State(StrEnum):
    """State in which a submission found its run."""

    NEW = "new"
    RESUMED = "resumed"
    #: The run was cancelled, and is now resumed.
    REVIVED = "revived"
    #: Nothing was sent, because the run has been paused.
    PAUSED = "paused"
    SETTLED = "settled"


_AGAIN = {State.RESUMED: "resumed", State.REVIVED: "was cancelled, now resumed"}


@dataclass(frozen=True, slots=True)
class Plan:
    """A submission that has been checked and is ready; nothing has been written yet."""

    name: str
    spec: RunSpec
    survey: Survey
    #: Which of its questions share a prompt prefix.
    prefix_order: PrefixOrder
    taken: Taken
    #: Which of its questions change their meaning when their choices are reordered.
    choice_references: ChoiceReferences
    #: How the file with the examples was read; empty without examples.
    examples_read: str
    #: The folder of the index, of which the spec holds the name; empty without one.
    index: str
    #: How often the same questions have deliberately been asked, including this time.
    repeat: int = 1

    @property
    def run_id(self) -> str:
        """The run's id."""
        return run_id_for(self.name, self.spec, self.repeat)

    def run(self, priority: Priority = Priority.NORMAL) -> Run:
        """Return the run as it is stored in the ledger."""
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
    """Result of a submission."""

    run: Run
    state: State
    unsettled: int
    #: Number of questions sent now, in `messages` messages.
    sent: int
    messages: int

    def to_json(self) -> dict[str, Any]:
        """Return the content for `--json`."""
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

    def describe(self) -> str:
        """Describe the state of the run and what was sent."""
        if self.state is State.SETTLED:
            return "already settled: nothing was sent"
        if self.state is State.PAUSED:
            return f"paused: nothing was sent; resume it with: python -m producer resume {self.run.run_id}"
        if self.state in _AGAIN:
            counted = f"{self.unsettled:,} of {self.run.questions:,} unsettled"
            return f"{_AGAIN[self.state]}: {counted}, {self.sent:,} re-sent in {number(self.messages, 'message')}"
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
    """Check template and file, and determine the spec. Raises InputError; neither reads nor writes the ledger.

    `name` is the run's name, by default made of file, model and mode. `qrels` are relevance judgements for passages.
    """
    if config.mode is Mode.FREE:
        raise RunConfigError(
            "mode: free is for prompts sent to `python -m producer serve`.", hint="For questions, use mode: generate."
        )
    if name and slug(name) == LAST:
        raise RunConfigError(
            f"--run {name}: no run can be called so: commands take {LAST!r} as the newest run.",
            hint="Choose another name.",
        )
    # Templates and examples are checked before a long file is read; the digest is known only afterwards.
    texts = config.texts(source)
    draft = config.to_spec("0" * 64, settings, texts)
    prefix_order, few_shot = PrefixOrder(draft), FewShotCheck(draft.few_shot)
    choice_references = ChoiceReferences(draft)
    lookers = [each.add for each in (prefix_order, few_shot, choice_references) if each.needed]
    change = qrels.join if qrels else None
    found = survey(source, selection, skip_bad=skip_bad, lookers=lookers, change=change)
    few_shot.refuse()
    spec = draft.model_copy(update={"questions_digest": found.digest.hexdigest()})
    return Plan(
        name=run_name(name or f"{source.stem}-{spec.model}-{spec.mode}"),
        spec=spec,
        survey=found,
        prefix_order=prefix_order,
        taken=taken_of(found, selection),
        choice_references=choice_references,
        examples_read=texts.examples_read,
        index=config.rag.index,
    )


def asked_of(planned: Plan, model: str, name: str) -> Plan:
    """Return the plan for another `model` and `name`, otherwise unchanged; no file is read again."""
    return replace(planned, name=run_name(name), spec=planned.spec.model_copy(update={"model": model}))


def afresh(planned: Plan, ledger: Ledger) -> Plan:
    """Return the plan with the first repeat number for which the ledger has no run."""
    there = set(ledger.run_ids())  # also those of another version, which cannot be read here
    while planned.run_id in there:
        planned = replace(planned, repeat=planned.repeat + 1)
    return planned


def submit(
    planned: Plan,
    ledger: Ledger,
    broker: Broker,
    priority: Priority | None = None,
    weight: int | None = None,
    earlier: Earlier | None = None,
) -> Submitted:
    """Write what is missing from the ledger, and send what is missing from the queue and not answered by `earlier`.

    `priority` is for what is sent now and, if the run is new, for the run; None: the run's, or normal for a new one.
    `weight` is the number of turns the run gets for each turn of others; None: unchanged, or 1 for a new run. Waits
    while another producer or a worker is sending the same run.
    """
    run = planned.run(Priority.NORMAL if priority is None else priority)
    with broker.sole_sender(run.run_id), _told_if_purged(run.run_id):
        written, run = run, ledger.open_run(run)
        priority = run.priority if priority is None else priority
        if weight is not None:
            broker.weigh(run.run_id, weight)
        counts = ledger.counts(run.run_id)
        if counts.finished:
            return Submitted(run, State.SETTLED, unsettled=0, sent=0, messages=0)
        if run == written:
            sent, messages = _write_and_send(planned, run, ledger, broker, priority, earlier)
            return Submitted(run, State.NEW, sent, sent, messages)
        if not counts.written:
            ledger.add_bodies(run.run_id, planned.survey.bodies)
        if earlier:
            earlier.settle(run.run_id, ledger.unsettled(run.run_id))
        if counts.state is RunState.PAUSED:
            return Submitted(run, State.PAUSED, ledger.counts(run.run_id).todo, sent=0, messages=0)
        unsettled = ledger.counts(run.run_id).todo
        if counts.state is RunState.CANCELLED:
            return Submitted(run, State.REVIVED, unsettled, *broker.go_on(run, priority))
        return Submitted(run, State.RESUMED, unsettled, *broker.send_missing(run, priority))


@contextmanager
def _told_if_purged(run_id: str) -> Iterator[None]:
    """Say of a run that is gone from the ledger what became of it, rather than that its name is unknown."""
    try:
        yield
    except UnknownRun as trouble:
        raise UnknownRun(
            f"{run_id} is no longer in the ledger: while it was being written, it was purged, or Redis lost its data.",
            hint="To ask its questions, run the same command again.",
        ) from trouble


def _write_and_send(
    planned: Plan, run: Run, ledger: Ledger, broker: Broker, priority: Priority, earlier: Earlier | None
) -> tuple[int, int]:
    """Write a new run's questions and send them, window by window; return the numbers sent, and of messages.

    No question is sent before it is in the ledger, and none that `earlier` answers. The run is not finished before all
    are written, whatever was settled.
    """
    order, bodies = planned.prefix_order, iter(planned.survey.bodies)
    written = sent = messages = 0
    while ids := _write(run.run_id, islice(bodies, order.window), ledger):
        settled = earlier.settle(run.run_id, ids) if earlier else set()
        wanted = [each for each in order.grouped(ids, written) if each not in settled]
        messages += broker.publish(run, wanted, priority)
        written += len(ids)
        sent += len(wanted)
    return sent, messages


def _write(run_id: str, bodies: Iterable[Body], ledger: Ledger) -> list[str]:
    """Write the bodies, which are not kept in memory, and return their ids."""
    ids: list[str] = []

    def noting_ids() -> Iterator[Body]:
        for body in bodies:
            ids.append(body.question_id)
            yield body

    ledger.add_bodies(run_id, noting_ids())
    return ids


def asked_already(done: Iterable[Submitted], ledger: Ledger) -> dict[str, list[str]]:
    """Return the new runs whose questions were already asked in the same way, with the ids of those earlier runs.

    A user who did not intend to ask again can cancel the new run.
    """
    new = [each.run for each in done if each.state is State.NEW]
    there = ledger.run_ids() if new else []
    others: dict[str, list[str]] = {}
    for run in new:
        fingerprint = run.spec.fingerprint()
        # Only these are read, as each run may hold thousands of examples.
        alike = [each for each in there if each != run.run_id and has_fingerprint(each, fingerprint)]
        if found := [each.run_id for each in ledger.runs(alike) if each.spec.fingerprint() == fingerprint]:
            others[run.run_id] = found
    return others


def about_namesake(planned: Plan, done: Submitted, ledger: Ledger, *, reusing: bool = False) -> str:
    """Return in what this new run differs from the last other one of its name, and how to end that; empty if none.

    A user who meant to go on with that run sees why it is another one. `reusing`: answers were taken over.
    """
    if done.state is not State.NEW or (found := _namesake(planned, done, ledger)) is None:
        return ""
    other, differ = found
    parts = ", ".join("questions" if each == "questions_digest" else each for each in differ)
    said = f"in {parts} from {other}, the last run of this name"
    if not reusing:
        said += ": all questions are asked"
    if not reusing and differ == ["questions_digest"]:
        said += f", unless you repeat this command with --reuse {other}, which takes over the answers to those in both"
    with suppress(UnknownRun, UnreadableRun):
        if not ledger.counts(other).over:
            said += f"; that one goes on as well, unless you end it: python -m producer cancel {other}"
    return said


def _namesake(planned: Plan, done: Submitted, ledger: Ledger) -> tuple[str, list[str]] | None:
    """Return the last other run with the name of this one, and the parts of their specs that differ; None if none."""
    for other in ledger.run_ids():
        if other != done.run.run_id and is_called(other, planned.name):
            with suppress(UnknownRun, UnreadableRun):
                spec = ledger.run(other).spec
                differ = [each for each in RunSpec.model_fields if getattr(spec, each) != getattr(planned.spec, each)]
                return (other, differ) if differ else None
    return None
