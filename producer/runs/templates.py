"""Prompt templates: loaded by name or path, and validated here rather than on a worker."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from jinja2 import TemplateSyntaxError, meta, nodes

from contract.errors import RunConfigError, nearest
from contract.mode import Mode
from contract.prompts import (
    DESCRIPTION_VARIABLES,
    JUDGE_VARIABLES,
    VARIABLES,
    Choice,
    describe,
    environment,
    render,
    shows_choices,
    variables_of,
)
from contract.question import LABELS, Question
from contract.spec import Prompt
from contract.yaml_files import brief

__all__ = ["built_in", "checked_description", "load_prompt", "refuse_blind"]

#: Default built-in template of each mode.
DEFAULTS = {
    Mode.LIKELIHOOD: "question",
    Mode.LETTER: "lettered",
    Mode.GENERATE: "reasoned",
    Mode.VOTE: "reasoned",
    Mode.JUDGE: "open",
    Mode.FREE: "free",
}
SUFFIX = ".j2"
#: With as many choices as there may be: a template may show some by number.
_TRIAL = Question(
    id="a trial",
    question="Which one?",
    choices=tuple(f"choice {label}" for label in LABELS),
    context="Some context.",
)


def built_in() -> dict[str, Traversable]:
    """Return the templates that come with the package, by name."""
    folder = resources.files("producer") / "prompts"
    return {each.name.removesuffix(SUFFIX): each for each in folder.iterdir() if each.name.endswith(SUFFIX)}


def load_prompt(name: str, mode: Mode, *, grades: bool = False) -> Prompt:
    """Load the template called `name`: a built-in one, the path of a .j2 file, or, if empty, the default of `mode`.

    With `grades` it is a judge's template, which also has the judge's variables.

    Trailing white space is removed, so that a prompt ends where the choice continues it. Raises RunConfigError with
    file and line for a template that cannot be used.
    """
    name = name or DEFAULTS[mode]
    shipped = built_in()
    if name in shipped:
        text = shipped[name].read_text(encoding="utf-8")
        return Prompt(name=name, text=_checked(text, f"{name}{SUFFIX}", grades=grades))
    if not name.endswith(SUFFIX):
        known = ", ".join(sorted(shipped))
        hint = f"{nearest(name, list(shipped))} Built-in prompts: {known}; a path ends in {SUFFIX}.".strip()
        raise RunConfigError(f"unknown prompt {brief(name)}.", hint=hint)
    return Prompt(name=Path(name).name.removesuffix(SUFFIX), text=_checked(_read(Path(name)), name, grades=grades))


def refuse_blind(prompt: Prompt, mode: Mode, *, with_context: bool, circular: bool) -> None:
    """Raise RunConfigError if the template does not show the model what it is to answer by.

    Without the question, or with labels of choices that the model never saw, answers would be random guesses; passages
    missing from the prompt would have no effect, nor would rotations of choices that it does not show. Yet the figures
    would look normal.
    """
    if "question" not in variables_of(prompt):
        raise RunConfigError(
            f"prompt {prompt.name!r} does not show the question.",
            hint="Add {{ question }} to the template. If a baseline is to hide it, say so there: "
            "{% set hidden = question %}.",
        )
    if mode.scores_labels and not shows_choices(prompt):
        raise RunConfigError(
            f"prompt {prompt.name!r} shows no choices, but mode {mode} asks for the label of one.",
            hint="Set prompt: lettered, or list `choices` in the template; mode likelihood needs none.",
        )
    if circular and not shows_choices(prompt):
        raise RunConfigError(
            f"prompt {prompt.name!r} shows no choices, so circular would ask the same once per choice.",
            hint="Set circular: false, or list `choices` in the template, as the prompt lettered does.",
        )
    if with_context and "context" not in variables_of(prompt):
        raise RunConfigError(
            f"prompt {prompt.name!r} shows no context: retrieved or given passages would not reach the model.",
            hint="Add {% if context %}{{ context }}{% endif %} to the template, or ask without context.",
        )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise RunConfigError(
            f"{path}: no such prompt template.", hint="The path is relative to the current folder."
        ) from None
    except UnicodeDecodeError as trouble:
        raise RunConfigError(f"{path}: byte {trouble.start} is not UTF-8.", hint="Save the file as UTF-8.") from None
    except OSError as trouble:
        raise RunConfigError(
            f"{path}: cannot be read: {trouble.strerror}.", hint="Check the path and its permissions."
        ) from None


def _checked(text: str, shown: str, *, grades: bool) -> str:
    text = text.rstrip()
    if not text:
        raise RunConfigError(f"{shown}: the template is empty.", hint="See producer/prompts/ for one that works.")
    judged = dict.fromkeys(JUDGE_VARIABLES, "some text") if grades else {}
    _refuse_unknown_names(text, shown, [*VARIABLES, *judged])
    prompt = Prompt(name=shown, text=text)
    for context in (None, _TRIAL.context):
        if f"{Choice.__name__}(label=" in render(prompt, _TRIAL, context, **judged):
            raise RunConfigError(
                f"{shown}: choices would be shown as Python prints them: [Choice(label='A', text='…'), …].",
                hint="Show each: {% for choice in choices %}{{ choice.label }}. {{ choice.text }} {% endfor %}",
            )
    return text


def checked_description(text: str) -> str:
    """Return `text` if it is a valid description template. Raises RunConfigError with the line if it is not."""
    _refuse_unknown_names(text, "description", list(DESCRIPTION_VARIABLES))
    describe(text, None)
    return text


def _refuse_unknown_names(text: str, shown: str, known: list[str]) -> None:
    """Raise RunConfigError with the line if `text` is no template, or uses a filter or variable that there is not."""
    try:
        tree = environment().parse(text)
        unknown = meta.find_undeclared_variables(tree) - set(known)  # raises for an unknown filter, too
    except TemplateSyntaxError as trouble:
        raise RunConfigError(
            f"{shown}:{trouble.lineno}: not a Jinja template: {(trouble.message or '').rstrip('.')}.",
            hint="Correct that line.",
        ) from None
    for node in tree.find_all(nodes.Name):
        if node.name in unknown:
            hint = f"{nearest(node.name, known)} Known variables: {', '.join(known)}.".strip()
            raise RunConfigError(f"{shown}:{node.lineno}: unknown variable {node.name!r}.", hint=hint)
