"""Refusing to compare two runs that cannot be paired, with what tells them apart and what helps."""

from __future__ import annotations

from collections.abc import Sequence

from contract.errors import InputError
from contract.ledger import Ledger, Run
from contract.question import Question
from contract.wording import number
from producer.bar import reading
from producer.compare.shared_questions import Asked, Shared

__all__ = ["refuse_incomparable"]


def refuse_incomparable(ledger: Ledger, a: Run, b: Run, *, shared: bool) -> None:
    """Raise InputError if `a` and `b` cannot be paired.

    That is if one of them has no right or wrong answers or is not settled, or if they asked different questions, unless
    `shared`.
    """
    for run in (a, b):
        _refuse_unmarked(run)
    if not shared and a.spec.questions_digest != b.spec.questions_digest:
        raise _different_questions(ledger, a, b)
    for run in (a, b):
        _refuse_unsettled(ledger, run)


def _refuse_unmarked(run: Run) -> None:
    if not run.spec.mode.marked:
        raise InputError(
            f"Run {run.run_id} (mode {run.spec.mode}) has no right or wrong answers: its texts are the result.",
            hint="Export both runs, and join their results.csv by question_id.",
        )


def _refuse_unsettled(ledger: Ledger, run: Run) -> None:
    counts = ledger.counts(run.run_id)
    if counts.finished:
        return
    wait = f"Wait until it is settled: python -m producer watch {run.run_id}"
    resume = f"It is {counts.state}; resume it first: python -m producer resume {run.run_id}"
    resume += ", or export both as they are and join their results.csv by question_id."
    raise InputError(
        f"Run {run.run_id} is not settled: {counts.settled:,} of {number(counts.total, 'question')} settled.",
        hint=resume if counts.halted else wait,
    )


def _different_questions(ledger: Ledger, a: Run, b: Run) -> InputError:
    asked = Asked()
    with reading(ledger, a, "compare") as results:
        for question, _ in results:
            asked.add(question)
    shared = Shared(asked)
    with reading(ledger, b, "compare") as results:
        for question, _ in results:
            shared.place_in_a(question)
    changed = shared.left_out().changed
    common = shared.found + changed
    how = f"they have {a.questions:,} and {number(b.questions, 'question id')}, with {common:,} in common"
    differ: list[str] = []
    if common == a.questions == b.questions:
        first, differ = _first_difference(ledger, a, b)
        how += f", but they differ, {_where(first, differ)}" if differ else ", but in another order"
    elif shared.first_changed is not None:
        of_a, of_b = (ledger.result(run.run_id, shared.first_changed)[0] for run in (a, b))
        differ = _differing_fields(of_a, of_b)
        how += f", of which {changed:,} differ, {_where(shared.first_changed, differ)}"
    hint = (
        "Enqueue the same file, and give --qrels to both or none: relevance judgements belong to the questions."
        if "gold_passages" in differ
        else "Enqueue the same file for both, with the same --limit or --sample."
    )
    if shared.found:
        hint = f"Add --shared to compare the {shared.found:,} that are the same in both, or {hint[0].lower()}{hint[1:]}"
    return InputError(f"Runs {a.run_id} and {b.run_id} asked different questions: {how}.", hint=hint)


def _where(question_id: str, fields: Sequence[str]) -> str:
    return f"first in {' and '.join(fields)} of {question_id}"


def _first_difference(ledger: Ledger, a: Run, b: Run) -> tuple[str, list[str]]:
    """Return the id of the first question that differs, and in which fields; none if the order differs before."""
    with reading(ledger, a, "compare") as results_a, reading(ledger, b, "compare") as results_b:
        for (one, _), (other, _) in zip(results_a, results_b, strict=True):
            if one.id != other.id:
                break
            if fields := _differing_fields(one, other):
                return one.id, fields
    return "", []


def _differing_fields(one: Question, other: Question) -> list[str]:
    return [name for name in Question.model_fields if getattr(one, name) != getattr(other, name)]
