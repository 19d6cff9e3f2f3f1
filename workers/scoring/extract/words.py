"""What is said around a label that makes it an answer, or keeps it from being one. All for lower-case text."""

from __future__ import annotations

import re

from workers.scoring.extract.patterns import compact, compiled

__all__ = [
    "BEGINS_TO_THINK",
    "CONCLUDES",
    "CONDITION",
    "CONFIRMED",
    "CONTRADICTED",
    "CORRECTED",
    "CORRECTED_HERE",
    "DENIED_AFTER",
    "DENIED_BEFORE",
    "DENIED_NEXT",
    "ENDS",
    "GOES_ON",
    "HEDGED",
    "HESITANT",
    "JUDGED_RIGHT",
    "MENTION",
    "NOT_RIGHT",
    "OF_EXAMPLE",
    "OR",
    "REFUSED",
    "RESUMES",
    "RETRACTED",
    "SUPPOSED",
    "TURNS",
    "VERDICTS",
    "VOID",
    "WORKS",
]

# --- right behind an answer -----------------------------------------------------------------------------------------

_EAST_ASIAN_OR_THAI = r"[\u0e00-\u0e7f\u1100-\u11ff\u3040-\u9fff\uac00-\ud7af]"
_SEMITIC_OR_INDIC = r"[\u0590-\u0dff]"

