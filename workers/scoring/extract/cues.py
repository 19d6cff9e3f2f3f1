"""What announces an answer, in the languages that models answer in. All patterns are for lower-case text."""

from __future__ import annotations

import re
from typing import NamedTuple

from workers.scoring.extract.patterns import compact, compiled

__all__ = ["ANSWER_IS", "CUES", "FILLERS", "Cue"]


class Cue(NamedTuple):
    """Words after which an answer stands."""

    #: A text in which this cue announces C.
    example: str
    words: str
    #: Said so clearly that a small letter, a number or the text of a choice may follow.
    clear: bool = False
    #: The sentence that follows may end with the choice: "Answer: The capital is Paris."
    sentence: bool = False
    #: An explanation may say so, too: of a point or a car that is called C.
    weak: bool = False
    #: A conclusion, which may be one of several.
    hence: bool = False
    #: What is said of the answer stands behind it, be it that it is wrong.
    verb_last: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        """The words as a regular expression."""
        return compiled(self.words)


#: No letter before and behind a word; scripts without spaces need none.
_OPEN, _SHUT = r"(?<![a-zß-ӿ])", r"(?:(?<![a-zß-ӿ])|(?![a-zß-ӿ]))"


class _Language(NamedTuple):
    """How a language announces an answer."""

    #: What an answer is called.
    nouns: str
    #: What may stand between that and the answer, beside `:`, `=` and the like.
    verbs: str = ""
    #: What else may stand there where the verb is the last word: a particle, or nothing.
    particle: str | None = None


_LANGUAGES = (
    _Language(r"antwort(?:möglichkeit)?|lösung", r"ist|lautet|wäre|war"),  # German
    _Language(r"réponse|reponse|solution", r"est(?: donc)?|serait|était"),  # French
    _Language(  # Spanish, Portuguese, Italian, Catalan
        r"respuesta|resposta|risposta|solución|solução|soluzione|gabarito"
        r"|(?:opción|opção|opzione|alternativa) corr?ec?tt?[ao]",
        r"es|sería|é|seria|è|e'|sarebbe|és",
    ),
    _Language(r"răspuns(?:ul)?", r"este|e"),  # Romanian
    _Language(r"antwoord|svar(?:et)?", r"is|luidt|är|er"),  # Dutch, Swedish, Danish, Norwegian
    _Language(  # Polish, Czech, Slovak, Slovene, Croatian
        r"odpowiedź|odpowiedz|odpověď|odpoveď|odgovor|rješenje", r"to|jest(?: to)?|brzmi|je(?: to)?"
    ),
    _Language(r"vastaus|vastus|válasz|megoldás|atbilde|atsakymas", r"on|az?|ir|yra"),  # Finnic, Hungarian, Baltic
    _Language(
        r"ответ(?:ом)?|(?:правильный|верный) вариант|відповідь|отговор(?:ът)?|одговор", r"это|является|будет|це|е|је"
    ),  # Slavic in Cyrillic
    _Language(r"απάντηση", r"είναι"),  # Greek
    _Language(r"cevap|cevabı|yanıt|yanıtı|doğru (?:seçenek|şık)", particle=""),  # Turkish
    _Language(r"jawaban(?:nya)?|jawapan(?:nya)?", r"adalah|ialah|yaitu"),  # Indonesian, Malay
    _Language(r"đáp án|câu trả lời|phương án đúng", r"(?:chính )?là", particle=""),  # Vietnamese
    _Language(r"jibu|sagot", r"ni|ay"),  # Swahili, Filipino
    _Language(  # Chinese
        r"(?:答案|正确选项|正確選項|正确的选项|正解)(?:应该|應該|应当|就)?", r"是|为|為|应为|應為|选|選|应选|选择"
    ),
    _Language(r"答え|正解|回答|解答|正答", particle=r"は"),  # Japanese
    _Language(r"정답|답|답변|해답", particle=r"은|는|이"),  # Korean
    _Language(
        r"الجواب|الإجابة|الاجابة|(?:الخيار|الاختيار) الصحيح|جواب|پاسخ", r"هي|هو", particle=""
    ),  # Arabic, Persian, Urdu
    _Language(r"התשובה|תשובה", r"היא|הוא", particle=""),  # Hebrew
    _Language(  # Hindi, Bengali, Tamil, Telugu, Gujarati, Punjabi, Kannada, Malayalam
        r"उत्तर|जवाब|सही विकल्प|উত্তর|பதில்|விடை|సమాధానం|జవాబు|જવાબ|ਜਵਾਬ|ಉತ್ತರ|ഉത്തരം", r"है|हैं|হলো|হল|হচ্ছে|છે", particle=""
    ),
    _Language(r"คำตอบ(?:ที่ถูกต้อง|ที่ถูก)?", r"คือ|เป็น", particle=""),  # Thai
)
_NOT = compact(r"""
    (?:non|nicht|não|nao|nie|niet|không|ikke|inte|nunca|bukan|tidak|değil|ليست|ليس|נה|לא|नहीं
    |incorrecta|incorreta|errada|falsa|falsche|mauvaise|fausse)(?!\w)
""")
_POINTS = r"\s?(?:[-=]>|】?[:=|→]|】|-(?=\s))"


