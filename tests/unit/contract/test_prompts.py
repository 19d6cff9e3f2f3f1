"""What the model is shown."""

from __future__ import annotations

import pytest

from contract import Mode, Prompt
from contract.errors import RunConfigError
from contract.prompts import render
from producer.runs.templates import built_in, load_prompt
from tests.support import make_question

QUESTION = make_question(1, question="Is 1 < 2 & 3 > 2?", choices=("yes", "<b>no</b>"), answer="A")


def test_question_and_choices_are_shown_as_they_are_written() -> None:
    prompt = Prompt(
        name="t", text="{{ question }}{% for each in choices %}\n{{ each.label }}. {{ each.text }}{% endfor %}"
    )
    assert render(prompt, QUESTION, None) == "Is 1 < 2 & 3 > 2?\nA. yes\nB. <b>no</b>"


def test_braces_in_a_question_are_text_and_not_a_template() -> None:
    question = make_question(1, question="What is {{ 7 * 7 }}?")
    assert render(Prompt(name="t", text="{{ question }}"), question, None) == "What is {{ 7 * 7 }}?"


@pytest.mark.parametrize("name", sorted(set(built_in()) - {"grade"}))
def test_every_shipped_prompt_shows_the_context_it_is_given_and_no_other(name: str) -> None:
    prompt = load_prompt(name, Mode.LIKELIHOOD)
    question = make_question(1, context="kept to itself")
    assert render(prompt, question, "Water boils.").startswith("Context: Water boils.\n")
    without = render(prompt, question, None)
    assert "Context" not in without
    assert "kept to itself" not in without


@pytest.mark.parametrize(
    ("name", "expected"), [("question", "Question: \n Why? \nAnswer:"), ("lettered", "Why?\nA.  so\nB. thus\nAnswer:")]
)
def test_white_space_around_a_question_is_left_out_where_lm_evaluation_harness_does_so(
    name: str, expected: str
) -> None:
    question = make_question(1, question="\n Why? ", choices=(" so", "thus"), answer="A")
    assert render(load_prompt(name, Mode.LIKELIHOOD), question, None) == expected, "MMLU's tasks do, ARC's do not"


def test_no_shipped_prompt_ends_in_white_space() -> None:
    texts = [load_prompt(name, Mode.LIKELIHOOD, grades=name == "grade").text for name in built_in()]
    assert len(texts) >= 2
    assert [text for text in texts if text != text.rstrip()] == []


def test_the_templates_own_white_space_reaches_the_model() -> None:
    assert render(Prompt(name="t", text=" {{ question }}\n\n"), make_question(1, question="Q"), None) == " Q\n\n"


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("{{ questoin }}", "'questoin' is undefined"),
        ("{{ question.text }}", "has no attribute 'text'"),
        ("{{ choices[5].text }}", "has no element 5"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ question|truncate(2) }}", "expected length >= 3, got 2"),
        ("{{ question", "unexpected end of template"),
        ("{{ question.__class__.__mro__ }}", "unsafe"),
        ("{{ (choices|random).text }}", "the filter random would make another prompt each time"),
    ],
)
def test_a_template_that_cannot_be_rendered_is_refused_with_its_name_and_the_question(text: str, trouble: str) -> None:
    with pytest.raises(RunConfigError) as caught:
        render(Prompt(name="mine", text=text), QUESTION, None)
    message = str(caught.value)
    assert message.startswith("prompt 'mine' cannot be rendered for question 'q1': ")
    assert trouble in message
    assert message.endswith("A template may use question, choices, context, subject; each choice has .label and .text.")
