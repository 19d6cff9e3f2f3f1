"""Rules for answers that are given without being announced. Each must find one label only."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from workers.scoring.extract.answer import Answer, is_taken_back, sentence_before
from workers.scoring.extract.lists import DENIAL, heads_list
from workers.scoring.extract.normalize import folded, lowered, unemphasized
from workers.scoring.extract.patterns import compiled, past
from workers.scoring.extract.several import is_only_called_right
from workers.scoring.extract.stated_beside import stated_above
from workers.scoring.extract.targets import BARE_LABEL, Claim, Place, read_alike, read_label, read_number
from workers.scoring.extract.words import HESITANT, MENTION, OR, REFUSED

__all__ = ["bold_label", "final_label", "leading_label", "lone_label", "number", "stated_choice", "whole_label"]

#: How much of a line around a bold label is read, and how many bold passages, or lines, are, from the last back.
_REACH, _MOST = 300, 100

#: What may stand before a label that begins a line.
_LEAD = re.compile(
    r"[\s>*•#\"'-]{0,6}"
    r"(?:(?:option|choice|answer|letter|antwort|buchstabe|opción|opção|alternativa|letra|lettre|lettera|réponse)\s?:?\s)?",
    re.IGNORECASE,
)
#: The same in Chinese, where it heads the options under discussion as well.
_CHINESE_LEAD = re.compile(r"(?:选项|選項|(?:正确)?答案|答)\s?:?\s?")


_TICK = re.compile(r"\W{0,6}[✓✔✅☑]\ufe0f?")


def _lead(text: str, answer: Answer) -> int:
    """Where the label may begin in `text`, the answer's or its line: a tick goes before it, if it is the only one."""
    ticked = past(_TICK, text)
    only = ticked and len(_TICK.findall(answer.text)) == 1
    return past(_LEAD, text, ticked if only else 0)


def whole_label(text: str, answer: Answer) -> tuple[str, ...]:
    """The label that is all of `text`, but for a noun before, its own choice behind, and signs around."""
    place = Place(text, lowered(text), answer.options)
    at = past(_CHINESE_LEAD, text, _lead(text, answer))
    label = read_label(place, at)
    if label is None or place.lower[label.end :].strip(" .。:!)]}>\"'*|"):
        return ()
    both = {*label.labels, *read_alike(place, at, label)}
    return tuple(sorted(both))


_ANNOUNCES_LIST = re.compile(
    r"(?<!\bis)(?<!\bbe)(?<!answer):$|\b(?<!other )(?:options|choices|list|each|one by one|step by step)\b(?!\. \w)"
    r"|逐一|逐个|各个?选项|每个选项"
)
_LINE_MARK = re.compile(
    r"(?:^|\s)[>*(\[\"'-]{0,6}([A-Z])[\"']?(?:[.):\]]\s?[^\s.]|$)|^[\s>*(\[\"'-]{0,6}([A-Z])(?![\w'])"
)


_LINE_HEAD = re.compile(
    r"[\s>*(\[\"'-]{0,6}(?:[Oo]ption |[Cc]hoice |[Aa]lternativa |选项|選項)?([A-Z])(?:[.):\]\"']|\s(?:is|was)\b)"
)


def _opens_list(label: str, above: str) -> bool:
    """Whether the last line with this label goes on with, or begins, a list of the choices that was cut off."""
    marks = deque((found[1] or found[2] for found in _LINE_MARK.finditer(above)), maxlen=1)
    follows = bool(marks) and ord(marks[0]) == ord(label) - 1 and not _DISCUSSED.search(lowered(above))
    heads = _LINE_HEAD.match(above)
    follows = follows or (heads is not None and ord(heads[1]) == ord(label) - 1)
    return follows or (label == "A" and _ANNOUNCES_LIST.search(lowered(above)) is not None)


_IS = re.compile(r"\b(?:is|was|be|(?:known|described|defined|classified|characteri[sz]ed|referred to) as):?\s{1,2}\"?")
#: What is not the answer, or only one of several.
_ASIDE = re.compile(
    r"\b(?:first|last|next(?! step)|other|another|options|choices|wrong|incorrect|least|distractor|candidate"
    r"|exclude\w*|ruled|popular|common|finally|there|rule out|not)\b"
)
_MARKED = re.compile(r"[(\[\"']{0,2}[A-Z][)\].:\"']{1,2}\s")


