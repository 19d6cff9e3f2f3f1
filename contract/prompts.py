"""Rendering of prompts: template and question to chat turns. Shared, so that both sides see the same prompt."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, NoReturn

from jinja2 import StrictUndefined, Template, TemplateError, TemplateRuntimeError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from contract.choice_order import arrangements, seed_for
from contract.errors import RunConfigError
from contract.mode import Answer
from contract.question import Question, identity, normalized
from contract.spec import ChatTemplate, ExampleSelection, FewShot, Prompt, Query, RunSpec
from contract.turns import Role, Turn, Turns, begun, one_turn, readable
from contract.verdict import ContextSource, Passage

__all__ = [
    "BETWEEN",
    "DESCRIPTION_VARIABLES",
    "JUDGE_VARIABLES",
    "TEMPLATE_TROUBLES",
    "VARIABLES",
    "Choice",
    "all_turns",
    "context_source",
    "describe",
    "environment",
    "examples",
    "names_subject",
    "prompts_of",
    "query_of",
    "render",
    "shows_choices",
    "turns_of",
    "variables_of",
    "wants_passages",
]

#: Variables of a prompt template.
VARIABLES = ("question", "choices", "context", "subject")
#: Variables of a description, which also precedes the examples' questions.
DESCRIPTION_VARIABLES = ("subject",)
#: Additional variables of a judge's template: the model's free-text answer, and the text of the right choice.
JUDGE_VARIABLES = ("response", "reference")


#: Separator between a solved example and what follows it.
BETWEEN = "\n\n"
BETWEEN_PASSAGES = "\n"
#: What rendering a template raises. The last two are of one that calls itself, or makes a text larger than memory.
TEMPLATE_TROUBLES = (
    TemplateError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    RecursionError,
    MemoryError,
)


class Choice(NamedTuple):
    """One of the template's `choices`."""

    label: str
    text: str


class _Sandbox(ImmutableSandboxedEnvironment):
    def getattr(self, obj: Any, attribute: str) -> Any:
        """Skip the sandbox checks for our own `Choice`: they are four fifths of the cost of a lookup."""
        if type(obj) is Choice and attribute in Choice._fields:
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)


@lru_cache(maxsize=1)
def environment() -> ImmutableSandboxedEnvironment:
    """Return the Jinja environment of all prompts. Sandboxed: templates come from Redis and must not run code."""
    # No autoescaping: a prompt is not HTML, and "<" must reach the model as "<".
    made = _Sandbox(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)
    made.filters["random"] = _refuse_to_draw
    return made


def _refuse_to_draw(_: object) -> NoReturn:
    """Jinja's own filter would draw anew each time that a prompt is measured, asked and shown."""
    raise TemplateRuntimeError("the filter random would make another prompt each time")


@lru_cache(maxsize=64)
def variables_of(prompt: Prompt) -> frozenset[str]:
    """Return the variables that a template uses."""
    return frozenset(meta.find_undeclared_variables(environment().parse(prompt.text)))


def shows_choices(prompt: Prompt) -> bool:
    """Whether a template shows the choices to the model."""
    return "choices" in variables_of(prompt)


def render(prompt: Prompt, question: Question, context: str | None, **judged: str) -> str:
    """Render the prompt text that the model continues.

    The caller decides by the spec whether to pass `context`; `judged` are the additional variables of a judge's
    template. Raises RunConfigError if the template fails on this question.
    """
    choices = list(map(Choice, question.labels, question.choices))
    shown = {"question": question.question, "context": context or "", "subject": question.subject or ""}
    try:
        return _compiled(prompt.text).render(choices=choices, **shown, **judged)
    except TEMPLATE_TROUBLES as trouble:
        raise RunConfigError(
            f"prompt {prompt.name!r} cannot be rendered for question {question.id!r}: {_why(trouble)}.",
            hint=f"A template may use {', '.join(VARIABLES)}; each choice has .label and .text.",
        ) from None


def describe(description: str, subject: str | None) -> str:
    """Render the description that precedes examples and question, for `subject`; empty if there is none.

    Raises RunConfigError if the template fails.
    """
    if not description:
        return ""
    try:
        text = _compiled(description).render(subject=subject or "")
    except TEMPLATE_TROUBLES as trouble:
        raise RunConfigError(
            f"the description cannot be rendered for subject {subject!r}: {_why(trouble)}.",
            hint=f"It may use {', '.join(DESCRIPTION_VARIABLES)}.",
        ) from None
    return text + BETWEEN if text.strip() else ""


def names_subject(description: str) -> bool:
    """Whether a description may differ between subjects; it is not rendered, as it may know only those in its file."""
    return "subject" in meta.find_undeclared_variables(environment().parse(description))


def _why(trouble: Exception) -> str:
    return str(trouble).rstrip(".") or type(trouble).__name__


@lru_cache(maxsize=64)
def _compiled(text: str) -> Template:
    template = environment().from_string(text)
    template.globals = dict(template.globals)  # copied by every rendering, and Jinja's ChainMap is slow to copy
    return template


