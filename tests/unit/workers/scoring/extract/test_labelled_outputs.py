"""The table in tests/data/extraction.tsv says what a careful reader reads."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import NamedTuple

import pytest

from tests.support import ROOT
from tests.unit.workers.scoring.extract.extracting import label
from workers.scoring.extract import extract


class Row(NamedTuple):
    """One labelled output of the table."""

    text: str
    choices: list[str]
    expected: str | None
    failure_class: str


def _row(line: str) -> Row:
    text, choices, expected, failure_class = line.split("\t")
    unescaped = re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t", "\\": "\\"}[found[1]], text)
    return Row(unescaped, json.loads(choices), expected or None, failure_class)


TABLE = [
    _row(line) for line in (ROOT / "tests/data/extraction.tsv").read_text(encoding="utf-8").rstrip("\n").split("\n")[1:]
]

CLASSES = sorted({row.failure_class for row in TABLE})


def test_the_table_is_large_enough_to_mean_something() -> None:
    chains = [row for row in TABLE if row.failure_class == "chain-of-thought"]
    assert len(TABLE) >= 250
    assert sum(row.expected is None for row in TABLE) >= 60
    assert sum(row.text.count("\n") >= 2 for row in chains) >= 40
    assert Counter((row.text, *row.choices) for row in TABLE).most_common(1)[0][1] == 1, "a row stands there twice"


@pytest.mark.parametrize("failure_class", CLASSES)
def test_no_output_of_this_class_is_read_as_a_choice_that_it_does_not_name(failure_class: str) -> None:
    """A wrong label is worse than none: there may not be one."""
    read = [(row, extract(row.text, row.choices)) for row in TABLE if row.failure_class == failure_class]
    wrong = [f"{row.text!r}: {found}" for row, found in read if found.label not in {None, row.expected}]
    assert not wrong, "\n".join(wrong)


def test_of_all_outputs_at_least_99_in_100_are_read_right() -> None:
    missed = [row for row in TABLE if label(row.text, tuple(row.choices)) != row.expected]
    print("\n".join(f"{row.failure_class}: {row.text!r} is {row.expected}" for row in missed))  # noqa: T201
    assert len(missed) <= len(TABLE) / 100
