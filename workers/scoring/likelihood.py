"""Mode `likelihood`: which full choice is the most likely continuation of the prompt?

score(choice) = Σ log P(token | prompt, earlier tokens of the choice), over the tokens of delimiter + choice.
`normalization` divides it by the choice's length in characters (`acc_norm` of lm-evaluation-harness) or UTF-8 bytes;
the delimiter is not counted. `none` is its `acc`. Source: EleutherAI/lm-evaluation-harness, `lm_eval/api/task.py`,
`process_results` of `multiple_choice`.
"""

from __future__ import annotations

from collections.abc import Sequence

from contract.question import Question
from contract.spec import Normalization, RunSpec
from contract.turns import Turns
from workers.engines.base import Completion, Request, ScoreRequest
from workers.scoring.base import Reading, compare

__all__ = ["ask", "read"]


def ask(question: Question, turns: Turns, spec: RunSpec) -> list[Request]:
    """Return a single request: the choices as continuations of the prompt."""
    continuations = tuple(spec.delimiter + choice for choice in question.choices)
    return [ScoreRequest(turns, continuations, spec.chat_template, spec.adapter)]


def read(question: Question, completions: Sequence[Completion], spec: RunSpec) -> Reading:
    """Return the most likely choice after normalization."""
    scores = {
        label: logprob / spec.normalization.length(choice)
        for label, choice, logprob in zip(question.labels, question.choices, completions[0].logprobs, strict=True)
    }
    rule = "sum" if spec.normalization is Normalization.NONE else f"per-{spec.normalization}"
    return compare(scores, rule=rule)