def stated_choice(answer: Answer) -> Iterator[Claim]:
    """`The most likely diagnosis is B. Flu.`: a label with its own text, which something "is"."""
    for found in deque(_IS.finditer(answer.lower), maxlen=_MOST):
        at = found.end()
        marked = _MARKED.match(answer.text, at)
        if marked is None or is_taken_back(answer.lower, found.start()):
            continue
        label = read_label(answer.place(at), at)
        if not label or len(label.labels) != 1 or _ASIDE.search(sentence_before(answer.lower, at)):
            continue
        own = answer.options.follows(answer.place(0).said(marked.end()), label.labels[0])
        behind = answer.lower[marked.end() + own :].strip(" .!*)\"'")
        if own and (not behind or behind.startswith(("because ", "since ", "as "))):
            yield Claim("stated-choice", label.labels, at, label.end)


_BOLD = re.compile(r"\*\*\s?([^*\n]{1,300}?)\s?\*\*|__([^_\n]{1,300})__")
_AND_BOLD = compiled(rf"{OR.pattern}\*\*")
#: What is said right before a label in bold: `the field **B**`, `vitamin **C**` and `Since **A** is a …` name a thing.
_STATES_BOLD = compiled(r"""
    (?:\b(?:is|be|are|was|option|choice|answer|letter|the|only|so|thus|hence|therefore|select|choose|pick|short)
    |[:=→,(-]|\*\*\s?(?:or|and))\s?[(*]*$
""")
#: The same, if the label ends the sentence: `This gives **C**.`, unlike `This gives **B** in tesla`.
_YIELDS_BOLD = compiled(r"""
    (?:\b(?:gives?|get|have|means|equals|supports|making it|makes it|going with|i\.e\.|result|final
    |(?:points?|goes|leads?|leads? us|brings us|back|comes down) to
    |ist|est|es|é|è|jest|la|die|also|somit|daher|folglich|donc|portanto|quindi|por (?:lo )?tanto|это|поэтому|значит)
    |\b(?:das|it|that|this)'s|是|为|為|所以|因此|故|选|選|したがって|よって|इसलिए|لذلك|yüzden)\s?[(*]*$
""")
_ENDED = re.compile(r"[\s.!。)*]*(?:です。?)?(?:$|[.。](?!\w))")


def bold_label(answer: Answer) -> Iterator[Claim]:
    """`It can only be the **C**`, or a last line `**C) Paris**`; what heads a line is an option under discussion."""
    marked = answer.marked
    for found in deque(_BOLD.finditer(marked), maxlen=_MOST):
        label = whole_label(found[1] or found[2], answer)
        before = marked[max(0, found.start() - _REACH) : found.start()].split("\n")
        behind, *below = marked[found.end() : found.end() + _REACH].split("\n")
        states = bool(_STATES_BOLD.search(lowered(before[-1])) or _AND_BOLD.match(lowered(behind)))
        states |= bool(_ENDED.match(behind) and _YIELDS_BOLD.search(lowered(before[-1])))
        if label and not states and not below and not behind.strip(" .!*)"):  # "It is in France. **C**", "Paris **C**"
            above = before[-1].rstrip(" *(")
            states = above.endswith((".", "!")) or folded(above).endswith(answer.options.text(label[0]) or "\n")
        in_sentence = states and not HESITANT.search(lowered(f"{before[-1]} {behind}"))
        alone = not (before[-1] + behind).strip(" .*_#>-") and not below
        if label and in_sentence:
            yield Claim("bold-label", label, found.start(), found.end())
        elif label and alone and not _is_in_list(label[0], _lines_above(marked, found.start()), answer):
            yield Claim("bold-label", _with_stated(label, answer), found.start(), found.end())


def _lines_above(marked: str, at: int) -> list[str]:
    """The lines above the one at `at`, without their emphasis."""
    return [unemphasized(line) for line in marked[:at].split("\n")[-_MOST - 1 : -1] if line]