def context_source(question: Question, spec: RunSpec, passages: Sequence[Passage] = ()) -> ContextSource:
    """Return where the context in the question's prompt comes from. Its own context takes precedence over passages."""
    if spec.use_context_field and question.context:
        return ContextSource.QUESTION
    return ContextSource.RETRIEVED if passages and any(each.shown for each in passages) else ContextSource.NONE


def wants_passages(question: Question, spec: RunSpec) -> bool:
    """Whether passages must be retrieved before `question` can be asked."""
    return spec.rag is not None and context_source(question, spec) is ContextSource.NONE


def query_of(question: Question, query: Query) -> str:
    """Return the retrieval query for `question`."""
    return "\n".join((question.question, *(question.choices if query is Query.QUESTION_AND_CHOICES else ())))


def turns_of(question: Question, spec: RunSpec, passages: Sequence[Passage] = ()) -> Turns:
    """Return the turns of the prompt. `question` has its choices in the order in which they are shown."""
    described, asked = describe(spec.description, question.subject), _unsolved(question, spec, passages)
    prefix = _prefix(spec)
    begins: Turns = (Turn(Role.ASSISTANT, prefix),) if prefix else ()
    if spec.chat_template is ChatTemplate.NEVER:
        asked, begins = asked + prefix, ()
    shots: Sequence[Question] = ()
    if spec.few_shot is not None:
        shots = examples(question, spec.few_shot, seed_for(question, spec, "examples"))
    if spec.chat_template is not ChatTemplate.TURNS:
        solved = [_unsolved(shot, spec) + _answer(shot, spec) + BETWEEN for shot in shots]
        return (*one_turn("".join([described, *solved, asked])), *begins)
    system = [Turn(Role.SYSTEM, text)] if (text := described.rstrip()) else []
    solved_turns = [
        turn
        for shot in shots
        for turn in (Turn(Role.USER, _unsolved(shot, spec)), Turn(Role.ASSISTANT, begun(_answer(shot, spec))))
    ]
    return (*system, *solved_turns, Turn(Role.USER, asked), *begins)


def all_turns(question: Question, spec: RunSpec, passages: Sequence[Passage] = ()) -> list[Turns]:
    """Return all prompts for `question` as it was enqueued: one per order of its choices."""
    return [turns_of(each.question, spec, passages) for each in arrangements(question, spec)]


def prompts_of(question: Question, spec: RunSpec, passages: Sequence[Passage] = ()) -> list[str]:
    """Return `all_turns` as readable text."""
    return [readable(turns) for turns in all_turns(question, spec, passages)]


def examples(question: Question, few_shot: FewShot, seed: int) -> Sequence[Question]:
    """Return the few-shot examples for `question` without itself. If too few remain, the producer rejects the run."""
    if few_shot.selection is ExampleSelection.SEEDED:
        return _drawn(question, few_shot, seed)
    by_subject = few_shot.selection is ExampleSelection.SUBJECT
    there = few_shot.by_subject.get(question.subject, ()) if by_subject else few_shot.pool
    return list(islice((each for each in there if not _same(question, each)), few_shot.k))


def _same(question: Question, other: Question) -> bool:
    """Whether both are the same question. The texts are compared first: they nearly always differ, and cost less."""
    return normalized(question.question) == normalized(other.question) and identity(question) == identity(other)


def _drawn(question: Question, few_shot: FewShot, seed: int) -> Sequence[Question]:
    """Draw as if from a list without `question`. That list is never built: the pool may be a whole training split."""
    itself = few_shot.places.get(identity(question), ())
    others = len(few_shot.pool) - len(itself)
    drawn = []
    for place in random.Random(seed).sample(range(others), min(few_shot.k, others)):
        for own in itself:  # in ascending order: each moves the places from its own on by one
            place += own <= place
        drawn.append(few_shot.pool[place])
    return drawn


def _unsolved(question: Question, spec: RunSpec, passages: Sequence[Passage] = ()) -> str:
    source = context_source(question, spec, passages)
    if source is ContextSource.RETRIEVED:
        return render(spec.prompt, question, BETWEEN_PASSAGES.join(each.text for each in passages if each.shown))
    return render(spec.prompt, question, question.context if source is ContextSource.QUESTION else None)


def _answer(example: Question, spec: RunSpec) -> str:
    """Return the expected answer, and what separates it from the prompt."""
    if spec.few_shot is not None and spec.few_shot.rationale:
        # The ending that the prompt asks for and that the extraction rules recognize.
        return f"{_prefix(spec)}\n{example.metadata[spec.few_shot.rationale]}\nAnswer: {_named(example, spec)}"
    return _prefix(spec) + spec.delimiter + _named(example, spec)


def _prefix(spec: RunSpec) -> str:
    """Return `answer_prefix`, if there is one, and what separates it from the prompt."""
    return spec.delimiter + spec.answer_prefix if spec.answer_prefix else ""


def _named(example: Question, spec: RunSpec) -> str:
    """Return the right choice: its label where the model is to name one that it is shown, else its text."""
    if example.answer is None:
        raise ValueError(f"example {example.id} has no answer")
    by_label = spec.mode.answer is Answer.LABEL and shows_choices(spec.prompt)
    return example.answer if by_label else example.choice_text(example.answer)
