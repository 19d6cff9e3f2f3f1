"""Mode `vote`: several texts per question, each read as in `generate`; the majority is the answer.

Self-consistency, Wang et al., "Self-Consistency Improves Chain of Thought Reasoning in Language Models" (2023).
`choice_scores` and `confidence` are shares of all samples, unreadable ones included: agreement, not probability.
Of equal numbers of votes, the choice that was named first wins.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence

from contract.question import Question
from contract.spec import RunSpec
from contract.verdict import MAJORITY
from workers.engines.base import Completion, Text
from workers.scoring.base import Reading
from workers.scoring.generate import ask, named, texts_of

__all__ = ["ask", "count", "read"]

log = logging.getLogger(__name__)


def read(question: Question, completions: Sequence[Completion], spec: RunSpec) -> Reading:
    """The choice that most texts name."""
    return _count(question, texts_of(completions[0]), spec)


def count(question: Question, texts: Sequence[str], spec: RunSpec, *, truncated: bool) -> Reading:
    """The same from stored texts, for reading again with newer rules.

    All that is stored is whether any of them was `truncated`, so that each is read as if it had come to its end.
    """
    return _count(question, [Text(each, 0) for each in texts], spec)._replace(truncated=truncated)


def _count(question: Question, texts: Sequence[Text], spec: RunSpec) -> Reading:
    votes = Counter(label for label in _labels(question, texts, spec) if label is not None)
    shares = {label: votes[label] / len(texts) for label in question.labels}
    raw_text = json.dumps([each.text for each in texts], ensure_ascii=False)
    truncated = any(each.truncated for each in texts)
    if not votes:
        return Reading(choice=None, rule="none", choice_scores=shares, raw_text=raw_text, truncated=truncated)
    (best, most), *rest = votes.most_common()
    second = rest[0][1] if rest else 0
    return Reading(
        choice=best,
        rule=MAJORITY,
        choice_scores=shares,
        confidence=most / len(texts),
        margin=(most - second) / len(texts),
        raw_text=raw_text,
        truncated=truncated,
    )


def _labels(question: Question, texts: Sequence[Text], spec: RunSpec) -> list[str | None]:
    """The choice that each of `texts` names, or None; an error while one is read costs that text, not the others.

    Raises that error where no text could be read.
    """
    labels: list[str | None] = []
    failure: Exception | None = None
    for text in texts:
        try:
            labels.append(named(question, text.text, spec, truncated=text.truncated).label)
        except Exception as trouble:  # the other texts still have their votes
            log.warning("a text about question %s cannot be read", question.id, exc_info=True)
            failure = trouble
    if failure and not labels:
        raise failure
    return labels