_LETTER = re.compile(r"[(\[\"']{0,2}[A-Za-z]")
_AFTER_LETTER = re.compile(
    r"\s?$|\s?\n|[)\]}>\"']{0,2}(?:[.:!,;)\]]|\s-\s|\s\("
    r"|\s(?:because|since|as|given|rather than|instead of|is correct(?! (?:but|only|if|unless)\b))\b)"
)
#: `A) Berlin: …` may be the first of a list that was cut off; `A) Berlin.`, `A) Berlin [1]` and `A) Berlin is the most
#: likely place …` are none.
_AFTER_FIRST = re.compile(
    r"[)\]\"']{0,2}(?:\s?$|\s?\n(?!\n?[-*•])|[.,;!]|\s?[-:]?\s(?:because|since|as)\b"
    r"|\s?[(\[](?:(?:passage|source|document|context) )?\d"
    r"|(?:\s?\([^()\n]{1,40}\))?\s(?:is|are) the (?:most (?:likely|probable|plausible|appropriate|suitable|accurate)"
    r"|best|correct|right)\b)"
)
#: `A. M. Turing`, `A. Smith (2010)`, `A. Smith et al.`: a person.
_PERSON = re.compile(r"[A-Z]\. (?:[A-Z]\. (?:[A-Z]\. )?[A-Z][a-z]|[A-Z][\w'-]+,? (?:et al\b|\((?:1[5-9]|20)\d\d))")
#: Behind an "I" that is no pronoun.
_NO_PRONOUN = re.compile(r"[)\]]|\.?\n")
#: `A: C` answers a question that began with `Q:`; only its own choice behind it makes that A a label.
_ANSWER_MARK = re.compile(r"[\s>*•#\"'-]{0,6}A\s?:\s?\S")
#: `A (10 %), C (90 %)` weighs the choices.
_WEIGHED = re.compile(r"(?<![\w'])[A-Z][)\]]?\s?[(:=-]{1,2}\s?\d{1,3}(?:\.\d{1,4})?\s?%")
#: `(a) The force is …`, `i) We know that …`, `(I) The rate is …`: the first part of an answer in several.
_PART = re.compile(r"[(\[\"']{0,2}[a-zI][)\].:]{1,3}\s?(?!(?:because|since|as)\b)[^\s,;]")
#: `A. I'm sorry, but …` numbers a refusal.
_DECLINES = re.compile(
    r"[)\]\"'.:]{0,3}\s?"
    r"(?:(?:i'm |i am )?(?:very )?(?:sorry|unable)\b|i apologi|i (?:cannot|can't|can not)\b|as an ai\b)"
)
_DISCUSSED = re.compile(
    r"\b(?:wrong|incorrect|false|not (?:correct|right|the)|eliminat\w*|ruled out|falsch|faux|incorrecta)\b"
)


def leading_label(answer: Answer) -> Iterator[Claim]:
    """`C`, `C) Paris`, `C, because …`, `Option C: …`; not the first line of a list, nor of an analysis."""
    if whole := whole_label(answer.text, answer):
        yield Claim("leading-label", whole, 0, len(answer.text))
        return
    at = _lead(answer.text, answer)
    label = read_label(answer.place(at), at)
    if label is None or not label.labels:
        return
    end, first = past(_LETTER, answer.text, at), label.labels[0]
    if (last := whole_label(answer.text.rpartition("\n")[2], answer)) and first not in last:
        return  # the text ends with another
    own = end + answer.options.follows(answer.lower[end:].partition("\n")[0], first)
    if own == end and (_PART.match(answer.text, at) or _PERSON.match(answer.text, at)):
        return
    if len(_WEIGHED.findall(answer.text)) > 1 or is_only_called_right(
        answer, Claim("leading-label", (first,), at, end)
    ):
        return
    if own == end and (_ANSWER_MARK.match(answer.text) or _DECLINES.match(answer.lower, end)):
        return
    if _leads_on(answer, end, own, first) and not _is_listed(answer, own, first):
        same = read_alike(answer.place(at), at, label)
        yield Claim("leading-label", tuple(sorted({*label.labels, *same})), at, label.end)


def _leads_on(answer: Answer, end: int, own: int, label: str) -> bool:
    """Whether the text goes on as after an answer, behind the label at `end` and its choice at `own`."""
    line = answer.text[own:].partition("\n")[0]
    if _DISCUSSED.search(lowered(line)) and not BARE_LABEL.search(line):
        return False
    if own == end:  # "I, for one, …" begins like "C, because …"
        return _AFTER_LETTER.match(answer.lower, end) is not None and (
            label != "I" or _NO_PRONOUN.match(answer.text, end) is not None
        )
    return label != "A" or _AFTER_FIRST.match(answer.lower, own) is not None


