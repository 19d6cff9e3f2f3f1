"""Layouts without numbered choices: right and wrong ones in separate fields, a score per choice, or yes and no."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from producer.readers.answers import folded
from producer.readers.choices import EXAMPLE, bare_texts, checked, choices_of, decoded, in_neutral_order
from producer.readers.field_names import WRONG_LISTS, Names, names_of, spelled
from producer.readers.inline import split_choices
from producer.readers.parts import Fields, Parts, Used, answer_of, parts_with_rest, question_of
from producer.readers.plain import has_choices
from producer.readers.prose import has_inline
from producer.readers.record import FieldTrouble, shown_value

__all__ = [
    "best_and_wrong",
    "is_passage_question",
    "lacks_choices",
    "listed_targets",
    "right_and_wrong",
    "says_yes_or_no",
    "targets",
    "yes_no",
]


def right_and_wrong(fields: Fields, names: Names) -> Parts:
    """Extract the right choice from one field and the wrong ones from others (SciQ, GPQA).

    They are reordered, as their positions would give the answer away.
    """
    wrong = [text for name in names.wrong for text in _wrong_in(name, fields[name])]
    right = fields[names.right] if names.right else None
    if not isinstance(right, str):
        raise FieldTrouble("answer", f"found {shown_value(right)}, expected text.", "Write the right choice's text.")
    used = Used(names.question, (names.right, *names.wrong), names.right)
    return _reordered(fields, names, used, [right, *(each for each in wrong if each not in ("", None))])


def _reordered(fields: Fields, names: Names, used: Used, choices: Sequence[Any]) -> Parts:
    """Return the parts of a question whose first choice is the right one, with its choices in another order."""
    question, bare = question_of(fields, names), bare_texts(choices)
    texts = in_neutral_order(question, bare)
    return parts_with_rest(fields, names, used, question=question, choices=texts, answer=bare[0])


def _wrong_in(name: str, found: Any) -> list[Any]:
    """Return the wrong choices in a field: a single one in `distractor1`, all of them in `distractors`.

    Raises FieldTrouble for a text in place of a list: it is not known what separates its choices.
    """
    if spelled(name) not in WRONG_LISTS:
        return found if isinstance(found, list) else [found]
    listed = _unprinted(name, found)
    if listed in (None, ""):
        return []
    if not isinstance(listed, list):
        hint = f"{EXAMPLE} Or give each wrong choice a field of its own: distractor1, distractor2, …"
        raise FieldTrouble(name, f"found {shown_value(found)}, expected a list of texts.", hint, kind="not a list")
    return listed


def _unprinted(name: str, found: Any) -> Any:
    """Return the list that a table's cell contains as text, and anything else unchanged. Raises FieldTrouble."""
    if not isinstance(found, str) or not found.strip().startswith("["):
        return found
    listed = decoded(found.strip(), name)
    if isinstance(listed, list) and all(isinstance(each, str) for each in listed):
        # Any marks, "(A)", stay: without them, the right choice would be the only one that has one.
        return listed
    return choices_of(listed).texts


def best_and_wrong(fields: Fields, names: Names) -> Parts:
    """Extract the parts of TruthfulQA: the best answer, and the wrong ones in one cell or a list."""
    right_cell, wrong_cell = names.spelled["best_answer"], names.spelled["incorrect_answers"]
    found = _unprinted(wrong_cell, fields[wrong_cell])
    if not isinstance(found, list):
        found = str(found).split(";")
    wrong = (text for each in found if (text := str(each).strip()))
    used = Used(names.question, (right_cell, wrong_cell), right_cell, (names.spelled.get("correct_answers"),))
    return _reordered(fields, names, used, [fields[right_cell], *wrong])


def targets(wanted: str, *, reorder: bool) -> Callable[[Fields, Names], Parts]:
    """Return a function that extracts choices with a score each: those with the highest score are right."""

    def parts(fields: Fields, names: Names) -> Parts:
        field = names.spelled[wanted]
        scores = _scores(fields[field], wanted)
        question, best = question_of(fields, names), max(scores.values())
        texts = in_neutral_order(question, list(scores)) if reorder else checked(list(scores))
        right = [text for text in texts if scores[text] == best] if best > 0 else None
        more = tuple(names.spelled.get(each) for each in ("mc1_targets", "mc2_targets", "target"))
        used = Used(names.question, (field,), field, more)
        return parts_with_rest(fields, names, used, question=question, choices=texts, answer=right)

    return parts


