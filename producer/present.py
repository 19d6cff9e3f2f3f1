"""What goes to stdout: labelled lines and tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from contract import keys
from contract.fleet import WorkerRecord
from contract.ledger import Counts, Run
from contract.prompts import prompts_of
from contract.question import Question
from contract.relevance import Sources, sources_of
from contract.verdict import ContextSource, Outcome, Verdict
from producer.broker import Broker
from producer.columns import iso
from producer.harmless import for_json, for_terminal
from producer.stats import Calibration, Mean, Pairs, Share, Tally
from producer.unserved import start_workers

__all__ = [
    "chance",
    "difference",
    "doubt_lines",
    "echo_json",
    "echo_lines",
    "echo_table",
    "interval",
    "number",
    "outcome_line",
    "question_json",
    "question_lines",
    "queue_lines",
    "queues_json",
    "result_lines",
    "status_json",
    "status_lines",
    "workers_line",
    "workers_of",
]

#: A label and what stands behind it.
Line = tuple[str, str]
Lines = list[Line]
#: Width of a table that no terminal limits.
PIPE_WIDTH = 200


def echo_json(content: Any) -> None:
    """One JSON document."""
    click.echo(for_json(json.dumps(content, ensure_ascii=False, indent=2)))


def echo_lines(lines: Lines) -> None:
    """`label  value` lines, the values under each other."""
    width = max(len(label) for label, _ in lines) + 2
    for label, value in lines:
        click.echo(for_terminal(f"{label:<{width}}{value}").replace("\n", "\n" + " " * width).rstrip())


def echo_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table; numbers are expected to come formatted."""
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        console = Console(file=sys.stdout, width=PIPE_WIDTH)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(for_terminal(cell)) for cell in row))
    console.print(table)


def number(count: int, thing: str) -> str:
    """`1 message`, `1,200 messages`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def outcome_line(tally: Tally) -> str:
    """All outcomes with their numbers; unanswered and failed always among them."""
    shown = [each for each in Outcome if each is not Outcome.ANSWERED or tally.count(each)]
    return " · ".join(f"{each} {tally.count(each):,}" for each in shown)


def interval(figure: Share | Mean) -> str:
    """A figure with its interval, and of how many questions it is."""
    counted = f"{figure.right:,} of {figure.of:,}" if isinstance(figure, Share) else f"mean of {figure.of:,}"
    return f"{figure.value:.3f}  95 % interval {figure.low:.3f} to {figure.high:.3f} ({counted})"


def chance(run: Run) -> str:
    """What guessing scores."""
    return "-" if run.chance is None else f"{run.chance:.3f}"


def difference(pairs: Pairs) -> str:
    """How much more of the pairs B got right than A, with the interval of that."""
    bounds = pairs.interval()
    return f"{pairs.difference:+.3f}  95 % interval {bounds.low:+.3f} to {bounds.high:+.3f}"


def result_lines(
    run: Run,
    tally: Tally,
    standing: str,
    files: Iterable[Path] = (),
    *,
    beside: Sequence[Line] = (),
    more: Sequence[Line] = (),
) -> Lines:
    """How a run came out; where it is not settled, that comes first.

    `beside` are lines that belong to the accuracy, `more` those that are to stand with the rest.
    """
    unfinished = f"{standing}, not finished: {run.questions - tally.settled:,} of {run.questions:,} without a verdict"
    lines = [
        ("run", run.run_id),
        *([] if standing == "settled" else [("state", unfinished)]),
        *_accuracy_lines(tally),
        *beside,
        ("chance", chance(run)),
        *_calibration_lines(tally.calibration),
        ("outcomes", outcome_line(tally)),
        *doubt_lines(tally),
        *more,
    ]
    if tally.keyless.total():
        lines.append(("no key", f"{tally.keyless.total():,} questions, in no accuracy"))
    return lines + [("results" if not at else "", str(path)) for at, path in enumerate(files)]


def _accuracy_lines(tally: Tally) -> Lines:
    over_all, over_answered = tally.over_all(), tally.over_answered()
    if over_all is None:
        return [("accuracy", "none yet")]
    lines = [("accuracy", f"{interval(over_all)} of all; unanswered and failed ones count as not right")]
    return lines + ([("", f"{interval(over_answered)} of those answered")] if over_answered else [])


def doubt_lines(tally: Tally) -> Lines:
    """What makes answers worth less than they look; nothing where there is nothing."""
    lines = []
    if tally.simulated:
        made_up = "made up by the simulated engine, so no figure here means anything; `purge` the run and ask a model"
        lines.append(("simulated", f"{tally.simulated:,} of {tally.settled:,}: {made_up}"))
    if (mass := tally.mean_label_mass()) is not None:
        lines.append(("label mass", f"{mass:.3f} in the mean: so probable is it that any label comes next"))
    if tally.tied:
        lines.append(("tied", f"{tally.tied:,} of {tally.settled:,}: two choices score the same, the first was taken"))
    if tally.truncated:
        lines.append(("truncated", f"{tally.truncated:,} of {tally.settled:,}: the text ran into max_tokens"))
    return lines


def _calibration_lines(calibration: Calibration) -> Lines:
    figures = {"ECE": calibration.ece(), "Brier": calibration.brier()}
    known = [f"{name} {value:.3f}" for name, value in figures.items() if value is not None]
    return [("calibration", " · ".join(known))] if known else []


def status_json(run: Run, counts: Counts, broker: Broker) -> dict[str, Any]:
    """`status` for programs."""
    return {
        "run_id": run.run_id,
        "source": run.source,
        "model": run.spec.model,
        "mode": run.spec.mode.value,
        "state": counts.standing,
        **Tally.of_counts(counts, run.without_key).to_json(),
        "finished": counts.finished,
        "chance": run.chance,
        "priority": run.priority.name.lower(),
        "weight": broker.weight(run.run_id),
        "queues": queues_json(run, broker),
        "workers": [each.model_dump(mode="json", exclude={"engine"}) for each in workers_of(run, broker)],
    }


def status_lines(run: Run, counts: Counts, broker: Broker) -> Lines:
    """`status` for people."""
    spec = run.spec
    tally = Tally.of_counts(counts, run.without_key)
    lines = result_lines(run, tally, counts.standing)
    asked = [run.source, spec.model, spec.mode, f"normalization {spec.normalization}"]
    asked += [f"prompt {spec.prompt.name} {spec.prompt.version}"]
    asked += [f"{number(spec.few_shot.k, 'example')}, {spec.few_shot.selection}"] if spec.few_shot else []
    lines[1:1] = [
        ("asked", " · ".join(asked)),
        ("settled", f"{counts.settled:,} of {counts.total:,} ({100 * counts.settled / counts.total:.1f} %)"),
    ]
    weight = broker.weight(run.run_id)
    return [
        *lines,
        *queue_lines(run, broker),
        *([("weight", f"{weight}: so many turns where other runs get one")] if weight > 1 else []),
        ("workers", workers_line(run, counts.finished, broker)),
    ]


def queues_json(run: Run, broker: Broker) -> dict[str, int]:
    """Messages that wait on each of the run's queues."""
    return {queue: broker.queue_length(queue) for queue in keys.route(run.spec)}


