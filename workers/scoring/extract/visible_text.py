"""What a model said to the reader: its text without reasoning, control tokens and made-up next questions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest

from workers.scoring.extract.normalize import folded
from workers.scoring.extract.patterns import past

__all__ = ["before_next_example", "before_next_question", "before_other_choices", "opened", "spoken", "spoken_on"]

#: By which reasoning begins and ends: the marks of the models that vLLM 0.32 has a parser for (`vllm/reasoning/`), and
#: others.
_NAMES = (
    r"think|thinking|thought|thoughts|reason|reasoning|reflection|analysis|scratchpad"
    r"|(?:thinking|thought)_process|chain_of_thought|cot|inner_monologue"
    r"|(?:mm|seed):think|think:[0-9a-f]{4,16}|ifm\|think(?:_fast(?:er)?)?"
)
_OPENING = (
    rf"<(?:{_NAMES})\s?>|\[THINK\]|◁think▷|<\|begin_of_thought\|>|<\|start_thinking\|>|<unused94>"
    r"|<\|channel>\s?thought\b|<\|open\|>\s?think\s?<\|sep\|>|<\|plamo:begin_think:plamo\|>"
)
_CLOSING = (
    rf"</(?:{_NAMES})\s?>|\[/THINK\]|◁/think▷|<\|end_of_thought\|>|<\|end_thinking\|>|<unused95>"
    r"|<channel\|>|<\|close\|>\s?think\s?<\|sep\|>|<\|plamo:end_think:plamo\|>"
)
_TAG = re.compile(rf"(?P<close>{_CLOSING})|{_OPENING}", re.IGNORECASE)
#: Where messages name their channel, as in OpenAI's "harmony" format: the mark of a channel that is none for the reader
#: alone, and how the reader's begins.
_CHANNELS = (
    (re.compile(r"<\|channel\|>"), re.compile(r"<\|channel\|>\s?final[^<\n]{0,40}<\|message\|>")),
    (re.compile(r"(?:\A|assistant)\s{0,4}to=self<\|message\|>"), re.compile(r"to=user<\|message\|>")),
    (re.compile(r"<\|content_thinking\|>"), re.compile(r"<\|content_text\|>")),
)
#: What remains of harmony's where a server drops the control tokens.
_BARE_ANALYSIS = re.compile(r"\s{0,20}analysis(?=[A-Z])")
_BARE_FINAL = "assistantfinal"
#: Granite's words. Others say the first sentence, too, and then answer without the second one.
_IN_WORDS = re.compile(
    r"\s{0,20}Here(?:'s| is) my thought process:(?:(?!Here(?:'s| is) my response:).)*Here(?:'s| is) my response:",
    re.DOTALL,
)

#: The end of what a model says, or the user's turn that it makes up behind it.
_END = re.compile(
    r"</s>|<(?i:eos(?:_token)?|eo[dt]|end_of_(?:turn|text|utterance))>|<｜end▁of▁sentence｜>"
    r"|<\|(?:im_end|eot_id|eot|eod|endoftext|end|return|end_of_text|end_of_turn|eom_id|eom|end_message|END_OF_TURN_TOKEN)\|>"
    r"|<turn\|>|<\|close\|>\s?(?:response|message)\s?<\|sep\|>"
    r"|(?:<\|(?:im_start|start_header_id|start|turn)\|?>|<start_of_turn>)\s?(?:user|human)\b|<\|(?:user|human)\|>|<｜User｜>"
    r"|\[INST\]"
    # … where a server drops the control tokens, of which these names are left
    r"|\n(?:user|human)\n(?=(?:[^\n]{0,1000}\n){1,40}?(?:assistant|model)\n)"
    r"|(?<=[.!?)\]}*\"'。])(?:user|assistant)\n\n|(?<=\w)assistant\n\n"
)
_CONTROL = re.compile(
    r"<\|open\|>\s?(?:response|message)\s?<\|sep\|>|to=user<\|message\|>|</?response>|\[/?INST\]"
    r"|<\|[A-Za-z_:]{1,40}\|>|<｜[^<>｜]{1,40}｜>|<(?:bos|s|pad|unk|start_of_turn|\|turn)>"
)
#: Before anything is said, as where a server repeats the prompt: `<s>[INST] …`.
_LEADING = re.compile(rf"(?:\s|{_CONTROL.pattern})*")
#: What a question is called in other languages.
_ASKED = (
    r"(?:frage|pregunta|pergunta|domanda|vraag|fråga|spørgsmål|pytanie|otázka|вопрос|питання|soru|soal|pertanyaan"
    r"|câu hỏi|سؤال|السؤال|प्रश्न|คำถาม|问题|題目|题目|下一题|質問|問題|문제|질문)(?: ?\d{1,4})?"
)
_NEXT_QUESTION = re.compile(
    rf"^[#>*\s]{{0,6}}(?:(?:(?:next |new )?question(?: \d{{1,4}})?|(?P<q>q\d{{0,4}}|{_ASKED})|user|human|instruction)"
    r"\s?\*{0,2}\s?[:：]"
    r"|#{1,4} ?(?:question\b(?! [^\W\d])|user\b|instruction\b|input\s?:)"  # "## Question Analysis" begins no question
    # Some models go on with the answers to all the questions of their prompt, its solved examples included.
    r"|now, (?P<all>(?:let's ?)?(?:summari[sz]|combin|consider|总结)[^\n]{0,12}"
    r"(?:all (?:the|of the) (?:questions and )?answers(?! above)|答案)))",
    re.IGNORECASE | re.MULTILINE,
)
#: Behind "Q:": a value, as of a quartile or of heat; and what follows a question, its answer or the first choice.
_VALUE = re.compile(r"(?:[=≈(]|\bis\b)\s?[^\w\s]{0,2}\d")
_WORD = re.compile(r"[^\W\d_]{3}")
_QUESTION_MARK = re.compile(r"[?？؟]")
_REPLIED = re.compile(r"[^\n]*\n[ \t]{0,4}A\d{0,4}\s?:")
_ANSWERED = re.compile(r"\n[ \t]{0,4}(?:A\d{0,4}\s?:|Answer\s?:|[(\[]?A[)\].])", re.IGNORECASE)
_FIRST_CHOICE = re.compile(r"\s{0,4}[(\[]?A[)\].]", re.IGNORECASE)
_LONGEST_QUESTION = 2000
#: How often a text may restate its question before it answers: a text in a loop does it for ever.
_MOST_RESTATED = 4
_SPEAKER = re.compile(r"user|human", re.IGNORECASE)
_REPLY = re.compile(r"^[#>*\s]{0,6}(?:assistant|ai|bot|model|response)\b\s?\*{0,2}\s?:?", re.IGNORECASE | re.MULTILINE)
#: A shorter line is part of too many questions.
_LEAST_RESTATED = 12
#: How a solved example ends: its label in a line of its own, announced or not, and a blank line.
_SOLVED = re.compile(r"(?:\A|\n)[ \t]{0,4}(?:Answer:[ \t]{0,4})?[(\[]?[A-Z][)\]]?[.:]?[ \t]{0,4}\n[ \t]{0,4}\n")
#: Where choices are listed.
_LISTED = re.compile(
    r"^[ \t]{0,4}[(\[]?A[)\].:](?P<first>[^\n]*)\n[ \t]{0,4}[(\[]?B[)\].:](?P<second>[^\n]*)", re.MULTILINE
)
_LISTED_CHOICE = re.compile(r"^[ \t]{0,4}[(\[]?([A-Z])[)\].:]([^\n]*)", re.MULTILINE)
_ANSWER_BELOW = re.compile(r"\n[ \t]{0,4}Answer\s?:", re.IGNORECASE)
#: A question that one asks oneself before one goes through the choices: "But is that right? Let me check each one."
_ASKS_ITSELF = re.compile(
    r"\W{0,6}(?:but|wait|hmm+|is (?:it|that|this)|why|(?:what|how) about)\b"
    r"|\b(?:let me|let's|let us|i|we|each|options?|choices?|which (?:ones?|(?:of )?(?:them|these|those)|remains?))\b",
    re.IGNORECASE,
)
#: What one says of a choice then.
_WEIGHED = re.compile(
    r"\b(?:yes|no|wrong|incorrect|correct|right|true|false|fails?|works?|fits?|ruled out|eliminated)\b|[✓✔✅✗✘❌]",
    re.IGNORECASE,
)
_BLANK_LINE = "\n\n"


def spoken(text: str) -> str | None:
    """`text` as the reader sees it; None where the model never came to the end of its reasoning.

    `<think>A?</think>The answer is C.` → `The answer is C.`; `<think>The answer is C.` → None.
    """
    said = _visible(text)
    return said if said is None else _cut(_next_questions(said), said)


def spoken_on(text: str, choices: Sequence[str], asked: str) -> Iterator[str]:
    """What is `spoken`, then more of it for as long as what seems to be the next question is the one `asked`.

    A text that restates its question before it answers says nothing yet where that begins. Empty where the model never
    came to the end of its reasoning.
    """
    said = _visible(text)
    if said is None:
        return
    first = list(islice(_next_questions(said), _MOST_RESTATED))
    for mark, further in zip_longest(first, first[1:]):
        yield said[: mark.start()]
        behind = said[mark.end() : further.start() if further else len(said)]
        if not mark["all"] and _asks_another(behind, choices, asked, in_turns=_SPEAKER.search(mark[0]) is not None):
            return
    if len(first) < _MOST_RESTATED:
        yield said


def _next_questions(said: str) -> Iterator[re.Match[str]]:
    """Where a further question seems to begin, behind something that is said."""
    begins = len(said) - len(said.lstrip())
    for mark in _NEXT_QUESTION.finditer(said, begins):
        if mark.start() > begins and (not mark["q"] or _asks(said, mark.end())):
            yield mark


def _asks(said: str, at: int) -> bool:
    """Whether a question stands behind the "Q:" that ends at `at`: `Q1: 25` is a quartile, and `Q: 500 J` is heat."""
    reach = said[at : at + _LONGEST_QUESTION]
    line = reach.partition("\n")[0]
    if _QUESTION_MARK.search(line) or _REPLIED.match(reach):
        return True
    if _VALUE.search(line) or not _WORD.search(line):
        return False
    paragraph, _, below = reach.partition(_BLANK_LINE)
    return any((_QUESTION_MARK.search(paragraph), _ANSWERED.search(paragraph), _FIRST_CHOICE.match(below)))


def _asks_another(behind: str, choices: Sequence[str], asked: str, *, in_turns: bool) -> bool:
    """Whether another question than the one `asked` begins with `behind`, or a further turn if it is `in_turns`."""
    if _LISTED.search(behind):
        listed: dict[str, str] = {}
        for found in _LISTED_CHOICE.finditer(behind):
            listed.setdefault(found[1], folded(found[2]))
        own = [text in line for text, line in zip(map(folded, choices), listed.values(), strict=False)]
        if len(own) != len(choices) or not all(own):
            return True
    wanted, (line, *_) = folded(asked), behind.strip().split("\n")
    restated = folded(line)
    if wanted and (wanted in folded(behind) or (len(restated) >= _LEAST_RESTATED and restated in wanted)):
        return False
    if in_turns:
        return "?" in behind.strip().partition(_BLANK_LINE)[0] or _REPLY.search(behind) is not None
    return True


def before_next_example(said: str) -> str:
    """`said` without what a model that was shown examples goes on with: more of them, question, choices and answer.

    The last "Answer: C" of those would have the last word.
    """
    for solved in _SOLVED.finditer(said):
        listed = _LISTED.search(said, solved.end())
        if listed is None:
            break
        if said[solved.end() : listed.start()].strip():
            return said[: solved.end()]
    return said


def before_next_question(said: str, asked: str, template: str) -> str:
    """`said` without what a model goes on with that has no end of its own: questions like the one that it was `asked`.

    The line that ends the prompt's `template` gives the next one away. One like "Answer:" does not, as it may also
    announce the answer; nor does the prompt said over again.
    """
    line = template.strip().rpartition("\n")[2].rpartition("}")[2].strip()
    again = re.search(rf"\n[ \t]*{re.escape(line)}(?!\S)", said) if line and not line.endswith(":") else None
    before = said[: again.start()].rstrip() if again else ""
    if asked in before:
        return said
    parts = (before.rpartition(mark)[0] for mark in (_BLANK_LINE, "\n"))
    return next((answer for answer in parts if answer.strip()), said)


def before_other_choices(said: str, choices: Sequence[str], asked: str) -> str:
    """`said` without further questions that have no heading, but list choices of their own; all of it without any.

    Who looks at the choices one by one names these `choices` beside their labels.
    """
    for listed in _LISTED.finditer(said):
        begins = max(0, listed.start() - _LONGEST_QUESTION)
        above = said[begins : listed.start()].rstrip()
        paragraph, line = (begins + above.rfind(mark) for mark in (_BLANK_LINE, "\n"))
        ends = paragraph if paragraph >= begins else line
        rows = said[listed.start() : listed.start() + _LONGEST_QUESTION].partition(_BLANK_LINE)[0]
        if (
            ends > begins
            and said[:ends].strip()
            and _is_of_another(said[line + 1 : listed.start()], rows, choices, asked)
        ):
            return said[:ends]
    return said


def _is_of_another(line: str, rows: str, choices: Sequence[str], asked: str) -> bool:
    """Whether `rows` list the choices of another question than the one `asked`: of the one that ends with `line`."""
    asks, answered = _QUESTION_MARK.search(line) is not None, _ANSWER_BELOW.search(rows) is not None
    if not (asks or answered) or _ASKS_ITSELF.search(line) or (not answered and _WEIGHED.search(rows)):
        return False
    restated, wanted = folded(line), folded(asked)
    if asks and answered and restated not in wanted and wanted not in restated:
        return True
    texts = [folded(text) for _, text in _LISTED_CHOICE.findall(rows)]
    own = any(_starts_with(text, choice) for text, choice in zip(texts, map(folded, choices), strict=False))
    return not own


def _starts_with(text: str, choice: str) -> bool:
    """Whether the whole `choice` begins the `text`, both folded."""
    return bool(choice) and text.startswith(choice) and not text[len(choice) : len(choice) + 1].isalnum()


def opened(prompt_end: str) -> str:
    """The tag, and what follows it, by which the end of a prompt has the model begin to reason; empty where none does.

    `<|Assistant|><think>\\n` → `<think>\\n`; nothing of `<think>\\n\\n</think>`, which has it begin to answer.
    """
    *_, last = (None, *_TAG.finditer(prompt_end))
    if last is None or last["close"] or prompt_end[last.end() :].strip():
        return ""
    return prompt_end[last.start() :]


def _visible(text: str) -> str | None:
    """`text` without reasoning and control tokens; None where the model never came to the end of its reasoning."""
    said = _final_channel(text)
    said = said if said is None else _without_reasoning(said)
    if said is None:
        return None
    return _CONTROL.sub(" ", _cut(_END.finditer(said, past(_LEADING, said, 0)), said))


def _final_channel(text: str) -> str | None:
    for mark, begins in _CHANNELS:
        if mark.search(text):
            ends = [found.end() for found in begins.finditer(text)]
            return text[ends[-1] :] if ends else None
    if _BARE_ANALYSIS.match(text):
        _, final, said = text.rpartition(_BARE_FINAL)
        return said if final else None
    return text


def _without_reasoning(text: str) -> str | None:
    """A lone closing tag ends reasoning that the prompt had opened: all before it goes."""
    if in_words := _IN_WORDS.match(text):
        text = text[in_words.end() :]
    said: list[str] = []
    since, thinking = 0, False
    for tag in _TAG.finditer(text):
        if tag["close"]:
            said = said if thinking else []
            since, thinking = tag.end(), False
        elif not thinking:
            said.append(text[since : tag.start()])
            thinking = True
    return None if thinking else " ".join([*said, text[since:]])


def _cut(marks: Iterable[re.Match[str]], text: str) -> str:
    """`text` up to the first of `marks` that has something before it."""
    for found in marks:
        if text[: found.start()].strip():
            return text[: found.start()]
    return text
