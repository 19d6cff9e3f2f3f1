"""Layouts with the choices inside a text: in the question (the predecessor's files), an instruction or a chat."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from contract.question import question_hash
from producer.readers.choices import checked
from producer.readers.field_names import Names, names_of, spelled
from producer.readers.inline import behind_each, split_choices
from producer.readers.parts import Fields, Parts, Used, answer_of, context_of, parts_with_rest, question_of
from producer.readers.record import FieldTrouble, shown_value

__all__ = ["chat", "has_inline", "inline", "instruction", "is_chat", "is_instruction"]


def inline(fields: Fields, names: Names) -> Parts:
    """Extract the parts of a record with the choices in the question's text, as in the predecessor's files."""
    text = question_of(fields, names)
    if not isinstance(text, str):
        raise FieldTrouble("question", f"found {shown_value(text)}, expected text.", "Put the question's text there.")
    found = split_choices(text)
    if found is None:
        hint = "An open question cannot be scored: remove it, or add choices."
        raise FieldTrouble(
            "choices", f"no choices in the text {shown_value(text)}.", hint, kind="no choices in the text"
        )
    answer, where = answer_of(fields, names)
    parts = parts_with_rest(
        fields, names, Used(names.question, (names.question,), where),
        question=found.stem, choices=checked(found.choices), labels=list(found.labels), answer=answer,
    )  # fmt: skip
    if isinstance(answer, str) and "question_hash" not in fields:
        parts = parts._replace(rest={**parts.rest, "question_hash": question_hash(text, answer)})
    return parts


def has_inline(fields: Fields, names: Names) -> bool:
    text = question_of(fields, names)
    try:
        return isinstance(text, str) and split_choices(text) is not None
    except FieldTrouble:
        return True


_LEAD = re.compile(r"^\s*Please\b[^:\n]{0,80}:\s*")
_NUMBERED = re.compile(r"(?:^|\n)\s*(?P<word>Answer|Option|Solution|Ending|Choice) ?(?P<number>\d{1,2})\s*[:.)]\s*")
_FORMAT = re.compile(r"\n\s*Answer format:\s*(?P<words>.+?)\s*$", re.IGNORECASE)


def instruction(fields: Fields, names: Names) -> Parts:
    """Extract the parts of an instruction: choices as `Answer1: …`, or the words of `Answer format: yes/no`.

    Its `input`, if there is one, is what it is about: the context.
    """
    field = names.spelled["instruction"]
    text = fields[field]
    if not isinstance(text, str):
        raise FieldTrouble(
            "instruction", f"found {shown_value(text)}, expected text.", "Put the question's text there."
        )
    form = _FORMAT.search(text)
    body = text[: form.start()] if form else text
    marks = list(_NUMBERED.finditer(body))
    if marks:
        texts = list(behind_each(marks, body))
        labels = [f"{mark['word']}{mark['number']}".lower() for mark in marks]
        body = body[: marks[0].start()]
    else:
        texts = [each.strip() for each in form["words"].split("/")] if form else []
        labels = texts
    question = _LEAD.sub("", body).strip()
    answer, about = names.spelled.get("answer"), names.spelled.get("input")
    unused = [names.spelled.get("output")]
    if about and context_of(fields, replace(names, contexts=(about,)), ())[0]:
        names = replace(names, contexts=(about, *names.contexts))
    else:
        unused.append(about)
    return parts_with_rest(
        fields, names, Used(field, (field,), answer, tuple(unused)),
        question=question, choices=checked(texts), labels=labels, answer=fields[answer] if answer else None,
    )  # fmt: skip


def is_instruction(fields: Fields, names: Names) -> bool:
    text = fields[names.spelled["instruction"]]
    return isinstance(text, str) and bool(_NUMBERED.search(text) or _FORMAT.search(text))


def is_chat(fields: Fields, names: Names) -> bool:
    return isinstance(fields[names.spelled["input"]], list)


def chat(fields: Fields, names: Names) -> Parts:
    """Extract the parts of chat messages, of which the user's last one is the question, and the ideal answer."""
    field = names.spelled["input"]
    messages = fields[field]
    if not isinstance(messages, list):
        message = f"found {shown_value(messages)}, expected a list of messages."
        hint = 'For example [{"role": "user", "content": "…"}].'
        raise FieldTrouble("input", message, hint, kind="not a list")
    asked = [each.get("content") for each in messages if isinstance(each, Mapping) and each.get("role") == "user"]
    text = asked[-1] if asked else None
    others = {name: value for name, value in fields.items() if spelled(name) not in {"input", "question"}}
    flat = {"question": text, **others}
    parts = inline(flat, names_of(tuple(flat)))
    return parts._replace(used=parts.used._replace(question=field, choices=(field,)))
