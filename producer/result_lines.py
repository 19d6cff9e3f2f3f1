"""The results of a run in words: its figures with their intervals, and the lines that commands print of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from contract.ledger import Run
from contract.mode import Normalization
from contract.prompts import shows_choices
from contract.spec import Judge, RunSpec
from contract.verdict import Outcome
from contract.wording import number
from producer.output import Line, Lines, labelled
from producer.stats import Calibration, Contexts, Interval, Mean, Pairs, Share, Tally
from producer.stats.agreement import Agreement
from producer.stats.calibration import PROBABILITIES, confidence_of
from producer.stats.denominators import ANSWERED, RESPONDED
from producer.stats.normalized import HOW, METRIC
from producer.stats.positions import Preference

__all__ = [
    "COMPARED",
    "chance",
    "context_json",
    "difference",
    "doubt_lines",
    "interval",
    "judge_lines",
    "outcome_line",
    "p_value",
    "position_lines",
    "result_lines",
    "shared_context",
    "sharing",
    "single_context",
    "warning_lines",
]

#: Below this mean probability of any label, the model's choice among the labels is hardly its answer.
SELDOM = 0.1
#: How choices are compared by likelihood, with lm-evaluation-harness's name for the metric.
COMPARED = {each: f"{HOW[each]} ({METRIC[each]})" for each in Normalization}


def outcome_line(tally: Tally) -> str:
    """Return all outcomes with their counts, always including unanswered and failed."""
    shown = [each for each in Outcome if each is not Outcome.ANSWERED or tally.count(each)]
    return " · ".join(f"{each} {tally.count(each):,}" for each in shown)


def interval(figure: Share | Mean) -> str:
    """Return a figure with its interval and the number of questions it is based on."""
    counted = f"{figure.right:,} of {figure.of:,}" if isinstance(figure, Share) else f"mean of {figure.of:,}"
    return f"{figure.value:.3f}  95 % interval {figure.low:.3f} to {figure.high:.3f} ({counted})"


def chance(level: float | None) -> str:
    """Return a chance level."""
    return "-" if level is None else f"{level:.3f}"


def difference(pairs: Pairs) -> str:
    """Return the accuracy difference, B minus A, with its interval."""
    bounds = pairs.interval()
    return f"{pairs.difference:+.3f}  95 % interval {bounds.low:+.3f} to {bounds.high:+.3f}"


def shared_context(found: Interval, contexts: Contexts, run: Run, sign: str = "") -> str:
    """Return the interval clustered by context, and why it is the one to quote."""
    return f"95 % interval {found.low:{sign}.3f} to {found.high:{sign}.3f}, as {sharing(contexts, run)}"


def sharing(contexts: Contexts, run: Run) -> str:
    """Return how many questions of `run` are not independent, and why."""
    if contexts.by_text:
        texts = number(contexts.shared, "text")
        return f"{contexts.sharing:,} questions have {texts}: the contexts in which they differ are not shown"
    repeats = ", or are duplicates" if run.repeats else ""
    return f"{contexts.sharing:,} questions share {number(contexts.shared, 'context')}{repeats}"


def single_context(contexts: Contexts) -> str:
    """Return what intervals cannot say where all questions share one context; empty where they do not."""
    if not contexts.is_single:
        return ""
    alike = "are the same without their contexts, which are not shown" if contexts.by_text else "share one context"
    return f"all {contexts.sharing:,} questions {alike}: intervals and tests say nothing of others"


def context_json(contexts: Contexts, found: Interval | None, **more: Any) -> dict[str, Any]:
    """Return the interval `found`, clustered by `contexts`, with `more` of it; empty if no questions share any.

    If all questions share one context, there is no such interval, but the one for independent questions is about this
    context alone, which the note says.
    """
    if note := single_context(contexts):
        bounds: dict[str, Any] = {"low": None, "high": None, **dict.fromkeys(more), "note": note}
    elif found is None:
        return {}
    else:
        bounds = {**found.to_json(), **more}
    return {**bounds, "shared": contexts.shared, "sharing": contexts.sharing}


def p_value(found: float) -> str:
    """Return `p = 0.03`; never `p = 0`, which would only mean that the value underflowed."""
    return f"p = {found:.2g}" if found else "p < 1e-300"


def result_lines(
    run: Run,
    tally: Tally,
    standing: str,
    files: Iterable[Path] = (),
    *,
    beside: Sequence[Line] = (),
    remark: str = "",
    more: Sequence[Line] = (),
) -> Lines:
    """Return the results of a run; if it is not settled, its state comes first.

    `beside` are lines that follow the accuracy, `remark` follows the chance level, `more` are lines that follow the
    outcomes.
    """
    unfinished = f"{standing}, not finished: {run.questions - tally.settled:,} of {run.questions:,} without a verdict"
    lines = [
        ("run", run.run_id),
        *([] if standing == "settled" else [("state", unfinished)]),
        *_accuracy_lines(run, tally, _over(run, tally, standing)),
        *beside,
        ("chance", chance(tally.chance(run)) + remark),
        *_calibration_lines(tally.calibration, run.spec),
        ("outcomes", outcome_line(tally)),
        *doubt_lines(run.spec, tally),
        *more,
    ]
    if tally.keys_known and tally.keyless.total():
        lines.append(("no key", f"{number(tally.keyless.total(), 'question')}, excluded from the accuracy"))
    return lines + labelled("results", map(str, files))


def _over(run: Run, tally: Tally, standing: str) -> str:
    """Return which questions the accuracy is over: of a run that goes on, it is not that of the run."""
    if tally.settled == run.questions:
        return "all questions"
    return "all settled questions" if standing == "cancelled" else f"the {tally.settled:,} settled so far"


def _accuracy_lines(run: Run, tally: Tally, over: str) -> Lines:
    over_all, over_answered = tally.over_all(), tally.over_answered()
    if tally.all_failed:
        return [("accuracy", "none: every settled question with a key failed, and an error is not a wrong answer")]
    if over_all is None and tally.keys_known:
        return [("accuracy", "none: no question has a key" if run.without_key >= run.questions else "none yet")]
    unknown = "it is not counted here which of the unanswered and failed questions have no key; `export` does"
    if over_all is None:
        lines = [("accuracy", f"unknown over {over}: {unknown}")]
    else:
        lines = [("accuracy", f"{interval(over_all)} over {over}; unanswered and failed count as incorrect")]
        lines += [] if tally.failures_known else [("", f"unknown excluding failed questions: {unknown}")]
    if responded := tally.without_failed():
        guess = _own_chance(run, tally, RESPONDED)
        lines.append(("", f"{interval(responded)} excluding failed questions; unanswered count as incorrect{guess}"))
    shown = {figure.of for figure in (over_all, responded) if figure}
    if over_answered and over_answered.of not in shown:
        guess = _own_chance(run, tally, ANSWERED)
        lines.append(("", f"{interval(over_answered)} over answered questions{guess}"))
    return lines


def _own_chance(run: Run, tally: Tally, outcomes: frozenset[Outcome]) -> str:
    """Return the chance level of these questions, if it differs from the one over all."""
    own = chance(tally.chance(run, outcomes))
    return "" if own == chance(tally.chance(run)) else f"; chance {own}"


def doubt_lines(spec: RunSpec, tally: Tally) -> Lines:
    """Return warnings about the quality of the answers; empty if there are none."""
    lines = _unread_lines(spec, tally)
    if tally.simulated:
        made_up = "made up by the simulated engine, so the figures are meaningless; `purge` the run and ask a model"
        lines.append(("simulated", f"{tally.simulated:,} of {tally.settled:,}: {made_up}"))
    lines += _mass_lines(spec, tally)
    if tally.tied:
        which = "the first was chosen (in `vote`, the one named first)"
        lines.append(("tied", f"{tally.tied:,} of {tally.settled:,}: two choices score the same, {which}"))
    return lines + _truncated_lines(spec, tally)


def warning_lines(spec: RunSpec, tally: Tally) -> Lines:
    """Return those of the doubts that can make an accuracy worthless, for a table of many runs."""
    mass = tally.mean_label_mass()
    seldom = _mass_lines(spec, tally) if mass is not None and mass < SELDOM and not spec.delimiter.strip() else []
    early = _truncated_lines(spec, tally) if tally.count(Outcome.UNANSWERED) else []
    return [*_unread_lines(spec, tally), *seldom, *early]


def _mass_lines(spec: RunSpec, tally: Tally) -> Lines:
    if (mass := tally.mean_label_mass()) is None:
        return []
    if spec.delimiter.strip():  # the model need not have begun with these words, however sure it is of the label
        return [("label mass", f"{mass:.3f} is the mean probability that the words of delimiter and a label come next")]
    begun = "" if spec.answer_prefix else ", or answer_prefix"
    seldom = f"; at this level the letters are mostly noise: try mode likelihood{begun}" if mass < SELDOM else ""
    return [("label mass", f"{mass:.3f} is the mean probability that a label comes next{seldom}")]


def _truncated_lines(spec: RunSpec, tally: Tally) -> Lines:
    if not tally.truncated:
        return []
    text = "one of its texts, or more," if spec.mode.votes or spec.circular else "the text"
    at_limit, unread = tally.truncated - tally.context_full, tally.count(Outcome.UNANSWERED)
    found = []
    if at_limit:
        early = "; raise sampling.max_tokens if that was before the answer (hidden reasoning counts)"
        found.append(f"{at_limit:,} of {tally.settled:,}: {text} was cut off at max_tokens{early if unread else ''}")
    if tally.context_full:
        remedy = "raise vllm_args.max_model_len if the model allows it, or shorten the prompts"
        found.append(
            f"{tally.context_full:,} of {tally.settled:,}: {text} was cut off before max_tokens, as the model's"
            f" context was full; {remedy}"
        )
    return [("truncated", each) for each in found]


def _unread_lines(spec: RunSpec, tally: Tally) -> Lines:
    """Return what to do if the rules could read no choice from most texts (`generate` and `vote`)."""
    unread = tally.count(Outcome.UNANSWERED)
    if not spec.mode.read_by_rules or unread <= tally.settled / 2:
        return []
    reasons = spec.few_shot and spec.few_shot.rationale  # which that mode refuses
    by_letter = "mode letter without few_shot.rationale" if reasons else "mode letter"
    remedies = [
        by_letter if shows_choices(spec.prompt) else "a prompt that shows the choices",
        *([] if spec.few_shot else ["few-shot examples"]),
        *([] if spec.answer_prefix else ["answer_prefix"]),
        "or a prompt that asks for a letter only",
        *(["or a larger sampling.max_tokens"] if tally.truncated > tally.context_full else []),
    ]
    remedy = f"look at some with `show`, then try {', '.join(remedies)}"
    return [("unanswered", f"{unread:,} of {tally.settled:,}: most texts name no choice; {remedy}")]


def position_lines(found: Preference | None, spec: RunSpec) -> Lines:
    """Return which position the model prefers, if any, and how to score without it."""
    if found is None:
        return []
    answers = "rotations" if spec.circular else "answers"
    counted = f"{found.label} is chosen in {found.chosen:,} of {found.of:,} {answers} and the key in {found.key:,.0f}"
    if spec.circular:
        return [("position", f"{counted}; correct are only questions that are right in all rotations")]
    every_order = f"{'--set shuffle=false ' if spec.shuffle else ''}--set circular=true"
    remedy = f"score by likelihood with a prompt that shows no choices, or ask every order with {every_order}"
    return [("position", f"{counted}; {remedy}")]


def judge_lines(judge: Judge | None, agreement: Agreement) -> Lines:
    """Return who judged, and how often the judge agrees with the key on answers that name a choice."""
    if judge is None:
        return []
    who = judge.model or "the model graded itself: small models accept nearly every answer"
    said = f"agrees with the key on {agreement.agrees:,} of {number(agreement.of, 'answer')} naming a choice"
    return [("judge", who), *([("", said)] if agreement.of else [])]


def _calibration_lines(calibration: Calibration, spec: RunSpec) -> Lines:
    on_key = calibration.key_probability()
    figures = (
        ("ECE", calibration.ece(), calibration.of),
        ("Brier", calibration.brier(), calibration.distributions),
        ("probability of the key", on_key.value if on_key else None, calibration.on_key.of),
    )
    known = [(name, value, of) for name, value, of in figures if value is not None]
    shown = [f"{name} {value:.3f}" + (f" (of {of:,})" if of != known[0][2] else "") for name, value, of in known]
    meant = confidence_of(spec)
    what = "" if meant == PROBABILITIES else f"; confidence is {meant}"
    return [("calibration", " · ".join(shown) + what)] if known else []
