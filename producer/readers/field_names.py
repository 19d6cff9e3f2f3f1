"""Mapping field names to the parts of a question: many names are in use for the same few parts.

Names are compared in normalised spelling: `answerKey`, `Answer Key` and `ANSWER_KEY` become `answer_key`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_lowercase
from typing import Any

__all__ = [
    "CHOICE_FLAGS",
    "CHOICE_LABELS",
    "CHOICE_TEXTS",
    "CONTEXT_TEXTS",
    "INDEX_NAMES",
    "PARTS",
    "WRONG_LISTS",
    "Names",
    "by_spelling",
    "is_table_header",
    "names_of",
    "spelled",
]

#: Part → the names in use for it, the most reliable first.
PARTS: dict[str, tuple[str, ...]] = {
    part: tuple(names.split())
    for part, names in {
        "question": """
            question question_text question_stem stem qtext query problem statement instruction body goal sentence ctx
            startphrase inputs input prompt premise
        """,
        "choices": """
            choices options answer_choices candidates endings alternatives multiple_choice_targets possible_answers
            option_list choice_list answers
        """,
        "answer": """
            answer_key answer_idx answer_index answer_letter correct_letter correct_answer_id correct_answer_num
            correct_answer_index correct_option correct_choice correct_index answer_id answer_label answer label labels
            gold_label gold_index correct_answer correct_answers right_answer gold_answer correct cop ra gt key
            final_decision classification target ideal solution gold answer_text correct_answer_text correct_text
        """,
        "id": "id qid question_id uid guid uuid _id annotation_id",
        "subject": "subject subject_name category discipline domain high_level_domain subdomain topic topic_name",
        "context": """
            context contexts passage flores_passage article paragraph support story narrative background evidences facts
            fact1 fact2 text
        """,
        "gold_passages": "gold_passages gold",
    }.items()
}
#: In a choice that is an object: names of its text, of its label, and of what is true for the right one.
CHOICE_TEXTS = (
    "text",
    "content",
    "atext",
    "value",
    "choice",
    "option",
    "answer",
    "choice_text",
    "option_text",
    "answer_text",
)
CHOICE_LABELS = ("label", "letter", "aid", "key", "id")
CHOICE_FLAGS = frozenset(
    [
        "correct",
        "is_correct",
        "right",
        "is_right",
        "is_answer",
        "is_correct_answer",
        "is_key",
        "gold",
        "is_gold",
        "is_true",
    ]
)
#: In a context that is an object: names of its texts, or of that of one passage beside its title and score.
CONTEXT_TEXTS = ("contexts", "text", "sentences", "passage", "paragraph", "content", "page_content", "context")
#: Names of an answer that say it is an index.
INDEX_NAMES = frozenset(["answer_idx", "answer_index", "correct_answer_index", "correct_index", "gold_index"])
#: Columns with one choice each: a common prefix followed by a letter or a number. The prefix may be empty for letters.
_FAMILY = re.compile(
    r"((?:(?:answer|mc)_)?(?:choice|option|opt|op|answer|ans|ending|solution|sol|hypothesis)|)_?(?:([a-z])|(\d{1,2}))"
)
#: Prefixes that take precedence over all others, however many columns those have: `ans1` to `ans5` may be answers of
#: five people.
_SURE_FAMILY = re.compile(r".*(?:choice|option|opt|op)")
_WRONG = re.compile(r"(?:distractor|(?:incorrect|wrong)(?:_(?:answer|option|choice))?)_?(\d{1,2})")
#: Names of a field with all wrong choices.
WRONG_LISTS = ("incorrect_answers", "distractors", "wrong_answers")
_RIGHT = ("correct_answer", "best_answer", "answer", "right_answer", "ideal")


@dataclass(frozen=True)
class Names:
    """The fields of a record by the part that their names suggest, in the file's spelling."""

    #: Normalised spelling → the file's spelling.
    spelled: dict[str, str]
    question: str | None
    #: The field that holds all choices.
    choices: str | None
    #: Label and field of each choice, if each choice has its own field.
    family: tuple[tuple[str, str], ...]
    #: Fields of wrong choices, and the field of the right one.
    wrong: tuple[str, ...]
    right: str | None
    #: Fields that may be the answer key, the most reliable first.
    answers: tuple[str, ...]
    id: str | None
    subject: str | None
    contexts: tuple[str, ...]
    golds: tuple[str, ...]


