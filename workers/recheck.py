"""Re-examination of a run: rescore its texts, ask its questions one at a time, show its prompts' tokens."""

from __future__ import annotations

import heapq
import json
import logging
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import count as count_from
from typing import Any

from contract.choice_order import arrangements
from contract.chunks import chunks
from contract.engine_info import describe_differences, differing
from contract.errors import RunConfigError, SettingsError
from contract.ledger import Ledger, Run
from contract.prompts import wants_passages
from contract.question import Question
from contract.settings import Settings
from contract.spec import Mode, run_id_for
from contract.verdict import Failure, Outcome, Passage, Verdict
from workers.engines.base import Engine
from workers.engines.encoding import Encoded, PromptEncoder
from workers.pipeline import JudgeEngine, no_judges, score_batch
from workers.scoring import Item, requests_of
from workers.scoring.extract import rules_version
from workers.scoring.generate import read_text
from workers.scoring.vote import count
from workers.verdicts import in_original_labels, outcome_of

__all__ = [
    "Flip",
    "Rescored",
    "as_asked",
    "refuse_foreign_tokens",
    "refuse_lacking_adapter",
    "request_tokens",
    "rescore",
    "serving",
    "stability",
    "unlike",
]

log = logging.getLogger(__name__)

CHUNK = 500
#: What a verdict has where its text was not read.
UNREAD: dict[str, Any] = {"choice": None, "choice_scores": {}, "confidence": None, "margin": None, "rule": ""}


@dataclass(frozen=True, slots=True)
class Rescored:
    """A run made by rescoring another, and how many of its outcomes or choices changed."""

    run: Run
    questions: int
    changed: int


def rescore(ledger: Ledger, run_id: str) -> Rescored:
    """Rescore the stored texts of a finished run with the current rules, as a new run; no model is asked.

    Different rules make a different run, the same rules the same run, unless some of the texts are others than those it
    read: failed questions may have been asked again since. Its first verdicts stand, so another run is made, with a
    number. A question whose text the rules fail on is `failed`, with the reason.

    Raises RunConfigError for a run that stores no texts to read, or is not finished.
    """
    old = ledger.run(run_id)
    _refuse_unreadable(old)
    if not ledger.counts(run_id).finished:
        raise RunConfigError(f"Run {run_id} is not finished.", hint="Wait for it, or purge it.")
    spec = old.spec.model_copy(update={"rescored_from": run_id, "rules_version": rules_version()})
    name = f"{run_id.removesuffix(f'-{old.spec.fingerprint()[:8]}')}-rescored"
    ids = (run_id_for(name, spec, repeat) for repeat in count_from(1))
    runs = (old.model_copy(update={"run_id": each, "spec": spec, "created_at": time.time()}) for each in ids)
    return next(done for new in runs if (done := _rescored_into(ledger, old, new)))


def _rescored_into(ledger: Ledger, old: Run, new: Run) -> Rescored | None:
    """Write the verdicts of `old`, read again, into `new`; None if it has verdicts on other texts."""
    ledger.open_run(new)
    questions = changed = 0
    for results in chunks(ledger.results(old.run_id), CHUNK):
        pairs = [(question, verdict, _read_again(old, question, verdict)) for question, verdict in results if verdict]
        ledger.add_questions(new.run_id, [question for question, _, _ in pairs])
        if len(ledger.commit(new.run_id, [after for _, _, after in pairs])) < len(pairs):
            return None
        questions += len(pairs)
        changed += sum((before.outcome, before.choice) != (after.outcome, after.choice) for _, before, after in pairs)
    for used in ledger.engines(old.run_id):  # the engines that wrote the texts determine these results, too
        ledger.note_engine(new.run_id, used)
    return Rescored(new, questions, changed)


def _refuse_unreadable(run: Run) -> None:
    """Raise RunConfigError if no rule for free text decided the outcomes of `run`, or not all texts are stored."""
    if run.spec.mode is Mode.JUDGE:
        raise RunConfigError(
            f"The outcomes of {run.run_id} are its judge's grades: no rule read them from the texts.",
            hint="To grade again, enqueue it with --fresh, or under another --run.",
        )
    if run.spec.mode not in {Mode.GENERATE, Mode.VOTE}:
        what = f"Run {run.run_id} (mode {run.spec.mode})"
        raise RunConfigError(f"{what} stores no texts to re-read.", hint="Only the modes generate and vote do.")
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
    except Exception as trouble:  # it must not keep the other texts from being read
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
    if run.spec.mode is Mode.VOTE:
        reading = count(shown, json.loads(verdict.raw_text), run.spec, truncated=verdict.truncated)
    else:
        reading = read_text(shown, verdict.raw_text, run.spec, truncated=verdict.truncated)
    reading = in_original_labels(reading, arrangement)
    return {
        "outcome": outcome_of(question, reading),
        "choice": reading.choice,
        "choice_scores": dict(sorted(reading.choice_scores.items())),
        "confidence": reading.confidence,
        "margin": reading.margin,
        "rule": reading.rule,
    }


