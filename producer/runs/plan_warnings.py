"""Warnings about what is probably unintended in a run that is about to be submitted."""

from __future__ import annotations

import json
import re
import shlex

from contract.prompts import render, shows_choices
from contract.spec import ChatTemplate, ExampleSelection
from contract.wording import number
from producer.intake.answer_keys import key_warnings
from producer.intake.contradictions import contradiction_warnings
from producer.runs.planning import Plan

__all__ = ["plan_warnings"]

#: Number of examples from which a warning says that all of them are stored with the run.
MANY_EXAMPLES = 5_000
#: Number of examples from which it is no accident that the right choice is in the same place in all of them.
MANY_ALIKE = 3
#: The built-in prompt that asks for reasoning.
REASONED = "reasoned"
#: A warning says so if the share of right answers in one position exceeds that of an even distribution by this much.
MOST_UNEVEN = 0.05
#: Characters, besides letters and digits, that a space follows in English and similar languages. Full-width ones, as in
#: `答案：`, need none.
SPACED = ".:;,?!"


def plan_warnings(planned: Plan) -> list[str]:
    """Return the warnings about the configuration and the questions; the file may be read again for them."""
    return [
        *_delimiter_warnings(planned),
        *_label_warnings(planned),
        *_example_warnings(planned),
        *_question_warnings(planned),
    ]


def _delimiter_warnings(planned: Plan) -> list[str]:
    """Return a warning if a choice would follow the words before it without a space."""
    spec, digest = planned.spec, planned.survey.digest
    what = "label" if spec.mode.scores_labels else "choice"
    if re.search(r"\w", spec.delimiter) and not spec.mode.writes:
        return [
            f"delimiter has words, so they are scored with each {what}: put them into answer_prefix, and leave to"
            f" delimiter what separates a {what} from words."
        ]
    end = (spec.delimiter or spec.answer_prefix or spec.prompt.text)[-1]
    spaced = end.isascii() and (end.isalnum() or end in SPACED)
    own_space = spec.mode.scores_choices and digest.oddities.begin_blank == digest.count
    if spec.mode.writes or not spaced or own_space:
        return []
    if spec.delimiter:
        spaced_out = json.dumps(f"{spec.delimiter} ", ensure_ascii=False)  # which is YAML, too
        quoted = shlex.quote(f"delimiter={spaced_out}")
        return [
            f"delimiter ends in {end!r}, so a {what} follows it without a space: --set takes a value without the white"
            f" space around it. In quotes, it stays: --set {quoted}."
        ]
    if spec.answer_prefix:
        return [
            f"delimiter is empty and answer_prefix ends in {end!r}, so a {what} follows it without a space: leave"
            " delimiter out, unless the choices begin with a space."
        ]
    if spec.chat_template is not ChatTemplate.NEVER:  # it begins the model's turn
        return []
    return [
        f"delimiter is empty and the prompt ends in {end!r}, so a {what} follows it without a space: white space at the"
        " end of a template is removed. Leave delimiter out, unless the choices begin with a space."
    ]


def _label_warnings(planned: Plan) -> list[str]:
    """Return a warning if labels are scored that the first question's prompt does not show, as where it has 1, 2, 3."""
    spec, first = planned.spec, planned.survey.digest.first
    if first is None or not spec.mode.scores_labels:
        return []
    shown = render(spec.prompt, first, first.context if spec.use_context_field else None)
    # Beside a letter of another script, as in `选项A：`, it is a label all the same.
    unseen = [each for each in first.labels if not re.search(rf"(?<![^\W_]){each}(?![^\W_])", shown, re.ASCII)]
    if not unseen:
        return []
    return [
        f"prompt {spec.prompt.name!r} does not show the label {unseen[0]}, but mode {spec.mode} scores it: show"
        ' {{ choice.label }} with each choice. Other labels than A to Z: docs/questions.md, "Other labels".'
    ]


def _example_warnings(planned: Plan) -> list[str]:
    few_shot = planned.spec.few_shot
    if few_shot is None:
        return []
    found: list[str] = []
    if len(few_shot.pool) >= MANY_EXAMPLES:
        found.append(
            f"few_shot.file has {len(few_shot.pool):,} examples. All of them are stored with the run and read by every"
            " command that opens it: a few hundred are enough."
        )
    shown = few_shot.pool[: few_shot.k] if few_shot.selection is ExampleSelection.FIXED else few_shot.pool
    keys = {each.answer for each in shown}
    if len(keys) == 1 and few_shot.k >= MANY_ALIKE and shows_choices(planned.spec.prompt):
        found.append(
            f"few_shot: in all {number(len(shown), 'example')}, the right answer is {keys.pop()}, which the model may"
            " repeat whatever it is asked. Put the right choice elsewhere in some of few_shot.file; shuffle does not"
            " move choices of examples."
        )
    read = planned.spec.mode.read_by_rules  # in other modes, no text is written, or examples cannot show reasoning
    if read and not few_shot.rationale and planned.spec.prompt.name == REASONED:
        found.append(
            "few_shot: the prompt asks for reasoning, but its examples answer with a letter alone, and the model will"
            " do the same. Name the examples' reasoning field in few_shot.rationale, or set prompt: lettered."
        )
    return found


def _question_warnings(planned: Plan) -> list[str]:
    spec, file, digest = planned.spec, planned.survey.file, planned.survey.digest
    found = [file.doubt] if file.doubt else []
    found += [f"--subject {name}: no question has it. {hint}" for name, hint in planned.survey.absent.items()]
    if digest.count and not digest.keys.keyed:
        found.append(
            "no question has a key, so there will be no accuracy: --map answer=FIELD names the field that holds it,"
            " --answers FILE a file with one answer per line"
        )
    if (sample := planned.taken.sample) and digest.count < sample:
        found.append(f"--sample {sample:,}: only {number(digest.count, 'question')} available; all of them are asked")
    if digest.with_context and not spec.use_context_field:
        told = f"{number(digest.with_context, 'question')} with a context, which the model is not shown"
        why, instead = (", as the run retrieves", " instead of passages") if spec.rag else ("", "")
        found.append(f"{told}{why}: --set rag.use_context_field=true shows it{instead}")
    if spec.use_context_field and not digest.with_context:
        unused = f" (not used: {file.fields.listed_unused()})" if file.fields.unused else ""
        found.append(
            "no question has a context, which rag.use_context_field=true would show: --map context=FIELD names its"
            f" field{unused}"
        )
    found += digest.oddities.warnings(spec) + planned.choice_references.warnings()
    found += contradiction_warnings(digest.repeats, file)
    if spec.mode.chooses:
        placed = shows_choices(spec.prompt) and not spec.reorders
        found += key_warnings(digest.keys, placed=placed, least=MOST_UNEVEN)
    return found
