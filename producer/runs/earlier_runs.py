"""Earlier runs that matter to a new one: the same asked already, the last one of its name, answers to take over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from contract.errors import UnknownRun, UnreadableRun
from contract.ledger import Ledger, Run
from contract.mode import Normalization
from contract.names import has_fingerprint, is_called
from contract.spec import RunSpec
from producer.compare.spec_differences import differences
from producer.runs.planning import Plan
from producer.runs.reuse import Earlier, are_alike
from producer.runs.submit import State, Submitted

__all__ = ["about_namesake", "answers_to_reuse", "asked_already"]

#: Whichever of these a run chooses by, its results have the accuracy by each of them.
OF_ONE_ASKING = frozenset({*Normalization} - {Normalization.MUTUAL_INFO})

#: Field of a spec → its name for the user, where that is another one.
NAMES_FOR_USERS = {"questions_digest": "questions", "use_context_field": "rag.use_context_field"}


def asked_already(done: Iterable[Submitted], ledger: Ledger) -> dict[str, list[str]]:
    """Return the new runs whose questions were already asked in the same way, with the ids of those earlier runs.

    A user who did not intend to ask again can cancel the new run.
    """
    new = [each.run for each in done if each.state is State.NEW]
    there = ledger.run_ids() if new else []
    others: dict[str, list[str]] = {}
    for run in new:
        if found := [each.run_id for each in _same_as(run.run_id, run.spec, there, ledger)]:
            others[run.run_id] = found
    return others


def _same_as(run_id: str, spec: RunSpec, there: Iterable[str], ledger: Ledger) -> list[Run]:
    """Return the runs `there`, other than `run_id`, that ask the same questions in the same way."""
    fingerprint = spec.fingerprint()
    # Only these are read, as each run may hold thousands of examples.
    alike = [each for each in there if each != run_id and has_fingerprint(each, fingerprint)]
    return [each for each in ledger.runs(alike) if each.spec.fingerprint() == fingerprint]


def answers_to_reuse(planned: Plan, ledger: Ledger) -> Earlier | None:
    """Return the answers of the last other run of this name that was asked in the same way.

    Without one, they are those of the last run that asked the same questions in the same way under another name, such
    as before its entry was renamed; None without any.
    """
    alike = (run for run in _namesakes(planned, ledger) if are_alike(run.spec, planned.spec))
    found = next(alike, None) or next(iter(_same_as(planned.run_id, planned.spec, ledger.run_ids(), ledger)), None)
    return Earlier(ledger, found, planned.spec) if found else None


def about_namesake(planned: Plan, done: Submitted, ledger: Ledger, *, reuse_by: str) -> str:
    """Return how this new run differs from the last other one of its name, and how to end that one; empty if none.

    A user who meant to go on with that run sees why it is another one. `reuse_by` is the option that would take over
    answers, with `{run}` where it names the run; empty if it was given.
    """
    if done.state is not State.NEW or (other := next(_namesakes(planned, ledger), None)) is None:
        return ""
    differ = [each for each in RunSpec.model_fields if getattr(other.spec, each) != getattr(planned.spec, each)]
    if not differ:
        return ""
    said = f"in {_in_what(other.spec, planned.spec, differ)} from {other.run_id}, the last run of this name"
    if not done.reused:
        said += f": all questions are asked{_how_to_avoid_asking(planned.spec, other, differ, reuse_by)}"
    with suppress(UnknownRun, UnreadableRun):
        if not ledger.counts(other.run_id).over:
            said += f"; that one goes on as well, unless you end it: python -m producer cancel {other.run_id}"
    return said


def _namesakes(planned: Plan, ledger: Ledger) -> Iterator[Run]:
    """Yield the other runs with the name of this one, newest first."""
    own = planned.run_id  # a hash over all few-shot examples
    for other in ledger.run_ids():
        if other != own and is_called(other, planned.name):
            with suppress(UnknownRun, UnreadableRun):
                yield ledger.run(other)


def _in_what(old: RunSpec, new: RunSpec, parts: Sequence[str]) -> str:
    """Return the names of the `parts` that differ; of one with settings of its own, such as `sampling`, of these."""
    settings = differences(old, new)
    names: list[str] = []
    for part in parts:
        inner = [each for each in settings if each.startswith(f"{part}.")]
        both = part != "prompt" and getattr(old, part) is not None and getattr(new, part) is not None
        names += inner if inner and both else [NAMES_FOR_USERS.get(part, part)]
    return ", ".join(dict.fromkeys(names))


def _how_to_avoid_asking(spec: RunSpec, other: Run, differ: Sequence[str], reuse_by: str) -> str:
    """Return how to avoid asking all questions, if that is possible; else an empty string."""
    if differ == ["normalization"] and {spec.normalization, other.spec.normalization} <= OF_ONE_ASKING:
        return f", although that one tells this accuracy, too: python -m producer export {other.run_id}"
    if differ == ["questions_digest"] and reuse_by:
        option = reuse_by.format(run=other.run_id)
        return f", unless you repeat this command with {option}, which takes over the answers to those in both"
    return ""
