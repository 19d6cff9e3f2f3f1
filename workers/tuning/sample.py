"""Chooses the questions to measure and to try, runs the trials, and reports on them."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from contract.chunks import chunks
from contract.errors import InputError, RunConfigError
from contract.ledger import Ledger, Run
from contract.prompts import turns_of, wants_passages
from contract.question import Question
from contract.settings import Settings
from contract.spec import RunSpec
from contract.wording import number
from workers.engines.encoding import PromptEncoder
from workers.engines.installed import is_cpu_build
from workers.engines.model_files import positions_of, tokenizer_of
from workers.engines.packaged import resolve
from workers.engines.vllm import prepare_environment
from workers.scoring import Item
from workers.tuning.lengths import lengths
from workers.tuning.output import trial_line, warnings_of
from workers.tuning.search import Tuned, tune
from workers.tuning.trials import SHAPES

__all__ = ["Effort", "items_of", "most_context", "to_measure", "tune_by"]

#: How many random questions are measured in tokens; and how many more, those with the most bytes in their prompts.
MEASURED = 2000
LONGEST = 20
CHUNK = 500
#: Default number of questions in a trial: a few seconds of work on a CPU. A GPU gets two batches of the largest size,
#: repeated as often as necessary.
LEAST_SAMPLE = 64
LEAST_SAMPLE_ON_GPU = 2 * max(size for size, _ in SHAPES)


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and with how many questions to try."""

    limit_s: float
    #: Questions of a trial; None: two batches of the deploy file, but at least LEAST_SAMPLE (LEAST_SAMPLE_ON_GPU).
    sample: int | None
    seed: int


def tune_by(settings: Settings, run: Run, ledger: Ledger, effort: Effort, say: Callable[[str], None]) -> Tuned:
    """Return the best settings for the run's questions; `say` receives progress. Raises InputError, EngineError."""
    draw = random.Random(effort.seed)
    questions = [question for question, _ in ledger.results(run.run_id)]
    measured = to_measure(questions, run.spec, draw)
    model = resolve(settings.hf_model_id)
    prepare_environment(model, settings.vllm_args)
    items = list(items_of(run, measured, ledger))
    encoder = PromptEncoder(tokenizer_of(model, settings.vllm_args))
    needs = lengths(items, encoder, most_context(settings, run, model), given_context(settings) or 0)
    say(
        f"{needs.questions:,} of {number(len(questions), 'question')} measured: median {needs.median} tokens, "
        f"95th percentile {needs.p95}, longest {needs.longest}, including the answer"
    )
    say(f"trying settings for {effort.limit_s:g} s; Ctrl-C stops early and keeps the best so far")
    least = LEAST_SAMPLE if is_cpu_build() else LEAST_SAMPLE_ON_GPU
    wanted = effort.sample or max(least, 2 * settings.batch_size)
    sample = draw.sample(items, min(wanted, len(items)))
    found = tune(settings, sample, needs, effort.limit_s, lambda trial: say(trial_line(trial)))
    for warning in warnings_of(found):
        say(f"warning: {warning}")
    return found


def to_measure(questions: Sequence[Question], spec: RunSpec, draw: random.Random) -> list[Question]:
    """Return a random sample, and the questions with the longest prompts: the context must also hold all the others."""
    drawn = draw.sample(questions, min(MEASURED, len(questions)))
    longest = heapq.nlargest(LONGEST, questions, key=lambda each: _prompt_bytes(each, spec))
    return list({each.id: each for each in (*drawn, *longest)}.values())


def _prompt_bytes(question: Question, spec: RunSpec) -> int:
    """Return the bytes of the question's prompt, with its context and examples, and of its longest choice.

    Without passages: those that do not fit are left out. 0 if the prompt cannot be rendered.
    """
    try:
        turns = turns_of(question, spec)
    except RunConfigError:
        return 0
    choice = max((len(each.encode()) for each in question.choices), default=0)
    return sum(len(each.text.encode()) for each in turns) + choice


def items_of(run: Run, questions: Sequence[Question], ledger: Ledger) -> Iterator[Item]:
    """Yield the questions as workers ask them, with retrieved passages. Raises InputError if none are retrieved yet."""
    waiting = 0
    for some in chunks(questions, CHUNK):
        retrieved = ledger.retrieved(run.run_id, [each.id for each in some])
        for question in some:
            if not wants_passages(question, run.spec):
                yield Item(question, run.spec)
            elif question.id in retrieved:
                # A passage that did not fit then may fit now.
                passages = (each.model_copy(update={"shown": True}) for each in retrieved[question.id])
                yield Item(question, run.spec, tuple(passages))
            else:
                waiting += 1
    if questions and waiting == len(questions):
        raise InputError(
            f"{run.run_id} uses retrieval and has no passages yet, so the length of its prompts is unknown.",
            hint="Let a worker that serves its index retrieve some first.",
        )


def most_context(settings: Settings, run: Run, model: str) -> int | None:
    """Return the maximum context in tokens; None if unknown.

    With retrieval, it is the deploy file's, or else the model's: passages would fill any context, and those that do not
    fit are left out. Without retrieval, a question that does not fit would fail, so the context may grow up to the
    model's limit.
    """
    known = [each for each in (given_context(settings), positions_of(model, settings.vllm_args)) if each]
    if not known:
        return None
    return known[0] if run.spec.rag else max(known)


def given_context(settings: Settings) -> int | None:
    """Return the deploy file's context in tokens; None if it names none, or leaves it to vLLM."""
    own = settings.vllm_args.get("max_model_len")
    return own if isinstance(own, int) and own > 0 else None
