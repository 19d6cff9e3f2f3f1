"""The question's choices, as an answer may name them: by label, by number or by text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from contract.question import LABELS
from workers.scoring.extract.asked import Asked, asked_by
from workers.scoring.extract.combined import combined, marks_of
from workers.scoring.extract.matched import are_matchings, matched
from workers.scoring.extract.normalize import folded, plain
from workers.scoring.extract.patterns import past
from workers.scoring.extract.sought import Sought, exception_sought
from workers.scoring.extract.words import DENIED_AFTER, ENDS, GOES_ON, VERDICTS

__all__ = ["Options"]

_COUNTED = re.compile(
    r"\d|\b(?:[ivx]{1,4}|zero|one|two|three|four|five|six|seven|eight|nine|ten|first|second|third|fourth)\b"
)
_ARTICLE = re.compile(r"(?:the|an?) (?=\S)")
_BEFORE_TEXT = re.compile(r"[ .,:;)\]}(\[{|\"'\-→=>の번、]{0,6}(?:which (?:is|means|says|states) )?")
_SIGNS = re.compile(r"[^\w\s$€£¥\\]*")
#: Behind the text of a choice that is meant: its end, that it is right, or why.
_CLOSED = re.compile(
    r"[.。)\]'*]|\s-\s|,?\s(?:because|since|as)\b|\sis (?:the )?(?:correct|right)\b|\s?(?:$|\n|です|입니다)"
)
#: A word, or a sign that parts of a choice are not merely joined by: that of a sum, or the end of a sentence or line.
_PART = re.compile(r"\w+|[^\S ]+|[^\w\s,&()\[\]'\"]")
#: Words that may stand between parts of a choice, or be replaced by a comma or "&".
_JOINING = frozenset({"and", "then"})
#: The labels, for choices that a text cannot name by them: characters that no text has.
_UNSEEN = "".join(chr(0xE000 + place) for place in range(len(LABELS)))
_NEGATIVE = re.compile(r"-[$€£¥]?\d")
#: Its sign, apart from a number.
_APART = re.compile(r"^- (?=\d)")
_FORMULA = frozenset("+-*/^=×·÷<>≤≥%")
#: Behind a number or a quantity: a calculation goes on, `12 cm - 6 cm`, `12 : 6 =`, or with the next line, `\n= 18`.
_CALCULATED_ON = re.compile(r"[)\]}]{0,2}(?: ?(?:[+*/×·÷]|- ?[$(]?\d|! ?[=+*/×·÷])| : ?\d|\s{0,2}=)")


@dataclass(frozen=True)
class Options:
    """The choices of one question, folded for comparison."""

    labels: str
    texts: tuple[str, ...]
    #: What the question asks for, if that is the choice that is *not* so.
    sought: Sought | None = None
    question: str = ""
    #: Whether the model was shown labels and positions, so that it may name a choice by them.
    labelled: bool = True
    #: Whether the choices match two lists: `A-3, B-1, C-2`.
    matching: bool = False
    #: How the statements are marked that the choices combine: `I and III only`; empty if they combine none.
    marks: str = ""

    @classmethod
    def of(cls, choices: Sequence[str], question: str = "", *, labelled: bool = True) -> Options:
        """Options with labels from A. Where "false" is a choice, it is said of the question, not of the choices."""
        return _options(tuple(choices), question, labelled)

    def shown(self, label: str) -> str:
        """The label from A that `label` stands for where the choices are not labelled."""
        return LABELS[self.labels.index(label)]

    @cached_property
    def numbered(self) -> bool:
        """Whether a number can only mean a position: no choice is a number or speaks of one."""
        return not self.marks and not any(_COUNTED.search(text) for text in self.texts)

    @cached_property
    def has_negative_numbers(self) -> bool:
        """Whether a choice begins with a minus sign and a number."""
        return any(_NEGATIVE.match(text) for text in self.texts)

    @cached_property
    def asked(self) -> Asked | None:
        """What the question asks for, if that is no exception and a plain sentence may answer it."""
        return None if self.sought else asked_by(self.question, self.texts)

    def respelled(self, text: str) -> str:
        """`text` with its matchings, or combinations of statements, in the spelling that the choices have here."""
        if self.matching:
            return matched(text)
        return combined(text, self.marks, dict(zip(self.labels, self.texts, strict=True))) if self.marks else text

    def text(self, label: str) -> str:
        """Folded text of the choice `label`."""
        return self.texts[self.labels.index(label)]

    def having(self, text: str) -> tuple[str, ...]:
        """Labels of the choices that read exactly `text` (folded)."""
        return tuple(label for label, own in zip(self.labels, self.texts, strict=True) if own and own == text)

    def beginning(self, said: str) -> tuple[tuple[str, ...], int]:
        """The longest choice that `said` (lower case) begins with and then ends or goes on as an answer does.

        Returns its labels, several where choices read alike, and its length.
        """
        lengths = {text: _prefix(said, text) for text in self.texts}
        fitting = {n for n in lengths.values() if n and (ENDS.match(said, n) or GOES_ON.match(said, n))}
        if not fitting:
            return (), 0
        longest = max(fitting)
        longer = [each for each in self.texts if len(each) > longest and each.startswith(said[:longest])]
        ends = {text: _goes_on_as(text, said, longest) for text in sorted(longer, key=len, reverse=True)}
        if any(ends.values()):
            text = next((each for each, end in ends.items() if end > 0), "")
            return self.having(text), ends.get(text, 0)
        exact = self.having(said[:longest])
        return exact or tuple(each for each in self.labels if lengths[self.text(each)] == longest), longest

    def follows(self, said: str, label: str) -> int:
        """How far the text of `label`, or a beginning of it of two words, stands at the start of `said`; else 0."""
        own = self.text(label)
        start = _begins(said, own)
        length = _prefix(said[start:], own)
        if length:
            return start + length
        line = said[start:].partition("\n")[0].rstrip(" .)")
        return start + len(line) if " " in line and own.startswith(line) else 0

    def contradicts(self, said: str, label: str) -> tuple[str, ...]:
        """Labels of the choice whose whole text stands where the text of `label` should: `A) Paris`."""
        for text in self.texts:
            start = _begins(said, text)
            stands = bool(text) and said.startswith(text, start) and _opens(said, start)
            if stands and text != self.text(label) and _CLOSED.match(said, start + len(text)):
                return self.having(text)
        return ()

    def denied(self, lower: str, at: int) -> bool:
        """Whether what is said at `at`, right behind a choice, is that it is not the one that is asked for."""
        return DENIED_AFTER.match(lower, at) is not None and not self.is_exception(lower, at)

    def is_exception(self, lower: str, at: int) -> bool:
        """Whether what is said at `at`, right behind a choice, is that it is the exception that is asked for."""
        return self.sought is not None and self.sought.describes(lower, at)

    def abbreviates(self, label: str, word: str) -> bool:
        """Whether a choice speaks of `label. word`: with `E. coli` among the choices, `E. coli` is no label."""
        return any(f"{label.lower()}. {word}" in text for text in self.texts)

    def mentioned(self, said: str) -> Iterator[tuple[int, int, str]]:
        """Start, end and folded text of every choice in `said` (lower case) that is no part of a longer one."""
        spans = sorted(
            (found for text in set(self.texts) if text for found in _occurrences(said, text)),
            key=lambda span: (span[0], -span[1]),
        )
        covered = 0
        for start, end, text in spans:
            if end > covered:
                yield start, end, text
            covered = max(covered, end)


@lru_cache(maxsize=64)  # a vote reads many texts of one question, one after another
def _options(choices: tuple[str, ...], question: str, labelled: bool) -> Options:
    matching = are_matchings(spelled := [plain(choice) for choice in choices])
    marks = marks_of(spelled)
    if matching:
        spelled = [matched(each) for each in spelled]
    if marks:
        spelled = [combined(each, marks) for each in spelled]
    texts = tuple(_APART.sub("-", folded(each)) for each in spelled)
    sought = exception_sought(question) if VERDICTS.isdisjoint(texts) else None
    labels = (LABELS if labelled else _UNSEEN)[: len(choices)]
    return Options(labels, texts, sought, question, labelled, matching, marks)


def _begins(said: str, text: str) -> int:
    """Where `text` would begin that stands behind a label: signs before it are skipped, but not its own, as of -5."""
    start = past(_BEFORE_TEXT, said)
    own = text[: past(_SIGNS, text)]
    return start - len(own) if said.startswith(own, start - len(own)) else start


def _prefix(said: str, text: str) -> int:
    """Length of `text` at the start of `said`, give or take an article; 0 where it does not stand there."""
    start, bare = past(_ARTICLE, said), text[past(_ARTICLE, text) :]
    for skipped, wanted in ((0, text), (start, bare), (0, bare)):
        end = skipped + len(wanted)
        if wanted and said.startswith(wanted, skipped) and _stops(said, skipped, end):
            return end
    return 0


def _goes_on_as(text: str, said: str, at: int) -> int:
    """Where the choice `text` ends in `said`, if both, alike up to `at`, go on with the same words however joined.

    `iron (III) oxide` is `iron(III) oxide`, and `a, b, and c` is `a, b and c`; but `a. b` is `a`, and `n - 1` no `n+1`.
    0 if they do not; -1 if they begin to.
    """
    wanted = [each for each in _PART.findall(text, at) if each not in _JOINING]
    reach = at + 2 * len(text) + 20
    words = [found for found in _PART.finditer(said, at, reach) if found[0] not in _JOINING][: len(wanted)]
    if not wanted or not words or words[0][0] != wanted[0]:
        return 0
    end = words[-1].end()
    alike = [found[0] for found in words] == wanted and (ENDS.match(said, end) or GOES_ON.match(said, end))
    return end if alike else -1


def _stops(said: str, start: int, end: int) -> bool:
    """Whether what stands from `start` to `end` is no part of a longer word, number or calculation."""
    counted = any(map(str.isdigit, said[start:end]))
    return _boundary(said, end) and not (counted and _CALCULATED_ON.match(said, end))


def _boundary(said: str, at: int) -> bool:
    """Whether a word, or a number or formula, ends before `at`."""
    before, after = said[at - 1], said[at : at + 1]
    if not after:
        return True
    behind = said[at + 1 : at + 2]
    if after.isalnum() or after == "_":
        joined = before.isdigit() and after in "和与及" and behind.isdigit()  # statements: ①② and ④
        return not (joined or (before.isalnum() and before.isascii() and after.isascii()))
    formula = after == " " and behind in _FORMULA and not (behind == "-" and said[at + 2 : at + 4].strip().isalpha())
    goes_on = after in _FORMULA or (after in ".,、" and behind.isdigit()) or formula
    return not (before.isdigit() and goes_on)


def _occurrences(said: str, text: str) -> Iterator[tuple[int, int, str]]:
    at = said.find(text)
    while at >= 0:
        if _opens(said, at) and _stops(said, at, at + len(text)):
            yield at, at + len(text), text
        at = said.find(text, at + 1)


def _opens(said: str, at: int) -> bool:
    if at == 0 or not (said[at].isalnum()):
        return True
    before = said[at - 1]
    if before.isalnum() or before == "_":
        return not (before.isascii() and said[at].isascii())
    return not (said[at].isdigit() and before in "+-*/^=.,×·÷<>≤≥")
