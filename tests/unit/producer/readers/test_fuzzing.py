"""Damaged and made-up question files: refused or read, and nothing in between. Longer: benchmarks/fuzz_readers.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import fuzz_readers
from benchmarks.fuzz_readers import check, damaged
from producer.readers import Source, understand
from producer.runs.planning import plan

#: Names that mean something to the readers, so that the values under them are looked at.
NAMES = st.sampled_from(
    [
        *("id", "question", "stem", "input", "choices", "options", "answers", "A", "B", "opa", "opb", "cop", "answer"),
        *("answerKey", "label", "context", "text", "gold", "metadata", "mc1_targets", "target_scores", "passage"),
        *("final_decision", "correct_answer", "distractor1", "instruction", "subject"),
    ]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
#: Two at least: one object alone may be a question, or hold some.
ROWS = st.lists(st.dictionaries(NAMES, VALUES, max_size=6), min_size=2, max_size=5)


@pytest.mark.parametrize("block", range(4))
def test_a_damaged_file_is_refused_or_read_and_leaves_nothing_half_done(tmp_path: Path, block: int) -> None:
    outcomes = {number: check(tmp_path, damaged(2024, number)) for number in range(block * 100, block * 100 + 100)}

    assert {number: each for number, each in outcomes.items() if each.startswith("FAILED")} == {}
    assert {"refused", "enqueued", "enqueued without its bad rows"} <= set(outcomes.values())


def test_a_file_that_is_read_differently_a_second_time_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b'{"question": "Which is a colour?", "choices": ["red", "seven"], "answer": "A"}\n'
    assert check(tmp_path, content) == "enqueued"

    def changed(source: Source, *more: Any, **named: Any) -> object:
        planned = plan(source, *more, **named)
        source.path.write_bytes(content.replace(b"red", b"blue"))
        return planned

    monkeypatch.setattr(fuzz_readers, "plan", changed)
    assert check(tmp_path, content) == "FAILED: it is read differently a second time"


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=ROWS, as_list=st.booleans())
def test_whatever_stands_in_the_fields_every_row_is_accounted_for(
    tmp_path: Path, rows: list[dict[str, Any]], as_list: bool
) -> None:
    path = tmp_path / "q"
    path.write_text(json.dumps(rows) if as_list else "".join(json.dumps(each) + "\n" for each in rows))

    found = list(understand(Source(path, "q")).rows())

    assert len(found) == len(rows)
    assert all((row.question is None) != (row.trouble is None) for row in found)
