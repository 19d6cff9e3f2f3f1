"""What a question asks, as a sentence may say it again: `When did the war end?`, `The war ended in 1945.`"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from workers.scoring.extract.normalize import lowered, plain, unemphasized
from workers.scoring.extract.patterns import compiled
from workers.scoring.extract.sought import last_sentence
from workers.scoring.extract.words import DENIED_BEFORE

__all__ = ["Asked", "Slot", "asked_by", "words_of"]

#: A time, a place or a number may stand anywhere in the sentence; who did something is its subject.
_ANYWHERE = compiled(r"""
    \b(?:when|where|how (?:many|much|long|old|far|tall|high|often)|(?:in|on|at|by|to|from) (?:which|what)
    |wann|wo|wie viele?|quand|où|combien|cuándo|dónde|cuántos|cuántas|quando|dove|onde|когда|где|сколько)\b
""")
_DOES = re.compile(r"\b(?:who|whom|what|which)\b.{0,60}?\b(?:do|does|did)\b")
_SUBJECT = re.compile(r"\b(?:who|what|which)\b")
#: The same choice may be right for another order of the words, or for another case.
_RELATES = re.compile(
    r"\b(?:why|if|unless|except|false|incorrect|wrong|least|without|than|before|after|above|below|between|"
    r"north|south|east|west|left|right)\b"
)
#: What kind of thing the answer is, which the answer need not say: "in which year did …", "what city is …".
_KIND = re.compile(
    r"\bwhich (\w+)|\bwhat (\w+)(?= (?:do|does|did|is|are|was|were|has|have|had|can|could|will|would)\b)"
)
_COUNTED = re.compile(r"\bhow (?:many|much) (\w+)")
_WORD = re.compile(r"[^\W_]+")
#: Words that add nothing to what is said. Of other languages, only the question's own are known.
_FUNCTION = frozenset(
    _WORD.findall(
        "a an the is are was were be been being do does did has have had in on at of by it he she they there "
        "who whom what which when where how many much these following"
    )
)
_POSSESSIVE = re.compile(r"'s\b")
_ENDINGS = ("s", "es", "d", "ed", "ing")
#: Past forms that are no longer spellings of the present one: "When did it begin?", "It began in 1914."
_PAST = {
    "became": "become", "began": "begin", "begun": "begin", "broke": "break", "built": "build", "came": "come",
    "drew": "draw", "fell": "fall", "felt": "feel", "fought": "fight", "found": "find", "gave": "give",
    "grew": "grow", "held": "hold", "kept": "keep", "knew": "know", "led": "lead", "left": "leave", "lost": "lose",
    "made": "make", "met": "meet", "rose": "rise", "sank": "sink", "sent": "send", "sold": "sell",
    "spoke": "speak", "spent": "spend", "stood": "stand", "taught": "teach", "took": "take", "went": "go",
    "won": "win", "written": "write", "wrote": "write",
}  # fmt: skip


class Slot(Enum):
    """Where the answer stands in a sentence that says the question's words again."""

    #: `Who wrote Hamlet?`
    FIRST = auto()
    #: `What do bees make?`
    LATER = auto()
    #: `When did the war end?`
    ANYWHERE = auto()


@dataclass(frozen=True)
class Asked:
    """A question that a plain sentence may answer."""

    #: All of the question's words, and those of its last sentence that an answer must say again.
    words: frozenset[str]
    content: frozenset[str]
    #: What is counted: "pens" of "how many pens".
    counted: str
    slot: Slot
    #: Choices that the last sentence names, unless it names all.
    no_news: frozenset[str]

    def knows(self, word: str) -> bool:
        """Whether `word` is one of the question's, in this form or another, or says nothing of its own."""
        return word in _FUNCTION or any(_same(word, own) for own in self.words)

    def repeated(self, words: Sequence[str]) -> int:
        """How many of the content words of what is asked are among `words`."""
        return sum(any(_same(word, own) for word in words) for own in self.content)


def words_of(lower: str) -> list[str]:
    """The words of `lower`, without the possessive: `france's capital` → `france`, `capital`."""
    return _WORD.findall(_POSSESSIVE.sub("", lower))


def asked_by(question: str, texts: Sequence[str]) -> Asked | None:
    """What `question` asks in its last sentence; None where a plain sentence would not tell which choice is meant.

    That is so where it denies something, compares, asks why, or asks nothing at all.
    """
    last = lowered(last_sentence(question))
    slot = _slot(last)
    if slot is None or DENIED_BEFORE.search(last) or _RELATES.search(last):
        return None
    words = frozenset(words_of(lowered(unemphasized(plain(question)))))
    said = words_of(_ANYWHERE.sub(" ", last))
    kinds = {word for found in _KIND.finditer(last) for word in found.groups()}
    content = frozenset(word for word in said if len(word) > 2 and word not in _FUNCTION | kinds)
    counted = _COUNTED.search(last)
    named = frozenset(text for text in texts if text in last and re.search(rf"(?<!\w){re.escape(text)}(?!\w)", last))
    no_news = named if len(named) < len(set(texts)) else frozenset[str]()
    return Asked(words, content, counted[1] if counted else "", slot, no_news)


def _slot(last: str) -> Slot | None:
    if _ANYWHERE.search(last):
        return Slot.ANYWHERE
    if _DOES.search(last):
        return Slot.LATER
    return Slot.FIRST if _SUBJECT.search(last) else None


def _same(word: str, other: str) -> bool:
    """Whether both are one word in two forms: `end`, `ended`."""
    short, long = sorted((_PAST.get(word, word), _PAST.get(other, other)), key=len)
    return short == long or (len(short) > 2 and long.startswith(short) and long[len(short) :] in _ENDINGS)