def _scores(found: object, name: str) -> dict[str, float]:
    if isinstance(found, Mapping) and isinstance(texts := found.get("choices"), list):
        found = _by_text(texts, found.get("labels"), name)
    if not isinstance(found, Mapping) or not found or not all(isinstance(each, int | float) for each in found.values()):
        raise FieldTrouble(name, f"found {shown_value(found)}, expected choices with a number each.", "1 means right.")
    return {str(text): score for text, score in found.items()}


def _by_text(texts: list[Any], scores: object, name: str) -> dict[str, Any] | None:
    """Return text → score of two lists; None if they do not belong together. Raises FieldTrouble."""
    if not isinstance(scores, list) or len(scores) != len(texts) or not all(isinstance(each, str) for each in texts):
        return None
    scored: dict[str, Any] = {}
    for text, score in zip(texts, scores, strict=True):
        if scored.setdefault(text, score) != score:
            message = f"{shown_value(text)} is listed twice, as {scored[text]} and as {score}."
            raise FieldTrouble(name, message, "Keep the one that is meant.", kind="listed as right and as wrong")
    return scored


def listed_targets(fields: Fields, names: Names) -> Parts:
    """Extract the parts of BIG-bench as published on the hub: choices and their scores in two lists."""
    texts, scores = (names.spelled[f"multiple_choice_{each}"] for each in ("targets", "scores"))
    both = {"choices": fields[texts], "labels": fields[scores]}
    joined = {**{name: value for name, value in fields.items() if name not in {texts, scores}}, "target_scores": both}
    parts = targets("target_scores", reorder=False)(joined, names_of(tuple(joined)))
    return parts._replace(used=parts.used._replace(choices=(texts,), answer=scores))


_YES = {"yes": "yes", "true": "yes", "no": "no", "false": "no", "maybe": "maybe"}


def yes_no(*choices: str, said_in: str = "") -> Callable[[Fields, Names], Parts]:
    """Return a function for questions that all have these choices. `said_in` is the answer's field, if not implied."""

    def parts(fields: Fields, names: Names) -> Parts:
        answer, where = answer_of(fields, names)
        if said_in:
            where = names.spelled[said_in]
            answer = fields[where]
        said = _said(answer)
        used = Used(names.question, (), where)
        return parts_with_rest(
            fields, names, used, question=question_of(fields, names), choices=list(choices), answer=said
        )

    return parts


def _said(answer: object) -> object:
    """Return `yes`, `no` or `maybe` for their various spellings, and anything else unchanged."""
    if isinstance(answer, int | str) and answer in (0, 1, "0", "1"):
        return "yes" if int(answer) else "no"
    return _YES.get(answer.strip().casefold(), answer) if isinstance(answer, str) else answer


def says_yes_or_no(fields: Fields, names: Names) -> bool:
    if names.question is None or has_choices(fields, names):
        return False
    answer, _ = answer_of(fields, names)
    if not isinstance(answer, str):
        return isinstance(answer, bool)
    return answer.strip().casefold() in _YES and not _lists(fields[names.question], answer)


def _lists(question: object, answer: str) -> bool:
    """Whether a question lists its choices, of which the answer is one: `(A) Yes (B) No (C) Not stated`."""
    try:
        found = split_choices(question) if isinstance(question, str) else None
    except FieldTrouble:
        return False
    return found is not None and folded(answer) in map(folded, found.choices)


def lacks_choices(fields: Fields, names: Names) -> bool:
    return not has_choices(fields, names) and not has_inline(fields, names)


def is_passage_question(fields: Fields, names: Names) -> bool:
    answer, _ = answer_of(fields, names)
    says = answer is None or _said(answer) in ("yes", "no") or answer == -1
    return says and lacks_choices(fields, names)
