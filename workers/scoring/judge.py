"""Mode `judge`: the model answers freely; then it, or a model on another server, grades the answer by the reference.

Two generate calls per batch: all answers, then all gradings. A grading must be a single JSON object `{"correct": true
or false, "reason": "…"}` and nothing else. The engine is asked to constrain the model to that schema; after anything
else, the judge is shown what was wrong and asked again, up to `judge.retries` times. If it never answers in this form,
the question is `failed`, not wrong.

Only the model's visible answer is graded, without its reasoning (`workers/scoring/extract/visible_text.py`) and without
any further questions that it made up after its answer. If the visible answer is empty, there is nothing to grade and
the question is unanswered, because a lenient judge might accept even an empty answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from contract.choice_order import seed_for
from contract.explain import first_mistake
from contract.prompts import BETWEEN, render
from contract.question import Question
from contract.spec import Chat, ChatTemplate, Judge, RunSpec, Sampling
from contract.turns import one_turn
from contract.wording import number
from workers.engines.base import Completion, GenerateRequest, Text
from workers.scoring.base import FollowUp, Reading
from workers.scoring.extract import Extraction, read_on
from workers.scoring.extract.visible_text import before_next_question, spoken
from workers.scoring.generate import ask, extracted, texts_of

__all__ = ["UNGRADED", "JudgeSilent", "ask", "grading_prompt", "read"]


#: Characters of a reason that the judge is asked for at most, and that are kept.
MOST_REASON = 300


class Grade(BaseModel):
    """What the judge must write."""

    model_config = ConfigDict(extra="forbid", strict=True)

    correct: bool
    #: Not every engine holds the judge to the length. A longer reason is cut: it does not make the grade invalid.
    reason: Annotated[
        str, AfterValidator(lambda given: given[:MOST_REASON]), Field(json_schema_extra={"maxLength": MOST_REASON})
    ]


SCHEMA = json.dumps(Grade.model_json_schema())


#: The rule of an answer that names no choice, to a question without a key to grade it by.
UNGRADED = "ungraded"


class JudgeSilent(ValueError):
    """The judge did not write the requested JSON in any of its attempts."""


def read(question: Question, completions: Sequence[Completion], spec: RunSpec) -> Reading | FollowUp:
    """Return the grading to request; without a key there is nothing to grade against."""
    (text,) = texts_of(completions[0])
    answer = _Answer(question, spec, text, _answer_in(text.text, question, spec))
    if question.answer is None or spec.judge is None or not answer.said:
        return answer.reading(None)
    return answer.grading(spec.judge, grading_prompt(question, spec.judge, answer.said))


def _answer_in(text: str, question: Question, spec: RunSpec) -> str:
    """Return what `text` says before further questions that a model without an end token makes up after its answer.

    If it names no choice before it only restates its own question, what follows that belongs to the answer, too. From
    few-shot examples outside a chat, a model learns to end an answer with a blank line.
    """
    said, _ = _read_on(text, question, spec)
    first = before_next_question(said, question.question, spec.prompt.text)
    if first == said and spec.few_shot and spec.chat_template is ChatTemplate.NEVER:
        first = said.strip().partition(BETWEEN)[0]
    return first.strip()


def _read_on(text: str, question: Question, spec: RunSpec) -> tuple[str, Extraction]:
    return read_on(text, question.choices, question.question, partial(extracted, question=question, spec=spec))


def grading_prompt(question: Question, judge: Judge, said: str) -> str:
    """Return the prompt that asks the judge to grade the answer `said`."""
    return render(judge.prompt, question, None, response=said, reference=_reference(question))


class _Answer(NamedTuple):
    """An answer to be graded: its text, and what is visible of it."""

    question: Question
    spec: RunSpec
    text: Text
    said: str

    def grading(self, judge: Judge, prompt: str, asked: int = 1) -> FollowUp:
        """Return the request for a grade, the `asked`-th one."""

        def read_grade(completions: Sequence[Completion]) -> Reading | FollowUp:
            (text,) = completions[0].texts
            written = text.text
            try:
                return self.reading(Grade.model_validate_json(_without_fence(spoken(written) or "")))
            except ValidationError as trouble:
                complaint = _complaint(trouble)
            if asked > judge.retries:
                early = f", cut off at judge.max_tokens {judge.max_tokens}: raise it" if text.truncated else ""
                raise JudgeSilent(
                    f"no valid grade in {number(asked, 'attempt')}; the last one: {written[:200]!r}{early}"
                )
            again = f"{prompt}\n\nYour answer was: {written}\nIt is not valid: {complaint}. Write only the JSON."
            return self.grading(judge, again, asked + 1)

        spec, seed = self.spec, seed_for(self.question, self.spec, f"judge {asked}")
        # For a judge on another server, that server decides; `spec.chat` concerns the model under test.
        chat = Chat(ChatTemplate.AUTO) if judge.server else spec.chat
        adapter = "" if judge.server else spec.adapter
        effort = judge.reasoning_effort if judge.server or not spec.sampling else spec.sampling.reasoning_effort
        sampling = Sampling(max_tokens=judge.max_tokens, reasoning_effort=effort)
        request = GenerateRequest(one_turn(prompt), sampling, seed, chat, SCHEMA, adapter)
        return FollowUp([request], read_grade, judge if judge.server else None)

    def reading(self, grade: Grade | None) -> Reading:
        """Return what it was read as; without a grade if there is nothing to grade."""
        _, found = _read_on(self.said or self.text.text, self.question, self.spec)
        return Reading(
            choice=found.label,
            rule="judge" if grade else UNGRADED if self.said and found.label is None else found.rule,
            raw_text=self.text.text,
            truncated=self.text.truncated,
            judged_correct=grade.correct if grade else None,
            judge_reason=grade.reason if grade else "",
        )


def _reference(question: Question) -> str:
    """Return the text of the correct choice; if there are several, any of them is correct."""
    return " or: ".join(map(question.choice_text, question.right))


def _without_fence(text: str) -> str:
    """Return the content of a ```json fence, which models put around JSON even when asked for bare JSON."""
    found = re.fullmatch(r"\s*```(?:json)?\s*(.*?)\s*```\s*", text, flags=re.DOTALL)
    return found.group(1) if found else text.strip()


def _complaint(trouble: ValidationError) -> str:
    field, why = first_mistake(trouble)
    return f"{field or 'JSON'}: {why}"
