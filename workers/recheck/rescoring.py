"""Rescoring: a run's stored texts, read again by the current rules. No model is asked."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count as count_from
from typing import Any

from contract.choice_order import arrangements
from contract.chunks import chunks
from contract.errors import RunConfigError, UnknownRun
from contract.ledger import Ledger, Run, now
from contract.names import run_id_for, without_fingerprint
from contract.question import Question
from contract.verdict import Failure, Outcome, Verdict
from workers.scoring.extract import rules_version
from workers.scoring.generate import read_text
from workers.scoring.vote import count
from workers.verdicts import combined, in_original_labels

__all__ = ["Rescored", "cut_short", "rescore"]

log = logging.getLogger(__name__)

CHUNK = 500
#: The fields of a verdict whose text could not be read.
UNREAD: dict[str, Any] = {"choice": None, "choice_scores": {}, "confidence": None, "margin": None, "rule": ""}


@dataclass(frozen=True, slots=True)
class Rescored:
    """A run made by rescoring another, and how many of its outcomes or choices changed."""

    run: Run
    questions: int
    changed: int


def rescore(ledger: Ledger, old: Run) -> Rescored:
    """Rescore the stored texts of a finished run with the current rules, as a new run; no model is asked.

    A run that was made so itself leads to the one that has the texts, if that is still there.

    The same rules make the same run, and others another one. If failed questions of the old run were asked again after
    that run was made, there are new texts, but its verdicts stand: so a further run is made, with a number in its name.
    A question on whose text the rules raise an error is `failed`, with the reason.

    Raises RunConfigError for a run without texts to read, or that is not finished, UnknownRun if either is purged.
    """
    old = _with_texts(ledger, old)
    _refuse_unreadable(old)
    if not ledger.counts(old.run_id).finished:
        raise _not_finished(old)
    spec = old.spec.model_copy(update={"rescored_from": old.run_id, "rules_version": rules_version()})
    name = f"{old.run_id.removesuffix(f'-{old.spec.fingerprint()[:8]}')}-rescored"
    done = None
    repeats = count_from(1)
    while done is None:
        run_id = run_id_for(name, spec, next(repeats))
        new = old.model_copy(update={"run_id": run_id, "spec": spec, "created_at": now()})
        with _explaining_purge(ledger, old, new):
            done = _rescored_into(ledger, old, new)
    return done


@contextmanager
def _explaining_purge(ledger: Ledger, old: Run, new: Run) -> Iterator[None]:
    """Say which of the two was purged meanwhile, and what to do."""
    try:
        yield
    except UnknownRun as trouble:
        there = [each.run_id for each in ledger.runs([old.run_id, new.run_id])]
        if old.run_id in there:
            raise UnknownRun(f"{new.run_id} was purged meanwhile.", hint="Repeat this command.") from trouble
        hint = ""
        if new.run_id in there:
            done = ledger.counts(new.run_id).finished
            what = "has them all." if done else f"cannot be finished: python -m producer purge {new.run_id}"
            hint = f"{new.run_id} {what}"
        raise UnknownRun(f"{old.run_id} was purged while its texts were read.", hint=hint) from trouble


def cut_short(ledger: Ledger, done: Rescored) -> list[str]:
    """Return other rescorings of the same run that are not finished, as the rules or the texts have changed since."""
    own = done.run
    name = without_fingerprint(own.run_id)
    # Not among the open runs: one that was killed between two commits has no unsettled question.
    alike = ledger.runs([each for each in ledger.run_ids() if each != own.run_id and each.startswith(f"{name}-")])
    others = (run for run in alike if run.spec.rescored_from == own.spec.rescored_from)
    return [run.run_id for run, counts in ledger.standings(others) if not counts.finished]


def _with_texts(ledger: Ledger, run: Run) -> Run:
    """Return the run that `run` rescores, unless that was purged: then it is the one that has the texts."""
    with suppress(UnknownRun):
        return _with_texts(ledger, ledger.run(run.spec.rescored_from)) if run.spec.rescored_from else run
    return run


def _rescored_into(ledger: Ledger, old: Run, new: Run) -> Rescored | None:
    """Read the texts of `old` again and write the verdicts into `new`; return None if that has verdicts on others."""
    ledger.open_run(new)
    if not ledger.counts(new.run_id).finished:  # first: if this is killed, no verdict is without its engine
        for used in ledger.engines(old.run_id):  # those that wrote the texts determine these results, too
            note = used.model_copy(update={"engine": used.engine | {"rules": rules_version()}})
            ledger.note_engine(new.run_id, note)
    questions = changed = 0
    for results in chunks(ledger.results(old.run_id), CHUNK):
        if any(verdict is None for _, verdict in results):  # not to be left out: it would come behind all others
            raise _not_finished(old, " any more")
        pairs = [(question, verdict, _read_again(old, question, verdict)) for question, verdict in results if verdict]
        ledger.add_questions(new.run_id, [question for question, _, _ in pairs])
        if len(ledger.commit(new.run_id, [after for _, _, after in pairs])) < len(pairs):
            return None
        questions += len(pairs)
        changed += sum((before.outcome, before.choice) != (after.outcome, after.choice) for _, before, after in pairs)
    return Rescored(new, questions, changed)


def _not_finished(run: Run, why: str = "") -> RunConfigError:
    return RunConfigError(f"Run {run.run_id} is not finished{why}.", hint="Wait for it, or purge it.")


def _refuse_unreadable(run: Run) -> None:
    """Raise RunConfigError if no rule for free text decided the outcomes of `run`, or not all texts are stored."""
    if run.spec.mode.judged:
        raise RunConfigError(
            f"The outcomes of {run.run_id} are its judge's grades: no rule read them from the texts.",
            hint="To grade again, enqueue it with --fresh, or under another --run.",
        )
    if not run.spec.mode.read_by_rules:
        what = "has no texts in which rules would read a choice"
        raise RunConfigError(
            f"Run {run.run_id} (mode {run.spec.mode}) {what}.", hint="Only the modes generate and vote have."
        )
    if run.spec.circular:
        raise RunConfigError(
            f"Run {run.run_id} (circular) stores the text of one rotation of each question, but all of them decide.",
            hint="To apply the current rules, ask the model again: enqueue it with --fresh, or under another --run.",
        )


def _read_again(run: Run, question: Question, verdict: Verdict) -> Verdict:
    """Apply the current rules to the stored text. A failure stays one: it has no text."""
    if verdict.outcome is Outcome.FAILED:
        return verdict
    try:
        found = _found_again(run, question, verdict)
    except Exception as trouble:  # of the rules: the other texts are read all the same
        log.warning("question %s cannot be read again", question.id, exc_info=True)
        failure = Failure(
            type=type(trouble).__name__, message=f"its text cannot be read by the current rules: {trouble}"
        )
        found = {**UNREAD, "outcome": Outcome.FAILED, "error": failure}
    return verdict.model_copy(update=found)


def _found_again(run: Run, question: Question, verdict: Verdict) -> dict[str, Any]:
    """Return the fields of `verdict` that the current rules decide."""
    (arrangement,) = arrangements(question, run.spec)
    shown = arrangement.question
    if run.spec.mode.votes:
        reading = count(shown, json.loads(verdict.raw_text), run.spec, truncated=verdict.truncated)
    else:
        reading = read_text(shown, verdict.raw_text, run.spec, truncated=verdict.truncated)
    return combined(question, [in_original_labels(reading, arrangement)])
