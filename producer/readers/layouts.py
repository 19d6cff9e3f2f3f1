"""The known layouts of question files, and detecting which of them a file has.

Most datasets differ only in field names, which `field_names` handles. A separate layout is for anything else that must
be known: that PIQA counts from 0, that PubMedQA's answers are yes, no or maybe, that TruthfulQA's first choice is
always the right one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from contract.errors import InputError, nearest
from producer.readers.answers import WAYS, Way
from producer.readers.articles import is_article
from producer.readers.field_names import Names, names_of
from producer.readers.parts import Fields, Parts
from producer.readers.plain import has_choices, has_labelled_choices, is_own, named, own
from producer.readers.prose import chat, has_inline, inline, instruction, is_chat, is_instruction
from producer.readers.scored import (
    best_and_wrong,
    is_passage_question,
    lacks_choices,
    listed_targets,
    right_and_wrong,
    says_yes_or_no,
    targets,
    yes_no,
)

__all__ = ["INLINE", "NAMED", "OWN", "YES_NO", "Layout", "choose", "is_question", "layout_called"]


@dataclass(frozen=True, slots=True)
class Layout:
    """A way in which files store questions."""

    name: str
    #: Its name in messages, where the format's name follows.
    title: str
    parts: Callable[[Fields, Names], Parts]
    #: Fields that a record must have, in normalised spelling.
    needs: frozenset[str] = frozenset()
    #: Whether a record with these fields has this layout.
    fits: Callable[[Fields, Names], bool] = lambda _fields, _names: True
    #: The ways in which answers may name choices; the first takes precedence among equivalent ones.
    ways: tuple[Way, ...] = WAYS

    def matches(self, fields: Fields, names: Names) -> bool:
        """Whether the record has this layout."""
        return self.needs <= names.spelled.keys() and self.fits(fields, names)


def _needing(*names: str) -> frozenset[str]:
    return frozenset(names)


def _keeps_right_apart(fields: Fields, names: Names) -> bool:
    # If there is also a list of all choices, the answer may be a letter that refers to it.
    return bool(names.wrong and names.right and names.question) and not has_choices(fields, names)


_TEXT = (Way.TEXT,)
_BY_LABEL = (Way.LABEL, Way.TEXT)
_FROM_0 = (Way.INDEX_0, Way.INDEX_1)
_FROM_1 = (Way.LABEL, Way.TEXT, Way.INDEX_1, Way.INDEX_0)
OWN = Layout("own", "mcqueue's own", own, _needing("question", "choices"), is_own)
NAMED = Layout("named", "plain", named, fits=has_choices)
YES_NO = Layout("yes-no", "yes/no", yes_no("yes", "no"), fits=says_yes_or_no, ways=_TEXT)
INLINE = Layout("inline", "predecessor-style (choices in the question)", inline, fits=has_inline, ways=_FROM_1)

#: All layouts; a file has the first one that fits most of its records.
LAYOUTS: tuple[Layout, ...] = (
    OWN,
    Layout(
        "truthfulqa-mc1", "TruthfulQA (mc1)", targets("mc1_targets", reorder=True), _needing("mc1_targets"), ways=_TEXT
    ),
    Layout(
        "truthfulqa-mc2", "TruthfulQA (mc2)", targets("mc2_targets", reorder=True), _needing("mc2_targets"), ways=_TEXT
    ),
    Layout("truthfulqa-csv", "TruthfulQA", best_and_wrong, _needing("best_answer", "incorrect_answers"), ways=_TEXT),
    Layout("bigbench", "BIG-bench", targets("target_scores", reorder=False), _needing("target_scores"), ways=_TEXT),
    Layout(
        "bigbench-lists",
        "BIG-bench",
        listed_targets,
        _needing("multiple_choice_targets", "multiple_choice_scores"),
        ways=_TEXT,
    ),
    Layout(
        "pubmedqa",
        "PubMedQA",
        yes_no("yes", "no", "maybe", said_in="final_decision"),
        _needing("question", "final_decision"),
        lacks_choices,
        _TEXT,
    ),
    Layout("boolq", "BoolQ", yes_no("yes", "no"), _needing("question", "passage"), is_passage_question, _TEXT),
    Layout(
        "boolq-eraser",
        "BoolQ (ERASER)",
        yes_no("yes", "no"),
        _needing("query", "classification"),
        is_passage_question,
        _TEXT,
    ),
    Layout("sciq", "SciQ-style", right_and_wrong, fits=_keeps_right_apart, ways=_TEXT),
    Layout("medmcqa", "MedMCQA", named, _needing("opa", "opb", "cop"), ways=_FROM_1),
    Layout("piqa", "PIQA", named, _needing("goal", "sol1", "sol2"), ways=_FROM_0),
    Layout("copa", "COPA", named, _needing("premise", "choice1", "choice2"), ways=_FROM_0),
    Layout("medqa", "MedQA", named, _needing("question", "options", "answer_idx"), has_choices),
    Layout("agieval", "AGIEval", named, _needing("passage", "question", "options", "label"), has_choices),
    Layout("mathqa", "MathQA", named, _needing("problem", "options", "correct"), has_choices, _BY_LABEL),
    Layout("arc", "ARC-style", named, fits=has_labelled_choices),
    Layout("instruction", "instruction-tuning", instruction, _needing("instruction"), is_instruction, _BY_LABEL),
    Layout("chat", "chat", chat, _needing("input", "ideal"), is_chat),
    Layout("mmlu", "MMLU", named, _needing("question", "a", "b", "answer"), has_choices),
    NAMED,
    YES_NO,
    INLINE,
)
#: Names of datasets whose layout has another name → that name.
ALIASES = {
    "openbookqa": "arc",
    "commonsenseqa": "arc",
    "qasc": "arc",
    "mirage": "named",
    "race": "named",
    "ceval": "mmlu",
    "cmmlu": "mmlu",
    "distllm": "inline",
    "argonium": "inline",
    "answer3": "instruction",
}


def layout_called(name: str) -> Layout:
    """Return the layout called `name`. Raises InputError that suggests the nearest name."""
    known = {each.name: each for each in LAYOUTS}
    found = known.get(ALIASES.get(name, name))
    if found is None:
        names = sorted({*known, *ALIASES})
        hint = nearest(name, names) or f"Known: {', '.join(names)}."
        raise InputError(f"--layout: unknown layout {name!r}.", hint=hint)
    return found


def choose(records: Sequence[Fields]) -> Layout | None:
    """Return the first layout that fits more than half of the `records` that any layout fits; None if none fits."""
    fitting = [_fitting(fields) for fields in records]
    counts = Counter(name for names in fitting for name in names)
    known = sum(map(bool, fitting))
    most = [layout for layout in LAYOUTS if counts[layout.name] * 2 > known]
    return most[0] if most else max(LAYOUTS, key=lambda layout: counts[layout.name]) if known else None


def _fitting(fields: Fields) -> set[str]:
    names = names_of(tuple(fields))
    return {layout.name for layout in LAYOUTS if layout.matches(fields, names)}


def is_question(fields: Fields) -> bool:
    """Whether the record fits any layout, or is an article with several questions."""
    if is_article(fields):
        return True
    names = names_of(tuple(fields))
    return any(layout.matches(fields, names) for layout in LAYOUTS)