#: An end, a sign, a tag (`<eoa>`), or a script in which the next word cannot be taken for part of the answer.
ENDS = compiled(rf"""
    \s?$|\s?\n|(?:\s?[.,;:!)\]}}\"']|\s?\||>)(?:(?={_EAST_ASIAN_OR_THAI})|(?![^\W_]|[\\/=]))|\s[✓✔✅☑]|[、،【]|\s?[。।۔]|-(?=\s|$)|\s(?:[(\[|]|-(?!-?>))
    |\s?(?:</(?!(?:su[bp]|del|strike)>)[a-z_]{{2,20}}|<(?:eo[a-z]|end[a-z_]{{0,20}}))>
    |\s?(?={_EAST_ASIAN_OR_THAI})|\s(?={_SEMITIC_OR_INDIC})
""")
#: Not right of, next to or about something: "A is right next to B", "B is right about the speed".
_AS_SUCH = compact(r"""
    (?! (?:of|next|above|below|behind|beside|under|over|before|after(?! all)|about|on|at|near|that|in front
    |in \w{3,15}ing)\b)
""")
#: … or one of the words that explain it.
GOES_ON = compiled(rf"""
    \s(?:because|since|as|due to|given|which|so|but|and not|not|rather than|instead of|over|based on|here
    |for the (?:following )?reasons?|for (?:this|that|these)|in (?:this|that|our|my)|with (?:\w{{1,12}} )?confidence
    |on this (?:one|question)|according to|among (?:the|these)|from (?:the|these|among)
    |and the (?:explanation|reason|others?)
    |(?:correct|right){_AS_SUCH}|the (?:correct|right|best|only|most)|must be (?:the |true|correct|right)
    |(?:too|as well)(?=[.,;!\n]|$)
    |is (?:clearly |indeed |definitely )?(?:the )?(?:\w{{1,15}} )?(?:(?:correct|right){_AS_SUCH}|answer
    |best (?:answer|choice|fit))
    |richtig|korrekt|die (?:richtige|korrekte)|wählen|nehmen
    |weil|denn|da|car|parce|puisque|porque|ya que|pois|perché|poiché|omdat|ponieważ|protože|fordi|eftersom|koska
    |karena|vì|ist (?:richtig|korrekt)|est (?:correcte?|juste)|es (?:la )?correcta|şık\w{{0,8}}|seçene\w{{0,8}}|jest
    |adalah|là (?:đáp án )?(?:đúng|chính xác))\b|'[dt][ıiuü]r\b
""")
#: Small words that go on with a sentence after `c.`; any other small word makes `C. difficile` a name.
RESUMES = compiled(r"""
    (?:because|since|as|it|this|that|the|they|there|so|in|which|we|you|i|all|both|only|when|if|for|by|at|on|but|and
    |not)\b
""")
#: Between two answers that are both meant: "A or maybe B".
OR = compiled(r"""
    [)\]\"']{0,3}(?:,?\s\(?(?:and|or|und|oder|et|ou|y|o|e|u|и|или|і|та|або|ve|veya|dan|atau|en|of|i|lub|a|nebo|och
    |eller|og|ja|tai|và|hoặc)\s
    |\s?(?:[&/+]|和|或者|或|与|與|及|、|と|または|や|か|와|과|또는|및|이나|أو|या|और|এবং|বা)\s?
    |\s(?:as well as|along with|together with|plus)\s|\sو\s?|[,;]\s?|\s?-\s?)
    (?:(?:maybe|possibly|perhaps|probably|rather|even|else|also|option|choice|answer|the|and|or|both|either)\s){0,3}
""")
_ASIDE = r" ?(?:\((?![a-z]\))[^()\n]{0,80}\) ?)?"
#: It is spoken of as wrong.
DENIED_AFTER = compiled(rf"""
    [)\]\"'.]{{0,3}}{_ASIDE}(?:
    (?:is|was|are|were|seems|looks|appears|(?:would|can|could|must|has to|should|have to) be)(?: \w{{1,15}}){{0,2}}
    (?: not| wrong| incorrect| false| out| eliminated| ruled out| unlikely| impossible| excluded| invalid)\b
    |(?:(?<!\.\s)(?:do|ca|could|would|wo|did)|is|was|are|were|does)n't
    |(?<!\.\s)(?:cannot\b|(?:do|did|would|could|will|can) not\b)|does not\b
    |ist (?:nicht|falsch)|n'est|est (?:faux|fausse|incorrecte?)|no es|es (?:incorrecta|falsa)|não é|non è
    |è (?:sbagliata|errata)|가 아|이 아|では(?:な|あり)|じゃな|でも|吗|嗎
    |नहीं|değil|نیست|নয়|✗|✘|❌|✕|不是|不对|错误|是错|以外|之外|不了
    |的(?:可能(?!性?(?:最|很|较|更)[大高])|人|说法|同学|学生|观点|想法|话)|这[种个](?:说法|观点|想法)
    |(?<!\.\s)(?:ผิด|ไม่(?:ถูก|น่า|ใช่(?!\s?[(\[]?[a-z]))|गलत|ग़लत|सही नहीं|ভুল|সঠিক নয়|தவற|తప్పు|ખોટ|ਗਲਤ|ತಪ್ಪ|തെറ്റ
    |خاطئ|خطأ|غير صحيح|ليست? (?:ال)?صحيح|نادرست|اشتباه|غلط|درست نہیں|صحیح نیست|שגוי|לא נכונ|אינ))
""")
#: Between "is" and "the answer" these say that it is not: "is wrong, as the answer …", "is close to the answer".
_APART = compact(r"""
    (?:not|never|hardly|scarcely|barely|rarely|seldom|nowhere|almost|nearly|wrong|incorrect|false|because|since|as|to|of
    |from|for|if|when|than|like|near|unlike|against)\b
""")
#: "The … answer" that these speak of is not the one given.
_LESSER = compact(r"""
    (?:wrong|incorrect|false|worst|worse|least|less|weak\w*|first|second|third|next|last|other|another|opposite
    |tempting|common|popular|naive|intuitive|trap|tricky|distract\w*|decoy|runner|alternative|unlikely|previous
    |initial|original|former|call|put)\b
""")
#: It is spoken of as right; `only` as *the* answer.
JUDGED_RIGHT = compiled(rf"""
    [)\]\"']{{0,3}}{_ASIDE}(?:
    (?P<only>(?:is|(?:must|should|has to|would|seems to|appears to) be)(?: (?!{_APART})\w{{1,15}}){{0,2}}?
    (?: the| my| our)(?: (?!{_LESSER})\w{{1,15}}){{0,2}}?(?: answer| choice| option|(?<! of) one| fit| match
    | description| explanation| interpretation| candidate)
    (?![\w-]| (?:which|to|not|if|unless|than|only|i)\b| that (?!fits|matches|works|satisfies))
    |it is(?:,? then)?(?=[.,!\n]|$))
    |(?:(?:is|seems|(?:seems|appears) to be)(?: the)? (?:most|best) \w{{3,20}}(?=[.,;!\n]|$)
    |(?:best|most accurately|most closely) (?:fits|captures|matches|describes|explains|answers|reflects|represents
    |summarizes|supports|completes|aligns|corresponds)(?!\w)|makes the most sense(?!\w)
    |(?:fits|aligns|matches|explains|describes)(?: (?:the|this|that|these|all) \w{{1,15}})? best(?!\w))
    |(?:is|(?:must|has to|would(?= be (?:correct|right)(?:[.!\n]|$))) be|(?:seems|appears)(?: to be)?|looks)
    (?: (?:clearly|indeed|definitely|therefore|also))?(?: correct| right)
    (?![\w-]| (?:but|only|if|unless)\b|,? but (?:it|that|this)(?:'s| is)?(?: not|n't)\b){_AS_SUCH}
    |ist (?:die )?(?:richtige?|korrekte?)\b|est (?:la bonne|correcte?|juste)\b
    |es (?:la )?(?:respuesta |opción )?correcta\b|é (?:a )?correta\b|è (?:la )?(?:risposta )?corretta\b
    |が正解|が正しい|\sसही है|是正确|是正確|正确|가 정답|이 정답|가 맞)
""")

