"""Turning a prompt's template and a question into text: the one place, so that both sides see the very same prompt."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from contract.errors import RunConfigError
from contract.question import Question
from contract.spec import Prompt

__all__ = ["VARIABLES", "Choice", "environment", "render"]

#: What a template may refer to.
VARIABLES = ("question", "choices", "context")


class Choice(NamedTuple):
    """One of the template's `choices`."""

    label: str
    text: str


@lru_cache(maxsize=1)
def environment() -> ImmutableSandboxedEnvironment:
    """The Jinja environment of all prompts. Sandboxed: a template comes out of Redis, and is text, not code."""
    # Not autoescaped: a prompt is no HTML, and "<" must reach the model as "<".
    return ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)


def render(prompt: Prompt, question: Question, context: str | None) -> str:
    """The text that the model sees before the choice it is to continue with.

    `context` is given by the caller, who knows whether the spec wants it shown. Raises RunConfigError for a template
    that fails on this question.
    """
    choices = [Choice(label, text) for label, text in zip(question.labels, question.choices, strict=True)]
    try:
        return _compiled(prompt.text).render(question=question.question, choices=choices, context=context)
    except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as trouble:
        raise RunConfigError(
            f"prompt {prompt.name!r} cannot be rendered for question {question.id!r}: {trouble}.",
            hint=f"A template may use {', '.join(VARIABLES)}; each choice has .label and .text.",
        ) from None


@lru_cache(maxsize=64)
def _compiled(text: str) -> Template:
    return environment().from_string(text)