def _announced(nouns: str, verbs: str, others: str = "") -> str:
    """A noun, up to two adjectives of three letters or more, and one of the `verbs` or `others`."""
    ways = "|".join(filter(None, (verbs and rf"\s?(?:{verbs}){_SHUT}", others)))
    return rf"(?:{nouns})[\"')]{{0,2}}(?:\s(?!{_NOT})[^\W\d_]{{3,15}}){{0,2}}[\"']?(?:{ways})"


_NOUNS_ANYWHERE = "|".join(_announced(language.nouns, language.verbs, _POINTS) for language in _LANGUAGES)
_VERB_LAST = "|".join(
    _announced(language.nouns, language.particle) for language in _LANGUAGES if language.particle is not None
)
_NOUN = compact(r"""
    (?:answers?(?: (?:choice|option|letter|key))?|ans|solution
    |exception|odd one out
    |(?:correct|right|best|better|closest|most \w{3,15}|final|appropriate
    |accurate|suitable|likely|only|selected|chosen|remaining|true|valid)
    (?: answer)?(?: options?| choices?| letter| one| response| selection| alternative| pick| guess| statement| match
    | fit)
    |my (?:final )?(?:choice|pick|guess|selection|vote|response|decision|verdict)
    |final_answer|correct_answer|answer_choice|(?<=[\"'])(?:choice|option|label)(?=[\"']))
""")
#: The form that the prompt asked for, repeated: "(A, B, C, or D)", "[A/B/C/D]", "(letter only)", "with a letter".
_FORM = compact(r"""
    \s?[(\[](?:[a-z](?:(?:\s?[,/|-]\s?(?:or\s)?|\sor\s)[a-z]){1,25}
    |(?:[a-z]{1,10}\s){0,3}(?:letters?|only)(?:\s[a-z]{1,10}){0,3})[)\]]
    |\swith (?:only )?(?:a|the|one) (?:single |correct )?letter(?: only)?
""")
#: "The answer, I believe, is", "the answer to this question is"; but not "the answer that might be", nor "… that most
#: people give is".
_ASIDE = compact(rf"""
    (?:{_FORM}|,[^,.;:!?\n]{{1,60}},
    |\sto (?:the|this|your) question,?\s"[^"\n]{{1,300}}",?
    |\s(?:to|for|here|among|in|from|given|based|according
    |(?:that|which)(?! (?:(?:most|many|some|other) )?(?:people|students)\b)
    |of (?:these|those|the (?:question|options|choices|following)))\b
    (?:(?!\b(?:if|whether|not|why|how|might|could|may|would|can|similar|another|different|related|previous)\b)[^.,;:!?\n]){{0,80}}?)
""")
_IS = compact(r"""
    (?:is|was|are|be|being|remains|becomes
    |(?:would|will|should|must|has to|have to|can only|seems to|appears to) be
    |(?:would|should) have been)(?![\w'])
""")
_ADVERBS = (
    r"definit(?:e|ive)ly|clearly|obviously|certainly|surely|probably|likely|most (?:likely|probably)|presumably"
    r"|almost certainly|undoubtedly|arguably|without (?:a )?doubt"
)
_SURE = rf"(?:{_ADVERBS}|yes|ok|okay|evidently)"
_HENCE = (
    r"(?:so|therefore|thus|hence|ergo|consequently|accordingly|in conclusion|in summary|to conclude(?! that)|overall"
    r"|by (?:process of )?elimination)"
)
_LETTER = r"[(\[\"']{0,2}[a-z][)\]\"']{0,2}"
_IN_BRACKETS = r"\s[(\[][a-z][)\]]"
_IT_IS = (
    r"(?:it|that|this)"
    r"(?:(?:'s| has)? (?:must|has to|should|would(?: have to)?|can only|got to|gotta) be|'s| is)"
)