#: Behind the only choice that does.
WORKS = re.compile(
    r"[)\]\"']{0,2}\s(?:is (?:possible|left|correct|valid)|works|fits|satisf\w{1,6}|remains|holds|makes sense)\b"
)
#: Behind a choice that is a word of assent as well: nothing is answered yet. "Yes, let me think step by step.", "Yes, I
#: can help with that."
BEGINS_TO_THINK = compiled(r"""
    [,.!]\s?(?:(?:so|well|okay|ok|of course|certainly|sure)[,.! ]\s?)?(?:
    (?:(?:that's|that is|this is|it's|it is) (?:an? |such an? |not an? )?)?(?:\w{1,12} )?question\b|i see\b|
    (?:let me|let's|let us|(?:i|we)(?:'ll| will| need to| have to| must| should))\s(?:first |now |just |carefully )?
    (?:think|see|consider|look|check|work|analy[sz]e|break|go (?:through|over)|start|begin|reason|examine|evaluate
    |recall|figure|reflect)
    |i(?: can|'d be (?:happy|glad) to|'m (?:happy|glad) to| would be (?:happy|glad) to| am (?:happy|glad) to)\s
    (?:help|assist|answer)|(?:happy|glad) to (?:help|assist|answer|explain|clarify))\b
""")

# --- before a cue ---------------------------------------------------------------------------------------------------

