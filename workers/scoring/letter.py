"""Mode `letter`: which label does the model generate next?

score(label) = log P(delimiter + label | prompt), where the prompt shows the labelled choices. This is the scoring of
Hendrycks et al., "Measuring Massive Multitask Language Understanding" (2021), section 4.

It takes one prefill per question, whatever the number of choices, if every label is a single token. Longer labels are
scored like full choices, and the rule says so. To keep labels short, white space at the prompt's end stays in the
prompt, whereas lm-evaluation-harness scores it with every label, which would then be two tokens. It moves to the labels
all the same if the tokenizer merges it with them, or if a server is asked.

`label_mass`, the sum of P over the labels, shows how strongly the model tends to answer with a label at all. If it is
near zero, the choice is noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from contract.question import Question
from contract.spec import RunSpec
from contract.turns import Turns
from workers.engines.base import Completion, Request, ScoreRequest
from workers.scoring.base import Reading, compare

__all__ = ["ask", "read"]


def ask(question: Question, turns: Turns, spec: RunSpec) -> list[Request]:
    """Return a single request: the labels as continuations of the prompt."""
    continuations = _continuations(spec.delimiter, question.labels)
    return [ScoreRequest(turns, continuations, spec.chat, spec.adapter, keeps_space=True)]


@lru_cache(maxsize=1024)
def _continuations(delimiter: str, labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return the continuations; they are the same for all questions of a run with the same number of choices."""
    return tuple(delimiter + label for label in labels)


def read(question: Question, completions: Sequence[Completion], spec: RunSpec) -> Reading:  # noqa: ARG001
    """Return the most likely label."""
    (completion,) = completions
    scores = dict(zip(question.labels, completion.logprobs, strict=True))
    rule = "next-token" if set(completion.token_counts) == {1} else "label-likelihood"
    return compare(scores, rule=rule, label_mass=sum(map(math.exp, completion.logprobs)))
