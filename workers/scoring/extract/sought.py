"""What a question asks for, where that is the choice that is *not* so: `Which of these is NOT a noble gas?`"""

from __future__ import annotations

import re
from dataclasses import dataclass

from workers.scoring.extract.normalize import lowered, plain, unemphasized
from workers.scoring.extract.patterns import compiled

__all__ = ["DENIES", "FALSE", "NOUN", "Sought", "exception_sought", "last_sentence"]

#: Where the sentence begins that asks; `W. Timothy Coombs` begins none.
_BEGINS = re.compile(r"(?<!\b[A-Z])[.?!:]\s+(?=[A-Z]\w*\s+\S)|\n+(?=[^\W_])")
_IN_CAPITALS = re.compile(r"\b(?:NOT|EXCEPT|LEAST|FALSE|INCORRECT|UNTRUE|WRONG)\b")
FALSE = r"(?:false|incorrect|untrue|wrong|inaccurate|invalid)"
#: Words that name a statement or a choice.
NOUN = r"(?:statements?|sentences?|claims?|assertions?|pairs?|match(?:es)?|combinations?|ones?|options?|choices?)"
_VERB = r"(?:is|are|was|were|does|do|did|has|have|had|can|could|would|will|should|may|might|must)"
_VERB_NOT = r"(?:cannot|(?:is|are|was|were|does|do|did|has|have|had|ca|could|would|wo|should)n't)"
DENIES = rf"(?:{_VERB}(?: \w{{1,12}})? not|{_VERB_NOT})"
#: In lower case, "not" asks for an exception only behind the verb of "which": not in "which explains why it is not".
_ASKS = compiled(rf"""
    \bexcept(?: for)?(?: one)?(?:\s?\(?[^\w\n]*$|\s?:)|\ball\b.{{0,120}}\bexcept\b
    |\b(?:which|what|who)\b(?:(?!\b(?:why|because|explain\w*|when|if|that|who|reasons?|best)\b).){{0,100}}?
    \b(?:{_VERB} not\b|{_VERB_NOT}\b
    |(?:is|are|was|were)(?: \w{{1,12}})? (?:{FALSE}|the exception|least)\b|{FALSE} {NOUN}\b|least \w)
    |^(?:{FALSE}|not true) \b|\b{_VERB} not\b.{{0,80}} which\b
    |\b(?:find|identify|select|choose|mark|pick|name) the (?:{FALSE}|odd)\b
    |(?<!\bor )\b(?:{FALSE}|not (?:true|correct))(?: {NOUN})?(?: \w{{1,10}}){{0,3}}(?: is| are)?\s?[:?]?$
    |错误的|不正确|不属于|不包括|不是
""")
#: It asks for what is false, rather than for what does not belong to something.
_OF_STATEMENTS = compiled(
    rf"\b(?:{FALSE}|(?:not|n't) (?:\w{{1,12}} )?(?:true|correct|accurate|valid|right)\b"
    rf"|(?:true|correct|accurate|valid|right)\b.{{0,100}}\bexcept)|错误|不正确"
)
_WORD = re.compile(r"[^\W\d_]{4,}")
#: They say nothing of what is denied.
_EMPTY = frozenset(["considered", "classified", "typically", "usually", "generally", "really", "this", "that"])
#: As much of a word as its other forms share.
_STEM = 5

_SAID_FALSE = compiled(rf"""
    [)\]\"'.,]{{0,3}}\s?(?:[-:]\s?
    |(?:is|are|was|were)(?: (?:clearly|therefore|thus|definitely|also|actually))?(?: an?| the)?\s)
    (?:{FALSE}|not (?:entirely |strictly |completely )?(?:true|correct|accurate|valid|right))
    (?: {NOUN})?(?! (?:answer|because it(?:'s| is) (?:\w{{1,12}} )?true|only if|if|unless))(?![\w-])
""")
_SAID_ODD = compiled(r"""
    [)\]\"']{0,3}\s(?:is|was|would be)(?: \w{1,12})? (?:the|an) (?:exception|odd one out|outlier|least \w{3,15})\b
""")
_SAID_NOT = compiled(rf"[)\]\"']{{0,3}}\s{DENIES}\b")
#: It is not what is asked for, so that it is the answer as little as any other.
_NOT_SOUGHT = compiled(rf"""
    \s(?:(?:the|an|our|my)\s(?:\w{{1,15}} )?(?:answer|exception|one|option|choice|odd|outlier)\b|(?:the )?{FALSE}\b
    |(?:just|only|merely|simply|solely|necessarily|always|as|used as)\b)
""")
_CLAUSE = re.compile(r"[^.,;:!?\n]{0,200}")
_ENDS = re.compile(r"[\"')\]]{0,2}\s?(?:[.,;!\n]|$)")


@dataclass(frozen=True)
class Sought:
    """The exception that a question asks for. `words` are the beginnings of the question's own words."""

    false_statement: bool
    words: frozenset[str]

    def describes(self, lower: str, at: int) -> bool:
        """Whether what is said at `at`, right behind a choice, is that it is the exception: ` is not a noble gas`."""
        if _SAID_ODD.match(lower, at) or (self.false_statement and _SAID_FALSE.match(lower, at)):
            return True
        denied = _SAID_NOT.match(lower, at)
        if denied is None or _NOT_SOUGHT.match(lower, denied.end()):
            return False
        if _ENDS.match(lower, denied.end()):
            return True
        clause = _CLAUSE.match(lower, denied.end())
        words = [word for word in _WORD.findall(clause[0] if clause else "") if word not in _EMPTY]
        return any(word[:_STEM] in self.words for word in words[:2])


def last_sentence(question: str) -> str:
    """The sentence of `question` that asks."""
    return _BEGINS.split(unemphasized(plain(question)))[-1].strip()


def exception_sought(question: str) -> Sought | None:
    """The exception that `question` asks for in its last sentence; None where it asks for what is so."""
    asked = last_sentence(question)
    last = lowered(asked)
    if not _IN_CAPITALS.search(asked) and not _ASKS.search(last):
        return None
    words = frozenset(word[:_STEM] for word in _WORD.findall(last))
    return Sought(_OF_STATEMENTS.search(last) is not None, words)