#: In its sentence: what follows holds under a condition only.
CONDITION = compiled(r"""
    \b(?:if(?! i (?:(?:had|have|must|need) (?:to )?(?:choose|pick|guess|answer|select|decide|say)
    |(?:re(?:member|call)|understand)(?: \w{1,12}){0,2} (?:correctly|right)|recall)|(?: i'm| i am)? not mistaken)
    |had (?:it|this|that|the \w{1,20}) been|unless|whether(?! or not)
    |wenn|falls|ob|si|eğer|jika|если|якщо|jeśli|als
    |sake of|before that|formerly|back then)\b|如果|假如|もし|만약|若
""")
#: In its clause: what follows is supposed, another's opinion, or past; or it is another answer than the one given.
SUPPOSED = compiled(r"""
    \b(?:suppos\w{1,4}|assum\w{1,4}|imagine|tempting|tempted|mistake|mistakenly|initial|initially|previous|at first
    |first thought|wrote|says|said|told|claims|claimed|heard|argues|let's say
    |(?:some|many|most|others?|one|you|people|someone|students?|they)\b[^.,;\n]{0,30}?
    \b(?:says?|thinks?|argues?|believes?|guess|claims?|assumes?|choose|pick|suggests?)
    |(?:would|might|could|may|people|students?|models?|others|many|most|some|they|one|else)
    (?: (?:often|usually|typically|commonly|probably|just|simply|would|might|will)){0,2}\s
    answers?(?= [(\"']?[a-z][)\"']?(?!\w))
    |(?:people|students|they)(?: (?:often|usually|typically|commonly|would|might))?(?= $)
    |(?:wrong|incorrect|false|untrue|mistaken) (?:that|to (?:say|claim|conclude|think|assume|believe|infer|suggest))
    |it (?:could|might|may|can) be (?:argued|said|thought)|unlikely that|hard to (?:argue|believe|accept|imagine)
    |refuse|disagree|used to (?:think|believe)|nothing (?:\w{1,15} )?(?:suggests|says|indicates|shows|implies))\b
    |错误|误以为|误认为|有人|लोग|छात्र|البعض|الكثير|برخی|บางคน|หลายคน
    |\b(?:misconception|misunderstanding|misbelief|myth|fallacy|error|slip|trap|pitfall|blunder|confusion)s?
    (?: of(?: \w{1,12}){1,3}| here)?(?: (?:is|was|would be)(?: simply| just| often)?)?
    \s(?:that|to|of \w{3,15}ing|\w{3,15}ing)\b
    |\b(?:une erreur|error común|erro comum|un errore)\b
    |\b(?:beaucoup|certains|muchos|algunos|muitos|alguns|molti|alcuni|многие|некоторые)\b[^.,;\n]{0,30}?
    \b(?:pensent|croient|disent|piensan|creen|dicen|pensam|acham|dizem|pensano|credono|думают|считают)\b
    |\b(?:beware|careless(?:ly)?|hast(?:e|y|ily)|fooled|misled|tricked|easy to (?:think|believe|assume|conclude|say))\b
    |\b(?:wrong|incorrect|false|worst|(?:least|less)(?: \w{1,12})?|runner-up|opposite|your|his|her|their
    |(?<!it')(?<!that')s|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|suggested|proposed|given|textbook
    |each of the|classic|classical|usual|typical|standard|other|another|alternative
    |old|outdated|former|original|(?<!only )possible|plausible|distractor|student|user|tempting|common|popular|obvious
    |naive|intuitive|trap|tricky|trick|example|sample|falsche|mögliche|incorrecta|errada|sbagliata|mauvaise|next
    |(?:second|third|next)[ -](?:best|most)(?: \w{1,12})?)\s$
""")
#: In its clause: what follows is denied.
DENIED_BEFORE = compiled(r"""
    \b(?:not|never|neither|nor|nobody|none|hardly|cannot|no one|no way|(?<!no )(?<!a )(?<!out )doubt|except
    |anything but|nicht|kein|keine|nie|ne|pas|no(?! doubt| question)|não|non|не|bukan|tidak|không)\b
    |n't\b|不|没|아니|(?:لا يمكن أن |المستحيل أن |لن )(?:تكون|يكون) (?:هي |هو )?$|ليست? $
""")
#: Before an answer: it is that of another question, which the text brings up as a similar one or as an example.
OF_EXAMPLE = compiled(r"""
    (?:\b(?:similar|related|analogous|another|sample|practice|different|easier|simpler|follow-up)
    \s(?:question|problem|exercise|example)|(?:^|\n)(?:for )?example)(?: \d{1,2})?\s?[:.\n]
    [^?]{1,400}?[?？]\s{0,2}(?:[(\[]?[a-z][).:\]][^\n]{1,100}\n{1,2}){0,8}
    (?:(?!\n\n|\b(?:now|this|here|ours?|yours?|you|likewise|similarly|actual|original|back)\b)[^?]){0,300}$
""")
#: Where a sentence turns from what was supposed or denied to what is concluded.
TURNS = re.compile(r"\b(?:(?<!if )so|therefore|thus|hence|but|however|aber|daher|donc|pero|mas|но)\b|但|所以|因此")

