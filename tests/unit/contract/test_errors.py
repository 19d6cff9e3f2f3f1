"""What a person reads when something is wrong."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from contract import errors
from contract.errors import McqueueError, QuestionFileError, nearest


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "quiz.json: found nothing."),
        ({"line": 7}, "quiz.json:7: found nothing."),
        ({"field": "answer"}, "quiz.json: field 'answer': found nothing."),
        ({"line": 7, "field": "answer"}, "quiz.json:7: field 'answer': found nothing."),
        ({"line": 7, "field": "answer", "hint": "Add one."}, "quiz.json:7: field 'answer': found nothing. Add one."),
        ({"line": 1, "hint": "Add one."}, "quiz.json:1: found nothing. Add one."),
    ],
)
def test_a_bad_row_is_told_with_file_line_field_and_remedy(given: dict[str, Any], expected: str) -> None:
    trouble = QuestionFileError("found nothing.", path=Path("quiz.json"), **given)
    assert str(trouble) == expected
    assert (trouble.message, trouble.path) == ("found nothing.", "quiz.json")


def test_an_error_is_its_message_and_its_hint() -> None:
    assert str(McqueueError("It broke.")) == "It broke."
    assert str(McqueueError("It broke.", hint="Mend it.")) == "It broke. Mend it."


def family() -> dict[str, type[McqueueError]]:
    classes = inspect.getmembers(errors, inspect.isclass)
    return {name: each for name, each in classes if issubclass(each, McqueueError)}


def test_the_drawn_tree_shows_every_error_below_its_parent_and_says_which_can_be_retried() -> None:
    drawn = {}
    path: list[str] = []
    for line in inspect.cleandoc(errors.__doc__ or "").splitlines():
        name = line.lstrip(" │├└─").split(" ", maxsplit=1)[0]
        if name in family():
            depth = (len(line) - len(line.lstrip(" │├└─"))) // 4
            path[depth - 1 :] = [name]
            drawn[name] = (path[-2] if len(path) > 1 else None, "retryable" in line)
    parents = {name: each.__mro__[1].__name__ for name, each in family().items()}
    actual = {
        name: (parents[name] if name != "McqueueError" else None, each.retryable) for name, each in family().items()
    }
    assert drawn == actual


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        ("batchsize", ["batch_size", "batch_timeout"], "Did you mean 'batch_size'?"),
        ("delimeter", {"delimiter": 1, "mode": 2}, "Did you mean 'delimiter'?"),
        ("xyz", ["batch_size"], ""),
        ("anything", [], ""),
    ],
)
def test_the_nearest_known_word_is_offered_if_there_is_a_near_one(
    word: str, known: dict[str, object] | list[str], expected: str
) -> None:
    assert nearest(word, known) == expected
