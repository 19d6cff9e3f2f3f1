"""Mode `likelihood`: which full choice is the most likely continuation of the prompt?

score(choice) = Σ log P(token | prompt, earlier tokens of the choice), over the tokens of delimiter + choice.
`normalization` divides it by the choice's length in characters (`acc_norm` of lm-evaluation-harness) or UTF-8 bytes,
without the delimiter, or in the tokens that are scored. `none` is its `acc`. `mutual_info` subtracts the same sum after
`unconditional_prompt` (its `acc_mutual_info`, where that prompt is empty): a choice that is likely anyway gains nothing
by it. Sources: EleutherAI/lm-evaluation-harness, `lm_eval/api/task.py`, `construct_requests` and `process_results` of
`multiple_choice`; Holtzman et al., "Surface form competition", EMNLP 2021, whose domain premise is that prompt; per
token, as per character and by mutual information: Gu et al., "OLMES: A Standard for Language Model Evaluations", 2024.
"""

from __future__ import annotations

from collections.abc import Sequence

from contract.mode import Normalization
from contract.question import Question
from contract.spec import RunSpec
from contract.turns import Turns, one_turn
from workers.engines.base import NO_CHAT, Completion, Request, ScoreRequest
from workers.scoring.base import Reading, compare

__all__ = ["ask", "read"]


def ask(question: Question, turns: Turns, spec: RunSpec) -> list[Request]:
    """Return a request for the choices as continuations of the prompt; with `mutual_info`, another without it."""
    continuations = tuple(spec.delimiter + choice for choice in question.choices)
    asked: list[Request] = [ScoreRequest(turns, continuations, spec.chat, spec.adapter)]
    if spec.normalization is Normalization.MUTUAL_INFO:
        # In a chat, an empty prompt is none, but the choices are the same text as behind the question.
        chat = NO_CHAT if spec.unconditional_prompt or spec.answer_prefix else spec.chat
        asked.append(ScoreRequest(one_turn(spec.unconditional_prompt), continuations, chat, spec.adapter))
    return asked


def read(question: Question, completions: Sequence[Completion], spec: RunSpec) -> Reading:
    """Return the most likely choice after normalization."""
    labels, behind = question.labels, completions[0]
    tokens = dict(zip(labels, behind.token_counts, strict=True))
    if spec.normalization is Normalization.MUTUAL_INFO:
        unconditional = completions[1].logprobs
        scores = {label: a - b for label, a, b in zip(labels, behind.logprobs, unconditional, strict=True)}
        reading = compare(scores, rule="mutual-information")
        without = dict(zip(labels, unconditional, strict=True))
        return reading._replace(unconditional_scores=without, choice_tokens=tokens)
    scores = {
        label: logprob / spec.normalization.length(choice, tokens[label])
        for label, choice, logprob in zip(labels, question.choices, behind.logprobs, strict=True)
    }
    rule = "sum" if spec.normalization is Normalization.NONE else f"per-{spec.normalization}"
    return compare(scores, rule=rule)._replace(choice_tokens=tokens)