@dataclass(frozen=True, slots=True)
class Flip:
    """A question with another result when asked alone.

    The result is its choice, its grade with a judge, or the choices of its rotations if circular.
    """

    question_id: str
    in_batch: str | None
    alone: str | None
    #: Best score minus second best, in the batch: a near-tie may flip by rounding alone.
    margin: float | None


def stability(
    ledger: Ledger,
    run_id: str,
    engine: Engine,
    sample: int,
    seed: int = 0,
    judge_engine: JudgeEngine = no_judges,
) -> tuple[int, list[Flip]]:
    """Ask `sample` of the run's settled questions again, one at a time; return (number asked, changed ones).

    Each gets the same passages as before: nothing is retrieved again.
    """
    run = ledger.run(run_id)
    settled = ((question, verdict) for question, verdict in ledger.results(run_id) if verdict and not verdict.error)
    draw = random.Random(seed)
    drawn = heapq.nsmallest(sample, settled, key=lambda _: draw.random())  # holds no more than the sample
    flips = []
    for question, before in drawn:
        (alone,) = score_batch([Item(question, run.spec, before.passages)], engine, judge_engine)
        then, now = (_came_out(run, verdict) for verdict in (before, alone))
        if then != now:
            flips.append(Flip(question.id, then, now, before.margin))
    return len(drawn), flips


def unlike(ledger: Ledger, run_id: str, engine: Engine) -> str:
    """Describe answer-relevant differences between `engine` and those that answered the run; empty if none."""
    now = {"mcqueue": metadata.version("mcqueue"), **engine.describe()}
    return describe_differences(differing([*(each.engine for each in ledger.engines(run_id)), now]))


def _came_out(run: Run, verdict: Verdict) -> str | None:
    if verdict.error:
        return f"failed ({verdict.error.message})"
    if run.spec.mode is Mode.JUDGE:
        return verdict.outcome.value
    if run.spec.circular:  # every rotation counts, not only the most frequent choice
        return " ".join(each or "–" for each in verdict.rotation_choices)
    return verdict.choice


def serving(fleet: Sequence[Settings], run: Run) -> Settings:
    """Return the settings of `fleet` that serve the run's model. Raises SettingsError if none do.

    Another model's answers must not be compared with the run's.
    """
    names = [each.served_model for each in fleet]
    if run.spec.model not in names:
        raise SettingsError(
            f"{run.run_id} is for {run.spec.model}, but the settings serve {', '.join(names)}.",
            hint="Use a deploy file that serves it: --config FILE.",
        )
    return fleet[names.index(run.spec.model)]


def refuse_lacking_adapter(settings: Settings, run: Run) -> None:
    """Raise SettingsError if `settings` lack the run's adapter: every request would be rejected."""
    if run.spec.adapter and run.spec.adapter not in settings.adapters:
        raise SettingsError(
            f"{run.run_id} is for the adapter {run.spec.adapter!r}, but the settings have "
            f"{', '.join(settings.adapters) or 'none'}.",
            hint="Use a deploy file that has it under `adapters`: --config FILE.",
        )


def refuse_foreign_tokens(settings: Settings) -> None:
    """Raise SettingsError if the model, and so its tokenizer, is not here: `hf_model_id` would be another model's."""
    if not settings.runs_the_model:
        what = "a server has the model" if settings.engine == "openai" else "there is no model"
        raise SettingsError(
            f"engine: {settings.engine}: {what}, so its tokens cannot be shown.",
            hint="Use a deploy file with engine: vllm, or with boot_local: true: --config FILE.",
        )


def as_asked(ledger: Ledger, run: Run, question_id: str) -> tuple[Question, tuple[Passage, ...]]:
    """Return a question and the passages that it is asked with; if it is unsettled, all that were retrieved for it.

    Raises RunConfigError if it is to be asked with passages that are not retrieved yet.
    """
    question, verdict = ledger.result(run.run_id, question_id)
    if verdict and (verdict.passages or not verdict.error):
        return question, verdict.passages
    if not wants_passages(question, run.spec):
        return question, ()
    found = ledger.passages(run.run_id, [question_id])
    if question_id not in found:
        raise RunConfigError(
            f"Question {question_id} of {run.run_id} has no passages{'' if verdict else ' yet'}: it was not asked.",
            hint="A worker that searches the index must look it up first; see python -m producer status.",
        )
    return question, found[question_id]


def request_tokens(
    run: Run, question: Question, passages: Sequence[Passage], encoder: PromptEncoder
) -> Iterator[dict[str, Any]]:
    """Yield the engine's input for `question`: per request the text, its token ids, and those of each continuation."""
    for encoded in encoder.encode(list(requests_of(Item(question, run.spec, tuple(passages))))):
        if not isinstance(encoded, Encoded):
            yield {"rejected": str(encoded)}
            continue
        yield {
            "text": encoded.text,
            "token_ids": encoded.prompt,
            "continuations": [
                {"text": text, "token_ids": tail}
                for text, tail in zip(encoded.continuations, encoded.tails, strict=True)
            ],
        }