#: How a sentence begins that comes to an end.
CONCLUDES = re.compile(r"\s?(?:so|thus|hence|therefore|in conclusion|in summary|overall|ultimately|finally)\b[, ]")

# --- anywhere in a sentence -----------------------------------------------------------------------------------------

#: The sentence only looks at what it mentions.
HESITANT = compiled(rf"""
    {DENIED_BEFORE.pattern}|{CONDITION.pattern}|{SUPPOSED.pattern}|\?
    |\b(?:wrong|incorrect|false|eliminat\w*|ruled? out|unlikely|consider\w*|look\w*|analy\w*|evaluat\w*|examin\w*
    |check|start\w*|begin\w*|first,|step|tempting|plausible|maybe|perhaps|possibl[ey]|either|both|between|or|let's
    |let|options|choices|reject\w*|exclud\w*|dismiss\w*|discard\w*|against|avoid\w*|instead|rather|than|another
    |though|although|however|vs|versus)\b
""")
#: The text declines to answer.
REFUSED = compiled(r"""
    \b(?:unable|not able|(?:don't|do not|doesn't) know|no idea|not sure|unsure|sorry|apologi\w+
    |as an ai|not enough|insufficient|unanswerable|ambiguous|no answer
    |(?:cannot|can't|can not) (?:answer|say|tell|decide|determine|choose|know|be determined|help|assist|give|provide
    |pick|select))\b
""")
#: Behind a cue: there is no answer.
VOID = compiled(r"""
    (?:none|neither|unclear|unknown|undetermined|unanswerable|indeterminate|not (?:given|listed|among|here|there))\b
""")
#: Of the answer before, in other languages. "Falso. Es falso porque …" only goes on.
_THAT_IS_WRONG = compact(r"""
    (?:das (?:ist (?:falsch|nicht richtig)|stimmt nicht)|c'est (?:faux|incorrect|inexact)|ce n'est pas (?:correct|juste)
    |(?:eso |esto )?(?:es (?:incorrect|fals|erróne)[oa]|no es (?:correct|ciert)[oa])
    |(?:isso |isto )?(?:(?:está|é) (?:errad|incorret|fals)[oa]|não (?:está|é) (?:cert|corret)[oa])
    |(?:questo )?(?:è (?:sbagliat|errat|fals)[oa]|non è (?:corrett|giust)[oa]))(?=\s?(?:[.,;!)\n]|$))
""")
#: Behind the last answer: it is taken back. After `^` only in the same sentence, or at the start of the next. What an
#: explanation may hold, too, only where it begins a sentence: patients have to wait, and A 不对 is said of A.
RETRACTED = compiled(rf"""
    (?:^|[^\w\s]|\n)\s?(?:(?:but|no|oh|so|well|and|actually)[,.]{{0,3}}\s){{0,2}}
    (?:wait|hold on|on second thought|hmm+|moment(?: mal)?(?=,)|warte(?: mal)?|attend(?:s|ez)|espera|espere|aspett[ai])
    \s?[,.:!\n-]|\bscratch that\b
    |\blet(?: me|'s| us) (?:re-?consider|re-?think|start over|think again|try again|re-?evaluate|re-?examine)\b
    (?! the (?:other|remaining))
    |\b(?:so|thus|hence|therefore),? i (?:cannot|can't|am unable to) (?:provide|give|determine) (?:an?|the|any)
    (?: (?!other\b)\w{{1,12}})? answer\b
    |(?<!if )\bi(?: have|'ve)? (?:made an? (?:\w{{1,15}} )?(?:mistake|error)|misread)\b
    |\b(?:je me (?:suis )?tromp|me (?:he )?equivo[qc]|ich habe mich (?:geirrt|vertan)|mi (?:sono )?sbagli|me enganei)
    |\bi (?:was wrong|need to reconsider|take (?:that|it|this) back)\b|\bi(?: have|'ve|'d)? changed my mind\b
    |(?:^|[.!?;(\n-])\s?(?:(?:oh|no|ah|haha|lol|please)[,.! ]{{1,2}}){{0,2}}(?:(?:strike|forget|disregard|ignore)
    (?: that| this| it| the above| my (?:\w{{1,10}} )?answer)|never ?mind)\s?(?:[.,:;!)\n-]|$)
    |(?:^|[^\w\s]|\n)\s?(?:(?:oh|ah|haha|lol)[,.! ]{{1,2}})?(?:i'm |i am |i was )?(?:just |only )?(?:kidding|joking)\b
    (?! aside)|(?:^|[.!?;(\n-])\s?(?:(?:this|that|it)(?:'s| is| was) (?:just |only )?a joke\b|april fools|psych\s?!)
    |\b(?:the above|my) (?:reasoning|answer) (?:is|was) (?:flawed|wrong|incorrect)\b
    |\bnone of the (?:options|choices|answers) (?:is|are|seems?) (?:correct|right)\b
    |\b(?:not|no longer) sure any ?more\b
    |\bor is it\b|^[^\w\n]{{0,5}}or not\s?(?:[.?!)]|$)
    |(?:^|(?<![a-z])[.!?,;。]|\n)\s?不对|(?:^|[.!?。]|\n)\s?(?:等等|等一下)
    |让我们(?:再次|重新)(?:检查|审视|考虑|思考|计算)
    |^\.{{0,3}}[,;]? ?(?:
    (?:though|although|but)\b(?! i (?:could|may|might) be (?:wrong|mistaken))
    (?:[^.!?\n]{{0,80}}\bdoubt
    |[^.!?\n]{{0,40}}\b(?:it|this|that|answer) (?:may|might|could)(?: also| well| as well)? be
    (?: (?:wrong|mistaken|incorrect|another|different|something|option|choice|the
    |[(\"']?[a-z][)\"']?(?!\w))|[.!?,\n]|$))
    |which (?:is(?! why\b)|was|i|seems)\b[^.!?\n]{{0,30}}\b(?:wrong|doubt|incorrect)|which can't be)\b
    |^[^\w\n]{{1,6}}not\s?(?:[.!)]|$)
    |^\s(?:would be|is|was) (?:an? )?(?:\w{{1,12}} )?(?:mistake|error|misconception|fallacy)\b
    |^[^.!?\n]{{0,80}}[.!?]\s?is it\?
    |^[^.!?\n]{{0,80}}[.!?\n]{{1,4}}\s?(?:(?:no,?|but|however,?|yet|hmm,?) )?
    (?:(?:(?:that|this)(?: answer)?|it)(?:'s| is| was)\s(?:wrong|not (?:right|correct)|incorrect)
    |(?:that|this|it) (?:can't|cannot|doesn't|does not) (?:be|seem|look|match)|no,? (?:it|that|this) (?:isn't|is not)\b
    |or (?:maybe|perhaps) not\b
    |\w{{1,20}} (?:isn't|is not) among the (?:options|choices)|{_THAT_IS_WRONG})
""")
#: The same by a "but", behind the answer or in the next sentence, that says what else the choice is, or not.
CONTRADICTED = compiled(rf"""
    (?:[^.!?\n]{{0,80}}[.!?\n]{{1,4}}|[)\]"']{{0,2}}[,;]?)\s?(?:
    (?:but|however,?|yet) (?:that|this)(?:'s| is| was) (?:wrong|incorrect|not (?:right|correct)|the wrong
    |(?:not )?the (?!(?:\w{{1,12}} )?(?:answer|choice|option|one|case|point|story|rule|part|reason|way)\b
    |(?:only|first|last|best|most|least|main|same|right|correct|whole|usual|general|standard|\w{{3,12}}est)\b)
    |not (?:in|on|at|among) (?!all|every|general|question|itself))
    |(?:mais|pero|mas|ma) {_THAT_IS_WRONG}
    |(?:(?:aber|doch) das ist|das ist aber) (?:falsch|nicht (?:richtig|in)
    |(?:nicht )?(?:der|die|das) (?!(?:einzige|richtige|\w{{3,12}}ste)\b)))
""")
#: The same in the answer's own sentence, or the next: "The closest option is C, but it is not the correct answer."
NOT_RIGHT = compiled(r"""
    [)\]"'.]{0,3}(?:[,;]?\s?(?:(?:but|though|although|however,?|yet) (?:it|this|that)|which)
    |\s[(\[](?:it|this|that|which)(?: option| choice| answer| statement)?)
    (?:(?:(?:'s| is| was)(?: still)? not| isn't| wasn't)(?: an?| the)? (?:correct|right)
    |(?:'s| is| was)(?: still)? (?:incorrect|wrong))
    (?: answer| option| choice| one)?(?: either)?(?=[.,;!)\n]|$| (?:as (?:it|this|that)|because|since)\b)
""")
#: The same by a bare "No": unless that is how the answer itself begins.
DENIED_NEXT = compiled(r"""
    (?:[^.!?。\n]{0,80}[.!?。\n]{1,4}|\s-)\s?
    (?:(?:(?:actually|oh|lol|haha|well|um|uh|ach|ah|moment|halt|quatsch)[,. ]{1,2})?
    (?:no|nope|nah|nein|quatsch|non|não|нет|ні|nie|nej|nei|nee|hayır|không)[,.:!]|いや|いいえ|違います|違う|아니[,요]|아뇨|不[,、]|नहीं,|لا،|לא,)
""")
#: A second look that comes to the same answer.
CONFIRMED = compiled(r"""
    \b(?:checks out|(?:yes|ok|okay|good|great|indeed|so)[,.! ]{1,2}(?:that|it|this)(?:'s| is) (?:right|correct|fine)
    |answer (?:stays|remains|stands|is still)[^.\n]{0,20})
""")
#: What a correction is said with.
_SORRY = compact(r"""
    (?:sorry|oops|er|uh|um|i mean|my (?:mistake|bad|error|apologies)|apologies
    |verzeihung|entschuldigung|quatsch|halt|besser(?: gesagt)?|vielmehr
    |pardon|désolée?|excuse[zs]?-moi|euh|enfin|plutôt|perdón|disculp\w{1,4}|lo siento|mejor(?: dicho)?|digo
    |perdão|desculp\w{1,3}|melhor(?: dizendo)?|aliás|scus\w{1,3}|anzi|meglio)
""")
#: The next sentence corrects the answer.
CORRECTED = compiled(rf"""
    [^.!?\n]{{0,80}}[.!?]{{1,3}}\s\(?(?:(?:but|although|actually|well|or|or maybe|or rather|better|still|alternatively
    |correction|edit|on reflection|more (?:specifically|precisely|exactly|accurately)
    |(?:it |that |this )?should (?:be|have been|read)|{_SORRY}
    |oder|eigentlich|ou|finalement|en fait|en réalité|o|en realidad|na verdade|in realtà)
    \s?[,:]?\s|(?=[(\"']?[a-z][)\"']?,? (?:actually|rather|instead|i mean)\b))([^.!?\n]{{1,120}})
""")
#: The same in the answer's own sentence: "A, perdón, B".
CORRECTED_HERE = compiled(rf"""
    [)\]\"']{{0,3}}(?:,|\s-)\s(?:(?:or|no|oder|nein|ou|non|o|não)[,\s]{{1,2}})?{_SORRY}\s?[,:]?\s([^.,;!?\n]{{1,40}})
""")
#: Another choice is only thought of.
HEDGED = re.compile(r"\b(?:could|might|may|tempting|seems?|looks?|plausible|also)\b")
#: A label that is marked as one, for text as it is written; P(A) is a probability.
MENTION = compiled(r"""
    (?<!\b[A-Za-z])[(\[](?P<bracketed>[A-Z])[)\]]|\b(?:[Oo]ption|[Cc]hoice|[Aa]nswer|[Ll]etter) (?P<named>[A-Z])(?!\w)
    |(?:^|\n)[*-]?\s?(?P<listed>[A-Z])[.):]
""")
#: What choices may say of the question's statement: a first sentence that says it, too, is no step on the way.
VERDICTS = frozenset(
    ["true", "false", "yes", "no", "maybe", "correct", "incorrect", "right", "wrong", "supported", "not supported"]
)
