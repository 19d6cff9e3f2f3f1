"""Oddities of questions are counted for prompts without choices, too, as callers of the HTTP server send them."""

from __future__ import annotations

from dataclasses import asdict

from contract import Question
from producer.intake.oddities import Oddities


def test_a_prompt_without_choices_has_nothing_odd_about_them() -> None:
    found = Oddities()
    found.add(Question(id="p", question="Say something.", choices=()))
    assert not any(asdict(found).values())