def queue_lines(run: Run, broker: Broker) -> Lines:
    """The same for people."""
    return [("queue", f"{queue}: {number(n, 'message')} waiting") for queue, n in queues_json(run, broker).items()]


def workers_line(run: Run, finished: bool, broker: Broker) -> str:
    """Who works on the run, and what to do where nobody takes from one of its queues."""
    live = workers_of(run, broker)
    names = f"{len(live)} live: {', '.join(each.name for each in live)}" if live else "none live"
    if any(each.engine.get("engine") == "simulated" for each in live):
        names += "; the engine is simulated: its answers mean nothing"
    unserved = [queue for queue in keys.route(run.spec) if not broker.workers(queue)]
    if finished or not unserved:
        return names
    remedy = start_workers(unserved, broker.all_workers())
    return (
        f"{names}; nobody takes from {' and '.join(unserved)}, start: {remedy}"
        if live
        else f"{names}; start one: {remedy}"
    )


def workers_of(run: Run, broker: Broker) -> list[WorkerRecord]:
    """Live workers that take from one of the run's queues."""
    return [worker for queue in keys.route(run.spec) for worker in broker.workers(queue)]


def question_json(run: Run, question: Question, verdict: Verdict | None) -> dict[str, Any]:
    """`show` for programs."""
    return {
        "run_id": run.run_id,
        "question": question.model_dump(mode="json"),
        "verdict": verdict.model_dump(mode="json") if verdict else None,
        "prompts": prompts_of(question, run.spec, verdict.passages if verdict else ()),
    }


def question_lines(run: Run, question: Question, verdict: Verdict | None) -> Lines:
    """`show` for people: choices with the best score first."""
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
        lines += _verdict_lines(verdict) + _passage_lines(sources_of(question), verdict)
    prompts = prompts_of(question, run.spec, verdict.passages if verdict else ())
    return [*lines, *(("prompt", prompt) for prompt in prompts)]


def _verdict_lines(verdict: Verdict) -> Lines:
    times = f"queued {verdict.queued_ms:,.1f} ms · generate call {verdict.latency_ms:,.1f} ms"
    settled_at = f" · settled {iso(verdict.settled_at)}" if verdict.settled_at else ""
    lines = [
        ("outcome", f"{verdict.outcome} · attempts {verdict.attempts}"),
        ("rule", verdict.rule),
        ("raw text", repr(verdict.raw_text) if verdict.raw_text else ""),
        ("judge", verdict.judge_reason),
        ("context", _context(verdict)),
        ("rotations", f"right in {verdict.rotations_right} of {verdict.rotations}" if verdict.rotations else ""),
        ("times", times + settled_at),
        ("by", f"{verdict.worker} · batch {verdict.batch_id} of {verdict.batch_size}" if verdict.worker else ""),
        ("error", f"{verdict.error.type}: {verdict.error.message}" if verdict.error else ""),
    ]
    if verdict.label_mass is not None:
        lines.insert(1, ("label mass", f"{verdict.label_mass:.6f}"))
    if verdict.confidence is not None:
        lines.insert(1, ("confidence", f"{verdict.confidence:.6f}"))
    return [line for line in lines if line[1]]


def _context(verdict: Verdict) -> str:
    if verdict.context_source is ContextSource.NONE and verdict.retrieval_hit is None:
        return ""
    hit = {True: "a right passage was shown", False: "no right passage was shown", None: ""}[verdict.retrieval_hit]
    return " · ".join(filter(None, (verdict.context_source, hit)))


def _passage_lines(sources: Sources, verdict: Verdict) -> Lines:
    """Each retrieved passage with what its question's file says of it, and its text below."""
    lines: Lines = []
    for each in verdict.passages:
        parts = [f"{each.rank}.  {each.score:.6f}  {each.id}"]
        parts += [f"document {each.document}"] if each.document not in ("", each.id) else []
        parts += [f"path {each.path}"] if each.path else []
        parts.append("shown" if each.shown else "no room for it")
        mark = "  ← answers" if sources.answered_by(each) else ""
        lines.append(("" if lines else "passages", f"{' · '.join(parts)}{mark}\n{each.text}"))
    return lines