def _is_listed(answer: Answer, own: int, label: str) -> bool:
    """Whether the text goes on with the next label: `C) … D) …`, `Option C … Option D …`."""
    named = re.match(r"\W{0,6}(?:option|choice) ", answer.lower)
    again = named and re.search(
        rf"\b(?:option|choice) {chr(ord(label) + 1).lower()}\b(?![^.\n]*{DENIAL.pattern})", answer.lower
    )
    return bool(again) or heads_list(answer.text, own, label, answer.options, announced=False)


#: A last line that was cut off where a part of the answer, or a variable, was named: `(e)`, `d`.
_CUT_OFF = re.compile(r"\W{0,6}[a-z]\W{0,6}")


def _last_label(last: str, answer: Answer) -> tuple[str, ...]:
    """The label that is all of the `last` line of several; a small letter may be the beginning of anything."""
    return () if _CUT_OFF.fullmatch(last) else whole_label(last, answer)


def lone_label(answer: Answer) -> Iterator[Claim]:
    """A last line that is only a label: `…\\n\\n(C)`; or the only label of the text at the end: `It's Paris (C).`"""
    *lines, last = [line for line in answer.text.split("\n") if line] or [""]
    if is_taken_back(answer.lower, len(answer.text) - len(last)):
        return
    label = _last_label(last, answer)
    if not label or last.endswith(":"):
        yield from _lone_mention(answer, last)
    elif not _is_in_list(label[0], lines, answer):
        yield Claim("lone-label", _with_stated(label, answer), len(answer.text) - len(last), len(answer.text))


def _with_stated(label: tuple[str, ...], answer: Answer) -> tuple[str, ...]:
    """The `label` of the last line, and the choice that the text above states: `The capital is Paris.`, then `A`."""
    stated = stated_above(answer, max(0, answer.text.rfind("\n")))
    others = stated.labels if stated and not set(label) & set(stated.labels) else ()  # choices may read alike
    return tuple(sorted({*label, *others}))


def _heads_next(label: str, lines: list[str], answer: Answer) -> bool:
    """Whether other labels have a line of their own, too: a text that takes them in turn, or names several."""
    listed = {each for line in lines[-_MOST:] for each in whole_label(line, answer)}
    return bool(listed) and label not in listed


#: How a sentence begins that names the answer, whatever was named before.
_CONCLUDING = re.compile(r"\s?(?:so|therefore|thus|hence|it's|it is|this is|the (?:correct |right |best )?answer)\b")


def final_label(answer: Answer, start: int) -> tuple[str, ...]:
    """The label that is all of the last line, which begins behind `start`; empty where there is none, or a list."""
    *lines, last = [line for line in answer.text.split("\n") if line] or [""]
    label = _last_label(last, answer)
    begins = len(answer.text) - len(last)
    is_answer = bool(label) and begins > start and not last.endswith(":") and not _is_in_list(label[0], lines, answer)
    return label if is_answer and not _OTHERS.search(lowered(lines[-1] if lines else "")) else ()


_OTHERS = re.compile(r"\b(?:others?|incorrect|wrong|why not|remaining)\b")


def _is_in_list(label: str, lines: list[str], answer: Answer) -> bool:
    return (
        _opens_list(label, lines[-1] if lines else "") or _heads_next(label, lines, answer) or _comes_next(label, lines)
    )


def _comes_next(label: str, lines: list[str]) -> bool:
    """Whether the lines take the choices in turn, up to the one before `label`, and call none of them wrong since.

    The text was then cut off before it said anything of `label`. A last line that ends with a colon announces it.
    """
    heads = [(found[1], at) for at, line in enumerate(lines[-_MOST:]) if (found := _LINE_HEAD.match(line))]
    if len(heads) < 2 or max(head for head, _ in heads) != chr(ord(label) - 1) or lines[-1].endswith(":"):
        return False
    return not any(_DISCUSSED.search(lowered(line)) for line in lines[-_MOST:][heads[-1][1] :])


