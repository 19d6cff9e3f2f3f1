"""Questions and verdicts as hypothesis makes them up: any Unicode, any number that fits."""

from __future__ import annotations

import string

from hypothesis import strategies as st

from contract import Failure, Outcome, Passage, Question, Verdict
from contract.question import LABELS, MAX_CHOICES, MIN_CHOICES

text = st.text()
#: Text with something to see in it.
words = st.text(min_size=1).filter(str.strip)
ids = st.text(st.characters(codec="utf-8", min_codepoint=0x20), min_size=1, max_size=200)
finite = st.floats(allow_nan=False, allow_infinity=False)
durations = st.floats(min_value=0.0, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers() | finite | text


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """Any question that can be asked."""
    choices = draw(st.lists(words, min_size=MIN_CHOICES, max_size=MAX_CHOICES))
    right = sorted(draw(st.sets(st.sampled_from(LABELS[: len(choices)]), max_size=3)))
    return Question(
        id=draw(ids),
        question=draw(words),
        choices=tuple(choices),
        answer=right[0] if right else None,
        also_right=tuple(right[1:]),
        subject=draw(st.none() | text),
        context=draw(st.none() | text),
        metadata=draw(st.dictionaries(text, scalars, max_size=4)),
    )


@st.composite
def verdicts(draw: st.DrawFn) -> Verdict:
    """Any verdict; scores may be NaN or infinite, as those of a broken model are."""
    label = st.sampled_from(string.ascii_uppercase)
    number = st.none() | st.floats()
    passages = st.builds(Passage, id=text, score=st.floats(), text=text)
    return Verdict(
        question_id=draw(ids),
        outcome=draw(st.sampled_from(Outcome)),
        choice=draw(st.none() | label),
        choice_scores=draw(st.dictionaries(label, st.floats(), max_size=5)),
        confidence=draw(number),
        margin=draw(number),
        label_mass=draw(number),
        raw_text=draw(text),
        rule=draw(text),
        passages=tuple(draw(st.lists(passages, max_size=2))),
        retrieval_hit=draw(st.none() | st.booleans()),
        truncated=draw(st.booleans()),
        rotation_choices=tuple(draw(st.lists(st.none() | label, max_size=4))),
        prompt_tokens=draw(st.integers(0)),
        attempts=draw(st.integers(0, 9)),
        error=draw(st.none() | st.builds(Failure, type=text, message=text)),
        queued_ms=draw(durations),
        latency_ms=draw(durations),
    )
