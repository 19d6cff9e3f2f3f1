"""Mode `letter`: which label does the model write next?

score(label) = log P(delimiter + label | prompt), the prompt showing the labelled choices. One prefill per question,
whatever the number of choices. The scoring of Hendrycks et al., "Measuring Massive Multitask Language Understanding"
(2021), section 4. `label_mass`, the sum of P over the labels, says how much the model meant to answer with a label
at all: near zero, the choice is noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from contract.question import Question
from contract.spec import RunSpec
from workers.engines.base import Completion, Request
from workers.scoring.base import Reading, compare

__all__ = ["ask", "read"]


def ask(question: Question, prompt: str, spec: RunSpec) -> list[Request]:
    """One request: the labels as continuations of the prompt."""
    return [Request(prompt, tuple(spec.delimiter + label for label in question.labels))]


def read(question: Question, completions: Sequence[Completion], spec: RunSpec) -> Reading:  # noqa: ARG001
    """The likeliest label."""
    scores = dict(zip(question.labels, completions[0].logprobs, strict=True))
    return compare(scores, rule="next-token", label_mass=sum(math.exp(score) for score in scores.values()))
