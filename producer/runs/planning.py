"""From a question file to the plan of a run, checked before anything is written.

The whole file is read, which yields the digest that determines the run's id.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from contract.errors import RunConfigError
from contract.ledger import Ledger, Run, Taken, now
from contract.names import LAST, run_id_for, run_name, slug
from contract.prefix_order import PrefixOrder
from contract.priority import Priority
from contract.settings import Settings
from contract.spec import RunSpec
from producer.intake.qrels import Qrels
from producer.intake.selection import Selection
from producer.intake.survey import Survey, survey
from producer.readers import Source
from producer.runs.choice_references import ChoiceReferences
from producer.runs.few_shot import FewShotCheck
from producer.runs.runconfig import NO_QUESTIONS, RunConfig, refuse_free
from producer.runs.source_coverage import taken_of

__all__ = ["Plan", "afresh", "plan", "plan_for"]


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
    #: 1, or which time this is that the same questions are deliberately asked again (`--fresh`).
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
            created_at=now(),
            priority=priority,
            taken=self.taken,
        )


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
    """Check templates and file, and determine the spec. Raises InputError; neither reads nor writes the ledger.

    `name` is the run's name, by default made of file, model and mode. `skip_bad`: bad rows are left out, not refused.
    `qrels` are relevance judgements for passages.
    """
    refuse_free(config)
    if name and slug(name) == LAST:
        raise RunConfigError(
            f"--run {name}: no run can be called so: commands take {LAST!r} as the newest run.",
            hint="Choose another name.",
        )
    # Made before the questions' digest is known, so that templates and examples are checked before a long file is read.
    texts = config.texts(source)
    draft = config.to_spec(NO_QUESTIONS, settings, texts)
    prefix_order, few_shot = PrefixOrder(draft), FewShotCheck(draft.few_shot)
    choice_references = ChoiceReferences(draft)
    observers = [each.add for each in (prefix_order, few_shot, choice_references) if each.needed]
    change = qrels.join if qrels else None
    found = survey(source, selection, skip_bad=skip_bad, observers=observers, change=change)
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


def plan_for(planned: Plan, model: str, name: str) -> Plan:
    """Return `planned` for another `model` and under another `name`. No file is read again."""
    return replace(planned, name=run_name(name), spec=planned.spec.model_copy(update={"model": model}))


def afresh(planned: Plan, ledger: Ledger) -> Plan:
    """Return the plan with the first `repeat` for which the ledger has no run."""
    there = set(ledger.run_ids())  # also those of another version, which cannot be read here
    while planned.run_id in there:
        planned = replace(planned, repeat=planned.repeat + 1)
    return planned
