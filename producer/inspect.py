"""`python -m producer inspect`: describes the contents of a question file without enqueuing anything."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import click

from contract.commands import note
from contract.prompts import BETWEEN, all_turns
from contract.question import Question
from contract.spec import RunSpec
from contract.wording import number, percent
from producer.intake.answer_keys import key_warnings
from producer.intake.contradictions import contradiction_warnings
from producer.intake.options import file_argument, how_to_read, reading_options
from producer.intake.profile import MOST_GUESSED, Lengths, Profile
from producer.intake.survey import Inspector
from producer.options import as_json, run_config_options
from producer.output import Lines, echo_json, echo_lines
from producer.question_view import key_shown, rendered_prompts
from producer.readers import opened, understand
from producer.runs.runconfig import NO_QUESTIONS, load_run_config, refuse_free
from producer.session import Session
from producer.tokens import token_counter

__all__ = ["inspect"]

#: Largest number of names that are listed.
MOST_LISTED = 12


@click.command()
@file_argument
@reading_options
@click.option("--model", default="", metavar="NAME", help="Count tokens for this model: a folder, or a hub id.")
@run_config_options("Run configuration to render the questions with, as in configs/runs/.")
@click.option("--show", type=click.IntRange(min=0), default=2, show_default=True, help="Number of questions to render.")
@as_json
@click.pass_obj
def inspect(
    session: Session,
    /,
    file: str,
    model: str,
    config: Path | None,
    overrides: tuple[str, ...],
    show: int,
    as_json: bool,
    **rest: Any,
) -> None:
    """Describe FILE: its layout, counts, answers, lengths, subjects, and a few questions as they would be asked.

    Nothing is written. Bad rows are counted and the first ones listed; the exit code is 0 nonetheless.
    """
    how = how_to_read(rest)
    asked = load_run_config(config, overrides)
    refuse_free(asked)
    # Nobody is asked, so of a deployment's several models none needs to be named; all see the same prompt.
    asked = asked.model_copy(update={"model": asked.model or "any"})
    shown: list[Question] = []
    with opened(file, how) as source:
        spec = asked.to_spec(NO_QUESTIONS, session.settings, asked.texts(source))
        profile = Profile(token_counter(model) if model else None, spec)
        inspector = Inspector(understand(source))
        for question in inspector.questions():
            profile.add(question, _texts(question, spec) if model else ())
            if len(shown) < show:
                shown.append(question)
        if as_json:
            echo_json(_content(inspector, profile, shown, spec))
        else:
            echo_lines(_lines(inspector, profile, shown, spec), verbatim=True)
        _warn(inspector, profile)


def _texts(question: Question, spec: RunSpec) -> list[str]:
    """Return the prompt texts whose tokens are counted, without the role names of chat turns."""
    return [BETWEEN.join(turn.text for turn in turns) for turns in all_turns(question, spec)]


def _content(inspector: Inspector, profile: Profile, shown: list[Question], spec: RunSpec) -> dict[str, Any]:
    file = inspector.file
    return {
        "source": file.source.title,
        "encoding": file.encoding,
        "compression": file.compression,
        **inspector.rows_json(),
        **profile.to_json(),
        "prompts": [rendered_prompts(spec, each)[0] for each in shown],
        "keys": [each.right for each in shown],
    }


def _lines(inspector: Inspector, profile: Profile, shown: list[Question], spec: RunSpec) -> Lines:
    file = inspector.file
    lines = [("file", f"{file.source.title}: {inspector.rows_shown()}")]
    if inspector.troubles.count:
        kinds = "\n".join(inspector.troubles.by_kind())
        lines.append(("bad rows", kinds + "".join(f"\n  {each}" for each in inspector.troubles.shown)))
    if not inspector.good:
        return lines
    lines += [
        ("read", file.describe(profile.keys.choices)),
        ("fields", file.fields.describe()),
        ("answers", _answers(inspector, profile)),
        ("choices", _counted({f"{count} choices": n for count, n in sorted(profile.keys.choices.items())})),
        ("repeated", _repeated(profile)),
        ("subjects", _counted(dict(profile.subjects.most_common())) if profile.subjects else "none named"),
        ("languages", _languages(profile)),
        ("characters", _lengths({"question": profile.question_chars, "choice": profile.choice_chars})),
    ]
    if profile.with_context:
        context = _lengths({"context": profile.context_chars})
        lines.append(("", f"{context}; {number(profile.with_context, 'question')} have one"))
    if profile.tokens_of:
        lines.append(("tokens", _lengths({"prompt": profile.prompt_tokens})))
        needed = f"max_model_len {profile.needed_tokens.longest} or more for the longest prompt and its answer"
        lines.append(("", f"{needed}, plus passages and the chat template"))
    for each in shown:
        lines += [("prompt", f"for {each.id}:\n{rendered_prompts(spec, each)[0]}"), ("key", key_shown(each))]
    return lines


def _answers(inspector: Inspector, profile: Profile) -> str:
    keys = profile.keys
    if not keys.keyed:
        return "no question has a key, so there will be no accuracy"
    answers = sorted(keys.guessing.answers.items())
    shares = " · ".join(f"{label} {percent(count / keys.keyed)} %" for label, count in answers)
    return f"{shares}; {', '.join([f'given {inspector.file.way.value}', *keys.remarks()])}"


def _languages(profile: Profile) -> str:
    of = f" for the first {MOST_GUESSED:,} questions" if profile.questions > MOST_GUESSED else ""
    return f"{_counted(dict(profile.languages.most_common(5)))} (guessed{of})"


def _repeated(profile: Profile) -> str:
    same_texts, exact = profile.same_texts.count(), profile.repeats.count()
    if not same_texts:
        return "no duplicate questions"
    duplicates = f"{number(exact, 'duplicate')} (choices in any order)"
    return f"{duplicates}, {same_texts - exact:,} with other choices or contexts"


def _counted(counts: dict[str, int]) -> str:
    listed = " · ".join(f"{name} {count:,}" for name, count in islice(counts.items(), MOST_LISTED))
    return listed + (f" · and {len(counts) - MOST_LISTED:,} more" if len(counts) > MOST_LISTED else "")


def _lengths(lengths: dict[str, Lengths]) -> str:
    return "\n".join(
        f"{name}: " + " · ".join(f"{part.upper()} {value:,}" for part, value in each.to_json().items())
        for name, each in lengths.items()
    )


def _warn(inspector: Inspector, profile: Profile) -> None:
    for warning in key_warnings(profile.keys, placed=True):
        note(warning)
    if inspector.file.doubt:
        note(inspector.file.doubt)
    for warning in profile.oddities.warnings(profile.spec) + contradiction_warnings(profile.repeats, inspector.file):
        note(warning)
    if inspector.troubles.count:
        bad = number(inspector.troubles.count, "row")
        note(f"warning: {bad} cannot be asked; enqueue refuses the file unless --skip-bad is given.")
