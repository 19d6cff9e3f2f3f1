"""Labels that choices begin with, "(A) red", beside a label of their own: a key, a column, or their place.

They are removed if half of a file's questions or more have them: they would be shown twice and scored as part of each
text, and a text without its label would name no choice. Where they are rare, as in one row of MMLU, they stay, so that
the prompts of a public set are everybody's.
"""

from __future__ import annotations

from collections.abc import Sequence

from producer.readers.choices import in_order, marks_repeat_labels, unmarked
from producer.readers.inline import mark_of
from producer.readers.parts import Parts
from producer.readers.record import FieldTrouble

__all__ = ["marks_are_usual", "refuse_other_order", "without_marks"]


def marks_are_usual(head: Sequence[Parts]) -> bool:
    """Whether half of these records or more have choices that all begin with the labels that they have anyway."""
    return bool(head) and 2 * sum(_bare(each.choices, each.labels) is not None for each in head) >= len(head)


def without_marks(parts: Parts) -> Parts:
    """Return `parts` with its choices bare, if all begin with their labels; an answer that is one becomes a label."""
    texts = _bare(parts.choices, parts.labels)
    if texts is None:
        return parts
    return parts._replace(choices=texts, answer=_label_of(parts.answer, parts.choices))


def _bare(texts: Sequence[str], labels: Sequence[str] | None = None) -> list[str] | None:
    """Return the choices without the labels that they begin with; None unless all do, and these are their own."""
    if not _begins_with_mark(texts):
        return None
    try:
        found = unmarked(texts)
    except FieldTrouble:  # with gaps: nobody refers to them, or these choices would have been refused before
        return None
    return found.texts if found.labels is not None and marks_repeat_labels(found.labels, labels) else None


def refuse_other_order(texts: Sequence[str], hint: str) -> None:
    """Raise FieldTrouble if the choices' own marks are out of order: a letter could mean the position or the mark."""
    labels = unmarked(texts).labels if _begins_with_mark(texts) else None
    if labels and not in_order(labels):
        message = f"the choices are marked {', '.join(labels)}, in this order."
        raise FieldTrouble("choices", message, hint, kind="marked in another order")


def _label_of(answer: object, texts: Sequence[str]) -> object:
    """Return the labels of answers that are marked texts, `(B) blue`; others unchanged."""
    if isinstance(answer, list):
        return [_label_of(each, texts) for each in answer]
    if not isinstance(answer, str) or answer.strip() not in map(str.strip, texts):
        return answer
    mark = mark_of(answer) or mark_of(answer, spaced=False)
    return mark.label if mark else answer


def _begins_with_mark(texts: Sequence[str]) -> bool:
    """Whether the first choice has a mark: of most rows, that is all there is to find out."""
    return bool(texts) and bool(mark_of(texts[0]) or mark_of(texts[0], spaced=False))
