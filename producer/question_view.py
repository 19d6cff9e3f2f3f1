"""View of one question, as text or as JSON: choices, verdict, passages and prompts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contract.choice_order import arrangements
from contract.errors import RunConfigError
from contract.ledger import Run
from contract.mode import Output
from contract.prompts import prompts_of, wants_passages
from contract.question import LABELS, Question
from contract.relevance import Sources, sources_of
from contract.spec import RunSpec
from contract.verdict import MAJORITY, ContextSource, Outcome, Passage, Verdict
from contract.wording import number
from producer.export.cells import iso
from producer.export.formats.text import named_infinities
from producer.output import Lines
from producer.stats.retrieval import was_searched_for

__all__ = ["key_shown", "question_json", "question_lines", "rendered_prompts", "shown_prompts", "verdict_facts"]

#: `Verdict.retrieval_hit` in words.
_HIT = {True: "a relevant passage was shown", False: "no relevant passage was shown", None: ""}
#: Placeholder in a prompt for passages that have not been retrieved yet.
UNKNOWN_PASSAGES = Passage(id="", score=0.0, text="‹the passages retrieved for it›")


def question_json(run: Run, question: Question, verdict: Verdict | None) -> dict[str, Any]:
    """Return the content of `show --json`."""
    return {
        "run_id": run.run_id,
        "question": question.model_dump(mode="json"),
        "verdict": named_infinities(verdict.model_dump(mode="json")) if verdict else None,
        "prompts": shown_prompts(run.spec, question, verdict),
    }


def question_lines(run: Run, question: Question, verdict: Verdict | None, beside: Lines) -> Lines:
    """Return the output lines of `show`, with the choices in order of score, best first.

    `beside` are lines about the run, which follow those of the verdict.
    """
    scores = verdict.choice_scores if verdict else {}
    chosen = verdict.choice if verdict else None
    lines = [("run", run.run_id), ("question", f"{question.id}\n{question.question}")]
    ranked = sorted(question.labels, key=lambda label: (-scores.get(label, float("-inf")), label))
    for at, label in enumerate(ranked):
        score = f"{scores[label]:>12.6f}" if label in scores else f"{'':>12}"
        marks = f"{'  ← chosen' if label == chosen else ''}{'  ← key' if label in question.right else ''}"
        lines.append(("" if at else "choices", f"{score}  {label}. {question.choice_text(label)}{marks}"))
    if verdict is None:
        lines.append(("outcome", "unsettled"))
    else:
        lines += [*_verdict_lines(run.spec, question, verdict), *beside]
        lines += _passage_lines(sources_of(question), verdict)
        if wants_passages(question, run.spec) and was_searched_for(verdict) and not verdict.passages:
            lines.append(("passages", "none found"))
    return [*lines, *(("prompt", prompt) for prompt in shown_prompts(run.spec, question, verdict))]


def key_shown(question: Question) -> str:
    """Return the right choice with its text; if there are several, one per line."""
    return "\n".join(f"{label}. {question.choice_text(label)}" for label in question.right) or "none"


def shown_prompts(spec: RunSpec, question: Question, verdict: Verdict | None) -> list[str]:
    """Return `rendered_prompts`; if the template fails on this question, which is then `failed`, a placeholder."""
    try:
        return rendered_prompts(spec, question, verdict)
    except RunConfigError as trouble:
        return [f"‹none: {trouble.message}›"]


def rendered_prompts(spec: RunSpec, question: Question, verdict: Verdict | None = None) -> list[str]:
    """Return the prompts the model saw, with a placeholder for passages that were not, or not yet, retrieved.

    Raises RunConfigError if the template fails on this question.
    """
    passages = verdict.passages if verdict else ()
    searched = verdict is not None and was_searched_for(verdict)
    if not searched and wants_passages(question, spec):
        passages = (UNKNOWN_PASSAGES,)
    return prompts_of(question, spec, passages)


def verdict_facts(verdict: Verdict) -> dict[str, str]:
    """Return label → what a verdict says besides outcome, choice, confidence and text; without what it lacks."""
    facts = {
        "error": f"{verdict.error.type}: {verdict.error.message}" if verdict.error else "",
        "rule": verdict.rule,
        "judge": verdict.judge_reason,
        "margin": _margin(verdict),
        "label mass": "" if verdict.label_mass is None else f"{verdict.label_mass:.6f}",
        "rotations": _rotations_shown(verdict),
        "context": _context(verdict),
        "truncated": _truncated(verdict),
        "tokens": f"{verdict.prompt_tokens:,} prompt, {verdict.completion_tokens:,} completion",
        "times": f"queued {verdict.queued_ms:,.1f} ms, generate call {verdict.latency_ms:,.1f} ms",
        "attempts": str(verdict.attempts),
        "by": f"{verdict.worker}{_batch(verdict)}" if verdict.worker else "",
        "settled": iso(verdict.settled_at) if verdict.settled_at else "",
        "reused": f"the answer that {verdict.reused_from} got" if verdict.reused_from else "",
    }
    return {name: value for name, value in facts.items() if value}


def _truncated(verdict: Verdict) -> str:
    if not verdict.truncated:
        return ""
    if verdict.context_full:
        return "yes, before max_tokens: the model's context was full (vllm_args.max_model_len)"
    early = "yes, before the text began: raise sampling.max_tokens (hidden reasoning counts)"
    return "yes" if verdict.raw_text else early


def _batch(verdict: Verdict) -> str:
    """Return the batch and its size; its name ends in a number, of which the size must not look like the total."""
    return f", batch {verdict.batch_id} with {number(verdict.batch_size, 'question')}" if verdict.batch_id else ""


def _margin(verdict: Verdict) -> str:
    if (margin := verdict.margin) is None:
        return ""
    shown = f"{margin:.4f}" if round(margin, 4) or not margin else f"{margin:.1g}"  # a near-tie is no tie
    return f"{shown} {_unit(verdict)}"


def _unit(verdict: Verdict) -> str:
    if verdict.rule == MAJORITY:
        return "of the texts"
    return f"nats {verdict.rule.replace('-', ' ')}" if verdict.rule.startswith("per-") else "nats"


def _rotations_shown(verdict: Verdict) -> str:
    if not verdict.rotations:
        return ""
    chosen = ", ".join(choice or "none" for choice in verdict.rotation_choices)
    judged = verdict.outcome is not Outcome.ANSWERED  # without a key, nothing can be correct
    parts = [f"correct in {verdict.rotations_right} of {verdict.rotations}"] if judged else []
    return ", ".join([*parts, *([f"chosen: {chosen}"] if chosen else [])])


def _verdict_lines(spec: RunSpec, question: Question, verdict: Verdict) -> Lines:
    confidence = "" if verdict.confidence is None else f"{verdict.confidence:.6f}"
    text = repr(verdict.raw_text) if verdict.raw_text else ""
    first = {"outcome": verdict.outcome.value, "confidence": confidence, "raw text": text}
    each = {"rotations": "\n".join(_rotations(spec, question, verdict))} if verdict.rotations else {}
    return [line for line in (first | verdict_facts(verdict) | each).items() if line[1]]


def _rotations(spec: RunSpec, question: Question, verdict: Verdict) -> Iterator[str]:
    """Yield how many rotations are correct, the choice in each, and which one's scores or text are shown."""
    if question.answer is not None:
        yield f"correct in {verdict.rotations_right} of {verdict.rotations}"
    comparable = question.answer is not None and spec.mode.chooses
    shown = verdict.rotation_choices.index(verdict.choice) if verdict.choice in verdict.rotation_choices else 0
    what = "text" if spec.mode.output is Output.TEXT else "scores"
    for at, (choice, each) in enumerate(zip(verdict.rotation_choices, arrangements(question, spec), strict=False)):
        order = " ".join(LABELS[place] for place in each.order)
        judged = f", {'correct' if choice in question.right else 'wrong'}" if choice and comparable else ""
        yield f"{order}: {choice or 'none'} chosen{judged}{f'  ← the {what} above' if at == shown else ''}"


def _context(verdict: Verdict) -> str:
    if verdict.context_source is ContextSource.NONE and verdict.retrieval_hit is None:
        return ""
    return " · ".join(filter(None, (verdict.context_source, _HIT[verdict.retrieval_hit])))


def _passage_lines(sources: Sources, verdict: Verdict) -> Lines:
    """Return each retrieved passage, marked if the question file names it as a source, with its text below."""
    lines: Lines = []
    for each in verdict.passages:
        parts = [f"{each.rank}.  {each.score:.6f}  {each.id}"]
        parts += [f"document {each.document}"] if each.document not in ("", each.id) else []
        parts += [f"path {each.path}"] if each.path else []
        parts.append("shown" if each.shown else "did not fit")
        mark = "  ← relevant" if sources.answered_by(each) else ""
        lines.append(("" if lines else "passages", f"{' · '.join(parts)}{mark}\n{each.text}"))
    return lines