#: "We choose 5 students" is no choice of the answer 5.
_NOT_SOME = r"(?!\s?\d{1,6}\s?[名个個只隻张張位种種本人次条條件组組台])"

CUES: tuple[Cue, ...] = (
    Cue(
        "The correct answer to this question is C",
        # "a valid alternative" is another one; of "the solution to f(x) = 5", the equals sign is part of what is asked
        rf"(?<![a-z\d])(?!(?<=\ba )valid alternative){_NOUN}[\"')]{{0,2}}(?P<aside>{_ASIDE})?[\"']?"
        rf"(?:\s?(?<!\w){_IS}|(?(aside)(?!\s?=(?!>))){_POINTS})",
        clear=True,
        sentence=True,
    ),
    Cue(
        "Reasons.\n\n# Final answer\n\nc",
        r"""
        (?:^|\n)[#\s]{0,6}(?:the |my )?(?:final |correct )?(?:answer|antwort|réponse|respuesta)\n|\bans\.
        |(?:^|\n)(?:choice|option selected|selection|selected|verdict|conclusion|result|vote|final|in short|tl;dr
        |(?:(?:my|best|educated|wild)\s){0,2}guess)\s?:
        """,
        clear=True,
    ),
    Cue("Die richtige Antwort lautet c.", rf"{_OPEN}(?:{_NOUNS_ANYWHERE})", clear=True),
    Cue("Doğru cevap C'dir.", rf"{_OPEN}(?:{_VERB_LAST})", clear=True, verb_last=True),
    Cue(
        "I would choose option C, I believe.",
        rf"""
        (?:\bi|\bwe|\blet's|\blet me|\bi'm|\bi am)(?:'d| would| will|'ll| shall| should)?
        (?: (?:have to|must|also|still|therefore))?(?: get the answer(?={_IN_BRACKETS})
        | (?:choose|select|pick|take) the (?:best|closest|nearest) option, which is(?={_IN_BRACKETS})
        | choose| chose| select| selected| pick| picked| go with| go for
        | going with| going for| lock in| lean(?:ing)? towards?| answer| opt for| vote for
        |(?<!let's)(?<!let me) say(?: that)?| guess(?: that)?| settle on| conclude(?: that)?| meant?)\b
        """,
        clear=True,
    ),
    Cue(
        "I think it's C.",
        rf"\b(?:i|we) (?:think|believe|guess|suspect|say|feel)(?: that)?(?: {_IT_IS}| the answer is)?(?!\w)",
    ),
    Cue("Ich würde C wählen.", r"\bich würde\b(?=[^.,;!?\n]{1,20} (?:wählen|nehmen)\b)"),
    Cue("选C。", rf"(?:^|[，。；：\n])\s?(?:选择|選擇|选|選)(?![^，。；\n]{{0,4}}的){_NOT_SOME}", clear=True),
    Cue(
        "故本题选C。",
        rf"(?:故|因此|所以|应该|应|應|我|综上|本题)(?:本题)?(?:应)?(?:选择|選擇|选|選){_NOT_SOME}",
        clear=True,
    ),
    Cue(
        "Je choisis la réponse C, parce que …",
        r"""
        \b(?:ich (?:wähle|nehme|entscheide mich für)|ich würde mich für|j'opterais pour|je choisis
        |c'est (?:donc )?(?:la )?(?:bonne )?(?:réponse|option)|por (?:lo )?tanto,? es|elegiría|escogería
        |(?:somit|damit|daher|also|folglich) ist(?! die (?:richtige|korrekte) antwort)
        |elijo|escolho|scelgo|wybieram|я выбираю|richtig ist
        |ist (?:daher |also |somit )?(?:die )?(?:richtige |korrekte )?antwort)\b
        """,
    ),
    Cue(
        "Paris is in France. Therefore it must be C.",
        rf"""
        (?<![\w-]){_HENCE}\b(?! (?:is|are|was|does|do|can|could|will|would)\b)[,:]?
        (?: (?:{_IT_IS}|we (?:choose|have|get|pick)))?(?!\w)
        """,
        weak=True,
        hence=True,
    ),
    Cue(
        "I looked. It's C.",
        rf"(?:\b(?:{_IT_IS}|es ist|c'est)|(?:^|[\n.!?]\s?)(?:must be|has to be|looks like))(?!\w)",
        weak=True,
    ),
    Cue(
        "The answer is not option A, but C.",
        rf"""
        \b(?:not|nicht|niet|nie|pas|no(?: es)?|non(?: è)?|não(?: é)?|не)\s(?:(?:option|choice|answer|antwort)\s)?
        {_LETTER},?\s(?:but|sondern|maar|lecz|mais|sino|ma|mas(?: sim)?|а)(?: rather| instead)?(?!\w)
        |不是{_LETTER},?\s?而是|(?<=[a-z)\]\"'])(?:ではなく|[가이] 아니라)
        """,
        weak=True,
    ),
    Cue("Let me see. Definitely C!", rf"(?:^|[\n.!?]\s?)(?:{_SURE}|choose|select|pick|go with)\b,?"),
    Cue(
        "This leaves only option C.",
        r"\b(?:leaves|leaving|left)(?: us)?(?: with)?\b|(?:^|\n)(?:→|=>)",
        weak=True,
        hence=True,
    ),
    Cue("This makes C the only viable option.", r"\b(?:this|that|which) makes\b|, making\b", weak=True),
    Cue("Right: C", r"(?:^|\n)(?:correct|right|response)\s?:"),
    Cue("3 * 6 = 18\n\n#### C", r"(?:^|\n)####\s(?=[^\n]{1,20}(?:\n|$))", clear=True),
    Cue(
        "It is in France. This corresponds to option C.", r"\b(?:this|that|it) (?:corresponds to|matches)\b", weak=True
    ),
    Cue(
        "I say A. No, wait: C.",
        r"""
        \b(?:(?:actually|i meant|i mean|edit|update|typo|correction|korrektur|corrección|correção|correzione
        |no|nope|nein|non|não|нет|nie)\s?[,:]|(?<=- )sorry,|wait[,:.]|make that)
        (?: (?:no|sorry)[,:])?(?!\w)
        """,
    ),
    Cue(
        "x = 21, which corresponds to option C.",
        r"\bwhich (?:is|corresponds to|matches|means)(?= (?:option|choice|answer)\b)"
        rf"|(?<!\ba )(?<!\bone )(?<!-)\b(?:best|correct)(?: supported)? (?:conclusion|inference) is(?={_IN_BRACKETS})",
    ),
)
#: Those of them that call what follows the answer.
ANSWER_IS = (CUES[0], *CUES[2:4])

#: Words between a cue and the answer that it announces.
FILLERS = compiled(rf"""
    (?:\s|[\"':,=]|[✓✔✅☑]\ufe0f?|\.{{2,3}}|-(?=\s)
    |(?<=is |be )closest to(?=\s(?:(?:option|choice|answer)\s)?[(\[]?(?:[a-z](?!\w)|\d))|(?:
    options?|choices?|answers?|letters?|number|the|either|both|between|that|it is|it's|is|{_ADVERBS}
    |therefore|thus|indeed|simply|just|only|still|actually|in fact
    |then|now|again|also|auch|aussi|también|também|anche|hence|to be|possibly
    |die|der|das|buchstabe|antwort|daher|somit|la|le|l'|lettre|réponse|donc|opción|letra|inciso|alternativa|opção
    |lettera|opzione|het|de|optie|letter|wariant|вариант|буква|под буквой|η|το|pilihan|opsi|câu|phương án
    |opțiunea|varianta){_SHUT}
    |选项|選項|विकल्प|گزینه|الخيار|الحرف|ข้อ|ตัวเลือก|옵션|보기|也|就){{0,14}}
""")