def _lone_mention(answer: Answer, last: str) -> Iterator[Claim]:
    mentions = deque(MENTION.finditer(last), maxlen=1)
    label = mentions[0][mentions[0].lastgroup or 0] if mentions else ""
    if not label or label not in answer.options.labels or mentions[0]["listed"]:
        return
    start, end, size = mentions[0].start(), mentions[0].end(), len(answer.text)
    before, behind, own = folded(last[:start].rstrip(" (")), last[end:], answer.options.text(label)
    named = bool(own) and before.endswith(own)
    sentence = re.split(r"[.!?:;]\s", lowered(last[:start]))[-1]
    concludes = named and not behind.strip(" ).!") and _CONCLUDING.match(sentence)
    if concludes and not _DISCUSSED.search(sentence) and not is_taken_back(answer.lower, size - len(last) + start):
        yield Claim("lone-label", (label,), size - len(last), size)
        return
    cited = mentions[0]["bracketed"] and _CITES.search(before)
    if cited or ("[" in last[start - 1 : start + 1] and _states_another(answer, before, label)):
        return
    only = {found[found.lastgroup or 0] for found in MENTION.finditer(answer.text)} == {label}
    if not only or HESITANT.search(lowered(last)) or REFUSED.search(answer.lower):
        return
    closes = not (mentions[0]["bracketed"] and before) or _speaks_of(own, before) or _SO_BRACKETED.fullmatch(before)
    if others := _closing(answer, before, label):
        yield Claim("lone-label", (label, *others), size - len(behind), size)
    elif (named and not behind[:1].isalnum()) or (re.fullmatch(r"\)?[.!]?", behind) and closes):
        yield Claim("lone-label", (label,), size - len(behind), size)


#: What a label in brackets behind it is the source of, not the answer: `It is stated in [B].` An option is no source.
_CITES = re.compile(
    r"\b(?:see|cf|sources?|passages?|documents?|contexts?|according to|citing"
    r"|(?:stated|given|found|mentioned|described|shown|cited|supported|said|written|follows|comes?|is) (?:in|by|from))"
    r"\W{0,3}$"
)


#: All that is said before a label in brackets that ends the text.
_SO_BRACKETED = re.compile(
    r"(?:the )?(?:result|correct|right|(?:right|correct|best|third|second|first|fourth|last) (?:option|choice|one))"
    r"|somit|also|daher|folglich|donc|portanto|quindi|por (?:lo )?tanto|поэтому|итак"
    r"|因此|所以|故|综上|よって|したがって"
)
#: A word or number that tells choices apart.
_TELLING = re.compile(r"\d[\d.]*|[^\W\d]{4,}")


def _speaks_of(own: str, before: str) -> bool:
    """Whether the last words of `before` are of the choice `own`: `24 apples (B)`, unlike `amperes (A)`."""
    said = before.rsplit(maxsplit=4)[1:] if len(before.split()) > 4 else before.split()
    return not {*_TELLING.findall(own)}.isdisjoint(_TELLING.findall(" ".join(said)))


def _states_another(answer: Answer, before: str, label: str) -> bool:
    """Whether the sentence in front of a label in square brackets names another choice, and not its own."""
    named = {text for *_, text in answer.options.mentioned(re.split(r"[.!?:;]\s", before)[-1])}
    return bool(named) and answer.options.text(label) not in named


def _closing(answer: Answer, before: str, label: str) -> tuple[str, ...]:
    """Labels of another choice than `label`, whose text `before` ends with, right ahead of it: `It's Paris (B).`"""
    said = before.rstrip(" ,;:([-")
    closing = deque(answer.options.mentioned(said), maxlen=1)
    if not closing or closing[0][1] != len(said) or closing[0][2] == answer.options.text(label):
        return ()
    return answer.options.having(closing[0][2])


def number(answer: Answer) -> Iterator[Claim]:
    """A position alone, or with its choice: `3`, `Option 3`, `3) Paris`; not where a choice is a number."""
    at = past(_LEAD, answer.text)
    claim = read_number(answer.place(at), at)
    if claim is None or not claim.labels or answer.options.having(folded(answer.text)):
        return
    behind = answer.place(0).said(claim.end)
    own = answer.options.follows(behind, claim.labels[0])
    if not behind[own:].strip(" .:!)"):
        yield claim
