"""Mode `free`: the question is a prompt of its own, and the text that the model writes is all that is wanted."""

from __future__ import annotations

from collections.abc import Sequence

from contract.question import Question
from contract.spec import RunSpec
from workers.engines.base import Completion
from workers.scoring.base import Reading

__all__ = ["read"]


def read(question: Question, completions: Sequence[Completion], spec: RunSpec) -> Reading:  # noqa: ARG001
    """The text, from which nothing is read."""
    (text,) = completions[0].texts
    return Reading(choice=None, rule="text", raw_text=text.text, truncated=text.truncated)
