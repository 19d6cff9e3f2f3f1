"""Warning of odd texts in questions before they are asked, rather than when the answers look wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from contract.prompts import shows_choices
from contract.question import Question
from contract.spec import ChatTemplate, RunSpec
from contract.wording import number
from producer.readers.inline import Mark, joins, mark_of

__all__ = ["Oddities"]

_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|deg|times|#\d{2,6}|#x[\da-f]{2,6});", re.IGNORECASE)
_IMAGE = re.compile(r"<image(?: ?\d{1,2})?>|<img\s|!\[[^\]\n]{0,200}\]\(|data:image/", re.IGNORECASE)
_IMAGE_FIELD = re.compile(r"(?:image|img|figure|picture)(?:s|_?\d{1,2}|_?(?:path|file|name|url))?", re.IGNORECASE)
#: What a prompt ends in, and questions of other programs' files that are whole prompts.
CUE = "Answer:"
#: What a list of choices has before each, at the end of what precedes it: "A)", "(B)", "3.", "choice:", or a bullet.
_MARK_BEFORE = re.compile(
    r"(?:(?:^|[\s(\[（])(?:[A-Z]|\d{1,2}|choice|option)[)\].:．：、）]|\n\s*[-*•])\s*$", re.IGNORECASE
)
_LONGEST_MARK = 12
#: A template that shows the choices without the white space around them.
_TRIMMED = re.compile(r"text\s*\|\s*trim")
#: White space is beside the right choice by no accident if that is so in this many standard deviations more questions
#: than would be expected.
_DEVIATIONS = 3
#: Signs that end a label, and how far from the beginning of a choice: "(10)".
_MARK_ENDS, _MARK_END = frozenset(")].:．：、）"), 4
#: So many choices that begin with a label are no accident.
_MIN_LABELLED = 2


@dataclass
class Oddities:
    """Counts questions with odd texts."""

    #: Questions with a control character from an undoubled backslash, as JSON decodes \\beta and \\frac.
    lost_backslashes: int = 0
    #: Questions with two choices of the same text, which no score can distinguish.
    same_choices: int = 0
    #: Questions with HTML entities like `&lt;`.
    entities: int = 0
    #: Questions that name an image.
    images: int = 0
    #: Questions with a choice that begins with white space, or that ends in some.
    begin_blank: int = 0
    end_blank: int = 0
    #: Questions that end in `CUE`, as a prompt does.
    with_cue: int = 0
    #: Questions whose text lists their choices, too.
    listed: int = 0
    #: Questions with labels before some choices and none before others, which nothing removes.
    part_labelled: int = 0
    #: Questions in which one choice alone begins or ends with white space, and those of them in which it is right.
    one_blank: int = 0
    one_blank_right: int = 0
    #: In how many of them it would be right by chance, and the variance of that.
    one_blank_by_chance: float = 0.0
    one_blank_variance: float = 0.0

    def add(self, question: Question) -> None:
        """Count one question."""
        texts = "\n".join((question.question, *question.choices))
        self.lost_backslashes += "\b" in texts or "\f" in texts
        self.same_choices += len(set(map(str.strip, question.choices))) < len(question.choices)
        self.entities += "&" in texts and _ENTITY.search(texts) is not None
        self.images += _names_image(texts, question.metadata)
        begins = [choice[0].isspace() for choice in question.choices]
        ends = [choice[-1].isspace() for choice in question.choices]
        self.begin_blank += any(begins)
        self.end_blank += any(ends)
        odd = begins if begins.count(True) == 1 else ends
        if odd.count(True) == 1 and question.right:
            self._add_one_blank(question, odd.index(True))
        self.with_cue += question.question.rstrip().endswith(CUE)
        if question.choices:  # prompts (mode `free`) have none
            self.listed += _lists_choices(question)
            self.part_labelled += _labels_some(question)

    def _add_one_blank(self, question: Question, place: int) -> None:
        chance = len(question.right) / len(question.choices)
        self.one_blank += 1
        self.one_blank_right += question.labels[place] in question.right
        self.one_blank_by_chance += chance
        self.one_blank_variance += chance * (1 - chance)

    def warnings(self, spec: RunSpec) -> list[str]:
        """Return a warning for each kind that occurred and matters to questions that are asked as `spec` says."""
        scored = spec.mode.scores_choices
        # Where a choice begins the model's turn, it loses the white space before it.
        begins_turn = spec.chat_template is not ChatTemplate.NEVER and not spec.answer_prefix
        apart = scored and spec.delimiter[-1:].isspace() and not begins_turn
        again = CUE in spec.prompt.text
        # A prompt of nothing but the question's text is for such questions, unless what the model writes is read.
        beside = again or spec.mode.writes or shows_choices(spec.prompt)
        said = {
            "with a backspace or form feed in the text: JSON decodes \\beta and \\frac to these. Double the backslashes"
            " in the file.": self.lost_backslashes,
            "with the same text in two choices: both score the same by likelihood. Only the choices that the key names"
            " count as right.": self.same_choices,
            "with HTML entities like &lt; in the text, which the model is shown as they are. Decode them in the file if"
            " they are not meant.": self.entities,
            "with an image, which no mode shows: only the text is asked.": self.images,
            "with a choice that begins with white space, which comes after that of the delimiter: two spaces are other"
            " tokens than one. Remove it in the file, or, if all choices have it, use --set delimiter=": (
                self.begin_blank * apart
            ),
            "with a choice that ends in white space, which is scored as a part of it. Remove it in the file.": (
                self.end_blank * scored
            ),
            f"with {CUE!r} at its end, as the prompt has: the model reads it twice. Use a prompt without it; --set"
            " prompt=free shows nothing but the question's text.": self.with_cue * again,
            "whose text lists the choices, too: the model reads that list whatever the prompt shows, and in the file's"
            " order where the run moves choices. --layout inline takes the choices from a list with labels, and leaves"
            " it out of the text; by likelihood, --set prompt=free asks the text as it is.": self.listed * beside,
            "with labels before some of the choices, but not all, which stay in the text: one may have lost its label,"
            " or be no choice. Correct it in the file.": self.part_labelled,
        }
        found = [f"warning: {number(count, 'question')} {what}" for what, count in said.items() if count]
        return found + self._leaks(spec)

    def _leaks(self, spec: RunSpec) -> list[str]:
        shown = shows_choices(spec.prompt) and not _TRIMMED.search(spec.prompt.text)
        accident = self.one_blank_by_chance + _DEVIATIONS * math.sqrt(self.one_blank_variance)
        if not shown or self.one_blank_right <= accident:
            return []
        return [
            f"warning: white space tells the right choice: in {self.one_blank_right:,} of"
            f" {number(self.one_blank, 'question')} in which one choice alone begins or ends with some, that is the"
            " right one. Remove it in the file, or use a prompt that shows {{ choice.text | trim }}."
        ]


def _lists_choices(question: Question) -> bool:
    text = question.question
    if question.choices[0].strip() not in text:  # spares nearly all the rest
        return False
    choices = [choice.strip() for choice in question.choices]
    return all(choice in text for choice in choices) and all(
        any(_is_marked(text, found.start()) for found in re.finditer(re.escape(choice), text)) for choice in choices
    )


def _is_marked(text: str, at: int) -> bool:
    """Whether a label is right before what begins `at` this place of the text."""
    return _MARK_BEFORE.search(text[max(0, at - _LONGEST_MARK) : at]) is not None


def _labels_some(question: Question) -> bool:
    """Whether two choices or more begin with the label of their place, "(A) red", and others with none."""
    first = question.choices[0]
    if _MARK_ENDS.isdisjoint(first.lstrip()[:_MARK_END]) or not _mark_of(first):  # the former spares most
        return False
    marks = list(map(_mark_of, question.choices))
    own = [mark is not None and mark.rank == place for place, mark in enumerate(marks)]
    return _MIN_LABELLED <= sum(own) < len(own) and None in marks


def _mark_of(choice: str) -> Mark | None:
    found = mark_of(choice) or mark_of(choice, spaced=False)
    return found if found and not joins(found.rest) else None  # "(A) and (B)"


def _names_image(texts: str, metadata: Mapping[str, object]) -> bool:
    if ("<" in texts or "![" in texts or "data:" in texts) and _IMAGE.search(texts):
        return True
    return any(value and _IMAGE_FIELD.fullmatch(name) for name, value in metadata.items())
