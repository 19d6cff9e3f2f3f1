"""Mode `generate`: the model writes, and named rules read which choice it named (`workers/scoring/extract`).

Where no rule matches, the question is `unanswered`: never a guess. The rule that matched is in the verdict. A text that
names several choices names none, but where each of them is right: then the first one stands for them, by the rule
`each-right`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from contract.choice_order import seed_for
from contract.prompts import shows_choices
from contract.question import Question
from contract.spec import ChatTemplate, RunSpec
from contract.turns import Turns
from workers.engines.base import Completion, GenerateRequest, Request, Text
from workers.scoring.base import Reading
from workers.scoring.extract import Extraction, extract_said, read_on
from workers.scoring.extract.visible_text import (
    before_next_example,
    before_next_question,
    before_other_choices,
    opened,
    spoken,
)

__all__ = ["ask", "extracted", "named", "read", "read_text", "texts_of"]


def ask(question: Question, turns: Turns, spec: RunSpec) -> list[Request]:
    """One request for `sampling.samples` texts."""
    if spec.sampling is None:
        raise ValueError(f"mode {spec.mode} without sampling")
    seed = seed_for(question, spec, "sampling")
    return [GenerateRequest(turns, spec.sampling, seed, spec.chat, adapter=spec.adapter)]


def read(question: Question, completions: Sequence[Completion], spec: RunSpec) -> Reading:
    """The choice that the text names."""
    (text,) = texts_of(completions[0])
    return read_text(question, text.text, spec, truncated=text.truncated)


def texts_of(completion: Completion) -> list[Text]:
    """Its texts, of which one that was cut off in the reasoning that its prompt had begun says so itself.

    Some chat templates write the tag that opens it; the text then has no more than the one that closes it, and cut off
    before that, by the limit or by a stop string, it would be read as if it answered.
    """
    tag = opened(completion.prompt_end)
    return [
        replace(each, text=tag + each.text) if tag and (each.truncated or each.stopped) else each
        for each in completion.texts
    ]


def read_text(question: Question, text: str, spec: RunSpec, *, truncated: bool) -> Reading:
    """The same from a stored text, for reading again with newer rules."""
    found = named(question, text, spec, truncated=truncated)
    return Reading(choice=found.label, rule=found.rule, raw_text=text, truncated=truncated)


#: Rules that need no announcement. Below others, a last line that is only a label or a choice, and was cut off there,
#: may go on otherwise: "H" as "Hence", "= 2" as "= 24".
_UNANNOUNCED = frozenset({"lone-label", "option-text"})


def _words(line: str) -> list[str]:
    return re.findall(r"\w+", line.casefold())


def named(question: Question, text: str, spec: RunSpec, *, truncated: bool = False) -> Extraction:
    """The choice that `text` names, which may have been cut off; of several that are all right, the first."""
    found = _named(question, text, spec)
    if truncated and found.label and found.rule in _UNANNOUNCED:
        above, _, last = text.rpartition("\n")
        alone = last.strip() and _words(last) in (_words(found.label), _words(question.choice_text(found.label)))
        if alone and (spoken(above) or "").strip():
            return _named(question, above, spec)
    return found


def _named(question: Question, text: str, spec: RunSpec) -> Extraction:
    found = _read_first(question, text, spec)
    if found.rule == "ambiguous" and question.also_right and set(found.candidates) <= set(question.right):
        return Extraction(found.candidates[0], "each-right", found.candidates)
    return found


def _read_first(question: Question, text: str, spec: RunSpec) -> Extraction:
    """What `text` says before the further questions that it makes up; what it says there, if it only restates its own.

    Nothing is cut from a turn of a chat with examples: a turn has one answer, the last one.
    """
    in_turns = spec.chat_template is ChatTemplate.TURNS
    read = partial(extracted if in_turns else _read_said, question=question, spec=spec)
    return read_on(text, question.choices, question.question, read)[1]


def _read_said(said: str, question: Question, spec: RunSpec) -> Extraction:
    """What is `said` before a further question without a heading, if anything is said there; else what all says.

    The last answer has the last word: that of the last made-up question, otherwise.
    """
    if spec.few_shot:
        said = before_next_example(said)
    first = before_next_question(said, question.question, spec.prompt.text)
    if first != said and (found := extracted(first, question, spec)).rule != "none":
        return found
    first = before_other_choices(said, question.choices, question.question)
    if first != said and (found := extracted(first, question, spec)).rule != "none":
        return found
    return extracted(said, question, spec)


def extracted(said: str, question: Question, spec: RunSpec) -> Extraction:
    """The choice that is `said`: by its text only if the prompt does not show the choices."""
    return extract_said(said, question.choices, question.question, labelled=shows_choices(spec.prompt))