@lru_cache(maxsize=1024)
def spelled(name: str) -> str:
    """Return `name` in normalised spelling; `_id` is a name of its own, of databases' exports."""
    if name == "_id":
        return name
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^\w]+", "_", parted).strip("_").lower() or name


def by_spelling(record: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the values by their names in normalised spelling, the first of each."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        found.setdefault(spelled(str(name)), value)
    return found


@lru_cache(maxsize=1024)
def names_of(fields: tuple[str, ...]) -> Names:
    """Assign the field names `fields` to the parts that they suggest."""
    known: dict[str, str] = {}
    for each in fields:
        known.setdefault(spelled(each), each)
    family = _family(known)
    found = {part: [known[name] for name in names if name in known] for part, names in PARTS.items()}
    own = {name for _, name in family}
    wrong = _numbered_wrong(known) or tuple(known[name] for name in WRONG_LISTS if name in known)
    question = next((name for name in found["question"] if name not in own), None)
    if question is None and (family or found["choices"]):
        # In some files, a name that usually means the context holds the question.
        question = next(iter(found["context"]), None)
    choices, answers = _choices_and_answers(known, found, question, bool(family))
    return Names(
        spelled=known,
        question=question,
        choices=choices,
        family=family,
        wrong=wrong,
        right=next((known[name] for name in _RIGHT if name in known), None) if wrong else None,
        answers=tuple(name for name in answers if name not in own and name != question),
        id=next(iter(found["id"]), None),
        subject=next(iter(found["subject"]), None),
        contexts=tuple(name for name in found["context"] if name != question and name not in own),
        golds=tuple(found["gold_passages"]),
    )


def _choices_and_answers(
    known: dict[str, str], found: dict[str, list[str]], question: str | None, has_family: bool
) -> tuple[str | None, list[str]]:
    """Return the field of all choices and the possible answer keys; beside choices, `answers` holds the right ones."""
    there = [name for name in found["choices"] if name != question]
    right = known.get("answers")
    if right in there and (has_family or len(there) > 1):
        return next((name for name in there if name != right), None), [*found["answer"], right]
    return next(iter(there), None), found["answer"]


def _family(known: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the columns with one choice each, in order: those of the prefix with the longest gapless sequence."""
    families: dict[tuple[str, bool], dict[int, tuple[str, str]]] = defaultdict(dict)
    for name, original in known.items():
        if match := _FAMILY.fullmatch(name):
            start, letter, digits = match.groups()
            if start or letter:
                rank = ascii_lowercase.index(letter) if letter else int(digits)
                families[start, bool(letter)][rank] = (letter.upper() if letter else digits, original)
    best: tuple[tuple[str, str], ...] = ()
    sure = False
    for (start, lettered), members in families.items():
        ranks = sorted(members)
        gapless = ranks == list(range(ranks[0], ranks[0] + len(ranks))) and ranks[0] <= (0 if lettered else 1)
        more = (bool(_SURE_FAMILY.fullmatch(start)), len(ranks)) > (sure, len(best))
        if gapless and len(ranks) > 1 and more:
            best = tuple(members[rank] for rank in ranks)
            sure = bool(_SURE_FAMILY.fullmatch(start))
    return best


def _numbered_wrong(known: dict[str, str]) -> tuple[str, ...]:
    found = {int(match[1]): known[name] for name in known if (match := _WRONG.fullmatch(name))}
    return tuple(found[at] for at in sorted(found))


def is_table_header(cells: Sequence[str]) -> bool:
    """Whether `cells` are column names for a question and its choices or answer."""
    names = names_of(tuple(cells))
    return names.question is not None and bool(names.family or names.choices or names.wrong or names.answers)
