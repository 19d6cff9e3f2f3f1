"""Mode `free`: the question is a complete prompt, and the generated text is the result."""

from __future__ import annotations

from collections.abc import Sequence

from contract.question import Question
from contract.spec import RunSpec
from workers.engines.base import Completion
from workers.scoring.base import Reading

__all__ = ["read"]


def read(question: Question, completions: Sequence[Completion], spec: RunSpec) -> Reading:  # noqa: ARG001
    """Return the generated text; no choice is read from it."""
    (text,) = completions[0].texts
    return Reading(choice=None, rule="text", raw_text=text.text, truncated=text.truncated)
